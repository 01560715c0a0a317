//! Figures about the machine and about other processes, read from `/proc`.

use std::fs::{read_dir, read_to_string};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process;
use crate::trouble::{Context as _, Trouble};

/// File that makes the kernel drop its caches.
const DROP: &str = "/proc/sys/vm/drop_caches";

/// Pause in which the host takes back freed memory: Linux reports free memory to its host after 2
/// s.
const SETTLING: Duration = Duration::from_secs(5);

/// Writes all data to the disk, and pauses. The host of a virtual machine takes back memory that
/// was freed, and returns it page by page, which can take longer than a measurement. So
/// measurements that write much, and measurements that are compared with them, begin after this
/// pause.
pub(crate) fn settle() {
    rustix::fs::sync();
    sys::clock::sleep(SETTLING);
}

/// Writes all data to the disk, and drops the kernel's caches of files and directories. Needs root.
pub(crate) fn drop_caches() -> Result<(), Trouble> {
    process::check_interrupted()?;
    // The kernel drops only pages that were written to the disk.
    rustix::fs::sync();
    std::fs::write(DROP, "3\n").while_doing(|| format!("drop the caches with {DROP}"))
}

/// The machine on which the figures were measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) memory_bytes: u64,
}

impl Machine {
    pub(crate) fn read() -> Self {
        let memory = read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            cores: sys::process::processors(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            memory_bytes: kib_field(&memory, "MemTotal:").unwrap_or(0),
        }
    }

    /// Returns the part of a JSON document about the machine, with the load before and after.
    pub(crate) fn document(&self, load_before: &str, load_after: &str) -> Value {
        json!({
            "cores": self.cores,
            "kernel": self.kernel,
            "memory_bytes": self.memory_bytes,
            "load_before": load_before,
            "load_after": load_after,
        })
    }
}

/// Returns the three load averages, as the kernel prints them.
pub(crate) fn load() -> String {
    let text = read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Returns the processor time that the whole machine has used. It includes the time that a
/// hypervisor gave to other machines.
pub(crate) fn cpu_of_all() -> Result<Duration, Trouble> {
    let text = read_to_string("/proc/stat").while_doing(|| "read /proc/stat".to_owned())?;
    busy_ticks(&text)
        .map(ticks)
        .ok_or_else(|| Trouble::new("/proc/stat has an unexpected format"))
}

/// Returns the bytes that the kernel has written to files for the process `pid`.
pub(crate) fn written_by(pid: u32) -> Result<u64, Trouble> {
    let path = format!("/proc/{pid}/io");
    let text = read_to_string(&path).while_doing(|| format!("read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes:"));
    line.and_then(|bytes| bytes.trim().parse().ok())
        .ok_or_else(|| Trouble::new(format!("{path} has no write_bytes")))
}

/// Returns the processor time of all threads of the process `pid`. The kernel counts it in ticks.
pub(crate) fn cpu_of(pid: u32) -> Result<Duration, Trouble> {
    let path = format!("/proc/{pid}/stat");
    let text = read_to_string(&path).while_doing(|| format!("read {path}"))?;
    own_ticks(&text)
        .map(ticks)
        .ok_or_else(|| Trouble::new(format!("{path} has an unexpected format")))
}

/// Returns the peak of the resident memory of the process `pid`.
pub(crate) fn peak_memory_of(pid: u32) -> Result<u64, Trouble> {
    memory_field(pid, "VmHWM:")
}

/// Returns the resident memory of the process `pid`.
pub(crate) fn memory_of(pid: u32) -> Result<u64, Trouble> {
    memory_field(pid, "VmRSS:")
}

fn memory_field(pid: u32, name: &str) -> Result<u64, Trouble> {
    let path = format!("/proc/{pid}/status");
    let text = read_to_string(&path).while_doing(|| format!("read {path}"))?;
    kib_field(&text, name).ok_or_else(|| Trouble::new(format!("{path} has no {name}")))
}

/// Resident memory of a process, by where its content is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ResidentMemory {
    /// Memory whose content is in no file.
    pub(crate) anonymous_bytes: u64,
    /// Pages of mapped files, including files on a tmpfs.
    pub(crate) mapped_bytes: u64,
}

impl ResidentMemory {
    /// Returns the resident memory of the process `pid`. A process that has ended has none.
    pub(crate) fn of(pid: u32) -> Self {
        let status = read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        Self::parse(&status)
    }

    fn parse(status: &str) -> Self {
        let field = |name| kib_field(status, name).unwrap_or(0);
        Self {
            anonymous_bytes: field("RssAnon:"),
            mapped_bytes: field("RssFile:") + field("RssShmem:"),
        }
    }

    /// Returns the greater value of each kind.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            anonymous_bytes: self.anonymous_bytes.max(other.anonymous_bytes),
            mapped_bytes: self.mapped_bytes.max(other.mapped_bytes),
        }
    }
}

/// Returns the number of times that the threads of the process `pid` have given their processors
/// away. A thread that ends takes its number along.
pub(crate) fn switches_of(pid: u32) -> Result<u64, Trouble> {
    let folder = format!("/proc/{pid}/task");
    let threads = read_dir(&folder).while_doing(|| format!("list {folder}"))?;
    // A thread may have ended since it was listed.
    let statuses = threads
        .flatten()
        .flat_map(|thread| read_to_string(thread.path().join("status")));
    Ok(statuses.map(|status| switches(&status)).sum())
}

fn switches(status: &str) -> u64 {
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    field("voluntary_ctxt_switches:").unwrap_or(0)
}

/// Returns the number of bytes that programs can still allocate before the kernel must free memory.
pub(crate) fn free_memory() -> Result<u64, Trouble> {
    let path = "/proc/meminfo";
    let text = read_to_string(path).while_doing(|| format!("read {path}"))?;
    let message = || format!("{path} has no MemAvailable");
    kib_field(&text, "MemAvailable:").ok_or_else(|| Trouble::new(message()))
}

/// Returns the number of bytes that the files below `path` take: their sizes, without holes and
/// without space that is only reserved.
pub(crate) fn bytes_below(path: &Path) -> Result<u64, Trouble> {
    use std::os::unix::fs::MetadataExt as _;
    let describe = || format!("measure {}", path.display());
    let metadata = std::fs::symlink_metadata(path).while_doing(describe)?;
    if !metadata.is_dir() {
        return Ok(metadata.len().min(metadata.blocks() * 512));
    }
    let mut bytes = 0;
    for entry in read_dir(path).while_doing(describe)? {
        bytes += bytes_below(&entry.while_doing(describe)?.path())?;
    }
    Ok(bytes)
}

fn ticks(count: u64) -> Duration {
    let per_sec = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_micros(count.saturating_mul(1_000_000) / per_sec)
}

/// Adds up user, nice, system, irq, softirq and steal. The time of guests is part of user.
fn busy_ticks(stat: &str) -> Option<u64> {
    let fields: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).flat_map(str::parse).collect();
    let busy = [0, 1, 2, 5, 6, 7];
    busy.iter().map(|&index| fields.get(index)).sum()
}

/// Adds up utime and stime, fields 14 and 15. Field 2, in brackets, may contain any bytes.
fn own_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Returns the value of the field `name`, which the kernel writes in `kB`, in bytes.
fn kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_leaves_out_idle_waiting_and_guests() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 2000 8 16 32 5000 5000\ncpu0 1\n"), Some(63));
        assert_eq!(busy_ticks("cpu  1 2\n"), None);
        assert_eq!(busy_ticks(""), None);
    }

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0";
        assert_eq!(own_ticks(stat), Some(42));
        assert_eq!(own_ticks("7 (a"), None);
    }

    #[test]
    fn a_thread_that_sleeps_gives_its_processor_away() {
        let before = switches_of(std::process::id()).unwrap();
        sys::clock::sleep(Duration::from_millis(20));
        assert!(switches_of(std::process::id()).unwrap() > before);
        let status = "voluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(switches(status), 17);
        assert_eq!(switches(""), 0);
    }

    #[test]
    fn this_process_has_memory_and_time() {
        assert!(peak_memory_of(std::process::id()).unwrap() > 100 << 10);
        cpu_of(std::process::id()).unwrap();
        written_by(std::process::id()).unwrap();
        assert!(cpu_of_all().unwrap() > Duration::ZERO);
        assert!(Machine::read().memory_bytes > 1 << 20);
    }

    #[test]
    fn memory_is_anonymous_or_of_a_file() {
        let status = "VmRSS:\t  60 kB\nRssAnon:\t  10 kB\nRssFile:\t  20 kB\nRssShmem:\t  30 kB\n";
        let resident = ResidentMemory::parse(status);
        assert_eq!(resident, ResidentMemory { anonymous_bytes: 10 << 10, mapped_bytes: 50 << 10 });
        assert_eq!(ResidentMemory::parse(""), ResidentMemory::default());
        let other = ResidentMemory { anonymous_bytes: 1 << 20, mapped_bytes: 1 };
        let most = ResidentMemory { anonymous_bytes: 1 << 20, mapped_bytes: 50 << 10 };
        assert_eq!(resident.max(other), most);
        let own = ResidentMemory::of(std::process::id());
        assert!(own.anonymous_bytes > 0 && own.mapped_bytes > 0, "{own:?}");
    }

    #[test]
    fn holes_take_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("data"), [1_u8; 10]).unwrap();
        std::fs::File::create(dir.path().join("hole"))
            .unwrap()
            .set_len(1 << 30)
            .unwrap();
        assert_eq!(bytes_below(dir.path()), Ok(10));
    }
}

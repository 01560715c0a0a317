//! The machine: what it is, and what disturbs a measurement on it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Instructions that make encryption, digests or compression faster, by the names of the kernel
/// (x86 and ARM).
const INSTRUCTIONS: [&str; 13] = [
    "aes",
    "vaes",
    "pclmulqdq",
    "vpclmulqdq",
    "pmull",
    "sha_ni",
    "sha2",
    "avx2",
    "avx512f",
    "avx512bw",
    "asimd",
    "sve",
    "bmi2",
];

/// Folder in which the kernel shows control groups (version 2).
const GROUPS: &str = "/sys/fs/cgroup";

/// Share of stolen processor time, in per cent, from which a report says so.
const STEAL_PER_CENT_MIN: f64 = 1.0;

/// The machine, as its kernel describes it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    pub kernel: String,
    /// Model of the first processor; empty if the kernel does not say.
    pub processor: String,
    /// Number of processors that this process may use.
    pub processors: u32,
    /// Instructions of the processor that make parts of a backup faster.
    pub instructions: BTreeSet<String>,
    pub memory_bytes: u64,
    /// Memory that programs can get without swapping, when the measurement began.
    pub memory_available_bytes: u64,
}

impl Host {
    /// Describes this machine. What the kernel does not tell is empty or 0.
    pub fn describe() -> Self {
        let processor = read("/proc/cpuinfo");
        let memory = read("/proc/meminfo");
        Self {
            name: sys::net::host_name(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: processor_model(&processor),
            processors: u32::try_from(sys::process::processors()).unwrap_or(u32::MAX),
            instructions: instructions(&processor),
            memory_bytes: memory_field(&memory, "MemTotal:"),
            memory_available_bytes: memory_field(&memory, "MemAvailable:"),
        }
    }

    /// Returns true if the processor encrypts AES by instructions of its own.
    pub fn has_aes(&self) -> bool {
        self.instructions.contains("aes") || self.instructions.contains("vaes")
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the value of the first line of `/proc/cpuinfo` with one of the names that describe a
/// processor.
fn processor_model(cpuinfo: &str) -> String {
    let names = ["model name", "Hardware", "cpu model", "Processor"];
    let value = |name: &str| field(cpuinfo, name).map(str::to_owned);
    names.into_iter().find_map(value).unwrap_or_default()
}

fn instructions(cpuinfo: &str) -> BTreeSet<String> {
    let all = field(cpuinfo, "flags")
        .or_else(|| field(cpuinfo, "Features"))
        .unwrap_or_default();
    let all: BTreeSet<&str> = all.split_ascii_whitespace().collect();
    INSTRUCTIONS
        .into_iter()
        .filter(|name| all.contains(name))
        .map(str::to_owned)
        .collect()
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// Returns a field of `/proc/meminfo` in bytes; 0 if it is missing.
fn memory_field(meminfo: &str, name: &str) -> u64 {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kib = value.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0);
    kib.saturating_mul(1024)
}

/// Counters of what takes processors away from this machine. They only grow.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counters {
    /// Time of all processors, in ticks.
    ticks: u64,
    /// Time in which the host of a virtual machine ran something else, in ticks.
    stolen_ticks: u64,
    /// Number of times that a processor slowed down because it was hot.
    hot: u64,
    /// Times in which the control group and those around it had used up their shares, added up, in
    /// microseconds.
    held_back_micros: u64,
}

impl Counters {
    fn read() -> Self {
        let (ticks, stolen_ticks) = ticks(&read("/proc/stat"));
        let groups = groups(&read("/proc/self/cgroup"));
        let held_back = groups.iter().map(|group| {
            let cpu_stat = fs::read_to_string(group.join("cpu.stat"));
            held_back_micros(&cpu_stat.unwrap_or_default())
        });
        Self {
            ticks,
            stolen_ticks,
            hot: hot_count(),
            // The largest counter may be that of a group whose limit is not reached now.
            held_back_micros: held_back.sum(),
        }
    }
}

/// Returns the time of all processors and the stolen part of it, from `/proc/stat`.
fn ticks(stat: &str) -> (u64, u64) {
    let line = stat.lines().next().unwrap_or_default();
    let fields = line.split_ascii_whitespace().skip(1);
    let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; the time of guests after it is in user.
    let counted = &fields[..fields.len().min(8)];
    (counted.iter().sum(), fields.get(7).copied().unwrap_or(0))
}

fn hot_count() -> u64 {
    let folders = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let count = |folder: fs::DirEntry| {
        let count = folder.path().join("thermal_throttle/core_throttle_count");
        fs::read_to_string(count).ok()?.trim().parse::<u64>().ok()
    };
    folders.filter_map(count).sum()
}

/// Returns the folders of this process's control group and of those around it. `own` is the text of
/// `/proc/self/cgroup`; in a container, it names the group as the container sees it.
///
/// Source: Linux, `Documentation/admin-guide/cgroup-v2.rst`.
fn groups(own: &str) -> Vec<PathBuf> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    Path::new(own).ancestors().map(|group| Path::new(GROUPS).join(group)).collect()
}

fn held_back_micros(cpu_stat: &str) -> u64 {
    let value = cpu_stat.lines().find_map(|line| line.strip_prefix("throttled_usec "));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// Disturbances of the processors while the measurement ran.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Strain {
    /// Share of the processors' time that the host of this virtual machine gave to others.
    pub stolen_per_cent: f64,
    /// Number of times that a processor slowed down because it was hot.
    pub hot: u64,
    /// Time in which the control group of this process had used up its share.
    pub held_back_secs: f64,
}

impl Strain {
    /// Returns a sentence for each disturbance that makes the figures doubtful.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.stolen_per_cent >= STEAL_PER_CENT_MIN {
            remarks.push(format!(
                "The host of this virtual machine took {:.0} % of the processors' time while this \
                 ran; the rates of the processors are lower for it.",
                self.stolen_per_cent
            ));
        }
        if self.hot > 0 {
            remarks.push(format!(
                "A processor was hot and slowed down {} times while this ran.",
                self.hot
            ));
        }
        if self.held_back_secs > 0.1 {
            remarks.push(format!(
                "The control group's limit of processor time held this process back for {:.1} s.",
                self.held_back_secs
            ));
        }
        remarks
    }
}

/// Watch over what disturbs a measurement.
pub(crate) struct StrainWatch(Counters);

impl StrainWatch {
    pub(crate) fn start() -> Self {
        Self(Counters::read())
    }

    pub(crate) fn end(&self) -> Strain {
        strain(self.0, Counters::read())
    }
}

fn strain(before: Counters, after: Counters) -> Strain {
    let grown = |of: fn(&Counters) -> u64| of(&after).saturating_sub(of(&before));
    let ticks = crate::to_f64(grown(|counters| counters.ticks));
    let stolen = crate::to_f64(grown(|counters| counters.stolen_ticks));
    Strain {
        stolen_per_cent: if ticks > 0.0 { 100.0 * stolen / ticks } else { 0.0 },
        hot: grown(|counters| counters.hot),
        held_back_secs: crate::to_f64(grown(|counters| counters.held_back_micros)) / 1e6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_described_as_its_kernel_does() {
        let x86 = "processor\t: 0\nmodel name\t: AMD EPYC 9B45\nflags\t\t: fpu aes avx2 vaes\n";
        assert_eq!(processor_model(x86), "AMD EPYC 9B45");
        assert_eq!(instructions(x86).into_iter().collect::<Vec<_>>(), ["aes", "avx2", "vaes"]);
        let arm = "processor\t: 0\nFeatures\t: fp asimd aes pmull sha2\n";
        assert_eq!(processor_model(arm), "");
        assert!(instructions(arm).contains("pmull"));
        assert!(instructions("").is_empty());
    }

    #[test]
    fn memory_is_in_bytes() {
        let text = "MemTotal:       24099388 kB\nMemAvailable:   23041440 kB\n";
        assert_eq!(memory_field(text, "MemAvailable:"), 23_041_440 * 1024);
        assert_eq!(memory_field(text, "SwapTotal:"), 0);
    }

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let text = |user, steal| format!("cpu  {user} 0 0 100 0 0 0 {steal} 7 7\ncpu0 1 1\n");
        let counters = |text: &str| {
            let (ticks, stolen_ticks) = ticks(text);
            Counters { ticks, stolen_ticks, ..Counters::default() }
        };
        let strain = strain(counters(&text(0, 0)), counters(&text(75, 25)));
        assert!((strain.stolen_per_cent - 25.0).abs() < 1e-9, "{strain:?}");
        assert_eq!(strain.remarks().len(), 1);
        assert!(Strain::default().remarks().is_empty());
    }

    #[test]
    fn a_limit_of_the_control_group_is_noticed() {
        let before = held_back_micros("usage_usec 10\nthrottled_usec 1000\n");
        let after = held_back_micros("usage_usec 10\nthrottled_usec 3001000\n");
        let of = |held_back_micros| Counters { held_back_micros, ..Counters::default() };
        let strain = strain(of(before), of(after));
        assert!((strain.held_back_secs - 3.0).abs() < 1e-9);
        assert!(strain.remarks()[0].contains("3.0 s"), "{:?}", strain.remarks());
    }

    /// The limit of a service (`CPUQuota`) is that of its own group, and not of the topmost one.
    #[test]
    fn the_groups_of_a_process_are_its_own_and_those_around_it() {
        let of = |own: &str| -> Vec<String> {
            groups(own).iter().map(|group| group.display().to_string()).collect()
        };
        let own = "1:name=systemd:/x\n0::/system.slice/backup.service\n";
        let around = ["/sys/fs/cgroup/system.slice/backup.service", "/sys/fs/cgroup/system.slice"];
        assert_eq!(of(own)[..2], around);
        for own in ["0::/\n", ""] {
            assert_eq!(groups(own), [Path::new(GROUPS)]);
        }
    }

    #[test]
    fn this_machine_has_a_processor_and_memory() {
        let host = Host::describe();
        assert!(host.processors > 0 && host.memory_bytes > host.memory_available_bytes, "{host:?}");
    }
}

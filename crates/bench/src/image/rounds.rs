//! One round: the works of a new server and node, each beside its limit.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::{Value, json};

use super::change::change;
use super::disk::{Disk, StillDisk};
use super::fill::Content;
use super::limits;
use super::parts::Parts;
use crate::effort::Effort;
use crate::machine;
use crate::output;
use crate::process::{Runner, Server};
use crate::site::{Sample, Site};
use crate::spread::float;
use crate::trouble::{Context as _, Trouble};
use crate::workplace;

/// Name of the image. The loop device has another number each time.
const NAME: &str = "disk";

/// A work beside its limit.
pub(super) struct Run {
    pub(super) sample: Sample,
    /// Bytes that are read in a backup or written in a restore.
    pub(super) bytes: u64,
    /// The same bytes, read or written without the program.
    pub(super) disk: Effort,
    /// Processor time of the parts and of `disk`, in seconds.
    pub(super) cpu_secs: f64,
    /// True if the processors do not count for the limit.
    pub(super) is_of_disk: bool,
}

impl Run {
    pub(super) fn secs(&self) -> f64 {
        self.sample.wall.as_secs_f64()
    }

    /// Returns the least time in which the processors do the parts, in seconds.
    pub(super) fn processors_secs(&self, cores: usize) -> f64 {
        self.cpu_secs / float(u64::try_from(cores).unwrap_or(1).max(1))
    }

    /// Returns the time of stages that overlap perfectly, in seconds.
    pub(super) fn limit_secs(&self, cores: usize) -> f64 {
        let disk = self.disk.wall.as_secs_f64();
        if self.is_of_disk { disk } else { disk.max(self.processors_secs(cores)) }
    }

    /// Returns the ratio of the rate to the rate of the limit.
    pub(super) fn ratio(&self, cores: usize) -> f64 {
        self.limit_secs(cores) / self.secs()
    }

    pub(super) fn json(&self, cores: usize) -> Value {
        json!({
            "sample": self.sample.json(),
            "bytes": self.bytes,
            "disk": self.disk.json(),
            "cpu_secs": self.cpu_secs,
            "limit_secs": self.limit_secs(cores),
            "ratio": self.ratio(cores),
        })
    }
}

/// Results of one round.
pub(super) struct Round {
    pub(super) parts: Parts,
    pub(super) first: Run,
    pub(super) second: Run,
    pub(super) restore: Run,
    pub(super) extract: Sample,
    /// Bytes of data in the image: chunks that are not zeros.
    pub(super) data_bytes: u64,
    /// Bytes that were written to the disk before the second image.
    pub(super) changed_bytes: u64,
    /// Bytes of chunks that were new in the second image.
    pub(super) new_bytes: u64,
    pub(super) pool_bytes: u64,
    /// Windows of the restored disk, and extracted files, that differ.
    pub(super) differences: u64,
}

/// Runs one round in `folder`, which is new.
pub(super) fn run(
    disk: &Disk,
    content: &mut Content,
    folder: &Path,
    runner: &Runner,
) -> Result<Round, Trouble> {
    let site = Site::new(runner, folder.to_owned());
    let server = site.enrolled()?;
    let bench = Bench { site: &site, server: &server };
    let still = disk.still()?;
    let (parts, first) = bench.first(&still)?;
    let used_bytes = still.used_bytes();
    drop(still);
    let pool_bytes = site.stored()?.pool_bytes;
    output::step("changing 1 % of the disk");
    disk.mount()?;
    let changed_bytes = change(disk.root(), content, used_bytes)?;
    disk.unmount()?;
    let still = disk.still()?;
    let second = bench.second(&still, &parts)?;
    let new_bytes = count(&second.sample, "bytes_after_dedup")?;
    let data_bytes = count(&second.sample, "data_bytes")?;
    let (restore, differences) = bench.restore(&still, &parts, data_bytes, folder)?;
    let (extract, is_equal) = bench.extract(content, folder)?;
    let differences = differences + u64::from(!is_equal);
    server.stop()?;
    Ok(Round {
        parts,
        first,
        second,
        restore,
        extract,
        data_bytes,
        changed_bytes,
        new_bytes,
        pool_bytes,
        differences,
    })
}

/// Removes a folder and everything in it.
pub(super) fn remove(folder: &Path) -> Result<(), Trouble> {
    workplace::remove(folder).while_doing(|| format!("remove {}", folder.display()))
}

/// Returns a number in the report of a command.
fn count(sample: &Sample, key: &str) -> Result<u64, Trouble> {
    let message = || format!("a report has no {key}");
    sample.report[key].as_u64().ok_or_else(|| Trouble::new(message()))
}

struct Bench<'a> {
    site: &'a Site<'a>,
    server: &'a Server,
}

impl Bench<'_> {
    fn first(&self, still: &StillDisk) -> Result<(Parts, Run), Trouble> {
        output::step("first image");
        let parts = Parts::measure(still)?;
        let (sample, disk) = self.back_up(still)?;
        let cpu_secs = disk.cpu.as_secs_f64() + parts.backup_secs(count(&sample, "data_bytes")?);
        let bytes = still.used_bytes();
        Ok((parts, Run { sample, bytes, disk, cpu_secs, is_of_disk: false }))
    }

    fn second(&self, still: &StillDisk, parts: &Parts) -> Result<Run, Trouble> {
        output::step("second image");
        let (sample, disk) = self.back_up(still)?;
        let new_bytes = count(&sample, "bytes_after_dedup")?;
        let known_bytes = count(&sample, "data_bytes")?.saturating_sub(new_bytes);
        let parts_secs = parts.backup_secs(new_bytes) + parts.known_secs(known_bytes);
        let cpu_secs = disk.cpu.as_secs_f64() + parts_secs;
        Ok(Run { sample, bytes: still.used_bytes(), disk, cpu_secs, is_of_disk: true })
    }

    /// Makes an image, and reads the disk alone before and after that. The rate of a virtual disk
    /// varies within minutes, so the two readings are averaged.
    fn back_up(&self, still: &StillDisk) -> Result<(Sample, Effort), Trouble> {
        let device = still.path().as_os_str();
        let words = ["image".as_ref(), "backup".as_ref(), device, "--name".as_ref()];
        let before = limits::read(still)?;
        let sample = self.measured(&words, NAME)?;
        let after = limits::read(still)?;
        Ok((sample, before.mean(after)))
    }

    /// Restores the image, which has `bytes` of data. Also returns the number of windows that
    /// differ.
    fn restore(
        &self,
        still: &StillDisk,
        parts: &Parts,
        bytes: u64,
        folder: &Path,
    ) -> Result<(Run, u64), Trouble> {
        output::step("writing a file, alone");
        let alone = folder.join("alone");
        let disk = limits::write(&alone, &still.windows, bytes, still.bytes)?;
        std::fs::remove_file(&alone).while_doing(|| format!("remove {}", alone.display()))?;
        output::step("restore");
        machine::settle();
        let target = folder.join("restored");
        let words = ["image".as_ref(), "restore".as_ref(), NAME.as_ref()];
        let sample = self.measured(&words, &target)?;
        let differences = limits::differences(still, &target)?;
        std::fs::remove_file(&target).while_doing(|| format!("remove {}", target.display()))?;
        let cpu_secs = disk.cpu.as_secs_f64() + parts.restore_secs(bytes);
        Ok((Run { sample, bytes, disk, cpu_secs, is_of_disk: false }, differences))
    }

    /// Extracts a small file. Also returns true if it is equal to the file on the
    /// disk.
    fn extract(&self, content: &Content, folder: &Path) -> Result<(Sample, bool), Trouble> {
        output::step("extraction of a small file");
        let (path, target) = (Path::new("/").join(&content.small), folder.join("extracted"));
        let words: [&OsStr; 5] = [
            "image".as_ref(),
            "extract".as_ref(),
            NAME.as_ref(),
            path.as_os_str(),
            "--to".as_ref(),
        ];
        let sample = self.measured(&words, &target)?;
        let name = content.small.file_name().unwrap_or_default();
        let copy = target.join(name);
        let copied = std::fs::read(&copy).while_doing(|| format!("read {}", copy.display()))?;
        Ok((sample, copied == content.small_content))
    }

    /// Runs a command of the node with empty caches. It must succeed as a whole.
    fn measured(&self, words: &[&OsStr], last: impl AsRef<OsStr>) -> Result<Sample, Trouble> {
        machine::drop_caches()?;
        let sample = self.site.measured(self.server, &[words, &[last.as_ref()]].concat())?;
        let message = || format!("a command ended with the exit code {}", sample.exit_code);
        if sample.exit_code == 0 { Ok(sample) } else { Err(Trouble::new(message())) }
    }
}

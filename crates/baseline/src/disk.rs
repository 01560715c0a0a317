//! The disk under a path, measured by fio: random reads of 4 KiB by queue depth, and streams.
//!
//! ```text
//!   Target (a file without a name)  <-  fio, one run a job  ->  JSON and logs  ->  DiskRates
//! ```
//!
//! 1. No file of the user is touched: fio works on a file of its own, which has no name. So it is
//!    gone with the last process that has it open, whatever ends these processes.
//! 2. The file takes at most a tenth of the free space. Each job ends after its time.
//! 3. The file is written with data that no disk can compress before anything reads it: parts that
//!    were never written are not read from the disk.

pub(crate) mod counters;
mod fio;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use self::fio::FioError;
pub use self::fio::{Latency, Percentiles};
use crate::walks;

/// Queue depths of the random reads.
pub const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Number of jobs of [`measure`].
pub(crate) const JOBS: u32 = crate::small(DEPTHS.len()) + 2;

/// Least size of the file that makes sense: less is held by the caches of disks.
const FILE_BYTES_MIN: u64 = 64 << 20;
/// Part of the free space that the file may take.
const FREE_SHARE: u64 = 10;

/// Random reads of 4 KiB at one queue depth.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RandomReads {
    pub depth: u32,
    /// Reads per second.
    pub iops: f64,
    pub bytes_per_sec: f64,
    /// Standard deviation of the reads per second, over intervals of the run.
    pub iops_deviation: f64,
    pub latency: Latency,
}

/// Returns the name of the block device, as in [`crate::Place::device`], that an image of `source`
/// is read from: a device, or a directory of a file system. `None` for a file with a disk in it.
pub fn device_name(source: &Path) -> Option<String> {
    counters::Device::read_for(source)?.name()
}

/// One stream of 1 MiB each.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StreamRate {
    pub bytes_per_sec: f64,
    /// Rate by time: seconds since the beginning, bytes per second.
    pub over_time: Vec<(f64, f64)>,
    pub latency: Latency,
}

/// Rates of the disk under a path.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DiskRates {
    pub fio: String,
    pub file_bytes: u64,
    /// False if the file system only reads through the page cache, so that the figures are those of
    /// the memory.
    pub direct: bool,
    pub random_reads: Vec<RandomReads>,
    pub read: StreamRate,
    pub write: StreamRate,
}

impl DiskRates {
    /// Returns the most random reads per second at any queue depth.
    pub fn iops_max(&self) -> f64 {
        self.random_reads.iter().map(|row| row.iops).fold(0.0, f64::max)
    }

    /// Returns the smallest queue depth that gives nearly the most reads: more does not help.
    pub fn depth_enough(&self) -> Option<u32> {
        let enough = 0.95 * self.iops_max();
        self.random_reads.iter().find(|row| row.iops >= enough).map(|row| row.depth)
    }
}

/// Reason why a disk is not measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    #[error("cannot make a file for the measurement in {folder}: {error}")]
    File { folder: String, error: io::Error },
    #[error("{folder} has too little free space for a file of {} MiB", FILE_BYTES_MIN >> 20)]
    NoSpace { folder: String },
    #[error("cannot drop the caches of this machine: {0}")]
    Caches(io::Error),
    #[error(transparent)]
    Fio(#[from] FioError),
}

/// How a disk is measured.
pub(crate) struct Order<'a> {
    /// Size of the file, unless a tenth of the free space is less.
    pub(crate) file_bytes: u64,
    /// Time of each job.
    pub(crate) each: Duration,
    /// True to drop the caches of the machine before the stream that is read. A file behind a loop
    /// device would come from memory, even if fio reads past the page cache.
    pub(crate) cold: bool,
    pub(crate) is_stopped: &'a (dyn Fn() -> bool + Sync),
    /// Called when a job begins, with its name.
    pub(crate) begins: &'a (dyn Fn(&str) + Sync),
}

/// Measures the disk that holds the folder `folder`.
pub(crate) fn measure(folder: &Path, order: &Order<'_>) -> Result<DiskRates, DiskError> {
    let fio = fio::version()?;
    (order.begins)("writing the file of the measurement");
    let target = Target::make(folder, order)?;
    let run = |job: &fio::Run| fio::run(job, &target.path(), order.is_stopped);
    let job =
        |rw, depth, direct| fio::Run { rw, depth, direct, time: order.each, bytes: target.bytes };
    let direct = target.is_direct();
    let mut random_reads = Vec::new();
    for depth in DEPTHS {
        (order.begins)(&format!("random reads, {depth} at once"));
        let done = run(&job(fio::Pattern::RandomRead, depth, direct))?;
        random_reads.push(RandomReads {
            depth,
            iops: done.iops,
            bytes_per_sec: done.bytes_per_sec,
            iops_deviation: done.iops_deviation,
            latency: done.latency,
        });
    }
    let stream = |rw, what| {
        (order.begins)(what);
        let done = run(&job(rw, fio::STREAM_DEPTH, direct))?;
        Ok::<_, FioError>(StreamRate {
            bytes_per_sec: done.bytes_per_sec,
            over_time: done.over_time,
            latency: done.latency,
        })
    };
    if order.cold {
        walks::drop_caches().map_err(DiskError::Caches)?;
    }
    let read = stream(fio::Pattern::Read, "reading a stream")?;
    let write = stream(fio::Pattern::Write, "writing a stream")?;
    Ok(DiskRates { fio, file_bytes: target.bytes, direct, random_reads, read, write })
}

/// The file that fio works on. It has no name.
struct Target {
    file: File,
    bytes: u64,
}

impl Target {
    fn make(folder: &Path, order: &Order<'_>) -> Result<Self, DiskError> {
        let shown = || model::escaped(folder.as_os_str().as_bytes());
        let failed = |error| DiskError::File { folder: shown(), error };
        let free = sys::durable::free_bytes(folder).map_err(failed)?;
        let bytes = order.file_bytes.min(free / FREE_SHARE);
        if bytes < FILE_BYTES_MIN {
            return Err(DiskError::NoSpace { folder: shown() });
        }
        let file = tempfile::tempfile_in(folder).map_err(failed)?;
        let mut target = Self { file, bytes };
        target.fill(order).map_err(failed)?;
        Ok(target)
    }

    /// Writes the file. Stops where it is if the user wants the end: the next job then says so.
    fn fill(&mut self, order: &Order<'_>) -> io::Result<()> {
        let mut block = vec![0; 4 << 20];
        sys::entropy::fill(&mut block);
        let mut left = self.bytes;
        let began = sys::clock::monotonic();
        // A slow disk gets a smaller file, so that the time of the whole measurement is kept.
        let time_max = order.each * 4;
        while left > 0 && !(order.is_stopped)() && began.elapsed() < time_max {
            // No block equals another one: some disks store equal blocks once.
            block[..8].copy_from_slice(&left.to_le_bytes());
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
            self.file.write_all(&block[..part])?;
            left -= part as u64;
        }
        self.bytes -= left;
        self.file.sync_all()
    }

    /// Path of the file for other processes, while this process has it open.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Returns true if the file system can read past the page cache.
    fn is_direct(&self) -> bool {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        rustix::fs::open(self.path(), flags, Mode::empty()).is_ok()
    }
}

//! Runs of fio, and what it prints.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Number of requests of a stream that wait at the disk.
pub(crate) const STREAM_DEPTH: u32 = 8;

/// Interval of fio's logs.
const LOG_INTERVAL: Duration = Duration::from_millis(250);
/// Time after the end of a job in which fio must have ended.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval in which the end of fio is looked for.
const POLL: Duration = Duration::from_millis(20);

/// Reason why fio gives no figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FioError {
    #[error("fio is not installed; install the package fio to measure disks")]
    Absent,
    #[error("cannot run fio: {0}")]
    Run(#[from] io::Error),
    #[error("fio failed: {0}")]
    Failed(String),
    #[error("fio did not end in time")]
    Late,
    #[error("fio's output is not understood: {0}")]
    Output(String),
    #[error("stopped")]
    Stopped,
}

/// Percentiles of a time, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Percentiles {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p99_9: f64,
}

/// Times of requests, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Until the kernel has taken the request. fio gives no percentiles of it, only the mean and,
    /// as `p99_9`, the longest.
    pub submission: Percentiles,
    /// From then until it is done.
    pub completion: Percentiles,
    pub total: Percentiles,
}

/// Kind of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pattern {
    RandomRead,
    Read,
    Write,
}

impl Pattern {
    fn word(self) -> &'static str {
        match self {
            Self::RandomRead => "randread",
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    fn block_bytes(self) -> f64 {
        match self {
            Self::RandomRead => 4096.0,
            Self::Read | Self::Write => 1_048_576.0,
        }
    }

    fn block(self) -> &'static str {
        match self {
            Self::RandomRead => "4k",
            Self::Read | Self::Write => "1m",
        }
    }
}

/// One run of fio.
pub(crate) struct Run {
    pub(crate) rw: Pattern,
    pub(crate) depth: u32,
    pub(crate) direct: bool,
    pub(crate) time: Duration,
    pub(crate) bytes: u64,
}

/// Figures of one job.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) iops: f64,
    pub(crate) iops_deviation: f64,
    pub(crate) bytes_per_sec: f64,
    pub(crate) latency: Latency,
    pub(crate) over_time: Vec<(f64, f64)>,
}

/// Returns the version of fio.
pub(crate) fn version() -> Result<String, FioError> {
    let run = Command::new("fio").arg("--version").output();
    let output = run.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => FioError::Absent,
        _ => FioError::Run(error),
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs `job` on the file at `path`.
pub(crate) fn run(
    job: &Run,
    path: &str,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Figures, FioError> {
    let folder = tempfile::tempdir()?;
    let mut fio = command(job, path, folder.path());
    let mut child =
        Leash(fio.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
    let (mut stdout, mut stderr) = (child.0.stdout.take(), child.0.stderr.take());
    let (output, complaint) = std::thread::scope(|scope| {
        let output = scope.spawn(move || read_all(stdout.as_mut()));
        let complaint = scope.spawn(move || read_all(stderr.as_mut()));
        let ended = wait(&mut child.0, job.time + PATIENCE, is_stopped);
        if ended.is_err() {
            // Its pipes end with it, and the threads that read them.
            let _dead = child.0.kill();
        }
        let output = output.join().expect("reading does not panic");
        let complaint = complaint.join().expect("reading does not panic");
        ended.map(|()| (output, complaint))
    })?;
    if !child.0.wait()?.success() {
        let last = complaint.lines().chain(output.lines()).next().unwrap_or("without a word");
        return Err(FioError::Failed(last.to_owned()));
    }
    figures(&output, &bandwidth_log(folder.path()), job.rw)
}

/// A child that does not live longer than this value.
struct Leash(Child);

impl Drop for Leash {
    fn drop(&mut self) {
        let _dead = self.0.kill();
        let _status = self.0.wait();
    }
}

fn read_all(from: Option<&mut impl io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // After an error, the bytes before it are all that there are.
        let _read = from.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn wait(
    child: &mut Child,
    at_most: Duration,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<(), FioError> {
    let began = sys::clock::monotonic();
    while child.try_wait()?.is_none() {
        if is_stopped() {
            return Err(FioError::Stopped);
        }
        if began.elapsed() > at_most {
            return Err(FioError::Late);
        }
        sys::clock::sleep(POLL);
    }
    Ok(())
}

fn command(job: &Run, path: &str, folder: &Path) -> Command {
    let mut fio = Command::new("fio");
    let millis = LOG_INTERVAL.as_millis();
    let (depth, bytes) = (job.depth, job.bytes);
    fio.current_dir(folder).env("LC_ALL", "C").args([
        "--name=holdfast",
        "--ioengine=libaio",
        "--thread",
        "--time_based",
        "--group_reporting",
        "--allow_file_create=0",
        "--fallocate=none",
        "--overwrite=1",
        "--randrepeat=0",
        "--lat_percentiles=1",
        "--clat_percentiles=1",
        "--percentile_list=50:90:99:99.9",
        "--output-format=json",
        "--write_bw_log=rate",
    ]);
    fio.arg(format!("--filename={path}"))
        .arg(format!("--rw={}", job.rw.word()))
        .arg(format!("--bs={}", job.rw.block()))
        .arg(format!("--direct={}", u8::from(job.direct)))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--size={bytes}"))
        .arg(format!("--runtime={}ms", job.time.as_millis()))
        .arg(format!("--log_avg_msec={millis}"));
    fio
}

/// Returns the lines of the log of bandwidth that fio wrote into `folder`.
fn bandwidth_log(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut logs = entries.filter(|entry| entry.file_name().to_string_lossy().contains("_bw"));
    logs.find_map(|entry| fs::read_to_string(entry.path()).ok()).unwrap_or_default()
}

#[derive(Deserialize)]
struct Document {
    jobs: Vec<RunDocument>,
}

#[derive(Deserialize)]
struct RunDocument {
    error: i64,
    read: DirectionDocument,
    write: DirectionDocument,
}

#[derive(Deserialize)]
struct DirectionDocument {
    total_ios: u64,
    bw_bytes: f64,
    iops: f64,
    slat_ns: TimesDocument,
    clat_ns: TimesDocument,
    lat_ns: TimesDocument,
}

#[derive(Deserialize)]
struct TimesDocument {
    mean: f64,
    #[serde(default)]
    max: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

impl TimesDocument {
    /// Returns the times in microseconds. Times without percentiles have their longest as the last.
    fn percentiles(&self) -> Percentiles {
        let at = |per_cent: f64| {
            let equals =
                |key: &str| key.parse().is_ok_and(|key: f64| (key - per_cent).abs() < 1e-6);
            let found = self.percentile.iter().find(|(key, _)| equals(key));
            found.map_or(0.0, |(_, nanos)| nanos / 1000.0)
        };
        let p99_9 = if self.percentile.is_empty() { self.max / 1000.0 } else { at(99.9) };
        Percentiles { mean: self.mean / 1000.0, p50: at(50.0), p90: at(90.0), p99: at(99.0), p99_9 }
    }
}

fn figures(output: &str, log: &str, pattern: Pattern) -> Result<Figures, FioError> {
    let not_understood = |why: String| FioError::Output(why);
    // fio may print notes before the document.
    let begin = output
        .find('{')
        .ok_or_else(|| not_understood("it has no document".to_owned()))?;
    let document: Document = serde_json::from_str(&output[begin..])
        .map_err(|error| not_understood(error.to_string()))?;
    let job = document.jobs.into_iter().next();
    let job = job.ok_or_else(|| not_understood("it has no job".to_owned()))?;
    if job.error != 0 {
        let error = i32::try_from(job.error).map_or_else(
            |_| job.error.to_string(),
            |code| io::Error::from_raw_os_error(code).to_string(),
        );
        return Err(FioError::Failed(error));
    }
    let direction = if pattern == Pattern::Write { job.write } else { job.read };
    if direction.total_ios == 0 {
        return Err(FioError::Failed("no request was done in the time of the job".to_owned()));
    }
    let over_time = over_time(log);
    Ok(Figures {
        iops: direction.iops,
        iops_deviation: deviation(&over_time) / pattern.block_bytes(),
        bytes_per_sec: direction.bw_bytes,
        latency: Latency {
            submission: direction.slat_ns.percentiles(),
            completion: direction.clat_ns.percentiles(),
            total: direction.lat_ns.percentiles(),
        },
        over_time,
    })
}

/// Returns the standard deviation of the rates of a log; 0 if it has less than two.
fn deviation(over_time: &[(f64, f64)]) -> f64 {
    let count = crate::to_f64(over_time.len() as u64);
    if count < 2.0 {
        return 0.0;
    }
    let mean = over_time.iter().map(|point| point.1).sum::<f64>() / count;
    let squares: f64 = over_time.iter().map(|point| (point.1 - mean).powi(2)).sum();
    (squares / (count - 1.0)).sqrt()
}

/// Parses a log of bandwidth: milliseconds, KiB per second, and fields that are not used here.
fn over_time(log: &str) -> Vec<(f64, f64)> {
    let point = |line: &str| {
        let mut fields = line.split(',').map(str::trim);
        let mut number = || fields.next()?.parse::<f64>().ok();
        Some((number()? / 1000.0, number()? * 1024.0))
    };
    log.lines().filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields that count of a run of fio 3.33.
    fn document(error: i64, total_ios: u64) -> String {
        let times = r#"{"min": 1, "max": 9000, "mean": 2000.0, "stddev": 1.0, "N": 3}"#;
        let with = r#"{"mean": 4000.0, "max": 99000, "percentile":
            {"50.000000": 3000, "90.000000": 5000, "99.000000": 7000, "99.900000": 8000}}"#;
        let direction = |ios: u64| {
            format!(
                r#"{{"total_ios": {ios}, "bw_bytes": 4096000, "iops": 1000.5,
                "slat_ns": {times}, "clat_ns": {with}, "lat_ns": {with}}}"#
            )
        };
        let (read, write) = (direction(total_ios), direction(0));
        format!(
            "fio: a note\n{{\"fio version\": \"fio-3.33\", \"jobs\": [{{\"jobname\": \"x\",
            \"error\": {error}, \"read\": {read}, \"write\": {write}}}]}}"
        )
    }

    #[test]
    fn the_figures_of_a_run_are_read() {
        let log = "250, 1024, 0, 4096, 0\n500, 2048, 0, 4096, 0\n";
        let figures = figures(&document(0, 5), log, Pattern::RandomRead).expect("figures");
        assert!((figures.iops - 1000.5).abs() < 1e-9);
        // The rates are 1 and 2 MiB a second, in requests of 4 KiB.
        assert!((figures.iops_deviation - 181.019_336).abs() < 1e-6, "{figures:?}");
        let Latency { submission, completion, total } = figures.latency;
        assert!((completion.p99 - 7.0).abs() < 1e-9 && (completion.p99_9 - 8.0).abs() < 1e-9);
        assert!((submission.mean - 2.0).abs() < 1e-9 && (submission.p99_9 - 9.0).abs() < 1e-9);
        assert_eq!(total, completion);
        assert_eq!(figures.over_time, [(0.25, 1_048_576.0), (0.5, 2_097_152.0)]);
    }

    #[test]
    fn a_run_without_figures_says_why() {
        let failed = |output: &str, pattern| figures(output, "", pattern).unwrap_err().to_string();
        assert!(failed(&document(5, 5), Pattern::Read).contains("Input/output error"));
        assert!(failed(&document(0, 5), Pattern::Write).contains("no request was done"));
        assert!(failed("fio: nonsense", Pattern::Read).contains("no document"));
        assert!(failed("{\"jobs\": 5}", Pattern::Read).contains("not understood"));
    }
}

//! Progress on standard error while a command runs.
//!
//! A thread reads the command's counters a few times per second. On a terminal it redraws one line,
//! and removes the line at the end. Without a terminal it writes one line per second, if
//! `--progress` is given. A task of the agent also writes its progress into a file, from which the
//! agent passes it on.
//!
//! The share that is done and the time left are shown only if the total is known.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use client::{Phase, Progress};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::{moment, output, quantity};

/// Interval between two readings of the counters.
const INTERVAL: Duration = Duration::from_millis(200);
/// Number of readings for one line that is written without a terminal.
const READINGS_PER_LINE: u32 = 5;
/// Length of the time over which rates are computed.
const WINDOW: Duration = Duration::from_secs(10);

/// Place where progress is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Hidden,
    Terminal,
    Lines,
}

impl Mode {
    pub(crate) fn choose(forced: bool, quiet: bool, terminal: bool) -> Self {
        match (forced, quiet, terminal) {
            (true, _, false) => Self::Lines,
            (true, _, true) | (false, false, true) => Self::Terminal,
            (false, true, _) | (false, false, false) => Self::Hidden,
        }
    }
}

/// Interval between two writes of the progress into a file.
const FILE_INTERVAL: Duration = Duration::from_secs(1);

/// Handle of a running display. Dropping the handle ends and removes the display.
pub(crate) struct Meter {
    _display: Repetition,
    /// Writer of the progress into a file.
    _writer: Repetition,
}

/// A thread that does something again and again until the handle is dropped.
#[derive(Default)]
struct Repetition {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Repetition {
    /// Calls `step` after each interval, and `last` at the end. If the thread cannot start, the
    /// command runs without it.
    fn start<S: Send + 'static>(
        interval: Duration,
        mut state: S,
        step: impl Fn(&mut S) + Send + 'static,
        last: impl FnOnce(S) + Send + 'static,
    ) -> Self {
        let (end, ended) = mpsc::channel();
        let repeat = move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                step(&mut state);
            }
            last(state);
        };
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(repeat).ok();
        Self { end: Some(end), thread }
    }
}

impl Drop for Repetition {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the display does not panic");
        }
    }
}

impl Meter {
    /// Shows the counters of `progress`.
    pub(crate) fn start(progress: &Arc<Progress>, mode: Mode) -> Self {
        let mut counters = Counters::new();
        let shown = Arc::clone(progress);
        Self::show(mode, move || counters.line(&shown))
    }

    /// Writes the counters of `progress` into `file`, too, each time in place of the last ones.
    pub(crate) fn write(mut self, progress: &Arc<Progress>, file: PathBuf) -> Self {
        let state = (Counters::new(), Arc::clone(progress));
        let step = move |(counters, progress): &mut (Counters, Arc<Progress>)| {
            if let Err(error) = write(&file, &counters.document(progress)) {
                tracing::debug!(%error, "the progress cannot be written");
            }
        };
        self._writer = Repetition::start(FILE_INTERVAL, state, step, drop);
        self
    }

    /// Shows the line that `line` returns, again and again.
    pub(crate) fn show(mode: Mode, line: impl FnMut() -> String + Send + 'static) -> Self {
        let display = match mode {
            Mode::Hidden => Repetition::default(),
            Mode::Terminal | Mode::Lines => {
                let display = Display::new(mode, line);
                Repetition::start(INTERVAL, display, Display::show, |mut display| display.end())
            }
        };
        Self { _display: display, _writer: Repetition::default() }
    }
}

/// Writes the progress, so that a reader finds either the old or the new state.
fn write(file: &Path, document: &ProgressDocument) -> std::io::Result<()> {
    let text = serde_json::to_vec(document).map_err(std::io::Error::other)?;
    let new = file.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, file)
}

/// The progress of a task, as its agent passes it on.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct ProgressDocument {
    /// The line that a terminal would show.
    line: String,
    objects: u64,
    bytes: u64,
    /// Number of bytes that have arrived at the server, or that were received.
    bytes_transferred: u64,
    objects_per_sec: u64,
    bytes_per_sec: u64,
    failed: u64,
    /// Share that is done, and the time left, where the total is known.
    percent: Option<u64>,
    seconds_left: Option<u64>,
}

struct Display<L> {
    bar: Option<ProgressBar>,
    line: L,
    readings: u32,
}

impl<L: FnMut() -> String> Display<L> {
    fn new(mode: Mode, line: L) -> Self {
        let bar = (mode == Mode::Terminal).then(output::progress_bar);
        Self { bar, line, readings: 0 }
    }

    fn show(&mut self) {
        let line = (self.line)();
        self.readings += 1;
        match &self.bar {
            Some(bar) => {
                if line.contains('\n') {
                    bar.set_style(output::lines_style());
                }
                bar.set_message(line);
                bar.tick();
            }
            None if self.readings.is_multiple_of(READINGS_PER_LINE) => output::say_lines(&line),
            None => {}
        }
    }

    fn end(&mut self) {
        match &self.bar {
            Some(bar) => bar.finish_and_clear(),
            None => output::say_lines(&(self.line)()),
        }
    }
}

/// The counters of a command as a line.
struct Counters {
    began: std::time::Instant,
    pace: Pace,
}

impl Counters {
    fn new() -> Self {
        let mut pace = Pace::default();
        pace.observe(Reading::default());
        Self { began: sys::clock::monotonic(), pace }
    }

    /// Takes a reading. Returns the totals that are expected.
    fn read(&mut self, progress: &Progress) -> Reading {
        let (objects, bytes) = progress.so_far();
        let at = sys::clock::monotonic() - self.began;
        self.pace.observe(Reading { at, objects, bytes });
        let objects = progress.objects_expected.load(Relaxed);
        let bytes = progress.bytes_expected.load(Relaxed);
        Reading { objects, bytes, ..Reading::default() }
    }

    fn document(&mut self, progress: &Progress) -> ProgressDocument {
        let line = self.line(progress);
        let expected = self.read(progress);
        let newest = self.pace.readings.back().copied().unwrap_or_default();
        let share = self.pace.share(expected);
        ProgressDocument {
            line,
            objects: newest.objects,
            bytes: newest.bytes,
            bytes_transferred: progress.bytes_transferred.load(Relaxed),
            objects_per_sec: self.pace.per_sec(|reading| reading.objects),
            bytes_per_sec: self.pace.per_sec(|reading| reading.bytes),
            failed: progress.failed.load(Relaxed),
            percent: share.percent,
            seconds_left: share.left.map(|left| left.as_secs()),
        }
    }

    fn line(&mut self, progress: &Progress) -> String {
        let expected = self.read(progress);
        if let Some(since) = progress.paused_since() {
            return format!("paused since {}", moment::time_of_day(since));
        }
        if let Some(absence) = progress.absence() {
            return format!(
                "the server is away since {}; waiting until {}; press Ctrl-C to stop",
                moment::time_of_day(absence.since),
                moment::shown_after(absence.until, absence.since),
            );
        }
        match progress.phase() {
            Phase::Starting => "connecting".to_owned(),
            phase => self.pace.describe(
                expected,
                progress.failed.load(Relaxed),
                phase == Phase::Finishing,
            ),
        }
    }
}

/// The counters at a time since the display began.
#[derive(Clone, Copy, Default)]
struct Reading {
    at: Duration,
    objects: u64,
    bytes: u64,
}

/// Part of a command that is done.
#[derive(Default)]
struct Share {
    percent: Option<u64>,
    left: Option<Duration>,
}

/// The readings of the last [`WINDOW`], oldest first.
#[derive(Default)]
struct Pace {
    readings: VecDeque<Reading>,
}

impl Pace {
    fn observe(&mut self, reading: Reading) {
        let is_past = |old: &Reading| reading.at - old.at >= WINDOW;
        // One reading from before the window stays, so that the rates span the whole window.
        while self.readings.get(1).is_some_and(is_past) {
            self.readings.pop_front();
        }
        self.readings.push_back(reading);
    }

    /// Returns one line: objects, rates, failures, and the share and the time left where `expected`
    /// is known. The share is computed from bytes if their total is known, otherwise from objects.
    fn describe(&self, expected: Reading, failed: u64, finishing: bool) -> String {
        let newest = self.readings.back().copied().unwrap_or_default();
        let objects_rate = self.per_sec(|reading| reading.objects);
        let bytes_rate = self.per_sec(|reading| reading.bytes);
        let mut parts = vec![
            quantity::counted(newest.objects, "object"),
            format!("{}/s", quantity::count(objects_rate)),
            format!("{}/s", quantity::bytes_with_unit(bytes_rate)),
        ];
        let Share { percent, left } = self.share(expected);
        if let Some(percent) = percent {
            parts.push(format!("{percent}%"));
        }
        if let Some(left) = left.filter(|_| !finishing) {
            parts.push(format!("{} left", quantity::clock(left)));
        }
        if failed > 0 {
            parts.push(format!("{} failed", quantity::count(failed)));
        }
        if finishing {
            parts.push("finishing".to_owned());
        }
        parts.join("  ")
    }

    /// Returns the share that is done and the time left, of a total that is known. They are hidden
    /// once more is done than was expected.
    fn share(&self, expected: Reading) -> Share {
        let newest = self.readings.back().copied().unwrap_or_default();
        let (done, expected, rate) = if expected.bytes > 0 {
            (newest.bytes, expected.bytes, self.per_sec(|reading| reading.bytes))
        } else {
            (newest.objects, expected.objects, self.per_sec(|reading| reading.objects))
        };
        if expected == 0 || done > expected {
            return Share::default();
        }
        let percent = u128::from(done) * 100 / u128::from(expected);
        let left = (expected - done).checked_div(rate).map(Duration::from_secs);
        Share { percent: u64::try_from(percent).ok(), left }
    }

    fn per_sec(&self, counter: impl Fn(&Reading) -> u64) -> u64 {
        let (Some(oldest), Some(newest)) = (self.readings.front(), self.readings.back()) else {
            return 0;
        };
        let millis = (newest.at - oldest.at).as_millis();
        let grown = counter(newest).saturating_sub(counter(oldest));
        let rate = (u128::from(grown) * 1000).checked_div(millis).unwrap_or(0);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(objects: u64) -> Reading {
        Reading { objects, ..Reading::default() }
    }

    fn pace(readings: &[(u64, u64, u64)]) -> Pace {
        let mut pace = Pace::default();
        for &(secs, objects, bytes) in readings {
            pace.observe(Reading { at: Duration::from_secs(secs), objects, bytes });
        }
        pace
    }

    #[test]
    fn time_left_is_told_only_where_the_end_is_known() {
        let pace = pace(&[(0, 0, 0), (10, 20_000, 100 << 20)]);
        let line = pace.describe(objects(0), 0, false);
        assert_eq!(line, "20,000 objects  2,000/s  10.00 MB/s");
        let line = pace.describe(objects(80_000), 3, false);
        assert_eq!(line, "20,000 objects  2,000/s  10.00 MB/s  25%  00:00:30 left  3 failed");
        let line = pace.describe(objects(10_000), 0, false);
        assert_eq!(line, "20,000 objects  2,000/s  10.00 MB/s");
        let line = pace.describe(objects(20_000), 0, true);
        assert_eq!(line, "20,000 objects  2,000/s  10.00 MB/s  100%  finishing");
    }

    #[test]
    fn bytes_tell_the_end_where_they_are_known() {
        let pace = pace(&[(0, 0, 0), (10, 1, 100 << 20)]);
        let expected = Reading { objects: 2, bytes: 400 << 20, ..Reading::default() };
        let line = pace.describe(expected, 0, false);
        assert_eq!(line, "1 object  0/s  10.00 MB/s  25%  00:00:30 left");
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let pace = pace(&[(0, 0, 0), (5, 50_000, 0), (20, 50_000, 0), (30, 51_000, 0)]);
        assert_eq!(pace.describe(objects(0), 0, false), "51,000 objects  100/s  0 B/s");
    }

    #[test]
    fn nothing_is_known_at_first() {
        assert_eq!(pace(&[]).describe(objects(10), 0, false), "0 objects  0/s  0 B/s  0%");
        assert_eq!(pace(&[(0, 5, 5)]).describe(objects(0), 0, false), "5 objects  0/s  0 B/s");
    }

    #[test]
    fn the_document_has_the_numbers_of_the_line() {
        let progress = Progress::default();
        progress.objects.store(7, Relaxed);
        progress.bytes.store(1 << 20, Relaxed);
        progress.bytes_expected.store(4 << 20, Relaxed);
        let document = Counters::new().document(&progress);
        assert_eq!((document.bytes, document.percent), (1 << 20, Some(25)));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("progress.json");
        write(&file, &document).expect("is written");
        write(&file, &document).expect("is written again");
        let text = std::fs::read_to_string(&file).expect("is read");
        let value: serde_json::Value = serde_json::from_str(&text).expect("a document");
        assert_eq!((&value["percent"], &value["failed"]), (&25.into(), &0.into()));
    }

    #[test]
    fn progress_is_for_terminals_unless_it_is_asked_for() {
        assert_eq!(Mode::choose(false, false, true), Mode::Terminal);
        assert_eq!(Mode::choose(false, false, false), Mode::Hidden);
        assert_eq!(Mode::choose(false, true, true), Mode::Hidden);
        assert_eq!(Mode::choose(true, false, false), Mode::Lines);
        assert_eq!(Mode::choose(true, true, true), Mode::Terminal);
    }
}

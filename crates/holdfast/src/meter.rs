//! Progress on standard error while a command runs.
//!
//! A thread reads the command's counters a few times per second. On a terminal it redraws one line,
//! and removes the line at the end. Without a terminal it writes one line per second, if
//! `--progress` is given.
//!
//! The share that is done and the time left are shown only if the total is known.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use client::{Phase, Progress};
use indicatif::ProgressBar;

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

/// Handle of a running display. Dropping the handle ends and removes the display.
pub(crate) struct Meter {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Meter {
    /// Shows the counters of `progress`.
    pub(crate) fn start(progress: &Arc<Progress>, mode: Mode) -> Self {
        let progress = Arc::clone(progress);
        let mut counters = Counters::new();
        Self::show(mode, move || counters.line(&progress))
    }

    /// Shows the line that `line` returns, again and again.
    pub(crate) fn show(mode: Mode, line: impl FnMut() -> String + Send + 'static) -> Self {
        if mode == Mode::Hidden {
            return Self { end: None, thread: None };
        }
        let (end, ended) = mpsc::channel();
        let display = move || {
            let mut display = Display::new(mode, line);
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                display.show();
            }
            display.end();
        };
        // If the thread cannot start, the command runs without a display.
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(display).ok();
        Self { end: Some(end), thread }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the display does not panic");
        }
    }
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
                bar.set_message(line);
                bar.tick();
            }
            None if self.readings.is_multiple_of(READINGS_PER_LINE) => output::say(&line),
            None => {}
        }
    }

    fn end(&mut self) {
        match &self.bar {
            Some(bar) => bar.finish_and_clear(),
            None => output::say(&(self.line)()),
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

    fn line(&mut self, progress: &Progress) -> String {
        let (objects, bytes) = progress.so_far();
        let at = sys::clock::monotonic() - self.began;
        self.pace.observe(Reading { at, objects, bytes });
        let objects = progress.objects_expected.load(Relaxed);
        let bytes = progress.bytes_expected.load(Relaxed);
        let expected = Reading { objects, bytes, ..Reading::default() };
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
        let (done, expected, rate) = if expected.bytes > 0 {
            (newest.bytes, expected.bytes, bytes_rate)
        } else {
            (newest.objects, expected.objects, objects_rate)
        };
        // The share is hidden once more is done than was expected.
        if expected > 0 && done <= expected {
            parts.push(format!("{}%", u128::from(done) * 100 / u128::from(expected)));
            if rate > 0 && !finishing {
                let left = Duration::from_secs((expected - done) / rate);
                parts.push(format!("{} left", quantity::clock(left)));
            }
        }
        if failed > 0 {
            parts.push(format!("{} failed", quantity::count(failed)));
        }
        if finishing {
            parts.push("finishing".to_owned());
        }
        parts.join("  ")
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
    fn progress_is_for_terminals_unless_it_is_asked_for() {
        assert_eq!(Mode::choose(false, false, true), Mode::Terminal);
        assert_eq!(Mode::choose(false, false, false), Mode::Hidden);
        assert_eq!(Mode::choose(false, true, true), Mode::Hidden);
        assert_eq!(Mode::choose(true, false, false), Mode::Lines);
        assert_eq!(Mode::choose(true, true, true), Mode::Terminal);
    }
}

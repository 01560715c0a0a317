//! Interruptions of a command: times in which its server was away, and pauses.

use std::time::{Duration, Instant};

use model::ServerTime;
use serde::Serialize;
use sys::lock::Mutex;

/// Interruptions of a command, for its report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interruptions {
    /// Number of times that the server went away, or was away at the start.
    pub count: u64,
    /// Time for which it was away.
    pub away: Duration,
    /// Number of pauses that somebody has ordered, and their time.
    pub pauses: u64,
    pub paused: Duration,
}

impl Interruptions {
    /// Returns the time in which the command could not work.
    pub fn time(&self) -> Duration {
        self.away + self.paused
    }
}

/// Interruptions in `--json`.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct InterruptionsDocument {
    pub interruptions: u64,
    pub away_secs: f64,
    pub pauses: u64,
    pub paused_secs: f64,
}

impl From<Interruptions> for InterruptionsDocument {
    fn from(interruptions: Interruptions) -> Self {
        let Interruptions { count, away, pauses, paused } = interruptions;
        let [away_secs, paused_secs] = [away, paused].map(|time| time.as_secs_f64());
        Self { interruptions: count, away_secs, pauses, paused_secs }
    }
}

/// Absence of the server that has not ended, by the clock of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Absence {
    pub since: ServerTime,
    /// Time at which the command gives up.
    pub until: ServerTime,
}

/// Record of the absences of a command's server. Several threads of a command may wait; the server
/// is away while any of them waits.
#[derive(Debug, Default)]
pub(crate) struct Absences(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    ended: Interruptions,
    /// Absence now, with its beginning and the number of threads that wait.
    present: Option<(Absence, Instant, u32)>,
}

impl Absences {
    /// Begins an absence that a thread waits for, at most for the time `left`.
    pub(crate) fn begin(&self, left: Duration) {
        let now = sys::clock::system();
        let micros = i64::try_from(left.as_micros()).unwrap_or(i64::MAX);
        let until = ServerTime(now.0.saturating_add(micros));
        let mut state = self.0.lock();
        match &mut state.present {
            Some((_, _, waiting)) => *waiting += 1,
            None => {
                let absence = Absence { since: now, until };
                state.present = Some((absence, sys::clock::monotonic(), 1));
            }
        }
    }

    /// Ends the wait of a thread.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        let Some((_, began, waiting)) = &mut state.present else { return };
        *waiting -= 1;
        if *waiting == 0 {
            let away = began.elapsed();
            state.present = None;
            state.ended.count += 1;
            state.ended.away += away;
        }
    }

    pub(crate) fn present(&self) -> Option<Absence> {
        self.0.lock().present.map(|(absence, ..)| absence)
    }

    /// Returns the interruptions that have ended.
    pub(crate) fn ended(&self) -> Interruptions {
        self.0.lock().ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_wait_at_the_same_time_wait_for_one_absence() {
        let absences = Absences::default();
        absences.begin(Duration::from_secs(60));
        absences.begin(Duration::from_secs(90));
        let absence = absences.present().expect("the server is away");
        assert_eq!(absence.until.0 - absence.since.0, 60_000_000);
        absences.end();
        assert_eq!((absences.present().is_some(), absences.ended().count), (true, 0));
        absences.end();
        assert_eq!((absences.present(), absences.ended().count), (None, 1));
        absences.end();
        assert_eq!(absences.ended().count, 1, "nobody waits");
    }
}

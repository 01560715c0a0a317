//! Events: what becomes of an occurrence at a node. The server keeps the state of each event.
//!
//! ```text
//!  future -> pending -> started -> in progress -> completed
//!               |          |            |     `--> failed -> restarted -> in progress ...
//!               |          `------------+--> severed -> uncertain
//!               `--> missed
//! ```
//!
//! A node repeats its reports until the server has confirmed them, and it may report long after the
//! fact. So a report counts whatever the state is, unless a later report has arrived: an event that
//! the server took for missed, severed or lost gets the state that the node reports.

use serde::{Deserialize, Serialize};

/// State of an event, under TSM's names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventState {
    /// The window has not opened. No record of the event exists.
    Future,
    /// The window is open, and the node has not begun.
    Pending,
    /// The node has begun.
    Started,
    /// The node works, and has reported progress.
    InProgress,
    /// The node has done the work: return code 0, 4 or 8.
    Completed,
    /// The window closed before the node began.
    Missed,
    /// The work failed: return code 12 or higher.
    Failed,
    /// The node has begun again after a failure or an interruption.
    Restarted,
    /// The connection to the node was lost while it worked.
    Severed,
    /// Nobody knows how the work ended.
    Uncertain,
}

/// Lowest return code of work that failed.
pub const FAILED_CODE: u8 = 12;

impl EventState {
    /// All states, in the order of an event's life.
    pub const ALL: [Self; 10] = [
        Self::Future,
        Self::Pending,
        Self::Started,
        Self::InProgress,
        Self::Completed,
        Self::Missed,
        Self::Failed,
        Self::Restarted,
        Self::Severed,
        Self::Uncertain,
    ];

    /// The name of the state, as commands show and take it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Future => "future",
            Self::Pending => "pending",
            Self::Started => "started",
            Self::InProgress => "in-progress",
            Self::Completed => "completed",
            Self::Missed => "missed",
            Self::Failed => "failed",
            Self::Restarted => "restarted",
            Self::Severed => "severed",
            Self::Uncertain => "uncertain",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Returns true while the node works, as far as the server knows.
    pub fn is_running(self) -> bool {
        matches!(self, Self::Started | Self::InProgress | Self::Restarted)
    }

    fn has_result(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// Report of a node about an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    pub phase: Phase,
}

/// Part of a report: how far an attempt has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Began,
    Working,
    /// The attempt ended with this return code.
    Ended(u8),
    /// The attempt was interrupted, and the node does not know how far it came.
    Interrupted,
}

impl Phase {
    /// The name of the phase, as messages show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Working => "working",
            Self::Ended(_) => "ended",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns the return code of an attempt that has ended.
    pub fn code(self) -> Option<u8> {
        match self {
            Self::Ended(code) => Some(code),
            Self::Began | Self::Working | Self::Interrupted => None,
        }
    }
}

/// State of an event, and the attempt to which it belongs; 0 before the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    pub state: EventState,
    pub attempt: u32,
}

impl Progress {
    /// State of an event whose window has opened.
    pub const PENDING: Self = Self { state: EventState::Pending, attempt: 0 };

    /// Returns the state after `report`. A report that was overtaken changes nothing.
    #[must_use]
    pub fn after(self, report: Report) -> Self {
        assert!(report.attempt > 0, "attempts count from 1");
        let is_new = report.attempt > self.attempt;
        let is_known = report.attempt == self.attempt;
        let state = match report.phase {
            _ if !is_new && !is_known => return self,
            Phase::Ended(code) if code < FAILED_CODE => EventState::Completed,
            Phase::Ended(_) if is_known && self.state == EventState::Completed => return self,
            Phase::Ended(_) => EventState::Failed,
            _ if is_known && self.state.has_result() => return self,
            Phase::Interrupted => EventState::Uncertain,
            Phase::Working => EventState::InProgress,
            // The node has said so before, and the connection was lost since.
            Phase::Began if is_known && !self.state.is_running() => EventState::InProgress,
            Phase::Began if is_known => self.state,
            Phase::Began if report.attempt == 1 => EventState::Started,
            Phase::Began => EventState::Restarted,
        };
        Self { state, attempt: report.attempt }
    }

    /// Returns the state after the window has closed.
    #[must_use]
    pub fn at_close(self) -> Self {
        match self.state {
            EventState::Pending => Self { state: EventState::Missed, ..self },
            _ => self,
        }
    }

    /// Returns the state after the connection to the node was lost.
    #[must_use]
    pub fn severed(self) -> Self {
        match self.state {
            state if state.is_running() => Self { state: EventState::Severed, ..self },
            _ => self,
        }
    }

    /// Returns the state after the server has given up waiting for the node's report.
    #[must_use]
    pub fn given_up(self) -> Self {
        match self.state {
            EventState::Severed => Self { state: EventState::Uncertain, ..self },
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(reports: &[(u32, Phase)]) -> EventState {
        let report = |&(attempt, phase)| Report { attempt, phase };
        let fold = |progress: Progress, report| progress.after(report);
        reports.iter().map(report).fold(Progress::PENDING, fold).state
    }

    #[test]
    fn a_life_goes_through_its_states() {
        use Phase::{Began, Ended, Interrupted, Working};
        assert_eq!(after(&[(1, Began)]), EventState::Started);
        assert_eq!(after(&[(1, Began), (1, Working)]), EventState::InProgress);
        assert_eq!(after(&[(1, Began), (1, Ended(8))]), EventState::Completed);
        assert_eq!(after(&[(1, Began), (1, Ended(12))]), EventState::Failed);
        assert_eq!(after(&[(1, Ended(12)), (2, Began)]), EventState::Restarted);
        assert_eq!(after(&[(1, Began), (1, Interrupted)]), EventState::Uncertain);
        assert_eq!(after(&[(1, Interrupted), (2, Began), (2, Ended(0))]), EventState::Completed);
    }

    #[test]
    fn reports_that_were_overtaken_or_come_twice_change_nothing() {
        use Phase::{Began, Ended, Interrupted, Working};
        assert_eq!(after(&[(1, Ended(0)), (1, Began), (1, Working)]), EventState::Completed);
        assert_eq!(after(&[(1, Ended(0)), (1, Interrupted)]), EventState::Completed);
        assert_eq!(after(&[(2, Began), (1, Ended(12))]), EventState::Restarted);
        assert_eq!(after(&[(1, Working), (1, Began)]), EventState::InProgress);
        assert_eq!(after(&[(1, Ended(12)), (1, Ended(12))]), EventState::Failed);
    }

    #[test]
    fn what_a_node_reports_late_corrects_what_the_server_took_for_the_end() {
        let report = |phase| Report { attempt: 1, phase };
        let missed = Progress::PENDING.at_close();
        assert_eq!(missed.state, EventState::Missed);
        assert_eq!(missed.after(report(Phase::Began)).state, EventState::Started);
        assert_eq!(missed.after(report(Phase::Ended(0))).state, EventState::Completed);
        let severed = Progress::PENDING.after(report(Phase::Began)).severed();
        assert_eq!(severed.state, EventState::Severed);
        assert_eq!(severed.after(report(Phase::Working)).state, EventState::InProgress);
        assert_eq!(severed.given_up().state, EventState::Uncertain);
        assert_eq!(severed.given_up().after(report(Phase::Ended(4))).state, EventState::Completed);
        assert_eq!(severed.at_close(), severed);
    }

    #[test]
    fn names_are_read_and_written() {
        for state in EventState::ALL {
            assert_eq!(EventState::of_name(state.name()), Some(state));
            let json = serde_json::to_string(&state).expect("is text");
            assert_eq!(json, format!("{:?}", state.name()));
        }
        assert_eq!(EventState::of_name("done"), None);
    }
}

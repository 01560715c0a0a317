//! Events that this machine could not begin, such as with a full disk, and what the server is told
//! of them.
//!
//! The agent tries again until the window of an event closes. Shortly before that, the server gets
//! the reason as the end of the first attempt: otherwise it would only know that nothing began. An
//! event that begins after all ends later, and its end takes the place of that report.

use std::collections::BTreeMap;
use std::io;

use client::{EventName, EventReport};
use model::ServerTime;
use policy::schedule::Occurrence;
use policy::schedule::event::{FAILED_CODE, Phase};

/// Time before the end of a window from which on the server is told. The agent tries again each
/// minute.
const NOTICE_MICROS: i64 = 120_000_000;

/// Reports of events that could not begin.
#[derive(Default)]
pub(crate) struct Obstacles(BTreeMap<EventName, EventReport>);

impl Obstacles {
    /// Notes that the first attempt of an event could not begin at `at`.
    pub(crate) fn note(
        &mut self,
        event: EventName,
        occurrence: Occurrence,
        at: ServerTime,
        error: &io::Error,
    ) {
        let report = EventReport {
            event: event.clone(),
            occurrence,
            attempt: 1,
            phase: Phase::Ended(FAILED_CODE),
            at,
            began: None,
            paused: None,
            reason: format!("the node could not record that the event begins: {error}"),
            session: String::new(),
            log: Vec::new(),
        };
        self.0.insert(event, report);
    }

    /// Takes note that an event has begun.
    pub(crate) fn clear(&mut self, event: &EventName) {
        self.0.remove(event);
    }

    /// Takes note that the server has confirmed a report.
    pub(crate) fn confirm(&mut self, report: &EventReport) {
        if self.0.get(&report.event) == Some(report) {
            self.0.remove(&report.event);
        }
    }

    /// Returns the reports of which it is time at `now`.
    pub(crate) fn due(&self, now: ServerTime) -> Vec<EventReport> {
        let is_due = |report: &&EventReport| {
            now.0 >= report.occurrence.closes.0.saturating_sub(NOTICE_MICROS)
        };
        self.0.values().filter(is_due).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    fn time(minute: i64) -> ServerTime {
        ServerTime(minute * MINUTE)
    }

    /// Of an event on a node with a full disk, the server said only that the agent was connected.
    #[test]
    fn the_server_is_told_before_the_window_closes() {
        let mut obstacles = Obstacles::default();
        let event = EventName { schedule: "DAILY".to_owned(), planned: time(0) };
        let occurrence = Occurrence { planned: time(0), opens: time(0), closes: time(60) };
        let full = io::Error::from(io::ErrorKind::StorageFull);
        obstacles.note(event.clone(), occurrence, time(1), &full);
        assert!(obstacles.due(time(57)).is_empty(), "it may still begin");
        let due = obstacles.due(time(58));
        let [report] = &due[..] else { panic!("one report") };
        assert_eq!((report.attempt, report.phase), (1, Phase::Ended(FAILED_CODE)));
        assert!(report.reason.contains(&full.to_string()), "{}", report.reason);
        obstacles.note(event.clone(), occurrence, time(59), &full);
        obstacles.confirm(report);
        assert_eq!(obstacles.due(time(90)).len(), 1, "a newer report is not confirmed");
        obstacles.confirm(&obstacles.due(time(90))[0]);
        assert!(obstacles.due(time(90)).is_empty());
        obstacles.note(event.clone(), occurrence, time(59), &full);
        obstacles.clear(&event);
        assert!(obstacles.due(time(90)).is_empty(), "it has begun");
    }
}

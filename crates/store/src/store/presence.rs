//! Agents that attend at this server, and when the last one of each node has left.

use std::collections::{BTreeMap, BTreeSet};

use model::{NodeId, ServerTime};
use sys::lock::Mutex;

/// Number of intervals without a call after which an agent that polls is away.
const POLLS_MISSED: i64 = 3;
const MINUTE_MICROS: i64 = 60_000_000;

/// The last agent of each node that attended at this server since it began.
#[derive(Default)]
pub(crate) struct Presence(Mutex<BTreeMap<NodeId, Attendance>>);

/// An attendance of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Attendance {
    /// Number that this server gives to the attendance.
    number: u64,
    /// Time of its end; `None` while it lasts.
    until: Option<ServerTime>,
    /// Minutes from its end to the next attendance of an agent that polls; 0 for one that stays.
    poll_minutes: u32,
}

impl Presence {
    pub(crate) fn begin(&self, node: NodeId, number: u64) {
        self.0.lock().insert(node, Attendance { number, until: None, poll_minutes: 0 });
    }

    /// Takes note that the agent comes back each `minutes`.
    pub(crate) fn note_poll(&self, node: NodeId, number: u64, minutes: u32) {
        if let Some(last) = self.0.lock().get_mut(&node)
            && last.number == number
        {
            last.poll_minutes = minutes;
        }
    }

    /// Returns the time at which the agent of the node was here last, if it polls and has not
    /// missed several calls.
    pub(crate) fn polled(&self, node: NodeId, now: ServerTime) -> Option<ServerTime> {
        let last = *self.0.lock().get(&node)?;
        let at = last.until.unwrap_or(now);
        let silence_max = POLLS_MISSED * i64::from(last.poll_minutes) * MINUTE_MICROS;
        let is_in_time = now.0.saturating_sub(at.0) <= silence_max;
        (last.poll_minutes > 0 && is_in_time).then_some(at)
    }

    pub(crate) fn end(&self, node: NodeId, number: u64, now: ServerTime) {
        if let Some(last) = self.0.lock().get_mut(&node)
            && last.number == number
        {
            last.until.get_or_insert(now);
        }
    }

    pub(crate) fn present(&self) -> BTreeSet<NodeId> {
        let all = self.0.lock();
        let lasting = all.iter().filter(|(_, last)| last.until.is_none());
        lasting.map(|(node, _)| *node).collect()
    }

    /// Returns the time at which the last agent of the node has left; `None` if none came, or if it
    /// is still here.
    pub(crate) fn left(&self, node: NodeId) -> Option<ServerTime> {
        self.0.lock().get(&node)?.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attendance_ends_once_and_ends_no_later_one() {
        let (node, presence) = (NodeId(7), Presence::default());
        assert_eq!(presence.left(node), None);
        presence.begin(node, 1);
        assert_eq!((presence.present(), presence.left(node)), (BTreeSet::from([node]), None));
        presence.end(node, 1, ServerTime(5));
        presence.end(node, 1, ServerTime(9));
        assert_eq!(
            (presence.present(), presence.left(node)),
            (BTreeSet::new(), Some(ServerTime(5)))
        );
        presence.begin(node, 2);
        presence.end(node, 1, ServerTime(9));
        assert_eq!(presence.present(), BTreeSet::from([node]));
    }

    #[test]
    fn an_agent_that_polls_is_away_after_several_calls_that_it_has_missed() {
        let (node, presence) = (NodeId(7), Presence::default());
        let minute = |minutes: i64| ServerTime(minutes * MINUTE_MICROS);
        presence.begin(node, 1);
        assert_eq!(presence.polled(node, minute(1)), None, "it stays");
        presence.note_poll(node, 1, 10);
        assert_eq!(presence.polled(node, minute(1)), Some(minute(1)));
        presence.end(node, 1, minute(2));
        presence.note_poll(node, 2, 0);
        assert_eq!(presence.polled(node, minute(32)), Some(minute(2)));
        assert_eq!(presence.polled(node, ServerTime(minute(32).0 + 1)), None);
        presence.begin(node, 3);
        assert_eq!(presence.polled(node, minute(40)), None, "its settings have changed");
        assert_eq!(presence.polled(NodeId(8), minute(1)), None);
    }
}

//! Agents that attend at this server, and when the last one of each node has left.

use std::collections::{BTreeMap, BTreeSet};

use catalog::PollRow;
use model::{NodeId, ServerTime};
use sys::lock::Mutex;

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

    /// Takes note that the agent comes back each `minutes`; 0 for one that stays.
    pub(crate) fn note_poll(&self, node: NodeId, number: u64, minutes: u32) {
        if let Some(last) = self.0.lock().get_mut(&node)
            && last.number == number
        {
            last.poll_minutes = minutes;
        }
    }

    /// Returns the last call of the node's agent to this server; one that lasts is at `now`.
    pub(crate) fn poll(&self, node: NodeId, now: ServerTime) -> Option<PollRow> {
        let last = *self.0.lock().get(&node)?;
        Some(PollRow { node, at: last.until.unwrap_or(now), minutes: last.poll_minutes })
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

    /// Returns true while an agent of the node attends.
    pub(crate) fn attends(&self, node: NodeId) -> bool {
        self.0.lock().get(&node).is_some_and(|last| last.until.is_none())
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
    fn the_last_call_of_an_agent_has_the_time_of_its_end() {
        let (node, presence) = (NodeId(7), Presence::default());
        let poll = |at, minutes| Some(PollRow { node, at: ServerTime(at), minutes });
        assert_eq!(presence.poll(node, ServerTime(1)), None);
        presence.begin(node, 1);
        assert_eq!(presence.poll(node, ServerTime(1)), poll(1, 0), "it stays");
        presence.note_poll(node, 1, 10);
        assert_eq!(presence.poll(node, ServerTime(1)), poll(1, 10));
        presence.end(node, 1, ServerTime(2));
        presence.note_poll(node, 2, 0);
        assert_eq!(presence.poll(node, ServerTime(9)), poll(2, 10));
        presence.begin(node, 3);
        assert_eq!(presence.poll(node, ServerTime(9)), poll(9, 0), "its settings have changed");
    }
}

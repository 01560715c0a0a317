//! Agents that attend at this server, and when the last one of each node has left.

use std::collections::{BTreeMap, BTreeSet};

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
}

impl Presence {
    pub(crate) fn begin(&self, node: NodeId, number: u64) {
        self.0.lock().insert(node, Attendance { number, until: None });
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
}

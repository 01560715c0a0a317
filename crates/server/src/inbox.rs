//! The memory of the messages that nodes send, from the first byte of a message until the call has
//! worked it off.
//!
//! 1. A message takes its room before its bytes are read, all of it at once. So no message that has
//!    begun to arrive waits for room.
//! 2. A node has at most [`NODE_BYTES_MAX`]. What nodes have above [`BASE_BYTES`] each is at most
//!    [`ALL_BYTES_MAX`] in all. So nodes that hold all of this stop no other node.
//! 3. Backups leave a part of a node's room to its other calls.
//! 4. Only the limit of the node counts for a short message.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use model::NodeId;
use sys::lock::Mutex;
use tokio::sync::Notify;
use wire::MESSAGE_BYTES_MAX;

/// Maximum memory of the messages of one node.
pub(crate) const NODE_BYTES_MAX: usize = 256 << 20;
/// Maximum memory of the messages of a node up to which a message of its backups finds room: enough
/// for a quantum of each of its 64 backups.
pub(crate) const BACKUP_BYTES_MAX: usize = 192 << 20;
/// Maximum memory of the messages of all nodes, besides what each may always have.
const ALL_BYTES_MAX: usize = 1 << 30;
/// Memory that the messages of a node may always have: a few backups, and a list of directories.
const BASE_BYTES: usize = 32 << 20;
/// Maximum memory of a short message. All calls together have few of them.
pub(crate) const SHORT_BYTES: usize = 64 << 10;
const _: () = assert!(MESSAGE_BYTES_MAX < BACKUP_BYTES_MAX, "the largest message finds room");
/// Maximum time that a message waits for room: less than the time for the first message of a call.
const WAIT_MAX: Duration = Duration::from_secs(50);

/// Memory of the messages of all nodes.
#[derive(Default)]
pub(crate) struct Inbox {
    held: Mutex<Holdings>,
    freed: Notify,
}

#[derive(Default)]
struct Holdings {
    /// Bytes that nodes have above what each may always have.
    excess: usize,
    /// Nodes that have at least one byte.
    each: BTreeMap<NodeId, usize>,
}

/// Returns the part of `own` bytes of a node that is more than the node may always have.
fn excess(own: usize) -> usize {
    own.saturating_sub(BASE_BYTES)
}

impl Holdings {
    fn of(&self, node: NodeId) -> usize {
        self.each.get(&node).copied().unwrap_or(0)
    }

    /// Returns true if something of `node`, or of any node, may be waiting for room.
    fn is_short(&self, node: NodeId) -> bool {
        self.of(node) + MESSAGE_BYTES_MAX > BACKUP_BYTES_MAX
            || self.excess + MESSAGE_BYTES_MAX > ALL_BYTES_MAX
    }

    /// Returns true if the node may have `bytes` more.
    fn has_room(&self, node: NodeId, bytes: usize, own_max: usize) -> bool {
        let own = self.of(node);
        let growth = excess(own + bytes) - excess(own);
        let is_within_all =
            growth == 0 || bytes <= SHORT_BYTES || self.excess + growth <= ALL_BYTES_MAX;
        bytes == 0 || (own + bytes <= own_max && is_within_all)
    }

    fn add(&mut self, node: NodeId, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let own = self.each.entry(node).or_default();
        self.excess += excess(*own + bytes) - excess(*own);
        *own += bytes;
    }

    fn remove(&mut self, node: NodeId, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let own = self.each.get_mut(&node).expect("the node has this room");
        self.excess -= excess(*own) - excess(*own - bytes);
        *own -= bytes;
        if *own == 0 {
            self.each.remove(&node);
        }
    }
}

/// Room of a message. Dropping it gives the room back.
pub(crate) struct Room {
    inbox: Arc<Inbox>,
    node: NodeId,
    bytes: usize,
}

impl Inbox {
    /// Takes room for a message of `node`, if the node then has at most `own_max`.
    pub(crate) fn try_take(
        self: &Arc<Self>,
        node: NodeId,
        bytes: usize,
        own_max: usize,
    ) -> Option<Room> {
        if bytes > 0 {
            let mut held = self.held.lock();
            if !held.has_room(node, bytes, own_max) {
                return None;
            }
            held.add(node, bytes);
        }
        Some(Room { inbox: Arc::clone(self), node, bytes })
    }

    /// Takes room like [`Self::try_take`]. Waits for a while until other messages give it back.
    pub(crate) async fn take(
        self: &Arc<Self>,
        node: NodeId,
        bytes: usize,
        own_max: usize,
    ) -> Option<Room> {
        let waiting = self.until(|| self.try_take(node, bytes, own_max));
        tokio::time::timeout(WAIT_MAX, waiting).await.ok()
    }

    /// Returns true if `node` may have `bytes` more, and then has at most `own_max`.
    pub(crate) fn has_room(&self, node: NodeId, bytes: usize, own_max: usize) -> bool {
        self.held.lock().has_room(node, bytes, own_max)
    }

    /// Waits until `attempt` gives something, which may happen each time that room is given back.
    pub(crate) async fn until<T>(&self, attempt: impl Fn() -> Option<T>) -> T {
        loop {
            let mut freed = pin!(self.freed.notified());
            // Room that becomes free from now on is not missed.
            freed.as_mut().enable();
            if let Some(given) = attempt() {
                return given;
            }
            freed.await;
        }
    }

    /// Counts bytes of `node` that have arrived already, whatever the node has.
    pub(crate) fn charge(self: &Arc<Self>, node: NodeId, bytes: usize) -> Room {
        self.held.lock().add(node, bytes);
        Room { inbox: Arc::clone(self), node, bytes }
    }
}

impl Room {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes `bytes` of the room away, as a room of their own.
    pub(crate) fn split(&mut self, bytes: usize) -> Self {
        assert!(bytes <= self.bytes, "a room has no more than was taken");
        self.bytes -= bytes;
        Self { inbox: Arc::clone(&self.inbox), node: self.node, bytes }
    }

    /// Adds the room `other` of the same node.
    pub(crate) fn merge(&mut self, mut other: Self) {
        assert_eq!(self.node, other.node, "each node has its own rooms");
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut held = self.inbox.held.lock();
        let was_short = held.is_short(self.node);
        held.remove(self.node, self.bytes);
        drop(held);
        if was_short {
            self.inbox.freed.notify_waiters();
        }
    }
}

/// Rooms of the messages of one call that are not worked off.
#[derive(Default)]
pub(crate) struct CallRooms(Mutex<VecDeque<Room>>);

impl CallRooms {
    /// Gives back the oldest rooms until there are at most `count`.
    pub(crate) fn leave(&self, count: usize) {
        while let Some(oldest) = self.take_oldest(count) {
            drop(oldest);
        }
    }

    fn take_oldest(&self, count: usize) -> Option<Room> {
        let mut rooms = self.0.lock();
        if rooms.len() <= count { None } else { rooms.pop_front() }
    }

    pub(crate) fn keep(&self, room: Room) {
        self.0.lock().push_back(room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANNA: NodeId = NodeId(1);
    const LARGE: usize = MESSAGE_BYTES_MAX;

    fn inbox() -> Arc<Inbox> {
        Arc::default()
    }

    /// Takes rooms for large messages until there is no more.
    fn fill(inbox: &Arc<Inbox>, node: NodeId, own_max: usize) -> Vec<Room> {
        std::iter::from_fn(|| inbox.try_take(node, LARGE, own_max)).collect()
    }

    /// Each of 512 calls of a node could hold a message of 32 MiB.
    #[test]
    fn a_node_holds_a_bounded_memory_and_leaves_room_for_others() {
        let inbox = inbox();
        let rooms = fill(&inbox, ANNA, NODE_BYTES_MAX);
        assert_eq!(rooms.len() * LARGE, NODE_BYTES_MAX);
        assert!(inbox.try_take(ANNA, 1, NODE_BYTES_MAX).is_none(), "a small one is too much");
        assert!(inbox.try_take(NodeId(2), LARGE, NODE_BYTES_MAX).is_some());
        drop(rooms);
        assert_eq!(fill(&inbox, ANNA, NODE_BYTES_MAX).len() * LARGE, NODE_BYTES_MAX);
        assert!(inbox.held.lock().each.is_empty(), "no holder is remembered");
    }

    #[test]
    fn backups_leave_room_for_the_other_calls_of_their_node() {
        let inbox = inbox();
        let _rooms = fill(&inbox, ANNA, BACKUP_BYTES_MAX);
        assert!(inbox.try_take(ANNA, LARGE, BACKUP_BYTES_MAX).is_none());
        assert!(inbox.try_take(ANNA, LARGE, NODE_BYTES_MAX).is_some());
    }

    #[test]
    fn all_nodes_together_hold_a_bounded_memory_and_stop_no_node() {
        let inbox = inbox();
        let rooms: Vec<Room> =
            (1..100).flat_map(|node| fill(&inbox, NodeId(node), NODE_BYTES_MAX)).collect();
        let excess = inbox.held.lock().excess;
        assert!(excess <= ALL_BYTES_MAX && excess > ALL_BYTES_MAX - LARGE, "{excess}");
        let take = |bytes| inbox.try_take(NodeId(100), bytes, BACKUP_BYTES_MAX);
        let _base = take(BASE_BYTES).expect("each node goes on");
        assert!(take(LARGE).is_none());
        assert!(take(SHORT_BYTES).is_some(), "a short message is no matter of all");
        drop(rooms);
        assert_eq!(inbox.held.lock().excess, 0);
    }

    #[test]
    fn nodes_that_have_what_each_may_have_leave_the_room_of_all() {
        let inbox = inbox();
        let _rooms: Vec<Room> = (1..1000)
            .map(|node| inbox.try_take(NodeId(node), BASE_BYTES, NODE_BYTES_MAX))
            .map(|room| room.expect("each node goes on"))
            .collect();
        assert!(inbox.try_take(ANNA, NODE_BYTES_MAX - BASE_BYTES, NODE_BYTES_MAX).is_some());
    }

    #[test]
    fn what_has_arrived_counts_whatever_the_node_has() {
        let inbox = inbox();
        let charged = inbox.charge(ANNA, NODE_BYTES_MAX + 1);
        assert!(inbox.try_take(ANNA, 1, NODE_BYTES_MAX).is_none());
        drop(charged);
        assert!(inbox.try_take(ANNA, 1, NODE_BYTES_MAX).is_some());
    }

    #[test]
    fn a_message_that_waits_gets_the_room_of_another() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let inbox = inbox();
            let mut rooms = fill(&inbox, ANNA, BACKUP_BYTES_MAX);
            let waiting = tokio::spawn({
                let inbox = Arc::clone(&inbox);
                async move { inbox.take(ANNA, LARGE, BACKUP_BYTES_MAX).await.is_some() }
            });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished(), "nothing is left");
            rooms.pop();
            assert!(waiting.await.expect("no panic"), "it gets the room");
        });
    }

    #[test]
    fn a_part_of_a_room_is_given_back_alone() {
        let inbox = inbox();
        let mut room = inbox.try_take(ANNA, 10, NODE_BYTES_MAX).expect("nothing is taken");
        drop(room.split(10));
        assert!(inbox.held.lock().each.is_empty());
        room.merge(inbox.try_take(ANNA, 7, NODE_BYTES_MAX).expect("nothing is taken"));
        assert_eq!(inbox.held.lock().of(ANNA), 7);
        drop((room.split(0), room));
        assert!(inbox.try_take(ANNA, 0, 0).is_some(), "an empty message needs no room");
        assert!(inbox.held.lock().each.is_empty(), "no holder is remembered");
    }

    #[test]
    fn a_call_gives_its_oldest_rooms_back() {
        let (inbox, rooms) = (inbox(), CallRooms::default());
        for bytes in [1, 10, 100] {
            rooms.keep(inbox.charge(ANNA, bytes));
        }
        rooms.leave(2);
        assert_eq!(inbox.held.lock().of(ANNA), 110);
        rooms.leave(0);
        assert!(inbox.held.lock().each.is_empty());
    }
}

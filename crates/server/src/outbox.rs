//! The memory of answers that nodes have not taken: from the moment in which an answer is made
//! until the network has sent it.
//!
//! 1. A call waits before it makes the next answer while its node has no room. It holds nothing
//!    meanwhile but its answers that are unread.
//! 2. A call without unread answers waits for nothing: a client may read one call after the other.
//! 3. While a node has no room, at most [`CALLS_MAX`] of its calls have unread answers. A further
//!    call that makes an answer ends.
//! 4. Nodes that take nothing stop no other node (see [`Inbox`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use model::NodeId;
use sys::lock::Mutex;
use wire::MESSAGE_BYTES_MAX;

use crate::inbox::{Inbox, NODE_BYTES_MAX, Room};

/// Maximum number of calls of a node with unread answers while the node has no room. Space
/// management recalls up to 256 files at once, also over a link that is slower than the disks here.
const CALLS_MAX: usize = 320;
/// Room that a node must have so that its calls make further answers. Most answers are shorter.
const STEP_BYTES: usize = 2 << 20;
const _: () = assert!(STEP_BYTES <= MESSAGE_BYTES_MAX, "given-back room wakes calls that wait");
/// Memory of an answer besides its bytes.
const ANSWER_BYTES: usize = 1 << 10;

/// Unread answers of all nodes.
#[derive(Default)]
pub(crate) struct Outbox {
    rooms: Arc<Inbox>,
    /// Numbers of calls with unread answers, of the nodes that have such calls.
    calls: Mutex<BTreeMap<NodeId, usize>>,
}

impl Outbox {
    fn has_room(&self, node: NodeId) -> bool {
        self.rooms.has_room(node, STEP_BYTES, NODE_BYTES_MAX)
    }

    /// Counts a call of `node` that gets its first unread answer. Returns false if the node has too
    /// many of them.
    fn enter(&self, node: NodeId) -> bool {
        let has_room = self.has_room(node);
        let mut calls = self.calls.lock();
        let own = calls.entry(node).or_default();
        let may_enter = has_room || *own < CALLS_MAX;
        *own += usize::from(may_enter);
        may_enter
    }

    fn leave(&self, node: NodeId) {
        let mut calls = self.calls.lock();
        let own = calls.get_mut(&node).expect("the call was counted");
        *own -= 1;
        if *own == 0 {
            calls.remove(&node);
        }
    }
}

/// The answers of one call.
pub(crate) struct Answers {
    outbox: Arc<Outbox>,
    node: NodeId,
    /// Number of unread answers.
    unread: Mutex<usize>,
}

impl Answers {
    pub(crate) fn new(outbox: &Arc<Outbox>, node: NodeId) -> Arc<Self> {
        Arc::new(Self { outbox: Arc::clone(outbox), node, unread: Mutex::default() })
    }

    /// Counts an answer of `bytes` bytes as unread; `None` if the call must end, because its node
    /// takes too few answers.
    pub(crate) fn add(self: &Arc<Self>, bytes: usize) -> Option<Unread> {
        let mut unread = self.unread.lock();
        if *unread == 0 && !self.outbox.enter(self.node) {
            return None;
        }
        *unread += 1;
        drop(unread);
        let room = self.outbox.rooms.charge(self.node, bytes + ANSWER_BYTES);
        Some(Unread { answers: Arc::clone(self), _room: room })
    }

    /// Returns true if the call may make another answer.
    pub(crate) fn may_go_on(&self) -> bool {
        *self.unread.lock() == 0 || self.outbox.has_room(self.node)
    }

    /// Waits until the call may make another answer.
    pub(crate) async fn go_on(&self) {
        self.outbox.rooms.until(|| self.may_go_on().then_some(())).await;
    }
}

/// An answer that is unread until this is dropped.
pub(crate) struct Unread {
    answers: Arc<Answers>,
    /// Room of the answer. It wakes those that wait when it is given back, which comes last.
    _room: Room,
}

impl Drop for Unread {
    fn drop(&mut self) {
        let mut unread = self.answers.unread.lock();
        *unread -= 1;
        if *unread == 0 {
            self.answers.outbox.leave(self.answers.node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANNA: NodeId = NodeId(1);

    /// Makes answers of one call until the call may make no more.
    fn fill(outbox: &Arc<Outbox>, node: NodeId) -> Vec<Unread> {
        let call = Answers::new(outbox, node);
        let next = || if call.may_go_on() { call.add(STEP_BYTES) } else { None };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_call_makes_one_answer_at_a_time_while_its_node_takes_none() {
        let outbox = Arc::default();
        let held = fill(&outbox, ANNA);
        assert!(held.len() * STEP_BYTES <= NODE_BYTES_MAX, "{} answers", held.len());
        let call = Answers::new(&outbox, ANNA);
        assert!(call.may_go_on(), "its client may be waiting for it");
        let first = call.add(STEP_BYTES).expect("the first one");
        assert!(!call.may_go_on());
        drop(first);
        assert!(call.may_go_on(), "its client takes answers");
        assert!(!fill(&outbox, NodeId(2)).is_empty(), "another node goes on");
        drop(held);
        assert!(outbox.calls.lock().is_empty(), "no call is remembered");
    }

    #[test]
    fn few_calls_have_answers_while_their_node_takes_none() {
        let outbox = Arc::default();
        let held = fill(&outbox, ANNA);
        let calls: Vec<_> = std::iter::from_fn(|| Answers::new(&outbox, ANNA).add(1)).collect();
        assert_eq!(calls.len() + 1, CALLS_MAX, "with the one that holds the room");
        assert!(Answers::new(&outbox, NodeId(2)).add(1).is_some(), "another node goes on");
        drop(held);
        assert!(Answers::new(&outbox, ANNA).add(1).is_some(), "there is room again");
    }

    #[test]
    fn a_call_that_waits_goes_on_when_its_client_takes_an_answer() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(async {
            let outbox = Arc::default();
            let _held = fill(&outbox, ANNA);
            let call = Answers::new(&outbox, ANNA);
            let first = call.add(STEP_BYTES).expect("the first one");
            let waiting = tokio::spawn({
                let call = Arc::clone(&call);
                async move { call.go_on().await }
            });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished(), "there is no room");
            drop(first);
            waiting.await.expect("it goes on");
        });
    }
}

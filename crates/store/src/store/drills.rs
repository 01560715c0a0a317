//! The restore drills that are under way. `selection::drill` has the rules.

use std::collections::{BTreeMap, BTreeSet};

use model::{FilespaceId, NodeId};
use sys::lock::Mutex;

/// A random sample of versions: those whose rank is not above a limit. `selection::sample` draws
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    pub(crate) seed: u64,
    pub(crate) rank_max: u64,
}

/// Files of a drill that a restore was to deliver, and that it delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivery {
    /// Number of selected files with content.
    pub selected: u64,
    /// Number of those whose data was sent as a whole.
    pub delivered: u64,
    /// Bytes of their chunks.
    pub bytes: u64,
}

impl std::ops::AddAssign for Delivery {
    fn add_assign(&mut self, other: Self) {
        self.selected += other.selected;
        self.delivered += other.delivered;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// The drills that are under way, by node. A node has one.
#[derive(Default)]
pub(crate) struct Drills {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    drills: BTreeMap<NodeId, Drill>,
}

pub(crate) struct Drill {
    number: u64,
    sample: Sample,
    /// Filespaces that the node has not restored yet.
    pub(crate) left: BTreeSet<FilespaceId>,
    pub(crate) delivery: Delivery,
}

impl Drills {
    /// Begins a drill, in place of an unfinished one of the node. Returns its number, which is
    /// drawn by chance: a counted one would tell the node how many drills the others begin.
    pub(crate) fn begin(&self, node: NodeId, sample: Sample, left: BTreeSet<FilespaceId>) -> u64 {
        let mut state = self.state.lock();
        let number = drawn_number();
        let drill = Drill { number, sample, left, delivery: Delivery::default() };
        state.drills.insert(node, drill);
        number
    }

    /// Returns the sample of a drill; `None` if the node has no drill of this number.
    pub(crate) fn sample(&self, node: NodeId, number: u64) -> Option<Sample> {
        let state = self.state.lock();
        let drill = state.drills.get(&node).filter(|drill| drill.number == number);
        drill.map(|drill| drill.sample)
    }

    /// Notes what was sent of a filespace, once.
    pub(crate) fn note(&self, node: NodeId, number: u64, of: (FilespaceId, Delivery)) {
        let (filespace, delivery) = of;
        let mut state = self.state.lock();
        let drill = state.drills.get_mut(&node).filter(|drill| drill.number == number);
        if let Some(drill) = drill
            && drill.left.remove(&filespace)
        {
            drill.delivery += delivery;
        }
    }

    /// Ends a drill; `None` if the node has no drill of this number.
    pub(crate) fn end(&self, node: NodeId, number: u64) -> Option<Drill> {
        let mut state = self.state.lock();
        let is_known = state.drills.get(&node).is_some_and(|drill| drill.number == number);
        if is_known { state.drills.remove(&node) } else { None }
    }
}

/// Returns a number from 1 to 2^53 - 1.
fn drawn_number() -> u64 {
    (u64::from_le_bytes(sys::entropy::bytes()) >> 11).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_drills_tell_nothing_of_other_nodes() {
        let drills = Drills::default();
        let sample = Sample { seed: 1, rank_max: 1 };
        let begin = |node| drills.begin(NodeId(node), sample, BTreeSet::new());
        let numbers = [begin(1), begin(2), begin(1), begin(2)];
        // Of numbers that are drawn from 2^53, none is small, and no two are near each other.
        assert!(numbers.iter().all(|number| *number > 1 << 20), "{numbers:?}");
        let near = numbers.windows(2).any(|pair| pair[0].abs_diff(pair[1]) < 1 << 20);
        assert!(!near, "{numbers:?}");
        assert_eq!(drills.sample(NodeId(1), numbers[0]), None, "the next drill has its place");
        assert_eq!(drills.sample(NodeId(1), numbers[2]), Some(sample));
        assert_eq!(drills.sample(NodeId(2), numbers[2]), None);
    }
}

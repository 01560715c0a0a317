//! The choice of what survives a power cut, among all that no sync has made durable.

use crate::random::Random;

/// Loss at a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Everything that is not durable is lost.
    Everything,
    /// Nothing is lost, as when only the process dies.
    Nothing,
    /// Losses that follow from this seed.
    Random(u64),
}

/// Fate of a change that is not durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Kept,
    Dropped,
    /// Some of the sectors of a write are kept.
    Torn,
}

/// Chooses fates.
pub(crate) struct Choice {
    loss: Loss,
    random: Random,
    order: Order,
}

/// Order in which a disk writes.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// The disk writes in the order of the changes and stops at the change with this number.
    Kept { end: u64 },
    /// The disk writes in any order. So many of eight changes are kept.
    Any { kept: u64 },
}

impl Choice {
    /// Returns the choice for a disk that has made the changes up to `end`, of which those from
    /// `begin` on are not all durable.
    pub(crate) fn new(loss: Loss, begin: u64, end: u64) -> Self {
        assert!(begin <= end, "changes have ascending numbers");
        let seed = if let Loss::Random(seed) = loss { seed } else { 0 };
        let mut random = Random::new(seed);
        let order = match random.below(4) {
            0 => Order::Kept { end: begin + random.below(end - begin + 1) },
            other => Order::Any { kept: [0, 1, 4, 7][usize::try_from(other).expect("below 4")] },
        };
        Self { loss, random, order }
    }

    /// Chooses the fate of the change with this number.
    pub(crate) fn fate(&mut self, number: u64) -> Fate {
        match (self.loss, self.order) {
            (Loss::Everything, _) => Fate::Dropped,
            (Loss::Nothing, _) => Fate::Kept,
            (Loss::Random(_), Order::Kept { end }) if number < end => Fate::Kept,
            (Loss::Random(_), Order::Kept { end }) if number > end => Fate::Dropped,
            (Loss::Random(_), Order::Kept { .. }) => Fate::Torn,
            (Loss::Random(_), Order::Any { .. }) if self.random.below(8) == 0 => Fate::Torn,
            (Loss::Random(_), Order::Any { kept }) if self.random.below(8) < kept => Fate::Kept,
            (Loss::Random(_), Order::Any { .. }) => Fate::Dropped,
        }
    }

    /// True if a sector of a torn write is kept.
    pub(crate) fn keeps_sector(&mut self) -> bool {
        self.random.below(2) == 0
    }

    /// True if a write that is dropped leaves zeros where it has extended the file.
    pub(crate) fn leaves_zeros(&mut self) -> bool {
        matches!(self.loss, Loss::Random(_)) && self.random.below(4) == 0
    }
}

//! The period for which an object store has to keep an object.

use model::ServerTime;

/// Period for which an object must stay. An object whose period grows day by day is locked for
/// longer than necessary, so that the store need not be asked each day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// Earliest day on which the object may be removed.
    pub least: ServerTime,
    /// Day until which the object is locked, unless it is already locked until `least`. Invariant:
    /// not before `least`.
    pub most: ServerTime,
}

impl Hold {
    /// Returns the hold of an object that must stay for two reasons.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let both = Self { least: self.least.max(other.least), most: self.most.max(other.most) };
        assert!(both.least <= both.most, "a hold is at least as long as it must be");
        both
    }
}

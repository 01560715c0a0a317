//! The period for which an object store has to keep an object.

use model::ServerTime;

/// Period for which an object must stay. An object whose period grows day by day is held for
/// longer than it must, so that the store need not be asked each day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// Earliest day on which the object may go.
    pub least: ServerTime,
    /// Day until which it is held if it is not held until `least` yet. Invariant: not before
    /// `least`.
    pub most: ServerTime,
}

impl Hold {
    /// The hold of an object that must stay for two reasons.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let both = Self { least: self.least.max(other.least), most: self.most.max(other.most) };
        assert!(both.least <= both.most, "a hold is at least as long as it must be");
        both
    }
}

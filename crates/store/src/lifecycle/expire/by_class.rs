//! Counts of versions by their classes.

use std::collections::BTreeMap;

use model::ClassId;

/// Versions of one class that a run drops, or counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassCount {
    pub expired: u64,
    pub expired_bytes: u64,
}

impl ClassCount {
    pub(crate) fn add(&mut self, other: Self) {
        self.expired += other.expired;
        self.expired_bytes += other.expired_bytes;
    }
}

/// Versions that a run drops, or counts, by their classes.
pub type ByClass = BTreeMap<ClassId, ClassCount>;

//! Figures of what a transaction commits. After a loss of the connection only they count, because a
//! later attempt sends everything else again.

use std::ops::AddAssign;

/// Figures of the objects and the data of a change, or of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Figures {
    /// Number of objects with a new version or new attributes that the report counts.
    pub(super) objects: u64,
    /// Number of objects among them with new attributes only.
    pub(super) updated: u64,
    /// Number of objects among them with another management class only.
    pub(super) rebound: u64,
    /// Number of files with data.
    pub(super) deduplicated: u64,
    /// Number of files among them whose data is encrypted.
    pub(super) encrypted: u64,
    /// Bytes of the data of all these files, encrypted or not.
    pub(super) bytes_before_dedup: u64,
    /// Bytes of the data in quanta.
    pub(super) bytes_after_dedup: u64,
}

impl Figures {
    #[cfg(test)]
    pub(super) fn of_objects(objects: u64) -> Self {
        Self { objects, ..Self::default() }
    }

    /// Leaves out `count` objects, which are not committed.
    pub(super) fn without_objects(self, count: u64) -> Self {
        Self { objects: self.objects.saturating_sub(count), ..self }
    }

    /// Returns the number of new versions.
    pub(super) fn backed_up(&self) -> u64 {
        self.objects.saturating_sub(self.updated).saturating_sub(self.rebound)
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.objects += other.objects;
        self.updated += other.updated;
        self.rebound += other.rebound;
        self.deduplicated += other.deduplicated;
        self.encrypted += other.encrypted;
        self.bytes_before_dedup += other.bytes_before_dedup;
        self.bytes_after_dedup += other.bytes_after_dedup;
    }
}

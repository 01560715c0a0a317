//! The memory table holds the newest entries, sorted, until there are enough for a run.

use std::collections::{BTreeMap, BTreeSet};

use model::{PackNumber, Place};

use crate::entry::{Entry, Prefix};
use crate::filter::Filter;

/// Estimate of the memory that an entry takes, in bytes: the nodes of the tree are two thirds full.
const ENTRY_BYTES: usize = 38;

/// The entries that no run holds yet.
pub(crate) struct MemoryTable {
    entries: BTreeMap<Prefix, Place>,
    /// Filter for absent prefixes, most of which then need no search in the tree. The filter may
    /// hold prefixes that were removed.
    filter: Filter,
}

impl MemoryTable {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { entries: BTreeMap::new(), filter: Filter::new(entries_max) }
    }

    /// Adds `entry`. Replaces an older entry of the same prefix.
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.filter.insert(entry.prefix);
        self.entries.insert(entry.prefix, entry.place);
    }

    pub(crate) fn find(&self, prefix: Prefix) -> Option<Place> {
        if self.filter.may_hold(prefix) { self.entries.get(&prefix).copied() } else { None }
    }

    pub(crate) fn remove_packs(&mut self, packs: &BTreeSet<PackNumber>) {
        self.entries.retain(|_, place| !packs.contains(&place.pack()));
    }

    /// Adds the entries of `older` whose prefixes this table does not have.
    pub(crate) fn take_back(&mut self, older: &Self) {
        for entry in older.entries() {
            self.filter.insert(entry.prefix);
            self.entries.entry(entry.prefix).or_insert(entry.place);
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().map(|(&prefix, &place)| Entry { prefix, place })
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.len() * ENTRY_BYTES + self.filter.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{entry, random_prefix};

    #[test]
    fn keeps_the_latest_place_of_each_prefix_in_order() {
        let mut table = MemoryTable::new(10);
        for (seed, pack) in [(3, 1), (1, 1), (3, 2)] {
            table.insert(entry(seed, pack));
        }
        assert_eq!(table.find(random_prefix(3)), Some(entry(3, 2).place));
        assert_eq!(table.find(random_prefix(2)), None);
        assert!(table.entries().is_sorted());
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn older_entries_that_are_taken_back_replace_no_newer_ones() {
        let (mut older, mut newer) = (MemoryTable::new(10), MemoryTable::new(10));
        for seed in [1, 2] {
            older.insert(entry(seed, 1));
        }
        newer.insert(entry(2, 2));
        newer.take_back(&older);
        assert_eq!(newer.find(random_prefix(1)), Some(entry(1, 1).place));
        assert_eq!(newer.find(random_prefix(2)), Some(entry(2, 2).place));
        newer.remove_packs(&BTreeSet::from([PackNumber(2)]));
        assert_eq!(newer.find(random_prefix(2)), None);
        assert_eq!(newer.len(), 1);
    }
}

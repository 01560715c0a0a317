//! The memory table: the newest entries, sorted, until they are many enough for a run.

use std::collections::{BTreeMap, BTreeSet};

use model::{PackNumber, Place};

use super::filter::Filter;
use super::{Entry, Prefix};

/// Bytes of memory that an entry of the table takes, about: the nodes of the tree are two thirds
/// full.
const ENTRY_BYTES: usize = 38;

/// Entries that no run holds yet.
pub(super) struct MemoryTable {
    entries: BTreeMap<Prefix, Place>,
    /// Spares absent prefixes the walk through the tree. May hold prefixes that were removed.
    filter: Filter,
}

impl MemoryTable {
    pub(super) fn new(entries_max: usize) -> Self {
        Self { entries: BTreeMap::new(), filter: Filter::new(entries_max) }
    }

    /// Adds `entry`, in place of one of the same prefix.
    pub(super) fn insert(&mut self, entry: Entry) {
        self.filter.insert(entry.prefix);
        self.entries.insert(entry.prefix, entry.place);
    }

    pub(super) fn find(&self, prefix: Prefix) -> Option<Place> {
        if self.filter.may_hold(prefix) { self.entries.get(&prefix).copied() } else { None }
    }

    pub(super) fn remove_packs(&mut self, packs: &BTreeSet<PackNumber>) {
        self.entries.retain(|_, place| !packs.contains(&place.pack()));
    }

    /// Adds the entries of `older` whose prefixes are not here.
    pub(super) fn take_back(&mut self, older: &Self) {
        for entry in older.entries() {
            self.filter.insert(entry.prefix);
            self.entries.entry(entry.prefix).or_insert(entry.place);
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().map(|(&prefix, &place)| Entry { prefix, place })
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.len() * ENTRY_BYTES + self.filter.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{entry, random_prefix};
    use super::*;

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
    fn what_is_taken_back_gives_way_to_what_came_since() {
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

//! Packs that no new page may name: condemned, removed or damaged packs.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{PackRow, PackState};
use model::PackNumber;

/// Packs that no new page may name.
#[derive(Clone, Debug, Default)]
pub struct CondemnedPacks {
    /// Condemned packs. Each value is the end of the search of the whole catalogue that found no
    /// page naming the pack; `None` if there was no such search. A reader that begins after that
    /// end does not need the pack.
    pub(crate) packs: BTreeMap<PackNumber, Option<LookEnd>>,
    /// Packs that were removed since the process began. A backup may still refer to places in them.
    pub(crate) gone: BTreeSet<PackNumber>,
    /// Packs in which an audit or a reader has found damaged data. Pages that already name them
    /// are not changed.
    pub damaged: BTreeSet<PackNumber>,
    /// Number of condemnations, by all servers, that this set includes.
    pub(crate) generation: u64,
}

/// End of a search of the whole catalogue. Users of packs on this server and on other servers count
/// time differently, so it has two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LookEnd {
    /// The end for users on this server, as a number from [`super::users::Users`].
    pub here: u64,
    /// The end for users on other servers: the generation of condemned packs.
    pub generation: u64,
}

impl CondemnedPacks {
    /// Returns true for a pack that no new page may name.
    pub fn holds(&self, pack: PackNumber) -> bool {
        self.packs.contains_key(&pack) || self.gone.contains(&pack) || self.damaged.contains(&pack)
    }

    /// Sets a later generation.
    pub(crate) fn advance(&mut self, generation: u64) {
        debug_assert!(self.generation <= generation, "condemnations are only added");
        self.generation = generation;
    }

    /// Returns true if this set has the pack in the same state as the pack's row in the catalogue.
    /// A removed pack has no row.
    pub(crate) fn agrees(&self, pack: PackNumber, row: Option<&PackRow>) -> bool {
        match row.map(|row| row.state) {
            None => self.gone.contains(&pack),
            Some(PackState::Condemned) => self.packs.contains_key(&pack),
            Some(PackState::Damaged) => {
                self.damaged.contains(&pack) && !self.packs.contains_key(&pack)
            }
            Some(PackState::Open | PackState::Sealed) => !self.holds(pack),
        }
    }

    /// Updates the state of the pack from its present row. Returns true if new pages could name the
    /// pack before, and cannot name it any more.
    pub(crate) fn take_in(&mut self, pack: PackNumber, row: Option<&PackRow>) -> bool {
        let was_held = self.holds(pack);
        match row.map(|row| row.state) {
            None => {
                self.packs.remove(&pack);
                self.damaged.remove(&pack);
                self.gone.insert(pack);
            }
            Some(PackState::Condemned) => {
                self.packs.entry(pack).or_insert(None);
            }
            Some(PackState::Damaged) => {
                self.packs.remove(&pack);
                self.damaged.insert(pack);
            }
            Some(PackState::Open | PackState::Sealed) => {
                self.packs.remove(&pack);
                self.damaged.remove(&pack);
            }
        }
        debug_assert!(self.agrees(pack, row), "the row was taken in");
        !was_held && self.holds(pack)
    }
}

/// Returns the packs that no new page may name, according to the rows of a catalogue.
pub(crate) fn condemned_packs(rows: &[PackRow]) -> CondemnedPacks {
    let of = |state| rows.iter().filter(move |row| row.state == state).map(|row| row.number);
    CondemnedPacks {
        packs: of(PackState::Condemned).map(|pack| (pack, None)).collect(),
        gone: BTreeSet::new(),
        damaged: of(PackState::Damaged).collect(),
        // The server takes in the generation, with the changes by other servers, before the first
        // commit that depends on it.
        generation: 0,
    }
}

#[cfg(test)]
mod tests;

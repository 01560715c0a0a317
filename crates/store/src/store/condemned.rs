//! Packs that nothing new may name: condemned, removed or damaged ones.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{PackRow, PackState};
use model::PackNumber;

/// Packs that nothing new may name.
#[derive(Clone, Debug, Default)]
pub struct Condemned {
    /// Condemned packs. If a look at the whole catalogue found nothing that names the pack, its
    /// value is the end of that look: a reader that begins after it does not need the pack.
    pub(crate) packs: BTreeMap<PackNumber, Option<LookEnd>>,
    /// Packs that were removed since the process began. A backup may still hold places in them.
    pub(crate) gone: BTreeSet<PackNumber>,
    /// Packs of which an audit has found at least a part damaged. Pages that name them already stay
    /// as they are.
    pub damaged: BTreeSet<PackNumber>,
    /// Number of condemnations by any server that are taken in here.
    pub(crate) generation: u64,
}

/// The end of a look at the whole catalogue, on the clocks of those who use packs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LookEnd {
    /// The end for users on this server: a number of [`super::users::Users`].
    pub here: u64,
    /// The end for users on other servers: the generation of condemned packs.
    pub generation: u64,
}

impl Condemned {
    /// True for a pack that nothing new may name.
    pub fn holds(&self, pack: PackNumber) -> bool {
        self.packs.contains_key(&pack) || self.gone.contains(&pack) || self.damaged.contains(&pack)
    }

    /// Goes on to a later generation.
    pub(crate) fn advance(&mut self, generation: u64) {
        debug_assert!(self.generation <= generation, "condemnations are only added");
        self.generation = generation;
    }

    /// True where the state of the pack here is the one in the catalogue's row.
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

    /// Takes in the present row of the pack. Returns true where nothing new may name the pack from
    /// now on, and something might before.
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

/// The packs that nothing new may name, by the rows of a catalogue.
pub(crate) fn condemned_packs(rows: &[PackRow]) -> Condemned {
    let of = |state| rows.iter().filter(move |row| row.state == state).map(|row| row.number);
    Condemned {
        packs: of(PackState::Condemned).map(|pack| (pack, None)).collect(),
        gone: BTreeSet::new(),
        damaged: of(PackState::Damaged).collect(),
        // The first look at the changes of others comes before the first commit that depends on it.
        generation: 0,
    }
}

#[cfg(test)]
mod tests;

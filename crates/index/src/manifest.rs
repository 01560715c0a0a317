//! The manifest names the runs of the index in the order of their age, the removed packs, and the
//! pack up to which the index is complete. A rename replaces it as a whole, so the index moves from
//! one set of runs to the next in one step.
//!
//! ```text
//! offset        bytes  what (integers little-endian)
//! 0             4      "HFIM"
//! 4             2      version, 1
//! 6             2      zero
//! 8             8      complete_to: a pack number
//! 16            8      the number that the next run will have
//! 24            8      epoch: how often packs were removed
//! 32            4      R, number of runs
//! 36            4      P, number of removed packs
//! 40            24 R   runs, oldest first: number, entries, epoch
//! 40 + 24 R     16 P   removed packs, ascending: pack number, epoch of the removal
//! 40 + 24 R + 16 P  8  xxh3-64 of all before
//! ```

use std::collections::{BTreeMap, BTreeSet};

use model::{PackNumber, Place};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 4] = *b"HFIM";
const VERSION: u16 = 1;
/// Upper limit of pack numbers: every pack has a smaller number.
const PACK_NUMBER_END: u64 = 1 << 39;
/// Maximum number of entries in a run: more chunks than an index will have.
pub(crate) const ENTRIES_MAX: u64 = 1 << 40;

/// The number of a run. An index gives each number to one run only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunNumber(pub u64);

/// Count of the removals of packs. A run of epoch `e` has no entries of the packs that were removed
/// up to epoch `e`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Epoch(pub(crate) u64);

/// The removed packs, each with the epoch of its removal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Removals(BTreeMap<PackNumber, Epoch>);

impl Removals {
    /// Returns true if the pack of `place`, which is in a run of `epoch`, was removed after that
    /// epoch.
    pub(crate) fn hides(&self, place: Place, epoch: Epoch) -> bool {
        self.0.get(&place.pack()).is_some_and(|&removed| removed > epoch)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Identity of a run that is about to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunIdentity {
    pub(crate) number: RunNumber,
    pub(crate) epoch: Epoch,
}

/// A run of the index, as the manifest describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NamedRun {
    pub(crate) number: RunNumber,
    pub(crate) entries: u64,
    pub(crate) epoch: Epoch,
}

/// The parts of the index, as they are on disk.
///
/// Invariants: run numbers differ and are below `run_next`; no epoch is above `epoch`; every run
/// has at least one entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Manifest {
    /// Last pack up to which every chunk of every pack is in the runs, except for removed packs.
    pub(crate) complete_to: PackNumber,
    pub(crate) run_next: RunNumber,
    pub(crate) epoch: Epoch,
    /// The runs, oldest first.
    pub(crate) runs: Vec<NamedRun>,
    pub(crate) removals: Removals,
}

impl Manifest {
    pub(crate) fn empty() -> Self {
        Self {
            complete_to: PackNumber(0),
            run_next: RunNumber(1),
            epoch: Epoch(0),
            runs: Vec::new(),
            removals: Removals::default(),
        }
    }

    /// Returns a run number that was never given out.
    pub(crate) fn take_run_number(&mut self) -> RunNumber {
        let number = self.run_next;
        self.run_next = RunNumber(number.0 + 1);
        number
    }

    /// Begins a new epoch, and notes that `packs` were removed in it.
    pub(crate) fn remove_packs(&mut self, packs: &BTreeSet<PackNumber>) {
        self.epoch = Epoch(self.epoch.0 + 1);
        assert!(
            self.runs.iter().all(|run| run.epoch < self.epoch),
            "every run must be older than the removal"
        );
        self.removals.0.extend(packs.iter().map(|&pack| (pack, self.epoch)));
        self.drop_old_removals();
    }

    /// Replaces the runs numbered `sources`, which must be neighbours, with the run `merged`, which
    /// is `None` if no entry was left.
    pub(crate) fn replace_runs(&mut self, sources: &[RunNumber], merged: Option<NamedRun>) {
        let start = self.runs.iter().position(|run| Some(&run.number) == sources.first());
        let start = start.expect("only a merge removes runs, and there is one merge at a time");
        let replaced: Vec<_> = self.runs.splice(start..start + sources.len(), merged).collect();
        assert!(
            replaced.iter().map(|run| &run.number).eq(sources),
            "merged runs must be neighbours"
        );
        self.drop_old_removals();
    }

    /// Drops the removals that hide no entry, because no run is older than the removal.
    fn drop_old_removals(&mut self) {
        let oldest = self.runs.iter().map(|run| run.epoch).min();
        self.removals
            .0
            .retain(|_, &mut removed| oldest.is_some_and(|oldest| removed > oldest));
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(
            self.is_sound(),
            "the invariants must hold, because a reader refuses anything else"
        );
        let count =
            |length: usize| u32::try_from(length).expect("the number of packs bounds the count");
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        for number in [self.complete_to.0, self.run_next.0, self.epoch.0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&count(self.runs.len()).to_le_bytes());
        bytes.extend_from_slice(&count(self.removals.len()).to_le_bytes());
        let runs = self.runs.iter().flat_map(|run| [run.number.0, run.entries, run.epoch.0]);
        let removed = self.removals.0.iter().flat_map(|(pack, epoch)| [pack.0, epoch.0]);
        bytes.extend(runs.chain(removed).flat_map(u64::to_le_bytes));
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        debug_assert_eq!(Self::decode(&bytes).as_ref(), Some(self));
        bytes
    }

    /// Returns the manifest that `bytes` encode; `None` when they are damaged or of another
    /// version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut rest, checksum) = bytes.split_last_chunk()?;
        if xxh3_64(rest) != u64::from_le_bytes(*checksum) || take(&mut rest)? != MAGIC {
            return None;
        }
        if u16::from_le_bytes(take(&mut rest)?) != VERSION || take(&mut rest)? != [0; 2] {
            return None;
        }
        let complete_to = PackNumber(take_u64(&mut rest)?);
        let run_next = RunNumber(take_u64(&mut rest)?);
        let epoch = Epoch(take_u64(&mut rest)?);
        let run_count = u32::from_le_bytes(take(&mut rest)?);
        let removed_count = u32::from_le_bytes(take(&mut rest)?);
        let runs = (0..run_count).map(|_| take_run(&mut rest)).collect::<Option<_>>()?;
        let removals =
            (0..removed_count).map(|_| take_removal(&mut rest)).collect::<Option<_>>()?;
        let removals = Removals(removals);
        let differ = removals.len() as u64 == u64::from(removed_count);
        let manifest = Self { complete_to, run_next, epoch, runs, removals };
        (rest.is_empty() && differ && manifest.is_sound()).then_some(manifest)
    }

    /// Returns true if the invariants hold.
    fn is_sound(&self) -> bool {
        let numbers: BTreeSet<_> = self.runs.iter().map(|run| run.number).collect();
        let run_fits = |run: &NamedRun| {
            run.number < self.run_next
                && run.epoch <= self.epoch
                && (1..=ENTRIES_MAX).contains(&run.entries)
        };
        self.complete_to.0 < PACK_NUMBER_END
            && numbers.len() == self.runs.len()
            && self.runs.iter().all(run_fits)
            && self.removals.0.values().all(|&removed| removed <= self.epoch)
    }
}

fn take<const BYTES: usize>(rest: &mut &[u8]) -> Option<[u8; BYTES]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

fn take_run(rest: &mut &[u8]) -> Option<NamedRun> {
    Some(NamedRun {
        number: RunNumber(take_u64(rest)?),
        entries: take_u64(rest)?,
        epoch: Epoch(take_u64(rest)?),
    })
}

fn take_removal(rest: &mut &[u8]) -> Option<(PackNumber, Epoch)> {
    Some((PackNumber(take_u64(rest)?), Epoch(take_u64(rest)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u64, epoch: u64) -> NamedRun {
        NamedRun { number: RunNumber(number), entries: 100 * number, epoch: Epoch(epoch) }
    }

    fn sample() -> Manifest {
        let mut manifest = Manifest::empty();
        manifest.complete_to = PackNumber(12);
        manifest.run_next = RunNumber(9);
        manifest.runs = vec![run(3, 0), run(8, 0)];
        manifest.remove_packs(&BTreeSet::from([PackNumber(4), PackNumber(2)]));
        manifest
    }

    #[test]
    fn survives_its_bytes() {
        for manifest in [Manifest::empty(), sample()] {
            assert_eq!(Manifest::decode(&manifest.encode()), Some(manifest));
        }
    }

    #[test]
    fn its_bytes_are_the_documented_ones() {
        let bytes = sample().encode();
        let numbers = [12, 9, 1, 2 | 2 << 32, 3, 300, 0, 8, 800, 0, 2, 1, 4, 1];
        let numbers: Vec<u8> =
            numbers.iter().flat_map(|number: &u64| number.to_le_bytes()).collect();
        let body = [b"HFIM\x01\0\0\0", &numbers[..]].concat();
        assert_eq!(bytes, [&body[..], &xxh3_64(&body).to_le_bytes()].concat());
    }

    #[test]
    fn damage_is_noticed_wherever_it_is() {
        let bytes = sample().encode();
        for at in 0..bytes.len() {
            assert_eq!(Manifest::decode(&bytes[..at]), None);
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert_eq!(Manifest::decode(&flipped), None);
            }
        }
    }

    #[test]
    fn reserved_bytes_are_refused() {
        for at in 6..8 {
            let mut bytes = sample().encode();
            bytes[at] = 1;
            let (body, checksum) = bytes.split_last_chunk_mut::<8>().expect("it is longer");
            *checksum = xxh3_64(body).to_le_bytes();
            assert_eq!(Manifest::decode(&bytes), None, "byte {at}");
        }
    }

    #[test]
    fn well_summed_nonsense_is_refused() {
        let spoil: [fn(&mut Manifest); 6] = [
            |manifest| manifest.complete_to = PackNumber(1 << 39),
            |manifest| manifest.run_next = RunNumber(8),
            |manifest| manifest.runs[0] = manifest.runs[1],
            |manifest| manifest.runs[0].entries = 0,
            |manifest| manifest.runs[0].epoch = Epoch(2),
            |manifest| manifest.epoch = Epoch(0),
        ];
        for spoil in spoil {
            let mut manifest = sample();
            let numbers = |manifest: &Manifest| manifest.runs.len() + manifest.removals.len();
            let before = numbers(&manifest);
            spoil(&mut manifest);
            assert_eq!(numbers(&manifest), before);
            assert!(!manifest.is_sound());
        }
    }

    #[test]
    fn a_removal_is_kept_while_there_is_an_older_run() {
        let mut manifest = sample();
        let place = |pack| Place::new(PackNumber(pack), 0);
        assert!(manifest.removals.hides(place(4), Epoch(0)));
        assert!(!manifest.removals.hides(place(4), Epoch(1)));
        assert!(!manifest.removals.hides(place(3), Epoch(0)));
        manifest.runs.push(run(9, 1));
        manifest.replace_runs(&[RunNumber(3)], Some(run(10, 1)));
        assert_eq!(manifest.removals.len(), 2);
        manifest.replace_runs(&[RunNumber(8), RunNumber(9)], None);
        assert_eq!((manifest.runs, manifest.removals.len()), (vec![run(10, 1)], 0));
    }
}

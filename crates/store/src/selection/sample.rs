//! Random samples of the versions of a node.
//!
//! Each version has a *rank*: a hash of the sample's seed and of the version's identity. A sample
//! has all versions whose rank is not above a limit. So each version has the same chance, whatever
//! its size, age or path, and nobody has to remember which versions were drawn. The same seed draws
//! the same versions again, as long as they are stored.
//!
//! Only versions of files with content are drawn: others have no data that could be damaged.
//!
//! A sample of a size has the versions of the lowest ranks, up to the version that reaches the
//! size. If that version were left out, large files would be drawn less often than small ones.

use std::collections::BinaryHeap;

use catalog::Filespace;
use model::{DirPath, FilespaceId, Object, SampleAmount};

use super::select::{Choice, Part, Selection, has_data};
use crate::error::StoreError;
use crate::store::Store;
use crate::store::drills::Sample;

/// Maximum number of versions in a sample of a number or a size. Their ranks are in memory while
/// the sample is drawn.
const VERSIONS_MAX: usize = 1_000_000;
/// Share of all versions, in millionths.
const ALL_MILLIONTHS: u32 = 1_000_000;

impl Sample {
    /// Draws a sample of `amount` from the versions in `filespaces`.
    pub(super) fn draw(
        store: &Store,
        filespaces: &[Filespace],
        amount: SampleAmount,
        seed: u64,
    ) -> Result<Self, StoreError> {
        let mut lot = match amount {
            SampleAmount::Files(0) | SampleAmount::Bytes(0) | SampleAmount::Millionths(0) => {
                return Err(StoreError::usage("a sample has at least one file"));
            }
            SampleAmount::Millionths(millionths) => {
                return Ok(Self { seed, rank_max: rank_max_of_share(millionths)? });
            }
            SampleAmount::Files(_) | SampleAmount::Bytes(_) => Lot::new(amount),
        };
        let all = Self { seed, rank_max: u64::MAX };
        for filespace in filespaces {
            let selection = Selection::of_all_versions(filespace.id, all);
            // A restore of the sample meets the rows that cannot be read here, and reports them.
            selection.walk_readable(&*store.catalog, |batch| {
                for version in &batch.versions {
                    let rank = rank(seed, filespace.id, &batch.directory, &version.object);
                    lot.add(rank, version.object.stat.size)?;
                }
                Ok(())
            })?;
        }
        Ok(Self { seed, rank_max: lot.rank_max() })
    }

    /// Returns true if the sample has this version.
    pub(super) fn has(&self, filespace: FilespaceId, directory: &DirPath, object: &Object) -> bool {
        has_data(object) && rank(self.seed, filespace, directory, object) <= self.rank_max
    }
}

impl Selection {
    /// Returns the selection of the versions of `sample` in a filespace.
    fn of_all_versions(filespace: FilespaceId, sample: Sample) -> Self {
        let span = catalog::PageSpan::Subtree(DirPath::above_root());
        let parts = vec![Part { span, name: None }];
        let (choice, range, sample) = (Choice::All, 0..u64::MAX, Some(sample));
        Self { filespace, choice, parts, range, sample }
    }
}

fn rank_max_of_share(millionths: u32) -> Result<u64, StoreError> {
    match millionths {
        ALL_MILLIONTHS => Ok(u64::MAX),
        0..ALL_MILLIONTHS => Ok(u64::MAX / u64::from(ALL_MILLIONTHS) * u64::from(millionths)),
        _ => Err(StoreError::usage("a sample has at most 100% of the versions")),
    }
}

/// Returns the rank of a version in the samples of a seed.
fn rank(seed: u64, filespace: FilespaceId, directory: &DirPath, object: &Object) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.update(&filespace.0.to_le_bytes());
    hasher.update(&object.inserted.0.to_le_bytes());
    // A directory ends with a slash, which no name has.
    hasher.update(directory.as_bytes());
    hasher.update(object.name.as_bytes());
    let mut rank = [0; 8];
    hasher.finalize_xof().fill(&mut rank);
    u64::from_le_bytes(rank)
}

/// The versions of the lowest ranks so far, as many as the amount needs.
struct Lot {
    amount: SampleAmount,
    /// Ranks and sizes, the highest rank on top.
    lowest: BinaryHeap<(u64, u64)>,
    bytes: u64,
}

impl Lot {
    fn new(amount: SampleAmount) -> Self {
        Self { amount, lowest: BinaryHeap::new(), bytes: 0 }
    }

    /// Returns true if so many versions of so many bytes are enough.
    fn is_enough(&self, versions: usize, bytes: u64) -> bool {
        match self.amount {
            SampleAmount::Files(least) => versions as u64 >= least,
            SampleAmount::Bytes(least) => bytes >= least,
            SampleAmount::Millionths(_) => false,
        }
    }

    fn is_full(&self) -> bool {
        self.is_enough(self.lowest.len(), self.bytes)
    }

    fn add(&mut self, rank: u64, size: u64) -> Result<(), StoreError> {
        if self.is_full() && self.lowest.peek().is_some_and(|&(highest, _)| rank > highest) {
            return Ok(());
        }
        self.lowest.push((rank, size));
        self.bytes = self.bytes.saturating_add(size);
        while let Some(&(_, size)) = self.lowest.peek()
            && self.is_enough(self.lowest.len() - 1, self.bytes.saturating_sub(size))
        {
            self.lowest.pop();
            self.bytes = self.bytes.saturating_sub(size);
        }
        if self.lowest.len() > VERSIONS_MAX {
            return Err(StoreError::usage(format!(
                "this sample has more than {VERSIONS_MAX} files; ask for a share, as in 10%"
            )));
        }
        Ok(())
    }

    /// Returns the highest rank of the sample. If there is less than the amount, the sample has
    /// everything.
    fn rank_max(&self) -> u64 {
        match self.lowest.peek() {
            Some(&(highest, _)) if self.is_full() => highest,
            _ => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the highest rank of a sample from versions of these ranks and sizes.
    #[track_caller]
    fn check(amount: SampleAmount, versions: &[(u64, u64)], expected: u64) {
        let mut lot = Lot::new(amount);
        versions.iter().for_each(|&(rank, size)| lot.add(rank, size).expect("has room"));
        assert_eq!(lot.rank_max(), expected, "{amount:?}");
    }

    #[test]
    fn the_lowest_ranks_are_drawn_in_any_order_of_arrival() {
        let versions = [(50, 7), (10, 5), (40, 1), (20, 100), (30, 5)];
        check(SampleAmount::Files(1), &versions, 10);
        check(SampleAmount::Files(3), &versions, 30);
        check(SampleAmount::Files(5), &versions, 50);
        check(SampleAmount::Files(6), &versions, u64::MAX);
        check(SampleAmount::Files(1), &[], u64::MAX);
    }

    #[test]
    fn the_version_that_reaches_the_size_is_part_of_the_sample() {
        let versions = [(50, 7), (10, 5), (40, 1), (20, 100), (30, 5)];
        check(SampleAmount::Bytes(1), &versions, 10);
        check(SampleAmount::Bytes(5), &versions, 10);
        check(SampleAmount::Bytes(6), &versions, 20);
        check(SampleAmount::Bytes(105), &versions, 20);
        check(SampleAmount::Bytes(106), &versions, 30);
        check(SampleAmount::Bytes(118), &versions, 50);
        check(SampleAmount::Bytes(119), &versions, u64::MAX);
    }

    #[test]
    fn a_share_is_a_share_of_all_ranks() {
        assert_eq!(rank_max_of_share(ALL_MILLIONTHS), Ok(u64::MAX));
        let half = rank_max_of_share(500_000).expect("a share");
        assert!(half.abs_diff(u64::MAX / 2) < 1 << 20);
        assert!(rank_max_of_share(ALL_MILLIONTHS + 1).is_err());
    }

    #[test]
    fn a_sample_that_needs_too_much_memory_is_refused() {
        let mut lot = Lot::new(SampleAmount::Files(u64::MAX));
        let most = VERSIONS_MAX as u64;
        (0..most).for_each(|rank| lot.add(rank, 1).expect("has room"));
        assert!(matches!(lot.add(most, 1), Err(StoreError::Usage(_))));
    }
}

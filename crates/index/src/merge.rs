//! The choice of runs to merge, and the merge itself: several ascending sources into one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use model::Place;

use crate::entry::{Entry, Prefix};
use crate::error::IndexError;

/// Entries in ascending order. A source ends after its first error.
pub(crate) type Source = Box<dyn Iterator<Item = Result<Entry, IndexError>> + Send>;

/// Returns the range of runs to merge into one, given the number of entries of each, oldest first.
///
/// After the merge every run is larger than all younger runs together. So there are at most
/// log2(chunks) runs, and each time an entry is written again, its new run is at least twice as
/// large. The merged runs are neighbours in age, because the latest entry of a prefix must win.
pub(crate) fn plan(entries: &[u64]) -> Option<Range<usize>> {
    let mut younger = 0;
    let mut start = entries.len();
    for (at, &entries) in entries.iter().enumerate().rev() {
        if entries <= younger {
            start = at;
        }
        younger += entries;
    }
    (start < entries.len()).then_some(start..entries.len())
}

/// Iterator over the entries of all sources, ascending. Each prefix comes once, with the entry of
/// the youngest source that has it. Ends after the first error.
pub(crate) struct Merge {
    sources: Vec<Source>,
    /// The next entry of each source. The smallest prefix comes first; among equal prefixes the
    /// entry of the youngest source comes first.
    heads: BinaryHeap<Reverse<Head>>,
    last: Option<Prefix>,
    failed: Option<IndexError>,
}

/// The next entry of a source. Heads are ordered by prefix, then by the rank of the source, which
/// is 0 for the youngest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    prefix: Prefix,
    rank: usize,
    place: Place,
}

impl Merge {
    /// Begins a merge of `sources`, which must be sorted with the youngest first.
    pub(crate) fn new(sources: Vec<Source>) -> Self {
        let count = sources.len();
        let mut merge = Self { sources, heads: BinaryHeap::new(), last: None, failed: None };
        (0..count).for_each(|rank| merge.advance(rank));
        merge
    }

    fn advance(&mut self, rank: usize) {
        match self.sources[rank].next() {
            Some(Ok(Entry { prefix, place })) => {
                self.heads.push(Reverse(Head { prefix, rank, place }));
            }
            Some(Err(error)) => self.failed = Some(error),
            None => {}
        }
    }
}

impl Iterator for Merge {
    type Item = Result<Entry, IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(error) = self.failed.take() {
                self.heads.clear();
                return Some(Err(error));
            }
            let Reverse(Head { prefix, rank, place }) = self.heads.pop()?;
            self.advance(rank);
            debug_assert!(self.last <= Some(prefix), "all sources must ascend");
            if self.last != Some(prefix) {
                self.last = Some(prefix);
                return Some(Ok(Entry { prefix, place }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::tests::entry;

    #[track_caller]
    fn check_plan(entries: &[u64], expected: Option<Range<usize>>) {
        assert_eq!(plan(entries), expected);
    }

    #[test]
    fn merges_until_each_run_outweighs_the_younger_ones() {
        check_plan(&[], None);
        check_plan(&[5], None);
        check_plan(&[5, 4], None);
        check_plan(&[4, 4], Some(0..2));
        check_plan(&[8, 2, 2], Some(1..3));
        check_plan(&[4, 2, 2], Some(0..3));
        check_plan(&[10, 9, 1], Some(0..3));
        check_plan(&[100, 9, 3, 3], Some(2..4));
    }

    #[test]
    fn runs_stay_few_and_writes_logarithmic() {
        let (mut runs, mut written) = (Vec::new(), 0);
        for _ in 0..1000 {
            runs.push(1);
            while let Some(range) = plan(&runs) {
                let merged: u64 = runs.splice(range, []).sum();
                runs.push(merged);
                written += merged;
            }
            assert!(runs.len() <= 10);
        }
        assert!(written <= 10 * 1000);
    }

    fn source(entries: &[(u64, u64)]) -> Vec<Result<Entry, IndexError>> {
        let mut entries: Vec<_> = entries.iter().map(|&(seed, pack)| entry(seed, pack)).collect();
        entries.sort_unstable();
        entries.into_iter().map(Ok).collect()
    }

    #[test]
    fn the_youngest_entry_of_a_prefix_wins() {
        let young = source(&[(1, 3), (2, 3)]);
        let old = source(&[(2, 2), (3, 2), (1, 2)]);
        let merge = Merge::new(vec![Box::new(young.into_iter()), Box::new(old.into_iter())]);
        let merged: Result<Vec<_>, _> = merge.collect();
        let expected: Result<Vec<_>, _> = source(&[(1, 3), (2, 3), (3, 2)]).into_iter().collect();
        assert_eq!(merged.expect("no source fails"), expected.expect("no source fails"));
    }

    #[test]
    fn a_failing_source_ends_the_merge() {
        let mut failing = source(&[(1, 1)]);
        failing.push(Err(IndexError::at(Path::new("run"))(io::Error::other("no disk"))));
        let sound = source(&[(2, 2), (3, 2), (4, 2), (5, 2)]);
        let mut merge =
            Merge::new(vec![Box::new(failing.into_iter()), Box::new(sound.into_iter())]);
        assert_eq!(merge.by_ref().filter(Result::is_err).count(), 1);
        assert!(merge.next().is_none());
    }
}

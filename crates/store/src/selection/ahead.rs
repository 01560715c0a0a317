//! Ranges of packs that are requested from object stores before they are read. A store needs time
//! for each answer, but it can prepare many answers at once.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use model::PackNumber;

use crate::store::Store;

/// Maximum total size of the ranges that were requested and not yet read.
const AHEAD_BYTES: u64 = 48 << 20;
/// Maximum size of a range that joins several quanta.
const RANGE_BYTES: u64 = 4 << 20;
/// Maximum gap between two quanta that are read as one range.
const GAP_BYTES: u64 = 128 << 10;

/// The ranges that a window will read, in order.
pub(super) struct ReadAhead {
    ranges: VecDeque<(PackNumber, Range<u64>)>,
    requested_bytes: u64,
    read_bytes: u64,
}

impl ReadAhead {
    /// Collects the ranges of the chunks at `places` (indexes by pack). Packs that are not in an
    /// object store have no ranges.
    pub(super) fn new(store: &Store, places: &BTreeMap<PackNumber, Vec<u32>>) -> Self {
        let mut ranges = VecDeque::new();
        if store.pools.has_buckets() {
            for (pack, indexes) in places.iter().filter(|(pack, _)| store.pools.is_object(**pack)) {
                // A pack without a table is reported as damaged later, when it is read.
                let Ok(table) = store.pools.table(*pack) else { continue };
                let mut quanta: Vec<usize> =
                    indexes.iter().filter_map(|index| table.quantum_of(*index)).collect();
                quanta.sort_unstable();
                quanta.dedup();
                let ranges_read = quanta.into_iter().map(|at| {
                    let quantum = table.quanta()[at];
                    quantum.offset..quantum.offset + u64::from(quantum.record_bytes)
                });
                ranges.extend(join(ranges_read).into_iter().map(|range| (*pack, range)));
            }
        }
        Self { ranges, requested_bytes: 0, read_bytes: 0 }
    }

    /// Requests further ranges after `read_bytes` more bytes have been read.
    pub(super) fn advance(&mut self, store: &Store, read_bytes: u64) {
        self.read_bytes += read_bytes;
        while self.requested_bytes < self.read_bytes + AHEAD_BYTES
            && let Some((pack, range)) = self.ranges.pop_front()
        {
            self.requested_bytes += range.end - range.start;
            store.pools.read_ahead(pack, range);
        }
    }
}

/// Joins neighbours among sorted ranges if the gap between them is small.
fn join(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last)
                if range.start <= last.end + GAP_BYTES && range.end - last.start <= RANGE_BYTES =>
            {
                last.end = range.end;
            }
            _ => joined.push(range),
        }
    }
    debug_assert!(joined.is_sorted_by(|a, b| a.end <= b.start), "no byte is read twice");
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_lie_close_are_read_at_once() {
        const KIB: u64 = 1 << 10;
        let check = |ranges: &[Range<u64>], expected: usize| {
            let found = join(ranges.iter().cloned());
            assert_eq!(found.len(), expected);
            let ends =
                |all: &[Range<u64>]| all.first().map(|r| r.start).zip(all.last().map(|r| r.end));
            assert_eq!(ends(&found), ends(ranges));
        };
        check(&[], 0);
        check(&[32..KIB, KIB..2 * KIB], 1);
        check(&[0..KIB, 100 * KIB..101 * KIB], 1);
        check(&[0..KIB, 130 * KIB..131 * KIB], 2);
        let many: Vec<Range<u64>> = (0..9).map(|at| at * KIB * KIB..(at + 1) * KIB * KIB).collect();
        assert_eq!(join(many.into_iter()).len(), 3);
    }
}

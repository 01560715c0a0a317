//! What is asked of object stores before it is read: stores take their time for each answer, and
//! give many at once.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use model::PackNumber;

use crate::core::Core;

/// Asked for and not yet read at most.
const AHEAD_BYTES: u64 = 48 << 20;
/// Of one range, at most, but for a quantum that is larger.
const RANGE_BYTES: u64 = 4 << 20;
/// What lies between two quanta is read with them where it is no longer than this.
const GAP_BYTES: u64 = 128 << 10;

/// The ranges of a window that will be read, in order.
pub(super) struct ReadAhead {
    ranges: VecDeque<(PackNumber, Range<u64>)>,
    asked_bytes: u64,
    read_bytes: u64,
}

impl ReadAhead {
    /// Of the chunks at `places`, by pack; nothing where no pack is in an object store.
    pub(super) fn new(core: &Core, places: &BTreeMap<PackNumber, Vec<u32>>) -> Self {
        let mut ranges = VecDeque::new();
        if core.pools.has_buckets() {
            for (pack, indexes) in places.iter().filter(|(pack, _)| core.pools.is_object(**pack)) {
                // One that cannot be read is told of when it is its turn.
                let Ok(table) = core.pools.table(*pack) else { continue };
                let mut found: Vec<usize> =
                    indexes.iter().filter_map(|index| table.quantum_of(*index)).collect();
                found.sort_unstable();
                found.dedup();
                let quanta = found.into_iter().map(|at| {
                    let quantum = table.quanta()[at];
                    quantum.offset..quantum.offset + u64::from(quantum.record_bytes)
                });
                ranges.extend(joined(quanta).into_iter().map(|range| (*pack, range)));
            }
        }
        Self { ranges, asked_bytes: 0, read_bytes: 0 }
    }

    /// So many bytes have been read: asks for what comes next.
    pub(super) fn advance(&mut self, core: &Core, read_bytes: u64) {
        self.read_bytes += read_bytes;
        while self.asked_bytes < self.read_bytes + AHEAD_BYTES
            && let Some((pack, range)) = self.ranges.pop_front()
        {
            self.asked_bytes += range.end - range.start;
            core.pools.read_ahead(pack, range);
        }
    }
}

/// Ranges, in order, as few as are worth it.
fn joined(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
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
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_lie_close_are_read_at_once() {
        const KIB: u64 = 1 << 10;
        let check = |ranges: &[Range<u64>], expected: usize| {
            let found = joined(ranges.iter().cloned());
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
        assert_eq!(joined(many.into_iter()).len(), 3);
    }
}

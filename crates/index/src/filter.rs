//! A blocked Bloom filter over chunk prefixes: each prefix sets its bits within one cache line, so
//! a look-up costs one access to memory.
//!
//! A prefix is part of a BLAKE3 digest, so its own bits serve as the hash: the upper half chooses
//! the line, the lower half the bits. The line number grows with the prefix, so sorted entries and
//! sorted look-ups walk through the filter from one end to the other.
//!
//! A node that chooses the digests of its chunks can fill one line. The cost is more reads of
//! blocks, never a wrong answer.

use crate::entry::Prefix;

/// Number of bits of the filter for each entry. About 1 of 80 absent prefixes passes.
const BITS_PER_ENTRY: usize = 10;
/// Number of bits that a prefix sets.
const BITS_SET: u32 = 7;
const LINE_BITS: usize = 512;
const LINE_WORDS: usize = LINE_BITS / 64;
/// Number of bits of a prefix that select one bit of a line.
const BIT_NUMBER_BITS: u32 = 9;

const _: () =
    assert!(1 << BIT_NUMBER_BITS == LINE_BITS, "a bit number must reach every bit of a line");
const _: () = assert!(
    BITS_SET * BIT_NUMBER_BITS <= 64,
    "the lower half must be long enough for all bit numbers"
);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(align(64))]
struct Line([u64; LINE_WORDS]);

/// A set of prefixes that recognises most absent prefixes, and never reports a present prefix as
/// absent.
///
/// Invariant: there is at least one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Filter {
    lines: Vec<Line>,
}

impl Filter {
    pub(crate) const LINE_BYTES: usize = LINE_BITS / 8;

    /// Returns an empty filter that recognises absent prefixes well up to `entries_max` entries.
    pub(crate) fn new(entries_max: usize) -> Self {
        let lines = entries_max.saturating_mul(BITS_PER_ENTRY).div_ceil(LINE_BITS).max(1);
        Self { lines: vec![Line([0; LINE_WORDS]); lines] }
    }

    pub(crate) fn insert(&mut self, prefix: Prefix) {
        let line_index = self.line_index(prefix);
        let line = &mut self.lines[line_index].0;
        for bit in bits(prefix) {
            line[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Returns false only if `prefix` is absent. Always tests all the bits, because the branches of
    /// an early exit would cost more.
    #[inline]
    pub(crate) fn may_hold(&self, prefix: Prefix) -> bool {
        let line = &self.lines[self.line_index(prefix)].0;
        bits(prefix).fold(1, |held, bit| held & line[bit / 64] >> (bit % 64)) == 1
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * Self::LINE_BYTES
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| line.0).flat_map(u64::to_le_bytes).collect()
    }

    /// Returns the filter that `bytes` encode; `None` unless there is a whole number of lines, and
    /// at least one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (lines, rest) = bytes.as_chunks::<{ Self::LINE_BYTES }>();
        if lines.is_empty() || !rest.is_empty() {
            return None;
        }
        let line = |bytes: &[u8; Self::LINE_BYTES]| {
            let mut words = [0; LINE_WORDS];
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            Line(words)
        };
        Some(Self { lines: lines.iter().map(line).collect() })
    }

    fn line_index(&self, prefix: Prefix) -> usize {
        let product = u128::from(prefix.upper()) * self.lines.len() as u128;
        usize::try_from(product >> 64).expect("smaller than the number of lines")
    }
}

fn bits(prefix: Prefix) -> impl Iterator<Item = usize> {
    let lower = prefix.lower();
    (0..BITS_SET).map(move |rank| {
        let bit = lower >> (rank * BIT_NUMBER_BITS) & (LINE_BITS as u64 - 1);
        usize::try_from(bit).expect("masked to 9 bits")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::random_prefix;

    #[test]
    fn inserted_prefixes_pass_and_few_others() {
        let mut filter = Filter::new(10_000);
        (0..10_000).for_each(|seed| filter.insert(random_prefix(seed)));
        assert!((0..10_000).all(|seed| filter.may_hold(random_prefix(seed))));
        let passed = (10_000..110_000).filter(|&seed| filter.may_hold(random_prefix(seed))).count();
        assert!(passed < 2_000, "{passed} of 100000 absent prefixes passed");
    }

    #[test]
    fn survives_its_bytes() {
        let mut filter = Filter::new(200);
        (0..200).for_each(|seed| filter.insert(random_prefix(seed)));
        let bytes = filter.encode();
        assert_eq!(bytes.len(), filter.bytes());
        assert_eq!(Filter::decode(&bytes).as_ref(), Some(&filter));
        assert_eq!(Filter::decode(&bytes[1..]), None);
        assert_eq!(Filter::decode(&[]), None);
    }

    #[test]
    fn extreme_prefixes_have_a_line() {
        for entries_max in [0, 1, 51, 52, 1000] {
            let mut filter = Filter::new(entries_max);
            for prefix in [Prefix(0), Prefix(u128::MAX)] {
                filter.insert(prefix);
                assert!(filter.may_hold(prefix));
            }
        }
    }
}

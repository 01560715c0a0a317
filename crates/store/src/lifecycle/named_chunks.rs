//! Sets of chunks, by pack.

use std::collections::BTreeMap;

use model::PackNumber;

/// Set of the chunks of a pack that something names, with one bit for each index.
#[derive(Clone, Default)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn set(&mut self, index: u32) {
        let at = index as usize / 64;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] |= 1 << (index % 64);
        debug_assert!(self.has(index), "the reader finds the bit");
    }

    pub(crate) fn has(&self, index: u32) -> bool {
        let word = self.0.get(index as usize / 64);
        word.is_some_and(|word| word >> (index % 64) & 1 == 1)
    }
}

pub(crate) type NamedChunks = BTreeMap<PackNumber, Bits>;

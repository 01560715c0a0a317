//! Changes of bytes, as a damaged disk or a hostile peer makes them.

use crate::INPUT_BYTES_MAX;

/// Maximum number of changes of one input.
const CHANGES_MAX: u64 = 6;
/// Number of the kinds of changes.
const KINDS: usize = 9;
/// Number of the first kinds, which keep the length of the bytes.
const KINDS_IN_PLACE: usize = 3;
/// Maximum number of bytes that one change inserts, removes or repeats.
const STRETCH_BYTES_MAX: u64 = 40;
/// Numbers at the edges of types and of varints.
const EDGES: [u64; 16] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    1 << 63,
    u64::MAX >> 1,
    u64::MAX - 1,
    u64::MAX,
];

/// A source of changes. Two mutators that begin with the same number make the same changes.
#[derive(Clone, Debug)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns a number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "there must be a number to return");
        let end = u64::try_from(end).expect("a length fits");
        usize::try_from(self.next() % end).expect("it is below a length")
    }

    /// Returns one of `seeds`, changed at one or several places.
    pub fn mutant(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        assert!(!seeds.is_empty(), "there must be a seed to change");
        let mut bytes = seeds[self.below(seeds.len())].clone();
        self.change(&mut bytes, seeds);
        bytes
    }

    /// Changes `bytes` at one or several places. Half of the time it keeps their length.
    pub fn change(&mut self, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
        let kinds = if self.below(2) == 0 { KINDS_IN_PLACE } else { KINDS };
        for _ in 0..=self.next() % CHANGES_MAX {
            let other = &others[self.below(others.len())];
            let kind = self.below(kinds);
            self.change_once(kind, bytes, other);
        }
        bytes.truncate(INPUT_BYTES_MAX);
    }

    /// Changes `bytes` at one place. Some changes take bytes from `other`.
    fn change_once(&mut self, kind: usize, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len() + 1);
        let stretch = usize::try_from(1 + self.next() % STRETCH_BYTES_MAX).expect("short");
        let end = bytes.len().min(at + stretch);
        match kind {
            0 => self.flip(bytes, at),
            1 => self.set(bytes, at),
            2 => self.put_number(bytes, at),
            3 => self.insert_varint(bytes, at),
            4 => drop(bytes.drain(at..end)),
            5 => {
                let repeated = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, repeated));
            }
            6 => {
                let from = self.below(other.len() + 1);
                let taken = &other[from..other.len().min(from + stretch)];
                drop(bytes.splice(at..end, taken.iter().copied()));
            }
            7 => {
                let random: Vec<u8> = (0..stretch).map(|_| self.byte()).collect();
                drop(bytes.splice(at..at, random));
            }
            _ => bytes.truncate(at),
        }
    }

    fn flip(&mut self, bytes: &mut [u8], at: usize) {
        let bit = self.below(8);
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << bit;
        }
    }

    fn set(&mut self, bytes: &mut [u8], at: usize) {
        let value = self.byte();
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
    }

    /// Writes a number of 1, 2, 4 or 8 bytes over the bytes at `at`.
    fn put_number(&mut self, bytes: &mut [u8], at: usize) {
        let width = 1 << self.below(4);
        let number = self.edge();
        let (little, big) = (number.to_le_bytes(), number.to_be_bytes());
        let written = if self.below(2) == 0 { &little[..width] } else { &big[8 - width..] };
        for (byte, value) in bytes.iter_mut().skip(at).zip(written) {
            *byte = *value;
        }
    }

    /// Writes a number as a varint in the place of the byte at `at`.
    fn insert_varint(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let mut writer = format::Writer::new();
        writer.varint(self.edge());
        let end = bytes.len().min(at + self.below(2));
        drop(bytes.splice(at..end, writer.finish()));
    }

    /// Returns a number at an edge, or next to it.
    fn edge(&mut self) -> u64 {
        let edge = EDGES[self.below(EDGES.len())];
        edge.wrapping_add(self.next() % 3).wrapping_sub(1)
    }

    fn byte(&mut self) -> u8 {
        let [first, ..] = self.next().to_le_bytes();
        first
    }

    /// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators".
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_differ_and_can_be_repeated() {
        let seeds = [b"the first seed".to_vec(), b"another".to_vec()];
        let mutants = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..500).map(|_| mutator.mutant(&seeds)).collect::<Vec<_>>()
        };
        assert_eq!(mutants(1), mutants(1));
        assert_ne!(mutants(1), mutants(2));
        let mut distinct = mutants(1);
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > 400, "only {} inputs are distinct", distinct.len());
    }

    #[test]
    fn an_input_does_not_grow_without_limit() {
        let seeds = [vec![7; INPUT_BYTES_MAX]];
        let mut mutator = Mutator::new(3);
        assert!((0..200).all(|_| mutator.mutant(&seeds).len() <= INPUT_BYTES_MAX));
    }
}

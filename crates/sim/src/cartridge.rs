//! A cartridge and the contents of its tape.

use std::collections::{BTreeMap, BTreeSet};

use crate::clockwork::Spot;

/// Number of wraps on a full tape, as READ END OF WRAP POSITION reports them.
const WRAPS: u64 = 208;

/// Content of a run of equal items on the tape.
#[derive(Clone, Debug)]
enum Content {
    Filemark,
    /// One block: the bytes of `head`, then `word` repeated up to the length `bytes`.
    Block {
        head: Vec<u8>,
        word: [u8; 8],
        bytes: usize,
    },
    /// Blocks whose content is computed from their position.
    Pattern {
        bytes: usize,
    },
}

/// Items of the same kind and size that follow each other.
#[derive(Clone, Debug)]
struct Run {
    first: Spot,
    count: u64,
    content: Content,
}

impl Run {
    fn bytes_each(&self) -> u64 {
        match self.content {
            Content::Filemark => 0,
            Content::Block { bytes, .. } | Content::Pattern { bytes } => bytes as u64,
        }
    }

    fn spot(&self, index: u64) -> Spot {
        Spot {
            block: self.first.block + index,
            bytes: self.first.bytes + index * self.bytes_each(),
        }
    }
}

/// A block or a filemark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Recording {
    Filemark,
    Block(Vec<u8>),
}

/// A cartridge.
#[derive(Clone, Debug)]
pub struct Cartridge {
    pub barcode: String,
    pub capacity_bytes: u64,
    /// Distance from the early warning to the end of the tape, in bytes.
    pub warning_bytes: u64,
    pub is_write_protected: bool,
    pub is_cleaning: bool,
    /// Blocks that cannot be read.
    pub bad_blocks: BTreeSet<u64>,
    pub(crate) attributes: BTreeMap<u16, Vec<u8>>,
    runs: Vec<Run>,
}

impl Cartridge {
    /// Returns a blank cartridge. It is a cleaning cartridge if its barcode starts with CLN.
    pub fn blank(barcode: &str, capacity_bytes: u64, warning_bytes: u64) -> Self {
        Self {
            barcode: barcode.to_owned(),
            capacity_bytes,
            warning_bytes,
            is_write_protected: false,
            is_cleaning: barcode.starts_with("CLN"),
            bad_blocks: BTreeSet::new(),
            attributes: BTreeMap::new(),
            runs: Vec::new(),
        }
    }

    /// Appends `count` blocks of `bytes` bytes each. Their content is computed, so they take no
    /// memory.
    #[must_use]
    pub fn with_pattern(mut self, count: u64, bytes: usize) -> Self {
        let first = self.end();
        self.runs.push(Run { first, count, content: Content::Pattern { bytes } });
        self
    }

    /// Returns the place after the last item on the tape.
    pub(crate) fn end(&self) -> Spot {
        self.runs.last().map_or(Spot::default(), |run| run.spot(run.count))
    }

    fn run_at(&self, block: u64) -> Option<&Run> {
        let after = self.runs.partition_point(|run| run.first.block <= block);
        let run = &self.runs[after.checked_sub(1)?];
        (block < run.first.block + run.count).then_some(run)
    }

    pub(crate) fn spot(&self, block: u64) -> Spot {
        match self.run_at(block) {
            Some(run) => run.spot(block - run.first.block),
            None => self.end(),
        }
    }

    pub(crate) fn recording(&self, block: u64) -> Option<Recording> {
        let run = self.run_at(block)?;
        Some(match &run.content {
            Content::Filemark => Recording::Filemark,
            Content::Block { head, word, bytes } => {
                let rest = word.iter().copied().cycle().take(bytes - head.len());
                Recording::Block(head.iter().copied().chain(rest).collect())
            }
            Content::Pattern { bytes } => {
                let words = (0..).map(|index: u64| block.wrapping_mul(0x9e37_79b9) ^ index);
                Recording::Block(words.flat_map(u64::to_le_bytes).take(*bytes).collect())
            }
        })
    }

    pub(crate) fn is_filemark(&self, block: u64) -> Option<bool> {
        Some(matches!(self.run_at(block)?.content, Content::Filemark))
    }

    /// Removes all items from `block` on.
    pub(crate) fn cut(&mut self, block: u64) {
        self.runs.retain(|run| run.first.block < block);
        if let Some(last) = self.runs.last_mut() {
            last.count = last.count.min(block - last.first.block);
        }
        self.bad_blocks.retain(|&bad| bad < block);
    }

    pub(crate) fn append_filemark(&mut self) {
        let first = self.end();
        self.runs.push(Run { first, count: 1, content: Content::Filemark });
    }

    pub(crate) fn append(&mut self, block: &[u8]) {
        let first = self.end();
        let (head, word) = without_repetition(block);
        let content = Content::Block { head: head.to_vec(), word, bytes: block.len() };
        self.runs.push(Run { first, count: 1, content });
    }

    /// Returns the numbers of the blocks at which the wraps with data end. The last number is the
    /// end of data.
    pub(crate) fn wrap_ends(&self) -> Vec<u64> {
        let wrap_bytes = (self.capacity_bytes / WRAPS).max(1);
        let end = self.end();
        let mut ends: Vec<u64> = (1..=end.bytes / wrap_bytes)
            .map(|wrap| self.block_at(wrap * wrap_bytes))
            .take_while(|&block| block < end.block)
            .collect();
        ends.push(end.block);
        ends
    }

    /// Returns the number of the block that has the byte at `bytes`.
    fn block_at(&self, bytes: u64) -> u64 {
        let after = self.runs.partition_point(|run| run.first.bytes <= bytes);
        let Some(run) = after.checked_sub(1).map(|index| &self.runs[index]) else { return 0 };
        run.first.block + (bytes - run.first.bytes).checked_div(run.bytes_each()).unwrap_or(0)
    }
}

/// Splits `block` into its beginning and a word of 8 bytes that repeats from there to the end.
fn without_repetition(block: &[u8]) -> (&[u8], [u8; 8]) {
    let Some(&word) = block.last_chunk::<8>() else { return (block, [0; 8]) };
    let alike = block.rchunks_exact(8).take_while(|chunk| **chunk == word).count();
    (&block[..block.len() - alike * 8], word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_and_repetition_takes_no_room() {
        let mut cartridge = Cartridge::blank("A00001L8", 1 << 30, 1 << 20);
        let mixed: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let zeros = [&b"head"[..], &vec![0; 1 << 20]].concat();
        for block in [&mixed[..], &zeros, b"x", b"12345678"] {
            cartridge.append(block);
        }
        cartridge.append_filemark();
        assert_eq!(cartridge.recording(0), Some(Recording::Block(mixed)));
        assert_eq!(cartridge.recording(1), Some(Recording::Block(zeros)));
        assert_eq!(cartridge.recording(3), Some(Recording::Block(b"12345678".to_vec())));
        assert_eq!(cartridge.recording(4), Some(Recording::Filemark));
        assert_eq!(cartridge.recording(5), None);
        let Content::Block { head, .. } = &cartridge.runs[1].content else { panic!("a block") };
        assert!(head.len() < 16);
        cartridge.cut(2);
        assert_eq!(cartridge.end(), Spot { block: 2, bytes: 1000 + 4 + (1 << 20) });
    }

    #[test]
    fn a_full_tape_takes_no_memory() {
        let blocks = 12_000_000_000_000 / (512 << 10);
        let cartridge = Cartridge::blank("A00001L8", 12_000_000_000_000, 1 << 30)
            .with_pattern(blocks, 512 << 10);
        assert_eq!(cartridge.end().block, blocks);
        let Some(Recording::Block(block)) = cartridge.recording(blocks / 2) else {
            panic!("a block")
        };
        assert_eq!(block.len(), 512 << 10);
        let ends = cartridge.wrap_ends();
        assert_eq!(ends.last(), Some(&blocks));
        assert!((207..=209).contains(&ends.len()) && ends.is_sorted());
        assert_eq!(cartridge.recording(blocks), None);
    }
}

//! Quanta that are trimmed to the chunks that a reader needs. A reader of a range of a file, such
//! as the kernel in an image, may need one chunk of a quantum of 2 MiB.

use std::io;
use std::ops::Range;

use chunk::{Compression, Compressor, Decompressor, recode};

/// Minimum length of a record that is trimmed, in bytes. The other chunks of a shorter record cost
/// little, and the reader may need them next.
const RECORD_BYTES_MIN: usize = 512 << 10;
/// Minimum ratio of the number of chunks of a quantum to the number of chunks that are sent of it.
const CHUNKS_RATIO: usize = 4;

/// Returns true if a part of a quantum of `chunks` chunks is sent alone.
pub(super) fn pays(record_bytes: usize, chunks: usize, part: &Range<usize>) -> bool {
    record_bytes >= RECORD_BYTES_MIN && part.len() * CHUNKS_RATIO <= chunks
}

/// Maker of records of parts of quanta.
pub(super) struct Trimmer {
    decompressor: Decompressor,
    compressor: Compressor,
}

impl Trimmer {
    pub(super) fn new() -> io::Result<Self> {
        let compressor = Compressor::new(Compression::Level(1))?;
        Ok(Self { decompressor: Decompressor::new()?, compressor })
    }

    /// Returns the record of those chunks whose numbers are in `part`. Returns `None` if `record`
    /// cannot be opened, or has not `chunks` chunks.
    pub(super) fn trim(
        &mut self,
        record: &[u8],
        chunks: usize,
        part: &Range<usize>,
    ) -> Option<Vec<u8>> {
        let whole = self.decompressor.decode(record).ok()?;
        if whole.lengths().len() != chunks {
            return None;
        }
        let keep: Vec<bool> = (0..chunks).map(|number| part.contains(&number)).collect();
        Some(self.compressor.encode(&recode(&whole, &keep)))
    }
}

#[cfg(test)]
mod tests {
    use chunk::RawQuantum;

    use super::*;

    #[test]
    fn a_part_pays_if_it_is_small_and_the_quantum_is_not() {
        assert!(pays(RECORD_BYTES_MIN, 16, &(3..7)));
        assert!(!pays(RECORD_BYTES_MIN - 1, 16, &(3..7)));
        assert!(!pays(RECORD_BYTES_MIN, 16, &(3..8)));
    }

    #[test]
    fn a_part_has_its_chunks_and_a_damaged_record_has_none() {
        let mut raw = RawQuantum::default();
        let chunks: [&[u8]; 4] = [b"abc", b"de", b"fgh", b"i"];
        chunks.iter().for_each(|chunk| _ = raw.push(chunk));
        let mut record = Compressor::new(Compression::Standard).expect("a context").encode(&raw);
        let mut trimmer = Trimmer::new().expect("a context");
        let part = trimmer.trim(&record, 4, &(1..3)).expect("it can be opened");
        let part = Decompressor::new().expect("a context").decode(&part).expect("is whole");
        assert!(part.chunks().eq(chunks[1..3].iter().copied()));
        assert_eq!(trimmer.trim(&record, 5, &(1..3)), None, "it has four chunks");
        *record.last_mut().expect("not empty") ^= 1;
        assert_eq!(trimmer.trim(&record, 4, &(1..3)), None);
    }
}

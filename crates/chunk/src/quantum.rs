//! Making and opening quanta.

use std::io;

use format::Damaged;
use format::quantum::{Codec, Record, encode};
use model::QUANTUM_BYTES_MAX;

/// Chunks collected for one quantum, uncompressed.
///
/// Invariants: the lengths add up to the data; no chunk is empty; at most [`QUANTUM_BYTES_MAX`]
/// bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RawQuantum {
    lengths: Vec<u32>,
    data: Vec<u8>,
}

impl RawQuantum {
    /// An empty quantum with room for all that it may hold.
    pub fn with_room() -> Self {
        Self { lengths: Vec::new(), data: Vec::with_capacity(QUANTUM_BYTES_MAX) }
    }

    /// Whether `chunk_bytes` more fit.
    pub fn fits(&self, chunk_bytes: usize) -> bool {
        self.data.len() + chunk_bytes <= QUANTUM_BYTES_MAX
    }

    /// Adds `chunk`, which must fit and not be empty; returns its index.
    pub fn push(&mut self, chunk: &[u8]) -> u32 {
        assert!(self.fits(chunk.len()) && !chunk.is_empty(), "callers ask fits() first");
        let index = u32::try_from(self.lengths.len()).expect("at most 2^20 chunks");
        self.lengths.push(u32::try_from(chunk.len()).expect("at most 1 MiB"));
        self.data.extend_from_slice(chunk);
        index
    }

    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// The chunks, one behind the other.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The chunks in order.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.data.as_slice();
        self.lengths.iter().map(move |&length| {
            let (chunk, behind) = rest.split_at(length as usize);
            rest = behind;
            chunk
        })
    }
}

/// A zstd context, to be used for many quanta: making one costs as much as compressing a file.
pub struct Compressor {
    context: zstd::bulk::Compressor<'static>,
    level: i32,
    buffer: Vec<u8>,
}

impl Compressor {
    /// Payloads that do not shrink to this share are stored: they would cost time at every restore.
    const WORTH_PER_MILLE: usize = 970;

    /// `level` is zstd's, negative ones included; 0 stores everything uncompressed.
    pub fn new(level: i32) -> io::Result<Self> {
        let context = zstd::bulk::Compressor::new(if level == 0 { 1 } else { level })?;
        Ok(Self { context, level, buffer: vec![0; QUANTUM_BYTES_MAX] })
    }

    /// The record of `quantum`, which must not be empty.
    pub fn encode(&mut self, quantum: &RawQuantum) -> Vec<u8> {
        match self.shrink(&quantum.data) {
            Some(bytes) => encode(Codec::Zstd, &quantum.lengths, &self.buffer[..bytes]),
            None => encode(Codec::Stored, &quantum.lengths, &quantum.data),
        }
    }

    /// Compresses `data` into the buffer if that is worth it; tells how many bytes it became.
    fn shrink(&mut self, data: &[u8]) -> Option<usize> {
        if self.level == 0 {
            return None;
        }
        // A buffer too small for the result makes zstd give up early on incompressible data.
        let room = data.len() * Self::WORTH_PER_MILLE / 1000;
        self.context.compress_to_buffer(data, &mut self.buffer[..room]).ok()
    }
}

/// Opens quanta. Reused, because a context is dear to make.
pub struct Decompressor {
    context: zstd::bulk::Decompressor<'static>,
}

impl Decompressor {
    pub fn new() -> io::Result<Self> {
        Ok(Self { context: zstd::bulk::Decompressor::new()? })
    }

    /// Takes `record` apart: checksum verified, chunks decompressed.
    pub fn decode(&mut self, record: &[u8]) -> Result<RawQuantum, Damaged> {
        let record = Record::decode(record)?;
        let raw_bytes = record.raw_bytes();
        let data = match record.codec {
            Codec::Stored => record.payload.to_vec(),
            Codec::Zstd => self
                .context
                .decompress(record.payload, raw_bytes)
                .map_err(|_| Damaged { what: "quantum", why: "not decompressible" })?,
        };
        if data.len() != raw_bytes {
            return Err(Damaged { what: "quantum", why: "its payload has another length" });
        }
        Ok(RawQuantum { lengths: record.lengths, data })
    }
}

/// The chunks of `quantum` that `keep` says, by index, as a quantum of their own.
pub fn recode(quantum: &RawQuantum, keep: &[bool]) -> RawQuantum {
    let mut kept = RawQuantum::default();
    for (chunk, _) in quantum.chunks().zip(keep).filter(|(_, keep)| **keep) {
        kept.push(chunk);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quanta_survive(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..400), 1..30),
            level in -3..5,
        ) {
            let mut quantum = RawQuantum::with_room();
            chunks.iter().for_each(|chunk| _ = quantum.push(chunk));
            let record = Compressor::new(level).expect("context").encode(&quantum);
            let opened = Decompressor::new().expect("context").decode(&record);
            prop_assert_eq!(opened.as_ref(), Ok(&quantum));
            prop_assert!(quantum.chunks().eq(chunks.iter().map(Vec::as_slice)));
        }
    }

    #[test]
    fn text_shrinks_and_noise_is_stored() {
        let mut compressor = Compressor::new(1).expect("context");
        let mut text = RawQuantum::with_room();
        text.push(&b"int main(void) { return 0; }\n".repeat(1000));
        assert!(compressor.encode(&text).len() < text.data().len() / 10);
        let mut noise = RawQuantum::with_room();
        let mut hasher = blake3::Hasher::new().finalize_xof();
        let mut bytes = vec![0; QUANTUM_BYTES_MAX];
        hasher.fill(&mut bytes);
        noise.push(&bytes);
        let record = compressor.encode(&noise);
        assert_eq!(Record::decode(&record).expect("just made").codec, Codec::Stored);
        assert!(!noise.fits(1));
    }

    #[test]
    fn a_wrong_payload_is_damage() {
        let record = encode(Codec::Zstd, &[100], b"this is no zstd frame");
        assert!(Decompressor::new().expect("context").decode(&record).is_err());
    }

    #[test]
    fn recoding_keeps_what_is_wanted() {
        let mut quantum = RawQuantum::default();
        [&b"a"[..], b"bb", b"ccc"].iter().for_each(|chunk| _ = quantum.push(chunk));
        let kept = recode(&quantum, &[true, false, true]);
        assert!(kept.chunks().eq([&b"a"[..], b"ccc"]));
    }
}

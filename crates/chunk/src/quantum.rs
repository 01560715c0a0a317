//! Quanta: collecting chunks, compression and decompression.

use std::{fmt, io};

use format::DamageError;
use format::quantum::{Codec, Record, encode};
use model::{QUANTUM_BYTES_MAX, QUANTUM_CHUNKS_MAX};
use zstd::zstd_safe::{CParameter, Strategy};

/// Number of chunks after which a quantum counts as full. A server keeps about 50 bytes for each
/// chunk until it has committed the quantum.
const CHUNKS_FULL: usize = 1 << 16;

const _: () = assert!(CHUNKS_FULL < QUANTUM_CHUNKS_MAX as usize, "a server takes each quantum in");

/// Chunks collected for one quantum, uncompressed.
///
/// Invariants: the lengths add up to `used`, the part of the data that holds chunks; no chunk is
/// empty; `used` is at most [`QUANTUM_BYTES_MAX`].
#[derive(Clone, Debug, Default)]
pub struct RawQuantum {
    lengths: Vec<u32>,
    /// The chunks, followed by room for more. The room is kept and used again: to get new memory
    /// from the kernel takes as much time as to compress a tenth of that memory.
    data: Vec<u8>,
    used: usize,
}

impl RawQuantum {
    /// Returns an empty quantum with room for the maximum number of bytes.
    pub fn with_room() -> Self {
        Self { lengths: Vec::new(), data: vec![0; QUANTUM_BYTES_MAX], used: 0 }
    }

    /// Returns true if a chunk of `chunk_bytes` bytes fits too.
    pub fn fits(&self, chunk_bytes: usize) -> bool {
        self.used + chunk_bytes <= QUANTUM_BYTES_MAX && self.lengths.len() < CHUNKS_FULL
    }

    /// Adds `chunk`, which must fit and not be empty; returns its index.
    pub fn push(&mut self, chunk: &[u8]) -> u32 {
        self.room(chunk.len()).copy_from_slice(chunk);
        self.take(chunk.len())
    }

    /// Returns room for `bytes` bytes, which must fit. The caller writes the next chunk there and
    /// then calls [`Self::take`].
    pub fn room(&mut self, bytes: usize) -> &mut [u8] {
        assert!(self.used + bytes <= QUANTUM_BYTES_MAX, "callers ask fits() first");
        let end = self.used + bytes;
        if self.data.len() < end {
            match self.used {
                // Nothing in the room is of use. To grow would copy it, and the next quantum that
                // is a little larger would grow it again.
                0 => self.data = vec![0; end.next_power_of_two()],
                _ => self.data.resize(end, 0),
            }
        }
        &mut self.data[self.used..end]
    }

    /// Adds the first `bytes` bytes of the room that [`Self::room`] returned as a chunk. Returns
    /// the index of the chunk.
    pub fn take(&mut self, bytes: usize) -> u32 {
        assert!(
            bytes > 0 && self.used + bytes <= self.data.len(),
            "a chunk lies in the room that room() returned"
        );
        let index = u32::try_from(self.lengths.len()).expect("at most 2^21 chunks");
        self.lengths.push(u32::try_from(bytes).expect("at most 2 MiB"));
        self.used += bytes;
        index
    }

    /// Removes all chunks and keeps the room.
    pub fn clear(&mut self) {
        self.lengths.clear();
        self.used = 0;
    }

    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// Returns all chunks as one slice.
    pub fn data(&self) -> &[u8] {
        &self.data[..self.used]
    }

    /// Returns the chunks in order.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.data();
        self.lengths.iter().map(move |&length| {
            let (chunk, behind) = rest.split_at(length as usize);
            rest = behind;
            chunk
        })
    }
}

impl PartialEq for RawQuantum {
    fn eq(&self, other: &Self) -> bool {
        self.lengths == other.lengths && self.data() == other.data()
    }
}

impl Eq for RawQuantum {}

/// Effort of compression.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Compression {
    /// No compression.
    Stored,
    /// A strength just below zstd's level 3: it has two hash tables as that level has, but they fit
    /// into a core's own cache. Measured on source trees in quanta of 2 MiB, the result is 9 %
    /// smaller than with level 1 and takes a quarter more time; it is 1 % larger than with level 3
    /// and takes 6 % less time.
    #[default]
    Standard,
    /// A level of zstd, which may be negative.
    Level(i32),
}

/// Shows the effort as users write it: `none`, `standard`, or zstd's level.
impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored => f.write_str("none"),
            Self::Standard => f.write_str("standard"),
            Self::Level(level) => level.fmt(f),
        }
    }
}

/// Parameters by which [`Compression::Standard`] differs from level 3.
const STANDARD: [CParameter; 5] = [
    CParameter::Strategy(Strategy::ZSTD_dfast),
    CParameter::WindowLog(21),
    CParameter::ChainLog(15),
    CParameter::HashLog(16),
    CParameter::MinMatch(5),
];

impl Compression {
    /// Returns the level of zstd, and the parameters that differ from that level.
    pub fn parameters(self) -> (i32, &'static [CParameter]) {
        match self {
            Self::Stored => (1, &[]),
            Self::Standard => (3, &STANDARD),
            Self::Level(level) => (level, &[]),
        }
    }
}

pub(crate) fn context(compression: Compression) -> io::Result<zstd::bulk::Compressor<'static>> {
    let (level, parameters) = compression.parameters();
    let mut context = zstd::bulk::Compressor::new(level)?;
    for parameter in parameters {
        context.set_parameter(*parameter)?;
    }
    Ok(context)
}

/// Compresses quanta. It is used again for each quantum, because a new zstd context takes as long
/// to make as a file takes to compress.
pub struct Compressor {
    context: zstd::bulk::Compressor<'static>,
    compression: Compression,
    buffer: Vec<u8>,
}

/// Records, of data that was compressed here or elsewhere.
pub mod record {
    use super::{Codec, RawQuantum, encode};

    /// Maximum length of a compressed payload, in thousandths of its uncompressed length. A payload
    /// that shrinks less is stored uncompressed, because decompression would cost time at every
    /// restore.
    const WORTH_PER_MILLE: usize = 970;

    /// Returns the maximum length of a compressed payload for `bytes` bytes of data.
    pub(super) fn worth_max(bytes: usize) -> usize {
        bytes * WORTH_PER_MILLE / 1000
    }

    /// Returns true if a payload of `compressed` bytes is worth keeping for `bytes` bytes of data.
    pub fn is_worth(bytes: usize, compressed: usize) -> bool {
        compressed <= worth_max(bytes)
    }

    /// Returns the record of `quantum`, which must not be empty. `compressed` is its data as zstd
    /// frames, one after the other; `None` stores the data as it is.
    pub fn of(quantum: &RawQuantum, compressed: Option<&[u8]>) -> Vec<u8> {
        match compressed {
            Some(payload) => encode(Codec::Zstd, &quantum.lengths, payload),
            None => encode(Codec::Stored, &quantum.lengths, quantum.data()),
        }
    }
}

impl Compressor {
    /// Makes a compressor. Fails if zstd does not know the level.
    pub fn new(compression: Compression) -> io::Result<Self> {
        let context = context(compression)?;
        Ok(Self { context, compression, buffer: vec![0; QUANTUM_BYTES_MAX] })
    }

    /// Changes the compression from the next quantum on.
    pub fn set(&mut self, compression: Compression) -> io::Result<()> {
        if compression != self.compression {
            self.context = context(compression)?;
            self.compression = compression;
        }
        Ok(())
    }

    /// Returns the record of `quantum`, which must not be empty.
    pub fn encode(&mut self, quantum: &RawQuantum) -> Vec<u8> {
        let bytes = self.shrink(quantum.data());
        record::of(quantum, bytes.map(|bytes| &self.buffer[..bytes]))
    }

    /// Compresses `data` into the buffer. Returns the compressed length, or `None` if `data`
    /// shrinks too little.
    fn shrink(&mut self, data: &[u8]) -> Option<usize> {
        if self.compression == Compression::Stored {
            return None;
        }
        // The buffer is too small for incompressible data, so zstd stops early on such data.
        let room = record::worth_max(data.len());
        self.context.compress_to_buffer(data, &mut self.buffer[..room]).ok()
    }
}

/// Decompresses quanta. It is used again for each quantum, because a zstd context takes long to
/// make.
pub struct Decompressor {
    context: zstd::bulk::Decompressor<'static>,
}

impl Decompressor {
    pub fn new() -> io::Result<Self> {
        Ok(Self { context: zstd::bulk::Decompressor::new()? })
    }

    /// Verifies the checksum of `record` and decompresses its chunks.
    pub fn decode(&mut self, record: &[u8]) -> Result<RawQuantum, DamageError> {
        let mut quantum = RawQuantum::default();
        self.decode_into(record, &mut quantum)?;
        Ok(quantum)
    }

    /// Decodes as [`Self::decode`] does, into the room of `quantum`. After an error `quantum` is
    /// empty.
    pub fn decode_into(
        &mut self,
        record: &[u8],
        quantum: &mut RawQuantum,
    ) -> Result<(), DamageError> {
        quantum.clear();
        let record = Record::decode(record)?;
        let raw_bytes = record.raw_bytes();
        let room = quantum.room(raw_bytes);
        let bytes = match record.codec {
            Codec::Stored if record.payload.len() == raw_bytes => {
                room.copy_from_slice(record.payload);
                raw_bytes
            }
            Codec::Stored => record.payload.len(),
            Codec::Zstd => {
                self.context.decompress_to_buffer(record.payload, room).map_err(|_| {
                    DamageError { what: "quantum", why: "its payload cannot be decompressed" }
                })?
            }
        };
        if bytes != raw_bytes {
            return Err(DamageError {
                what: "quantum",
                why: "its payload is not as long as its chunks",
            });
        }
        quantum.lengths = record.lengths;
        quantum.used = raw_bytes;
        Ok(())
    }
}

/// Returns a quantum of those chunks of `quantum` for whose index `keep` is true.
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
            let compression = match level {
                0 => Compression::Stored,
                4 => Compression::Standard,
                level => Compression::Level(level),
            };
            let mut quantum = RawQuantum::with_room();
            chunks.iter().for_each(|chunk| _ = quantum.push(chunk));
            let record = Compressor::new(compression).expect("context").encode(&quantum);
            let opened = Decompressor::new().expect("context").decode(&record);
            prop_assert_eq!(opened.as_ref(), Ok(&quantum));
            prop_assert!(quantum.chunks().eq(chunks.iter().map(Vec::as_slice)));
        }
    }

    #[test]
    fn text_shrinks_and_noise_is_stored() {
        let mut compressor = Compressor::new(Compression::Standard).expect("context");
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
    fn a_quantum_of_tiny_chunks_is_full_by_their_number() {
        let mut quantum = RawQuantum::default();
        let mut chunks = 0;
        while quantum.fits(1) {
            quantum.push(b"x");
            chunks += 1;
        }
        assert_eq!(chunks, CHUNKS_FULL);
        assert!(quantum.data().len() < QUANTUM_BYTES_MAX);
    }

    #[test]
    fn room_for_a_quantum_that_is_a_little_larger_is_there() {
        let mut quantum = RawQuantum::default();
        quantum.push(&[1; 5000]);
        let room = quantum.data.as_ptr();
        for bytes in [5001, 8000, 1, 8192] {
            quantum.clear();
            quantum.push(&vec![2; bytes]);
            assert_eq!(quantum.data.as_ptr(), room, "{bytes}");
            assert_eq!(quantum.data(), vec![2; bytes]);
        }
        quantum.clear();
        quantum.push(&vec![3; QUANTUM_BYTES_MAX - 1]);
        assert_eq!(quantum.data.len(), QUANTUM_BYTES_MAX);
    }

    /// An accelerator makes several frames of a quantum.
    #[test]
    fn frames_one_after_the_other_are_read_as_one() {
        let mut quantum = RawQuantum::default();
        [&[b'a'; 3000][..], &[b'b'; 5000]]
            .iter()
            .for_each(|chunk| _ = quantum.push(chunk));
        let frame = |data| zstd::bulk::compress(data, 1).expect("room");
        let (one, two) = quantum.data().split_at(3500);
        let (nothing, one_frame, two_frame) = (frame(b""), frame(one), frame(two));
        for frames in [&[&one_frame, &two_frame][..], &[&nothing, &one_frame, &nothing, &two_frame]]
        {
            let payload: Vec<u8> = frames.iter().copied().flatten().copied().collect();
            let record = record::of(&quantum, Some(&payload));
            let opened = Decompressor::new().expect("a context").decode(&record);
            assert_eq!(opened.as_ref(), Ok(&quantum), "{} frames", frames.len());
        }
        let record = record::of(&quantum, Some(&frame(one)));
        assert!(Decompressor::new().expect("a context").decode(&record).is_err(), "half of it");
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

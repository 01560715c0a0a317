//! Chunks and their places.

use std::fmt;

/// Maximum number of raw bytes in a quantum.
pub const QUANTUM_BYTES_MAX: usize = 2 << 20;
/// Maximum number of chunks in a quantum that a server takes in. A node that follows this limit
/// closes its quanta earlier: see `chunk::RawQuantum`.
pub const QUANTUM_CHUNKS_MAX: u32 = 1 << 18;
/// Minimum length of a chunk, in bytes. Only the last chunk of a file may be shorter, and a file of
/// at most this length is one chunk.
pub const CHUNK_BYTES_MIN: usize = 128 << 10;
/// Target of content-defined cutting for the mean length of a chunk, in bytes.
pub const CHUNK_BYTES_MEAN: usize = 256 << 10;
/// Maximum length of a chunk, in bytes.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Largest index of a chunk in its pack.
pub const CHUNK_INDEX_MAX: u32 = (1 << 24) - 1;

const _: () = assert!(CHUNK_BYTES_MAX <= QUANTUM_BYTES_MAX, "a quantum must hold any chunk");

/// BLAKE3 digest of a chunk, keyed with the key of its deduplication domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChunkDigest(pub [u8; 32]);

impl ChunkDigest {
    /// The first 16 bytes, which are all that indexes and caches keep of a digest.
    pub fn prefix(&self) -> [u8; 16] {
        let mut prefix = [0; 16];
        prefix.copy_from_slice(&self.0[..16]);
        prefix
    }
}

impl fmt::Display for ChunkDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..16].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The place of a chunk: the number of its pack and its index in the pack. The places of one pack
/// are consecutive numbers.
///
/// Invariant: the pack number is below 2^39.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place(u64);

impl Place {
    pub fn new(pack: super::PackNumber, index: u32) -> Self {
        assert!(pack.0 < 1 << 39, "a pack number must be below 2^39");
        assert!(index <= CHUNK_INDEX_MAX, "a pack holds at most 2^24 chunks");
        Self(pack.0 << 24 | u64::from(index))
    }

    pub fn pack(self) -> super::PackNumber {
        super::PackNumber(self.0 >> 24)
    }

    pub fn index(self) -> u32 {
        u32::try_from(self.0 & u64::from(CHUNK_INDEX_MAX)).expect("masked to 24 bits")
    }
}

/// The place of a chunk as a client names it before its data is committed: in a quantum that the
/// client sent in this session, or among the grants in the same message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SessionPlace {
    /// The chunk `index` of the session's quantum number `quantum`.
    Sent { quantum: u64, index: u32 },
    /// The grant number `grant` of the message.
    Granted { grant: u32 },
}

impl SessionPlace {
    const GRANTED: u64 = 1 << 62;
}

impl PlaceCode for SessionPlace {
    fn from_code(code: u64) -> Option<Self> {
        let index = u32::try_from(code & u64::from(CHUNK_INDEX_MAX)).ok()?;
        match code {
            c if c < Self::GRANTED => Some(Self::Sent { quantum: c >> 24, index }),
            c if c < Self::GRANTED + (1 << 32) => {
                Some(Self::Granted { grant: u32::try_from(c - Self::GRANTED).ok()? })
            }
            _ => None,
        }
    }

    fn code(self) -> u64 {
        match self {
            Self::Sent { quantum, index } => {
                assert!(quantum < 1 << 38 && index <= CHUNK_INDEX_MAX, "too large for a code");
                quantum << 24 | u64::from(index)
            }
            Self::Granted { grant } => Self::GRANTED + u64::from(grant),
        }
    }
}

/// Conversion of a chunk's place to the number that stands for it in pages and messages.
/// Consecutive chunks have consecutive numbers.
pub trait PlaceCode: Copy + Eq {
    /// Returns the place that `code` stands for, or `None` if it stands for no place.
    fn from_code(code: u64) -> Option<Self>;
    fn code(self) -> u64;
}

impl PlaceCode for Place {
    fn from_code(code: u64) -> Option<Self> {
        (code < 1 << 63).then_some(Self(code))
    }

    fn code(self) -> u64 {
        self.0
    }
}

/// A run of chunks at consecutive places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkRange<P = Place> {
    pub first: P,
    pub count: u32,
}

/// A part of a file's content. The lengths of chunks are in the tables of their packs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent<P = Place> {
    Chunks(ChunkRange<P>),
    /// A run of `bytes` zeros, which take no space.
    Hole {
        bytes: u64,
    },
    /// One chunk that the node encrypted before sending. `bytes` is the length of its content. In
    /// the pack, it has the length of the encrypted bytes.
    Sealed {
        place: P,
        bytes: u32,
    },
}

impl<P: Copy> Extent<P> {
    /// The places of the chunks of the extent; `None` for a hole.
    pub fn chunks(&self) -> Option<ChunkRange<P>> {
        match self {
            Self::Chunks(range) => Some(*range),
            Self::Sealed { place, .. } => Some(ChunkRange { first: *place, count: 1 }),
            Self::Hole { .. } => None,
        }
    }
}

/// The server's proof that a node may refer to a chunk instead of sending it. Only the server reads
/// it: it names the place of the chunk in encrypted form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GrantProof(pub [u8; 16]);

impl GrantProof {
    /// Makes a proof of its words, which are little-endian.
    pub fn from_words(words: [u64; 2]) -> Self {
        let number = u128::from(words[0]) | u128::from(words[1]) << 64;
        Self(number.to_le_bytes())
    }

    /// Returns the words of the proof: the encrypted place and the MAC.
    pub fn words(&self) -> [u64; 2] {
        let (words, _) = self.0.as_chunks::<8>();
        [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PackNumber;

    #[test]
    fn places_survive_their_code() {
        let place = Place::new(PackNumber((1 << 39) - 1), CHUNK_INDEX_MAX);
        assert_eq!(Place::from_code(place.code()), Some(place));
        assert_eq!((place.pack(), place.index()), (PackNumber((1 << 39) - 1), CHUNK_INDEX_MAX));
        assert_eq!(Place::from_code(1 << 63), None);
    }

    #[test]
    fn session_places_survive_their_code() {
        for place in [
            SessionPlace::Sent { quantum: 0, index: 0 },
            SessionPlace::Sent { quantum: (1 << 38) - 1, index: CHUNK_INDEX_MAX },
            SessionPlace::Granted { grant: 0 },
            SessionPlace::Granted { grant: u32::MAX },
        ] {
            assert_eq!(SessionPlace::from_code(place.code()), Some(place));
        }
        assert_eq!(SessionPlace::from_code(u64::MAX), None);
    }
}

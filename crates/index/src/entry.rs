//! An entry of the index: the prefix of a chunk's digest, and the chunk's place.

use model::{ChunkDigest, Place};

/// The first 16 bytes of a digest. Prefixes are ordered as their bytes are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Prefix(pub(crate) u128);

impl Prefix {
    pub(crate) fn of(digest: &ChunkDigest) -> Self {
        Self(u128::from_be_bytes(digest.prefix()))
    }

    pub(crate) fn upper(self) -> u64 {
        u64::try_from(self.0 >> 64).expect("64 bits are left")
    }

    pub(crate) fn lower(self) -> u64 {
        u64::try_from(self.0 & u128::from(u64::MAX)).expect("masked to 64 bits")
    }
}

/// The place of a chunk whose digest begins with `prefix`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Entry {
    pub(crate) prefix: Prefix,
    pub(crate) place: Place,
}

//! Sealed chunks. The node compresses and encrypts them, so that the server can neither read nor
//! compress them, and no other node shares them.
//!
//! ```text
//! offset  bytes  field
//!      0      1  format version (1)
//!      1      1  codec of the content: 0 stored, 1 zstd
//!      2      8  name of the key
//!     10     32  synthetic initialisation vector
//!     42      -  content, encrypted with AES-256-GCM
//!      -     16  its tag, which covers the bytes before the content too
//! ```
//!
//! Equal chunks become equal bytes under the same key, so they are stored once: the vector is a
//! keyed hash of codec and content, and the key of each chunk comes from the vector. No two
//! contents are ever encrypted under one key, so the nonce may be zero. (The construction follows
//! RFC 5297: the vector is computed from the content, and is checked when a chunk is opened.)

use std::io;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use model::CHUNK_BYTES_MAX;

use crate::Compression;
use crate::quantum::context;

const VERSION: u8 = 1;
const STORED: u8 = 0;
const ZSTD: u8 = 1;
const HEADER_BYTES: usize = 42;
const TAG_BYTES: usize = 16;
/// Maximum length of a compressed content, in thousandths of its uncompressed length. A content
/// that shrinks less is stored uncompressed, because decompression would cost time at every
/// restore.
const WORTH_PER_MILLE: usize = 970;

/// Bytes by which a sealed chunk is longer than its content.
pub const SEAL_BYTES: usize = HEADER_BYTES + TAG_BYTES;

/// Name of a key. Every chunk that the key has sealed contains the name. The name does not reveal
/// the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyName(pub [u8; 8]);

impl std::fmt::Display for KeyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A node's secret, and the keys derived from it.
#[derive(Clone)]
pub struct SealKey {
    secret: [u8; 32],
    name: KeyName,
    vector_key: [u8; 32],
    content_key: [u8; 32],
}

impl SealKey {
    pub const BYTES: usize = 32;

    pub fn new(secret: [u8; 32]) -> Self {
        let derive = |context: &str| blake3::derive_key(context, &secret);
        let mut name = [0; 8];
        name.copy_from_slice(&derive("holdfast sealed chunk v1: name of the key")[..8]);
        Self {
            secret,
            name: KeyName(name),
            vector_key: derive("holdfast sealed chunk v1: vector"),
            content_key: derive("holdfast sealed chunk v1: content"),
        }
    }

    pub fn name(&self) -> KeyName {
        self.name
    }

    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    fn vector(&self, codec: u8, content: &[u8]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.vector_key);
        hasher.update(&[VERSION, codec]).update(content);
        *hasher.finalize().as_bytes()
    }

    /// Returns the cipher for the only chunk that has this `vector`.
    fn cipher(&self, vector: &[u8]) -> LessSafeKey {
        let key = blake3::keyed_hash(&self.content_key, vector);
        let key = UnboundKey::new(&AES_256_GCM, key.as_bytes()).expect("a key has 32 bytes");
        LessSafeKey::new(key)
    }
}

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SealKey({})", self.name)
    }
}

/// Seals chunks. It is used again for each chunk, because a zstd context takes long to make.
pub struct Sealer {
    key: SealKey,
    context: zstd::bulk::Compressor<'static>,
    buffer: Vec<u8>,
}

impl Sealer {
    pub fn new(key: SealKey) -> io::Result<Self> {
        let context = context(Compression::Standard)?;
        Ok(Self { key, context, buffer: Vec::new() })
    }

    /// Returns the sealed form of `chunk`, which is at most [`SEAL_BYTES`] longer. If `compresses`
    /// is set, the chunk is compressed unless it shrinks too little.
    pub fn seal(&mut self, chunk: &[u8], compresses: bool) -> Vec<u8> {
        let shrunk = if compresses { self.shrink(chunk) } else { None };
        let (codec, content) = match shrunk {
            Some(bytes) => (ZSTD, &self.buffer[..bytes]),
            None => (STORED, chunk),
        };
        let vector = self.key.vector(codec, content);
        let mut sealed = Vec::with_capacity(content.len() + SEAL_BYTES);
        sealed.extend_from_slice(&[VERSION, codec]);
        sealed.extend_from_slice(&self.key.name.0);
        sealed.extend_from_slice(&vector);
        sealed.extend_from_slice(content);
        let (header, content) = sealed.split_at_mut(HEADER_BYTES);
        let tag = self
            .key
            .cipher(&vector)
            .seal_in_place_separate_tag(nonce(), Aad::from(header), content)
            .expect("a chunk is far shorter than the cipher's limit");
        sealed.extend_from_slice(tag.as_ref());
        sealed
    }

    /// Compresses `chunk` into the buffer. Returns the compressed length, or `None` if the chunk
    /// shrinks too little.
    fn shrink(&mut self, chunk: &[u8]) -> Option<usize> {
        let room = chunk.len() * WORTH_PER_MILLE / 1000;
        self.buffer.resize(room.max(self.buffer.len()), 0);
        self.context.compress_to_buffer(chunk, &mut self.buffer[..room]).ok()
    }
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// Reason why a sealed chunk cannot be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnsealError {
    #[error(
        "the data is encrypted with the key {0}, which this node does not have; \
         add the key with 'holdfast key import'"
    )]
    NoKey(KeyName),
    #[error("the encrypted data is damaged")]
    Damaged,
}

/// Opens sealed chunks. It is used again for each chunk, because a zstd context takes long to make.
pub struct Unsealer<'a> {
    keys: &'a [SealKey],
    context: zstd::bulk::Decompressor<'static>,
}

impl<'a> Unsealer<'a> {
    pub fn new(keys: &'a [SealKey]) -> io::Result<Self> {
        Ok(Self { keys, context: zstd::bulk::Decompressor::new()? })
    }

    /// Returns the chunk that `sealed` holds, which must have `bytes` bytes.
    pub fn unseal(&mut self, sealed: &[u8], bytes: usize) -> Result<Vec<u8>, UnsealError> {
        let damaged = UnsealError::Damaged;
        if sealed.len() < SEAL_BYTES || sealed[0] != VERSION || bytes > CHUNK_BYTES_MAX {
            return Err(damaged);
        }
        let (header, content) = sealed.split_at(HEADER_BYTES);
        let (name, vector) = header[2..].split_at(8);
        let name = KeyName(name.try_into().expect("split at its length"));
        let key = self.keys.iter().find(|key| key.name == name);
        let key = key.ok_or(UnsealError::NoKey(name))?;
        let mut content = content.to_vec();
        let opened = key
            .cipher(vector)
            .open_in_place(nonce(), Aad::from(header), &mut content)
            .map_err(|_| damaged)?;
        if key.vector(header[1], opened) != vector {
            return Err(damaged);
        }
        let chunk = match header[1] {
            STORED => opened.to_vec(),
            ZSTD => self.context.decompress(opened, bytes).map_err(|_| damaged)?,
            _ => return Err(damaged),
        };
        if chunk.len() == bytes { Ok(chunk) } else { Err(damaged) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(byte: u8) -> SealKey {
        SealKey::new([byte; 32])
    }

    fn seal(chunk: &[u8], byte: u8, compresses: bool) -> Vec<u8> {
        Sealer::new(key(byte)).expect("context").seal(chunk, compresses)
    }

    proptest! {
        #[test]
        fn chunks_survive(
            chunk in prop::collection::vec(0..4_u8, 1..3000),
            compresses in any::<bool>(),
        ) {
            let sealed = seal(&chunk, 1, compresses);
            prop_assert!(sealed.len() <= chunk.len() + SEAL_BYTES);
            prop_assert!(!sealed.windows(24).any(|part| chunk.windows(24).any(|of| of == part)));
            let keys = [key(2), key(1)];
            let opened = Unsealer::new(&keys).expect("context").unseal(&sealed, chunk.len());
            prop_assert_eq!(opened, Ok(chunk));
        }
    }

    #[test]
    fn equal_chunks_are_equal_sealed_and_other_ones_share_nothing() {
        assert_eq!(seal(b"the same", 1, true), seal(b"the same", 1, true));
        assert_ne!(seal(b"the same", 1, true), seal(b"the same", 2, true));
        let (a, b) = (seal(&[0; 100], 1, false), seal(&[1; 100], 1, false));
        let (a, b) = (&a[HEADER_BYTES..], &b[HEADER_BYTES..]);
        // If one key stream had encrypted both contents, their difference would be visible.
        assert!(a.iter().zip(b).take(100).any(|(a, b)| a ^ b != 1));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let sealed = seal(b"some content", 1, true);
        let keys = [key(1)];
        let mut unsealer = Unsealer::new(&keys).expect("context");
        for at in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(unsealer.unseal(&damaged, 12).is_err(), "bit {at}");
        }
        assert!(unsealer.unseal(&sealed[..SEAL_BYTES - 1], 12).is_err());
        assert_eq!(unsealer.unseal(&sealed, 11), Err(UnsealError::Damaged));
    }

    #[test]
    fn without_the_key_its_name_is_told() {
        let sealed = seal(b"some content", 1, true);
        let none = Unsealer::new(&[]).expect("context").unseal(&sealed, 12);
        assert_eq!(none, Err(UnsealError::NoKey(key(1).name())));
    }

    /// A chunk that an earlier release sealed stays readable.
    #[test]
    fn the_format_stays() {
        let sealed = seal(b"abc", 7, true);
        let shown = data_encoding::HEXLOWER.encode(&sealed);
        insta::assert_snapshot!(shown);
    }
}

//! Digests of chunks and of whole contents.

use model::ChunkDigest;

/// Key of a deduplication domain. Digests that were made with another key say nothing about the
/// chunks of this domain.
#[derive(Clone, PartialEq, Eq)]
pub struct DomainKey([u8; 32]);

impl DomainKey {
    pub const BYTES: usize = 32;

    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the keyed BLAKE3 hash of `chunk`.
    pub fn digest(&self, chunk: &[u8]) -> ChunkDigest {
        ChunkDigest(*blake3::keyed_hash(&self.0, chunk).as_bytes())
    }
}

impl std::fmt::Debug for DomainKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DomainKey(..)")
    }
}

/// Hashes the content of a file, given as chunk digests and holes in order, to 128 bits. With this
/// hash, client and server compare a file with its backed-up content without sending the digests.
#[derive(Default)]
pub struct ContentHasher {
    hasher: blake3::Hasher,
}

impl ContentHasher {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn chunk(&mut self, digest: &ChunkDigest) {
        self.hasher.update(b"c").update(&digest.0);
    }

    pub fn hole(&mut self, bytes: u64) {
        self.hasher.update(b"h").update(&bytes.to_le_bytes());
    }

    pub fn finish(self) -> [u8; 16] {
        let mut short = [0; 16];
        short.copy_from_slice(&self.hasher.finalize().as_bytes()[..16]);
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_decides_the_digest() {
        let (a, b) = (DomainKey::new([1; 32]), DomainKey::new([2; 32]));
        assert_ne!(a.digest(b"data"), b.digest(b"data"));
        assert_eq!(a.digest(b"data"), a.digest(b"data"));
        assert_eq!(format!("{a:?}"), "DomainKey(..)");
    }

    #[test]
    fn holes_and_order_change_the_content() {
        let digest = |n: u8| ChunkDigest([n; 32]);
        let content = |parts: &[Result<u8, u64>]| {
            let mut hasher = ContentHasher::new();
            for part in parts {
                match part {
                    Ok(n) => hasher.chunk(&digest(*n)),
                    Err(bytes) => hasher.hole(*bytes),
                }
            }
            hasher.finish()
        };
        let all = [
            content(&[Ok(1), Ok(2)]),
            content(&[Ok(2), Ok(1)]),
            content(&[Ok(1), Err(5), Ok(2)]),
            content(&[Ok(1), Err(6), Ok(2)]),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }
}

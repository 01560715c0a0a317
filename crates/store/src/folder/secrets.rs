//! Keys of the server, all derived from one master key in its folder.

use std::path::Path;

use chunk::DomainKey;
use model::{ChunkDigest, DomainId, GrantMac, NodeId, Place, PlaceCode as _};

/// Keys that the server alone knows.
pub struct Secrets {
    master: [u8; 32],
    grants: [u8; 32],
    /// Key of the entries of chunks that nodes do not share.
    unshared: [u8; 32],
}

/// Length of the master key file in bytes.
pub(crate) const MASTER_BYTES: usize = 32;

impl Secrets {
    pub fn new(master: [u8; MASTER_BYTES]) -> Self {
        Self {
            master,
            grants: blake3::derive_key("holdfast v1 grants", &master),
            unshared: blake3::derive_key("holdfast v1 chunks of one node", &master),
        }
    }

    pub fn load(path: &Path) -> std::io::Result<Self> {
        let bytes = std::fs::read(path)?;
        let wrong = |_| std::io::Error::other(format!("the key is not {MASTER_BYTES} bytes long"));
        let master = bytes.try_into().map_err(wrong)?;
        Ok(Self::new(master))
    }

    /// Returns a number that tells this master key from others, and says nothing else about it. It
    /// is never negative.
    pub(crate) fn check_value(&self) -> i64 {
        let derived = blake3::derive_key("holdfast v1 check of the master key", &self.master);
        let (numbers, _) = derived.as_chunks::<8>();
        i64::from_le_bytes(numbers[0]) & i64::MAX
    }

    /// Returns the key of a deduplication domain. The nodes of the domain know this key.
    pub fn domain_key(&self, domain: DomainId) -> DomainKey {
        let material = [&self.master[..], &domain.0.to_le_bytes()].concat();
        DomainKey::new(blake3::derive_key("holdfast v1 deduplication domain", &material))
    }

    /// Returns the key of a node's directory digests.
    pub fn digest_key(&self, node: NodeId) -> [u8; 32] {
        let material = [&self.master[..], &node.0.to_le_bytes()].concat();
        blake3::derive_key("holdfast v1 directory digests", &material)
    }

    /// Returns the key under which the index has the chunk `digest` of `node`, if nodes do not share
    /// it.
    pub(crate) fn chunk_key(&self, node: NodeId, digest: &ChunkDigest) -> ChunkDigest {
        let mut hasher = blake3::Hasher::new_keyed(&self.unshared);
        hasher.update(&node.0.to_le_bytes()).update(&digest.0);
        ChunkDigest(hasher.finalize().into())
    }

    /// Returns the proof that `node` may refer to the chunk `digest` at `place`.
    pub fn grant(&self, node: NodeId, digest: &ChunkDigest, place: Place) -> GrantMac {
        let mut hasher = blake3::Hasher::new_keyed(&self.grants);
        hasher
            .update(&node.0.to_le_bytes())
            .update(&digest.0)
            .update(&place.code().to_le_bytes());
        let mut mac = [0; 8];
        mac.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        GrantMac(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::PackNumber;

    #[test]
    fn a_grant_is_for_one_node_one_chunk_and_one_place() {
        let secrets = Secrets::new([7; 32]);
        let digest = ChunkDigest([1; 32]);
        let place = Place::new(PackNumber(3), 4);
        let grant = secrets.grant(NodeId(1), &digest, place);
        assert_eq!(grant, secrets.grant(NodeId(1), &digest, place));
        assert_ne!(grant, secrets.grant(NodeId(2), &digest, place));
        assert_ne!(grant, secrets.grant(NodeId(1), &ChunkDigest([2; 32]), place));
        assert_ne!(grant, secrets.grant(NodeId(1), &digest, Place::new(PackNumber(3), 5)));
        assert_ne!(grant, Secrets::new([8; 32]).grant(NodeId(1), &digest, place));
    }
}

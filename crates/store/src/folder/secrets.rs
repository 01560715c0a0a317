//! Keys of the server, all derived from one master key in its folder.

use std::path::Path;

use chunk::DomainKey;
use model::{ChunkDigest, DomainId, GrantProof, NodeId, Place, PlaceCode as _};

/// Keys that the server alone knows.
pub struct Secrets {
    master: [u8; 32],
    grants: [u8; 32],
    /// Key of the encryption of places in grants.
    places: [u8; 32],
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
            places: blake3::derive_key("holdfast v1 places in grants", &master),
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

    /// Returns a key for one purpose, which `context` names. The same context must not be used for
    /// another purpose.
    pub fn derived_key(&self, context: &str) -> [u8; 32] {
        blake3::derive_key(context, &self.master)
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

    /// Returns the key under which the index has the chunk `digest` of `node`, if nodes do not
    /// share it.
    pub(crate) fn chunk_key(&self, node: NodeId, digest: &ChunkDigest) -> ChunkDigest {
        let mut hasher = blake3::Hasher::new_keyed(&self.unshared);
        hasher.update(&node.0.to_le_bytes()).update(&digest.0);
        ChunkDigest(hasher.finalize().into())
    }

    /// Returns the proof that `node` may refer to the chunk `digest` at `place`. The place in it is
    /// encrypted: a node could tell from a place whether the chunk was there before the node sent
    /// it.
    pub fn grant(&self, node: NodeId, digest: &ChunkDigest, place: Place) -> GrantProof {
        let mac = word(&self.grants, node, digest, place.code());
        GrantProof::from_words([place.code() ^ self.place_mask(node, digest, mac), mac])
    }

    /// Returns the place in a proof; `None` if this server did not make the proof for this node and
    /// this chunk.
    pub(crate) fn granted_place(
        &self,
        node: NodeId,
        digest: &ChunkDigest,
        proof: GrantProof,
    ) -> Option<Place> {
        let [code, mac] = proof.words();
        // Earlier servers did not encrypt the place.
        let codes = [code ^ self.place_mask(node, digest, mac), code];
        let is_proved = |place: &Place| word(&self.grants, node, digest, place.code()) == mac;
        codes.into_iter().filter_map(Place::from_code).find(is_proved)
    }

    /// Returns the mask that encrypts a place. The MAC, which depends on the place, is the nonce:
    /// this is the construction of RFC 5297 (SIV). So two places never have one mask, and the proof
    /// of one place is always the same.
    fn place_mask(&self, node: NodeId, digest: &ChunkDigest, mac: u64) -> u64 {
        // Codes of places are below 2^63, also in encrypted form: earlier clients check this.
        word(&self.places, node, digest, mac) >> 1
    }
}

/// Returns 8 bytes of the BLAKE3 hash of these values, keyed with `key`.
fn word(key: &[u8; 32], node: NodeId, digest: &ChunkDigest, last: u64) -> u64 {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher
        .update(&node.0.to_le_bytes())
        .update(&digest.0)
        .update(&last.to_le_bytes());
    let hash = hasher.finalize();
    let (words, _) = hash.as_bytes().as_chunks::<8>();
    u64::from_le_bytes(words[0])
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
        let opened = |secrets: &Secrets, node, digest| secrets.granted_place(node, digest, grant);
        assert_eq!(opened(&secrets, NodeId(1), &digest), Some(place));
        assert_eq!(opened(&secrets, NodeId(2), &digest), None);
        assert_eq!(opened(&secrets, NodeId(1), &ChunkDigest([2; 32])), None);
        assert_eq!(opened(&Secrets::new([8; 32]), NodeId(1), &digest), None);
        let [code, mac] = grant.words();
        for words in [[code ^ 1, mac], [code, mac ^ 1]] {
            let forged = GrantProof::from_words(words);
            assert_eq!(secrets.granted_place(NodeId(1), &digest, forged), None);
        }
    }

    /// Regression: a node read from the place in its grant whether the server had the chunk before.
    #[test]
    fn a_grant_hides_its_place() {
        let secrets = Secrets::new([7; 32]);
        let digest = ChunkDigest([1; 32]);
        let code = |place: Place| secrets.grant(NodeId(1), &digest, place).words()[0];
        let [one, next] = [4, 5].map(|index| Place::new(PackNumber(3), index));
        assert_ne!(code(one), one.code());
        assert!((code(one) ^ code(next)) > u64::from(u32::MAX), "neighbours have no near codes");
        assert!(code(one) < 1 << 63, "earlier clients take it for a place");
    }

    #[test]
    fn a_grant_of_an_earlier_server_holds() {
        let secrets = Secrets::new([7; 32]);
        let (digest, place) = (ChunkDigest([1; 32]), Place::new(PackNumber(3), 4));
        let [_, mac] = secrets.grant(NodeId(1), &digest, place).words();
        let plain = GrantProof::from_words([place.code(), mac]);
        assert_eq!(secrets.granted_place(NodeId(1), &digest, plain), Some(place));
    }
}

//! Grants: the digest of a chunk, with the server's proof that the node may use the chunk.

use model::{ChunkDigest, GrantProof};

/// A node's statement that a chunk is already at the server, with the server's proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    pub digest: ChunkDigest,
    pub proof: GrantProof,
}

/// Bytes of one grant in a message: digest (32), proof (16).
pub const GRANT_BYTES: usize = 48;

/// Appends `grant` to `bytes`.
pub fn encode_grant(bytes: &mut Vec<u8>, grant: &Grant) {
    bytes.extend_from_slice(&grant.digest.0);
    bytes.extend_from_slice(&grant.proof.0);
}

/// Parses a sequence of grants. Returns `None` if a grant is incomplete.
pub fn decode_grants(bytes: &[u8]) -> Option<Vec<Grant>> {
    let (grants, rest) = bytes.as_chunks::<GRANT_BYTES>();
    if !rest.is_empty() {
        return None;
    }
    grants.iter().map(decode_grant).collect()
}

fn decode_grant(bytes: &[u8; GRANT_BYTES]) -> Option<Grant> {
    let (digest, rest) = bytes.split_first_chunk::<32>()?;
    let (proof, _) = rest.split_first_chunk::<16>()?;
    Some(Grant { digest: ChunkDigest(*digest), proof: GrantProof(*proof) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_survive() {
        let grant = Grant { digest: ChunkDigest([5; 32]), proof: GrantProof([9; 16]) };
        let mut bytes = Vec::new();
        encode_grant(&mut bytes, &grant);
        encode_grant(&mut bytes, &grant);
        assert_eq!(decode_grants(&bytes), Some(vec![grant, grant]));
        assert_eq!(decode_grants(&bytes[1..]), None);
    }
}

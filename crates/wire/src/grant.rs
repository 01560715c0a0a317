//! Grants: the digest and the place of a chunk, with the server's proof that the node may use the
//! chunk.

use model::{ChunkDigest, GrantMac, Place, PlaceCode};

/// A node's statement that a chunk is already at the server, with the server's proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    pub digest: ChunkDigest,
    pub place: Place,
    pub mac: GrantMac,
}

/// Bytes of one grant in a message: digest (32), place (8, little-endian), MAC (8).
pub const GRANT_BYTES: usize = 48;

/// Appends `grant` to `bytes`.
pub fn encode_grant(bytes: &mut Vec<u8>, grant: &Grant) {
    bytes.extend_from_slice(&grant.digest.0);
    bytes.extend_from_slice(&grant.place.code().to_le_bytes());
    bytes.extend_from_slice(&grant.mac.0);
}

/// Parses a sequence of grants. Returns `None` if a grant is incomplete or names an impossible
/// place.
pub fn decode_grants(bytes: &[u8]) -> Option<Vec<Grant>> {
    let (grants, rest) = bytes.as_chunks::<GRANT_BYTES>();
    if !rest.is_empty() {
        return None;
    }
    grants.iter().map(decode_grant).collect()
}

fn decode_grant(bytes: &[u8; GRANT_BYTES]) -> Option<Grant> {
    let (digest, rest) = bytes.split_first_chunk::<32>()?;
    let (place, rest) = rest.split_first_chunk::<8>()?;
    let (mac, _) = rest.split_first_chunk::<8>()?;
    let place = Place::from_code(u64::from_le_bytes(*place))?;
    Some(Grant { digest: ChunkDigest(*digest), place, mac: GrantMac(*mac) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::PackNumber;

    #[test]
    fn grants_survive() {
        let grant = Grant {
            digest: ChunkDigest([5; 32]),
            place: Place::new(PackNumber(77), 12),
            mac: GrantMac([9; 8]),
        };
        let mut bytes = Vec::new();
        encode_grant(&mut bytes, &grant);
        encode_grant(&mut bytes, &grant);
        assert_eq!(decode_grants(&bytes), Some(vec![grant, grant]));
        assert_eq!(decode_grants(&bytes[1..]), None);
        bytes[39] = 0xff;
        assert_eq!(decode_grants(&bytes), None);
    }
}

//! What both ends must compute alike about certificates and data.

use aws_lc_rs::digest::{SHA256, digest};
use model::ChunkDigest;

/// The fingerprint by which a token names its server's CA: SHA-256 of the certificate in DER.
pub fn fingerprint(certificate_der: &[u8]) -> [u8; 32] {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest(&SHA256, certificate_der).as_ref());
    fingerprint
}

/// What a client that does not deduplicate says beside a quantum of these chunks: xxh3-64.
pub fn raw_check(chunks: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(chunks)
}

/// What a client says beside a quantum of chunks with `digests`, so that the server notices if it
/// took in something else.
pub fn quantum_check(digests: &[ChunkDigest]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    digests.iter().for_each(|digest| _ = hasher.update(&digest.0));
    let mut check = [0; 16];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    check
}

//! Fingerprints and check values that client and server must compute in the same way.

use aws_lc_rs::digest::{SHA256, digest};
use model::ChunkDigest;

/// Returns the fingerprint by which a token names its server's CA: SHA-256 of the certificate in
/// DER.
pub fn fingerprint(certificate_der: &[u8]) -> [u8; 32] {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest(&SHA256, certificate_der).as_ref());
    fingerprint
}

/// Returns the check value of a quantum of `chunks`, for a client that does not deduplicate:
/// xxh3-64.
pub fn raw_check(chunks: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(chunks)
}

/// Returns the check value of a quantum with chunks of these `digests`. With this value, the server
/// notices if it received other chunks.
pub fn quantum_check(digests: &[ChunkDigest]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    digests.iter().for_each(|digest| _ = hasher.update(&digest.0));
    let mut check = [0; 16];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    check
}

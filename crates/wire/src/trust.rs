//! What both ends must compute alike about certificates.

use aws_lc_rs::digest::{SHA256, digest};

/// The fingerprint by which a token names its server's CA: SHA-256 of the certificate in DER.
pub fn fingerprint(certificate_der: &[u8]) -> [u8; 32] {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest(&SHA256, certificate_der).as_ref());
    fingerprint
}

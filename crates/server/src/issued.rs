//! Certificates that were issued lately.
//!
//! A client that has lost the answer sends the same request again, and gets the same certificate,
//! although its token is used up. Nobody else can make that request, and the certificate is of use
//! only to the owner of the private key. A server that was started again knows none of them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sys::lock::Mutex;
use wire::proto;

/// Time for which a certificate is given again.
const KEPT: Duration = Duration::from_secs(600);
/// Maximum number of certificates, of some kilobytes each. With one more, the oldest is forgotten.
const CERTIFICATES_MAX: usize = 1024;

/// Digest of a request for a certificate.
pub(crate) type RequestDigest = [u8; 32];

/// Certificates that were issued lately, oldest first.
#[derive(Default)]
pub(crate) struct IssuedCertificates(Mutex<VecDeque<IssuedCertificate>>);

/// A certificate, and the request that got it.
struct IssuedCertificate {
    request: RequestDigest,
    certificate: proto::Certificate,
    at: Instant,
}

/// Returns the digest of all that a request says.
pub(crate) fn digest(request: &proto::EnrolRequest) -> RequestDigest {
    let mut hasher = blake3::Hasher::new();
    let parts: [&[u8]; 3] = [&request.secret, request.node.as_bytes(), &request.signing_request];
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

impl IssuedCertificates {
    /// Returns the certificate that the same request has got before.
    pub(crate) fn find(&self, request: &RequestDigest, now: Instant) -> Option<proto::Certificate> {
        let mut issued = self.0.lock();
        issued.retain(|one| now.saturating_duration_since(one.at) < KEPT);
        let found = issued.iter().find(|one| one.request == *request);
        found.map(|one| one.certificate.clone())
    }

    /// Keeps the certificate that a request has got.
    pub(crate) fn keep(
        &self,
        request: RequestDigest,
        certificate: proto::Certificate,
        now: Instant,
    ) {
        let mut issued = self.0.lock();
        issued.push_back(IssuedCertificate { request, certificate, at: now });
        if issued.len() > CERTIFICATES_MAX {
            issued.pop_front();
        }
        assert!(issued.len() <= CERTIFICATES_MAX, "the memory is bounded");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(secret: &[u8], node: &str) -> RequestDigest {
        digest(&proto::EnrolRequest {
            secret: secret.to_vec().into(),
            node: node.to_owned(),
            ..Default::default()
        })
    }

    #[test]
    fn the_same_request_gets_its_certificate_for_a_while() {
        let (issued, now) = (IssuedCertificates::default(), sys::clock::monotonic());
        let certificate =
            proto::Certificate { node: "anna".to_owned(), ..proto::Certificate::default() };
        issued.keep(request(b"1", ""), certificate.clone(), now);
        assert_eq!(issued.find(&request(b"1", ""), now), Some(certificate));
        assert_eq!(issued.find(&request(b"1", "x"), now), None);
        assert_eq!(issued.find(&request(b"", "1"), now), None, "the parts are told apart");
        assert_eq!(issued.find(&request(b"1", ""), now + KEPT), None);
    }

    #[test]
    fn the_oldest_of_many_certificates_is_forgotten() {
        let (issued, now) = (IssuedCertificates::default(), sys::clock::monotonic());
        let name = |number: usize| number.to_string();
        for number in 0..=CERTIFICATES_MAX {
            issued.keep(request(b"", &name(number)), proto::Certificate::default(), now);
        }
        assert_eq!(issued.find(&request(b"", &name(0)), now), None);
        assert!(issued.find(&request(b"", &name(1)), now).is_some());
    }
}

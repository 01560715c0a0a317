//! The server's certificate authority (CA). It certifies the server itself and its nodes. A client
//! knows the CA by the fingerprint in its enrolment token.

use std::path::Path;

use model::{NodeName, ServerTime};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SerialNumber,
};
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer};
use store::folder::Credentials;
use store::folder::config::{CA_CERTIFICATE, CA_KEY};
use wire::{Token, TokenKind};

/// Lifetime of the CA in days.
const CA_DAYS: i64 = 30 * 365;
/// Maximum difference of two clocks in days.
const SKEW_DAYS: i64 = 1;

/// An error of making or reading a certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("cannot read {0}")]
    Read(&'static str, #[source] std::io::Error),
    #[error("cannot make or parse a certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("the CA's certificate is damaged")]
    Damaged,
    #[error(
        "ca.key is not the key of ca.pem; put the right one back, which is in the recovery file too"
    )]
    OtherKey,
}

/// The CA with its key.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    ca_pem: String,
    ca_der: CertificateDer<'static>,
    node_days: i64,
}

/// A new certificate of a node.
pub(crate) struct IssuedCertificate {
    pub(crate) serial: Vec<u8>,
    pub(crate) expires: ServerTime,
    /// Certificates in PEM: first the node's certificate, then the CA's certificate.
    pub(crate) chain_pem: String,
}

/// The certificate of the server itself, with its key.
pub struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    /// Private key in the form PKCS#8.
    pub key: Vec<u8>,
}

/// Makes a CA.
pub(crate) fn make_ca(now: ServerTime) -> Result<Credentials, AuthorityError> {
    let key = KeyPair::generate()?;
    let mut params = named("Holdfast CA", now, CA_DAYS)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_certificate = params.self_signed(&key)?.pem();
    Ok(Credentials { ca_certificate, ca_key: key.serialize_pem() })
}

fn named(name: &str, now: ServerTime, days: i64) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.serial_number = Some(SerialNumber::from_slice(&serial()));
    params.not_before = moment(now.secs() - SKEW_DAYS * 86_400);
    params.not_after = moment(now.secs() + days * 86_400);
    Ok(params)
}

/// A random serial number of 128 bits. The top bits are fixed, so that serial numbers are positive
/// and have the same length.
fn serial() -> [u8; 16] {
    let mut serial = sys::entropy::bytes::<16>();
    serial[0] = serial[0] & 0x7f | 0x40;
    serial
}

fn moment(secs: i64) -> time::OffsetDateTime {
    time::OffsetDateTime::from_unix_timestamp(secs).unwrap_or(time::OffsetDateTime::UNIX_EPOCH)
}

impl Authority {
    /// Loads the authority of the server in `folder`. Certificates of nodes are valid for
    /// `node_days` days.
    pub(crate) fn load(folder: &Path, node_days: u16) -> Result<Self, AuthorityError> {
        let read = |name| {
            std::fs::read_to_string(folder.join(name))
                .map_err(|error| AuthorityError::Read(name, error))
        };
        let (ca_pem, key_pem) = (read(CA_CERTIFICATE)?, read(CA_KEY)?);
        let ca_der = first_der(&ca_pem).ok_or(AuthorityError::Damaged)?;
        let key = KeyPair::from_pem(&key_pem)?;
        if !certifies(&ca_der, &key) {
            return Err(AuthorityError::OtherKey);
        }
        let issuer = Issuer::from_ca_cert_pem(&ca_pem, key)?;
        Ok(Self { issuer, ca_pem, ca_der, node_days: node_days.into() })
    }

    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    pub(crate) fn ca(&self) -> &CertificateDer<'static> {
        &self.ca_der
    }

    /// Returns the text of a token with this secret.
    pub(crate) fn token(&self, kind: TokenKind, secret: [u8; 16]) -> String {
        Token { kind, secret, ca_fingerprint: self.fingerprint() }.to_string()
    }

    /// SHA-256 of the CA certificate.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        wire::fingerprint(&self.ca_der)
    }

    /// Makes a key and a certificate for the server itself. They are used until the process ends;
    /// no client stores them.
    pub(crate) fn identity(&self, now: ServerTime) -> Result<Identity, AuthorityError> {
        self.identity_of(&[wire::SERVER_NAME.to_owned()], now)
    }

    /// Makes a key and a certificate for a server that clients know by `names`, which are names of
    /// hosts and addresses.
    pub(crate) fn identity_of(
        &self,
        names: &[String],
        now: ServerTime,
    ) -> Result<Identity, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = named("Holdfast server", now, CA_DAYS)?;
        let name = |name: &String| match name.parse() {
            Ok(address) => Ok(rcgen::SanType::IpAddress(address)),
            Err(_) => Ok::<_, rcgen::Error>(rcgen::SanType::DnsName(name.as_str().try_into()?)),
        };
        params.subject_alt_names = names.iter().map(name).collect::<Result<_, _>>()?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let leaf = params.signed_by(&key, &self.issuer)?;
        let chain = vec![leaf.der().clone(), self.ca_der.clone()];
        Ok(Identity { chain, key: key.serialize_der() })
    }

    /// Certifies the key in `signing_request` as the key of the node. Other data in the request is
    /// ignored.
    pub(crate) fn issue(
        &self,
        node: &NodeName,
        signing_request: &[u8],
        now: ServerTime,
    ) -> Result<IssuedCertificate, AuthorityError> {
        let request = CertificateSigningRequestDer::from(signing_request.to_vec());
        let request = CertificateSigningRequestParams::from_der(&request)?;
        let mut params = named(node.as_str(), now, self.node_days)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let serial = serial();
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        let leaf = params.signed_by(&request.public_key, &self.issuer)?;
        Ok(IssuedCertificate {
            serial: serial.to_vec(),
            expires: ServerTime::from_secs(now.secs() + self.node_days * 86_400),
            chain_pem: format!("{}{}", leaf.pem(), self.ca_pem),
        })
    }
}

/// Returns true if `certificate` has the public part of `key`. Certificates that another key signs
/// are refused by everybody.
fn certifies(certificate: &CertificateDer<'_>, key: &KeyPair) -> bool {
    let public = key.public_key_raw();
    assert!(!public.is_empty(), "a key has a public part");
    certificate.windows(public.len()).any(|part| part == public)
}

fn first_der(pem: &str) -> Option<CertificateDer<'static>> {
    use rustls_pki_types::pem::PemObject as _;
    CertificateDer::from_pem_slice(pem.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the key of another server it became ready, and no node trusted it.
    #[test]
    fn a_certificate_needs_its_own_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let [own, other] =
            [(); 2].map(|()| make_ca(ServerTime::from_secs(1_700_000_000)).expect("is made"));
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("is written");
        };
        write(CA_CERTIFICATE, &own.ca_certificate);
        write(CA_KEY, &own.ca_key);
        assert!(Authority::load(folder.path(), 30).is_ok());
        write(CA_KEY, &other.ca_key);
        let refused = Authority::load(folder.path(), 30).map(drop).expect_err("is refused");
        assert!(refused.to_string().starts_with("ca.key is not the key of ca.pem"), "{refused}");
    }
}

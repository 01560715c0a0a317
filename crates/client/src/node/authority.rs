//! The certificate authority (CA) of a server, for a machine that has a password and no token.
//!
//! A token names the CA. A password does not, so a person or a file has to: the CA is in a file, in
//! the system's store, or the person compares the fingerprint that the server shows. Without one of
//! these nothing is sent to the server.

use std::path::Path;

use data_encoding::HEXUPPER;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{self, PemObject as _};
use wire::{Token, TokenKind};

use crate::error::{ClientError, ErrorKind};
use crate::link::runtime::runtime;
use crate::link::tls;

/// SHA-256 of the certificate of a CA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(pub [u8; 32]);

impl std::fmt::Display for Fingerprint {
    /// Writes pairs of hexadecimal digits with colons between them, as other programs do.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pairs: Vec<String> = self.0.iter().map(|byte| HEXUPPER.encode(&[*byte])).collect();
        f.write_str(&pairs.join(":"))
    }
}

impl Fingerprint {
    /// Parses 64 hexadecimal digits, with or without colons and blanks.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: String = text.chars().filter(|letter| !matches!(letter, ':' | ' ')).collect();
        let bytes = HEXUPPER.decode(digits.to_ascii_uppercase().as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// Returns the fingerprint of the CA that a token names.
    pub fn of_token(token: &str) -> Option<Self> {
        Token::parse(token).ok().map(|token| Self(token.ca_fingerprint))
    }

    /// Returns the fingerprints of the certificates in a file of the form PEM, which has one at
    /// least.
    pub fn all_of_file(path: &Path) -> Result<Vec<Self>, ClientError> {
        let failed = |error: pem::Error| {
            let message = format!("{} has no certificate in PEM: {error}", path.display());
            ClientError::new(ErrorKind::Usage, message)
        };
        let certificates = CertificateDer::pem_file_iter(path).map_err(failed)?;
        let all = certificates.map(|one| one.map(|one| Self(wire::fingerprint(&one))));
        let all: Vec<Self> = all.collect::<Result<_, _>>().map_err(failed)?;
        if all.is_empty() {
            return Err(failed(pem::Error::NoItemsFound));
        }
        Ok(all)
    }

    /// Asks the first of `addresses` that answers for its CA. Nothing proves that it is the right
    /// one. The addresses are separated by commas.
    pub fn shown_by(addresses: &str) -> Result<Self, ClientError> {
        let runtime = runtime()?;
        let mut last = None;
        for address in addresses.split(',') {
            match runtime.block_on(tls::shown_authority(address)) {
                Ok(authority) => return Ok(Self(wire::fingerprint(&authority))),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("a text has at least one part"))
    }

    /// Returns true if the system's store of certificates has the CA.
    pub fn is_in_system_store(&self) -> bool {
        let trusted = rustls_native_certs::load_native_certs().certs;
        trusted.iter().any(|certificate| wire::fingerprint(certificate) == self.0)
    }
}

/// Returns the token that a password of `node` stands for, at the server with the CA `authority`.
pub fn password_token(
    node: &str,
    password: &str,
    authority: Fingerprint,
) -> Result<String, ClientError> {
    let secret = wire::password_secret(node, password, &authority.0)
        .map_err(|error| ClientError::new(ErrorKind::Usage, error.to_string()))?;
    let token = Token { kind: TokenKind::Node, secret, ca_fingerprint: authority.0 };
    Ok(token.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_survives_text() {
        let fingerprint =
            Fingerprint(std::array::from_fn(|index| u8::try_from(index).expect("short") * 7));
        let text = fingerprint.to_string();
        assert!(text.starts_with("00:07:0E:"), "{text}");
        for text in [text.clone(), text.replace(':', ""), text.to_lowercase()] {
            assert_eq!(Fingerprint::parse(&text), Some(fingerprint), "{text}");
        }
        for wrong in ["", "00:07", "x", &text[1..]] {
            assert_eq!(Fingerprint::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_password_becomes_a_token_that_names_the_ca() {
        let token = password_token("anna", "correct horse", Fingerprint([3; 32])).expect("long");
        assert_eq!(Fingerprint::of_token(&token), Some(Fingerprint([3; 32])));
        assert!(password_token("anna", "short", Fingerprint([3; 32])).is_err());
    }

    #[test]
    fn a_file_without_a_certificate_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, "no certificate").expect("written");
        let error = Fingerprint::all_of_file(&path).expect_err("no certificate");
        assert!(error.to_string().contains("ca.pem has no certificate"), "{error}");
    }

    /// A machine that is a node of several servers keeps their certificates in one file.
    #[test]
    fn a_file_may_have_the_certificates_of_several_servers() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ca.pem");
        let certificate = |content: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n")
        };
        std::fs::write(&path, [certificate("AAAA"), certificate("AQEB")].concat())
            .expect("written");
        let all = Fingerprint::all_of_file(&path).expect("two certificates");
        let expected = [[0; 3], [1; 3]].map(|bytes| Fingerprint(wire::fingerprint(&bytes)));
        assert_eq!(all, expected);
    }
}

//! Enrolment by a password: the secret of a node's token that a password stands for.
//!
//! An administrator who gives a node a password, as TSM's `REGISTER NODE` does, gives it a token
//! whose secret both sides compute. The name of the node and the server's CA are a part of it. So
//! what a machine tells a wrong server is of no use at the right one, and two nodes with one
//! password have different secrets. The function is slow, so that nobody finds a password by its
//! secret quickly.

use argon2::{Algorithm, Argon2, Params, Version};

/// Minimum and maximum length of a password, in bytes.
pub const PASSWORD_BYTES: std::ops::RangeInclusive<usize> = 8..=512;
/// Memory that the function takes, in KiB, and the number of its passes.
const MEMORY_KIB: u32 = 64 << 10;
const PASSES: u32 = 3;
const SECRET_BYTES: usize = 16;
/// Purpose of the salt. It is a part of each secret.
const PURPOSE: &str = "holdfast 2026 password of a node at its enrolment";

/// Error for a password that is too short or too long.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a password of a node has {} to {} bytes", PASSWORD_BYTES.start(), PASSWORD_BYTES.end())]
pub struct PasswordError;

/// Returns the secret of the token of `node` that `password` stands for, at the server with this
/// CA. The name of the node may be in upper or lower case.
pub fn password_secret(
    node: &str,
    password: &str,
    ca_fingerprint: &[u8; 32],
) -> Result<[u8; SECRET_BYTES], PasswordError> {
    if !PASSWORD_BYTES.contains(&password.len()) {
        return Err(PasswordError);
    }
    let place = [node.to_ascii_lowercase().as_bytes(), ca_fingerprint].concat();
    let salt = blake3::derive_key(PURPOSE, &place);
    let params = Params::new(MEMORY_KIB, PASSES, 1, Some(SECRET_BYTES)).expect("valid numbers");
    let function = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut secret = [0; SECRET_BYTES];
    function
        .hash_password_into(password.as_bytes(), &salt, &mut secret)
        .expect("the lengths are in bounds");
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_depends_on_password_node_and_server() {
        let secret = |node, password, ca| password_secret(node, password, &[ca; 32]);
        let first = secret("anna", "correct horse", 1).expect("long enough");
        assert_eq!(secret("ANNA", "correct horse", 1), Ok(first));
        for other in [("bert", "correct horse", 1), ("anna", "Correct horse", 1)]
            .into_iter()
            .chain([("anna", "correct horse", 2)])
        {
            assert_ne!(secret(other.0, other.1, other.2), Ok(first), "{other:?}");
        }
    }

    #[test]
    fn the_function_stays_as_it_is() {
        let secret = password_secret("anna", "correct horse", &[7; 32]).expect("long enough");
        assert_eq!(data_encoding::HEXLOWER.encode(&secret), "3ce69e7061c59983aa9f8abc3f5b7683");
    }

    #[test]
    fn short_and_endless_passwords_are_refused() {
        for password in ["", "seven77", &"x".repeat(513)] {
            assert_eq!(password_secret("anna", password, &[1; 32]), Err(PasswordError));
        }
        assert_eq!(PasswordError.to_string(), "a password of a node has 8 to 512 bytes");
    }
}

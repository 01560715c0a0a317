//! The enrolment token: a one-time secret and the fingerprint of the server's CA.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// What an administrator hands to a node. As text: `hf1.` and base64url of secret and fingerprint.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Known to the node and, as a hash, to the server.
    pub secret: [u8; 16],
    /// SHA-256 of the CA certificate in DER.
    pub ca_fingerprint: [u8; 32],
}

/// The text is no token, or lost or changed characters on the way.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no enrolment token; copy the whole text that 'admin node add' printed")]
pub struct TokenError;

const PREFIX: &str = "hf1.";

impl Token {
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(TokenError)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| TokenError)?;
        let (secret, rest) = bytes.split_first_chunk().ok_or(TokenError)?;
        let ca_fingerprint = rest.try_into().map_err(|_| TokenError)?;
        Ok(Self { secret: *secret, ca_fingerprint })
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = [&self.secret[..], &self.ca_fingerprint].concat();
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_text() {
        let token = Token { secret: [7; 16], ca_fingerprint: [8; 32] };
        assert_eq!(Token::parse(&format!(" {token}\n")), Ok(token));
    }

    #[test]
    fn other_text_is_refused() {
        let good = Token { secret: [7; 16], ca_fingerprint: [8; 32] }.to_string();
        for bad in ["", "hf1.", "hf2.AAAA", "hf1.***", &good[..good.len() - 2], &good[1..]] {
            assert_eq!(Token::parse(bad), Err(TokenError), "{bad}");
        }
    }
}

//! The enrolment token: a one-time secret and the fingerprint of the server's CA.

use data_encoding::BASE64URL_NOPAD;

/// A token that an administrator gives to a node. Its text is `hf1.`, followed by secret and
/// fingerprint in base64url.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Secret of the token. The server knows only its hash.
    pub secret: [u8; 16],
    /// SHA-256 of the CA certificate in DER.
    pub ca_fingerprint: [u8; 32],
}

/// Error for a text that is not a token, or that has lost or changed characters.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not an enrolment token; copy the whole text that 'admin node add' printed")]
pub struct TokenError;

const PREFIX: &str = "hf1.";

impl Token {
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(TokenError)?;
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).map_err(|_| TokenError)?;
        let (secret, rest) = bytes.split_first_chunk().ok_or(TokenError)?;
        let ca_fingerprint = rest.try_into().map_err(|_| TokenError)?;
        Ok(Self { secret: *secret, ca_fingerprint })
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = [&self.secret[..], &self.ca_fingerprint].concat();
        write!(f, "{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
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

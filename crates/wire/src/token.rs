//! The enrolment token: a secret and the fingerprint of the server's CA.

use data_encoding::BASE64URL_NOPAD;

/// A token that an administrator gives to a machine. Its text is `hf1.` or `hfk1.`, by its kind,
/// followed by secret and fingerprint in base64url.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    /// Secret of the token. The server knows only its hash.
    pub secret: [u8; 16],
    /// SHA-256 of the CA certificate in DER.
    pub ca_fingerprint: [u8; 32],
}

/// Kinds of tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// The token enrols one registered node once.
    Node,
    /// An enrolment key: it enrols many machines under names that they choose.
    Key,
}

/// Error for a text that is not a token, or that has lost or changed characters.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is not an enrolment token; copy the whole text that 'admin node add' or 'admin \
     enrolment-key add' printed"
)]
pub struct TokenError;

impl TokenKind {
    const ALL: [Self; 2] = [Self::Node, Self::Key];

    fn prefix(self) -> &'static str {
        match self {
            Self::Node => "hf1.",
            Self::Key => "hfk1.",
        }
    }
}

impl Token {
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let of_kind = |kind: TokenKind| Some((kind, text.strip_prefix(kind.prefix())?));
        let (kind, encoded) = TokenKind::ALL.into_iter().find_map(of_kind).ok_or(TokenError)?;
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).map_err(|_| TokenError)?;
        let (secret, rest) = bytes.split_first_chunk().ok_or(TokenError)?;
        let ca_fingerprint = rest.try_into().map_err(|_| TokenError)?;
        Ok(Self { kind, secret: *secret, ca_fingerprint })
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = [&self.secret[..], &self.ca_fingerprint].concat();
        write!(f, "{}{}", self.kind.prefix(), BASE64URL_NOPAD.encode(&bytes))
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
        for kind in TokenKind::ALL {
            let token = Token { kind, secret: [7; 16], ca_fingerprint: [8; 32] };
            assert_eq!(Token::parse(&format!(" {token}\n")), Ok(token));
        }
    }

    #[test]
    fn other_text_is_refused() {
        for kind in TokenKind::ALL {
            let good = Token { kind, secret: [7; 16], ca_fingerprint: [8; 32] }.to_string();
            for bad in ["", "hf1.", "hf2.AAAA", "hf1.***", &good[..good.len() - 2], &good[1..]] {
                assert_eq!(Token::parse(bad), Err(TokenError), "{bad}");
            }
        }
    }
}

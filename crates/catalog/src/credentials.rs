//! Credentials of nodes: one-time tokens, and the certificates that they become.

use model::{NodeId, ServerTime};

use crate::{CatalogError, Node};

/// A token as the server keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenRow {
    /// BLAKE3 of the token's secret.
    pub hash: [u8; 32],
    pub node: NodeId,
    pub expires: ServerTime,
}

/// A certificate that the server issued.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    pub serial: Vec<u8>,
    pub node: NodeId,
    pub expires: ServerTime,
}

/// Failure of an operation with a token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The token is not valid; the node needs a new token.
    #[error(transparent)]
    Invalid(#[from] InvalidToken),
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// The reason why a token is not valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidToken {
    #[error("this server did not issue the token")]
    Unknown,
    #[error("the token has expired")]
    Expired,
    #[error("the token was used already")]
    Used,
    #[error("the token was replaced by a newer one")]
    Replaced,
}

/// The tokens and certificates of nodes.
pub trait Credentials {
    /// Stores a token of a node; older unused tokens of the node become void. Fails with `NotFound`
    /// for an unknown node and `Exists` for a known hash.
    fn add_token(&self, token: &TokenRow) -> Result<(), CatalogError>;

    /// Uses up the token with this `hash` and stores the certificate with this `serial` for its
    /// node, in one batch. Returns the node.
    fn redeem_token(
        &self,
        hash: &[u8; 32],
        serial: &[u8],
        expires: ServerTime,
        now: ServerTime,
    ) -> Result<Node, TokenError>;

    /// The node that the token with this `hash` enrols.
    fn token_node(&self, hash: &[u8; 32], now: ServerTime) -> Result<Node, TokenError>;

    /// Stores a renewed certificate. Fails with `NotFound` for an unknown node and `Exists` for a
    /// known serial number.
    fn add_certificate(&self, certificate: &Certificate) -> Result<(), CatalogError>;

    /// The node that holds the certificate with this serial number. Fails with `NotFound`.
    fn certificate_node(&self, serial: &[u8]) -> Result<Node, CatalogError>;

    /// Returns true if the node has ever redeemed a token.
    fn is_enrolled(&self, node: NodeId) -> Result<bool, CatalogError>;
}

//! Credentials of nodes: one-time tokens, and the certificates that they become.

use std::collections::BTreeSet;

use model::{NodeId, ServerTime};

use crate::{CatalogError, EventRow, Node};

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
    /// End of the certificate for this server. A superseded certificate ends before the time that
    /// is written in it.
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
    /// Stores a token of a node; older unused tokens of the node become void. A token of the node
    /// that was never used may be given again, with another end. Fails with `NotFound` for an
    /// unknown node, and with `Exists` for the hash of a used token or of another node's token.
    fn add_token(&self, token: &TokenRow) -> Result<(), CatalogError>;

    /// Uses up the token with this `hash` and stores the certificate with this `serial` as the only
    /// one of its node, in one batch: who has another certificate of the node has lost it or stolen
    /// it. The batch adds `event` to the audit trail. Returns the node.
    fn redeem_token(
        &self,
        hash: &[u8; 32],
        serial: &[u8],
        expires: ServerTime,
        now: ServerTime,
        event: &EventRow,
    ) -> Result<Node, TokenError>;

    /// The node that the token with this `hash` enrols.
    fn token_node(&self, hash: &[u8; 32], now: ServerTime) -> Result<Node, TokenError>;

    /// Stores a certificate. Fails with `NotFound` for an unknown node and `Exists` for a known
    /// serial number.
    fn add_certificate(&self, certificate: &Certificate) -> Result<(), CatalogError>;

    /// Stores a renewed certificate like [`Self::add_certificate`]. The other certificates of the
    /// node end at `others_end` at the latest.
    fn renew_certificate(
        &self,
        renewed: &Certificate,
        others_end: ServerTime,
    ) -> Result<(), CatalogError>;

    /// Ends all certificates of the node, and makes its unused token void. Returns the number of
    /// certificates that could still be used at `now`. Fails with `NotFound`.
    fn revoke_certificates(&self, node: NodeId, now: ServerTime) -> Result<usize, CatalogError>;

    /// The node that holds the certificate with this serial number at `now`. Fails with `NotFound`,
    /// also for a certificate that has ended.
    fn certificate_node(&self, serial: &[u8], now: ServerTime) -> Result<Node, CatalogError>;

    /// The serial numbers of the certificates of all nodes that nobody has locked, also of those
    /// that have expired.
    fn unlocked_serials(&self) -> Result<BTreeSet<Vec<u8>>, CatalogError>;

    /// Returns true if the node has a certificate.
    fn is_enrolled(&self, node: NodeId) -> Result<bool, CatalogError>;
}

//! Enrolment keys: secrets by which many machines become nodes.

use model::{NodeName, ServerTime};

use crate::{CatalogError, EventRow, Node};

/// An enrolment key as the server keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnrolmentKeyRow {
    /// Name by which administrators call the key.
    pub name: String,
    /// BLAKE3 of the key's secret.
    pub hash: [u8; 32],
    /// Maximum number of nodes that the key enrols.
    pub nodes_max: u32,
    /// Number of nodes that it has enrolled.
    pub nodes: u32,
    pub made: ServerTime,
    pub made_by: String,
    pub expires: ServerTime,
    /// Time at which an administrator has ended the key.
    pub revoked: Option<ServerTime>,
    /// Name of the policy domain of its nodes.
    pub domain: String,
    /// Name of the option set of its nodes.
    pub option_set: Option<String>,
    /// Pattern that the names of its nodes match; empty for all names.
    pub names: String,
    /// Labels of its nodes.
    pub labels: Vec<String>,
}

impl EnrolmentKeyRow {
    /// Returns true if the key can enrol a node at `now`.
    pub fn is_valid(&self, now: ServerTime) -> bool {
        self.check(now).is_ok()
    }

    /// Fails with the reason if the key can enrol no node at `now`.
    pub(crate) fn check(&self, now: ServerTime) -> Result<(), InvalidKey> {
        match self {
            _ if self.revoked.is_some() => Err(InvalidKey::Revoked),
            _ if self.expires <= now => Err(InvalidKey::Expired),
            _ if self.nodes >= self.nodes_max => Err(InvalidKey::UsedUp),
            _ => Ok(()),
        }
    }
}

/// The reason why a key enrols no node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidKey {
    #[error("this server did not issue the enrolment key")]
    Unknown,
    #[error("the enrolment key has expired")]
    Expired,
    #[error("the enrolment key was revoked")]
    Revoked,
    #[error("the enrolment key has enrolled as many nodes as it may")]
    UsedUp,
}

/// Failure of an operation with a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The key is not valid; the node needs another one.
    #[error(transparent)]
    Invalid(#[from] InvalidKey),
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// A machine that becomes a node by a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRedemption {
    pub hash: [u8; 32],
    /// Name of the new node.
    pub name: NodeName,
    /// Serial number and end of its certificate.
    pub serial: Vec<u8>,
    pub expires: ServerTime,
    pub now: ServerTime,
    /// Entry in the audit trail.
    pub event: EventRow,
}

/// The enrolment keys.
pub trait EnrolmentKeys {
    /// Stores a new key. Fails with `Exists` for a known name, in upper or lower case, or hash, and
    /// with `NotFound` for an unknown domain or option set.
    fn add_enrolment_key(&self, key: &EnrolmentKeyRow) -> Result<(), CatalogError>;

    /// All keys, by name.
    fn enrolment_keys(&self) -> Result<Vec<EnrolmentKeyRow>, CatalogError>;

    /// The key with this `hash`, if it may enrol a node at `now`.
    fn valid_key(&self, hash: &[u8; 32], now: ServerTime) -> Result<EnrolmentKeyRow, KeyError>;

    /// Registers a node with its domain, option set, labels and certificate, and counts the use of
    /// the key, in one batch. Of several at once, no more succeed than the key allows. Fails with
    /// `Exists` for a known node name.
    fn redeem_key(&self, redemption: &KeyRedemption) -> Result<Node, KeyError>;

    /// Ends the key with this `hash`. A key that has ended before stays as it is. Fails with
    /// `NotFound`.
    fn revoke_key(&self, hash: &[u8; 32], now: ServerTime) -> Result<(), CatalogError>;

    /// Removes keys that have expired before `before`.
    fn forget_keys(&self, before: ServerTime) -> Result<(), CatalogError>;
}

//! Registrations and changes of nodes with everything that belongs to them, in one batch.

use model::{NodeId, NodeName, ServerTime};

use crate::{CatalogError, EventRow, Locker, Node, NodeChange, NodeDetails};

/// A node that is registered, with what belongs to its registration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeRegistration {
    pub name: NodeName,
    /// Name of the policy domain.
    pub domain: String,
    pub now: ServerTime,
    pub details: NodeDetails,
    /// Hash of the secret of the node's token, and its end.
    pub token: ([u8; 32], ServerTime),
    /// Key of a program whose use is counted.
    pub api_key: Option<String>,
    /// Entry in the audit trail.
    pub event: EventRow,
}

/// A change of a node that happens as a whole or not at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeAlteration {
    pub locks: Vec<(Locker, bool)>,
    pub name: Option<NodeName>,
    pub change: NodeChange,
    pub added_labels: Vec<String>,
    pub removed_labels: Vec<String>,
    pub details: Option<NodeDetails>,
    pub now: ServerTime,
    /// Entries in the audit trail.
    pub events: Vec<EventRow>,
}

/// Registrations and changes of nodes that happen as a whole or not at all.
pub trait Registrations {
    /// Registers a node with its details and its token, counts the use of a key, and adds the
    /// event. Fails with `Exists` for a known name, with `Limit` for a domain that is full or a key
    /// that is used up, and with `NotFound` for an unknown domain or owner.
    fn register_node(&self, registration: &NodeRegistration) -> Result<Node, CatalogError>;

    /// Changes a node. Fails as the single changes do, and with `Limit` for a domain that is full.
    fn alter_node(&self, node: NodeId, alteration: &NodeAlteration) -> Result<(), CatalogError>;
}

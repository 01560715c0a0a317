//! Nodes: registered identities.

use std::collections::BTreeSet;

use model::{DomainId, NodeId, NodeName, PersonId, ServerTime};

use crate::CatalogError;

/// A registered node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub id: NodeId,
    pub name: NodeName,
    pub domain: DomainId,
    pub domain_name: String,
    /// Time at which the node moved to its domain; 0 if it has not moved.
    pub domain_since: ServerTime,
    pub locks: Locks,
    pub registered: ServerTime,
    /// Name of the option set whose statements the node gets in addition to its own.
    pub option_set: Option<String>,
    /// True if the node may delete its backups (BACKDELETE).
    pub deletes_backups: bool,
    /// True if the node may delete its archives (ARCHDELETE).
    pub deletes_archives: bool,
    /// Name of the node's group. The nodes of a group share volumes of a pool that is collocated by
    /// group.
    pub collocation_group: Option<String>,
}

/// The nodes that a caller sees: those of some domains, and those of an owner.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeSight {
    pub domains: BTreeSet<DomainId>,
    pub owner: Option<PersonId>,
}

/// The locks of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Locks {
    pub by_service: bool,
    pub by_owner: bool,
}

impl Locks {
    /// Returns true if the node may not work.
    pub fn any(self) -> bool {
        self.by_service || self.by_owner
    }
}

/// The side that locks a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locker {
    Service,
    Owner,
}

/// A change of a node; a field that is `None` leaves its value as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeChange {
    pub domain: Option<DomainId>,
    /// Time of the move to a new domain; `None` if nobody needs to know it.
    pub moved: Option<ServerTime>,
    /// New option set; `Some(None)` removes it from the node.
    pub option_set: Option<Option<String>>,
    pub deletes_backups: Option<bool>,
    pub deletes_archives: Option<bool>,
    /// New group; `Some(None)` removes the node from its group.
    pub collocation_group: Option<Option<String>>,
}

/// The registered nodes.
pub trait Nodes {
    /// Registers a node in the domain named `domain`. Fails with `Exists` for a known name, with
    /// `NotFound` for an unknown domain, and with `Limit` if the domain has as many nodes as it
    /// may.
    fn add_node(
        &self,
        name: &NodeName,
        domain: &str,
        now: ServerTime,
    ) -> Result<Node, CatalogError>;

    /// All nodes, by name.
    fn nodes(&self) -> Result<Vec<Node>, CatalogError>;

    /// At most `limit` nodes, by name. The list begins with the name `from`, or with the first name
    /// after it.
    fn nodes_from(&self, from: &str, limit: usize) -> Result<Vec<Node>, CatalogError>;

    /// The node called `name`. Fails with `NotFound`.
    fn node(&self, name: &NodeName) -> Result<Node, CatalogError>;

    /// The node called `name`, otherwise the only one whose name differs from it in nothing but
    /// upper and lower case. Fails with `NotFound`.
    fn node_in_any_case(&self, name: &NodeName) -> Result<Node, CatalogError>;

    /// Locks or unlocks a node. A node works once neither the service nor the owner locks it. Fails
    /// with `NotFound`.
    fn lock_node(&self, node: NodeId, by: Locker, locked: bool) -> Result<(), CatalogError>;

    /// Renames a node. Fails with `NotFound`, and with `Exists` for a name that another node has.
    fn rename_node(&self, node: NodeId, name: &NodeName) -> Result<(), CatalogError>;

    /// Changes a node. Fails with `NotFound` for an unknown node, domain or option set.
    fn change_node(&self, node: NodeId, change: &NodeChange) -> Result<(), CatalogError>;

    /// Removes a node with its certificates, tokens, filespaces and all their versions. Fails with
    /// `NotFound`.
    fn remove_node(&self, node: NodeId) -> Result<(), CatalogError>;
}

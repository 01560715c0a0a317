//! Last contacts of nodes, and the last polls of their agents.

use model::{NodeId, ServerTime};

use crate::CatalogError;

/// The last time at which a program of a node has greeted a server, and from where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContactRow {
    pub node: NodeId,
    pub at: ServerTime,
    pub address: String,
    /// Name of the machine, as the program has given it; empty if it has given none.
    pub host: String,
}

/// The last time at which the agent of a node has called a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PollRow {
    pub node: NodeId,
    pub at: ServerTime,
    /// Minutes to the next call of an agent that polls; 0 for one that stays connected.
    pub minutes: u32,
}

/// The last contacts of nodes.
pub trait Contacts {
    /// Keeps contacts, each in place of an older one of its node. Those of unknown nodes are left
    /// out. After the clock of a server was set back, contacts are left out until it has come to
    /// where it was.
    fn put_contacts(&self, contacts: &[ContactRow]) -> Result<(), CatalogError>;

    /// The last contact of a node.
    fn contact(&self, node: NodeId) -> Result<Option<ContactRow>, CatalogError>;

    /// Keeps calls of agents by the rules of [`Contacts::put_contacts`].
    fn put_polls(&self, polls: &[PollRow]) -> Result<(), CatalogError>;

    /// The last call of a node's agent.
    fn poll(&self, node: NodeId) -> Result<Option<PollRow>, CatalogError>;
}

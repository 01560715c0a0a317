//! Filespaces of nodes.

use model::{FilespaceId, NodeId, ServerTime};

use crate::CatalogError;

/// A node's filespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filespace {
    pub id: FilespaceId,
    pub node: NodeId,
    /// Mount point of the filespace on the node.
    pub name: Vec<u8>,
    /// Start of the last backup that examined everything that it was told to.
    pub last_backup: Option<ServerTime>,
}

/// The filespaces of nodes.
pub trait Filespaces {
    /// A node's filespaces, by name.
    fn filespaces(&self, node: NodeId) -> Result<Vec<Filespace>, CatalogError>;

    /// The start of the last backup of any filespace, for each node that has one.
    fn last_backups(&self) -> Result<Vec<(NodeId, ServerTime)>, CatalogError>;

    /// The filespaces of all nodes whose last backup began before `time`, by node and name. Those
    /// without a backup are left out, as archives are.
    fn filespaces_backed_up_before(&self, time: ServerTime)
    -> Result<Vec<Filespace>, CatalogError>;

    /// At most `limit` of a node's filespaces, by name. The list begins with the name `from`, or
    /// with the first name after it.
    fn filespaces_from(
        &self,
        node: NodeId,
        from: &[u8],
        limit: usize,
    ) -> Result<Vec<Filespace>, CatalogError>;

    /// The filespaces of each of these archives of a node, in the order of `archives`.
    fn archive_filespaces(
        &self,
        node: NodeId,
        archives: &[u64],
    ) -> Result<Vec<Vec<Filespace>>, CatalogError>;

    /// Removes a filespace with all its versions and deletions, and the reports of its backups.
    /// Fails with `NotFound`.
    fn remove_filespace(&self, filespace: FilespaceId) -> Result<(), CatalogError>;

    /// Returns a node's filespace by its name. An unknown filespace is made. Fails with `NotFound`
    /// for an unknown node.
    fn open_filespace(
        &self,
        node: NodeId,
        name: &[u8],
        now: ServerTime,
    ) -> Result<Filespace, CatalogError>;
}

//! Deletions by nodes, whose versions can be brought back for a while.

use model::{DirPath, FilespaceId, Name, NodeId, ServerTime};

use crate::{CatalogError, VersionRow};

/// A deletion whose versions can still be brought back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeletionRow {
    pub number: u64,
    pub node: NodeId,
    pub time: ServerTime,
    pub details: String,
    /// Number of versions in the deletion's trash.
    pub versions: u64,
}

/// A version in the trash of a deletion, with the filespace from which it comes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrashedVersion {
    pub filespace: FilespaceId,
    pub version: VersionRow,
}

/// The deletions and their trash.
pub trait Deletions {
    /// Makes a deletion with an empty trash and returns its number, which tells nothing about other
    /// nodes. Fails with `NotFound` for an unknown node.
    fn add_deletion(
        &self,
        node: NodeId,
        details: &str,
        now: ServerTime,
    ) -> Result<u64, CatalogError>;

    /// The deletions of a node, or of all nodes, newest first.
    fn deletions(&self, node: Option<NodeId>) -> Result<Vec<DeletionRow>, CatalogError>;

    /// At most `limit` deletions of a node, newest first. The list begins with the deletion
    /// numbered `from`, or with the newest deletion if `from` is `None`.
    fn deletions_from(
        &self,
        node: NodeId,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeletionRow>, CatalogError>;

    /// At most `limit` versions in the deletion's trash after the first `skip` versions, by
    /// filespace and directory.
    fn trash(
        &self,
        deletion: u64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<TrashedVersion>, CatalogError>;

    /// The versions of the object `name` of `directory` in the trash of all deletions.
    fn trashed_versions(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
        name: &Name,
    ) -> Result<Vec<VersionRow>, CatalogError>;
}

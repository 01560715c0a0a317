//! Finished backups of nodes.

use model::{FilespaceId, NodeId, ServerTime};

use crate::CatalogError;

/// A finished backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionRow {
    pub node: NodeId,
    pub filespace: FilespaceId,
    pub started: ServerTime,
    pub ended: ServerTime,
    /// True if the backup examined everything.
    pub complete: bool,
    /// The client's report, as it sent it.
    pub report: String,
}

/// The finished backups.
pub trait Sessions {
    /// At most `limit` backups of `node`, newest first.
    fn sessions(&self, node: NodeId, limit: usize) -> Result<Vec<SessionRow>, CatalogError>;

    /// At most `limit` backups of `node`, newest first, with their numbers. The list begins with
    /// the backup numbered `from` or the next older one, or with the newest.
    fn sessions_from(
        &self,
        node: NodeId,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, SessionRow)>, CatalogError>;

    /// At most `limit` backups of `node` that began at `since` or later, newest first.
    fn sessions_since(
        &self,
        node: NodeId,
        since: ServerTime,
        limit: usize,
    ) -> Result<Vec<SessionRow>, CatalogError>;

    /// The ends of at most `limit` complete backups of `node`, newest first, each with its
    /// filespace.
    fn backup_ends(
        &self,
        node: NodeId,
        limit: usize,
    ) -> Result<Vec<(FilespaceId, ServerTime)>, CatalogError>;
}

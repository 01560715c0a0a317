//! Restores of nodes, as the server has sent them.

use model::{FilespaceId, NodeId, ServerTime};

use crate::CatalogError;

/// A restore of objects of one filespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RestoreRow {
    pub node: NodeId,
    pub filespace: FilespaceId,
    pub started: ServerTime,
    pub ended: ServerTime,
    /// Number of files that were sent, and their size.
    pub objects: u64,
    pub bytes: u64,
}

/// The restores.
pub trait Restores {
    /// Records a restore.
    fn add_restore(&self, restore: &RestoreRow) -> Result<(), CatalogError>;

    /// The restores that ended at the first time of `span` or later, and before the second, in the
    /// order of their ends.
    fn restores(&self, span: (ServerTime, ServerTime)) -> Result<Vec<RestoreRow>, CatalogError>;

    /// Removes restores that ended before `before`.
    fn forget_restores(&self, before: ServerTime) -> Result<(), CatalogError>;
}

//! Restore drills: what the last ones of each node have shown.

use model::{NodeId, ServerTime};

use crate::CatalogError;

/// Result of a restore drill.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DrillRow {
    pub node: NodeId,
    /// True if the whole sample could be restored.
    pub is_good: bool,
    /// Time at which the drill ended.
    pub at: ServerTime,
    /// Number of files whose data the node has checked.
    pub objects: u64,
    pub bytes: u64,
    /// Number of files that could not be restored.
    pub damaged: u64,
    /// Reason why the drill failed; empty for a good drill.
    pub reason: String,
}

/// The last good and the last failed drill of each node.
pub trait Drills {
    /// Keeps the result of a drill in place of the last result of the same kind. Fails with
    /// `NotFound` for an unknown node.
    fn put_drill(&self, drill: &DrillRow) -> Result<(), CatalogError>;

    /// The kept results of all nodes, or of one, by node; the failed one of a node comes first.
    fn drills(&self, node: Option<NodeId>) -> Result<Vec<DrillRow>, CatalogError>;
}

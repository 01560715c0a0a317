//! Baselines of nodes: documents that the catalogue does not interpret.

use model::{NodeId, ServerTime};

use crate::CatalogError;

/// Number of baselines that are kept of each node. A further one replaces the oldest.
pub const BASELINES_MAX: usize = 100;

/// A kept baseline of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BaselineRow {
    pub number: u64,
    pub made: ServerTime,
    /// The client's document, as it sent it.
    pub document: Vec<u8>,
}

/// The kept baselines.
pub trait Baselines {
    /// Keeps a baseline of `node`, and removes the oldest of the node if there are more than
    /// [`BASELINES_MAX`]. Fails with `NotFound` for an unknown node.
    fn add_baseline(
        &self,
        node: NodeId,
        made: ServerTime,
        document: &[u8],
    ) -> Result<(), CatalogError>;

    /// At most `limit` baselines of `node`, oldest first. The list begins with the baseline
    /// numbered `from`, or with the oldest baseline if `from` is `None`.
    fn baselines(
        &self,
        node: NodeId,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<BaselineRow>, CatalogError>;
}

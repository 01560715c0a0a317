//! Finished archives and restores of all nodes.

use model::{NodeId, ServerTime};

use crate::CatalogError;

/// A finished session of an archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchivedRow {
    pub node: NodeId,
    /// Name of the archive's filespace. The row outlives the archive.
    pub filespace: Vec<u8>,
    pub started: ServerTime,
    pub ended: ServerTime,
    pub figures: TransferFigures,
}

/// Figures of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransferFigures {
    /// Number of objects that were looked at.
    pub examined: u64,
    /// Number of objects that were archived or sent.
    pub objects: u64,
    pub failed: u64,
    pub bytes: u64,
}

/// A finished archive or restore of any node, with the names of its node and its filespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinishedTransfer {
    pub number: u64,
    pub node: String,
    /// Empty for a filespace that was removed.
    pub filespace: Vec<u8>,
    pub started: ServerTime,
    pub ended: ServerTime,
    pub figures: TransferFigures,
}

/// Lists of finished archives and restores.
pub trait Transfers {
    /// Records a session of an archive.
    fn add_archived(&self, archived: &ArchivedRow) -> Result<(), CatalogError>;

    /// At most `limit` finished sessions of archives, newest first. The list begins with the
    /// session numbered `from`, or with the newest.
    fn finished_archives(
        &self,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<FinishedTransfer>, CatalogError>;

    /// At most `limit` finished restores, newest first. The list begins with the restore numbered
    /// `from`, or with the newest.
    fn finished_restores(
        &self,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<FinishedTransfer>, CatalogError>;

    /// Removes sessions of archives that ended before `before`.
    fn forget_archived(&self, before: ServerTime) -> Result<(), CatalogError>;
}

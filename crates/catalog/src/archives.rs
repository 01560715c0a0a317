//! Archives of nodes.

use model::{NodeId, ServerTime};

use crate::CatalogError;

/// An archive: the objects of one archive command, kept by time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveRow {
    pub number: u64,
    pub node: NodeId,
    pub description: String,
    pub created: ServerTime,
    /// Time of the event from which some classes count their days.
    pub event: Option<ServerTime>,
    /// True if the archive is kept whatever the rules say.
    pub held: bool,
    /// True if everything that the command named is in the archive.
    pub complete: bool,
    pub objects: u64,
    /// Size of the archive's files.
    pub bytes: u64,
    /// Earliest time at which an object of the archive expires; `None` until expiration has
    /// computed it.
    pub due: Option<ServerTime>,
}

/// A change of an archive; a field that is `None` leaves its value as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArchiveChange {
    pub event: Option<ServerTime>,
    pub held: Option<bool>,
    pub complete: Option<bool>,
    pub due: Option<Option<ServerTime>>,
    /// Number of objects added, less the number of objects removed.
    pub objects_added: i64,
    /// Bytes added, less bytes removed.
    pub bytes_added: i64,
}

/// The archives of nodes.
pub trait Archives {
    /// Makes an empty archive of a node. Its number tells nothing about other nodes. Fails with
    /// `NotFound` for an unknown node.
    fn add_archive(
        &self,
        node: NodeId,
        description: &str,
        now: ServerTime,
    ) -> Result<ArchiveRow, CatalogError>;

    /// A node's archives, newest first.
    fn archives(&self, node: NodeId) -> Result<Vec<ArchiveRow>, CatalogError>;

    /// At most `limit` of a node's archives, newest first. The list begins with the archive
    /// numbered `from`, or with the newest archive if `from` is `None`.
    fn archives_from(
        &self,
        node: NodeId,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<ArchiveRow>, CatalogError>;

    /// Removes an archive with its filespaces. Fails with `NotFound` for an unknown archive.
    fn remove_archive(&self, node: NodeId, number: u64) -> Result<(), CatalogError>;
}

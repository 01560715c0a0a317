//! Batches: writes that become visible and durable together.

use model::{DirPath, FilespaceId, PackNumber, PoolId, ServerTime};

use crate::{
    ArchiveChange, CatalogError, Day, EventRow, ExpiryState, Growth, PackRow, PageKey, PageRow,
    PartRow, SessionRow, StoredPack, TaskEnd, VersionKey, VersionRow, VolumeRow,
};

/// One write of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// Makes or replaces a page and its digest.
    PutPage {
        filespace: FilespaceId,
        page: PageRow,
    },
    /// Removes a page and its digest, if they exist.
    RemovePage {
        filespace: FilespaceId,
        key: PageKey,
    },
    /// Sets a mark.
    SetMark {
        name: &'static str,
        value: i64,
    },
    AddVersion {
        filespace: FilespaceId,
        version: VersionRow,
    },
    /// Removes inactive versions, which other writes put elsewhere: they count as stored.
    DropVersions {
        filespace: FilespaceId,
        directory: DirPath,
        versions: Vec<VersionKey>,
    },
    /// Removes inactive versions permanently, with their sizes in bytes. Those that were there no
    /// longer count as stored.
    FreeVersions {
        filespace: FilespaceId,
        directory: DirPath,
        versions: Vec<(VersionKey, u64)>,
    },
    /// Changes the amount of what is stored in the filespace.
    Grow {
        filespace: FilespaceId,
        growth: Growth,
    },
    /// Records that a version in the directory ended on `day`, if the directory has inactive
    /// versions: expiration will examine the directory.
    MarkDirectory {
        filespace: FilespaceId,
        directory: DirPath,
        day: Day,
    },
    /// Removes the record that a version in the directory ended on `day`: expiration has finished
    /// with it.
    UnmarkDirectory {
        filespace: FilespaceId,
        directory: DirPath,
        day: Day,
    },
    /// Records the progress of expiration in the filespace.
    SetExpiry {
        filespace: FilespaceId,
        state: ExpiryState,
    },
    AddEvent(EventRow),
    /// Begins a run of a task. Each task has at most one open run; an earlier open run is recorded
    /// as failed.
    BeginTask {
        task: String,
        due: ServerTime,
        started: ServerTime,
    },
    /// Ends the open run of the task, if there is one.
    EndTask {
        task: String,
        end: TaskEnd,
    },
    SetArchive {
        number: u64,
        change: ArchiveChange,
    },
    /// Puts a version into the trash of a deletion. Another write removes it from its directory.
    Trash {
        deletion: u64,
        filespace: FilespaceId,
        version: VersionRow,
    },
    /// Removes a deletion and its trash, whose versions other writes have put back.
    EmptyTrash {
        deletion: u64,
    },
    /// Removes a deletion and its trash permanently. The versions no longer count as stored.
    PurgeTrash {
        deletion: u64,
    },
    /// Replaces a page's body, if it is still `old`; the digest stays.
    RewritePage {
        filespace: FilespaceId,
        key: PageKey,
        old: Vec<u8>,
        new: Vec<u8>,
    },
    /// Replaces an inactive version's body, if it is still the one in `version`.
    RewriteVersion {
        filespace: FilespaceId,
        version: VersionRow,
        new: Vec<u8>,
    },
    /// Replaces the body of a version in the trash, if it is still the one in `version`.
    RewriteTrash {
        deletion: u64,
        filespace: FilespaceId,
        version: VersionRow,
        new: Vec<u8>,
    },
    /// Removes a pack. No other pack gets its number.
    RemovePack(PackNumber),
    /// Makes or replaces a pack's row.
    PutPack(PackRow),
    /// Replaces the row of the volume with the same number.
    PutVolume(VolumeRow),
    /// Replaces all parts that the pool has of a pack.
    PutParts {
        pool: PoolId,
        stored: StoredPack,
        parts: Vec<PartRow>,
    },
    /// Removes all parts that the pool has of a pack, if there are any.
    RemoveParts {
        pool: PoolId,
        pack: PackNumber,
    },
    /// Records a finished backup and, if it was complete, the filespace's date.
    AddSession(SessionRow),
}

impl Write {
    /// The filespace that must exist for this write.
    pub fn filespace(&self) -> Option<FilespaceId> {
        match self {
            Self::PutPage { filespace, .. }
            | Self::RemovePage { filespace, .. }
            | Self::AddVersion { filespace, .. }
            | Self::DropVersions { filespace, .. }
            | Self::FreeVersions { filespace, .. }
            | Self::Grow { filespace, .. }
            | Self::MarkDirectory { filespace, .. }
            | Self::UnmarkDirectory { filespace, .. }
            | Self::SetExpiry { filespace, .. }
            | Self::Trash { filespace, .. } => Some(*filespace),
            // If the filespace is gone, no row has the old body, and these writes change nothing.
            Self::RewritePage { .. } | Self::RewriteVersion { .. } | Self::RewriteTrash { .. } => {
                None
            }
            Self::AddSession(session) => Some(session.filespace),
            Self::PutPack(_)
            | Self::RemovePack(_)
            | Self::PutVolume(_)
            | Self::PutParts { .. }
            | Self::RemoveParts { .. }
            | Self::AddEvent(_)
            | Self::SetMark { .. }
            | Self::BeginTask { .. }
            | Self::EndTask { .. }
            | Self::SetArchive { .. }
            | Self::EmptyTrash { .. }
            | Self::PurgeTrash { .. } => None,
        }
    }
}

/// Failure of [`Batches::commit_at`].
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another server has condemned packs since the caller read their states: read them again.
    #[error("packs were condemned meanwhile; try again")]
    Stale,
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// Writes in batches.
pub trait Batches {
    /// Performs `writes` in their order as one batch. Batches of several callers may share one
    /// commit. Fails with `NotFound` for an unknown filespace (such as the filespace of a removed
    /// node), volume, library or pool, and with `Exists` for a volume's new name that another
    /// volume of the library has.
    fn commit(&self, writes: Vec<Write>) -> Result<(), CatalogError>;

    /// Performs `writes` as [`Self::commit`] does. `generation` is the number of condemnations that
    /// the caller knew when it decided which packs it may name. Fails with `Stale`, and writes
    /// nothing, if another server has condemned packs since.
    fn commit_at(&self, generation: u64, writes: Vec<Write>) -> Result<(), CommitError>;

    /// Performs `writes`, which forbid new references to packs, while nobody commits. Returns the
    /// number of condemnations so far.
    fn condemn(&self, writes: Vec<Write>) -> Result<u64, CatalogError>;
}

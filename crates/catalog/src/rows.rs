//! What the catalogue's tables hold.

use model::{
    DirPath, DirectoryDigest, DomainId, FilespaceId, Name, NodeId, NodeName, PackNumber, PathHash,
    PoolId, ServerTime,
};

/// A registered node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub id: NodeId,
    pub name: NodeName,
    pub domain: DomainId,
    pub domain_name: String,
    pub locked: bool,
    pub registered: ServerTime,
    /// The statements that it gets beside its own.
    pub option_set: Option<String>,
    /// BACKDELETE: whether it may delete its backups.
    pub deletes_backups: bool,
    /// ARCHDELETE: the same for archives.
    pub deletes_archives: bool,
    /// Nodes of one group share volumes where a pool is collocated by group.
    pub collocation_group: Option<String>,
}

/// What is to become of a node; `None` leaves it as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeChange {
    pub domain: Option<DomainId>,
    /// `Some(None)` takes its option set away.
    pub option_set: Option<Option<String>>,
    pub deletes_backups: Option<bool>,
    pub deletes_archives: Option<bool>,
    /// `Some(None)` takes it out of its group.
    pub collocation_group: Option<Option<String>>,
}

/// Include and exclude statements that the server gives to nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionSet {
    pub name: String,
    /// As `policy::statement::parse_list` reads it.
    pub text: Vec<u8>,
}

/// What somebody did that others may ask about later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventRow {
    pub time: ServerTime,
    /// `node NAME`, `administrator` or `server`.
    pub actor: String,
    /// A few words, the same for the same kind of event.
    pub what: String,
    pub details: String,
}

/// What a server has done by itself when it was due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskRun {
    /// Which task, in a few words.
    pub task: String,
    /// When it was to begin.
    pub due: ServerTime,
    pub started: ServerTime,
    /// `None`: it runs.
    pub ended: Option<TaskEnd>,
}

/// How a run has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskEnd {
    pub at: ServerTime,
    /// As TSM counts: 0 is well, [`Self::WARNED`], [`Self::FAILED`].
    pub code: u8,
    /// Empty where all is well.
    pub reason: String,
}

impl TaskEnd {
    /// It has done what it could, and not all.
    pub const WARNED: u8 = 4;
    pub const FAILED: u8 = 12;
}

/// An archive: what one command archived, kept by time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveRow {
    pub number: u64,
    pub node: NodeId,
    pub description: String,
    pub created: ServerTime,
    /// When the event happened that the days of some classes begin with.
    pub event: Option<ServerTime>,
    /// Whether it is kept whatever the rules say.
    pub held: bool,
    /// Whether everything that was asked for is in it.
    pub complete: bool,
    pub objects: u64,
    /// Sizes of its files.
    pub bytes: u64,
    /// Nothing in it is due before; `None` where that has not been found out.
    pub due: Option<ServerTime>,
}

/// What is to become of an archive; `None` leaves it as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArchiveChange {
    pub event: Option<ServerTime>,
    pub held: Option<bool>,
    pub complete: Option<bool>,
    pub due: Option<Option<ServerTime>>,
    /// What came in and went, together.
    pub objects_added: i64,
    pub bytes_added: i64,
}

/// Versions that a node deleted, while they can be had back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeletionRow {
    pub number: u64,
    pub node: NodeId,
    pub time: ServerTime,
    pub details: String,
    pub versions: u64,
}

/// How far expiration is with a filespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpiryState {
    /// All that was due by then is gone; `None` where every version is to be looked at.
    pub done_to: Option<ServerTime>,
}

/// A day, counted from 1970 by the server's clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Day(pub i64);

impl Day {
    const MICROS: i64 = 86_400_000_000;

    /// The day that `time` is in.
    pub fn of(time: ServerTime) -> Self {
        Self(time.0.div_euclid(Self::MICROS))
    }
}

/// What names an inactive version in its directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VersionKey {
    pub name: Name,
    pub inserted: ServerTime,
    pub deactivated: ServerTime,
}

/// A token as the server keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenRow {
    /// BLAKE3 of the token's secret.
    pub hash: [u8; 32],
    pub node: NodeId,
    pub expires: ServerTime,
}

/// A certificate that the server issued.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    pub serial: Vec<u8>,
    pub node: NodeId,
    pub expires: ServerTime,
}

/// A node's filespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filespace {
    pub id: FilespaceId,
    pub node: NodeId,
    /// Its mount point on the node.
    pub name: Vec<u8>,
    /// When a backup last looked at all that it was asked to.
    pub last_backup: Option<ServerTime>,
}

/// What names a page: its directory and its first name, empty for a directory's first page.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageKey {
    pub directory: DirPath,
    pub first: Vec<u8>,
}

impl PageKey {
    /// The first page of `directory`.
    pub fn first_of(directory: DirPath) -> Self {
        Self { directory, first: Vec::new() }
    }
}

/// A directory page as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageRow {
    pub key: PageKey,
    pub object_count: u32,
    pub digest: Option<DirectoryDigest>,
    /// See `format::page`.
    pub body: Vec<u8>,
}

/// The narrow row of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageDigest {
    pub hash: PathHash,
    pub first: Vec<u8>,
    pub digest: Option<DirectoryDigest>,
}

/// A range of directories.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PageSpan {
    Directory(DirPath),
    Subtree(DirPath),
}

impl PageSpan {
    /// The lowest directory path, and the first one behind the span if there is any.
    pub fn bounds(&self) -> (&[u8], Option<Vec<u8>>) {
        match self {
            Self::Directory(path) => {
                let mut end = path.as_bytes().to_vec();
                end.push(0);
                (path.as_bytes(), Some(end))
            }
            Self::Subtree(path) => (path.as_bytes(), path.end_of_subtree()),
        }
    }
}

/// An inactive version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionRow {
    pub directory: DirPath,
    pub name: Name,
    pub inserted: ServerTime,
    pub deactivated: ServerTime,
    /// A page of this one object.
    pub body: Vec<u8>,
}

/// Whether a pack takes more quanta.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PackState {
    Open,
    Sealed,
    /// Nothing names its chunks, and nothing new may; it goes once that is certain.
    Condemned,
    /// An audit has found damage in it; nothing new may name its chunks.
    Damaged,
}

impl PackState {
    /// As the catalogue numbers them.
    pub(crate) const ALL: [Self; 4] = [Self::Open, Self::Sealed, Self::Condemned, Self::Damaged];

    /// Whether it takes no more quanta.
    pub fn is_sealed(self) -> bool {
        self != Self::Open
    }
}

/// A pack as the catalogue knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackRow {
    pub number: PackNumber,
    pub domain: DomainId,
    pub state: PackState,
    pub bytes: u64,
    /// The node that filled it, where it has data of one only. Where it is put as `None`, the
    /// catalogue keeps the one that it knows.
    pub node: Option<NodeId>,
}

/// Whose packs may share a volume of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collocation {
    /// Those of all nodes.
    No,
    /// Those of one group of nodes.
    Group,
    /// Those of one node.
    Node,
}

/// A storage pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolRow {
    pub id: PoolId,
    pub name: String,
    /// Where it is, as `server.toml` says it.
    pub url: String,
    /// Whether it holds second copies.
    pub is_copy: bool,
    /// What its folder is marked with.
    pub mark: [u8; 16],
    /// The pool that its packs go to.
    pub next: Option<PoolId>,
    pub capacity_bytes: Option<u64>,
    /// Packs go to the next pool when it is so full.
    pub high_percent: u8,
    /// And until it is so full.
    pub low_percent: u8,
    /// Packs stay so many days, unless it would run over.
    pub delay_days: u16,
    pub collocation: Collocation,
    /// A full volume is emptied when so much of what was written on it is dead.
    pub reclaim_percent: u8,
    /// An emptied volume is not written again for so many days.
    pub reuse_delay_days: u16,
}

/// A library of volumes that the server uses: a changer with drives, or a folder of files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryRow {
    pub name: String,
    pub changer: Option<String>,
    pub drives: Vec<String>,
    pub folder: Option<String>,
    /// Of each volume in the folder.
    pub capacity_bytes: Option<u64>,
    /// Volumes that are mounted at once.
    pub drives_max: u32,
    /// An idle volume stays mounted so long.
    pub retain_secs: u32,
    /// Whether opens of migrated files are refused, while lists of them are not.
    pub optimised_only: bool,
}

/// What a volume is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolumeState {
    /// For whoever needs a volume next.
    Scratch,
    Filling,
    Full,
    /// Its data is elsewhere or dead; it is scratch again after its pool's reuse delay.
    Pending,
}

/// Whether a volume can be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolumeAccess {
    ReadWrite,
    ReadOnly,
    /// It is elsewhere.
    Offsite,
    /// It should be there and is not, or fails.
    Unavailable,
    /// It will never be read again.
    Destroyed,
}

/// A volume of a library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeRow {
    /// 0 for a new one.
    pub id: u64,
    pub library: String,
    pub name: String,
    /// The identity that its label gives it.
    pub label: [u8; 16],
    /// The largest block on it.
    pub block_bytes: u32,
    /// The pool whose packs it holds.
    pub pool: Option<PoolId>,
    /// Whose packs it holds where its pool is collocated; else empty.
    pub group: String,
    pub state: VolumeState,
    pub access: VolumeAccess,
    /// Where it is, in words.
    pub location: String,
    /// What lies on it, live or dead.
    pub written_bytes: u64,
    /// How often it has failed.
    pub errors: u32,
    /// When its state last became another.
    pub changed: ServerTime,
}

/// One part of a pack on a volume; a pack has several where a volume ended within it. See
/// `format::volume::Part`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartRow {
    pub volume: u64,
    pub object: [u8; 16],
    /// Of the object on the volume, from 1.
    pub object_sequence: u32,
    /// Of the first block.
    pub position: u64,
    pub block_count: u64,
    /// Of the first block in its object.
    pub first_sequence: u64,
    /// Of the first byte in its object.
    pub offset: u64,
    pub bytes: u64,
    /// Whether the pack ends here.
    pub is_last: bool,
}

/// A pack that a pool has on volumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredPack {
    pub pack: PackNumber,
    pub bytes: u64,
    pub stored: ServerTime,
}

/// A finished backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionRow {
    pub node: NodeId,
    pub filespace: FilespaceId,
    pub started: ServerTime,
    pub ended: ServerTime,
    /// Whether everything was looked at.
    pub complete: bool,
    /// The client's report, as it sent it.
    pub report: String,
}

/// One write of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// Makes or replaces a page and its digest.
    PutPage {
        filespace: FilespaceId,
        page: PageRow,
    },
    /// Removes a page, if it is there, and its digest.
    RemovePage {
        filespace: FilespaceId,
        key: PageKey,
    },
    AddVersion {
        filespace: FilespaceId,
        version: VersionRow,
    },
    /// Removes inactive versions for good.
    DropVersions {
        filespace: FilespaceId,
        directory: DirPath,
        versions: Vec<VersionKey>,
    },
    /// Has expiration look at the directory as if a version of it had ended on `day`, if it has
    /// inactive versions at all.
    MarkDirectory {
        filespace: FilespaceId,
        directory: DirPath,
        day: Day,
    },
    /// Expiration has nothing more to do with what ended in the directory on `day`.
    UnmarkDirectory {
        filespace: FilespaceId,
        directory: DirPath,
        day: Day,
    },
    /// All that was due in the filespace by `done_to` is gone.
    SetExpiry {
        filespace: FilespaceId,
        state: ExpiryState,
    },
    AddEvent(EventRow),
    /// A task begins to run. Of each task one run is open at most: what was, is lost.
    BeginTask {
        task: String,
        due: ServerTime,
        started: ServerTime,
    },
    /// The open run of the task, if there is one, has ended.
    EndTask {
        task: String,
        end: TaskEnd,
    },
    SetArchive {
        number: u64,
        change: ArchiveChange,
    },
    /// Takes a version aside for a deletion; removing it from where it is, is a write of its own.
    Trash {
        deletion: u64,
        filespace: FilespaceId,
        version: VersionRow,
    },
    /// Removes what a deletion took aside.
    EmptyTrash {
        deletion: u64,
    },
    /// Gives a page another body, if it still has the `old` one; its digest stays.
    RewritePage {
        filespace: FilespaceId,
        key: PageKey,
        old: Vec<u8>,
        new: Vec<u8>,
    },
    /// The same for an inactive version, whose body is the old one.
    RewriteVersion {
        filespace: FilespaceId,
        version: VersionRow,
        new: Vec<u8>,
    },
    /// The same for a version that a deletion took aside.
    RewriteTrash {
        deletion: u64,
        filespace: FilespaceId,
        version: VersionRow,
        new: Vec<u8>,
    },
    /// Forgets a pack, whose number is not given again.
    RemovePack(PackNumber),
    /// Makes or replaces a pack's row.
    PutPack(PackRow),
    /// Replaces the volume's row with its number.
    PutVolume(VolumeRow),
    /// Says where a pack lies, in place of all parts that the pool has of it.
    PutParts {
        pool: PoolId,
        stored: StoredPack,
        parts: Vec<PartRow>,
    },
    /// Forgets where a pool has a pack, if it has it.
    RemoveParts {
        pool: PoolId,
        pack: PackNumber,
    },
    /// Records a finished backup and, when it was complete, the filespace's date.
    AddSession(SessionRow),
}

impl Write {
    /// The filespace that it writes to.
    pub fn filespace(&self) -> Option<FilespaceId> {
        match self {
            Self::PutPage { filespace, .. }
            | Self::RemovePage { filespace, .. }
            | Self::AddVersion { filespace, .. }
            | Self::DropVersions { filespace, .. }
            | Self::MarkDirectory { filespace, .. }
            | Self::UnmarkDirectory { filespace, .. }
            | Self::SetExpiry { filespace, .. }
            | Self::Trash { filespace, .. } => Some(*filespace),
            // What is gone meanwhile has no body that could be the old one.
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
            | Self::BeginTask { .. }
            | Self::EndTask { .. }
            | Self::SetArchive { .. }
            | Self::EmptyTrash { .. } => None,
        }
    }
}

//! The durable truth: who the nodes are, what their filespaces hold, which packs there are.
//!
//! [`Catalog`] is the seam between Holdfast and its database; [`sqlite`] is the embedded engine.
//! What the bulk rows mean is decided above: here a directory page is a key, a digest and a body of
//! bytes.
//! [`change`] is the pure half of a backup's commit: how a page becomes the next page.
//!
//! Invariants:
//! 1. A batch of writes is visible to readers, and durable, as a whole or not at all.
//! 2. A page row and its digest row are written by the same batch.
//! 3. Numbers of nodes, filespaces, packs, pools and volumes are never given twice.

pub mod change;
pub mod index;
pub mod postgres;
mod relocate;
mod rows;
mod sql;
pub mod sqlite;

pub use relocate::{Location, Standing, arrive, has_left, leave, relocate, standing};
pub use rows::{
    ArchiveChange, ArchiveRow, Certificate, Collocation, Day, DeletionRow, EventRow, ExpiryState,
    Filespace, LibraryRow, Node, NodeChange, OptionSet, PackRow, PackState, PageDigest, PageKey,
    PageRow, PageSpan, PartRow, PoolRow, SessionRow, StoredPack, TaskEnd, TaskRun, TokenRow,
    VersionKey, VersionRow, VolumeAccess, VolumeRow, VolumeState, Write,
};

use std::collections::BTreeMap;

use model::{
    ClassId, DirPath, DomainId, FilespaceId, NodeId, NodeName, PackNumber, PoolId, ServerTime,
};
use policy::{PolicyDomain, PolicySet};

/// Why the catalogue did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// It was moved, or is being moved.
    #[error("{0}")]
    Moving(&'static str),
    /// What was named is not there.
    #[error("{what} is not known")]
    NotFound { what: &'static str },
    /// What was to be made is there already.
    #[error("{what} exists already")]
    Exists { what: &'static str },
    /// The token does not open anything: used, expired or never given.
    #[error("the token is {0}")]
    Token(&'static str),
    /// Free space on the catalogue's disk, then try again.
    #[error("no space left for the catalogue")]
    NoSpace,
    /// The database is not readable as a catalogue: restore it from its backup.
    #[error("the catalogue is damaged: {0}")]
    Damaged(String),
    /// The database does not answer, or not any more: bring it back, then go on.
    #[error("the catalogue's database is away: {0}")]
    Away(String),
    /// Other servers take this one for dead: it writes nothing any more.
    #[error("other servers take this one for dead")]
    Fenced,
    /// Packs were condemned since the caller looked at them: look again.
    #[error("packs were condemned meanwhile; try again")]
    Stale,
    /// The URL names no database that can be used.
    #[error("the catalogue's URL cannot be used: {0}")]
    Url(String),
    /// Anything else the database says; trying again may help.
    #[error("the catalogue's database failed")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The operations that Holdfast needs of its database.
///
/// Methods block; every one may be called from any thread. Writes return when they survive a power
/// cut. Readers see all batches that were committed before they were called.
pub trait Catalog: Send + Sync {
    /// Registers a node in the domain named `domain`. Fails with `Exists` for a known name and
    /// `NotFound` for an unknown domain.
    fn add_node(
        &self,
        name: &NodeName,
        domain: &str,
        now: ServerTime,
    ) -> Result<Node, CatalogError>;

    /// All nodes, by name.
    fn nodes(&self) -> Result<Vec<Node>, CatalogError>;

    /// The node that is called `name`.
    fn node(&self, name: &NodeName) -> Result<Node, CatalogError>;

    fn lock_node(&self, node: NodeId, locked: bool) -> Result<(), CatalogError>;

    fn rename_node(&self, node: NodeId, name: &NodeName) -> Result<(), CatalogError>;

    /// Removes a node with its certificates, tokens, filespaces and all their versions.
    fn remove_node(&self, node: NodeId) -> Result<(), CatalogError>;

    /// Stores a token of a node; unused older ones of the node are void. Fails with `NotFound` for
    /// an unknown node and `Exists` for a known hash.
    fn add_token(&self, token: &TokenRow) -> Result<(), CatalogError>;

    /// Uses up the token with this `hash` and stores the certificate that it buys, in one batch.
    fn redeem_token(
        &self,
        hash: &[u8; 32],
        serial: &[u8],
        expires: ServerTime,
        now: ServerTime,
    ) -> Result<Node, CatalogError>;

    /// The node that the token with this `hash` enrols, if it can still be used.
    fn token_node(&self, hash: &[u8; 32], now: ServerTime) -> Result<Node, CatalogError>;

    /// Stores a renewed certificate. Fails with `NotFound` for an unknown node and `Exists` for a
    /// known serial number.
    fn add_certificate(&self, certificate: &Certificate) -> Result<(), CatalogError>;

    /// The node that holds the certificate with this serial number.
    fn certificate_node(&self, serial: &[u8]) -> Result<Node, CatalogError>;

    /// Whether the node has ever redeemed a token.
    fn is_enrolled(&self, node: NodeId) -> Result<bool, CatalogError>;

    /// A node's filespaces, by name.
    fn filespaces(&self, node: NodeId) -> Result<Vec<Filespace>, CatalogError>;

    /// A node's filespace by name; made when it is not there. Fails with `NotFound` for an unknown
    /// node.
    fn open_filespace(
        &self,
        node: NodeId,
        name: &[u8],
        now: ServerTime,
    ) -> Result<Filespace, CatalogError>;

    /// Calls `visit` with the digest of every page at or below `within`, in no order, until it says
    /// `false`. With the root comes the page above it, which holds the root itself.
    fn digests(
        &self,
        filespace: FilespaceId,
        within: &DirPath,
        visit: &mut dyn FnMut(&PageDigest) -> bool,
    ) -> Result<(), CatalogError>;

    /// One page.
    fn page(&self, filespace: FilespaceId, key: &PageKey) -> Result<Option<PageRow>, CatalogError>;

    /// Those of the pages `keys` that are there, in no order; at once where asking for one after
    /// the other would mean to wait for a network each time.
    fn pages_at(
        &self,
        filespace: FilespaceId,
        keys: &[PageKey],
    ) -> Result<Vec<PageRow>, CatalogError>;

    /// The page of `directory` that holds or would hold `name`: the last that does not begin behind
    /// it.
    fn page_holding(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
        name: &[u8],
    ) -> Result<Option<PageRow>, CatalogError>;

    /// Pages of `span` in order of directory path and first name, at most `limit`, behind `after`.
    fn pages(
        &self,
        filespace: FilespaceId,
        span: &PageSpan,
        after: Option<&PageKey>,
        limit: usize,
    ) -> Result<Vec<PageRow>, CatalogError>;

    /// Directories within `span` that have inactive versions, in order, at most `limit`, behind
    /// `after`.
    fn version_directories(
        &self,
        filespace: FilespaceId,
        span: &PageSpan,
        after: Option<&DirPath>,
        limit: usize,
    ) -> Result<Vec<DirPath>, CatalogError>;

    /// Inactive versions of the objects in `directory`, by name, newest first.
    fn versions(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
    ) -> Result<Vec<VersionRow>, CatalogError>;

    /// Active objects at or below `directory`.
    fn count_objects(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
    ) -> Result<u64, CatalogError>;

    /// All packs, by number.
    fn packs(&self) -> Result<Vec<PackRow>, CatalogError>;

    /// The number that no pack has had yet.
    fn next_pack(&self) -> Result<PackNumber, CatalogError>;

    /// All pools, in the order in which they were made.
    fn pools(&self) -> Result<Vec<PoolRow>, CatalogError>;

    /// Makes a pool, whose number is given. Fails with `Exists` for a known name.
    fn add_pool(&self, pool: &PoolRow) -> Result<PoolId, CatalogError>;

    /// Puts the row in the place of the one with its number. Fails with `NotFound`.
    fn change_pool(&self, pool: &PoolRow) -> Result<(), CatalogError>;

    /// Forgets a pool and where its packs lie on volumes; none may have it as its next. The volumes
    /// stay as they are. Fails with `NotFound`.
    fn remove_pool(&self, pool: PoolId) -> Result<(), CatalogError>;

    /// All libraries, by name.
    fn libraries(&self) -> Result<Vec<LibraryRow>, CatalogError>;

    /// Makes or replaces a library; it stays spelled as it was when it was made.
    fn put_library(&self, library: &LibraryRow) -> Result<(), CatalogError>;

    /// Forgets a library; no volume may be in it. Fails with `NotFound`.
    fn remove_library(&self, name: &str) -> Result<(), CatalogError>;

    /// All volumes, by library and name.
    fn volumes(&self) -> Result<Vec<VolumeRow>, CatalogError>;

    /// Makes a volume, whose number is given. Fails with `NotFound` for an unknown library and
    /// `Exists` for a name that the library knows.
    fn add_volume(&self, volume: &VolumeRow) -> Result<u64, CatalogError>;

    /// Forgets a volume. Fails with `NotFound`, and with `Exists` while parts of packs lie on it.
    fn remove_volume(&self, volume: u64) -> Result<(), CatalogError>;

    /// The packs that the pool has on volumes, by number.
    fn stored_packs(&self, pool: PoolId) -> Result<Vec<StoredPack>, CatalogError>;

    /// Where the pool has the pack, in order of offset.
    fn parts(&self, pool: PoolId, pack: PackNumber) -> Result<Vec<PartRow>, CatalogError>;

    /// The parts of packs on the volume, in order of position.
    fn volume_parts(&self, volume: u64)
    -> Result<Vec<(PoolId, PackNumber, PartRow)>, CatalogError>;

    /// The bytes of all parts on each volume that has any.
    fn volume_bytes(&self) -> Result<BTreeMap<u64, u64>, CatalogError>;

    /// Writes the catalogue, as it is at one moment, into the new file `path`, while writers go on.
    fn copy_to(&self, path: &std::path::Path) -> Result<(), CatalogError>;

    /// All policy domains, by name.
    fn domains(&self) -> Result<Vec<PolicyDomain>, CatalogError>;

    /// Makes a domain with the standard set of classes. Fails with `Exists` for a known name.
    fn add_domain(&self, name: &str, now: ServerTime) -> Result<PolicyDomain, CatalogError>;

    /// Removes a domain without nodes; fails with `Exists` while it has one.
    fn remove_domain(&self, domain: DomainId) -> Result<(), CatalogError>;

    /// The number of the class called `name`, in whatever case, of the domain: the one that it has
    /// always had, or a new one.
    fn class_number(&self, domain: DomainId, name: &str) -> Result<ClassId, CatalogError>;

    /// Puts the domain's draft in the place of the one before, or takes it away.
    fn put_draft(
        &self,
        domain: DomainId,
        draft: Option<&PolicySet>,
        now: ServerTime,
    ) -> Result<(), CatalogError>;

    /// Makes `set` the domain's active one and takes the draft away; expiration will look at every
    /// version of the domain's nodes again.
    fn activate(
        &self,
        domain: DomainId,
        set: &PolicySet,
        event: &EventRow,
    ) -> Result<(), CatalogError>;

    /// All option sets, by name.
    fn option_sets(&self) -> Result<Vec<OptionSet>, CatalogError>;

    /// Makes or replaces an option set.
    fn put_option_set(&self, set: &OptionSet) -> Result<(), CatalogError>;

    /// Removes an option set, also from the nodes that had it. Fails with `NotFound`.
    fn remove_option_set(&self, name: &str) -> Result<(), CatalogError>;

    /// Changes a node. Fails with `NotFound` for an unknown node, domain or option set.
    fn change_node(&self, node: NodeId, change: &NodeChange) -> Result<(), CatalogError>;

    /// Events, newest first, at most `limit`, older than the one numbered `before`; with their
    /// numbers.
    fn events(
        &self,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<(i64, EventRow)>, CatalogError>;

    /// What servers have done by themselves, what began last first, at most `limit`.
    fn task_runs(&self, limit: usize) -> Result<Vec<TaskRun>, CatalogError>;

    /// Makes an archive of a node, with nothing in it.
    fn add_archive(
        &self,
        node: NodeId,
        description: &str,
        now: ServerTime,
    ) -> Result<ArchiveRow, CatalogError>;

    /// A node's archives, newest first.
    fn archives(&self, node: NodeId) -> Result<Vec<ArchiveRow>, CatalogError>;

    /// Removes an archive with its filespaces.
    fn remove_archive(&self, node: NodeId, number: u64) -> Result<(), CatalogError>;

    /// Makes a deletion, with nothing taken aside; returns its number.
    fn add_deletion(
        &self,
        node: NodeId,
        details: &str,
        now: ServerTime,
    ) -> Result<u64, CatalogError>;

    /// Deletions of a node, or of all nodes, whose versions can be had back, newest first.
    fn deletions(&self, node: Option<NodeId>) -> Result<Vec<DeletionRow>, CatalogError>;

    /// What the deletion took aside, by filespace and directory, at most `limit`, behind `skip`
    /// others.
    fn trash(
        &self,
        deletion: u64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<(FilespaceId, VersionRow)>, CatalogError>;

    /// How far expiration is with the filespace.
    fn expiry(&self, filespace: FilespaceId) -> Result<ExpiryState, CatalogError>;

    /// The directories in which versions have ended on days `from` to `to`, both included, in order
    /// of day and path, at most `limit`, behind `after`.
    fn endings(
        &self,
        filespace: FilespaceId,
        days: (Day, Day),
        after: Option<&(Day, DirPath)>,
        limit: usize,
    ) -> Result<Vec<(Day, DirPath)>, CatalogError>;

    /// Sessions that backed up `node`, newest first, at most `limit`.
    fn sessions(&self, node: NodeId, limit: usize) -> Result<Vec<SessionRow>, CatalogError>;

    /// Performs `writes` in order as one batch. Batches of several callers may share one commit.
    /// Fails with `NotFound` when one is for an unknown filespace, such as that of a removed node,
    /// or for an unknown volume, library or pool, and with `Exists` for a volume's new name that
    /// its library knows.
    fn commit(&self, writes: Vec<Write>) -> Result<(), CatalogError>;

    /// As [`Self::commit`], for who has looked which packs may be named when they had been
    /// condemned `generation` times. Fails with `Stale`, and writes nothing, where another server
    /// has condemned some since.
    fn commit_at(&self, generation: u64, writes: Vec<Write>) -> Result<(), CatalogError>;

    /// Performs `writes`, which say of packs that nothing new is to name them, while nobody
    /// commits. Returns how often that has been done.
    fn condemn(&self, writes: Vec<Write>) -> Result<u64, CatalogError>;
}

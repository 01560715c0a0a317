//! Storage pools: where quanta lie.
//!
//! [`Pools`] keep packs in local folders, one a pool. Quanta are appended to the one open pack of
//! their domain, made durable by [`Pools::sync`], and read back by place. When a pack has reached
//! its size it is sealed: its footer is written and it never changes again. A sealed pack may go
//! to another pool, or lie in several: a place names a pack, not a pool. Where a pack is, is seen
//! from the folders; nothing else says so, and nothing can contradict them.
//!
//! Invariants:
//! 1. What was appended before `sync` was called survives a power cut once `sync` has returned.
//! 2. A sealed pack is never written to; a damaged one is replaced as a whole.
//! 3. No place is ever given twice, also not across crashes: what an open pack lost was never
//!    synced.
//! 4. A pack that failed to sync takes no more quanta and none of its unsynced places is served.
//! 5. A pack leaves a pool only once it is whole and durable in another, or nothing names it.
//!
//! A pool may have its packs on volumes instead, see [`Shelf`]: reading one may take as long as a
//! volume takes to come, and its folder holds only what is needed without the data.
//!
//! Or it may have them in an object store, see [`Bucket`]: a pack exists there only once it is
//! sealed, so that each sync seals those that are open.

mod bucket;
mod copy;
mod folder;
mod hold;
mod member;
mod open;
mod present;
mod read;
mod recover;
mod shared;
mod shelf;
mod side;
mod source;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use format::Damaged;
use format::pack::Table;
use model::{ChunkDigest, DomainId, NodeId, PackNumber, Place, PoolId};

use member::Member;
use open::OpenPack;
use state::{Recent, State};

pub use bucket::{Bucket, BucketUrl, BucketUrlError, Bucketed, use_variables};
pub use copy::PutError;
pub use hold::Hold;
pub use member::{
    Mark, PoolSpec, Role, Storage, Usage, is_empty, is_marked, lock, mark, read_mark, unmark,
};
pub use shared::{Numbers, Standing, TakeNumbers};
pub use shelf::{PackReader, Shelf, Shelved};

/// Bytes of quanta at which a pack is sealed.
pub const PACK_BYTES: u64 = 64 << 20;
/// Chunks at which a pack is sealed: far below what a place can tell.
pub const PACK_CHUNKS: u32 = 1 << 22;
/// Tables of sealed packs kept in memory at most.
const TABLES_MAX: usize = 512;
/// Open files of sealed packs kept at most.
const FILES_MAX: usize = 128;

/// Why a quantum could not be appended or made durable.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Nothing was changed. Free space, then go on.
    #[error("the pool in {folder} is full")]
    Full { folder: PathBuf },
    /// The pack is given up: what was appended to it since the last sync is lost, a new one takes
    /// its place.
    #[error("pack {pack} cannot be written")]
    Failed { pack: PackNumber, source: io::Error },
    /// A file beside the packs is as it was.
    #[error("a file of the pool in {folder} cannot be written")]
    File { folder: PathBuf, source: io::Error },
    /// Nothing was changed. Bring its disk back, then go on.
    #[error("the pool in {folder} is not there; is its disk mounted?")]
    Away { folder: PathBuf },
    /// Nothing was changed. Try again.
    #[error("there is no number for a new pack")]
    Numbers { source: io::Error },
}

/// Why a chunk could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No such pack, or no such chunk in it.
    #[error("pack {pack} has no chunk {index}")]
    Missing { pack: PackNumber, index: u32 },
    /// It may be in a pool that is not there.
    #[error("pack {pack} is in no pool that is there; is a disk not mounted?")]
    Away { pack: PackNumber },
    /// The pack's bytes are not what was written: read a copy.
    #[error("pack {pack} is damaged")]
    Damaged { pack: PackNumber, source: Damaged },
    /// The volume that it lies on cannot be had, for this reason.
    #[error("pack {pack} is on a volume that cannot be had: {reason}")]
    Volume { pack: PackNumber, reason: String },
    /// The disk did not answer; another try may help.
    #[error("pack {pack} cannot be read")]
    Disk { pack: PackNumber, source: io::Error },
}

/// A pack that is there, with its table.
#[derive(Clone, Debug)]
pub struct Found {
    pub table: Arc<Table>,
    pub bytes: u64,
}

/// What the catalogue knows of a pack. Such bytes were durable, so their absence is damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Known {
    pub sealed: bool,
    pub bytes: u64,
}

/// What [`Pools::open`] came upon.
#[derive(Debug, Default)]
pub struct Opened {
    /// Sealed packs by number; tables are read when asked for.
    pub sealed: Vec<PackNumber>,
    /// Packs whose server died: recovered from their quanta and sealed.
    pub recovered: Vec<Found>,
    /// Packs that cannot be used, and why.
    pub damaged: Vec<(PackNumber, ReadError)>,
    /// The greatest number that any pool has, 0 where there is none.
    pub last: u64,
}

/// Whose data goes into a pack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Filler {
    pub domain: DomainId,
    /// The node whose data is to lie apart from that of others.
    pub node: Option<NodeId>,
}

impl Filler {
    /// Whoever comes.
    pub fn any(domain: DomainId) -> Self {
        Self { domain, node: None }
    }
}

/// What happened to packs since it was last asked for; the catalogue wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackNews {
    pub pack: PackNumber,
    pub domain: DomainId,
    /// The only node that it has data of; `None` where it is not known, or several.
    pub node: Option<NodeId>,
    pub bytes: u64,
    pub sealed: bool,
}

/// All pools of a server. All methods may be called from any thread; they block.
pub struct Pools {
    key: recover::DigestOf,
    state: Mutex<State>,
    /// Held while syncing, so that waiting callers find their appends synced by the one before.
    syncing: Mutex<()>,
}

impl Pools {
    /// Opens the pools of `specs`; the first primary one takes new packs. They get `numbers`, of
    /// one's own those behind the packs that are there. `known` is what the catalogue says of
    /// them. `digest_of` gives a chunk's digest in a domain: packs that were open when their server
    /// died have no other record of it.
    pub fn open(
        specs: &[PoolSpec],
        numbers: Numbers,
        known: &BTreeMap<PackNumber, Known>,
        digest_of: impl Fn(DomainId, &[u8]) -> ChunkDigest + Send + Sync + 'static,
    ) -> io::Result<(Self, Opened)> {
        let key: recover::DigestOf = Box::new(digest_of);
        let mut opened = Opened::default();
        let mut members = BTreeMap::new();
        for spec in specs {
            // What a copy pool has is asked of it: it may have been away.
            let bytes_of = |pack: PackNumber| match known.get(&pack) {
                Some(known) if spec.role == Role::Primary => known.bytes,
                _ => stored_bytes(spec, pack),
            };
            let mut member = match Member::open(spec.clone(), bytes_of) {
                Ok(member) => member,
                Err(error) if members.is_empty() => return Err(error),
                Err(error) => {
                    let folder = spec.folder.display();
                    tracing::error!(%error, %folder, "a pool cannot be looked at");
                    Member::away(spec.clone())
                }
            };
            if spec.storage != Storage::Folder {
                opened.sealed.extend(member.packs.keys().filter(|_| member.is_primary()));
            } else if spec.role == Role::Primary {
                opened.examine(&mut member, known, &key);
            }
            members.insert(spec.id, member);
        }
        opened.sealed.sort_unstable();
        opened.sealed.dedup();
        let packs = members.values().flat_map(|member| member.packs.keys());
        let last = packs.max().copied().unwrap_or(PackNumber(0));
        opened.last = last.0;
        let state = State {
            numbers: shared::Stock::new(numbers, last),
            found: BTreeSet::new(),
            members,
            open: BTreeMap::new(),
            nodes: BTreeMap::new(),
            sealing: Vec::new(),
            being_sealed: BTreeMap::new(),
            tables: Recent::new(TABLES_MAX),
            files: Recent::new(FILES_MAX),
            news: Vec::new(),
            suspects: BTreeSet::new(),
            given_up: BTreeMap::new(),
            last_failure: ("a pool's disk is gone".to_owned(), false),
        };
        let pools = Self { key, state: Mutex::new(state), syncing: Mutex::new(()) };
        Ok((pools, opened))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked while it held the lock left a pack at a record boundary at worst:
        // the table is only extended once the record is written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The digest of `chunk` in `domain`.
    pub fn digest_of(&self, domain: DomainId, chunk: &[u8]) -> ChunkDigest {
        (self.key)(domain, chunk)
    }

    /// Appends the quantum `record` of chunks of `lengths` and `digests`; returns the place of its
    /// first chunk. Durable only after [`Pools::sync`]. What the first pool has no room for goes to
    /// the next.
    pub fn append(
        &self,
        filler: Filler,
        record: &[u8],
        lengths: &[u32],
        digests: &[ChunkDigest],
    ) -> Result<Place, AppendError> {
        if let Err(error) = self.stock_up() {
            // Asked again where there are none left.
            tracing::warn!(%error, "no numbers for packs");
        }
        let mut state = self.state();
        let mut full = None;
        for pool in state.chain() {
            match self.append_to(&mut state, (filler, pool), record, (lengths, digests)) {
                Err(error @ AppendError::Full { .. }) => full = full.or(Some(error)),
                other => return other,
            }
        }
        Err(full.unwrap_or_else(|| state.nowhere()))
    }

    fn append_to(
        &self,
        state: &mut State,
        key: (Filler, PoolId),
        record: &[u8],
        (lengths, digests): (&[u32], &[ChunkDigest]),
    ) -> Result<Place, AppendError> {
        let (filler, pool) = key;
        let member = &state.members[&pool];
        let folder = member.spec.folder.clone();
        if !member.has_room(record.len() as u64) {
            return Err(AppendError::Full { folder: member.spec.place() });
        }
        let full = state.open.get(&key).is_some_and(OpenPack::is_full);
        if full && let Some(pack) = state.open.remove(&key) {
            state.sealing.push(pack);
        }
        if !state.open.contains_key(&key) {
            let made = state.create(&folder, pool, filler)?;
            state.open.insert(key, made);
        }
        let open = state.open.get_mut(&key).expect("made just above");
        let pack = open.number();
        let error = match open.append(record, lengths, digests) {
            Ok(place) => {
                let bytes = open.bytes();
                state.set_bytes(pool, pack, bytes);
                return Ok(place);
            }
            Err(error) => state.failure(pack, error),
        };
        if matches!(error, AppendError::Failed { .. }) {
            state.give_up(pack);
        }
        Err(error)
    }

    fn append_error(pack: PackNumber, folder: &Path, error: io::Error) -> AppendError {
        if error.kind() == io::ErrorKind::StorageFull
            || error.kind() == io::ErrorKind::QuotaExceeded
        {
            AppendError::Full { folder: folder.to_owned() }
        } else {
            AppendError::Failed { pack, source: error }
        }
    }

    /// Makes everything durable that was appended before the call, and seals the packs that are
    /// full.
    pub fn sync(&self) -> Result<(), AppendError> {
        self.sync_and(false)
    }

    /// As [`Pools::sync`], and seals the open packs too: for an orderly stop.
    pub fn seal_all(&self) -> Result<(), AppendError> {
        self.sync_and(true)
    }

    fn sync_and(&self, seal_open: bool) -> Result<(), AppendError> {
        let _one_at_a_time = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let (sealing, to_sync) = {
            let mut state = self.state();
            let mut sealing = std::mem::take(&mut state.sealing);
            let is_ended = |open: &OpenPack| seal_open || open.is_sent();
            sealing
                .extend(state.open.extract_if(.., |_, open| is_ended(open)).map(|(_, open)| open));
            let durable = |open: &OpenPack| (open.number(), open.durable_chunks());
            state.being_sealed = sealing.iter().map(durable).collect();
            for pack in &sealing {
                // Readers go on while the footer is being written, without scanning for a table.
                state.tables.put(pack.number(), pack.table());
                state.files.put((pack.pool(), pack.number()), pack.file());
            }
            let unsynced = state.open.values().filter(|open| open.is_unsynced());
            (sealing, unsynced.map(OpenPack::sync_handle).collect::<Vec<_>>())
        };
        let of_pools = sealing.iter().map(|open| (open.pool(), open.number()));
        let of_pools: Vec<_> = of_pools.chain(to_sync.iter().map(open::SyncHandle::pack)).collect();
        let begun: Vec<_> = sealing.into_iter().map(OpenPack::begin_seal).collect();
        let synced: Vec<_> = to_sync.into_iter().map(open::SyncHandle::sync).collect();
        let sealed: Vec<_> = begun.into_iter().map(open::Sealing::finish).collect();
        let pools: BTreeSet<PoolId> = of_pools.iter().map(|(pool, _)| *pool).collect();
        let pools = pools.into_iter().filter(|pool| self.bucket_of(*pool).is_none());
        let mut outcome = self.note(sealed, synced);
        for pool in pools {
            let folder = self.folder_of(pool);
            let done = folder.and_then(|folder| {
                folder::sync(&folder)
                    .map_err(|source| AppendError::Failed { pack: PackNumber(0), source })
            });
            if done.is_err() {
                // Whether the names of its packs are durable is not known.
                let packs = of_pools.iter().filter(|(of, _)| *of == pool);
                packs.for_each(|(_, pack)| self.state().give_up(*pack));
                outcome = outcome.and(done);
            }
        }
        self.state().being_sealed.clear();
        outcome
    }

    /// How many packs have failed. What was appended between two calls that give the same is
    /// durable once it was synced; else it may be lost, whoever's sync it was that failed.
    pub fn failures(&self) -> usize {
        self.state().given_up.len()
    }

    /// Why the last of them failed, and whether for want of space.
    pub fn last_failure(&self) -> (String, bool) {
        self.state().last_failure.clone()
    }

    /// Takes the outcomes of syncing into the state; the first failure is the caller's.
    fn note(
        &self,
        sealed: Vec<Result<(PoolId, Found), (PackNumber, io::Error)>>,
        synced: Vec<Result<open::Synced, (PackNumber, io::Error)>>,
    ) -> Result<(), AppendError> {
        let mut state = self.state();
        let mut failure = None;
        for outcome in sealed {
            match outcome {
                Ok((pool, found)) => state.sealed(pool, &found),
                Err((pack, error)) => {
                    failure = Some(state.failure(pack, error));
                    state.give_up(pack);
                }
            }
        }
        for outcome in synced {
            match outcome {
                Ok(synced) => state.synced(&synced),
                Err((pack, error)) => {
                    failure = Some(state.failure(pack, error));
                    // Whether the kernel still has the bytes is not known: see invariant 4.
                    state.give_up(pack);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// What became of packs since the last call.
    pub fn take_news(&self) -> Vec<PackNews> {
        std::mem::take(&mut self.state().news)
    }

    /// Has the next call of [`Pools::take_news`] give these again: nobody was told.
    pub fn give_back_news(&self, mut news: Vec<PackNews>) {
        let mut state = self.state();
        news.append(&mut state.news);
        state.news = news;
    }

    fn bucket_of(&self, pool: PoolId) -> Option<Bucketed> {
        self.state().members.get(&pool)?.spec.bucket().cloned()
    }

    /// Ends uploads to object stores that nobody goes on with: all, or those of packs below a
    /// number.
    pub fn end_orphans(&self, below: Option<PackNumber>) {
        let buckets: Vec<Bucketed> = {
            let state = self.state();
            let members = state.members.values().filter(|member| member.is_there);
            members.filter_map(|member| member.spec.bucket().cloned()).collect()
        };
        for bucket in buckets {
            match bucket.0.end_orphans(below) {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, ?bucket, "uploads were ended"),
                Err(error) => tracing::warn!(%error, ?bucket, "unfinished uploads stay"),
            }
        }
    }

    /// Whether anything is read from an object store.
    pub fn has_buckets(&self) -> bool {
        self.state().members.values().any(|member| member.spec.bucket().is_some())
    }

    fn shelf_of(&self, pool: PoolId) -> Option<(PathBuf, Shelved)> {
        let state = self.state();
        let spec = &state.members.get(&pool)?.spec;
        Some((spec.folder.clone(), spec.shelf()?.clone()))
    }

    /// The packs that are there and sealed, in order; the open ones are left out.
    pub fn sealed(&self) -> Vec<PackNumber> {
        let state = self.state();
        let primaries = state.members.values().filter(|member| member.is_primary());
        let all: BTreeSet<_> = primaries.flat_map(|member| member.packs.keys().copied()).collect();
        all.into_iter().filter(|pack| state.open_pack(*pack).is_none()).collect()
    }

    /// The number that the next pack will have at least: what is appended from now on goes to the
    /// packs that are open, or to this or a later one. Those that nobody was told of are open, too.
    pub fn horizon(&self) -> PackNumber {
        let state = self.state();
        state.first_untold().unwrap_or(state.numbers.next)
    }

    /// Removes a sealed pack from the primary pools that are there, durably. Nothing may name its
    /// chunks any more. Copy pools have it until they have what came in its place.
    pub fn remove(&self, pack: PackNumber) -> io::Result<()> {
        let primaries: Vec<PoolId> = {
            let state = self.state();
            // Where other servers may have put it is not known for certain.
            let may_have = |pool: &PoolId| {
                let member = &state.members[pool];
                let is_shared = state.numbers.is_shared() && member.spec.bucket().is_some();
                member.packs.contains_key(&pack) || (is_shared && member.is_there)
            };
            let primaries = state.members.iter().filter(|(_, member)| member.is_primary());
            primaries.map(|(pool, _)| *pool).filter(may_have).collect()
        };
        primaries.into_iter().try_for_each(|pool| self.remove_from(pool, pack))
    }

    /// Removes a sealed pack from `pool`, durably.
    pub fn remove_from(&self, pool: PoolId, pack: PackNumber) -> io::Result<()> {
        if let Some((folder, shelf)) = self.shelf_of(pool) {
            shelf::forget(&folder, &*shelf.0, pack)?;
            let mut state = self.state();
            state.tables.forget(pack);
            if let Some(member) = state.members.get_mut(&pool) {
                member.remove(pack);
            }
            return Ok(());
        }
        if let Some(bucket) = self.bucket_of(pool) {
            assert!(self.state().open_pack(pack).is_none(), "an open pack stays");
            bucket.0.remove(pack)?;
            let mut state = self.state();
            state.tables.forget(pack);
            if let Some(member) = state.members.get_mut(&pool) {
                member.remove(pack);
            }
            return Ok(());
        }
        let path = {
            let mut state = self.state();
            assert!(state.open_pack(pack).is_none(), "an open pack stays");
            let Some(member) = state.members.get(&pool) else { return Ok(()) };
            let path = member.path(pack);
            state.tables.forget(pack);
            state.files.forget((pool, pack));
            path
        };
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(()) => folder::sync(path.parent().expect("a pack lies in a folder"))?,
        }
        if let Some(member) = self.state().members.get_mut(&pool) {
            member.remove(pack);
        }
        Ok(())
    }

    /// Whether `pack` still takes quanta or waits for its footer.
    pub fn is_open(&self, pack: PackNumber) -> bool {
        let state = self.state();
        state.open_pack(pack).is_some() || state.being_sealed.contains_key(&pack)
    }

    /// Whether a primary pool has `pack`, or may have it: one of them is away.
    pub fn has_primary(&self, pack: PackNumber) -> bool {
        let state = self.state();
        let mut primaries = state.members.values().filter(|member| member.is_primary());
        primaries.any(|member| !member.is_there || member.packs.contains_key(&pack))
    }

    /// The pools that have `pack`, primary ones first.
    pub fn homes(&self, pack: PackNumber) -> Vec<PoolId> {
        self.state().homes(pack)
    }

    /// The packs of a pool with their bytes; also those that are open.
    pub fn packs_of(&self, pool: PoolId) -> BTreeMap<PackNumber, u64> {
        let state = self.state();
        state
            .members
            .get(&pool)
            .map_or_else(BTreeMap::new, |member| member.packs.clone())
    }

    /// When `pack` came to `pool`, by the clock of the machine that wrote it.
    pub fn arrival(&self, pool: PoolId, pack: PackNumber) -> io::Result<std::time::SystemTime> {
        if let Some((_, shelf)) = self.shelf_of(pool) {
            return shelf.0.arrival(pack).ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        if let Some(bucket) = self.bucket_of(pool) {
            return bucket.0.arrival(pack).ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        let path = self.state().members.get(&pool).map(|member| member.path(pack));
        std::fs::metadata(path.ok_or(io::ErrorKind::NotFound)?)?.modified()
    }

    /// How full a pool is.
    pub fn usage(&self, pool: PoolId) -> Usage {
        let usage = self.state().members.get(&pool).map(Member::usage);
        // A disk that does not answer holds up nobody else.
        usage.map_or_else(Usage::default, |(usage, folder)| match folder {
            Some(folder) => usage.with_free_of(&folder),
            None => usage,
        })
    }

    /// Packs that one pool could not give and another did, since it was last asked.
    pub fn take_suspects(&self) -> BTreeSet<PackNumber> {
        std::mem::take(&mut self.state().suspects)
    }

    /// The folder of `pool`, if it is there.
    fn folder_of(&self, pool: PoolId) -> Result<PathBuf, AppendError> {
        let known = {
            let state = self.state();
            state.members.get(&pool).map(|member| (member.spec.clone(), member.is_there))
        };
        // A store is asked by who sends.
        if let Some((spec, true)) = &known
            && spec.bucket().is_some()
        {
            return Ok(spec.folder.clone());
        }
        match known.map(|(spec, _)| spec) {
            Some(spec) if is_marked(&spec) => Ok(spec.folder),
            Some(spec) => Err(AppendError::Away { folder: spec.place() }),
            None => Err(AppendError::Away { folder: PathBuf::new() }),
        }
    }

    /// The same, if there is room for the pack, or it is there already.
    fn folder_with_room(&self, pack: PackNumber, pool: PoolId) -> Result<PathBuf, AppendError> {
        assert!(!self.is_shelf(pool), "packs go to volumes by another way");
        let folder = self.folder_of(pool)?;
        let state = self.state();
        let bytes = state.bytes_of(pack).unwrap_or(0);
        let takes = |member: &Member| member.packs.contains_key(&pack) || member.has_room(bytes);
        if state.members.get(&pool).is_some_and(takes) {
            Ok(folder)
        } else {
            Err(AppendError::Full { folder })
        }
    }

    /// `pack` is in `pool` now, as it should be.
    fn arrived(&self, pack: PackNumber, pool: PoolId, bytes: u64) {
        let mut state = self.state();
        state.files.forget((pool, pack));
        state.tables.forget(pack);
        state.set_bytes(pool, pack, bytes);
    }
}

fn stored_bytes(spec: &PoolSpec, pack: PackNumber) -> u64 {
    let found = std::fs::metadata(folder::path(&spec.folder, pack));
    found.map_or(0, |metadata| metadata.len())
}

impl Opened {
    /// Looks at the packs of a primary pool, and recovers what its server left open.
    fn examine(
        &mut self,
        member: &mut Member,
        known: &BTreeMap<PackNumber, Known>,
        key: &recover::DigestOf,
    ) {
        for pack in member.packs.keys().copied().collect::<Vec<_>>() {
            let known = known.get(&pack).copied().unwrap_or_default();
            match recover::examine(&member.spec.folder, pack, known, key) {
                Ok(recover::State::Sealed) => self.sealed.push(pack),
                Ok(recover::State::Recovered(found)) => {
                    member.put(pack, found.bytes);
                    self.recovered.push(found);
                }
                Ok(recover::State::Empty) => member.remove(pack),
                Err(error) => self.damaged.push((pack, error)),
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Storage pools: where quanta lie.
//!
//! A [`Pool`] keeps packs in a local folder. Quanta are appended to the one open pack of their
//! domain, made durable by [`Pool::sync`], and read back by place. When a pack has reached its size
//! it is sealed: its footer is written and it never changes again.
//!
//! Invariants:
//! 1. What was appended before `sync` was called survives a power cut once `sync` has returned.
//! 2. A sealed pack is never written to.
//! 3. No place is ever given twice, also not across crashes: what an open pack lost was never
//!    synced.
//! 4. A pack that failed to sync takes no more quanta and none of its unsynced places is served.
//!
//! What object stores will differ in (a pack exists only once it is sealed) is behind the same
//! calls; nothing above this crate knows files.

mod folder;
mod open;
mod recover;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use format::Damaged;
use format::pack::{QuantumEntry, Table};
use model::{ChunkDigest, DomainId, PackNumber, Place};

use open::OpenPack;

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
}

/// Why a chunk could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No such pack, or no such chunk in it.
    #[error("pack {pack} has no chunk {index}")]
    Missing { pack: PackNumber, index: u32 },
    /// The pack's bytes are not what was written: read a copy.
    #[error("pack {pack} is damaged")]
    Damaged { pack: PackNumber, source: Damaged },
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

/// What [`Pool::open`] came upon.
#[derive(Debug, Default)]
pub struct Opened {
    /// Sealed packs by number; tables are read when asked for.
    pub sealed: Vec<PackNumber>,
    /// Packs whose server died: recovered from their quanta and sealed.
    pub recovered: Vec<Found>,
    /// Packs that cannot be used, and why.
    pub damaged: Vec<(PackNumber, ReadError)>,
}

/// What happened to packs since it was last asked for; the catalogue wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackNews {
    pub pack: PackNumber,
    pub domain: DomainId,
    pub bytes: u64,
    pub sealed: bool,
}

/// A pool in a local folder. All methods may be called from any thread; they block.
pub struct Pool {
    folder: PathBuf,
    key: recover::DigestOf,
    state: Mutex<State>,
    /// Held while syncing, so that waiting callers find their appends synced by the one before.
    syncing: Mutex<()>,
}

struct State {
    next_pack: PackNumber,
    open: BTreeMap<DomainId, OpenPack>,
    /// Packs that were sealed, or given up, since the last sync of the folder.
    sealing: Vec<OpenPack>,
    tables: Recent<Arc<Table>>,
    files: Recent<Arc<File>>,
    news: Vec<PackNews>,
}

/// The few things used last, by pack.
struct Recent<T> {
    items: HashMap<PackNumber, T>,
    order: VecDeque<PackNumber>,
    limit: usize,
}

impl<T: Clone> Recent<T> {
    fn new(limit: usize) -> Self {
        Self { items: HashMap::new(), order: VecDeque::new(), limit }
    }

    fn get(&self, pack: PackNumber) -> Option<T> {
        self.items.get(&pack).cloned()
    }

    fn forget(&mut self, pack: PackNumber) {
        self.items.remove(&pack);
        self.order.retain(|known| *known != pack);
    }

    fn put(&mut self, pack: PackNumber, item: T) {
        if self.items.insert(pack, item).is_none() {
            self.order.push_back(pack);
        }
        if self.order.len() > self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.items.remove(&oldest);
        }
    }
}

impl Pool {
    /// Opens the pool in `folder`, which must exist. New packs are numbered from `next_pack` or
    /// from behind the packs that are there. `known` is what the catalogue says of them.
    /// `digest_of` gives a chunk's digest in a domain: packs that were open when their server died
    /// have no other record of it.
    pub fn open(
        folder: &Path,
        next_pack: PackNumber,
        known: &BTreeMap<PackNumber, Known>,
        digest_of: impl Fn(DomainId, &[u8]) -> ChunkDigest + Send + Sync + 'static,
    ) -> io::Result<(Self, Opened)> {
        let key: recover::DigestOf = Box::new(digest_of);
        let mut opened = Opened::default();
        let mut last = PackNumber(0);
        for pack in folder::list(folder)? {
            last = last.max(pack);
            let known = known.get(&pack).copied().unwrap_or_default();
            match recover::examine(folder, pack, known, &key) {
                Ok(recover::State::Sealed) => opened.sealed.push(pack),
                Ok(recover::State::Recovered(found)) => opened.recovered.push(found),
                Ok(recover::State::Empty) => {}
                Err(error) => opened.damaged.push((pack, error)),
            }
        }
        let state = State {
            next_pack: next_pack.max(PackNumber(last.0 + 1)),
            open: BTreeMap::new(),
            sealing: Vec::new(),
            tables: Recent::new(TABLES_MAX),
            files: Recent::new(FILES_MAX),
            news: Vec::new(),
        };
        let pool = Self {
            folder: folder.to_owned(),
            key,
            state: Mutex::new(state),
            syncing: Mutex::new(()),
        };
        Ok((pool, opened))
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
    /// first chunk. Durable only after [`Pool::sync`].
    pub fn append(
        &self,
        domain: DomainId,
        record: &[u8],
        lengths: &[u32],
        digests: &[ChunkDigest],
    ) -> Result<Place, AppendError> {
        let mut state = self.state();
        let full = state.open.get(&domain).is_some_and(OpenPack::is_full);
        if full && let Some(pack) = state.open.remove(&domain) {
            state.sealing.push(pack);
        }
        if !state.open.contains_key(&domain) {
            let pack = state.next_pack;
            let made = OpenPack::create(&self.folder, pack, domain)
                .map_err(|error| self.append_error(pack, error))?;
            state.next_pack = PackNumber(pack.0 + 1);
            state.open.insert(domain, made);
        }
        let open = state.open.get_mut(&domain).expect("made just above");
        let pack = open.number();
        open.append(record, lengths, digests)
            .map_err(|error| self.append_error(pack, error))
    }

    fn append_error(&self, pack: PackNumber, error: io::Error) -> AppendError {
        if error.kind() == io::ErrorKind::StorageFull
            || error.kind() == io::ErrorKind::QuotaExceeded
        {
            AppendError::Full { folder: self.folder.clone() }
        } else {
            AppendError::Failed { pack, source: error }
        }
    }

    /// Makes everything durable that was appended before the call, and seals the packs that are
    /// full.
    pub fn sync(&self) -> Result<(), AppendError> {
        self.sync_and(false)
    }

    /// As [`Pool::sync`], and seals the open packs too: for an orderly stop.
    pub fn seal_all(&self) -> Result<(), AppendError> {
        self.sync_and(true)
    }

    fn sync_and(&self, seal_open: bool) -> Result<(), AppendError> {
        let _one_at_a_time = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let (sealing, to_sync) = {
            let mut state = self.state();
            let mut sealing = std::mem::take(&mut state.sealing);
            if seal_open {
                sealing.extend(std::mem::take(&mut state.open).into_values());
            }
            for pack in &sealing {
                // Readers go on while the footer is being written, without scanning for a table.
                state.tables.put(pack.number(), pack.table());
                state.files.put(pack.number(), pack.file());
            }
            let unsynced = state.open.values().filter(|open| open.is_unsynced());
            (sealing, unsynced.map(OpenPack::sync_handle).collect::<Vec<_>>())
        };
        let sealed: Vec<_> = sealing.into_iter().map(OpenPack::seal).collect();
        let synced: Vec<_> = to_sync.into_iter().map(open::SyncHandle::sync).collect();
        folder::sync(&self.folder)
            .map_err(|source| AppendError::Failed { pack: PackNumber(0), source })?;
        self.note(sealed, synced)
    }

    /// Takes the outcomes of syncing into the state; the first failure is the caller's.
    fn note(
        &self,
        sealed: Vec<Result<Found, (PackNumber, io::Error)>>,
        synced: Vec<Result<open::Synced, (PackNumber, io::Error)>>,
    ) -> Result<(), AppendError> {
        let mut state = self.state();
        let mut failure = None;
        for outcome in sealed {
            match outcome {
                Ok(found) => state.sealed(&found),
                Err((pack, error)) => failure = Some(self.append_error(pack, error)),
            }
        }
        for outcome in synced {
            match outcome {
                Ok(synced) => state.synced(&synced),
                Err((pack, error)) => {
                    // Whether the kernel still has the bytes is not known: see invariant 4.
                    state.open.retain(|_, open| open.number() != pack);
                    failure = Some(self.append_error(pack, error));
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// What became of packs since the last call.
    pub fn take_news(&self) -> Vec<PackNews> {
        std::mem::take(&mut self.state().news)
    }

    /// The table of `pack`; of an open pack as it is.
    pub fn table(&self, pack: PackNumber) -> Result<Arc<Table>, ReadError> {
        {
            let state = self.state();
            if let Some(open) = state.open_pack(pack) {
                return Ok(open.table());
            }
            if let Some(table) = state.tables.get(pack) {
                return Ok(table);
            }
        }
        let file = self.file(pack)?;
        let table = Arc::new(recover::read_table(&file, pack, &self.key)?);
        self.state().tables.put(pack, Arc::clone(&table));
        Ok(table)
    }

    fn file(&self, pack: PackNumber) -> Result<Arc<File>, ReadError> {
        {
            let state = self.state();
            if let Some(open) = state.open_pack(pack) {
                return Ok(open.file());
            }
            if let Some(file) = state.files.get(pack) {
                return Ok(file);
            }
        }
        let file = File::open(folder::path(&self.folder, pack)).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                ReadError::Missing { pack, index: 0 }
            } else {
                ReadError::Disk { pack, source: error }
            }
        })?;
        let file = Arc::new(file);
        self.state().files.put(pack, Arc::clone(&file));
        Ok(file)
    }

    /// The packs that are there and sealed, in order; the open ones are left out.
    pub fn sealed(&self) -> io::Result<Vec<PackNumber>> {
        let mut all = folder::list(&self.folder)?;
        let state = self.state();
        all.retain(|pack| state.open_pack(*pack).is_none());
        Ok(all)
    }

    /// The number that the next pack will have at least: what is appended from now on goes to the
    /// packs that are open, or to this or a later one.
    pub fn horizon(&self) -> PackNumber {
        let state = self.state();
        let open = state.open.values().chain(&state.sealing).map(OpenPack::number);
        open.min().unwrap_or(state.next_pack)
    }

    /// Removes a sealed pack, durably. Nothing may name its chunks any more.
    pub fn remove(&self, pack: PackNumber) -> io::Result<()> {
        {
            let mut state = self.state();
            assert!(state.open_pack(pack).is_none(), "an open pack stays");
            state.tables.forget(pack);
            state.files.forget(pack);
        }
        let path = folder::path(&self.folder, pack);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => folder::sync(path.parent().expect("a pack lies in a folder")),
        }
    }

    /// The length and digest of the chunk at `place`.
    pub fn chunk(&self, place: Place) -> Result<(u32, ChunkDigest), ReadError> {
        let table = self.table(place.pack())?;
        let missing = ReadError::Missing { pack: place.pack(), index: place.index() };
        table.chunk(place.index()).ok_or(missing)
    }

    /// The record of a quantum of `pack`, its checksum verified.
    pub fn read(&self, pack: PackNumber, quantum: &QuantumEntry) -> Result<Vec<u8>, ReadError> {
        let file = self.file(pack)?;
        let mut record = vec![0; quantum.record_bytes as usize];
        file.read_exact_at(&mut record, quantum.offset)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    let source = Damaged { what: "pack", why: "it ends too early" };
                    ReadError::Damaged { pack, source }
                }
                _ => ReadError::Disk { pack, source: error },
            })?;
        match format::quantum::Record::decode(&record) {
            Ok(_) => Ok(record),
            Err(source) => Err(ReadError::Damaged { pack, source }),
        }
    }
}

impl State {
    /// The pack if it is open or waits for its seal.
    fn open_pack(&self, pack: PackNumber) -> Option<&OpenPack> {
        self.open.values().chain(&self.sealing).find(|open| open.number() == pack)
    }

    fn sealed(&mut self, found: &Found) {
        let Table { pack, domain, .. } = *found.table;
        self.tables.put(pack, Arc::clone(&found.table));
        self.news.push(PackNews { pack, domain, bytes: found.bytes, sealed: true });
    }

    fn synced(&mut self, synced: &open::Synced) {
        let open::Synced { pack, domain, bytes } = *synced;
        if let Some(open) = self.open.values_mut().find(|open| open.number() == pack) {
            open.note_synced(bytes);
        }
        self.news.push(PackNews { pack, domain, bytes, sealed: false });
    }
}

#[cfg(test)]
mod tests;

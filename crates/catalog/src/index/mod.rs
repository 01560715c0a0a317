//! The chunk index: where a chunk lies, by the first 16 bytes of its digest. One index, in a folder
//! of its own, for each deduplication domain.
//!
//! ```text
//! insert --> memory table --write_memory--> run --merge_once--> larger run
//!            (sorted, bounded)              (file, filter and fence in memory)
//! ```
//!
//! The index is derived from the chunk tables of the packs and may lose its newest entries in a
//! crash. It says which packs it covers, and the caller inserts the chunks of the others again.
//!
//! Invariants:
//! 1. `complete_to` is told only when all chunks of all packs up to it are in runs that the
//!    manifest names: the runs are durable before the manifest, and the manifest before `flush`
//!    returns.
//! 2. Runs are ordered by age, and only neighbours are merged, so the youngest run that has a
//!    prefix has its latest place.
//! 3. A run's epoch tells which removals of packs it has not seen; these are applied to whatever is
//!    read from it. A removal is forgotten when no run is older.
//! 4. A file is deleted only after a manifest without it is durable.
//! 5. Every block, fence, filter and manifest is checked before it is believed. What is damaged is
//!    discarded as a whole, and the index is rebuilt.
//!
//! Look-ups take a lock only to copy the list of runs and to look into the memory table; they go on
//! while a run is written or merged. The order of the locks is `merging`, `writing`, `live`.
//!
//! Deliberately absent: the full digest (the caller compares it with the pack's table), a log of
//! inserts (the packs are the log), a cache of blocks (the kernel has one), and a guard against two
//! processes in one folder (the server holds its own).

mod filter;
mod folder;
mod live;
mod manifest;
mod memory;
mod merge;
mod run;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use model::{ChunkDigest, PackNumber, Place};

use live::Shared;
use manifest::Manifest;
use merge::Merge;
use run::Run;

/// The limits of one index.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Entries that wait in memory until they become a run, about 40 bytes each.
    pub memory_entries_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { memory_entries_max: 1 << 20 }
    }
}

/// The number of a run, never given to another one while the index lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunNumber(pub u64);

/// What of an index's files cannot be believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    Manifest,
    /// The run is missing, has another length, or its parts beside the blocks are damaged.
    Run(RunNumber),
    Block {
        run: RunNumber,
        block: u64,
    },
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Manifest => write!(f, "its manifest"),
            Self::Run(RunNumber(run)) => write!(f, "run {run}"),
            Self::Block { run: RunNumber(run), block } => write!(f, "run {run}, block {block}"),
        }
    }
}

/// Why the index did not do what it was asked. A look-up that fails may be taken for a miss: that
/// costs a duplicate, never data.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Drop the index, `discard` its folder, open it again and insert the chunks of all packs.
    #[error("the chunk index is damaged at {0}")]
    Damaged(Damage),
    /// Repeat the call when the file system is well again; nothing was lost.
    #[error("the chunk index cannot use {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl IndexError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Io { path: path.to_owned(), source }
    }

    /// A run that is missing or too short is damaged; other failures may pass.
    fn at_run(run: RunNumber, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => {
                Self::Damaged(Damage::Run(run))
            }
            _ => Self::at(path)(source),
        }
    }
}

/// What `open` found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// The index has every chunk of every pack up to this one, but of removed packs; the caller
    /// inserts the chunks of the packs after it.
    pub complete_to: PackNumber,
    /// Why nothing was kept, if so.
    pub discarded: Option<Damage>,
}

/// What an index holds and takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Entries in memory and in runs: removed ones, and earlier places of a chunk, count until they
    /// are merged away.
    pub chunks: u64,
    pub runs: usize,
    pub memory_bytes: usize,
    pub disk_bytes: u64,
    /// Merges since `open` that ended with an error. They are tried again after the next flush.
    pub merges_failed: u64,
}

/// The first 16 bytes of a digest, in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Prefix(u128);

impl Prefix {
    fn of(digest: &ChunkDigest) -> Self {
        Self(u128::from_be_bytes(digest.prefix()))
    }

    fn upper(self) -> u64 {
        u64::try_from(self.0 >> 64).expect("64 bits are left")
    }

    fn lower(self) -> u64 {
        u64::try_from(self.0 & u128::from(u64::MAX)).expect("masked to 64 bits")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    prefix: Prefix,
    place: Place,
}

/// An open index. Look-ups, inserts and all else may come from several threads at once.
pub struct ChunkIndex {
    shared: Arc<Shared>,
    /// Tells the merger that there are new runs. `None` only while the index is dropped.
    wake: Option<SyncSender<()>>,
    merger: Option<JoinHandle<()>>,
}

impl ChunkIndex {
    /// Opens the index in `folder`, or creates an empty one. Files that are damaged or of another
    /// version are deleted, and nothing is kept.
    pub fn open(folder: &Path, config: Config) -> Result<(Self, Recovered), IndexError> {
        assert!(config.memory_entries_max > 0, "inserts go through the memory table");
        fs::create_dir_all(folder).map_err(IndexError::at(folder))?;
        let (manifest, runs, discarded) = match load(folder) {
            Ok((manifest, runs)) => (manifest, runs, None),
            Err(IndexError::Damaged(damage)) => (Manifest::empty(), Vec::new(), Some(damage)),
            Err(error) => return Err(error),
        };
        let mut kept: BTreeSet<_> = runs.iter().map(|run| run.path().to_owned()).collect();
        if discarded.is_none() {
            kept.insert(folder::manifest_path(folder));
        }
        folder::remove_others(folder, &kept)?;

        let recovered = Recovered { complete_to: manifest.complete_to, discarded };
        let shared = Arc::new(Shared::new(folder, config, manifest, runs));
        let (wake, woken) = sync_channel(1);
        let for_merger = Arc::clone(&shared);
        let merger = std::thread::Builder::new()
            .name("chunk-index-merge".to_owned())
            .spawn(move || merge_when_woken(&for_merger, &woken))
            .map_err(IndexError::at(folder))?;
        let index = Self { shared, wake: Some(wake), merger: Some(merger) };
        index.wake_merger();
        Ok((index, recovered))
    }

    /// Deletes the index in `folder`, which nobody has open.
    pub fn discard(folder: &Path) -> Result<(), IndexError> {
        folder::remove_others(folder, &BTreeSet::new())
    }

    /// Returns for each digest the place of a chunk whose digest begins like it, in the order
    /// asked.
    ///
    /// Large batches are cheaper: each block of a run is read once a batch.
    pub fn lookup(&self, digests: &[ChunkDigest]) -> Result<Vec<Option<Place>>, IndexError> {
        let prefixes: Vec<_> = digests.iter().map(Prefix::of).collect();
        let live = self.shared.live();
        let in_memory = prefixes.iter().map(|&prefix| live.find_in_memory(prefix));
        let mut answers: Vec<_> = in_memory.collect();
        let run_list = live.run_list();
        drop(live);
        run_list.find(&prefixes, &mut answers)?;
        Ok(answers)
    }

    /// Adds `entries`. The latest entry of a digest counts; when its pack is removed, the index may
    /// answer an earlier one whose pack stands.
    ///
    /// Writes a run when the memory table is full. After an error some entries may be in.
    pub fn insert(&self, entries: &[(ChunkDigest, Place)]) -> Result<(), IndexError> {
        let entry = |(digest, place): &(_, _)| Entry { prefix: Prefix::of(digest), place: *place };
        let mut entries: Vec<_> = entries.iter().map(entry).collect();
        // Stable, so that the latest of equal digests stays the latest.
        entries.sort_by_key(|entry| entry.prefix);
        let mut rest = self.shared.fill_memory(&entries);
        while !rest.is_empty() {
            self.shared.write_full_memory()?;
            self.wake_merger();
            rest = self.shared.fill_memory(rest);
        }
        Ok(())
    }

    /// Forgets all places in `packs` that were inserted so far, durably. Look-ups that begin later
    /// do not answer them, even if this returns an error.
    pub fn remove_packs(&self, packs: &BTreeSet<PackNumber>) -> Result<(), IndexError> {
        self.shared.remove_packs(packs)?;
        self.wake_merger();
        Ok(())
    }

    /// Makes durable what was inserted before the call, and that every chunk of every pack up to
    /// `complete_to` is among it. A smaller number than before changes nothing.
    pub fn flush(&self, complete_to: PackNumber) -> Result<(), IndexError> {
        self.shared.flush(complete_to)?;
        self.wake_merger();
        Ok(())
    }

    /// Puts what is durable of the index into the empty folder `folder`, on the same file system,
    /// where it is an index of its own; its runs are the same files. Returns up to which pack it is
    /// complete.
    pub fn snapshot(&self, folder: &Path) -> Result<PackNumber, IndexError> {
        self.shared.snapshot(folder)
    }

    /// Up to which pack the index in `folder`, which nobody has open, says that it is complete.
    pub fn complete_in(folder: &Path) -> PackNumber {
        let manifest = fs::read(folder::manifest_path(folder)).ok();
        let manifest = manifest.and_then(|bytes| Manifest::decode(&bytes));
        manifest.unwrap_or_else(Manifest::empty).complete_to
    }

    /// Returns all entries as they are now, ascending by prefix, to compare them with the tables of
    /// the packs. Copies the memory table; reads every block. Ends after the first error.
    pub fn entries(&self) -> Entries {
        Entries(self.shared.live().merge_all())
    }

    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    fn wake_merger(&self) {
        // A full channel has woken it already.
        if let Some(Err(TrySendError::Disconnected(()))) =
            self.wake.as_ref().map(|wake| wake.try_send(()))
        {
            tracing::error!("the merger of a chunk index has ended");
        }
    }
}

impl Drop for ChunkIndex {
    /// Ends the merger. What was inserted since the last flush is lost.
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        self.wake = None;
        if let Some(Err(_)) = self.merger.take().map(JoinHandle::join) {
            tracing::error!("the merger of a chunk index panicked");
        }
    }
}

/// The entries of an index: digest prefix and place.
pub struct Entries(Merge);

impl Iterator for Entries {
    type Item = Result<([u8; 16], Place), IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|entry| (entry.prefix.0.to_be_bytes(), entry.place)))
    }
}

fn load(folder: &Path) -> Result<(Manifest, Vec<Arc<Run>>), IndexError> {
    let path = folder::manifest_path(folder);
    let manifest = match fs::read(&path) {
        Ok(bytes) => Manifest::decode(&bytes).ok_or(IndexError::Damaged(Damage::Manifest))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Manifest::empty(),
        Err(error) => return Err(IndexError::at(&path)(error)),
    };
    let open = |&named| Run::open(folder, named).map(Arc::new);
    let runs = manifest.runs.iter().map(open).collect::<Result<_, _>>()?;
    Ok((manifest, runs))
}

fn merge_when_woken(shared: &Shared, woken: &Receiver<()>) {
    while woken.recv().is_ok() {
        if let Err(error) = shared.merge_all_due() {
            shared.merges_failed.fetch_add(1, Ordering::Relaxed);
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "runs of the chunk index could not be merged");
        }
    }
}

//! The chunk index finds the place of a chunk by the first 16 bytes of the chunk's digest. Each
//! deduplication domain has one index, in a folder of its own.
//!
//! ```text
//! insert --> memory table --write_memory--> run --merge_once--> larger run
//!            (sorted, bounded)              (file, filter and fence in memory)
//! ```
//!
//! The index is derived from the chunk tables of the packs and may lose its newest entries in a
//! crash. It records up to which pack it is complete; after a crash the caller inserts the chunks
//! of the later packs again.
//!
//! Invariants:
//! 1. The manifest states `complete_to` only when all chunks of all packs up to that pack are in
//!    runs that the manifest names: the runs are durable before the manifest, and the manifest
//!    before `flush` returns.
//! 2. Runs are ordered by age, and only neighbours are merged, so the youngest run that has a
//!    prefix has its latest place.
//! 3. A run's epoch tells which removals of packs are younger than the run; these removals are
//!    applied to each entry that is read from the run. The manifest drops a removal when no run is
//!    older than the removal.
//! 4. A file is deleted only after a manifest without it is durable.
//! 5. Every block, fence, filter and manifest is checked before it is used. If the manifest or a
//!    run is damaged, the whole index is discarded and built again.
//!
//! Look-ups take a lock only to copy the list of runs and to look into the memory table. They are
//! not blocked while a run is written or merged. The order of the locks is `merging`, `manifests`,
//! `view`.
//!
//! Deliberately absent: the full digest (the caller compares it with the pack's table), a log of
//! inserts (the packs are the log), a cache of blocks (the kernel has one), and a guard against two
//! processes in one folder (the server has one for all of its folders).

mod entry;
mod error;
mod filter;
mod folder;
mod manifest;
mod memory;
mod merge;
mod run;
mod state;
#[cfg(test)]
mod tests;

pub use error::{Damage, IndexError};
pub use manifest::RunNumber;
pub use state::{Config, Statistics};

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use model::{ChunkDigest, PackNumber, Place};
use sys::fault::ProcessEnd;

use entry::{Entry, Prefix};
use manifest::Manifest;
use merge::Merge;
use run::Run;
use state::State;

/// State in which [`ChunkIndex::open`] found the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// Last pack up to which the index has every chunk of every pack, except for removed packs. The
    /// caller inserts the chunks of all later packs.
    pub complete_to: PackNumber,
    /// Damage because of which `open` discarded the index; `None` if the index was kept.
    pub discarded: Option<Damage>,
}

/// An open index. All methods may be called from several threads at once.
pub struct ChunkIndex {
    state: Arc<State>,
    /// Channel that wakes the merger after a new run. `None` only while the index is dropped.
    wake: Option<SyncSender<()>>,
    merger: Option<JoinHandle<()>>,
}

impl ChunkIndex {
    /// Opens the index in `folder`, or creates an empty one. If a file is damaged or of another
    /// version, all files are deleted and the index is empty.
    pub fn open(folder: &Path, config: Config) -> Result<(Self, Recovery), IndexError> {
        assert!(config.memory_entries_max > 0, "the memory table must have room for an entry");
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

        let recovery = Recovery { complete_to: manifest.complete_to, discarded };
        let state = Arc::new(State::new(folder, config, manifest, runs));
        let (wake, woken) = sync_channel(1);
        let for_merger = Arc::clone(&state);
        let merger = std::thread::Builder::new()
            .name("chunk-index-merge".to_owned())
            .spawn(move || {
                let _guard = ProcessEnd;
                merge_when_woken(&for_merger, &woken);
            })
            .map_err(IndexError::at(folder))?;
        let index = Self { state, wake: Some(wake), merger: Some(merger) };
        index.wake_merger();
        Ok((index, recovery))
    }

    /// Deletes the index in `folder`, which must not be open.
    pub fn discard(folder: &Path) -> Result<(), IndexError> {
        folder::remove_others(folder, &BTreeSet::new())
    }

    /// Returns for each digest, in the same order, the place of a chunk whose digest has the same
    /// prefix.
    ///
    /// Large batches are cheaper: a batch reads each block of a run once.
    pub fn lookup(&self, digests: &[ChunkDigest]) -> Result<Vec<Option<Place>>, IndexError> {
        let prefixes: Vec<_> = digests.iter().map(Prefix::of).collect();
        let view = self.state.view();
        let in_memory = prefixes.iter().map(|&prefix| view.find_in_memory(prefix));
        let mut answers: Vec<_> = in_memory.collect();
        let run_list = view.run_list();
        drop(view);
        run_list.find(&prefixes, &mut answers)?;
        assert_eq!(answers.len(), digests.len(), "there must be one answer for each digest");
        Ok(answers)
    }

    /// Adds `entries`. A look-up finds the latest entry of a digest. After the pack of that entry
    /// is removed, a look-up may find an earlier entry whose pack was not removed.
    ///
    /// Writes a run when the memory table is full. After an error the index may have some of the
    /// entries.
    pub fn insert(&self, entries: &[(ChunkDigest, Place)]) -> Result<(), IndexError> {
        let entry = |(digest, place): &(_, _)| Entry { prefix: Prefix::of(digest), place: *place };
        let mut entries: Vec<_> = entries.iter().map(entry).collect();
        // The sort is stable, so that the latest entry of a digest stays the last one.
        entries.sort_by_key(|entry| entry.prefix);
        let mut rest = self.state.fill_memory(&entries);
        while !rest.is_empty() {
            self.state.write_full_memory()?;
            self.wake_merger();
            rest = self.state.fill_memory(rest);
        }
        Ok(())
    }

    /// Durably removes all places in `packs` that were inserted before the call. Later look-ups do
    /// not return these places, even if the call fails.
    pub fn remove_packs(&self, packs: &BTreeSet<PackNumber>) -> Result<(), IndexError> {
        self.state.remove_packs(packs)?;
        self.wake_merger();
        Ok(())
    }

    /// Makes all entries durable that were inserted before the call, and records that every chunk
    /// of every pack up to `complete_to` is among them. A `complete_to` smaller than the recorded
    /// value changes nothing.
    pub fn flush(&self, complete_to: PackNumber) -> Result<(), IndexError> {
        self.state.flush(complete_to)?;
        self.wake_merger();
        Ok(())
    }

    /// Makes a second index in the empty folder `folder`, which must be on the same file system. It
    /// has the durable part of this index; its runs are hard links. Returns the last pack up to
    /// which the second index is complete.
    pub fn snapshot(&self, folder: &Path) -> Result<PackNumber, IndexError> {
        self.state.snapshot(folder)
    }

    /// Returns the last pack up to which the index in `folder` is complete. The index must not be
    /// open.
    pub fn complete_in(folder: &Path) -> PackNumber {
        let manifest = fs::read(folder::manifest_path(folder)).ok();
        let manifest = manifest.and_then(|bytes| Manifest::decode(&bytes));
        manifest.unwrap_or_else(Manifest::empty).complete_to
    }

    /// Returns all entries that were not removed, ascending by prefix, so that the caller can
    /// compare them with the tables of the packs. The call copies the memory table; the iterator
    /// reads every block and ends after the first error.
    pub fn entries(&self) -> Entries {
        Entries(self.state.view().merge_all())
    }

    pub fn statistics(&self) -> Statistics {
        self.state.statistics()
    }

    fn wake_merger(&self) {
        // If the channel is full, the merger has a message that it has not read yet.
        if let Some(Err(TrySendError::Disconnected(()))) =
            self.wake.as_ref().map(|wake| wake.try_send(()))
        {
            tracing::error!(
                "the thread that merges the runs of a chunk index has ended; restart the server"
            );
        }
    }
}

impl Drop for ChunkIndex {
    /// Ends the merger. Entries that were inserted since the last flush are lost.
    fn drop(&mut self) {
        self.state.closing.store(true, Ordering::Relaxed);
        self.wake = None;
        // A panic of the merger ends the process.
        drop(self.merger.take().map(JoinHandle::join));
    }
}

/// Iterator over the entries of an index: digest prefix and place.
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

fn merge_when_woken(state: &State, woken: &Receiver<()>) {
    while woken.recv().is_ok() {
        if let Err(error) = state.merge_all_due() {
            state.merges_failed.fetch_add(1, Ordering::Relaxed);
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                error,
                "runs of the chunk index could not be merged; the next flush tries again"
            );
        }
    }
}

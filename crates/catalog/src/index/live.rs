//! What an open index is made of at the moment, and how it moves on: the memory table becomes a
//! run, runs become one.
//!
//! The manifest in `Writing` is what the index is; the one on disk follows at each commit. When a
//! commit fails the index works on, and the next one stores both changes.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use model::{PackNumber, Place};

use super::manifest::{Epoch, Manifest, Removed};
use super::memory::MemoryTable;
use super::merge::{Merge, Source, plan};
use super::run::Run;
use super::{Config, Entry, IndexError, Prefix, RunNumber, Statistics, folder};

/// Runs at most; at this limit writing a run waits for a merge.
const RUNS_MAX: usize = 64;
/// Above this many removed packs, all runs are merged, which forgets the removals.
const REMOVED_PACKS_MAX: usize = 1 << 16;

/// What look-ups see.
pub(super) struct Live {
    memory: MemoryTable,
    /// The memory table that is being written to a run: younger than all runs, older than `memory`.
    frozen: Option<Arc<MemoryTable>>,
    run_list: RunList,
}

/// The runs as they were at one moment.
#[derive(Clone)]
pub(super) struct RunList {
    /// Oldest first.
    runs: Arc<Vec<Arc<Run>>>,
    removed: Arc<Removed>,
}

/// The manifest as it is to be, and as it is on disk.
struct Writing {
    manifest: Manifest,
    stored: Manifest,
}

/// What the merger and the users of an index share.
pub(super) struct Shared {
    folder: PathBuf,
    config: Config,
    /// Held during a merge, so that there is one at a time.
    merging: Mutex<()>,
    /// Held to change the manifest, and with it the runs or the removed packs of `live`.
    writing: Mutex<Writing>,
    live: RwLock<Live>,
    pub(super) closing: AtomicBool,
    pub(super) merges_failed: AtomicU64,
}

/// The runs that a merge replaces, and what the merged run will be.
struct Order {
    sources: Vec<Arc<Run>>,
    number: RunNumber,
    /// With `removed`, the state of removals when the merge began.
    epoch: Epoch,
    removed: Arc<Removed>,
}

impl Live {
    pub(super) fn find_in_memory(&self, prefix: Prefix) -> Option<Place> {
        let in_frozen = || self.frozen.as_ref().and_then(|frozen| frozen.find(prefix));
        self.memory.find(prefix).or_else(in_frozen)
    }

    pub(super) fn run_list(&self) -> RunList {
        self.run_list.clone()
    }

    /// Returns all entries that count, ascending.
    pub(super) fn merge_all(&self) -> Merge {
        let tables = [Some(&self.memory), self.frozen.as_deref()].into_iter().flatten();
        let copies = tables.map(|table| table.entries().map(Ok).collect::<Vec<_>>());
        let copies = copies.map(|copy| -> Source { Box::new(copy.into_iter()) });
        let runs = self.run_list.runs.iter().rev();
        let runs = runs.map(|run| standing(run, &self.run_list.removed));
        Merge::new(copies.chain(runs).collect())
    }
}

impl RunList {
    /// Fills the answers that are `None` from the runs, youngest first.
    pub(super) fn find(
        &self,
        prefixes: &[Prefix],
        answers: &mut [Option<Place>],
    ) -> Result<(), IndexError> {
        assert_eq!(prefixes.len(), answers.len(), "one answer a question");
        let mut asked = Vec::new();
        for run in self.runs.iter().rev() {
            let open = prefixes.iter().zip(answers.iter()).enumerate();
            let passing =
                open.filter(|(_, (prefix, answer))| answer.is_none() && run.may_hold(**prefix));
            asked.clear();
            asked.extend(passing.map(|(position, (&prefix, _))| (prefix, position)));
            asked.sort_unstable();
            run.find(&asked, |position, place| {
                if !self.removed.hides(place, run.named().epoch) {
                    answers[position] = Some(place);
                }
            })?;
        }
        Ok(())
    }
}

impl Shared {
    pub(super) fn new(
        folder: &Path,
        config: Config,
        manifest: Manifest,
        runs: Vec<Arc<Run>>,
    ) -> Self {
        let removed = Arc::new(manifest.removed.clone());
        let live = Live {
            memory: MemoryTable::new(config.memory_entries_max),
            frozen: None,
            run_list: RunList { runs: Arc::new(runs), removed },
        };
        Self {
            folder: folder.to_owned(),
            config,
            merging: Mutex::new(()),
            writing: Mutex::new(Writing { stored: manifest.clone(), manifest }),
            live: RwLock::new(live),
            closing: AtomicBool::new(false),
            merges_failed: AtomicU64::new(0),
        }
    }

    /// Puts entries into the memory table until it is full; returns those that had no room.
    pub(super) fn fill_memory<'a>(&self, entries: &'a [Entry]) -> &'a [Entry] {
        let mut live = self.live_mut();
        let room = self.config.memory_entries_max.saturating_sub(live.memory.len());
        let (fitting, rest) = entries.split_at(room.min(entries.len()));
        fitting.iter().for_each(|&entry| live.memory.insert(entry));
        rest
    }

    /// Makes the memory table a run, unless another thread has done so since it was full.
    pub(super) fn write_full_memory(&self) -> Result<(), IndexError> {
        self.make_room()?;
        let mut writing = self.writing();
        if self.live().memory.len() < self.config.memory_entries_max {
            return Ok(());
        }
        self.write_memory(&mut writing.manifest)?;
        self.commit(&mut writing)
    }

    pub(super) fn flush(&self, complete_to: PackNumber) -> Result<(), IndexError> {
        self.make_room()?;
        let mut writing = self.writing();
        self.write_memory(&mut writing.manifest)?;
        writing.manifest.complete_to = writing.manifest.complete_to.max(complete_to);
        self.commit(&mut writing)
    }

    pub(super) fn snapshot(&self, into: &Path) -> Result<PackNumber, IndexError> {
        // Held, so that no run of it goes meanwhile.
        let writing = self.writing();
        for run in &writing.stored.runs {
            let (from, to) = (folder::run_path(&self.folder, run.number), run.number);
            let to = folder::run_path(into, to);
            std::fs::hard_link(from, &to).map_err(IndexError::at(&to))?;
        }
        let path = folder::manifest_path(into);
        let bytes = writing.stored.encode();
        folder::write_durably(&path, |file| file.write_all(&bytes).map_err(IndexError::at(&path)))?;
        Ok(writing.stored.complete_to)
    }

    pub(super) fn remove_packs(&self, packs: &BTreeSet<PackNumber>) -> Result<(), IndexError> {
        let mut writing = self.writing();
        writing.manifest.remove_packs(packs);
        {
            let mut live = self.live_mut();
            assert!(live.frozen.is_none(), "a run is written under the lock held here");
            live.memory.remove_packs(packs);
            live.run_list.removed = Arc::new(writing.manifest.removed.clone());
        }
        self.commit(&mut writing)
    }

    /// Merges until nothing is due.
    pub(super) fn merge_all_due(&self) -> Result<(), IndexError> {
        while self.merge_once()? {}
        Ok(())
    }

    pub(super) fn statistics(&self) -> Statistics {
        let live = self.live();
        let runs = &live.run_list.runs;
        let tables = [Some(&live.memory), live.frozen.as_deref()];
        let in_memory: usize = tables.iter().flatten().map(|table| table.len()).sum();
        let table_bytes: usize = tables.iter().flatten().map(|table| table.memory_bytes()).sum();
        Statistics {
            chunks: in_memory as u64 + runs.iter().map(|run| run.named().entries).sum::<u64>(),
            runs: runs.len(),
            memory_bytes: table_bytes + runs.iter().map(|run| run.memory_bytes()).sum::<usize>(),
            disk_bytes: runs.iter().map(|run| run.disk_bytes() as u64).sum(),
            merges_failed: self.merges_failed.load(Ordering::Relaxed),
        }
    }

    pub(super) fn live(&self) -> RwLockReadGuard<'_, Live> {
        // A panic elsewhere leaves whole values behind each lock: they are replaced, not edited.
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn live_mut(&self) -> RwLockWriteGuard<'_, Live> {
        self.live.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Merges here when the merger has fallen behind.
    fn make_room(&self) -> Result<(), IndexError> {
        let crowded = || {
            let runs = self.live().run_list.runs.len();
            runs >= RUNS_MAX
        };
        while crowded() && self.merge_once()? {}
        Ok(())
    }

    /// Makes the memory table, if it has entries, a durable run. After an error it is as before.
    fn write_memory(&self, manifest: &mut Manifest) -> Result<(), IndexError> {
        let frozen = {
            let mut live = self.live_mut();
            if live.memory.len() == 0 {
                return Ok(());
            }
            let fresh = MemoryTable::new(self.config.memory_entries_max);
            let frozen = Arc::new(std::mem::replace(&mut live.memory, fresh));
            live.frozen = Some(Arc::clone(&frozen));
            frozen
        };
        let identity = (manifest.take_run_number(), manifest.epoch);
        let entries = frozen.entries().map(Ok);
        let created = Run::create(&self.folder, identity, frozen.len() as u64, entries);
        let mut live = self.live_mut();
        live.frozen = None;
        match created {
            Ok(run) => {
                let run = run.expect("the memory table had entries");
                manifest.runs.push(run.named());
                Arc::make_mut(&mut live.run_list.runs).push(Arc::new(run));
                Ok(())
            }
            Err(error) => {
                live.memory.take_back(&frozen);
                Err(error)
            }
        }
    }

    /// Stores the manifest, if it has changed.
    fn commit(&self, writing: &mut Writing) -> Result<(), IndexError> {
        if writing.manifest == writing.stored {
            return Ok(());
        }
        let path = folder::manifest_path(&self.folder);
        let bytes = writing.manifest.encode();
        folder::write_durably(&path, |file| file.write_all(&bytes).map_err(IndexError::at(&path)))?;
        writing.stored = writing.manifest.clone();
        Ok(())
    }

    /// Merges the runs that are due, if any. Returns whether more may be due.
    fn merge_once(&self) -> Result<bool, IndexError> {
        let _merging = self.merging.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(order) = self.merge_order() else { return Ok(false) };
        let upto = order.sources.iter().map(|run| run.named().entries).sum();
        let sources = order.sources.iter().rev().map(|run| standing(run, &order.removed));
        let entries =
            Merge::new(sources.collect()).take_while(|_| !self.closing.load(Ordering::Relaxed));
        let merged = Run::create(&self.folder, (order.number, order.epoch), upto, entries)?;
        if self.closing.load(Ordering::Relaxed) {
            // The merge may have been cut short. The next open removes the file.
            return Ok(false);
        }
        self.replace_runs(&order.sources, merged)?;
        Ok(true)
    }

    fn merge_order(&self) -> Option<Order> {
        let mut writing = self.writing();
        let run_list = self.live().run_list();
        let entries: Vec<_> = run_list.runs.iter().map(|run| run.named().entries).collect();
        let range = if run_list.removed.len() > REMOVED_PACKS_MAX {
            0..entries.len()
        } else {
            plan(&entries)?
        };
        let epoch = writing.manifest.epoch;
        let number = writing.manifest.take_run_number();
        let sources = run_list.runs[range].to_vec();
        Some(Order { sources, number, epoch, removed: run_list.removed })
    }

    /// Puts `merged` in the place of `sources`, then deletes these.
    fn replace_runs(&self, sources: &[Arc<Run>], merged: Option<Run>) -> Result<(), IndexError> {
        let numbers: Vec<_> = sources.iter().map(|run| run.named().number).collect();
        let mut writing = self.writing();
        writing.manifest.replace_runs(&numbers, merged.as_ref().map(Run::named));
        {
            let mut live = self.live_mut();
            let runs = Arc::make_mut(&mut live.run_list.runs);
            let at_source = |run: &Arc<Run>| run.named().number == numbers[0];
            let start = runs.iter().position(at_source).expect("in the manifest, hence here");
            runs.splice(start..start + sources.len(), merged.map(Arc::new));
            live.run_list.removed = Arc::new(writing.manifest.removed.clone());
        }
        self.commit(&mut writing)?;
        drop(writing);
        sources.iter().try_for_each(|run| folder::remove(run.path()))
    }
}

/// Returns the entries of `run`, ascending, but for those in packs that were removed since.
fn standing(run: &Arc<Run>, removed: &Arc<Removed>) -> Source {
    let (removed, epoch) = (Arc::clone(removed), run.named().epoch);
    let stands = move |entry: &Result<Entry, IndexError>| {
        entry.as_ref().map_or(true, |entry| !removed.hides(entry.place, epoch))
    };
    Box::new(run.scan().filter(stands))
}

#[cfg(test)]
mod tests {
    use super::super::tests::entry;
    use super::*;

    /// An index whose merger never wakes.
    fn without_merger(folder: &Path) -> Shared {
        Shared::new(folder, Config { memory_entries_max: 10 }, Manifest::empty(), Vec::new())
    }

    fn add_run(shared: &Shared, seed: u64, pack: u64) {
        assert!(shared.fill_memory(&[entry(seed, pack)]).is_empty());
        shared.flush(PackNumber(pack)).expect("a sound file system");
    }

    #[test]
    fn writers_merge_when_the_merger_falls_behind() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let shared = without_merger(folder.path());
        for seed in 0..3 * RUNS_MAX as u64 {
            add_run(&shared, seed, 1);
            assert!(shared.live().run_list.runs.len() <= RUNS_MAX);
        }
        assert_eq!(shared.live().merge_all().count(), 3 * RUNS_MAX);
    }

    #[test]
    fn many_removals_are_forgotten_by_a_merge_of_all_runs() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let shared = without_merger(folder.path());
        add_run(&shared, 1, 1);
        add_run(&shared, 2, 1 << 20);
        let packs = (1..=REMOVED_PACKS_MAX as u64 + 1).map(PackNumber).collect();
        shared.remove_packs(&packs).expect("a sound file system");
        assert_eq!(shared.live().run_list.removed.len(), packs.len());
        shared.merge_all_due().expect("sound");
        assert_eq!(shared.live().run_list.removed.len(), 0);
        assert_eq!(shared.statistics().chunks, 1);
    }

    #[test]
    fn a_removal_during_a_merge_reaches_what_the_merge_read_before() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let shared = without_merger(folder.path());
        add_run(&shared, 1, 1);
        add_run(&shared, 2, 2);
        let order = shared.merge_order().expect("two equal runs are merged");
        let sources = order.sources.iter().rev().map(|run| standing(run, &order.removed));
        let entries = Merge::new(sources.collect());
        let identity = (order.number, order.epoch);
        let merged = Run::create(folder.path(), identity, 2, entries).expect("written");
        shared
            .remove_packs(&BTreeSet::from([PackNumber(1)]))
            .expect("a sound file system");
        add_run(&shared, 3, 3);
        shared.replace_runs(&order.sources, merged).expect("a sound file system");
        let left = shared.live().merge_all().map(|entry| entry.expect("sound").place.pack().0);
        assert_eq!(left.collect::<BTreeSet<_>>(), BTreeSet::from([2, 3]));
        assert_eq!(shared.live().run_list.runs.len(), 2);
    }
}

//! The state of an open index and its transitions: the memory table becomes a run, and several runs
//! become one.
//!
//! `Manifests::next` describes the index in memory. Each commit writes it to the disk. If a commit
//! fails, the index keeps working, and the next commit writes both changes.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use model::{PackNumber, Place};
use sys::lock::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::entry::{Entry, Prefix};
use crate::error::IndexError;
use crate::folder;
use crate::manifest::{Manifest, Removals, RunIdentity};
use crate::memory::MemoryTable;
use crate::merge::{Merge, Source, plan};
use crate::run::Run;

/// Maximum number of runs. At this limit, a thread that wants to write a run merges runs first.
const RUNS_MAX: usize = 64;
/// Maximum number of removed packs. When there are more, all runs are merged, which drops the
/// removals.
const REMOVED_PACKS_MAX: usize = 1 << 16;

/// The limits of one index.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Maximum number of entries in the memory table. A full table is written to a run. An entry
    /// takes about 40 bytes.
    pub memory_entries_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { memory_entries_max: 1 << 20 }
    }
}

/// Sizes and counts of an open index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Entries in memory and in runs. Removed entries, and earlier places of a chunk, count until a
    /// merge drops them.
    pub chunks: u64,
    pub runs: usize,
    pub memory_bytes: usize,
    pub disk_bytes: u64,
    /// Number of merges since `open` that ended with an error. The merger tries them again after
    /// the next flush.
    pub merges_failed: u64,
}

/// The part of the state that look-ups read.
///
/// Invariant: the runs are those that `Manifests::next` names, in the same order.
pub(crate) struct View {
    memory: MemoryTable,
    /// The memory table that is being written to a run: younger than all runs, older than `memory`.
    frozen: Option<Arc<MemoryTable>>,
    run_list: RunList,
}

/// The runs as they were at one moment.
#[derive(Clone)]
pub(crate) struct RunList {
    /// The runs, oldest first.
    runs: Arc<Vec<Arc<Run>>>,
    removals: Arc<Removals>,
}

/// The manifest that the next commit writes, and the manifest on disk.
struct Manifests {
    next: Manifest,
    stored: Manifest,
}

/// The state of an index, shared by its merger and its users.
pub(crate) struct State {
    folder: PathBuf,
    config: Config,
    /// Lock that a merge holds: there is only one merge at a time.
    merging: Mutex<()>,
    /// The manifests, guarded by a lock. Only a thread that holds the lock changes the runs and the
    /// removals in `view`.
    manifests: Mutex<Manifests>,
    view: RwLock<View>,
    pub(crate) closing: AtomicBool,
    pub(crate) merges_failed: AtomicU64,
}

/// The runs that a merge replaces, and the identity of the merged run.
struct MergePlan {
    /// The runs to merge, oldest first; there is at least one.
    sources: Vec<Arc<Run>>,
    /// Identity of the merged run. Its epoch is the epoch of `removals`.
    identity: RunIdentity,
    /// The removals at the beginning of the merge.
    removals: Arc<Removals>,
}

impl View {
    pub(crate) fn find_in_memory(&self, prefix: Prefix) -> Option<Place> {
        let in_frozen = || self.frozen.as_ref().and_then(|frozen| frozen.find(prefix));
        self.memory.find(prefix).or_else(in_frozen)
    }

    pub(crate) fn run_list(&self) -> RunList {
        self.run_list.clone()
    }

    /// Returns all entries that were not removed, ascending, each prefix once.
    pub(crate) fn merge_all(&self) -> Merge {
        let tables = [Some(&self.memory), self.frozen.as_deref()].into_iter().flatten();
        let copies = tables.map(|table| table.entries().map(Ok).collect::<Vec<_>>());
        let copies = copies.map(|copy| -> Source { Box::new(copy.into_iter()) });
        let runs = self.run_list.runs.iter().rev();
        let runs = runs.map(|run| visible_entries(run, &self.run_list.removals));
        Merge::new(copies.chain(runs).collect())
    }
}

impl RunList {
    /// Looks up the prefixes whose answer is `None`, from the youngest run to the oldest, and fills
    /// in the answers that are found.
    pub(crate) fn find(
        &self,
        prefixes: &[Prefix],
        answers: &mut [Option<Place>],
    ) -> Result<(), IndexError> {
        assert_eq!(prefixes.len(), answers.len(), "there must be one answer for each prefix");
        let mut asked = Vec::new();
        for run in self.runs.iter().rev() {
            let open = prefixes.iter().zip(answers.iter()).enumerate();
            let passing =
                open.filter(|(_, (prefix, answer))| answer.is_none() && run.may_hold(**prefix));
            asked.clear();
            asked.extend(passing.map(|(position, (&prefix, _))| (prefix, position)));
            asked.sort_unstable();
            run.find(&asked, |position, place| {
                if !self.removals.hides(place, run.named().epoch) {
                    answers[position] = Some(place);
                }
            })?;
        }
        Ok(())
    }
}

impl State {
    pub(crate) fn new(
        folder: &Path,
        config: Config,
        manifest: Manifest,
        runs: Vec<Arc<Run>>,
    ) -> Self {
        let numbers = runs.iter().map(|run| run.named());
        assert!(numbers.eq(manifest.runs.iter().copied()), "the manifest must name these runs");
        let removals = Arc::new(manifest.removals.clone());
        let view = View {
            memory: MemoryTable::new(config.memory_entries_max),
            frozen: None,
            run_list: RunList { runs: Arc::new(runs), removals },
        };
        Self {
            folder: folder.to_owned(),
            config,
            merging: Mutex::new(()),
            manifests: Mutex::new(Manifests { stored: manifest.clone(), next: manifest }),
            view: RwLock::new(view),
            closing: AtomicBool::new(false),
            merges_failed: AtomicU64::new(0),
        }
    }

    /// Puts entries into the memory table until it is full; returns the remaining entries.
    pub(crate) fn fill_memory<'a>(&self, entries: &'a [Entry]) -> &'a [Entry] {
        let mut view = self.view_mut();
        let room = self.config.memory_entries_max.saturating_sub(view.memory.len());
        let (fitting, rest) = entries.split_at(room.min(entries.len()));
        fitting.iter().for_each(|&entry| view.memory.insert(entry));
        rest
    }

    /// Writes the full memory table to a run. Does nothing if another thread has written it
    /// already.
    pub(crate) fn write_full_memory(&self) -> Result<(), IndexError> {
        self.make_room()?;
        let mut manifests = self.manifests();
        if self.view().memory.len() < self.config.memory_entries_max {
            return Ok(());
        }
        self.write_memory(&mut manifests.next)?;
        self.commit(&mut manifests)
    }

    pub(crate) fn flush(&self, complete_to: PackNumber) -> Result<(), IndexError> {
        self.make_room()?;
        let mut manifests = self.manifests();
        self.write_memory(&mut manifests.next)?;
        manifests.next.complete_to = manifests.next.complete_to.max(complete_to);
        self.commit(&mut manifests)
    }

    pub(crate) fn snapshot(&self, into: &Path) -> Result<PackNumber, IndexError> {
        // No run of the stored manifest is deleted while the lock is held.
        let manifests = self.manifests();
        for run in &manifests.stored.runs {
            let (from, to) = (folder::run_path(&self.folder, run.number), run.number);
            let to = folder::run_path(into, to);
            std::fs::hard_link(from, &to).map_err(IndexError::at(&to))?;
        }
        let path = folder::manifest_path(into);
        let bytes = manifests.stored.encode();
        folder::write_durably(&path, |file| file.write_all(&bytes).map_err(IndexError::at(&path)))?;
        Ok(manifests.stored.complete_to)
    }

    pub(crate) fn remove_packs(&self, packs: &BTreeSet<PackNumber>) -> Result<(), IndexError> {
        let mut manifests = self.manifests();
        manifests.next.remove_packs(packs);
        {
            let mut view = self.view_mut();
            assert!(
                view.frozen.is_none(),
                "a run is written only under the lock that is held here"
            );
            view.memory.remove_packs(packs);
            view.run_list.removals = Arc::new(manifests.next.removals.clone());
        }
        self.commit(&mut manifests)
    }

    /// Merges until no merge is due.
    pub(crate) fn merge_all_due(&self) -> Result<(), IndexError> {
        while self.merge_once()? {}
        Ok(())
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let view = self.view();
        let runs = &view.run_list.runs;
        let tables = [Some(&view.memory), view.frozen.as_deref()];
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

    pub(crate) fn view(&self) -> RwLockReadGuard<'_, View> {
        self.view.read()
    }

    fn view_mut(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write()
    }

    fn manifests(&self) -> MutexGuard<'_, Manifests> {
        self.manifests.lock()
    }

    /// Merges runs on the calling thread until the number of runs is below the limit.
    fn make_room(&self) -> Result<(), IndexError> {
        let crowded = || {
            let runs = self.view().run_list.runs.len();
            runs >= RUNS_MAX
        };
        while crowded() && self.merge_once()? {}
        Ok(())
    }

    /// Writes the memory table, if it has entries, to a durable run. After an error the entries are
    /// back in the memory table.
    fn write_memory(&self, manifest: &mut Manifest) -> Result<(), IndexError> {
        let frozen = {
            let mut view = self.view_mut();
            if view.memory.len() == 0 {
                return Ok(());
            }
            let fresh = MemoryTable::new(self.config.memory_entries_max);
            let frozen = Arc::new(std::mem::replace(&mut view.memory, fresh));
            view.frozen = Some(Arc::clone(&frozen));
            frozen
        };
        let identity = RunIdentity { number: manifest.take_run_number(), epoch: manifest.epoch };
        let entries = frozen.entries().map(Ok);
        let created = Run::create(&self.folder, identity, frozen.len() as u64, entries);
        let mut view = self.view_mut();
        view.frozen = None;
        match created {
            Ok(run) => {
                let run = run.expect("the memory table had entries");
                manifest.runs.push(run.named());
                Arc::make_mut(&mut view.run_list.runs).push(Arc::new(run));
                Ok(())
            }
            Err(error) => {
                view.memory.take_back(&frozen);
                Err(error)
            }
        }
    }

    /// Writes the manifest to the disk if it has changed.
    fn commit(&self, manifests: &mut Manifests) -> Result<(), IndexError> {
        assert!(manifests.next.epoch >= manifests.stored.epoch, "a removal must never be undone");
        assert!(
            manifests.next.complete_to >= manifests.stored.complete_to,
            "an index must not lose packs"
        );
        if manifests.next == manifests.stored {
            return Ok(());
        }
        let path = folder::manifest_path(&self.folder);
        let bytes = manifests.next.encode();
        folder::write_durably(&path, |file| file.write_all(&bytes).map_err(IndexError::at(&path)))?;
        manifests.stored = manifests.next.clone();
        Ok(())
    }

    /// Merges the runs that are due for a merge. Returns false if there are none, or if the index
    /// is being closed.
    fn merge_once(&self) -> Result<bool, IndexError> {
        let _merging = self.merging.lock();
        let Some(planned) = self.plan_merge() else { return Ok(false) };
        let entries_max = planned.sources.iter().map(|run| run.named().entries).sum();
        let sources =
            planned.sources.iter().rev().map(|run| visible_entries(run, &planned.removals));
        let entries =
            Merge::new(sources.collect()).take_while(|_| !self.closing.load(Ordering::Relaxed));
        let merged = Run::create(&self.folder, planned.identity, entries_max, entries)?;
        if self.closing.load(Ordering::Relaxed) {
            // The merge may have stopped before its end. The next open removes its file.
            return Ok(false);
        }
        self.replace_runs(&planned.sources, merged)?;
        Ok(true)
    }

    fn plan_merge(&self) -> Option<MergePlan> {
        let mut manifests = self.manifests();
        let run_list = self.view().run_list();
        let entries: Vec<_> = run_list.runs.iter().map(|run| run.named().entries).collect();
        let range = if run_list.removals.len() > REMOVED_PACKS_MAX {
            0..entries.len()
        } else {
            plan(&entries)?
        };
        let sources = run_list.runs[range].to_vec();
        assert!(!sources.is_empty(), "an index without runs must have no removals");
        let number = manifests.next.take_run_number();
        let identity = RunIdentity { number, epoch: manifests.next.epoch };
        Some(MergePlan { sources, identity, removals: run_list.removals })
    }

    /// Replaces `sources` with `merged`, then deletes the files of `sources`.
    fn replace_runs(&self, sources: &[Arc<Run>], merged: Option<Run>) -> Result<(), IndexError> {
        let numbers: Vec<_> = sources.iter().map(|run| run.named().number).collect();
        let mut manifests = self.manifests();
        manifests.next.replace_runs(&numbers, merged.as_ref().map(Run::named));
        {
            let mut view = self.view_mut();
            let runs = Arc::make_mut(&mut view.run_list.runs);
            let at_source = |run: &Arc<Run>| run.named().number == numbers[0];
            let start =
                runs.iter().position(at_source).expect("the view has every run of the manifest");
            runs.splice(start..start + sources.len(), merged.map(Arc::new));
            view.run_list.removals = Arc::new(manifests.next.removals.clone());
        }
        self.commit(&mut manifests)?;
        drop(manifests);
        sources.iter().try_for_each(|run| folder::remove(run.path()))
    }
}

/// Returns the entries of `run`, ascending, except for those that `removals` hides.
fn visible_entries(run: &Arc<Run>, removals: &Arc<Removals>) -> Source {
    let (removals, epoch) = (Arc::clone(removals), run.named().epoch);
    let is_visible = move |entry: &Result<Entry, IndexError>| {
        entry.as_ref().map_or(true, |entry| !removals.hides(entry.place, epoch))
    };
    Box::new(run.scan().filter(is_visible))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::entry;

    /// Returns the state of an index that has no merger.
    fn without_merger(folder: &Path) -> State {
        State::new(folder, Config { memory_entries_max: 10 }, Manifest::empty(), Vec::new())
    }

    fn add_run(state: &State, seed: u64, pack: u64) {
        assert!(state.fill_memory(&[entry(seed, pack)]).is_empty());
        state.flush(PackNumber(pack)).expect("a sound file system");
    }

    #[test]
    fn writers_merge_when_the_merger_is_too_slow() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let state = without_merger(folder.path());
        for seed in 0..3 * RUNS_MAX as u64 {
            add_run(&state, seed, 1);
            assert!(state.view().run_list.runs.len() <= RUNS_MAX);
        }
        assert_eq!(state.view().merge_all().count(), 3 * RUNS_MAX);
    }

    #[test]
    fn many_removals_are_forgotten_by_a_merge_of_all_runs() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let state = without_merger(folder.path());
        add_run(&state, 1, 1);
        add_run(&state, 2, 1 << 20);
        let packs = (1..=REMOVED_PACKS_MAX as u64 + 1).map(PackNumber).collect();
        state.remove_packs(&packs).expect("a sound file system");
        assert_eq!(state.view().run_list.removals.len(), packs.len());
        state.merge_all_due().expect("sound");
        assert_eq!(state.view().run_list.removals.len(), 0);
        assert_eq!(state.statistics().chunks, 1);
    }

    #[test]
    fn a_removal_during_a_merge_reaches_what_the_merge_read_before() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let state = without_merger(folder.path());
        add_run(&state, 1, 1);
        add_run(&state, 2, 2);
        let planned = state.plan_merge().expect("two equal runs are merged");
        let sources =
            planned.sources.iter().rev().map(|run| visible_entries(run, &planned.removals));
        let entries = Merge::new(sources.collect());
        let merged = Run::create(folder.path(), planned.identity, 2, entries).expect("written");
        state
            .remove_packs(&BTreeSet::from([PackNumber(1)]))
            .expect("a sound file system");
        add_run(&state, 3, 3);
        state.replace_runs(&planned.sources, merged).expect("a sound file system");
        let left = state.view().merge_all().map(|entry| entry.expect("sound").place.pack().0);
        assert_eq!(left.collect::<BTreeSet<_>>(), BTreeSet::from([2, 3]));
        assert_eq!(state.view().run_list.runs.len(), 2);
    }
}

//! Preparation of a transaction: its changes are applied to their pages, and become writes for the
//! catalogue.
//!
//! Several threads work in parallel, each on one share of the changes at a time, because
//! directories do not depend on each other. All changes of one directory are in one share, in their
//! order. So each change is applied to the page as the previous change has left it. No node sends
//! changes below a directory that no longer exists. So no share changes pages there while another
//! share removes them.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;

use sys::lock::Mutex;

use crate::error::StoreError;
use catalog::change::{Change, ChangeError, Effect, apply, deactivate};
use catalog::{ArchiveChange, Growth, PageKey, PageRow, PageSpan, Write};
use format::page;
use model::{ClassId, DirPath, Kind, Name, Object, PackNumber, ServerTime};
use pool::Hold;

use super::change::{Reason, Rejection, Remnant};
use super::session::Intake;
use crate::intake::resolve::ResolvedChange;
use crate::lifecycle::archive;
use crate::pages::{decode_page, writes};
use crate::store::CommitFailure;

/// Minimum number of changes in a share. The pages of a share are read at once.
const SHARE_CHANGES: usize = 32;
/// Number of changes from which on a share is large enough: its pages are in memory together.
const SHARE_CHANGES_MAX: usize = 128;
/// Maximum number of threads that apply the changes of one transaction. More threads would not
/// help, because a single thread writes their result.
const THREADS_MAX: usize = 4;
/// Maximum weight of the objects of a page, in bytes: see [`page::weight`]. It is larger than a
/// page body, because an extent usually takes a few bytes of a body and more memory.
const PAGE_WEIGHT_MAX: usize = 2 * page::BODY_BYTES_MAX;
/// Number of pages below a vanished directory that are removed in one batch.
const SUBTREE_PAGES: usize = 64;

/// Time and generation of a commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommitPoint {
    pub(super) now: ServerTime,
    /// Generation of the condemned packs against which the changes were resolved.
    pub(super) generation: u64,
}

/// Result of applying changes, before it is durable.
#[derive(Default)]
pub(super) struct Preparation {
    pub(super) writes: Vec<Write>,
    pub(super) rejected: Vec<Rejection>,
    pub(super) remnants: Vec<Remnant>,
    /// Directories of the rejected objects.
    pub(super) lacking: BTreeSet<DirPath>,
    pub(super) expired_objects: u64,
    /// Holds of object stores on the packs that the pages name.
    pub(super) holds: BTreeMap<PackNumber, Hold>,
    /// Growth of the archive that the session writes.
    pub(super) archived: ArchiveChange,
    /// Growth of what is stored.
    pub(super) growth: Growth,
    /// Number of new versions of directories that existed.
    pub(super) renewed_directories: i64,
}

impl Preparation {
    fn add(&mut self, other: Self) {
        self.writes.extend(other.writes);
        self.rejected.extend(other.rejected);
        self.remnants.extend(other.remnants);
        self.lacking.extend(other.lacking);
        self.expired_objects += other.expired_objects;
        for (pack, hold) in other.holds {
            let held = self.holds.entry(pack).or_insert(hold);
            *held = held.and(hold);
        }
        self.growth = self.growth.plus(other.growth);
        self.renewed_directories += other.renewed_directories;
        self.archived.objects_added += other.archived.objects_added;
        let bytes_added = other.archived.bytes_added;
        self.archived.bytes_added = self.archived.bytes_added.saturating_add(bytes_added);
    }
}

/// Pages of a share, as the changes so far have left them; `None` where the page does not exist.
type Pages = BTreeMap<PageKey, Option<PageRow>>;

impl Intake {
    /// Applies `changes` to their pages.
    pub(super) fn prepare(
        &self,
        changes: Vec<ResolvedChange>,
        at: CommitPoint,
    ) -> Result<Preparation, CommitFailure> {
        let threads_max = sys::process::processors().min(THREADS_MAX);
        let shares = shares(changes, threads_max);
        let threads = threads_max.min(shares.len());
        let waiting = Mutex::new(shares.into_iter());
        let next = || waiting.lock().next();
        let work = || {
            let mut prepared = Preparation::default();
            while let Some(share) = next() {
                self.share(share, at, &mut prepared)?;
            }
            Ok(prepared)
        };
        if threads < 2 {
            return work();
        }
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut prepared = work()?;
            for thread in others {
                let done = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
                prepared.add(done?);
            }
            Ok(prepared)
        })
    }

    /// Applies the changes of one share, and adds their result to `prepared`.
    fn share(
        &self,
        changes: Vec<ResolvedChange>,
        at: CommitPoint,
        prepared: &mut Preparation,
    ) -> Result<(), CommitFailure> {
        let mut pages = self.read_pages(&changes)?;
        let mut changes = changes.into_iter().peekable();
        while let Some(resolved) = changes.next() {
            let directory = resolved.key.directory.clone();
            let is_last = changes.peek().is_none_or(|next| next.key.directory != directory);
            let changed = self.change(resolved, at, &mut pages, prepared)?;
            if !is_last {
                let left = changed.pages.iter().map(|page| (page.key.clone(), Some(page.clone())));
                pages.extend(left);
                pages.extend(changed.removed.iter().map(|key| (key.clone(), None)));
            }
            prepared.expired_objects += changed.expired;
            prepared.growth = prepared.growth.plus(changed.growth);
            prepared.renewed_directories += changed.renewed_directories;
            prepared.writes.extend(writes(self.filespace.id, &directory, changed, at.now));
        }
        Ok(())
    }

    /// Reads the pages of the changes from the catalogue.
    fn read_pages(&self, changes: &[ResolvedChange]) -> Result<Pages, StoreError> {
        let keys: Vec<PageKey> = changes.iter().map(|resolved| resolved.key.clone()).collect();
        let found = self.store.catalog.pages_at(self.filespace.id, &keys)?;
        let mut pages: Pages = keys.into_iter().map(|key| (key, None)).collect();
        pages.extend(found.into_iter().map(|row| (row.key.clone(), Some(row))));
        Ok(pages)
    }

    /// Applies one change to its page.
    fn change(
        &self,
        resolved: ResolvedChange,
        at: CommitPoint,
        pages: &mut Pages,
        prepared: &mut Preparation,
    ) -> Result<Effect, CommitFailure> {
        let ResolvedChange { key, mut change, mut rejected } = resolved;
        let current = self.current(&key, pages)?;
        if !has_room(&key, &current, &change, at.now) {
            rejected.extend(reject_states(&key, &mut change));
        }
        let vanishing = vanishing(&key.directory, &current, &change);
        vanishing.iter().for_each(|directory| remove_subtree(pages, directory));
        let remnants = self.expire_subtrees(vanishing, at, prepared)?;
        // The directory of a remnant stays active, so that the next backup finds it gone again.
        change.expired.retain(|name| !remnants.contains(&key.directory.child(name)));
        if !rejected.is_empty() || !remnants.is_empty() {
            prepared.lacking.insert(key.directory.clone());
        }
        if [&self.lacking, &prepared.lacking]
            .iter()
            .any(|all| all.contains(&key.directory))
        {
            change.pages.iter_mut().for_each(|page| page.digest = None);
        }
        prepared.rejected.extend(rejected);
        keep_locked(&self.locked, &current, &mut change.updated);
        let mut rebound = BTreeSet::new();
        if let Some(holding) = &self.holding {
            rebound = self::rebound(&current, &change.updated);
            holding.add(&change.backed_up, at.now, &mut prepared.holds);
        }
        let before = prepared.archived;
        if self.archive.is_some() {
            archive::grow(&mut prepared.archived, &current, &change.backed_up);
        }
        let mut changed = apply(&key, current, change, at.now)
            .map_err(|error| StoreError::conflict(error.to_string()))?;
        if self.archive.is_some() {
            // If one command archives an object twice, only its second state is kept.
            changed.versions.clear();
            changed.growth = archive::growth(before, prepared.archived);
        }
        if let Some(holding) = self.holding.as_ref().filter(|_| !rebound.is_empty()) {
            for page in &changed.pages {
                let objects = decode_page(page)?;
                let bound = objects.iter().filter(|object| rebound.contains(&object.name));
                holding.add(bound, at.now, &mut prepared.holds);
            }
        }
        Ok(changed)
    }

    /// Returns the objects of the page as the changes so far have left it.
    fn current(&self, key: &PageKey, pages: &mut Pages) -> Result<Vec<Object>, StoreError> {
        let row = match pages.remove(key) {
            Some(row) => row,
            None => self.store.catalog.page(self.filespace.id, key)?,
        };
        row.map_or(Ok(Vec::new()), |row| decode_page(&row))
    }

    /// Deactivates all objects below `directories`. Returns the directories below which damaged
    /// pages are left.
    fn expire_subtrees(
        &self,
        directories: Vec<DirPath>,
        at: CommitPoint,
        prepared: &mut Preparation,
    ) -> Result<BTreeSet<DirPath>, CommitFailure> {
        let mut remnants = BTreeSet::new();
        for directory in directories {
            let mut damage = None;
            prepared.expired_objects += self.expire_subtree(&directory, at, &mut damage)?;
            if let Some(reason) = damage {
                let filespace = self.filespace.id;
                tracing::error!(%filespace, reason, "a damaged page is not expired");
                remnants.insert(directory.clone());
                prepared.remnants.push(Remnant { directory, reason });
            }
        }
        Ok(remnants)
    }

    /// Deactivates all objects below `directory`, in batches. Returns their number. Damaged pages
    /// stay, and `damage` becomes the fault of the first of them.
    fn expire_subtree(
        &self,
        directory: &DirPath,
        at: CommitPoint,
        damage: &mut Option<String>,
    ) -> Result<u64, CommitFailure> {
        let span = PageSpan::Subtree(directory.clone());
        let filespace = self.filespace.id;
        let (mut expired, mut after) = (0, None);
        loop {
            let pages =
                self.store.catalog.pages(filespace, &span, after.as_ref(), SUBTREE_PAGES)?;
            let Some(last) = pages.last() else { return Ok(expired) };
            after = Some(last.key.clone());
            let mut writes = Vec::new();
            for page in pages {
                assert!(directory.contains(&page.key.directory), "only the subtree is removed");
                let objects = match decode_page(&page) {
                    Err(StoreError::Damaged(reason)) => {
                        damage.get_or_insert(reason);
                        continue;
                    }
                    objects => objects?,
                };
                for object in objects {
                    let version = deactivate(&page.key.directory, object, at.now);
                    writes.push(Write::AddVersion { filespace, version });
                    expired += 1;
                }
                writes.push(Write::RemovePage { filespace, key: page.key });
            }
            self.store.commit_known(at.generation, writes)?;
        }
    }
}

/// Returns true if the pages after the change can hold its new states.
fn has_room(key: &PageKey, current: &[Object], change: &Change, now: ServerTime) -> bool {
    let new = page::weight(&change.backed_up) + page::weight(&change.updated);
    let weight = page::weight(current) + new;
    if weight <= page::BODY_BYTES_MAX {
        return true;
    }
    let is_full = || {
        let applied = apply(key, current.to_vec(), change.clone(), now);
        matches!(applied, Err(ChangeError::PageFull(_)))
    };
    weight <= PAGE_WEIGHT_MAX && !is_full()
}

/// Takes the new states out of a change whose page is full.
fn reject_states(key: &PageKey, change: &mut Change) -> Vec<Rejection> {
    let states = change.backed_up.drain(..).chain(change.updated.drain(..));
    let rejected = states.map(|state| (state.name, Reason::PageFull)).collect();
    Rejection::of_page(key, rejected)
}

/// Divides changes into shares for this many threads. All changes of one directory are in one
/// share, in their order. The shares are as large as the threads allow, because each of them waits
/// for the catalogue's database once.
fn shares(changes: Vec<ResolvedChange>, threads: usize) -> Vec<Vec<ResolvedChange>> {
    let count = changes.len();
    let share_changes = count.div_ceil(threads.max(1)).clamp(SHARE_CHANGES, SHARE_CHANGES_MAX);
    let mut directories: BTreeMap<DirPath, Vec<ResolvedChange>> = BTreeMap::new();
    for resolved in changes {
        directories.entry(resolved.key.directory.clone()).or_default().push(resolved);
    }
    let mut shares: Vec<Vec<ResolvedChange>> = Vec::new();
    for (_, changes) in directories {
        match shares.last_mut().filter(|share| share.len() < share_changes) {
            Some(share) => share.extend(changes),
            None => shares.push(changes),
        }
    }
    assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), count, "no change is left out");
    shares
}

/// Returns the object `name` of a page, whose objects are sorted by name.
fn object_named<'a>(page: &'a [Object], name: &Name) -> Option<&'a Object> {
    let at = page.binary_search_by(|object| object.name.cmp(name)).ok()?;
    Some(&page[at])
}

fn is_sorted(page: &[Object]) -> bool {
    page.is_sorted_by(|a, b| a.name < b.name)
}

/// Returns the names of the updated objects that are bound to another class than before.
fn rebound(current: &[Object], updated: &[Object]) -> BTreeSet<Name> {
    debug_assert!(is_sorted(current), "a page is sorted by name");
    let has_moved = |object: &&Object| {
        let before = object_named(current, &object.name);
        before.is_some_and(|before| before.class != object.class)
    };
    updated.iter().filter(has_moved).map(|object| object.name.clone()).collect()
}

/// Keeps objects of locked classes bound to their class: another class might keep them for a
/// shorter time. A new version may be bound to another class; the version before it keeps its own
/// class.
fn keep_locked(locked: &BTreeSet<ClassId>, current: &[Object], updated: &mut [Object]) {
    debug_assert!(is_sorted(current), "a page is sorted by name");
    if locked.is_empty() {
        return;
    }
    for object in updated {
        let before = object_named(current, &object.name);
        if let Some(before) = before.filter(|before| locked.contains(&before.class)) {
            object.class = before.class;
        }
    }
}

/// Returns the directories among `current` that are not directories any more after the change.
fn vanishing(directory: &DirPath, current: &[Object], change: &Change) -> Vec<DirPath> {
    let is_directory = |object: &&Object| object.stat.kind == Kind::Directory;
    if !current.iter().any(|object| is_directory(&object)) {
        return Vec::new();
    }
    let expired: BTreeSet<&Name> = change.expired.iter().collect();
    let mut replaced: BTreeMap<&Name, Kind> = BTreeMap::new();
    for object in &change.backed_up {
        replaced.entry(&object.name).or_insert(object.stat.kind);
    }
    let vanishes = |object: &&Object| {
        expired.contains(&object.name)
            || replaced.get(&object.name).is_some_and(|kind| *kind != Kind::Directory)
    };
    current
        .iter()
        .filter(is_directory)
        .filter(vanishes)
        // An earlier server stored a name that leads nowhere. Nothing can lie below it.
        .filter(|object| directory.can_hold(&object.name))
        .map(|object| directory.child(&object.name))
        .collect()
}

/// Removes the pages of the subtree, which are neighbours in `pages`.
fn remove_subtree(pages: &mut Pages, directory: &DirPath) {
    let from = PageKey::first_of(directory.clone());
    let subtree = pages.range(from..).map(|(key, _)| key);
    let subtree = subtree.take_while(|key| directory.contains(&key.directory));
    let gone: Vec<PageKey> = subtree.cloned().collect();
    for key in gone {
        pages.remove(&key);
    }
}

#[cfg(test)]
mod tests;

//! Walk: threads share one stack of directories. They list and stat the entries of each directory.
//! A directory whose digest is the same has not changed and is not examined.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::Sender;
use model::{DirPath, DirectoryDigest, Kind, Name, NameError};
use sys::lock::{Condvar, Mutex, MutexGuard};
use sys::{Dir, Listing, ObjectStatus};

use super::aim::Aim;
use super::answers::Answers;
use super::crew::{Crew, NextStep};
use super::digest::Digester;
use super::inventory::Inventory;
use super::names::Notes;
use super::segment::{Segment, new_pages};
use super::tally::Tally;
use crate::link::backup::PageKey;
use crate::path::{absolute, absolute_dir};
use crate::report::Failure;
use crate::rules::Rules;

/// Directory that will be walked.
pub(super) struct Task {
    /// Directory from which this directory will be opened.
    pub(super) parent: Arc<Dir>,
    /// Name in `parent`; `None` for `parent` itself.
    pub(super) name: Option<Name>,
    pub(super) path: DirPath,
    /// Device of the directory above. A mount point has another device.
    pub(super) device_id: u64,
    /// Directories to look at, at and below this directory; `None` for all of them.
    pub(super) aim: Option<Aim>,
    /// True if the directory was listed in `parent`. A directory that the journal names may be gone
    /// since then; the journal then names that change too, for the next backup.
    pub(super) is_listed: bool,
}

impl Task {
    /// Returns true if the walk looks at the objects of this directory.
    fn looks(&self) -> bool {
        self.aim.as_ref().is_none_or(|aim| aim.looks)
    }
}

/// Stack of the directories that wait. Children are walked before siblings, so that few directories
/// are open at once.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: Vec<Task>,
    busy: usize,
    /// Number of threads that sleep. If there are none, the system call that wakes them up is
    /// saved.
    sleeping: usize,
}

impl Queue {
    pub(super) fn push(&self, tasks: &mut Vec<Task>) {
        if tasks.is_empty() {
            return;
        }
        let mut state = self.state();
        state.waiting.append(tasks);
        self.wake(&state);
    }

    fn wake(&self, state: &QueueState) {
        if state.sleeping > 0 {
            self.changed.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    /// Takes the next task; `None` once no task waits and no thread is busy.
    fn take(&self) -> Option<Task> {
        let mut state = self.state();
        loop {
            if let Some(task) = state.waiting.pop() {
                state.busy += 1;
                return Some(task);
            }
            if state.busy == 0 {
                return None;
            }
            state.sleeping += 1;
            state = self.changed.wait(state);
            state.sleeping -= 1;
        }
    }

    fn done(&self) {
        let mut state = self.state();
        assert!(state.busy > 0, "each task that was taken is done once");
        state.busy -= 1;
        if state.busy == 0 {
            self.wake(&state);
        }
    }
}

/// State that the walkers of one filespace share.
pub(super) struct Walk<'a> {
    pub(super) filespace: &'a [u8],
    pub(super) queue: &'a Queue,
    pub(super) crew: &'a Crew,
    pub(super) rules: &'a Rules,
    pub(super) digester: &'a Digester,
    pub(super) inventory: &'a Inventory,
    pub(super) tally: &'a Tally,
    pub(super) answers: &'a Answers,
    /// True to examine every object, changed or not.
    pub(super) ignores_digests: bool,
    /// True if a missing object expires. A selective backup expires no objects.
    pub(super) expires: bool,
    pub(super) crosses_filesystems: bool,
    /// Notes for the next backup by journal; `None` if there will be none.
    pub(super) notes: Option<&'a Notes>,
}

/// Queues of the segments that walkers find.
#[derive(Clone)]
pub(super) struct Outlets {
    /// Segments without a page at the server.
    pub(super) unknown: Sender<Segment>,
    /// Segments whose page must be fetched.
    pub(super) changed: Sender<Segment>,
}

impl Walk<'_> {
    /// Walks until no directory is left or the crew is large enough without this thread. `recruit`
    /// starts another thread.
    pub(super) fn run(&self, outlets: &Outlets, recruit: impl Fn()) {
        let mut listing = Listing::default();
        let mut buffer = Vec::new();
        while let Some(task) = self.queue.take() {
            self.tally.progress.hold();
            if !self.tally.progress.is_stopped() && !self.answers.has_failed() {
                self.visit(task, &mut listing, &mut buffer, outlets);
            }
            self.queue.done();
            match self.crew.next() {
                NextStep::GoOn => {}
                NextStep::Recruit => recruit(),
                NextStep::Leave => break,
            }
        }
    }

    fn visit(
        &self,
        mut task: Task,
        listing: &mut Listing,
        buffer: &mut Vec<u8>,
        outlets: &Outlets,
    ) {
        let is_virtual = self.is_virtual_filespace(&task);
        let listed = self.crew.measure(|| {
            let dir = match &task.name {
                Some(name) => Arc::new(task.parent.open_dir(name.as_bytes())?),
                None => Arc::clone(&task.parent),
            };
            let found = match task.looks() && !is_virtual {
                true => self.list(&dir, &task, listing)?,
                false => self.pass(&dir, &task)?,
            };
            Ok::<_, std::io::Error>((dir, found))
        });
        match listed {
            Ok((dir, Some(found))) if task.looks() => {
                self.sort_out(&mut task, &dir, found, buffer, outlets);
            }
            Ok((_, Some(_))) if is_virtual => {}
            Ok((dir, Some(found))) => {
                self.queue.push(&mut self.aimed_children(&mut task, &dir, &found));
            }
            // The object is on another file system, which the walk does not enter.
            Ok((_, None)) => self.note_covered(&task.path),
            Err(error) if !task.is_listed && is_gone(&error) => {}
            Err(error) => {
                if let Some(notes) = self.notes {
                    notes.again_below(&task.path);
                }
                let path = absolute_dir(self.filespace, &task.path);
                self.tally.fail(Failure { path, error: error.to_string() });
            }
        }
    }

    /// Returns true if what is in this directory belongs to a filespace of its own. Here the
    /// directory counts as empty.
    fn is_virtual_filespace(&self, task: &Task) -> bool {
        let path = || absolute_dir(self.filespace, &task.path);
        task.path.as_bytes() != b"/" && self.rules.virtual_filespaces.has(path)
    }

    /// Passes through a directory that is not looked at, towards others below it. Returns its
    /// device without any entry; `None` if the walk does not enter the directory.
    fn pass(&self, dir: &Dir, task: &Task) -> std::io::Result<Option<DirectoryEntries>> {
        let device_id = dir.stat_self()?.device_id;
        if device_id != task.device_id && !self.enters(dir, task)? {
            return Ok(None);
        }
        Ok(Some(DirectoryEntries { device_id, entries: Vec::new(), unreadable: Vec::new() }))
    }

    /// Lists the directory. Returns `None` if the walk does not enter it.
    fn list(
        &self,
        dir: &Dir,
        task: &Task,
        listing: &mut Listing,
    ) -> std::io::Result<Option<DirectoryEntries>> {
        let device_id = dir.stat_self()?.device_id;
        if device_id != task.device_id && !self.enters(dir, task)? {
            return Ok(None);
        }
        dir.list(listing)?;
        let mut listed =
            DirectoryEntries { device_id, entries: Vec::new(), unreadable: Vec::new() };
        let names = listing.entries().iter().map(|entry| listing.name(entry));
        let tag = self.rules.tag_in(dir, names).map(|(_, tag)| tag);
        let everything = self.rules.is_plain();
        for entry in listing.entries() {
            let name = listing.name(entry);
            let is_left_out = tag.is_some_and(|tag| tag != name);
            let Ok(name) = Name::new(name) else { continue };
            let is_included =
                || everything || self.is_included(&task.path, &name, entry.found.stat.kind);
            if !is_left_out && is_included() {
                listed.entries.push((name, entry.found));
            }
        }
        for failure in listing.failures() {
            let path = [task.path.as_bytes(), &failure.name].concat();
            let path = absolute(self.filespace, &path);
            self.tally.fail(Failure { path, error: failure.error.to_string() });
            listed.unreadable.push(failure.name.clone());
        }
        let sockets = listing.sockets().len() as u64;
        self.tally.sockets_skipped.fetch_add(sockets, Relaxed);
        Ok(Some(listed))
    }

    fn is_included(&self, directory: &DirPath, name: &Name, kind: Kind) -> bool {
        let path = || absolute(self.filespace, &directory.join(name));
        self.rules.ruling(path, kind).verdict.is_included()
    }

    /// Returns true if the rules leave the content of this directory alone.
    fn leaves_alone(&self, directory: &DirPath, name: &Name) -> bool {
        let path = || absolute(self.filespace, &directory.join(name));
        self.rules.leaves_content(path).is_some()
    }

    /// Returns true if the walk enters the other file system that is mounted here.
    fn enters(&self, dir: &Dir, task: &Task) -> std::io::Result<bool> {
        if !self.crosses_filesystems || dir.is_pseudo()? {
            return Ok(false);
        }
        let path = absolute_dir(self.filespace, &task.path);
        Ok(self.rules.excludes_filesystem(&path).is_none())
    }

    fn sort_out(
        &self,
        task: &mut Task,
        dir: &Arc<Dir>,
        listed: DirectoryEntries,
        buffer: &mut Vec<u8>,
        outlets: &Outlets,
    ) {
        let mut children = self.children(task, dir, &listed);
        self.queue.push(&mut children);
        if let Some(notes) = self.notes {
            listed.entries.iter().for_each(|(_, found)| notes.see(&task.path, found));
        }
        let known = self.inventory.get(&task.path);
        let outlet = if known.is_some() { &outlets.changed } else { &outlets.unknown };
        let pages = known.unwrap_or_else(|| new_pages(&listed.entries));
        debug_assert!(
            listed.entries.is_sorted_by(|a, b| a.0 <= b.0),
            "digests and pages are over sorted names"
        );
        let mut entries = listed.entries;
        let mut unreadable = listed.unreadable;
        // The loop goes from the last page to the first. Each page takes the entries from its first
        // name on.
        for PageKey { first, digest } in pages.into_iter().rev() {
            let from = entries.partition_point(|(name, _)| name.as_bytes() < &first[..]);
            // The entries of the first page are not copied.
            let of_page = match from {
                0 => std::mem::take(&mut entries),
                from => entries.split_off(from),
            };
            let (of_earlier, failed) =
                unreadable.into_iter().partition(|name: &Vec<u8>| *name < first);
            unreadable = of_earlier;
            let sizes = of_page.iter().map(|(_, found)| found.stat.size);
            let bytes = sizes.fold(0, u64::saturating_add);
            self.tally.inspect(of_page.len() as u64, bytes);
            if failed.is_empty() && self.is_unchanged(&task.path, &of_page, digest, buffer) {
                let kept = of_page.len() as u64;
                self.tally.kept.fetch_add(kept, Relaxed);
                continue;
            }
            let segment = Segment {
                dir: Arc::clone(dir),
                path: task.path.clone(),
                first,
                entries: of_page,
                unreadable: failed,
                is_whole: self.expires,
                counts: true,
            };
            // Sending fails only after the session has failed. The reason is then already noted.
            drop(outlet.send(segment));
        }
        assert!(
            entries.is_empty(),
            "each entry has a page, because the first page begins before all names"
        );
    }

    fn is_unchanged(
        &self,
        path: &DirPath,
        entries: &[(Name, ObjectStatus)],
        digest: Option<DirectoryDigest>,
        buffer: &mut Vec<u8>,
    ) -> bool {
        let Some(digest) = digest.filter(|_| !self.ignores_digests) else { return false };
        let stats = entries.iter().map(|(name, found)| (name.as_bytes(), &found.stat));
        self.digester.digest(path, stats, buffer) == digest
    }

    /// Returns the directories to walk next. A mount point is an object of this filespace. The
    /// objects below a mount point are not, unless the walk crosses file systems.
    fn children(&self, task: &mut Task, dir: &Arc<Dir>, listed: &DirectoryEntries) -> Vec<Task> {
        let mut aim = task.aim.take();
        let directories =
            listed.entries.iter().filter(|(_, found)| found.stat.kind == Kind::Directory);
        let descends =
            |found: &ObjectStatus| found.device_id == listed.device_id || self.crosses_filesystems;
        for (name, _) in directories.clone().filter(|(_, found)| !descends(found)) {
            self.note_covered(&task.path.child(name));
        }
        let child = |(name, _): &(Name, ObjectStatus)| {
            let path = task.path.child(name);
            if !path.is_within_limits() {
                self.fail_unreachable(&task.path, &path);
                return None;
            }
            let aim = match &mut aim {
                None => None,
                // An aim that names a directory below names this directory.
                Some(aim) => Some(aim.below.remove(name)?).filter(|aim| !aim.is_subtree),
            };
            let (parent, name) = (Arc::clone(dir), Some(name.clone()));
            let device_id = listed.device_id;
            Some(Task { parent, name, path, device_id, aim, is_listed: true })
        };
        let is_entered = |(name, found): &&(Name, ObjectStatus)| {
            descends(found) && !self.leaves_alone(&task.path, name)
        };
        let mut children: Vec<Task> = directories.filter(is_entered).filter_map(child).collect();
        // The stack returns the last directory first. So directories are walked in the order of
        // paths, in which a restore reads them.
        children.sort_unstable_by(|one, other| other.path.cmp(&one.path));
        children
    }

    /// Notes a directory that another file system covers, for the time after its unmount: changes
    /// below it are known to the journal only until this backup.
    fn note_covered(&self, path: &DirPath) {
        if let Some(notes) = self.notes {
            notes.again_below(path);
        }
    }

    /// Returns the directories to walk next below a directory that is not looked at: those that the
    /// aim names and the rules include.
    fn aimed_children(
        &self,
        task: &mut Task,
        dir: &Arc<Dir>,
        passed: &DirectoryEntries,
    ) -> Vec<Task> {
        let aim = task.aim.take().unwrap_or_default();
        let tag = self.rules.tag_in_unlisted(dir).map(|(_, tag)| tag);
        let is_entered = |name: &Name| {
            let is_left_out = tag.is_some_and(|tag| tag != name.as_bytes());
            !is_left_out
                && self.is_included(&task.path, name, Kind::Directory)
                && !self.leaves_alone(&task.path, name)
        };
        let child = |(name, aim): (Name, Aim)| {
            let path = task.path.child(&name);
            let aim = Some(aim).filter(|aim| !aim.is_subtree);
            let (parent, device_id) = (Arc::clone(dir), passed.device_id);
            Task { parent, name: Some(name), path, device_id, aim, is_listed: false }
        };
        // The stack returns the last directory first.
        let below = aim.below.into_iter().rev();
        below.filter(|(name, _)| is_entered(name)).map(child).collect()
    }
}

/// Returns true if the error means that the object does not exist any more, or is no directory.
fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

impl Walk<'_> {
    /// Counts a directory whose content no server stores as a failure.
    fn fail_unreachable(&self, parent: &DirPath, path: &DirPath) {
        if let Some(notes) = self.notes {
            notes.again(parent);
        }
        let path = absolute_dir(self.filespace, path);
        self.tally.fail(Failure { path, error: NameError::Limits.to_string() });
    }
}

/// Entries of a directory that the rules include.
struct DirectoryEntries {
    device_id: u64,
    entries: Vec<(Name, ObjectStatus)>,
    unreadable: Vec<Vec<u8>>,
}

#[cfg(test)]
mod tests;

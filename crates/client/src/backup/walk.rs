//! The walk: threads share one stack of directories; of each directory they list and stat the
//! entries, and settle at once that it has not changed where its digest says so.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Sender;
use model::{DirPath, DirectoryDigest, Kind, Name, PAGE_OBJECTS_MAX};
use sys::{Dir, Found, Listing};

use super::absolute;
use super::crew::{Crew, Next};
use super::digest::Digester;
use super::inventory::{Inventory, Known};
use super::outbox::Answered;
use super::tally::Tally;
use crate::report::Failure;
use crate::rules::Rules;

/// The entries of one page of a directory, to be examined one by one.
pub(super) struct Segment {
    pub(super) dir: Arc<Dir>,
    pub(super) path: DirPath,
    /// The page's first name; empty for a directory's first page.
    pub(super) first: Vec<u8>,
    /// Sorted by name.
    pub(super) entries: Vec<(Name, Found)>,
    /// Names of this page that are there but could not be looked at.
    pub(super) unreadable: Vec<Vec<u8>>,
    /// Whether `entries` are all that there is in the page's range of names: only then is what is
    /// missing gone, and only then does the page get a digest.
    pub(super) is_whole: bool,
    /// Whether its objects count in the report; the directories above a target do not.
    pub(super) counts: bool,
}

/// A directory to look at.
pub(super) struct Task {
    /// Where it is opened from, until its turn comes.
    pub(super) parent: Arc<Dir>,
    /// `None` for `parent` itself.
    pub(super) name: Option<Name>,
    pub(super) path: DirPath,
    /// Of the directory that it was reached from; it differs below a mount point that is crossed.
    pub(super) device_id: u64,
}

/// Directories that wait. Last in, first out: children before siblings, so few are open at once.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: Vec<Task>,
    busy: usize,
    /// Threads that sleep: to wake nobody is a system call too.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task; `None` once nothing waits and nobody is busy.
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
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        }
    }

    fn done(&self) {
        let mut state = self.state();
        state.busy -= 1;
        if state.busy == 0 {
            self.wake(&state);
        }
    }
}

/// What the walkers of one filespace share.
pub(super) struct Walk<'a> {
    pub(super) filespace: &'a [u8],
    pub(super) queue: &'a Queue,
    pub(super) crew: &'a Crew,
    pub(super) rules: &'a Rules,
    pub(super) digester: &'a Digester,
    pub(super) inventory: &'a Inventory,
    pub(super) tally: &'a Tally,
    pub(super) answered: &'a Answered,
    /// Look at every object, whatever the digests say.
    pub(super) ignores_digests: bool,
    /// Whether what is missing is gone; not so for a selective backup.
    pub(super) expires: bool,
    pub(super) crosses_filesystems: bool,
}

/// Where the walkers' findings go.
#[derive(Clone)]
pub(super) struct Outlets {
    /// Segments that the server has no page of.
    pub(super) unknown: Sender<Segment>,
    /// Segments whose page must be asked for.
    pub(super) changed: Sender<Segment>,
}

impl Walk<'_> {
    /// One walking thread, until the queue is at its end or others are enough. `recruit` starts
    /// another.
    pub(super) fn run(&self, outlets: &Outlets, recruit: impl Fn()) {
        let mut listing = Listing::default();
        let mut buffer = Vec::new();
        while let Some(task) = self.queue.take() {
            if !self.tally.progress.is_stopped() && !self.answered.has_failed() {
                self.visit(&task, &mut listing, &mut buffer, outlets);
            }
            self.queue.done();
            match self.crew.next() {
                Next::GoOn => {}
                Next::Recruit => recruit(),
                Next::Leave => break,
            }
        }
    }

    fn visit(&self, task: &Task, listing: &mut Listing, buffer: &mut Vec<u8>, outlets: &Outlets) {
        let listed = self.crew.measure(|| {
            let dir = match &task.name {
                Some(name) => Arc::new(task.parent.open_dir(name.as_bytes())?),
                None => Arc::clone(&task.parent),
            };
            let found = self.list(&dir, task, listing)?;
            Ok::<_, std::io::Error>((dir, found))
        });
        match listed {
            Ok((dir, Some(found))) => self.sort_out(task, &dir, found, buffer, outlets),
            // Another file system that is not looked into.
            Ok((_, None)) => {}
            Err(error) => {
                let path = task.path.as_bytes();
                let path = path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(path);
                let path = absolute(self.filespace, path);
                self.tally.fail(Failure { path, error: error.to_string() });
            }
        }
    }

    /// Lists the directory; `None` where it is not to be looked into.
    fn list(
        &self,
        dir: &Dir,
        task: &Task,
        listing: &mut Listing,
    ) -> std::io::Result<Option<Listed>> {
        let device_id = dir.stat_self()?.device_id;
        if device_id != task.device_id && !self.enters(dir, task)? {
            return Ok(None);
        }
        dir.list(listing)?;
        let mut listed = Listed { device_id, entries: Vec::new(), unreadable: Vec::new() };
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
        self.tally
            .sockets_skipped
            .fetch_add(sockets, std::sync::atomic::Ordering::Relaxed);
        Ok(Some(listed))
    }

    fn is_included(&self, directory: &DirPath, name: &Name, kind: Kind) -> bool {
        let path = || absolute(self.filespace, &directory.join(name));
        self.rules.ruling(path, kind).verdict.is_included()
    }

    /// Whether the walk goes on in another file system that is mounted here.
    fn enters(&self, dir: &Dir, task: &Task) -> std::io::Result<bool> {
        if !self.crosses_filesystems || dir.is_pseudo()? {
            return Ok(false);
        }
        let path = task.path.as_bytes();
        let path = absolute(self.filespace, path.strip_suffix(b"/").unwrap_or(path));
        Ok(self.rules.excludes_filesystem(&path).is_none())
    }

    fn sort_out(
        &self,
        task: &Task,
        dir: &Arc<Dir>,
        listed: Listed,
        buffer: &mut Vec<u8>,
        outlets: &Outlets,
    ) {
        let mut children = self.children(task, dir, &listed);
        self.queue.push(&mut children);
        let known = self.inventory.get(&task.path);
        let (is_known, pages) = match known {
            Known::Nothing => (false, new_pages(&listed.entries)),
            Known::Pages(pages) => (true, pages),
        };
        let mut entries = listed.entries;
        let mut unreadable = listed.unreadable;
        // From the last page to the first: each takes what lies behind its first name.
        for (first, digest) in pages.into_iter().rev() {
            let from = entries.partition_point(|(name, _)| name.as_bytes() < &first[..]);
            // All of them stay where they are.
            let of_page = match from {
                0 => std::mem::take(&mut entries),
                from => entries.split_off(from),
            };
            let (of_earlier, failed) =
                unreadable.into_iter().partition(|name: &Vec<u8>| *name < first);
            unreadable = of_earlier;
            let bytes = of_page.iter().map(|(_, found)| found.stat.size).sum();
            self.tally.inspect(of_page.len() as u64, bytes);
            if failed.is_empty() && self.is_unchanged(&task.path, &of_page, digest, buffer) {
                let kept = of_page.len() as u64;
                self.tally.kept.fetch_add(kept, std::sync::atomic::Ordering::Relaxed);
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
            let outlet = if is_known { &outlets.changed } else { &outlets.unknown };
            // The stages below end first only when the session has failed; that is told elsewhere.
            drop(outlet.send(segment));
        }
    }

    fn is_unchanged(
        &self,
        path: &DirPath,
        entries: &[(Name, Found)],
        digest: Option<DirectoryDigest>,
        buffer: &mut Vec<u8>,
    ) -> bool {
        let Some(digest) = digest.filter(|_| !self.ignores_digests) else { return false };
        let stats = entries.iter().map(|(name, found)| (name.as_bytes(), &found.stat));
        self.digester.digest(path, stats, buffer) == digest
    }

    /// The directories to look at next. Mount points are objects of this filespace; what is mounted
    /// there is not, unless file systems are crossed.
    fn children(&self, task: &Task, dir: &Arc<Dir>, listed: &Listed) -> Vec<Task> {
        let directories =
            listed.entries.iter().filter(|(_, found)| found.stat.kind == Kind::Directory);
        let descends =
            |found: &Found| found.device_id == listed.device_id || self.crosses_filesystems;
        let mut children: Vec<Task> = directories
            .filter(|(_, found)| descends(found))
            .map(|(name, _)| Task {
                parent: Arc::clone(dir),
                name: Some(name.clone()),
                path: task.path.child(name),
                device_id: listed.device_id,
            })
            .collect();
        // Taken from the end: in the order of paths, in which all will be restored.
        children.sort_unstable_by(|one, other| other.path.cmp(&one.path));
        children
    }
}

struct Listed {
    device_id: u64,
    entries: Vec<(Name, Found)>,
    unreadable: Vec<Vec<u8>>,
}

/// How a directory that the server does not know is divided into pages.
fn new_pages(entries: &[(Name, Found)]) -> Vec<(Vec<u8>, Option<DirectoryDigest>)> {
    let first = std::iter::once((Vec::new(), None));
    let further = entries.chunks(PAGE_OBJECTS_MAX).skip(1);
    first.chain(further.map(|page| (page[0].0.as_bytes().to_vec(), None))).collect()
}

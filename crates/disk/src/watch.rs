//! Records the changes of all disks of the process, and lets planned operations fail.
//!
//! The seam calls these functions instead of the kernel. A change is made and recorded under one
//! lock, so that the journal has the true order. An operation on another file takes no lock while
//! it runs: it may wait for another thread.

use std::backtrace::Backtrace;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sys::lock::{Mutex, MutexGuard};

use crate::folder;
use crate::journal::{Change, Edit, Entry, FileKey, NodeId, ROOT};

/// Ending of the names of files that are memory shared by the connections of a database.
const VOLATILE: &[u8] = b"-shm";

/// A planned fault. Operations are counted from the plan on, beginning with 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The change or sync with this number fails with an I/O error. A write is made in part.
    Change { number: u64 },
    /// The read or opening with this number fails with an I/O error.
    Read { number: u64 },
    /// The disk is full from the growth with this number on. The first write that fails is made in
    /// part.
    Full { number: u64 },
}

/// Numbers of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OperationCounts {
    /// Changes and syncs.
    pub changes: u64,
    /// Reads and openings.
    pub reads: u64,
    /// Changes that take more space. They count as changes too.
    pub growths: u64,
}

/// A name as a program gives it to the kernel.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    Path(&'a Path),
    /// A name in an open folder.
    In(FileKey, &'a [u8]),
}

/// Error number of the C library.
pub(crate) type Errno = i32;

/// Result of a system call.
pub(crate) type Reply = Result<i64, Errno>;

/// State of one disk.
pub(crate) struct Watch {
    root: PathBuf,
    nodes: BTreeMap<FileKey, NodeId>,
    next: NodeId,
    journal: Vec<Change>,
    /// True while the folder is made new: nothing is recorded and nothing fails.
    is_paused: bool,
    fault: Option<Fault>,
    has_failed: bool,
    /// Stack of the operation that failed last.
    failed_at: Option<Arc<Backtrace>>,
    counts: OperationCounts,
    /// Numbers of operations when the fault was planned.
    planned: OperationCounts,
}

/// Number of disks.
static DISK_COUNT: AtomicUsize = AtomicUsize::new(0);
static DISKS: Mutex<BTreeMap<u64, Watch>> = Mutex::new(BTreeMap::new());

/// True if there is any disk.
pub(crate) fn is_active() -> bool {
    DISK_COUNT.load(Ordering::Relaxed) > 0
}

/// Adds a disk with the empty folder `root`.
pub(crate) fn add(root: &Path) -> u64 {
    let nodes = BTreeMap::from([(key_at(root).expect("the folder exists"), ROOT)]);
    let mut disks = DISKS.lock();
    let number = disks.last_key_value().map_or(0, |(last, _)| last + 1);
    let watch = Watch {
        root: root.to_owned(),
        nodes,
        next: NodeId(ROOT.0 + 1),
        journal: Vec::new(),
        is_paused: false,
        fault: None,
        has_failed: false,
        failed_at: None,
        counts: OperationCounts::default(),
        planned: OperationCounts::default(),
    };
    assert!(disks.insert(number, watch).is_none(), "each disk has a number");
    DISK_COUNT.store(disks.len(), Ordering::Relaxed);
    number
}

pub(crate) fn remove(number: u64) {
    let mut disks = DISKS.lock();
    assert!(disks.remove(&number).is_some(), "a disk is removed once");
    DISK_COUNT.store(disks.len(), Ordering::Relaxed);
}

/// Calls `look` with the state of a disk. `look` must not use files.
pub(crate) fn with<T>(number: u64, look: impl FnOnce(&mut Watch) -> T) -> T {
    look(DISKS.lock().get_mut(&number).expect("the disk was added"))
}

/// Stops recording.
pub(crate) fn pause(number: u64) {
    with(number, |disk| disk.is_paused = true);
}

/// Goes on with an empty journal, and with the files and folders in `nodes`.
pub(crate) fn resume(number: u64, nodes: BTreeMap<FileKey, NodeId>) {
    with(number, |disk| {
        assert!(disk.is_paused, "recording was stopped");
        disk.nodes = nodes;
        disk.journal.clear();
        disk.is_paused = false;
    });
}

impl Watch {
    pub(crate) fn changes(&self) -> &[Change] {
        &self.journal
    }

    pub(crate) fn operations(&self) -> OperationCounts {
        self.counts
    }

    /// Replaces the planned fault. Returns true if the previous fault has hit.
    pub(crate) fn plan(&mut self, fault: Option<Fault>) -> bool {
        self.planned = self.counts;
        self.fault = fault;
        std::mem::take(&mut self.has_failed)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    pub(crate) fn failed_at(&self) -> Option<Arc<Backtrace>> {
        self.failed_at.clone()
    }

    /// Counts a read, and decides whether it fails.
    fn begin_read(&mut self) -> Result<(), Errno> {
        let number = self.counts.reads - self.planned.reads;
        self.counts.reads += 1;
        if self.fault == Some(Fault::Read { number }) {
            self.note_failure();
            return Err(libc::EIO);
        }
        Ok(())
    }

    /// Counts a change, and decides whether it fails.
    fn begin_change(&mut self, grows: bool) -> Outcome {
        let change = self.counts.changes - self.planned.changes;
        let growth = self.counts.growths - self.planned.growths;
        self.counts.changes += 1;
        self.counts.growths += u64::from(grows);
        let outcome = match self.fault {
            Some(Fault::Change { number }) if number == change => Outcome::Torn(libc::EIO),
            Some(Fault::Full { number }) if grows && number == growth => {
                Outcome::Torn(libc::ENOSPC)
            }
            Some(Fault::Full { number }) if grows && number < growth => {
                Outcome::Nothing(libc::ENOSPC)
            }
            _ => Outcome::Whole,
        };
        if outcome != Outcome::Whole {
            self.note_failure();
        }
        outcome
    }

    fn note_failure(&mut self) {
        self.has_failed = true;
        // This reads no file: the names of functions are looked up when the stack is shown.
        self.failed_at = Some(Arc::new(Backtrace::force_capture()));
    }

    /// Gives a number to a new file or folder.
    fn number(&mut self, key: FileKey) -> NodeId {
        let node = self.next;
        self.next.0 += 1;
        self.nodes.insert(key, node);
        node
    }

    fn node_at(&self, path: &Path) -> Option<NodeId> {
        self.nodes.get(&key_at(path)?).copied()
    }

    /// Returns the recorded form of a name; `None` if its folder is not recorded.
    fn entry(&self, place: Place<'_>) -> Option<Entry> {
        let (folder, name) = match place {
            Place::In(key, name) => (*self.nodes.get(&key)?, name),
            Place::Path(path) => (self.node_at(path.parent()?)?, path.file_name()?.as_bytes()),
        };
        (!name.ends_with(VOLATILE)).then(|| Entry { folder, name: name.to_vec() })
    }
}

/// Decision about a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Whole,
    /// The change fails, and a write is made in part.
    Torn(Errno),
    Nothing(Errno),
}

impl Outcome {
    /// Fails unless the change is made. This is for changes that are made as a whole.
    fn whole(self) -> Result<(), Errno> {
        match self {
            Self::Whole => Ok(()),
            Self::Torn(errno) | Self::Nothing(errno) => Err(errno),
        }
    }
}

fn key_at(path: &Path) -> Option<FileKey> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some(FileKey { device: found.dev(), inode: found.ino() })
}

/// The disk of an operation. The lock is held while this value lives.
struct Lookup<'a> {
    disks: MutexGuard<'a, BTreeMap<u64, Watch>>,
    number: u64,
}

impl Lookup<'_> {
    fn disk(&mut self) -> &mut Watch {
        self.disks.get_mut(&self.number).expect("it was found")
    }
}

fn find(is_it: impl Fn(&Watch) -> bool) -> Option<Lookup<'static>> {
    let disks = DISKS.lock();
    let found = disks.iter().find(|(_, disk)| !disk.is_paused && is_it(disk));
    let number = *found?.0;
    Some(Lookup { disks, number })
}

fn find_file(file: FileKey) -> Option<(Lookup<'static>, NodeId)> {
    let mut found = find(|disk| disk.nodes.contains_key(&file))?;
    let node = found.disk().nodes[&file];
    Some((found, node))
}

/// Finds the disk of a name, and the recorded form of the name.
fn find_entry(place: Place<'_>) -> Option<(Lookup<'static>, Entry)> {
    let mut found = match place {
        Place::Path(path) => find(|disk| path.starts_with(&disk.root))?,
        Place::In(folder, _) => find(|disk| disk.nodes.contains_key(&folder))?,
    };
    let entry = found.disk().entry(place)?;
    Some((found, entry))
}

/// Function that gives a file a second name, which is on no disk.
pub(crate) type Link = fn(&Path, &Path) -> io::Result<()>;

/// Effects of opening a file.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    /// True if the call empties the file.
    pub(crate) truncates: bool,
    /// True if the call makes the file if it is missing.
    pub(crate) creates: bool,
}

pub(crate) fn open(
    path: &Path,
    opening: Opening,
    link: Link,
    call: impl FnOnce() -> Reply,
) -> Reply {
    let Some((mut found, at)) = find_entry(Place::Path(path)) else { return call() };
    let disk = found.disk();
    let before = key_at(path);
    let is_new = opening.creates && before.is_none();
    if is_new {
        disk.begin_change(true).whole()?;
    } else {
        disk.begin_read()?;
    }
    let opened = call()?;
    if is_new {
        let node = disk.number(key_at(path).expect("the file was made"));
        folder::keep(&disk.root, path, node, link);
        disk.journal.push(Change::Make { at, node, is_folder: false });
    } else if opening.truncates
        && let Some(node) = before.and_then(|key| disk.nodes.get(&key))
    {
        let edit = Edit::Resize { length: 0 };
        disk.journal.push(Change::Edit { node: *node, edit });
    }
    Ok(opened)
}

pub(crate) fn make_folder(path: &Path, call: impl FnOnce() -> Reply) -> Reply {
    let Some((mut found, at)) = find_entry(Place::Path(path)) else { return call() };
    let disk = found.disk();
    disk.begin_change(true).whole()?;
    let made = call()?;
    let node = disk.number(key_at(path).expect("the folder was made"));
    disk.journal.push(Change::Make { at, node, is_folder: true });
    Ok(made)
}

pub(crate) fn rename(from: &Path, to: &Path, call: impl FnOnce() -> Reply) -> Reply {
    let Some((mut found, source)) = find_entry(Place::Path(from)) else { return call() };
    let disk = found.disk();
    disk.begin_change(false).whole()?;
    let (node, target) = (disk.node_at(from), disk.entry(Place::Path(to)));
    let renamed = call()?;
    let node = node.expect("every file of the disk is recorded");
    let to = target.expect("files stay on their disk");
    disk.journal.push(Change::Move { from: source, to, node });
    Ok(renamed)
}

pub(crate) fn link(from: &Path, to: &Path, call: impl FnOnce() -> Reply) -> Reply {
    let Some((mut found, at)) = find_entry(Place::Path(to)) else { return call() };
    let disk = found.disk();
    disk.begin_change(true).whole()?;
    let linked = call()?;
    let node = disk.node_at(from).expect("every file of the disk is recorded");
    disk.journal.push(Change::Link { at, node });
    Ok(linked)
}

pub(crate) fn remove_name(place: Place<'_>, call: impl FnOnce() -> Reply) -> Reply {
    let Some((mut found, at)) = find_entry(place) else { return call() };
    let disk = found.disk();
    disk.begin_change(false).whole()?;
    let removed = call()?;
    disk.journal.push(Change::Remove { at });
    Ok(removed)
}

pub(crate) fn read(file: FileKey, call: impl FnOnce() -> Reply) -> Reply {
    if let Some((mut found, _)) = find_file(file) {
        found.disk().begin_read()?;
    }
    call()
}

/// Writes `bytes` at `offset` to a file of `length` bytes. `call` writes so many bytes.
pub(crate) fn write(
    file: FileKey,
    length: u64,
    offset: u64,
    bytes: &[u8],
    call: impl FnOnce(usize) -> Reply,
) -> Reply {
    let Some((mut found, node)) = find_file(file) else { return call(bytes.len()) };
    let disk = found.disk();
    let grows = offset + bytes.len() as u64 > length;
    let outcome = disk.begin_change(grows);
    let count = match outcome {
        Outcome::Whole => bytes.len(),
        Outcome::Torn(_) => bytes.len() / 2,
        Outcome::Nothing(errno) => return Err(errno),
    };
    let written = call(count)?;
    let written_bytes = usize::try_from(written).expect("a count");
    let offset = usize::try_from(offset).expect("files of tests are small");
    let edit = Edit::Write { offset, bytes: bytes[..written_bytes].to_vec() };
    disk.journal.push(Change::Edit { node, edit });
    outcome.whole()?;
    Ok(written)
}

pub(crate) fn resize(file: FileKey, length: i64, call: impl FnOnce() -> Reply) -> Reply {
    let Some((mut found, node)) = find_file(file) else { return call() };
    let disk = found.disk();
    disk.begin_change(false).whole()?;
    let resized = call()?;
    let length = usize::try_from(length).expect("the kernel refuses others");
    disk.journal.push(Change::Edit { node, edit: Edit::Resize { length } });
    Ok(resized)
}

/// Syncs a file or folder. For a file of a disk, nothing is written: only the journal decides what
/// is durable.
pub(crate) fn sync(file: FileKey, call: impl FnOnce() -> Reply) -> Reply {
    let Some((mut found, node)) = find_file(file) else { return call() };
    let disk = found.disk();
    let outcome = disk.begin_change(false).whole();
    disk.journal.push(Change::Sync { node, has_failed: outcome.is_err() });
    outcome.map(|()| 0)
}

//! A disk that loses power, fails and fills up, for tests. It lies under real files: it records all
//! that the process changes below one folder, and makes of this folder what a power cut may leave.
//!
//! ```text
//!   std, SQLite -> seam (open, write, fsync, rename, ...) -> kernel -> files below the folder
//!                    |  ^ faults                                            ^
//!                    v  |                                                   |
//!                  watch --journal--> image --choice--> remains --folder----+
//! ```
//!
//! The functions of the C library are replaced in each program that links this crate (`seam`). So
//! the code under test is the code of a release, with SQLite, and no operation can be forgotten.
//!
//! Rules by which the image decides what is durable:
//! 1. The content of a file is durable after a sync of the file; a name is durable after a sync of
//!    its folder. One does not imply the other.
//! 2. Every other write is kept, dropped, or torn between two sectors, whatever happens to other
//!    writes. A write that is dropped may leave zeros where it has extended the file.
//! 3. A rename is atomic. Changes of names are kept or dropped one by one, in any combination.
//! 4. After a sync of a file that failed, nothing makes the writes before it durable any more: the
//!    kernel has forgotten them. They may still have reached the disk. Changes of names are not
//!    forgotten: the next sync of their folder that succeeds makes them durable.
//! 5. SQLite's memory beside a database (`-shm`) does not survive.
//!
//! Deliberately absent: sectors that go bad later, a disk that acknowledges a sync and lies, modes
//! and times of files, and writes through memory maps or by system calls that bypass the C library.
//! [`Disk::check_complete`] finds a write that was not recorded.

mod choice;
mod folder;
mod image;
mod journal;
mod random;
#[expect(unsafe_code, reason = "functions of the C library are replaced")]
mod seam;
mod watch;

use std::backtrace::Backtrace;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{Image, Remains};
use journal::Change;

pub use choice::Loss;
pub use random::Random;
pub use watch::{Fault, OperationCounts};

/// A folder on a simulated disk. The folder is removed when the disk is dropped.
pub struct Disk {
    number: u64,
    root: PathBuf,
    /// State of the disk at the beginning of the journal.
    image: Image,
}

/// Changes of a disk since its last power cut, and its state before them.
pub struct History {
    image: Image,
    changes: Vec<Change>,
}

impl Disk {
    /// Makes the new folder `root` on a simulated disk. The path must be absolute and without
    /// symbolic links.
    pub fn new(root: &Path) -> Self {
        assert!(root.is_absolute(), "paths are compared with the root");
        folder::make(root).expect("the folder is new");
        let number = watch::add(root);
        Self { number, root: root.to_owned(), image: Image::default() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Number of changes since the last power cut.
    pub fn position(&self) -> usize {
        watch::with(self.number, |disk| disk.changes().len())
    }

    /// Returns the history since the last power cut, which goes on.
    pub fn history(&self) -> History {
        let changes = watch::with(self.number, |disk| disk.changes().to_vec());
        History { image: self.image.clone(), changes }
    }

    /// Makes of the folder what a power cut leaves after the first `position` changes of `history`.
    /// No file of the folder may be open.
    pub fn leave(&mut self, history: &History, position: usize, loss: Loss) {
        self.begin_with(&history.remains(position, loss));
    }

    /// Gives the files at `paths` the content that they had after the first `position` changes, as
    /// a snapshot does that is put back. A file that was absent then is removed. All other files
    /// stay as they are. Everything is durable then, and no planned fault hits these changes. No
    /// file of the folder may be open.
    ///
    /// Returns false and changes nothing if the first file was another one then, or was absent.
    pub fn put_back(&mut self, position: usize, paths: &[PathBuf]) -> bool {
        let history = self.history();
        let then = history.remains(position, Loss::Nothing);
        let mut remains = history.remains(history.position(), Loss::Nothing);
        let below = |path: &PathBuf| {
            path.strip_prefix(&self.root).expect("the path is on the disk").to_owned()
        };
        let paths: Vec<PathBuf> = paths.iter().map(below).collect();
        let is_there = remains.put_back(&paths, &then);
        if is_there {
            self.begin_with(&remains);
        }
        is_there
    }

    /// Makes the folder hold `remains`, and begins a new history.
    fn begin_with(&mut self, remains: &Remains) {
        watch::pause(self.number);
        let places = folder::write(&self.root, remains).expect("the folder can be written");
        watch::resume(self.number, places);
        self.image = Image::of(remains);
    }

    /// Cuts the power after the first `position` changes.
    pub fn cut(&mut self, position: usize, loss: Loss) {
        let history = self.history();
        self.leave(&history, position, loss);
    }

    /// Plans a fault. It replaces a fault that was planned before.
    pub fn plan(&self, fault: Fault) {
        watch::with(self.number, |disk| disk.plan(Some(fault)));
    }

    /// Ends the planned fault. Returns true if an operation has failed because of it.
    pub fn relieve(&self) -> bool {
        watch::with(self.number, |disk| disk.plan(None))
    }

    /// True if an operation has failed because of the planned fault.
    pub fn has_failed(&self) -> bool {
        watch::with(self.number, |disk| disk.has_failed())
    }

    /// Stack of the operation that failed last because of a planned fault.
    pub fn failed_at(&self) -> Option<Arc<Backtrace>> {
        watch::with(self.number, |disk| disk.failed_at())
    }

    /// Numbers of operations so far that a fault can hit.
    pub fn operations(&self) -> OperationCounts {
        watch::with(self.number, |disk| disk.operations())
    }

    /// Panics if the folder differs from what its history says, because a change was not recorded.
    pub fn check_complete(&self) {
        let mut image = self.image.clone();
        let history = self.history();
        history.changes.iter().for_each(|change| image.advance(change));
        let expected = image.remains(Loss::Nothing);
        let missing = folder::difference(&self.root, &expected).expect("the folder can be read");
        assert_eq!(missing, None, "a change was not recorded");
    }
}

impl History {
    /// Number of changes.
    pub fn position(&self) -> usize {
        self.changes.len()
    }

    /// Returns what a power cut leaves after the first `position` changes.
    fn remains(&self, position: usize, loss: Loss) -> Remains {
        let mut image = self.image.clone();
        self.changes[..position].iter().for_each(|change| image.advance(change));
        image.remains(loss)
    }

    /// Returns the positions right before and right after each sync.
    pub fn syncs(&self) -> Vec<usize> {
        let is_sync = |change: &Change| matches!(change, Change::Sync { .. });
        let numbered = (0..).zip(&self.changes).filter(|(_, change)| is_sync(change));
        let mut positions: Vec<usize> = numbered.flat_map(|(at, _)| [at, at + 1]).collect();
        positions.dedup();
        positions
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        watch::remove(self.number);
        // A folder that cannot be removed does not change the outcome of a test.
        drop(folder::remove(&self.root));
    }
}

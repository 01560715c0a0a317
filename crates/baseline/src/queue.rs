//! The directories of a tree, for threads that read them together.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sys::Dir;
use sys::lock::{Condvar, Mutex};

/// A directory that no thread has read yet.
pub(crate) struct Unread {
    pub(crate) path: PathBuf,
    /// The directory that it is in, open; `None` for the root of the walk.
    pub(crate) parent: Option<Arc<Dir>>,
}

impl Unread {
    /// Opens the directory by its name in the open directory that it is in.
    pub(crate) fn open(&self) -> io::Result<Dir> {
        match self.parent.as_ref().zip(self.path.file_name()) {
            Some((parent, name)) => parent.open_dir(name.as_bytes()),
            None => Dir::open(self.path.as_os_str().as_bytes()),
        }
    }
}

/// The directories of a tree that no thread has read yet. Threads take them and add those that they
/// find.
pub(crate) struct Queue {
    waiting: Mutex<WaitingDirectories>,
    changed: Condvar,
}

#[derive(Default)]
struct WaitingDirectories {
    directories: Vec<Unread>,
    /// Number of threads that read a directory, which may add others.
    busy: usize,
}

impl Queue {
    pub(crate) fn new(root: &Path) -> Self {
        let directories = vec![Unread { path: root.to_owned(), parent: None }];
        let waiting = Mutex::new(WaitingDirectories { directories, busy: 0 });
        Self { waiting, changed: Condvar::new() }
    }

    /// Waits for a directory. Returns `None` once all are read.
    pub(crate) fn next(&self) -> Option<Unread> {
        let mut waiting = self.waiting.lock();
        loop {
            // The newest first: the queue stays as short as the tree is deep.
            if let Some(directory) = waiting.directories.pop() {
                waiting.busy += 1;
                return Some(directory);
            }
            if waiting.busy == 0 {
                self.changed.notify_all();
                return None;
            }
            waiting = self.changed.wait(waiting);
        }
    }

    pub(crate) fn done(&self, found: Vec<Unread>) {
        let mut waiting = self.waiting.lock();
        waiting.busy -= 1;
        waiting.directories.extend(found);
        self.changed.notify_all();
    }
}

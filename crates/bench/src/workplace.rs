//! The temporary folder for all files that a bench makes.

use std::io;
use std::path::{Path, PathBuf};

use e2e::folder::Folder;
use e2e::scratch::release;
use tempfile::TempDir;

use crate::output;
use crate::trouble::{Context as _, Trouble};
use crate::walk::Tally;

/// Maximum number of bytes that an object takes besides its data, at the server or when it is
/// restored.
const OBJECT_BYTES: u64 = 4096;

/// Number of copies of the tree in a round: one in the pool and one that is restored.
const COPIES: u64 = 2;

/// Type of a tmpfs in `statfs`.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// A temporary folder. Dropping the value removes the folder, even if there are immutable files in
/// it.
#[derive(Debug)]
pub(crate) struct Workplace {
    dir: TempDir,
}

impl Workplace {
    /// Makes the folder in TMPDIR. TMPDIR must not be in `tree`, because otherwise a backup of
    /// `tree` would include its own files.
    pub(crate) fn new(tree: &Path) -> Result<Self, Trouble> {
        Self::below(&std::env::temp_dir(), tree)
    }

    /// Makes the folder in `parent`, which must not be in `tree`.
    pub(crate) fn below(parent: &Path, tree: &Path) -> Result<Self, Trouble> {
        let what = || format!("make a folder in {}", parent.display());
        let resolved = parent.canonicalize().while_doing(what)?;
        if resolved.starts_with(tree) {
            return Err(Trouble::new(format!(
                "the temporary folder {1} is in the tree {0}: \
                 work in a folder outside the tree, by --work or TMPDIR",
                tree.display(),
                resolved.display()
            )));
        }
        let dir = tempfile::Builder::new().prefix("hfb").tempdir_in(&resolved);
        Ok(Self { dir: dir.while_doing(what)? })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Makes the folder `name` and returns its path.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, Trouble> {
        let path = self.path().join(name);
        std::fs::create_dir(&path).while_doing(|| format!("make {}", path.display()))?;
        Ok(path)
    }

    /// Returns true if the folder is in a tmpfs. There, deleting files does not slow down later
    /// work, and keeping files takes memory.
    pub(crate) fn is_memory(&self) -> Result<bool, Trouble> {
        let what = || format!("find the file system of {}", self.path().display());
        Ok(rustix::fs::statfs(self.path()).while_doing(what)?.f_type == TMPFS_MAGIC)
    }

    /// Fails if the copies of a tree with `tally` in `rounds` rounds do not fit on the disk.
    pub(crate) fn check_room(&self, tally: &Tally, rounds: usize) -> Result<(), Trouble> {
        let rounds = u64::try_from(rounds).unwrap_or(u64::MAX);
        let needed = tree_bytes(tally).saturating_mul(COPIES).saturating_mul(rounds);
        self.check_bytes(needed, &output::counted(rounds, "round"))
    }

    /// Fails if `needed` bytes do not fit on the disk. `what` names their purpose in the error.
    pub(crate) fn check_bytes(&self, needed: u64, what: &str) -> Result<(), Trouble> {
        let asking = || format!("find the free space of {}", self.path().display());
        let free = sys::durable::free_bytes(self.path()).while_doing(asking)?;
        if needed < free {
            return Ok(());
        }
        let (needed, free) = (needed >> 20, free >> 20);
        let parent = self.path().parent().unwrap_or(Path::new("/")).display();
        Err(Trouble::new(format!(
            "{what} may need {needed} MiB, but {parent} has only {free} MiB free: \
             use fewer --rounds, or work in another folder"
        )))
    }
}

/// Returns the maximum number of bytes that a copy of a tree takes.
pub(crate) fn tree_bytes(tally: &Tally) -> u64 {
    tally.bytes + tally.objects * OBJECT_BYTES
}

/// Removes `folder`, even with immutable files in it.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    release(&Folder::open(folder)?)?;
    std::fs::remove_dir_all(folder)
}

/// Removes `folder` if it is in memory. On a disk all files stay until the end, see `main.rs`.
pub(crate) fn clear(folder: &Path, in_memory: bool) -> Result<(), Trouble> {
    if !in_memory {
        return Ok(());
    }
    remove(folder).while_doing(|| format!("remove {}", folder.display()))
}

/// Returns the canonical path of the directory `tree`.
pub(crate) fn resolve(tree: &Path) -> Result<PathBuf, Trouble> {
    let tree = tree.canonicalize().while_doing(|| format!("find {}", tree.display()))?;
    let message = || format!("{} must be a directory", tree.display());
    if tree.is_dir() { Ok(tree) } else { Err(Trouble::new(message())) }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        output::step("removing the temporary files");
        match remove(self.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                output::warning(&format!(
                    "cannot remove {}, remove it by hand: {error}",
                    self.path().display()
                ));
            }
            _ => {}
        }
    }
}

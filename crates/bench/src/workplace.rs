//! The temporary folder with everything that a bench makes.

use std::io;
use std::path::{Path, PathBuf};

use e2e::folder::Folder;
use e2e::scratch::release;
use tempfile::TempDir;

use crate::output;
use crate::trouble::{Trouble, While as _};
use crate::walk::Tally;

/// Maximum number of bytes that an object takes besides its data, in the server and restored.
const OBJECT_BYTES: u64 = 4096;

/// Number of copies of the tree in a round: one in the pool, one restored.
const COPIES: u64 = 2;

/// Type of a tmpfs in `statfs`.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// A temporary folder. Dropping the value removes it, even if it has immutable files.
#[derive(Debug)]
pub(crate) struct Workplace {
    dir: TempDir,
}

impl Workplace {
    /// Makes the folder in TMPDIR, which must not lie in `tree`: otherwise a backup would see its
    /// own files.
    pub(crate) fn new(tree: &Path) -> Result<Self, Trouble> {
        Self::below(&std::env::temp_dir(), tree)
    }

    /// Makes the folder in `parent`, which must not lie in `tree`.
    pub(crate) fn below(parent: &Path, tree: &Path) -> Result<Self, Trouble> {
        let what = || format!("make a folder in {}", parent.display());
        let resolved = parent.canonicalize().while_doing(what)?;
        if resolved.starts_with(tree) {
            return Err(Trouble::new(format!(
                "{} holds the temporary folder {}: name another one in TMPDIR",
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

    /// Returns true in a tmpfs: there, deleting files does not slow later ones down, and keeping
    /// them takes memory.
    pub(crate) fn is_memory(&self) -> Result<bool, Trouble> {
        let what = || format!("ask for the file system of {}", self.path().display());
        Ok(rustix::fs::statfs(self.path()).while_doing(what)?.f_type == TMPFS_MAGIC)
    }

    /// Fails if `rounds` of a tree with `tally` do not fit on the disk.
    pub(crate) fn check_room(&self, tally: &Tally, rounds: usize) -> Result<(), Trouble> {
        let rounds = u64::try_from(rounds).unwrap_or(u64::MAX);
        let needed = tree_bytes(tally).saturating_mul(COPIES).saturating_mul(rounds);
        self.check_bytes(needed, &format!("{rounds} rounds"))
    }

    /// Fails if `needed` bytes for `what` do not fit.
    pub(crate) fn check_bytes(&self, needed: u64, what: &str) -> Result<(), Trouble> {
        let asking = || format!("ask how much is free in {}", self.path().display());
        let free = sys::durable::free_bytes(self.path()).while_doing(asking)?;
        if needed < free {
            return Ok(());
        }
        let (needed, free) = (needed >> 20, free >> 20);
        let parent = self.path().parent().unwrap_or(Path::new("/")).display();
        Err(Trouble::new(format!(
            "{what} may take {needed} MiB, {parent} has {free} MiB free: \
             use fewer --rounds, or work in another folder"
        )))
    }
}

/// Returns the maximum number of bytes of a copy of a tree.
pub(crate) fn tree_bytes(tally: &Tally) -> u64 {
    tally.bytes + tally.objects * OBJECT_BYTES
}

/// Removes `folder`, even with immutable files in it.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    release(&Folder::open(folder)?)?;
    std::fs::remove_dir_all(folder)
}

/// Removes `folder` if it takes memory. On a disk everything stays to the end, see `main.rs`.
pub(crate) fn clear(folder: &Path, in_memory: bool) -> Result<(), Trouble> {
    if !in_memory {
        return Ok(());
    }
    remove(folder).while_doing(|| format!("remove {}", folder.display()))
}

/// Returns the canonical path of the directory `tree`.
pub(crate) fn resolve(tree: &Path) -> Result<PathBuf, Trouble> {
    let tree = tree.canonicalize().while_doing(|| format!("find {}", tree.display()))?;
    let message = || format!("{} is no directory", tree.display());
    if tree.is_dir() { Ok(tree) } else { Err(Trouble::new(message())) }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        output::step("removing what was made");
        match remove(self.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                output::warning(&format!("{} is left: {error}", self.path().display()));
            }
            _ => {}
        }
    }
}

//! A temporary folder that is removed even if it has immutable, append-only or locked objects.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, IFlags};

use crate::folder::Folder;

#[derive(Debug)]
pub struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    /// Makes a folder with a short path: a socket below it must fit in 108 bytes.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("hf").tempdir();
        Self { dir: dir.unwrap_or_else(|error| panic!("cannot make a temporary folder: {error}")) }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the path of `name` below this folder; does not create it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes the folder `name` and returns its path.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir_all(&path)
            .unwrap_or_else(|error| panic!("cannot make {path:?}: {error}"));
        path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be released stays in the temporary folder of the system; the test's
        // own result matters more.
        drop(Folder::open(self.path()).and_then(|folder| release(&folder)));
    }
}

/// Clears flags and modes that prevent the removal of the objects below `folder`.
pub fn release(folder: &Folder) -> io::Result<()> {
    let fences = IFlags::IMMUTABLE | IFlags::APPEND;
    for name in folder.names()? {
        let stat = folder.stat(&name)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_directory = kind == FileType::Directory;
        if !is_directory && kind != FileType::RegularFile {
            continue;
        }
        if let Ok(Some(flags)) = folder.flags(&name)
            && flags.intersects(fences)
        {
            folder.set_flags(&name, flags.difference(fences))?;
        }
        if is_directory {
            if stat.st_mode & 0o700 != 0o700 {
                folder.set_mode(&name, 0o700)?;
            }
            release(&folder.child(&name)?)?;
        }
    }
    Ok(())
}

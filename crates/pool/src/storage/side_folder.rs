//! The mark of a pool, and the files beside its packs, in a local folder.

use std::io;
use std::path::{Path, PathBuf};

use super::SideFiles;
use crate::mark::{self, Mark};
use crate::owner::{self, OWNER_FILE, Owner};

/// Subfolder for the files beside the packs.
const FOLDER: &str = "catalogue";

pub(super) struct SideFolder {
    /// Folder of the pool.
    pub(super) pool: PathBuf,
}

impl SideFiles for SideFolder {
    fn place(&self) -> PathBuf {
        self.pool.clone()
    }

    fn read_mark(&self) -> io::Result<Option<Mark>> {
        // A file that cannot be read does not count as a mark: a pool on a failing disk is
        // unavailable.
        Ok(mark::read_mark(&self.pool))
    }

    fn write_mark(&self, mark: Mark) -> io::Result<()> {
        mark::mark(&self.pool, mark)
    }

    fn remove_mark(&self) -> io::Result<()> {
        mark::unmark(&self.pool)?;
        remove(&self.pool.join(OWNER_FILE))
    }

    fn read_owner(&self) -> io::Result<Option<Owner>> {
        match std::fs::read(self.pool.join(OWNER_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => owner::parse_file(&read?).map(Some),
        }
    }

    fn write_owner(&self, owner: Owner) -> io::Result<()> {
        sys::durable::write(&self.pool.join(OWNER_FILE), owner.text().as_bytes(), 0o644)
    }

    fn file_of(&self, name: &str) -> Option<PathBuf> {
        Some(self.pool.join(FOLDER).join(name))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.pool.join(FOLDER);
        match sys::durable::create_dir(&folder, 0o700) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        sys::durable::write(&folder.join(name), bytes, 0o600)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(self.pool.join(FOLDER)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        std::fs::read(self.pool.join(FOLDER).join(name))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        remove(&self.pool.join(FOLDER).join(name))
    }
}

/// Removes a file, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beside_the_packs_are_whole_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let side = SideFolder { pool: folder.path().to_owned() };
        assert!(side.names().unwrap().is_empty());
        side.remove("b").expect("a file that is gone is removed already");
        for (name, bytes) in [("b", "first"), ("a", "other"), ("b", "second")] {
            side.write(name, bytes.as_bytes()).unwrap();
        }
        assert_eq!(side.names().unwrap(), ["a", "b"]);
        assert_eq!(side.read("b").unwrap(), b"second");
        side.remove("b").unwrap();
        assert_eq!(side.read("b").expect_err("removed").kind(), io::ErrorKind::NotFound);
        assert_eq!(side.names().unwrap(), ["a"]);
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_away() {
        let folder = tempfile::tempdir().unwrap();
        let (mark, pool) = (Mark([5; 16]), folder.path().join("pool"));
        let side = SideFolder { pool: pool.clone() };
        assert!(!side.is_marked(mark), "the disk is not mounted");
        assert!(side.write("a", b"x").is_err(), "nothing is written below a mount point");
        assert!(pool.symlink_metadata().is_err());
        std::fs::create_dir(&pool).unwrap();
        side.write_mark(mark).unwrap();
        assert!(side.is_marked(mark) && !side.is_marked(Mark([6; 16])));
        // A list that cannot be read is not an empty list.
        std::fs::write(pool.join(FOLDER), b"no folder").unwrap();
        assert!(side.names().is_err());
        side.remove_mark().unwrap();
        assert!(!side.is_marked(mark));
    }
}

//! The mark of a pool: a file beside its packs that says to which pool they belong.
//!
//! The mark distinguishes a pool that has lost all its packs from a folder whose disk is not
//! mounted. Without its mark a pool is unavailable: nothing is written there, and no pack counts as
//! lost.

use std::io;
use std::path::Path;

use data_encoding::HEXLOWER;

/// Name of the mark's file in a folder, and of its object in a bucket.
pub(crate) const MARK_FILE: &str = "holdfast-pool";

/// Identity of a pool: random bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark(pub [u8; 16]);

impl Mark {
    pub(crate) fn text(self) -> String {
        let text = HEXLOWER.encode(&self.0) + "\n";
        assert_eq!(Self::parse(text.as_bytes()), Some(self), "a reader finds the same mark");
        text
    }

    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mark = HEXLOWER.decode(text.strip_suffix(b"\n")?).ok()?;
        mark.try_into().ok().map(Self)
    }
}

/// Returns the error for a place that has the mark of another pool.
pub(crate) fn marked_by_another(what: &str) -> io::Error {
    let text = format!("{what} is a pool already, of this server or of another");
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

/// Marks the folder of a new pool. Fails with `AlreadyExists` if it has the mark of another pool.
pub fn mark(folder: &Path, mark: Mark) -> io::Result<()> {
    match read_mark(folder) {
        Some(found) if found == mark => Ok(()),
        Some(_) => Err(marked_by_another("the folder")),
        None => sys::durable::write(&folder.join(MARK_FILE), mark.text().as_bytes(), 0o644),
    }
}

/// Returns the mark of a folder, if it has one.
pub(crate) fn read_mark(folder: &Path) -> Option<Mark> {
    Mark::parse(&std::fs::read(folder.join(MARK_FILE)).ok()?)
}

/// Removes the mark of a folder that is no longer a pool.
pub(crate) fn unmark(folder: &Path) -> io::Result<()> {
    match std::fs::remove_file(folder.join(MARK_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Keeps other processes from using the folder of a pool until the lock is dropped. Returns `None`
/// while another process has the lock.
pub fn lock(folder: &Path) -> io::Result<Option<sys::durable::Lock>> {
    sys::durable::Lock::try_exclusive(&folder.join(MARK_FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark([0xa5; 16]);

    #[test]
    fn a_folder_belongs_to_one_pool() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_mark(folder.path()), None);
        mark(folder.path(), MARK).unwrap();
        mark(folder.path(), MARK).expect("its own mark is there already");
        let error = mark(folder.path(), Mark([1; 16])).expect_err("another pool's");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(read_mark(folder.path()), Some(MARK));
        unmark(folder.path()).unwrap();
        unmark(folder.path()).expect("a mark that is gone is off already");
        mark(folder.path(), Mark([1; 16])).expect("it is nobody's");
    }

    #[test]
    fn a_damaged_mark_is_none() {
        let good = MARK.text();
        assert_eq!(Mark::parse(good.as_bytes()), Some(MARK));
        let long = format!("a5{good}");
        for text in ["", "\n", good.trim_end(), &good[1..], &long, &good.to_uppercase()] {
            assert_eq!(Mark::parse(text.as_bytes()), None, "{text:?}");
        }
        for at in 0..good.len() {
            let mut bytes = good.clone().into_bytes();
            bytes[at] = b'x';
            assert_eq!(Mark::parse(&bytes), None, "{at}");
        }
    }

    #[test]
    fn two_processes_do_not_use_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        mark(folder.path(), MARK).unwrap();
        let first = lock(folder.path()).unwrap().expect("nobody has it");
        assert!(lock(folder.path()).unwrap().is_none());
        drop(first);
        assert!(lock(folder.path()).unwrap().is_some());
    }
}

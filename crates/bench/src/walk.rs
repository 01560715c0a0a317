//! The bare walk: a lower limit of the time that a program needs to look at every object of a tree.
//!
//! One thread makes one `openat` and its `getdents64` calls for each directory, and one `fstatat`
//! for each object, and keeps nothing. The walk stays on one file system, as a backup does.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, openat, statat};
use rustix::io::Errno;

use crate::trouble::{Context as _, Trouble};

/// Maximum number of bytes that one `getdents64` returns.
const BUFFER_BYTES: usize = 64 << 10;

/// Contents of a tree.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Tally {
    /// Number of objects, with the top directory and without sockets, which are not backed up.
    pub(crate) objects: u64,
    pub(crate) files: u64,
    /// Sizes of the regular files together. A file with several names counts for each name.
    pub(crate) bytes: u64,
    /// Number of objects that could not be listed or examined.
    pub(crate) unreadable: u64,
}

/// A directory whose subdirectories are being visited.
struct Level {
    fd: OwnedFd,
    subdirectories: Vec<CString>,
}

/// Walks the tree below `top` and counts what is in it.
pub(crate) fn walk(top: &Path) -> Result<Tally, Trouble> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd =
        openat(CWD, top, flags, Mode::empty()).while_doing(|| format!("open {}", top.display()))?;
    let device = rustix::fs::fstat(&fd).while_doing(|| format!("stat {}", top.display()))?.st_dev;
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
    let mut tally = Tally { objects: 1, ..Tally::default() };
    let mut levels = vec![list(fd, device, &mut buffer, &mut tally)];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.subdirectories.pop() else {
            levels.pop();
            continue;
        };
        match openat(&level.fd, &name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(fd) => levels.push(list(fd, device, &mut buffer, &mut tally)),
            Err(_) => tally.unreadable += 1,
        }
    }
    Ok(tally)
}

/// Asks for the status of each object in the directory `fd`, and notes the subdirectories to enter.
fn list(fd: OwnedFd, device: u64, buffer: &mut [MaybeUninit<u8>], tally: &mut Tally) -> Level {
    let mut subdirectories = Vec::new();
    let mut names = RawDir::new(&fd, buffer);
    while let Some(entry) = names.next() {
        let Ok(entry) = entry else {
            tally.unreadable += 1;
            break;
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let stat = match statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => continue,
            Err(_) => {
                tally.unreadable += 1;
                continue;
            }
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket => continue,
            FileType::Directory if stat.st_dev == device => subdirectories.push(name.to_owned()),
            FileType::RegularFile => {
                tally.files += 1;
                tally.bytes += u64::try_from(stat.st_size).unwrap_or(0);
            }
            _ => {}
        }
        tally.objects += 1;
    }
    Level { fd, subdirectories }
}

/// Reads the tree into the page cache, so that the first measurement does not have to read it from
/// the disk.
pub(crate) fn read_all(folder: &Path) -> Result<(), Trouble> {
    crate::process::check_interrupted()?;
    let entries = std::fs::read_dir(folder);
    for entry in entries.while_doing(|| format!("list {}", folder.display()))?.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            // An error does not matter: a backup cannot read the object either.
            drop(read_all(&entry.path()));
        } else if kind.is_file()
            && let Ok(mut file) = std::fs::File::open(entry.path())
        {
            drop(std::io::copy(&mut file, &mut std::io::sink()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_below_the_top_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("a/b/c")).unwrap();
        std::fs::write(at("a/file"), b"12345").unwrap();
        std::fs::write(at("a/b/c/file"), b"123").unwrap();
        std::os::unix::fs::symlink("a", at("link")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(at("socket")).unwrap());
        let expected = Tally { objects: 7, files: 2, bytes: 8, unreadable: 0 };
        assert_eq!(walk(dir.path()), Ok(expected));
    }

    #[test]
    fn a_missing_top_is_named() {
        let message = walk(Path::new("/nonexistent/tree")).unwrap_err().to_string();
        assert!(message.contains("cannot open /nonexistent/tree"), "{message}");
    }
}

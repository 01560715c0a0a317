//! Files that survive a power cut, and locks that do not survive their process.
//!
//! The order everywhere: content, fsync of the file, the name (rename), fsync of the folder. After
//! a success the change is on the medium. An earlier crash leaves the old state, and at most one
//! more file `.holdfast-*` in the folder, which nobody reads.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;
use std::time::UNIX_EPOCH;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::entropy;

/// Replaces the file at `path` by `bytes`, atomically and durably, with exactly `mode`.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = folder_of(path);
    let temporary = folder.join(entropy::name(".holdfast-"));
    let written = write_new(&temporary, bytes, mode).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // The error of the write is reported; an error of this removal is not.
        drop(fs::remove_file(&temporary));
        return Err(error);
    }
    sync_dir(folder)
}

/// Returns true if a file that could not be read because of `error` cannot be read later either:
/// its disk or its file system is damaged, or it is a directory.
pub fn is_lost(error: &io::Error) -> bool {
    let damage = [Errno::IO, Errno::BADMSG, Errno::UCLEAN, Errno::ISDIR];
    error
        .raw_os_error()
        .is_some_and(|number| damage.map(Errno::raw_os_error).contains(&number))
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode & 0o700).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

/// Makes the names in the directory `path` durable.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes the directory `path` with exactly `mode`, durably. Its parent must exist, and `path` must
/// not.
pub fn create_dir(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode & 0o700).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    sync_dir(path)?;
    sync_dir(folder_of(path))
}

/// Makes the directory `path` with exactly `mode`, and each parent that is missing, durably.
/// Directories that exist are left as they are.
pub fn create_dir_all(path: &Path, mode: u32) -> io::Result<()> {
    match create_dir(path, mode) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && folder_of(path) != path => {
            create_dir_all(folder_of(path), mode)?;
            create_dir(path, mode)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// Returns the number of bytes that an unprivileged process may still write to the file system that
/// holds `folder`.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(folder)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Sets aside `bytes` of disk space for `file` from `offset` on, without changing its length.
///
/// Fails with `StorageFull` if the disk has no room. If the file system cannot promise space, this
/// does nothing: a full disk then shows when the file is written or synced.
pub fn claim(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    match fallocate(file, FallocateFlags::KEEP_SIZE, offset, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => Ok(other?),
    }
}

/// Identity of a file in its file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileIdentity {
    /// Inode number. A file system may give the number of a removed file to a new file.
    pub inode: u64,
    /// Time at which the file was created, in nanoseconds since 1970; 0 if the file system does not
    /// record it.
    pub born_nanos: u64,
}

/// An exclusive lock on a file, held until it is dropped or the process dies, however it dies.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Locks the file at `path`, creating it if necessary; `None` while somebody else holds the
    /// lock.
    pub fn try_exclusive(path: &Path) -> io::Result<Option<Self>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Locks the file at `path`, which must exist. Waits while somebody else holds the lock.
    pub fn exclusive(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        Ok(Self(file))
    }

    /// Returns the identity of the locked file. Neither a copy of the file nor a file that replaces
    /// it has the same identity.
    pub fn identity(&self) -> io::Result<FileIdentity> {
        let found = self.0.metadata()?;
        let born = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let born_nanos = born.and_then(|born| u64::try_from(born.as_nanos()).ok()).unwrap_or(0);
        Ok(FileIdentity { inode: found.ino(), born_nanos })
    }

    /// True while the locked file is the file at `path`: nobody has replaced it.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        is_at(&self.0, path)
    }

    /// Releases the lock before it is dropped.
    pub fn release(&self) -> io::Result<()> {
        Ok(rustix::fs::flock(&self.0, FlockOperation::Unlock)?)
    }

    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

/// True while the open file is the file at `path`: nobody has replaced it.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let place = |found: &fs::Metadata| (found.dev(), found.ino());
    match fs::metadata(path) {
        Ok(found) => Ok(place(&found) == place(&file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock is released, not only closed: a child between fork and exec still holds a copy
        // of the descriptor, and would keep the lock. After a failure the close releases it.
        drop(self.release());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn no_copy_of_a_file_has_its_identity() {
        let folder = tempfile::tempdir().unwrap();
        let [path, copy, moved] = ["lock", "copy", "moved"].map(|name| folder.path().join(name));
        let identity = |path: &Path| {
            let lock = Lock::try_exclusive(path).unwrap().expect("nobody has it");
            lock.identity().unwrap()
        };
        let first = identity(&path);
        fs::copy(&path, &copy).unwrap();
        assert_ne!(identity(&copy), first);
        fs::rename(&path, &moved).unwrap();
        assert_eq!(identity(&moved), first);
        fs::remove_file(&moved).unwrap();
        // The new file may get the inode of the old file.
        assert_ne!(identity(&path), first);
    }

    #[test]
    fn a_replaced_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = Lock::try_exclusive(&path).unwrap().expect("nobody has it");
        assert!(lock.is_at(&path).unwrap());
        write(&path, b"another", 0o600).unwrap();
        assert!(!lock.is_at(&path).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!lock.is_at(&path).unwrap());
    }

    #[test]
    fn writing_replaces_content_and_mode_and_leaves_nothing_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        write(&path, b"first", 0o644).unwrap();
        write(&path, b"2", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"2");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_lost_if_its_disk_is_damaged_and_not_if_the_machine_is_busy() {
        for lost in [Errno::IO, Errno::BADMSG, Errno::UCLEAN, Errno::ISDIR] {
            assert!(is_lost(&lost.into()), "{lost}");
        }
        for passing in [Errno::MFILE, Errno::NOMEM, Errno::ACCESS, Errno::NOENT] {
            assert!(!is_lost(&passing.into()), "{passing}");
        }
        assert!(!is_lost(&io::Error::other("of no call")));
    }

    #[test]
    fn a_failed_write_leaves_the_target_and_nothing_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("occupied");
        create_dir(&path, 0o700).unwrap();
        assert!(write(&path, b"bytes", 0o600).is_err());
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn directories_get_the_exact_mode_and_are_not_made_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dir");
        create_dir(&path, 0o1777).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o1777);
        assert_eq!(create_dir(&path, 0o700).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn missing_parents_are_made_and_others_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c");
        for _ in 0..2 {
            create_dir_all(&path, 0o700).unwrap();
        }
        for made in [&path, folder_of(&path)] {
            assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o7777, 0o700);
        }
        let file = folder.path().join("file");
        write(&file, b"no folder", 0o600).unwrap();
        assert!(create_dir_all(&file, 0o700).is_err());
        assert!(create_dir_all(&file.join("below"), 0o700).is_err());
    }

    /// The test runs itself as the other process, which holds the lock until it is killed.
    #[test]
    fn a_lock_excludes_other_processes_until_they_die() {
        const CHILD: &str = "SYS_TEST_LOCK_CHILD";
        if let Some(path) = std::env::var_os(CHILD) {
            let _lock = Lock::try_exclusive(path.as_ref()).unwrap().expect("free");
            println!("locked");
            io::stdin().read_to_end(&mut Vec::new()).unwrap();
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("durable::tests::a_lock_excludes_other_processes_until_they_die")
            .env(CHILD, &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("locked")), "the child took the lock");
        assert!(Lock::try_exclusive(&path).unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        let lock = Lock::try_exclusive(&path).unwrap().expect("freed by the kernel");
        assert!(Lock::try_exclusive(&path).unwrap().is_none());
        drop(lock);
        assert!(Lock::try_exclusive(&path).unwrap().is_some());
    }
}

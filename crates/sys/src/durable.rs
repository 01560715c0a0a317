//! Files that survive a power cut, and locks that do not survive their process.
//!
//! The order everywhere: content, fsync of the file, the name (rename), fsync of the folder. What
//! returned without an error is on the medium; a crash before leaves the old state, and at most a
//! file `.holdfast-*` beside it that nobody reads.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::entropy;

/// Replaces the file at `path` by `bytes`, atomically and durably, with exactly `mode`.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = folder_of(path);
    let temporary = folder.join(entropy::name(".holdfast-"));
    let written = write_new(&temporary, bytes, mode).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // The first error is the one that matters; the rest is unread.
        drop(fs::remove_file(&temporary));
        return Err(error);
    }
    sync_dir(folder)
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

/// Makes the directory `path` with exactly `mode`, durably. Its parent must exist; it must not.
pub fn create_dir(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode & 0o700).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    sync_dir(path)?;
    sync_dir(folder_of(path))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// Bytes that an unprivileged process may still write to the file system that holds `folder`.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(folder)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Sets aside `bytes` of disk space for `file` from `offset` on, without changing its length.
///
/// Fails with `StorageFull` where there is none. Where the file system cannot promise space, this
/// does nothing: a full disk then shows when it is written or synced.
pub fn claim(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    match fallocate(file, FallocateFlags::KEEP_SIZE, offset, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => Ok(other?),
    }
}

/// An exclusive lock on a file, held until it is dropped or the process dies, however it dies.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Locks the file at `path`, making it if need be; `None` while another holder lives.
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

    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Unlocking, not only closing: a child between fork and exec still holds a copy of the
        // descriptor, and would keep the lock. Failure leaves the lock to the close.
        let _unlocked = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::{Command, Stdio};

    use super::*;

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

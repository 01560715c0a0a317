//! The managed file systems, and the identity of a file in them.

use std::io;
use std::sync::Arc;

use model::DirPath;
use sys::identity::FilesystemId;
use sys::lock::{Mutex, MutexGuard};
use sys::{Dir, ObjectStatus};

use crate::FilesystemSettings;

/// Identity of a file as long as the file exists: its device and its inode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FileId {
    pub(crate) device_id: u64,
    pub(crate) inode: u64,
}

impl FileId {
    pub(crate) fn of(found: &ObjectStatus) -> Self {
        Self { device_id: found.device_id, inode: found.stat.inode }
    }
}

/// A managed file system.
pub(crate) struct Mount {
    pub(crate) settings: FilesystemSettings,
    pub(crate) device_id: u64,
    pub(crate) filesystem: FilesystemId,
    migration: Mutex<()>,
    relief: Mutex<()>,
}

impl Mount {
    /// Opens the file system that is mounted where `settings` say.
    pub(crate) fn open(settings: FilesystemSettings) -> io::Result<Self> {
        let root = Dir::open(&settings.mount_point)?;
        let device_id = root.stat_self()?.device_id;
        let filesystem = FilesystemId::of(&root)?;
        let (migration, relief) = Default::default();
        Ok(Self { settings, device_id, filesystem, migration, relief })
    }

    /// Opens the root directory. It is opened for each use: a directory that stays open would keep
    /// the file system from being unmounted.
    pub(crate) fn root(&self) -> io::Result<Arc<Dir>> {
        let root = Dir::open(self.mount_point())?;
        if root.stat_self()?.device_id != self.device_id {
            let text = "its file system is not mounted, or was mounted again; start 'holdfast hsm \
                        run' again";
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(Arc::new(root))
    }

    pub(crate) fn mount_point(&self) -> &[u8] {
        &self.settings.mount_point
    }

    /// Returns the absolute path of `path`, which begins at the root of the file system.
    pub(crate) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        absolute(self.mount_point(), path)
    }

    /// The part of `path` below the mount point: empty, or with a `/` at its beginning. `None` if
    /// `path` lies elsewhere.
    pub(crate) fn within<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        if self.mount_point() == b"/" {
            return Some(path);
        }
        let rest = path.strip_prefix(self.mount_point())?;
        (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
    }

    /// Opens a directory of the file system, and follows no symbolic link.
    pub(crate) fn directory(&self, path: &DirPath) -> io::Result<Arc<Dir>> {
        let mut parts = path.as_bytes().split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        parts.try_fold(self.root()?, |above, part| above.open_dir(part).map(Arc::new))
    }

    /// Lock for removing records or content of files. Without it, one thread would read content
    /// that another thread has removed in part.
    pub(crate) fn lock_migration(&self) -> MutexGuard<'_, ()> {
        self.migration.lock()
    }

    /// Lock for making room for recalls. The second thread then finds the room that the first
    /// thread has made.
    pub(crate) fn lock_relief(&self) -> MutexGuard<'_, ()> {
        self.relief.lock()
    }
}

/// Returns the absolute path of `path`, which begins at the root of the file system at
/// `mount_point`.
pub(crate) fn absolute(mount_point: &[u8], path: &[u8]) -> Vec<u8> {
    match mount_point {
        b"/" => path.to_vec(),
        mount_point => [mount_point, path].concat(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_path_lies_within_a_mount_point_or_elsewhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let mount_point = folder.path().as_os_str().as_bytes().to_vec();
        let mount = Mount::open(FilesystemSettings::new(mount_point)).expect("opened");
        let check = |rest: &[u8], expected: Option<&[u8]>| {
            let path = [mount.mount_point(), rest].concat();
            assert_eq!(mount.within(&path), expected, "{}", model::escaped(rest));
        };
        check(b"", Some(b""));
        check(b"/a/b", Some(b"/a/b"));
        check(b"-other/a", None);
        assert_eq!(mount.within(b"/elsewhere"), None);
        assert_eq!(mount.absolute(b"/a"), [mount.mount_point(), b"/a"].concat());
    }

    #[test]
    fn the_root_file_system_holds_every_path() {
        let mount = Mount::open(FilesystemSettings::new(b"/".to_vec())).expect("opened");
        assert_eq!(mount.within(b"/a"), Some(&b"/a"[..]));
        assert_eq!(mount.absolute(b"/a"), b"/a");
    }

    #[test]
    fn a_directory_is_not_reached_through_a_symbolic_link() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("a/b")).expect("made");
        std::os::unix::fs::symlink("a", folder.path().join("link")).expect("made");
        let mount_point = folder.path().as_os_str().as_bytes().to_vec();
        let mount = Mount::open(FilesystemSettings::new(mount_point)).expect("opened");
        let open = |path: &[u8]| mount.directory(&DirPath::new(path).expect("a path"));
        assert!(open(b"/a/b/").is_ok());
        assert!(open(b"/link/b/").is_err());
    }
}

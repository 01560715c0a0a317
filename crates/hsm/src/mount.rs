//! The managed file systems, and the identity of a file in them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

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
    mount_point: Vec<u8>,
    /// The present settings, which change while the file system is used.
    settings: Mutex<Arc<FilesystemSettings>>,
    pub(crate) device_id: u64,
    pub(crate) filesystem: FilesystemId,
    /// True once the file system is managed no more. From then on nothing in it may become a stub.
    is_retired: AtomicBool,
    migration: Mutex<()>,
    /// Time up to which a search for room would be in vain, after a search that was.
    relief: Mutex<Option<Instant>>,
}

/// Right to remove records and contents of files of one file system, and to make stubs in it.
pub(crate) struct MigrationHold<'a>(
    #[expect(dead_code, reason = "it is only held")] MutexGuard<'a, ()>,
);

impl Mount {
    /// Opens the file system that is mounted where `settings` say.
    pub(crate) fn open(settings: FilesystemSettings) -> io::Result<Self> {
        let root = Dir::open(&settings.mount_point)?;
        let device_id = root.stat_self()?.device_id;
        let filesystem = FilesystemId::of(&root)?;
        let (migration, relief, is_retired) = Default::default();
        let mount_point = settings.mount_point.clone();
        let settings = Mutex::new(Arc::new(settings));
        Ok(Self { mount_point, settings, device_id, filesystem, is_retired, migration, relief })
    }

    /// The present settings.
    pub(crate) fn settings(&self) -> Arc<FilesystemSettings> {
        Arc::clone(&self.settings.lock())
    }

    /// Replaces the settings; returns true if they differ.
    pub(crate) fn set_settings(&self, settings: &FilesystemSettings) -> bool {
        assert_eq!(settings.mount_point, self.mount_point, "settings are of one file system");
        let mut current = self.settings.lock();
        let differs = **current != *settings;
        if differs {
            *current = Arc::new(settings.clone());
        }
        differs
    }

    /// True if both are the same file system.
    pub(crate) fn is_same_filesystem(&self, other: &Self) -> bool {
        (self.device_id, self.filesystem) == (other.device_id, other.filesystem)
    }

    /// Opens the root directory. It is opened for each use: a directory that stays open would keep
    /// the file system from being unmounted.
    pub(crate) fn root(&self) -> io::Result<Arc<Dir>> {
        let root = Dir::open(self.mount_point())?;
        if root.stat_self()?.device_id != self.device_id {
            return Err(not_mounted());
        }
        Ok(Arc::new(root))
    }

    pub(crate) fn mount_point(&self) -> &[u8] {
        &self.mount_point
    }

    /// Returns the absolute path of `path`, which begins at the root of the file system.
    pub(crate) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        absolute(self.mount_point(), path)
    }

    /// The part of `path` below the mount point: empty, or with a `/` at its beginning. `None` if
    /// `path` lies elsewhere.
    pub(crate) fn within<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        model::within(path, self.mount_point())
    }

    /// Opens a directory of the file system. Follows no symbolic link, and does not enter another
    /// file system that is mounted inside.
    pub(crate) fn directory(&self, path: &DirPath) -> io::Result<Arc<Dir>> {
        let mut parts = path.as_bytes().split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        let opened =
            parts.try_fold(self.root()?, |above, part| above.open_dir(part).map(Arc::new))?;
        self.check_own(&opened)?;
        Ok(opened)
    }

    /// Fails if the directory belongs to another file system.
    pub(crate) fn check_own(&self, directory: &Dir) -> io::Result<()> {
        if directory.stat_self()?.device_id == self.device_id {
            return Ok(());
        }
        let text = "another file system is mounted there";
        Err(io::Error::new(io::ErrorKind::CrossesDevices, text))
    }

    /// Lock for removing records or content of files, and for making stubs. Without it, one thread
    /// would read content that another thread has removed in part. Fails if the file system is
    /// managed no more.
    pub(crate) fn lock_migration(&self) -> io::Result<MigrationHold<'_>> {
        let hold = MigrationHold(self.migration.lock());
        if self.is_retired.load(Relaxed) {
            return Err(io::Error::other("its file system is not managed any more"));
        }
        Ok(hold)
    }

    /// Keeps files from becoming stubs from now on. `_alone` shows that none is becoming one.
    pub(crate) fn retire(&self, _alone: &MigrationHold<'_>) {
        self.is_retired.store(true, Relaxed);
    }

    /// Lock for making room for recalls. The second thread then finds the room that the first
    /// thread has made, or the time up to which it need not search.
    pub(crate) fn lock_relief(&self) -> MutexGuard<'_, Option<Instant>> {
        self.relief.lock()
    }
}

pub(crate) fn not_mounted() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "its file system is not mounted")
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
    fn settings_change_while_the_file_system_is_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let mount_point = folder.path().as_os_str().as_bytes().to_vec();
        let settings = FilesystemSettings::new(mount_point);
        let mount = Mount::open(settings.clone()).expect("opened");
        let before = mount.settings();
        assert!(!mount.set_settings(&settings));
        assert!(mount.set_settings(&FilesystemSettings { high_percent: 95, ..settings }));
        assert_eq!((before.high_percent, mount.settings().high_percent), (90, 95));
    }

    #[test]
    fn a_file_system_that_is_managed_no_more_gets_no_stubs() {
        let folder = tempfile::tempdir().expect("a folder");
        let mount_point = folder.path().as_os_str().as_bytes().to_vec();
        let mount = Mount::open(FilesystemSettings::new(mount_point)).expect("opened");
        let alone = mount.lock_migration().expect("it is managed");
        mount.retire(&alone);
        drop(alone);
        assert!(mount.lock_migration().is_err());
    }

    #[test]
    fn the_root_file_system_holds_every_path() {
        let mount = Mount::open(FilesystemSettings::new(b"/".to_vec())).expect("opened");
        assert_eq!(mount.within(b"/a"), Some(&b"/a"[..]));
        assert_eq!(mount.absolute(b"/a"), b"/a");
    }

    #[test]
    fn a_directory_of_another_file_system_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let mount_point = folder.path().as_os_str().as_bytes().to_vec();
        let mount = Mount::open(FilesystemSettings::new(mount_point)).expect("opened");
        mount.check_own(&mount.root().expect("opened")).expect("its own");
        let other = Dir::open(b"/proc").expect("opened");
        let error = mount.check_own(&other).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::CrossesDevices);
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

//! The managed file systems as the worker knows them at present.

use std::sync::Arc;
use std::time::Duration;

use sys::lock::{Condvar, Mutex};

use crate::mount::Mount;

/// The managed file systems at one moment.
pub(crate) type Mounts = Arc<[Arc<Mount>]>;

/// The list of the managed file systems, which may change at any time.
pub(crate) struct Roster {
    mounts: Mutex<Mounts>,
    /// Number of changes of the list or of settings.
    changes: Mutex<u64>,
    has_changed: Condvar,
}

impl Roster {
    pub(crate) fn new(mounts: Vec<Mount>) -> Self {
        let mounts: Vec<Arc<Mount>> = mounts.into_iter().map(Arc::new).collect();
        Self {
            mounts: Mutex::new(mounts.into()),
            changes: Mutex::default(),
            has_changed: Condvar::new(),
        }
    }

    /// The file systems at this moment.
    pub(crate) fn mounts(&self) -> Mounts {
        Arc::clone(&self.mounts.lock())
    }

    /// The managed file system with this `st_dev`.
    pub(crate) fn of_device(&self, device_id: u64) -> Option<Arc<Mount>> {
        self.mounts.lock().iter().find(|mount| mount.device_id == device_id).cloned()
    }

    /// The managed file system at this mount point.
    pub(crate) fn at(&self, mount_point: &[u8]) -> Option<Arc<Mount>> {
        self.mounts
            .lock()
            .iter()
            .find(|mount| mount.mount_point() == mount_point)
            .cloned()
    }

    /// Adds a file system in place of the one that was at its mount point. Another file system that
    /// had the same `st_dev` leaves the list, unless `stays` holds for it.
    pub(crate) fn put(&self, mount: Arc<Mount>, stays: impl Fn(&Mount) -> bool) {
        // The callback looks at the file systems, which may take long.
        let kept: Vec<Arc<Mount>> = self
            .mounts()
            .iter()
            .filter(|known| known.mount_point() != mount.mount_point())
            .filter(|known| known.device_id != mount.device_id || stays(known))
            .cloned()
            .collect();
        *self.mounts.lock() = kept.into_iter().chain([mount]).collect();
        self.note_change();
    }

    /// Takes the file system at this mount point off the list.
    pub(crate) fn remove(&self, mount_point: &[u8]) {
        let mut mounts = self.mounts.lock();
        *mounts = mounts
            .iter()
            .filter(|mount| mount.mount_point() != mount_point)
            .cloned()
            .collect();
        drop(mounts);
        self.note_change();
    }

    /// Wakes everybody who waits for a change.
    pub(crate) fn note_change(&self) {
        *self.changes.lock() += 1;
        self.has_changed.notify_all();
    }

    /// Number of changes so far.
    pub(crate) fn changes(&self) -> u64 {
        *self.changes.lock()
    }

    /// Waits until there were more than `seen` changes, at most for `at_most`.
    pub(crate) fn wait_for_change(&self, seen: u64, at_most: Duration) {
        let began = sys::clock::monotonic();
        let mut changes = self.changes.lock();
        while *changes == seen {
            let Some(left) = at_most.checked_sub(began.elapsed()) else { return };
            changes = self.has_changed.wait_timeout(changes, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;
    use crate::FilesystemSettings;

    /// Two folders of one file system, as if each were the mount point of one.
    fn two() -> (tempfile::TempDir, [Mount; 2]) {
        let folder = tempfile::tempdir().expect("a folder");
        let mounts = ["a", "b"].map(|name| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).expect("made");
            Mount::open(FilesystemSettings::new(path.as_os_str().as_bytes().to_vec()))
                .expect("opened")
        });
        (folder, mounts)
    }

    #[test]
    fn a_file_system_takes_the_place_of_the_one_at_its_mount_point() {
        let (_folder, [a, b]) = two();
        let again = Arc::new(Mount::open((*a.settings()).clone()).expect("opened"));
        let (at_a, at_b) = (a.mount_point().to_vec(), b.mount_point().to_vec());
        let roster = Roster::new(vec![a, b]);
        roster.put(Arc::clone(&again), |_| true);
        assert_eq!(roster.mounts().len(), 2);
        assert!(Arc::ptr_eq(&roster.at(&at_a).expect("there"), &again));
        assert!(roster.at(&at_b).is_some());
        roster.remove(&at_b);
        assert!(roster.at(&at_b).is_none());
        assert!(roster.of_device(again.device_id).is_some());
        assert_eq!(roster.changes(), 2);
    }

    #[test]
    fn a_device_that_is_mounted_elsewhere_is_known_by_its_new_place() {
        let (_folder, [a, b]) = two();
        let (at_a, at_b) = (a.mount_point().to_vec(), b.mount_point().to_vec());
        let roster = Roster::new(vec![a]);
        roster.put(Arc::new(b), |_| false);
        assert!(roster.at(&at_a).is_none());
        assert!(roster.at(&at_b).is_some());
    }

    #[test]
    fn a_change_ends_the_wait() {
        let roster = Arc::new(Roster::new(Vec::new()));
        let seen = roster.changes();
        let waiting = {
            let roster = Arc::clone(&roster);
            std::thread::spawn(move || roster.wait_for_change(seen, Duration::from_secs(60)))
        };
        roster.note_change();
        waiting.join().expect("no panic");
        roster.wait_for_change(roster.changes(), Duration::from_millis(1));
    }
}

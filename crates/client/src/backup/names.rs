//! Objects with several names (hard links), and directories that the next backup looks at in any
//! case.
//!
//! A change through one name of an object changes all its names, but the kernel reports one
//! directory. A backup by journal therefore counts the names: if it has found a change of an object
//! and has not seen all its names, it cannot know where the others are.

use std::collections::{BTreeSet, HashMap};

use model::DirPath;
use sys::ObjectStatus;
use sys::lock::Mutex;

/// Maximum size of the noted paths, in bytes.
const NOTED_BYTES_MAX: usize = 4 << 20;

/// Directories that the next backup looks at in any case.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct NotedDirectories {
    /// Directories to look at.
    pub(super) single: BTreeSet<DirPath>,
    /// Directories to walk with everything below them.
    pub(super) subtrees: BTreeSet<DirPath>,
}

/// Notes of one backup.
#[derive(Default)]
pub(super) struct Notes(Mutex<State>);

#[derive(Default)]
struct State {
    noted: NotedDirectories,
    bytes: usize,
    is_full: bool,
    /// Names of objects that have several, by inode number.
    objects: HashMap<u64, Names>,
    counts_names: bool,
}

#[derive(Clone, Copy, Default)]
struct Names {
    links: u32,
    seen: u32,
    is_changed: bool,
}

impl Names {
    fn is_missing(&self) -> bool {
        self.is_changed && self.seen < self.links
    }
}

impl State {
    fn note(&mut self, directory: &DirPath, is_subtree: bool) {
        let list = if is_subtree { &mut self.noted.subtrees } else { &mut self.noted.single };
        if self.is_full || list.contains(directory) {
            return;
        }
        list.insert(directory.clone());
        self.bytes += directory.as_bytes().len();
        self.is_full = self.bytes > NOTED_BYTES_MAX;
    }
}

impl Notes {
    /// Begins to count names.
    pub(super) fn count_names(&self) {
        self.0.lock().counts_names = true;
    }

    /// Forgets everything, and counts no names any more.
    pub(super) fn restart(&self) {
        *self.0.lock() = State::default();
    }

    /// Notes the directory of an object that may have several names.
    pub(super) fn see(&self, directory: &DirPath, found: &ObjectStatus) {
        if !found.stat.linked {
            return;
        }
        let mut state = self.0.lock();
        state.note(directory, false);
        if state.counts_names {
            let names = state.objects.entry(found.stat.inode).or_default();
            // The number may change while the names are counted: the greatest counts.
            names.links = names.links.max(found.links);
            names.seen += 1;
        }
    }

    /// Notes that an object that may have several names is new or has changed.
    pub(super) fn change(&self, found: &ObjectStatus) {
        if found.stat.linked {
            let mut state = self.0.lock();
            if state.counts_names {
                state.objects.entry(found.stat.inode).or_default().is_changed = true;
            }
        }
    }

    /// Notes a directory to look at.
    pub(super) fn again(&self, directory: &DirPath) {
        self.0.lock().note(directory, false);
    }

    /// Notes a directory to walk with everything below it.
    pub(super) fn again_below(&self, directory: &DirPath) {
        self.0.lock().note(directory, true);
    }

    /// Returns true if an object has changed and some of its names were not seen.
    pub(super) fn has_missing_names(&self) -> bool {
        self.0.lock().objects.values().any(Names::is_missing)
    }

    /// Returns the noted directories; `None` if there are too many.
    pub(super) fn take(&self) -> Option<NotedDirectories> {
        let State { noted, is_full, .. } = std::mem::take(&mut *self.0.lock());
        (!is_full).then_some(noted)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::stat;
    use super::*;

    fn object(inode: u64, links: u32) -> ObjectStatus {
        let stat = model::Stat { inode, linked: links > 1, ..stat() };
        ObjectStatus { stat, device_id: 1, allocated_bytes: 0, links }
    }

    fn directory(path: &str) -> DirPath {
        DirPath::new(path.as_bytes()).expect("a directory")
    }

    #[test]
    fn a_changed_object_needs_all_its_names() {
        let notes = Notes::default();
        notes.count_names();
        let (two, one) = (object(7, 2), object(8, 1));
        notes.see(&directory("/a/"), &two);
        notes.see(&directory("/a/"), &one);
        notes.change(&one);
        assert!(!notes.has_missing_names(), "nothing with several names has changed");
        notes.change(&two);
        assert!(notes.has_missing_names());
        notes.see(&directory("/b/"), &two);
        assert!(!notes.has_missing_names());
        let noted = notes.take().expect("few directories");
        assert!(noted.single.into_iter().eq([directory("/a/"), directory("/b/")]));
    }

    #[test]
    fn notes_have_a_bound() {
        let notes = Notes::default();
        notes.again_below(&directory("/x/"));
        notes.again(&directory("/x/"));
        let noted = notes.take().expect("few directories");
        assert_eq!((noted.single.len(), noted.subtrees.len()), (1, 1));
        (0..=NOTED_BYTES_MAX / 200).for_each(|number| {
            notes.again(&directory(&format!("/{number:0>200}/")));
        });
        assert_eq!(notes.take(), None);
    }
}

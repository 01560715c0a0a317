//! Requests that make stubs again of files that were deleted, from the server's copies.
//!
//! The server keeps a released copy for a limited time only. So a file with such a copy comes back
//! with its content, as far as there is room, and gets another copy when it migrates again.

use std::collections::HashMap;
use std::io;

use client::ListedCopy;
use model::{Attributes, CopyId, DirPath, Name, is_at_or_below};
use sys::space::Room;

use super::entry::Entry;
use super::listed::{Manner, recall_planned};
use super::reconcile::visit_named;
use crate::desk::{Desk, RequestError};
use crate::mount::Mount;
use crate::outcome::{FileError, FinalState, Outcome, PathRefusal};
use crate::record::FileState;
use crate::stub;

/// Permissions in a folder, as other users have them in its mode.
const ENTER: u16 = 0o1;
const WRITE: u16 = 0o2;
/// Number of bits by which the owner's permissions lie further left.
const OWNER_SHIFT: u32 = 6;

/// The names of the files whose records name a copy.
type NamesOfCopies = HashMap<CopyId, Vec<Vec<u8>>>;

/// Makes stubs again for all copies of a file system that no file names any more.
pub(super) fn undelete(desk: &Desk<'_>, mount: &Mount) -> Result<(), RequestError> {
    undelete_below(desk, mount, mount.mount_point())
}

/// Makes stubs again of the deleted files at and below `path`.
pub(super) fn undelete_path(desk: &Desk<'_>, path: &[u8]) -> Result<(), RequestError> {
    match desk.mount_holding(path) {
        Ok(mount) => undelete_below(desk, mount, path),
        // Users do not learn which file systems are managed.
        Err(_) if !desk.caller.requester.is_root() => {
            desk.caller.send_file(path, Err(PathRefusal::NothingOwn.into()));
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn undelete_below(desk: &Desk<'_>, mount: &Mount, path: &[u8]) -> Result<(), RequestError> {
    let requester = &desk.caller.requester;
    let copies = desk.connection.tested_client()?.copies(mount.mount_point(), true)?;
    let may_have = |copy: &ListedCopy| requester.is_root() || copy.stat.uid == requester.uid;
    let wanted: Vec<ListedCopy> = newest_by_path(copies)
        .into_iter()
        .filter(|copy| is_at_or_below(&copy.path, path) && may_have(copy))
        .collect();
    if wanted.is_empty() && path != mount.mount_point() {
        let nothing =
            if requester.is_root() { PathRefusal::NoCopy } else { PathRefusal::NothingOwn };
        desk.caller.send_file(path, Err(nothing.into()));
        return Ok(());
    }
    let mut named: NamesOfCopies = HashMap::new();
    // One look misses a file that is moved meanwhile. It would get a second stub.
    for _ in 0..2 {
        visit_named(desk, mount, &mut |copy, visited| {
            named.entry(copy).or_default().push(mount.absolute(&visited.file_path()));
        })?;
        if wanted.iter().all(|copy| named.contains_key(&copy.id)) {
            break;
        }
    }
    let mut expiring = Vec::new();
    for copy in &wanted {
        let is_meant = copy.path == path;
        let Some(outcome) = undelete_one(desk, mount, copy, &named, is_meant) else { continue };
        match entry_of(mount, copy) {
            Some(entry) if outcome.is_ok() && copy.is_released => expiring.push(entry),
            _ => desk.caller.send_file(&copy.path, outcome),
        }
        if !desk.caller.listens() {
            break;
        }
    }
    let room = sys::space::room(&*mount.root()?)?;
    let spare = spare_bytes(&room, mount.settings().high_percent);
    let (recalled, left) = split_by_room(expiring, spare);
    for entry in left {
        desk.caller.send_file(&entry.path(), Err(FileError::Expiring));
    }
    recall_planned(desk, recalled, Manner::Premigrated)
}

/// Number of bytes that may come back before a file system is above its high threshold.
fn spare_bytes(room: &Room, high_percent: u8) -> u64 {
    let unused_percent = 100 - u64::from(high_percent);
    room.free_bytes.saturating_sub(room.bytes / 100 * unused_percent)
}

/// Splits files into those that fit into `bytes` together, and the others.
fn split_by_room(files: Vec<Entry<'_>>, mut bytes: u64) -> (Vec<Entry<'_>>, Vec<Entry<'_>>) {
    files.into_iter().partition(|file| {
        let left = bytes.checked_sub(file.bytes);
        bytes = left.unwrap_or(bytes);
        left.is_some()
    })
}

/// The file of a copy, for a recall.
fn entry_of<'a>(mount: &'a Mount, copy: &ListedCopy) -> Option<Entry<'a>> {
    let within = mount.within(&copy.path)?;
    let at = within.iter().rposition(|byte| *byte == b'/')?;
    let directory = DirPath::new(&within[..=at]).ok()?;
    let name = Name::new(&within[at + 1..]).ok()?;
    Some(Entry { mount, directory, name, copy: Some(copy.id), bytes: copy.stat.size })
}

/// Makes the stub of one copy. `None` if the file was not deleted, and is not meant by its path.
fn undelete_one(
    desk: &Desk<'_>,
    mount: &Mount,
    copy: &ListedCopy,
    named: &NamesOfCopies,
    is_meant: bool,
) -> Option<Outcome> {
    match named.get(&copy.id) {
        Some(names) if is_meant && names.contains(&copy.path) => {
            return Some(Err(FileError::Changed("it was not deleted")));
        }
        Some(names) if is_meant => {
            let other = names.first().cloned().unwrap_or_default();
            return Some(Err(PathRefusal::OtherName(other).into()));
        }
        Some(_) => return None,
        None => {}
    }
    let requester = &desk.caller.requester;
    if !requester.is_root() && !may_make(mount, &copy.path, requester.uid) {
        return Some(Err(PathRefusal::ForeignFolder.into()));
    }
    match stub::make(mount, copy, &Attributes::default()) {
        Ok(()) => Some(Ok(FinalState { state: FileState::Migrated, bytes: copy.stat.size })),
        // Another file exists at this path.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !is_meant => None,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Some(Err(PathRefusal::Taken.into()))
        }
        Err(error) => Some(Err(error.into())),
    }
}

/// True if the user may enter the folders of `path`, which must exist, and make files in the last
/// one.
fn may_make(mount: &Mount, path: &[u8], uid: u32) -> bool {
    let Some(within) = mount.within(path) else { return false };
    let slashes = within.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let folders: Vec<_> = slashes.map(|(at, _)| &within[..=at]).collect();
    let may = |folder: &[u8], permissions| {
        let opened = DirPath::new(folder).ok().and_then(|folder| mount.directory(&folder).ok());
        let found = opened.and_then(|opened| opened.stat_self().ok());
        found.is_some_and(|found| has(permissions, found.stat.uid, found.stat.mode, uid))
    };
    folders.split_last().is_some_and(|(last, above)| {
        above.iter().all(|folder| may(folder, ENTER)) && may(last, ENTER | WRITE)
    })
}

/// True if the user `uid` has the permissions in a folder of `owner` with this mode. Groups are not
/// considered.
fn has(permissions: u16, owner: u32, mode: u16, uid: u32) -> bool {
    let granted = if owner == uid { mode >> OWNER_SHIFT } else { mode };
    granted & permissions == permissions
}

/// The newest copy for each path.
fn newest_by_path(mut copies: Vec<ListedCopy>) -> Vec<ListedCopy> {
    copies.sort_by(|a, b| (&a.path, b.since).cmp(&(&b.path, a.since)));
    copies.dedup_by(|later, first| later.path == first.path);
    copies
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::super::reconcile::tests::copy;
    use super::*;
    use crate::FilesystemSettings;

    #[test]
    fn as_much_comes_back_as_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let mount_point = folder.path().as_os_str().as_bytes().to_vec();
        let mount = Mount::open(FilesystemSettings::new(mount_point)).unwrap();
        let file = |name: &str, bytes: u64| {
            let mut copy = copy(1, 1, "");
            (copy.path, copy.stat.size) = (mount.absolute(name.as_bytes()), bytes);
            entry_of(&mount, &copy).unwrap()
        };
        let files = vec![file("/a/one", 60), file("/a/two", 50), file("/three", 40)];
        let (recalled, left) = split_by_room(files, 100);
        let paths =
            |files: &[Entry<'_>]| -> Vec<Vec<u8>> { files.iter().map(Entry::path).collect() };
        let absolute = |name: &str| mount.absolute(name.as_bytes());
        assert_eq!(paths(&recalled), [absolute("/a/one"), absolute("/three")]);
        assert_eq!(paths(&left), [absolute("/a/two")]);
        let spare =
            |free_bytes, high| spare_bytes(&Room { bytes: 1000, free_bytes, inodes: None }, high);
        assert_eq!([spare(300, 90), spare(50, 90), spare(300, 100)], [200, 0, 300]);
    }

    #[test]
    fn the_newest_of_several_copies_of_a_path_comes_back() {
        let copies = vec![copy(1, 5, "/a"), copy(2, 9, "/a"), copy(3, 7, "/a"), copy(4, 1, "/b")];
        let newest: Vec<u16> = newest_by_path(copies).iter().map(|copy| copy.id.index).collect();
        assert_eq!(newest, [2, 4]);
    }

    #[test]
    fn users_make_files_only_where_they_may() {
        let may_make = |owner, mode| has(ENTER | WRITE, owner, mode, 7);
        assert!(may_make(7, 0o755));
        assert!(!may_make(7, 0o555));
        assert!(!may_make(0, 0o755));
        assert!(may_make(0, 0o1777));
        assert!(!has(ENTER, 0, 0o750, 7));
        assert!(has(ENTER, 0, 0o711, 7));
    }
}

//! Making a stub at a path without a file.

use std::io;
use std::sync::Arc;

use client::ListedCopy;
use format::stub::{STUB_ATTRIBUTE, State, Stub};
use model::{Attributes, Name};
use sys::{Dir, NewFile};

use crate::mount::Mount;
use crate::record;

/// Makes a stub of `copy` at the path of its file, and the missing directories above it. Fails with
/// `AlreadyExists` if the name is taken, and if another file system is mounted at the path: nobody
/// would answer for a stub there.
///
/// Only the worker may do this: the stub has its record before it has a name, and the keeper puts
/// no mark on files that the worker uses.
pub(crate) fn make(mount: &Mount, copy: &ListedCopy, attributes: &Attributes) -> io::Result<()> {
    let elsewhere = || io::Error::other("it was in another file system");
    let within = mount.within(&copy.path).ok_or_else(elsewhere)?;
    let mut parts: Vec<&[u8]> =
        within.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).collect();
    let name = parts.pop().ok_or_else(elsewhere)?;
    let name = Name::new(name).map_err(io::Error::other)?;
    let _alone = mount.lock_migration()?;
    let mut directory = mount.root()?;
    for part in parts {
        directory = Arc::new(open_or_make(&directory, part)?);
        mount.check_own(&directory)?;
    }
    let mut file = NewFile::create(&directory, name.as_bytes())?;
    file.set_len(copy.stat.size)?;
    let bearer = Some(record::bearer(&mount.filesystem, &file)?);
    file.set_attribute(STUB_ATTRIBUTE, &Stub { bearer, ..record_of(copy) }.encode())?;
    let applied = file.apply(&copy.stat, attributes, true);
    if let Some(refusal) = applied.refused.into_iter().next() {
        return Err(refusal.error);
    }
    file.publish(false).map(drop)
}

fn record_of(copy: &ListedCopy) -> Stub {
    record::emptied(Stub {
        state: State::Premigrated,
        was_recalled: false,
        copy: copy.id,
        size: copy.stat.size,
        mtime: copy.stat.mtime,
        // The server does not send the digest. The next migration finds a difference, and sends the
        // content once more.
        content: [0; 16],
        bearer: None,
        unsynced: None,
    })
}

fn open_or_make(directory: &Dir, name: &[u8]) -> io::Result<Dir> {
    match directory.open_dir(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => directory.make_dir(name),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use model::{BatchId, CopyId, Kind, ServerTime, Stat, Timestamp};
    use sys::space::SpaceFile;

    use super::*;
    use crate::FilesystemSettings;
    use crate::record::FileState;

    fn copy(path: Vec<u8>) -> ListedCopy {
        let stat = Stat {
            kind: Kind::File,
            mode: 0o640,
            uid: 0,
            gid: 0,
            size: 5 << 20,
            mtime: Timestamp { secs: 1_000_000_000, nanos: 9 },
            ctime: Timestamp::default(),
            inode: 1,
            linked: false,
            device: 0,
        };
        let id = CopyId { batch: BatchId(9), index: 4 };
        ListedCopy { id, since: ServerTime(0), is_released: false, stat, path }
    }

    #[test]
    fn a_stub_comes_back_with_its_directories_and_its_record() {
        if !sys::process::is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let mount_point = folder.path().as_os_str().as_bytes().to_vec();
        let mount = Mount::open(FilesystemSettings::new(mount_point)).unwrap();
        let copy = copy(mount.absolute(b"/a/b/file"));
        make(&mount, &copy, &Attributes::default()).unwrap();
        let directory = mount.root().unwrap().open_dir(b"a").unwrap().open_dir(b"b").unwrap();
        let file = SpaceFile::open(&directory, b"file").unwrap();
        let found = file.stat().unwrap();
        assert_eq!((found.stat.size, found.stat.mtime), (5 << 20, copy.stat.mtime));
        assert_eq!(found.allocated_bytes / 4096, 0, "it has content");
        let stub = record::find(&file, &mount.filesystem).unwrap().own().unwrap();
        assert!(stub.bearer.is_some());
        assert_eq!(stub.copy, copy.id);
        assert_eq!(record::state_of(&found.stat, Some(&stub)), FileState::Migrated);
        let again = make(&mount, &copy, &Attributes::default()).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_copy_of_another_file_system_makes_no_stub() {
        let folder = tempfile::tempdir().unwrap();
        let mount_point = folder.path().as_os_str().as_bytes().to_vec();
        let mount = Mount::open(FilesystemSettings::new(mount_point)).unwrap();
        assert!(make(&mount, &copy(b"/elsewhere/file".to_vec()), &Attributes::default()).is_err());
        let root = copy(mount.mount_point().to_vec());
        assert!(make(&mount, &root, &Attributes::default()).is_err());
    }
}

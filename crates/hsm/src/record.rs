//! The record of a file, and the file's state, which follows from the record.

use std::io;
use std::os::fd::AsFd;
use std::sync::LazyLock;

use format::stub::{Bearer, Grains, STUB_ATTRIBUTE, STUB_BYTES_MAX, State, Stub};
use model::{CopyId, Name, Stat, Timestamp};
use sys::identity::FilesystemId;
use sys::space::{SpaceFile, UnopenedFile};
use sys::{Dir, ObjectStatus};

/// The states of a space-managed file, with TSM's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileState {
    /// The content is in the file system. The server has no copy, or a copy of another state.
    Resident,
    /// The content is in the file system, and the server has a copy of it.
    Premigrated,
    /// The server has the content. At most a part of it is in the file system.
    Migrated,
}

impl FileState {
    /// The letter that `dsmls` shows.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Resident => "r",
            Self::Premigrated => "p",
            Self::Migrated => "m",
        }
    }
}

/// The state of a file; `stub` is its record, if it has one.
pub fn state_of(stat: &Stat, stub: Option<&Stub>) -> FileState {
    match stub {
        Some(Stub { state: State::Migrated(grains), .. }) if !grains.is_whole() => {
            FileState::Migrated
        }
        Some(stub) if is_unchanged(stat, stub) => FileState::Premigrated,
        _ => FileState::Resident,
    }
}

/// True if the file has the size and the time of the copy.
pub(crate) fn is_unchanged(stat: &Stat, stub: &Stub) -> bool {
    stat.size == stub.size && stat.mtime == stub.mtime
}

/// True if the size of a migrated file was changed without a question about the file, or may have
/// been: its holes may be zeros of the file now, instead of missing content. Whoever changes a size
/// by the path sets the time of the change and leaves the time of the last access.
///
/// A size that differs from that of the copy proves a change, but not what was cut before the file
/// was lengthened again. A time of the last access after the change vouches for the content, and
/// nothing else does. If the file has its size, only its times can show a change: `touch` sets both
/// to the same time, and a program that sets a later time of change alone looks like a change of
/// the size. Nothing of an empty file is missing.
pub(crate) fn is_doubtful(stat: &Stat, accessed: Timestamp, stub: &Stub) -> bool {
    if !shows_changes(stub) || stat.size == 0 {
        return false;
    }
    if stat.size == stub.size {
        stat.mtime > stub.mtime && stat.mtime > accessed
    } else {
        stat.mtime >= accessed
    }
}

/// True if nothing that this process knows of has changed the size or the times of the file since
/// it was migrated.
pub(crate) fn shows_changes(stub: &Stub) -> bool {
    stub.bearer.is_some() && !stub.was_recalled
}

/// Reads the record of `file`; `None` if it has none. A damaged record is an error, because the
/// file may be a stub.
pub(crate) fn read(file: &impl AsFd) -> io::Result<Option<Stub>> {
    let record = sys::space::attribute::<STUB_BYTES_MAX>(file, STUB_ATTRIBUTE)?;
    record.map(|record| decode(&record)).transpose()
}

/// A record, and whether it describes the file that it was found in. A program that copies a file
/// of another place with its attributes copies the record too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FoundRecord {
    Absent,
    /// The record of the file. Without a bearer it may be the record of another file: then only the
    /// server can tell whether it has a copy for the file.
    Own(Stub),
    /// The record of another file, from which the content was copied too.
    Copied(Stub),
}

impl FoundRecord {
    /// Judges a record by the bearer that it would name if it were written for its file now.
    ///
    /// A file may be a stub although its record names another bearer: the identity of its file
    /// system may have been changed. So the record counts as copied only if no content is missing.
    fn judge(
        stub: Stub,
        bearer: Bearer,
        lacks_content: impl FnOnce(&Stub) -> io::Result<bool>,
    ) -> io::Result<Self> {
        Ok(if stub.bearer.is_none_or(|named| named == bearer) {
            Self::Own(stub)
        } else if lacks_content(&stub)? {
            Self::Own(Stub { bearer: None, ..stub })
        } else {
            Self::Copied(stub)
        })
    }

    /// The copy that the record names, whatever file it describes.
    pub(crate) fn named_copy(&self) -> Option<CopyId> {
        match self {
            Self::Own(stub) | Self::Copied(stub) => Some(stub.copy),
            Self::Absent => None,
        }
    }

    /// The record, if it describes the file.
    pub(crate) fn own(self) -> Option<Stub> {
        match self {
            Self::Own(stub) => Some(stub),
            Self::Absent | Self::Copied(_) => None,
        }
    }
}

/// The bearer that a record of `file` names.
pub(crate) fn bearer(filesystem: &FilesystemId, file: &impl AsFd) -> io::Result<Bearer> {
    Ok(Bearer::of(&filesystem.0, &sys::identity::file_handle(file)?))
}

/// Reads the record of `file` as [`read`] does, and judges whether it describes the file.
pub(crate) fn find(file: &SpaceFile, filesystem: &FilesystemId) -> io::Result<FoundRecord> {
    let Some(stub) = read(file)? else { return Ok(FoundRecord::Absent) };
    FoundRecord::judge(stub, bearer(filesystem, file)?, |stub| lacks_content(file, stub))
}

/// True if a part of the file is a hole that the record does not count as resident.
fn lacks_content(file: &SpaceFile, stub: &Stub) -> io::Result<bool> {
    let State::Migrated(grains) = &stub.state else { return Ok(false) };
    let size = file.stat()?.stat.size;
    for part in grains.missing(&(0..size)) {
        if !file.holes(part.start..part.end.min(size))?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Does the same as [`find`] for the file `name` of `directory`, with the status `found`, without
/// opening the file.
pub(crate) fn find_of(
    directory: &Dir,
    name: &Name,
    found: &ObjectStatus,
    filesystem: &FilesystemId,
) -> io::Result<FoundRecord> {
    let file = UnopenedFile::find(directory, name.as_bytes())?;
    let Some(record) = file.attribute::<STUB_BYTES_MAX>(STUB_ATTRIBUTE)? else {
        return Ok(FoundRecord::Absent);
    };
    // A file that is not opened does not show its holes, only that it has some.
    let has_holes = found.allocated_bytes < found.stat.size;
    FoundRecord::judge(decode(&record)?, bearer(filesystem, &file)?, |stub| {
        Ok(has_holes && !stub.is_resident())
    })
}

fn decode(record: &[u8]) -> io::Result<Stub> {
    let stub = Stub::decode(record).map_err(io::Error::other)?;
    Ok(stub.as_of(boot()))
}

/// Number that identifies the time since the last start of the machine.
pub(crate) fn boot() -> u64 {
    static BOOT: LazyLock<u64> = LazyLock::new(sys::process::boot_tag);
    *BOOT
}

/// Writes a record.
pub(crate) fn write(file: &SpaceFile, stub: &Stub) -> io::Result<()> {
    let bytes = stub.encode();
    assert!(bytes.len() <= STUB_BYTES_MAX, "a longer record could not be read again");
    file.set_attribute(STUB_ATTRIBUTE, &bytes)
}

/// The record of a migrated file of which no grain is resident.
pub(crate) fn emptied(stub: Stub) -> Stub {
    let grains = Grains::none(stub.size);
    Stub { state: State::Migrated(grains), was_recalled: false, unsynced: None, ..stub }
}

/// The record of a premigrated file.
pub(crate) fn premigrated(stub: Stub) -> Stub {
    Stub { state: State::Premigrated, was_recalled: false, unsynced: None, ..stub }
}

/// The record after all content that it names has reached the disk.
pub(crate) fn synced(stub: &Stub) -> Stub {
    let state = match &stub.state {
        State::Migrated(grains) if grains.is_whole() => State::Premigrated,
        state => state.clone(),
    };
    Stub { state, unsynced: None, ..stub.clone() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use format::stub::SyncState;
    use model::{BatchId, Kind};

    use super::*;

    const BYTES: u64 = 3 << 20;
    const MTIME: Timestamp = Timestamp { secs: 5, nanos: 7 };

    fn stat() -> Stat {
        Stat {
            kind: Kind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
            size: BYTES,
            mtime: MTIME,
            ctime: Timestamp::default(),
            inode: 1,
            linked: false,
            device: 0,
        }
    }

    fn stub(state: State) -> Stub {
        Stub {
            state,
            was_recalled: false,
            copy: CopyId { batch: BatchId(1), index: 0 },
            size: BYTES,
            mtime: MTIME,
            content: [0; 16],
            bearer: None,
            unsynced: None,
        }
    }

    fn grains(range: std::ops::Range<u64>) -> Grains {
        let mut grains = Grains::none(BYTES);
        grains.set(&range);
        grains
    }

    #[test]
    fn a_state_is_what_record_and_times_say() {
        let partly = stub(State::Migrated(grains(0..2 << 20)));
        let wholly = stub(State::Migrated(grains(0..BYTES)));
        let premigrated = stub(State::Premigrated);
        let changed = Stat { mtime: Timestamp { secs: 6, nanos: 0 }, ..stat() };
        let longer = Stat { size: BYTES + 1, ..stat() };
        assert_eq!(state_of(&stat(), None), FileState::Resident);
        assert_eq!(state_of(&stat(), Some(&partly)), FileState::Migrated);
        assert_eq!(state_of(&changed, Some(&partly)), FileState::Migrated);
        assert_eq!(state_of(&stat(), Some(&wholly)), FileState::Premigrated);
        assert_eq!(state_of(&stat(), Some(&premigrated)), FileState::Premigrated);
        assert_eq!(state_of(&changed, Some(&premigrated)), FileState::Resident);
        assert_eq!(state_of(&longer, Some(&premigrated)), FileState::Resident);
        assert_eq!(state_of(&longer, Some(&partly)), FileState::Migrated);
    }

    /// A client of an NFS server cut a stub and lengthened it. No question was asked, and the part
    /// that should have been zeros had its old content.
    #[test]
    fn a_size_that_was_changed_without_a_question_makes_a_record_doubtful() {
        let bearer = Some(Bearer::of(&[9; 16], b"own"));
        let stub = Stub { bearer, ..stub(State::Migrated(Grains::none(BYTES))) };
        let at = |secs| Timestamp { secs, nanos: 0 };
        let changed = |size, mtime| Stat { size, mtime, ..stat() };
        let check = |stat: &Stat, accessed, stub: &Stub, expected| {
            assert_eq!(is_doubtful(stat, accessed, stub), expected, "{stat:?} {accessed:?}");
        };
        check(&stat(), at(4), &stub, false);
        check(&changed(BYTES, at(9)), at(4), &stub, true);
        // The times were set: now, or to something in the past.
        check(&changed(BYTES, at(9)), at(9), &stub, false);
        check(&changed(BYTES, at(9)), at(10), &stub, false);
        check(&changed(BYTES, at(1)), at(0), &stub, false);
        for size in [1, BYTES - 1, BYTES + 1] {
            check(&changed(size, at(9)), at(4), &stub, true);
            // Times that a program has set do not undo a change of the size.
            check(&changed(size, at(9)), at(9), &stub, true);
            check(&changed(size, at(1)), at(0), &stub, true);
            check(&changed(size, at(9)), at(10), &stub, false);
        }
        check(&changed(0, at(9)), at(4), &stub, false);
        let unknown = Stub { bearer: None, ..stub.clone() };
        for unproven in [Stub { was_recalled: true, ..stub }, unknown] {
            check(&changed(BYTES, at(9)), at(4), &unproven, false);
            check(&changed(BYTES - 1, at(9)), at(4), &unproven, false);
        }
    }

    #[test]
    fn an_emptied_stub_has_no_grain_and_a_synced_whole_one_is_premigrated() {
        let unsynced = Some(SyncState { boot: 1, synced: grains(0..1 << 20) });
        let whole =
            Stub { unsynced, was_recalled: true, ..stub(State::Migrated(grains(0..BYTES))) };
        let settled = synced(&whole);
        assert_eq!((settled.state, settled.unsynced), (State::Premigrated, None));
        assert!(settled.was_recalled, "its times prove nothing, on the disk or not");
        let empty = emptied(whole);
        assert_eq!(empty.state, State::Migrated(Grains::none(BYTES)));
        assert_eq!((empty.unsynced, empty.was_recalled), (None, false));
        let partly = stub(State::Migrated(grains(0..1 << 20)));
        assert_eq!(synced(&partly), partly);
        assert_eq!(premigrated(partly).state, State::Premigrated);
    }

    /// Returns a folder and a file in it. `None` if the test does not run as root.
    fn on_disk() -> Option<(tempfile::TempDir, Dir, SpaceFile)> {
        // Only root sees the attribute with the record.
        if !sys::process::is_root() {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("f"), b"content").expect("written");
        let dir = Dir::open(folder.path().as_os_str().as_bytes()).expect("opened");
        let file = SpaceFile::open(&dir, b"f").expect("opened");
        Some((folder, dir, file))
    }

    #[test]
    fn a_record_is_read_by_file_and_by_name() {
        let Some((_folder, dir, file)) = on_disk() else { return };
        assert_eq!(read(&file).expect("read"), None);
        let stub = stub(State::Migrated(grains(1 << 20..2 << 20)));
        write(&file, &stub).expect("written");
        assert_eq!(read(&file).expect("read"), Some(stub.clone()));
        let name = Name::new(b"f").expect("a name");
        let found = file.stat().expect("stat");
        let by_name = find_of(&dir, &name, &found, &FILESYSTEM).expect("read");
        assert_eq!(by_name, FoundRecord::Own(stub.clone()));
        assert_eq!(find(&file, &FILESYSTEM).expect("read"), FoundRecord::Own(stub));
    }

    const FILESYSTEM: FilesystemId = FilesystemId([1; 16]);

    /// Writes the record into a file of [`BYTES`], of which all before `hole` is written. Returns
    /// the record as it is found in the file.
    fn found_in_file(record: &Stub, hole: u64) -> Option<FoundRecord> {
        let (folder, dir, file) = on_disk()?;
        let content = vec![1; usize::try_from(hole).expect("a small number")];
        file.write_at(&content, 0).expect("written");
        let path = folder.path().join("f");
        std::fs::File::options()
            .write(true)
            .open(path)
            .and_then(|file| file.set_len(BYTES))
            .expect("cut");
        file.sync().expect("synced");
        write(&file, record).expect("written");
        let found = find(&file, &FILESYSTEM).expect("read");
        let name = Name::new(b"f").expect("a name");
        let by_name = find_of(&dir, &name, &file.stat().expect("stat"), &FILESYSTEM);
        assert_eq!(by_name.expect("read"), found, "by name");
        Some(found)
    }

    #[test]
    fn a_record_of_another_file_counts_only_where_content_is_missing() {
        let other = |state| Stub { bearer: Some(Bearer::of(&[9; 16], b"other")), ..stub(state) };
        let copied = other(State::Premigrated);
        let Some(found) = found_in_file(&copied, BYTES) else { return };
        assert_eq!(found, FoundRecord::Copied(copied));
        let copied = other(State::Migrated(grains(0..1 << 20)));
        assert_eq!(found_in_file(&copied, BYTES), Some(FoundRecord::Copied(copied.clone())));
        let unknown = Stub { bearer: None, ..copied.clone() };
        assert_eq!(found_in_file(&copied, 2 << 20), Some(FoundRecord::Own(unknown)));
    }

    #[test]
    fn a_record_names_the_file_that_it_was_written_for() {
        let Some((folder, dir, file)) = on_disk() else { return };
        let own = Some(bearer(&FILESYSTEM, &file).expect("asked"));
        let named = Stub { bearer: own, ..stub(State::Premigrated) };
        write(&file, &named).expect("written");
        assert_eq!(find(&file, &FILESYSTEM).expect("read"), FoundRecord::Own(named.clone()));
        let elsewhere = find(&file, &FilesystemId([2; 16])).expect("read");
        assert_eq!(elsewhere.own(), None);
        std::fs::write(folder.path().join("g"), b"content").expect("written");
        let copy = SpaceFile::open(&dir, b"g").expect("opened");
        write(&copy, &named).expect("written");
        assert_eq!(find(&copy, &FILESYSTEM).expect("read"), FoundRecord::Copied(named));
    }

    #[test]
    fn a_damaged_record_is_an_error_and_no_plain_file() {
        let Some((_folder, _dir, file)) = on_disk() else { return };
        let bytes = stub(State::Migrated(grains(0..1 << 20))).encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            file.set_attribute(STUB_ATTRIBUTE, &damaged).expect("written");
            assert!(read(&file).is_err(), "byte {at}");
        }
        file.set_attribute(STUB_ATTRIBUTE, &bytes[..bytes.len() - 1]).expect("written");
        assert!(read(&file).is_err(), "it is torn");
    }

    #[test]
    fn grains_of_another_start_of_the_machine_do_not_count() {
        let Some((_folder, _dir, file)) = on_disk() else { return };
        let recalled = |boot| Stub {
            unsynced: Some(SyncState { boot, synced: grains(0..1 << 20) }),
            ..stub(State::Migrated(grains(0..2 << 20)))
        };
        write(&file, &recalled(boot())).expect("written");
        let same = read(&file).expect("read").expect("a record");
        assert_eq!(same.state, State::Migrated(grains(0..2 << 20)));
        write(&file, &recalled(boot() ^ 1)).expect("written");
        let other = read(&file).expect("read").expect("a record");
        assert_eq!(other.state, State::Migrated(grains(0..1 << 20)));
    }
}

//! A file's record: what it says, and whether the file is still as it says.

use std::io;
use std::os::fd::AsFd;
use std::sync::LazyLock;

use format::stub::{STUB_ATTRIBUTE, STUB_BYTES_MAX, State, Stub};
use model::{Name, Stat};
use sys::Dir;

/// The states of a space-managed file, with TSM's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileState {
    /// Its content is here, and the server has none or that of another state.
    Resident,
    /// Its content is here, and the server has it.
    Premigrated,
    /// The server has its content, and not all of it is here.
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

/// What a file is whose record, if it has one, is `stub`.
pub fn state_of(stat: &Stat, stub: Option<&Stub>) -> FileState {
    match stub {
        Some(Stub { state: State::Migrated(grains), .. }) if !grains.is_whole() => {
            FileState::Migrated
        }
        Some(stub) if is_unchanged(stat, stub) => FileState::Premigrated,
        _ => FileState::Resident,
    }
}

/// Whether the file is what was copied, as far as its times tell.
pub(crate) fn is_unchanged(stat: &Stat, stub: &Stub) -> bool {
    stat.size == stub.size && stat.mtime == stub.mtime
}

/// The record of `file`; `None` if it has none. A damaged one is an error: the file may be a stub.
pub(crate) fn read(file: &impl AsFd) -> io::Result<Option<Stub>> {
    let record = sys::space::attribute::<STUB_BYTES_MAX>(file, STUB_ATTRIBUTE)?;
    record.map(|record| decode(&record)).transpose()
}

/// As [`read`], of the file `name` of `directory`, which is not opened for it.
pub(crate) fn read_of(directory: &Dir, name: &Name) -> io::Result<Option<Stub>> {
    let name = name.as_bytes();
    let record = sys::space::attribute_of::<STUB_BYTES_MAX>(directory, name, STUB_ATTRIBUTE)?;
    record.map(|record| decode(&record)).transpose()
}

fn decode(record: &[u8]) -> io::Result<Stub> {
    let stub = Stub::decode(record).map_err(io::Error::other)?;
    Ok(stub.as_of(boot()))
}

/// Which start of the machine this is.
pub(crate) fn boot() -> u64 {
    static BOOT: LazyLock<u64> = LazyLock::new(sys::process::boot_tag);
    *BOOT
}

/// The record once all that it tells is on the disk.
pub(crate) fn synced(stub: &Stub) -> Stub {
    let state = match &stub.state {
        State::Migrated(grains) if grains.is_whole() => State::Premigrated,
        state => state.clone(),
    };
    Stub { state, unsynced: None, ..stub.clone() }
}

#[cfg(test)]
mod tests {
    use format::stub::Grains;
    use model::{BatchId, CopyId, Kind, Timestamp};

    use super::*;

    #[test]
    fn a_state_is_what_record_and_times_say() {
        let mtime = Timestamp { secs: 5, nanos: 7 };
        let stat = Stat {
            kind: Kind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
            size: 3 << 20,
            mtime,
            ctime: Timestamp::default(),
            inode: 1,
            linked: false,
            device: 0,
        };
        let copy = CopyId { batch: BatchId(1), index: 0 };
        let stub = |state| Stub {
            state,
            was_recalled: false,
            copy,
            size: stat.size,
            mtime,
            content: [0; 16],
            unsynced: None,
        };
        let mut grains = Grains::none(stat.size);
        grains.set(&(0..2 << 20));
        let partly = stub(State::Migrated(grains.clone()));
        grains.set(&(2 << 20..3 << 20));
        let wholly = stub(State::Migrated(grains));
        let premigrated = stub(State::Premigrated);
        let changed = Stat { mtime: Timestamp { secs: 6, nanos: 0 }, ..stat };
        assert_eq!(state_of(&stat, None), FileState::Resident);
        assert_eq!(state_of(&stat, Some(&partly)), FileState::Migrated);
        assert_eq!(state_of(&changed, Some(&partly)), FileState::Migrated);
        assert_eq!(state_of(&stat, Some(&wholly)), FileState::Premigrated);
        assert_eq!(state_of(&stat, Some(&premigrated)), FileState::Premigrated);
        assert_eq!(state_of(&changed, Some(&premigrated)), FileState::Resident);
    }
}

//! Requests to migrate files, and to remove them together with their copies.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use model::{CopyId, DirPath};
use sys::space::SpaceFile;

use crate::control::{FileOutcome, PathText, Reply};
use crate::desk::{Desk, RequestError};
use crate::migrate::{Candidate, Migrator, Target};
use crate::mount::Mount;
use crate::outcome::{FileError, Outcome, PathRefusal};
use crate::server_wait::ServerWait;
use crate::{record, tree};

/// Maximum number of files that a request takes from a tree at once, because each file keeps its
/// directory open.
pub(super) const FILES_AT_ONCE: usize = 2048;

/// A path of a managed file system.
pub(super) struct Location<'a> {
    pub(super) mount: &'a Mount,
    /// The path from the root of the file system.
    pub(super) within: Vec<u8>,
}

impl<'a> Location<'a> {
    /// Finds the managed file system of a path that exists.
    pub(super) fn of(mounts: &'a [Arc<Mount>], path: &[u8]) -> Result<Self, FileError> {
        let (mount_point, within) = sys::mount::filespace_root(path)?;
        match mounts.iter().find(|mount| mount.mount_point() == mount_point) {
            Some(mount) => Ok(Self { mount, within }),
            None => Err(PathRefusal::Filesystem(mount_point).into()),
        }
    }
}

/// Brings the files at and below each of `paths` into the state `target`. With `any_size`, a file
/// at one of the paths itself may be smaller than the settings say. Waits for a server that is
/// away.
pub(super) fn migrate(desk: &Desk<'_>, paths: &[PathText], target: Target, any_size: bool) {
    let server_wait = ServerWait::at_most(desk.connection.wait());
    for PathText(path) in paths {
        if let Err(error) = try_migrate(desk, path, target, any_size, &server_wait) {
            desk.caller.send_file(path, Err(error));
        }
    }
}

fn try_migrate(
    desk: &Desk<'_>,
    path: &[u8],
    target: Target,
    any_size: bool,
    server_wait: &ServerWait,
) -> Result<(), FileError> {
    let Desk { recaller, connection, caller, mounts, .. } = *desk;
    let Location { mount, within } = Location::of(mounts, path)?;
    let rules = server_wait.until_answered(&|| caller.listens(), &mut || connection.rules())?;
    let is_named_file = |candidate: &Candidate| any_size && candidate.file_path() == within;
    let migrator = Migrator {
        recaller,
        connection,
        mount,
        target,
        rules: &rules,
        is_of_any_size: &is_named_file,
        server_wait,
    };
    let migrate_all = |candidates: &mut Vec<Candidate>| {
        let mut report = |index: usize, outcome: Outcome| {
            let file: &Candidate = &candidates[index];
            caller.send_file(&mount.absolute(&file.file_path()), outcome);
        };
        migrator.migrate(candidates, &mut report, &|| caller.listens());
        candidates.clear();
        caller.listens()
    };
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut visit = |visited: tree::VisitedFile<'_>| {
        let (directory, path) = (Arc::clone(visited.directory), visited.path.clone());
        candidates.push(Candidate { directory, path, name: visited.name.clone() });
        candidates.len() < FILES_AT_ONCE || migrate_all(&mut candidates)
    };
    let mut fail = |failed: &[u8], error: &io::Error| {
        caller.send_file(&mount.absolute(failed), Err(io::Error::other(error.to_string()).into()));
    };
    let walked = tree::walk(mount.mount_point(), &within, &mut visit, &mut fail);
    if let Err(error) = walked {
        caller.send_file(path, Err(error.into()));
    }
    migrate_all(&mut candidates);
    Ok(())
}

/// Removes files, and releases their copies.
pub(super) fn purge(desk: &Desk<'_>, paths: &[PathText]) -> Result<(), RequestError> {
    let mut copies: BTreeMap<Vec<u8>, Vec<CopyId>> = BTreeMap::new();
    for PathText(path) in paths {
        let removed = Location::of(desk.mounts, path).and_then(|location| {
            let copy = remove(&location)?;
            let mount_point = location.mount.mount_point().to_vec();
            copies.entry(mount_point).or_default().extend(copy);
            Ok(())
        });
        let (state, error) = match removed {
            Ok(()) => (Some("purged".to_owned()), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let path = PathText(path.clone());
        desk.caller.send(&Reply::File(FileOutcome { path, state, bytes: 0, error }));
    }
    for (mount_point, mut copies) in copies {
        copies.sort();
        let released = desk.connection.client().and_then(|client| {
            if copies.is_empty() { Ok(()) } else { client.release(&mount_point, &copies) }
        });
        released.map_err(|error| {
            desk.connection.disconnect();
            RequestError::CopiesLeft(error.message)
        })?;
    }
    Ok(())
}

/// Removes a file; returns its copy if no other name of the file needs it, and if the record was
/// certainly written for this file. Other copies are left to the next reconciliation, because
/// another file may need them.
fn remove(location: &Location<'_>) -> io::Result<Option<CopyId>> {
    let is_no_file = || io::Error::other("it is not a file");
    let path = DirPath::new(&[&location.within[..], b"/"].concat()).map_err(|_| is_no_file())?;
    let (directory, name) = path.parent().ok_or_else(is_no_file)?;
    let directory = location.mount.directory(&directory)?;
    let file = SpaceFile::open(&directory, name.as_bytes())?;
    let has_other_names = file.stat()?.stat.linked;
    let stub = record::find(&file, &location.mount.filesystem)?.own();
    directory.remove(name.as_bytes(), false)?;
    let stub = stub.filter(|stub| !has_other_names && stub.bearer.is_some());
    Ok(stub.map(|stub| stub.copy))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;
    use crate::FilesystemSettings;

    #[test]
    fn a_removed_file_gives_back_its_copy_when_its_last_name_goes() {
        if !sys::process::is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/file"), b"content").unwrap();
        std::fs::hard_link(folder.path().join("a/file"), folder.path().join("other")).unwrap();
        let mount_point = folder.path().as_os_str().as_bytes().to_vec();
        let mount = Mount::open(FilesystemSettings::new(mount_point)).unwrap();
        let copy = CopyId { batch: model::BatchId(1), index: 2 };
        let file = SpaceFile::open(&mount.root().unwrap(), b"other").unwrap();
        let stub = format::stub::Stub {
            state: format::stub::State::Premigrated,
            was_recalled: false,
            copy,
            size: 7,
            mtime: file.stat().unwrap().stat.mtime,
            content: [0; 16],
            bearer: Some(record::bearer(&mount.filesystem, &file).unwrap()),
            unsynced: None,
        };
        record::write(&file, &stub).unwrap();
        let at = |within: &[u8]| Location { mount: &mount, within: within.to_vec() };
        assert_eq!(remove(&at(b"/a/file")).unwrap(), None);
        assert_eq!(remove(&at(b"/other")).unwrap(), Some(copy));
        assert!(remove(&at(b"/other")).is_err());
        std::fs::write(folder.path().join("copied"), b"content").unwrap();
        let copied = SpaceFile::open(&mount.root().unwrap(), b"copied").unwrap();
        record::write(&copied, &stub).unwrap();
        assert_eq!(remove(&at(b"/copied")).unwrap(), None, "the copy belongs to another file");
        assert!(remove(&at(b"/")).is_err());
        assert!(remove(&at(b"/a")).is_err(), "a directory is no file");
    }

    #[test]
    fn a_path_outside_of_all_managed_file_systems_has_no_location() {
        let error = Location::of(&[], b"/").err().expect("nothing is managed");
        assert_eq!(error.to_string(), "its file system / is not managed");
        assert!(matches!(error, FileError::Refused(_)));
        let missing = Location::of(&[], b"/no/such/file").err().expect("nothing is there");
        assert!(matches!(missing, FileError::System(_)));
    }
}

//! Making stubs of files that a restore has left out. The server makes copies from its backup,
//! without data from the client, and the stubs name these copies.
//!
//! 1. A stub is made only where no object has its name, and only of an active version.
//! 2. Directories keep the times that the restore has set.
//! 3. A copy whose stub could not be made is released.

use std::collections::BTreeMap;
use std::sync::Arc;

use client::{
    BATCH_FILES_MAX, Client, ClientError, CopyFailure, ListContent, ListOptions, ListedCopy,
    ListedVersion, Migrant, RestorePart, StoredCopy,
};
use model::{BatchId, CopyId, DirPath, Name, Stat};
use sys::{Dir, ObjectStatus};

use crate::caller::Caller;
use crate::mount::Mount;
use crate::outcome::{FileError, FinalState, Outcome};
use crate::record::FileState;
use crate::stub;

const BACKUP_CHANGED: FileError = FileError::Changed(
    "its backup has changed meanwhile, or is damaged; repeat the request, or restore the file",
);

/// A file that a stub will replace.
struct MissingFile {
    version: ListedVersion,
    /// Path of the file's directory, from the root of the file system.
    directory: DirPath,
    name: Name,
}

/// Makes stubs of the files at and below `path` that are backed up, are missing in the file system,
/// and have at least `bytes_min` bytes.
pub(crate) fn remake(
    client: &Client,
    mount: &Mount,
    caller: &Caller,
    path: &[u8],
    bytes_min: u64,
) -> Result<(), ClientError> {
    let mut batch = Vec::new();
    let options = ListOptions {
        path: Some(path.to_vec()),
        content: ListContent::Everything,
        ..ListOptions::default()
    };
    let mut visit = |version: &ListedVersion| {
        if version.deactivated.is_none()
            && RestorePart::WithoutFilesFrom(bytes_min).leaves_out(&version.object.stat)
            && let Some(missing) = missing(mount, version)
        {
            batch.push(missing);
        }
        if batch.len() == BATCH_FILES_MAX {
            make(client, mount, caller, std::mem::take(&mut batch));
        }
        caller.listens()
    };
    client.list(&options, &mut visit)?;
    make(client, mount, caller, batch);
    Ok(())
}

/// The file of the version, if it is missing in the file system.
fn missing(mount: &Mount, version: &ListedVersion) -> Option<MissingFile> {
    let path = mount.within(&version.path)?;
    let at = path.iter().rposition(|byte| *byte == b'/')?;
    let directory = DirPath::new(&path[..=at]).ok()?;
    let name = version.object.name.clone();
    let is_there = mount.directory(&directory).is_ok_and(|dir| dir.stat(name.as_bytes()).is_ok());
    (!is_there).then(|| MissingFile { version: version.clone(), directory, name })
}

/// Makes the server copy the batch, and makes the stubs.
fn make(client: &Client, mount: &Mount, caller: &Caller, batch: Vec<MissingFile>) {
    for (directory, files) in by_directory(batch) {
        let made = mount
            .directory(&directory)
            .map_err(FileError::from)
            .and_then(|dir| make_in(client, mount, &dir, &directory, &files));
        match made {
            Ok(outcomes) => {
                assert_eq!(outcomes.len(), files.len(), "each file has an outcome");
                for (file, outcome) in files.iter().zip(outcomes) {
                    caller.send_file(&file.version.path, outcome);
                }
            }
            Err(error) => {
                let reason = error.to_string();
                for file in &files {
                    let error = FileError::Server(reason.clone());
                    caller.send_file(&file.version.path, Err(error));
                }
            }
        }
    }
}

/// The files of a batch by directory, sorted by name, as the server compares them.
fn by_directory(batch: Vec<MissingFile>) -> BTreeMap<DirPath, Vec<MissingFile>> {
    let mut by_directory: BTreeMap<DirPath, Vec<MissingFile>> = BTreeMap::new();
    for missing in batch {
        by_directory.entry(missing.directory.clone()).or_default().push(missing);
    }
    for files in by_directory.values_mut() {
        files.sort_by(|a, b| a.name.cmp(&b.name));
    }
    by_directory
}

fn make_in(
    client: &Client,
    mount: &Mount,
    dir: &Arc<Dir>,
    directory: &DirPath,
    files: &[MissingFile],
) -> Result<Vec<Outcome>, FileError> {
    let asked: Vec<(&Name, ObjectStatus)> = files
        .iter()
        .map(|file| (&file.name, found(&file.version.object.stat, mount)))
        .collect();
    let contents = client.backed_up(mount.mount_point(), directory, &asked)?;
    assert_eq!(contents.len(), files.len(), "the client reports each file");
    let migrants: Vec<Migrant<'_>> = asked
        .iter()
        .zip(&contents)
        .filter_map(|((name, found), content)| {
            let backed_up = Some(StoredCopy { found: *found, content: (*content)? });
            Some(Migrant { directory: dir, name, path: directory, backed_up })
        })
        .collect();
    if migrants.is_empty() {
        return Ok(files.iter().map(|_| Err(BACKUP_CHANGED)).collect());
    }
    let batch = BatchId(u64::from_le_bytes(sys::entropy::bytes()));
    let copied = client.migrate(mount.mount_point(), batch, &migrants)?;
    assert_eq!(copied.len(), migrants.len(), "the client reports each file");
    let times = dir.stat_self()?.stat;
    let mut unused = Vec::new();
    let mut copies = (0..).map(|index| CopyId { batch, index }).zip(copied);
    let outcomes = files.iter().zip(&contents).map(|(file, content)| {
        let copy = content.and_then(|_| copies.next());
        make_one(mount, file, copy, &mut unused)
    });
    let outcomes = outcomes.collect();
    if let Err(error) = dir.set_modified(times.mtime) {
        let directory = model::escaped(&mount.absolute(directory.as_bytes()));
        tracing::warn!(directory, %error, "cannot restore the time of the directory");
    }
    release(client, mount, &unused);
    Ok(outcomes)
}

/// Makes one stub. A copy for which no stub could be made goes to `unused`.
fn make_one(
    mount: &Mount,
    file: &MissingFile,
    copy: Option<(CopyId, Result<StoredCopy, CopyFailure>)>,
    unused: &mut Vec<CopyId>,
) -> Outcome {
    let (id, copied) = copy.ok_or(BACKUP_CHANGED)?;
    copied.map_err(|failure| FileError::Server(failure.to_string()))?;
    let ListedVersion { object, path, .. } = &file.version;
    let copy = ListedCopy {
        id,
        since: object.inserted,
        is_released: false,
        stat: object.stat,
        path: path.clone(),
    };
    stub::make(mount, &copy, &object.attributes).inspect_err(|_| unused.push(id))?;
    Ok(FinalState { state: FileState::Migrated, bytes: object.stat.size })
}

fn release(client: &Client, mount: &Mount, copies: &[CopyId]) {
    if !copies.is_empty()
        && let Err(error) = client.release(mount.mount_point(), copies)
    {
        tracing::warn!(
            %error,
            copies = copies.len(),
            "cannot release copies without a stub; the next reconciliation releases them"
        );
    }
}

/// Returns the status that the file would have if it existed.
fn found(stat: &Stat, mount: &Mount) -> ObjectStatus {
    ObjectStatus { stat: *stat, device_id: mount.device_id, allocated_bytes: 0, links: 1 }
}

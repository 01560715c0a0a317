//! Stubs of files that a restore has left out: the server makes copies of its backup, which no data
//! is sent for, and the stubs stand for those.
//!
//! 1. A stub is made only where nothing is, and only of what is backed up and active.
//! 2. Directories keep their times, as the restore has set them.
//! 3. A copy whose stub could not be made is let go of.

use std::collections::BTreeMap;
use std::sync::Arc;

use client::{
    BATCH_FILES_MAX, Client, ListOptions, ListedCopy, ListedVersion, Migrant, is_left_out,
};
use model::{BatchId, CopyId, DirPath, Name, Stat};
use sys::{Dir, Found};

use crate::recall::{Mount, Recaller};
use crate::record::FileState;
use crate::stub;
use crate::worker::Caller;

/// A file that is to come back as a stub.
struct Missing {
    version: ListedVersion,
    /// Of its directory within the file system.
    directory: DirPath,
    name: Name,
}

/// Makes stubs of what is backed up at and below `path`, of files of `bytes_min` and more.
pub(crate) fn remake(
    recaller: &Recaller,
    caller: &Caller,
    path: &[u8],
    bytes_min: u64,
) -> Result<(), String> {
    let mount = mount_of(recaller, path)?;
    let client = recaller.client().map_err(|error| error.to_string())?;
    let mut batch = Vec::new();
    let options =
        ListOptions { path: Some(path.to_vec()), recursive: true, ..ListOptions::default() };
    let mut visit = |version: &ListedVersion| {
        if version.deactivated.is_none()
            && is_left_out(&version.object.stat, Some(bytes_min))
            && let Some(missing) = missing(mount, version)
        {
            batch.push(missing);
        }
        if batch.len() == BATCH_FILES_MAX {
            make(&client, mount, caller, std::mem::take(&mut batch));
        }
        caller.listens()
    };
    let listed = client.list(&options, &mut visit);
    listed.map_err(|error| error.message)?;
    make(&client, mount, caller, batch);
    Ok(())
}

/// The managed file system that `path` lies in, whether it exists or not.
fn mount_of<'a>(recaller: &'a Recaller, path: &[u8]) -> Result<&'a Mount, String> {
    let is_in = |mount: &&Mount| within(mount, path).is_some();
    let holding = recaller.mounts().iter().filter(is_in);
    let mount = holding.max_by_key(|mount| mount.settings.mount_point.len());
    mount.ok_or_else(|| format!("{} is in no file system that is managed", model::escaped(path)))
}

/// The path within the file system, from `/`.
fn within<'a>(mount: &Mount, path: &'a [u8]) -> Option<&'a [u8]> {
    match &mount.settings.mount_point[..] {
        b"/" => Some(path),
        mount_point => {
            let rest = path.strip_prefix(mount_point)?;
            (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
        }
    }
}

/// The version's file, if it is not there.
fn missing(mount: &Mount, version: &ListedVersion) -> Option<Missing> {
    let path = within(mount, &version.path)?;
    let at = path.iter().rposition(|byte| *byte == b'/')?;
    let directory = DirPath::new(&path[..=at]).ok()?;
    let name = version.object.name.clone();
    let is_there = mount.directory(&directory).is_ok_and(|dir| dir.stat(name.as_bytes()).is_ok());
    (!is_there).then(|| Missing { version: version.clone(), directory, name })
}

/// Has the server make copies of the batch, and makes the stubs.
fn make(client: &Client, mount: &Mount, caller: &Caller, batch: Vec<Missing>) {
    let mut by_directory: BTreeMap<DirPath, Vec<Missing>> = BTreeMap::new();
    for missing in batch {
        by_directory.entry(missing.directory.clone()).or_default().push(missing);
    }
    for (directory, mut files) in by_directory {
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let paths: Vec<Vec<u8>> = files.iter().map(|file| file.version.path.clone()).collect();
        let made = mount
            .directory(&directory)
            .map_err(|error| error.to_string())
            .and_then(|dir| make_in(client, mount, &dir, &directory, &files));
        match made {
            Ok(made) => paths.iter().zip(made).for_each(|(path, made)| {
                caller.tell_file(path, made.map(|()| (FileState::Migrated, 0)));
            }),
            Err(reason) => {
                paths.iter().for_each(|path| caller.tell_file(path, Err(reason.clone())));
            }
        }
    }
}

fn make_in(
    client: &Client,
    mount: &Mount,
    dir: &Arc<Dir>,
    directory: &DirPath,
    files: &[Missing],
) -> Result<Vec<Result<(), String>>, String> {
    let failed = |error: client::ClientError| error.message;
    let mount_point = &mount.settings.mount_point;
    let asked: Vec<(&Name, Found)> = files
        .iter()
        .map(|file| (&file.name, found(&file.version.object.stat, mount)))
        .collect();
    let known = client.backed_up(mount_point, directory, &asked).map_err(failed)?;
    let migrants: Vec<Migrant<'_>> = asked
        .iter()
        .zip(&known)
        .filter_map(|((name, found), content)| {
            let backed_up = Some((*found, (*content)?));
            Some(Migrant { directory: dir, name, path: directory, backed_up })
        })
        .collect();
    if migrants.is_empty() {
        return Ok(files.iter().map(|_| Err(CHANGED.to_owned())).collect());
    }
    let batch = BatchId(u64::from_le_bytes(sys::entropy::bytes()));
    let copied = client.migrate(mount_point, batch, &migrants).map_err(failed)?;
    let times = dir.stat_self().map_err(|error| error.to_string())?.stat;
    let mut copies = (0..).map(|index| CopyId { batch, index }).zip(copied);
    let (mut made, mut unused) = (Vec::new(), Vec::new());
    for (file, content) in files.iter().zip(&known) {
        let copy = content.as_ref().and_then(|_| copies.next());
        made.push(match copy {
            None => Err(CHANGED.to_owned()),
            Some((_, Err(reason))) => Err(reason),
            Some((id, Ok(_))) => make_one(mount, id, file).inspect_err(|_| unused.push(id)),
        });
    }
    if let Err(error) = dir.set_modified(times.mtime) {
        tracing::warn!(%error, "a directory's time is not what it was");
    }
    if !unused.is_empty()
        && let Err(error) = client.release(mount_point, &unused)
    {
        // They are found and let go of by the next reconciliation.
        tracing::warn!(%error, "copies that are not needed any more stay for now");
    }
    Ok(made)
}

const CHANGED: &str = "its backup has changed meanwhile; run it again";

fn make_one(mount: &Mount, id: CopyId, file: &Missing) -> Result<(), String> {
    let ListedVersion { object, path, .. } = &file.version;
    let copy = ListedCopy {
        id,
        since: object.inserted,
        is_released: false,
        stat: object.stat,
        path: path.clone(),
    };
    stub::make(mount, &copy, &object.attributes).map_err(|error| error.to_string())
}

/// The file as it would be found if it were there.
fn found(stat: &Stat, mount: &Mount) -> Found {
    Found { stat: *stat, device_id: mount.device_id, allocated_bytes: 0 }
}

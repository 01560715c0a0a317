//! The chunk index in the first object store, for servers that are new or were away: they need not
//! read the tables of all packs.
//!
//! ```text
//! index/current                     which files make the index, and up to which pack
//! index/runs/MARK-RUN               runs, each stored once; what `current` does not name goes
//! ```
//!
//! The server that keeps house stores what is new of its own index; runs never change. Who takes it
//! adds what has come since. All of it can be made again from the packs: whatever is wrong with it
//! costs time, or a duplicate.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use catalog::index::ChunkIndex;
use model::PackNumber;
use pool::Bucketed;
use serde::{Deserialize, Serialize};

const CURRENT: &str = "index/current";
const RUNS: &str = "index/runs";
/// What is sent is linked here, in the server's folder.
const LINKS: &str = "index.sent";
/// What is fetched is put together here.
const FETCHED: &str = "index.fetched";
/// An index that lacks fewer packs is completed from their tables.
const PACKS_MIN: u64 = 64;

#[derive(Debug, Serialize, Deserialize)]
struct Current {
    /// The index has all chunks of all packs up to this one.
    complete_to: u64,
    file: Vec<Stored>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    /// In the index's folder.
    name: String,
    /// In the store.
    object: String,
}

fn current(bucket: &Bucketed) -> io::Result<Option<Current>> {
    let Some(text) = bucket.0.read_beside(CURRENT)? else { return Ok(None) };
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    toml::from_str(&text).map(Some).map_err(io::Error::other)
}

/// Up to which pack the index in the store is complete.
pub(crate) fn complete_to(bucket: &Bucketed) -> io::Result<PackNumber> {
    Ok(PackNumber(current(bucket)?.map_or(0, |current| current.complete_to)))
}

/// Stores what is durable of `index`, of the server in `folder`, that the store does not have.
/// Returns up to which pack it is complete.
pub(crate) fn send(bucket: &Bucketed, index: &ChunkIndex, folder: &Path) -> io::Result<PackNumber> {
    let links = folder.join(LINKS);
    remove(&links)?;
    std::fs::create_dir(&links)?;
    let complete_to = index.snapshot(&links).map_err(io::Error::other)?;
    let mut file = Vec::new();
    for entry in std::fs::read_dir(&links)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let metadata = entry.metadata()?;
        // Two indexes may have runs of the same number; no two files were written at this moment.
        let mark = format!("{:x}{:09x}", metadata.mtime(), metadata.mtime_nsec());
        file.push(Stored { object: format!("{mark}-{name}"), name });
    }
    let there: BTreeSet<String> = bucket.0.list_beside(RUNS)?.into_iter().collect();
    for stored in file.iter().filter(|stored| !there.contains(&stored.object)) {
        bucket
            .0
            .send_beside(&format!("{RUNS}/{}", stored.object), &links.join(&stored.name))?;
    }
    let current = Current { complete_to: complete_to.0, file };
    let text = toml::to_string(&current).map_err(io::Error::other)?;
    bucket.0.write_beside(CURRENT, text.as_bytes())?;
    // Last: until then somebody may be fetching them.
    let named: BTreeSet<&String> = current.file.iter().map(|stored| &stored.object).collect();
    for object in there.iter().filter(|object| !named.contains(object)) {
        bucket.0.remove_beside(&format!("{RUNS}/{object}"))?;
    }
    remove(&links)?;
    Ok(complete_to)
}

/// Has `index`, a folder in `folder`, be what the store has, where it lacks much of that. Returns
/// up to which pack it is complete then.
pub(crate) fn fetch(
    bucket: &Bucketed,
    index: &Path,
    folder: &Path,
) -> io::Result<Option<PackNumber>> {
    let Some(current) = current(bucket)? else { return Ok(None) };
    let own = ChunkIndex::complete_in(index);
    if current.complete_to < own.0 + PACKS_MIN {
        return Ok(None);
    }
    let fetched = folder.join(FETCHED);
    remove(&fetched)?;
    std::fs::create_dir(&fetched)?;
    for stored in &current.file {
        let name = Path::new(&stored.name);
        if name.components().count() != 1 || name.file_name().is_none() {
            return Err(io::Error::other(format!("{}: no name of a file", stored.name)));
        }
        bucket
            .0
            .fetch_beside(&format!("{RUNS}/{}", stored.object), &fetched.join(name))?;
    }
    remove(index)?;
    std::fs::rename(&fetched, index)?;
    Ok(Some(PackNumber(current.complete_to)))
}

fn remove(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

//! The chunk index in the first bucket. A server that is new, or that was not running for a long
//! time, fetches the index. Then it need not read the tables of all packs.
//!
//! ```text
//! index/current                     list of the files of the index, and its last complete pack
//! index/runs/MARK-RUN               runs, each stored once; those that `current` omits are removed
//! ```
//!
//! The server that keeps house stores the new runs of its own index; runs never change. A server
//! that fetches the index adds the packs that were sealed since then. The index can be made again
//! from the packs, so a fault in it costs time or duplicates and nothing else.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use index::ChunkIndex;
use model::PackNumber;
use pool::Bucket;
use serde::{Deserialize, Serialize};

const CURRENT: &str = "index/current";
const RUNS: &str = "index/runs";
/// Folder with links to the files that are sent, in the server's folder.
const LINKS: &str = "index.sent";
/// Folder for the files that are fetched, in the server's folder.
const FETCHED: &str = "index.fetched";
/// Minimum number of missing packs for which the index is fetched. With fewer, reading their tables
/// is faster.
const PACKS_MIN: u64 = 64;

/// Content of the object `index/current` in the bucket.
#[derive(Debug, Serialize, Deserialize)]
struct SharedIndex {
    /// Last pack up to which the index has all chunks of all packs.
    complete_to: u64,
    file: Vec<IndexFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct IndexFile {
    /// Name in the folder of the index.
    name: String,
    /// Name in the bucket.
    object: String,
}

fn current(bucket: &Bucket) -> io::Result<Option<SharedIndex>> {
    let Some(text) = bucket.read_beside(CURRENT)? else { return Ok(None) };
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    toml::from_str(&text).map(Some).map_err(io::Error::other)
}

/// Returns the last pack up to which the index in the bucket is complete; `None` if there is none.
pub(crate) fn complete_to(bucket: &Bucket) -> io::Result<Option<PackNumber>> {
    Ok(current(bucket)?.map(|current| PackNumber(current.complete_to)))
}

/// Stores the files of an index that the bucket does not have. `snapshot` puts them into an empty
/// folder and returns the last pack up to which they are complete, or `None` if there is no index;
/// `send` returns the same. `folder` is the server's folder.
pub(crate) fn send(
    bucket: &Bucket,
    folder: &Path,
    snapshot: impl FnOnce(&Path) -> io::Result<Option<PackNumber>>,
) -> io::Result<Option<PackNumber>> {
    let links = folder.join(LINKS);
    remove(&links)?;
    std::fs::create_dir(&links)?;
    let Some(complete_to) = snapshot(&links)? else { return Ok(None) };
    let mut file = Vec::new();
    for entry in std::fs::read_dir(&links)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let metadata = entry.metadata()?;
        // Two indexes may have runs with the same number. The time of writing tells them apart: no
        // two files were written at the same moment.
        let mark = format!("{:x}{:09x}", metadata.mtime(), metadata.mtime_nsec());
        file.push(IndexFile { object: format!("{mark}-{name}"), name });
    }
    let there: BTreeSet<String> = bucket.list_beside(RUNS)?.into_iter().collect();
    for stored in file.iter().filter(|stored| !there.contains(&stored.object)) {
        bucket.send_beside(&format!("{RUNS}/{}", stored.object), &links.join(&stored.name))?;
    }
    let current = SharedIndex { complete_to: complete_to.0, file };
    let text = toml::to_string(&current).map_err(io::Error::other)?;
    bucket.write_beside(CURRENT, text.as_bytes())?;
    // Old runs are removed last: servers that read the old list may still be fetching them.
    let named: BTreeSet<&String> = current.file.iter().map(|stored| &stored.object).collect();
    for object in there.iter().filter(|object| !named.contains(object)) {
        bucket.remove_beside(&format!("{RUNS}/{object}"))?;
    }
    remove(&links)?;
    Ok(Some(complete_to))
}

/// Replaces the index in the folder `index` by the index in the bucket, if the folder's index lacks
/// many packs. `folder` is the server's folder. Returns the last pack up to which the new index is
/// complete.
pub(crate) fn fetch(
    bucket: &Bucket,
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
            return Err(io::Error::other(format!("{} is not the name of a file", stored.name)));
        }
        bucket.fetch_beside(&format!("{RUNS}/{}", stored.object), &fetched.join(name))?;
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

//! The real folder of a disk.
//!
//! Each file has a second name in a folder beside the root, its number. So a file keeps its inode
//! over a power cut, as on a real disk: a server recognises a copy of its folder by the inode of
//! one file.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::image::Remains;
use crate::journal::{FileKey, NodeId, ROOT};

/// Ending of the name of the folder with the second names.
const NODES: &str = "nodes";
const VOLATILE: &str = "-shm";

pub(crate) fn make(root: &Path) -> io::Result<()> {
    fs::create_dir(root)?;
    fs::create_dir(nodes(root))
}

pub(crate) fn remove(root: &Path) -> io::Result<()> {
    fs::remove_dir_all(root)?;
    fs::remove_dir_all(nodes(root))
}

fn nodes(root: &Path) -> PathBuf {
    root.with_extension(NODES)
}

fn path_of(root: &Path, node: NodeId) -> PathBuf {
    nodes(root).join(node.0.to_string())
}

/// Gives the new file at `path` its second name by `link`, which is not recorded.
pub(crate) fn keep(
    root: &Path,
    path: &Path,
    node: NodeId,
    link: impl FnOnce(&Path, &Path) -> io::Result<()>,
) {
    link(path, &path_of(root, node)).expect("a file can have two names");
}

/// Makes the folder hold `remains` and nothing else. Returns the numbers of its files and folders.
pub(crate) fn write(root: &Path, remains: &Remains) -> io::Result<BTreeMap<FileKey, NodeId>> {
    fs::remove_dir_all(root)?;
    fs::create_dir(root)?;
    let mut keys = BTreeMap::from([(key(root)?, ROOT)]);
    for (path, node) in paths(remains) {
        let path = root.join(path);
        match remains.contents.get(&node) {
            None => fs::create_dir(&path)?,
            Some(bytes) => {
                let kept = path_of(root, node);
                let file = File::options().write(true).open(&kept)?;
                file.set_len(0)?;
                file.write_all_at(bytes, 0)?;
                fs::hard_link(&kept, &path)?;
            }
        }
        keys.insert(key(&path)?, node);
    }
    Ok(keys)
}

fn key(path: &Path) -> io::Result<FileKey> {
    let found = fs::metadata(path)?;
    Ok(FileKey { device: found.dev(), inode: found.ino() })
}

/// Returns the paths of `remains` below the root, each folder before its content.
fn paths(remains: &Remains) -> Vec<(PathBuf, NodeId)> {
    let mut found = Vec::new();
    let mut folders = vec![(PathBuf::new(), ROOT)];
    while let Some((path, folder)) = folders.pop() {
        for (entry, node) in &remains.names {
            if entry.folder != folder {
                continue;
            }
            let path = path.join(OsStr::from_bytes(&entry.name));
            found.push((path.clone(), *node));
            if !remains.contents.contains_key(node) {
                folders.push((path, *node));
            }
        }
    }
    found
}

/// Returns the first path at which the folder differs from `expected`.
pub(crate) fn difference(root: &Path, expected: &Remains) -> io::Result<Option<PathBuf>> {
    let mut there = BTreeSet::new();
    list(root, Path::new(""), &mut there)?;
    for (path, node) in paths(expected) {
        let is_there = there.remove(&path);
        let is_same = match expected.contents.get(&node) {
            Some(bytes) => is_there && fs::read(root.join(&path))? == *bytes,
            None => is_there && root.join(&path).is_dir(),
        };
        if !is_same {
            return Ok(Some(path));
        }
    }
    Ok(there.into_iter().next())
}

fn list(root: &Path, below: &Path, there: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            list(root, &path, there)?;
        }
        if !path.as_os_str().as_bytes().ends_with(VOLATILE.as_bytes()) {
            there.insert(path);
        }
    }
    Ok(())
}

//! Looking through a file system: what is in which state, and where.

use std::collections::HashSet;
use std::sync::Arc;

use format::stub::Stub;
use model::{DirPath, Kind, Name};
use sys::{Dir, Found, Listing};

use crate::record::{self, FileState, state_of};

/// A regular file as it is listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The whole path.
    pub path: Vec<u8>,
    pub found: Found,
    pub state: FileState,
}

/// Files and bytes by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub files: u64,
    /// What the files' sizes add up to, wherever their content is.
    pub bytes: u64,
    /// What they take on disk.
    pub allocated_bytes: u64,
    pub premigrated_files: u64,
    pub premigrated_bytes: u64,
    pub migrated_files: u64,
    pub migrated_bytes: u64,
}

impl Counts {
    fn add(&mut self, listed: &Listed) {
        let bytes = listed.found.stat.size;
        self.files += 1;
        self.bytes += bytes;
        self.allocated_bytes += listed.found.allocated_bytes;
        match listed.state {
            FileState::Resident => {}
            FileState::Premigrated => {
                self.premigrated_files += 1;
                self.premigrated_bytes += bytes;
            }
            FileState::Migrated => {
                self.migrated_files += 1;
                self.migrated_bytes += bytes;
            }
        }
    }
}

/// Where `path` is that is within what is mounted at `mount_point`.
pub(crate) fn absolute(mount_point: &[u8], path: &[u8]) -> Vec<u8> {
    match mount_point {
        b"/" => path.to_vec(),
        mount_point => [mount_point, path].concat(),
    }
}

/// A regular file on the way through a tree.
pub(crate) struct Visited<'a> {
    pub(crate) directory: &'a Arc<Dir>,
    /// Of the directory within its file system.
    pub(crate) path: &'a DirPath,
    pub(crate) name: &'a Name,
    pub(crate) found: Found,
    pub(crate) stub: Option<Stub>,
}

/// Calls `visit` with each regular file at and below `path` of the file system mounted at
/// `mount_point`, until it says `false`; and `fail` with what cannot be looked at. A file with
/// several names is visited by each.
pub(crate) fn walk(
    mount_point: &[u8],
    path: &[u8],
    visit: &mut dyn FnMut(Visited<'_>) -> bool,
    fail: &mut dyn FnMut(&[u8], &std::io::Error),
) -> std::io::Result<()> {
    let root = Dir::open(mount_point)?;
    let device_id = root.stat_self()?.device_id;
    let mut directory = Arc::new(root);
    let mut within = DirPath::root();
    let parts: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|p| !p.is_empty()).collect();
    for (at, part) in parts.iter().enumerate() {
        let name = Name::new(part).map_err(std::io::Error::other)?;
        let is_last = at + 1 == parts.len();
        if is_last && let Some(found) = directory.stat(part)?.filter(is_file) {
            return visit_file(&directory, &within, &name, found).map(|visited| {
                visit(visited);
            });
        }
        directory = Arc::new(directory.open_dir(part)?);
        within = within.child(&name);
    }
    let mut waiting = vec![(directory, within, None::<Name>)];
    let mut listing = Listing::default();
    while let Some((parent, path, name)) = waiting.pop() {
        let opened = match &name {
            Some(name) => parent.open_dir(name.as_bytes()).map(Arc::new),
            None => Ok(parent),
        };
        let listed = opened.and_then(|dir| dir.list(&mut listing).map(|()| dir));
        let dir = match listed {
            Ok(dir) => dir,
            Err(error) => {
                fail(path.as_bytes(), &error);
                continue;
            }
        };
        let mut below = Vec::new();
        for entry in listing.entries() {
            let Ok(name) = Name::new(listing.name(entry)) else { continue };
            let found = entry.found;
            if found.stat.kind == Kind::Directory && found.device_id == device_id {
                below.push((Arc::clone(&dir), path.child(&name), Some(name)));
            } else if is_file(&found) {
                let goes_on = match visit_file(&dir, &path, &name, found) {
                    Ok(visited) => visit(visited),
                    Err(error) => {
                        fail(&path.join(&name), &error);
                        true
                    }
                };
                if !goes_on {
                    return Ok(());
                }
            }
        }
        waiting.extend(below.into_iter().rev());
    }
    Ok(())
}

fn is_file(found: &Found) -> bool {
    found.stat.kind == Kind::File
}

fn visit_file<'a>(
    directory: &'a Arc<Dir>,
    path: &'a DirPath,
    name: &'a Name,
    found: Found,
) -> std::io::Result<Visited<'a>> {
    let stub = if found.stat.size == 0 { None } else { record::read_of(directory, name)? };
    Ok(Visited { directory, path, name, found, stub })
}

/// Lists what is at and below `path` of what is mounted at `mount_point`.
pub fn list(
    mount_point: &[u8],
    path: &[u8],
    visit: &mut dyn FnMut(Listed) -> bool,
    fail: &mut dyn FnMut(&[u8], &std::io::Error),
) -> std::io::Result<()> {
    let mut visit = |visited: Visited<'_>| {
        let within = visited.path.join(visited.name);
        let path = absolute(mount_point, &within);
        let state = state_of(&visited.found.stat, visited.stub.as_ref());
        visit(Listed { path, found: visited.found, state })
    };
    walk(mount_point, path, &mut visit, fail)
}

/// Counts what is at and below `path` of what is mounted at `mount_point`; a file with several
/// names once.
pub fn count(
    mount_point: &[u8],
    path: &[u8],
    fail: &mut dyn FnMut(&[u8], &std::io::Error),
) -> std::io::Result<Counts> {
    let mut counts = Counts::default();
    let mut seen = HashSet::new();
    let mut visit = |listed: Listed| {
        let stat = &listed.found.stat;
        if !stat.linked || seen.insert(stat.inode) {
            counts.add(&listed);
        }
        true
    };
    list(mount_point, path, &mut visit, fail)?;
    Ok(counts)
}

//! Walks through a file system, for lists and sums of files by state.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use format::stub::Stub;
use model::{CopyId, DirPath, Kind, Name};
use sys::identity::FilesystemId;
use sys::mount::DetachedMount;
use sys::{Dir, Listing, ObjectStatus};

use crate::hidden::{self, LOST_AND_FOUND};
use crate::mount::{Mount, absolute, not_mounted};
use crate::record::{self, FileState, FoundRecord, state_of};

/// A regular file of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedFile {
    /// Absolute path on the node.
    pub path: Vec<u8>,
    pub found: ObjectStatus,
    pub state: FileState,
}

/// Files and bytes by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub files: u64,
    /// Sum of the sizes of all files, resident or not.
    pub bytes: u64,
    /// Sum of the space on disk, in bytes.
    pub allocated_bytes: u64,
    pub premigrated_files: u64,
    pub premigrated_bytes: u64,
    pub migrated_files: u64,
    pub migrated_bytes: u64,
}

impl Counts {
    fn add(&mut self, found: &ObjectStatus, state: FileState) {
        let bytes = found.stat.size;
        self.files += 1;
        self.bytes += bytes;
        self.allocated_bytes += found.allocated_bytes;
        match state {
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

/// A regular file that a walk has reached.
pub(crate) struct VisitedFile<'a> {
    pub(crate) directory: &'a Arc<Dir>,
    /// Path of the directory, from the root of the file system.
    pub(crate) path: &'a DirPath,
    pub(crate) name: &'a Name,
    pub(crate) found: ObjectStatus,
    /// The record of the file, if it describes the file.
    pub(crate) stub: Option<Stub>,
    /// The copy that the record names, whatever file it describes.
    pub(crate) named_copy: Option<CopyId>,
}

impl VisitedFile<'_> {
    /// Path of the file, from the root of the file system.
    pub(crate) fn file_path(&self) -> Vec<u8> {
        self.path.join(self.name)
    }

    pub(crate) fn state(&self) -> FileState {
        state_of(&self.found.stat, self.stub.as_ref())
    }
}

/// A directory that a walk has not entered yet.
struct Subtree {
    parent: Arc<Dir>,
    path: DirPath,
    /// Name in `parent`; `None` where `parent` is the directory itself.
    name: Option<Name>,
}

/// Directory at which a walk begins.
struct Origin {
    directory: Arc<Dir>,
    /// Path of the directory, from the root of the file system.
    path: DirPath,
    device_id: u64,
    filesystem: FilesystemId,
}

/// The object that a walk finds at the path where it begins.
enum Start {
    File { directory: Arc<Dir>, path: DirPath, name: Name, found: ObjectStatus, of: FilesystemId },
    Directory(Origin),
}

impl Start {
    /// Opens `path` of the file system at `mount_point`. Follows no symbolic link.
    fn find(mount_point: &[u8], path: &[u8]) -> std::io::Result<Self> {
        let root = Dir::open(mount_point)?;
        let device_id = root.stat_self()?.device_id;
        let filesystem = FilesystemId::of(&root)?;
        let mut directory = Arc::new(root);
        let mut within = DirPath::root();
        let parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        let parts: Vec<&[u8]> = parts.collect();
        for (at, part) in parts.iter().enumerate() {
            let name = Name::new(part).map_err(std::io::Error::other)?;
            let is_last = at + 1 == parts.len();
            if is_last && let Some(found) = directory.stat(part)?.filter(is_file) {
                return Ok(Self::File { directory, path: within, name, found, of: filesystem });
            }
            directory = Arc::new(directory.open_dir(part)?);
            within = within.child(&name);
        }
        Ok(Self::Directory(Origin { directory, path: within, device_id, filesystem }))
    }
}

/// Calls `visit` with each regular file at and below `path` of the file system at `mount_point`,
/// until it returns false, and `fail` with each path that cannot be read. A file with several names
/// is visited once for each name. Files in directories that other mounts cover are left out. Files
/// that are deleted or moved meanwhile may be left out.
pub(crate) fn walk(
    mount_point: &[u8],
    path: &[u8],
    visit: &mut dyn FnMut(VisitedFile<'_>) -> bool,
    fail: &mut dyn FnMut(&[u8], &std::io::Error),
) -> std::io::Result<()> {
    match Start::find(mount_point, path)? {
        Start::Directory(origin) => walk_from(origin, visit, fail),
        Start::File { directory, path, name, found, of } => {
            visit(visit_file(&directory, &path, &name, found, &of)?);
            Ok(())
        }
    }
}

/// Calls `visit` and `fail` as [`walk`] does, for all files of a file system. Files in directories
/// that other mounts cover are visited too. Fails if the file system is not mounted.
pub(crate) fn walk_all(
    mount: &Mount,
    visit: &mut dyn FnMut(VisitedFile<'_>) -> bool,
    fail: &mut dyn FnMut(&[u8], &std::io::Error),
) -> std::io::Result<()> {
    // It stays open: otherwise an unmounting would succeed while the clone keeps the file system in
    // use.
    let visible = mount.root()?;
    let uncovered = DetachedMount::of(&visible)?;
    let root = uncovered.root()?;
    let filesystem = FilesystemId::of(&root)?;
    if filesystem != mount.filesystem {
        return Err(not_mounted());
    }
    let (directory, path) = (Arc::new(root), DirPath::root());
    let origin = Origin { directory, path, device_id: mount.device_id, filesystem };
    walk_from(origin, visit, fail)?;
    walk_concealed(mount.mount_point(), visit, fail)
}

/// Calls `visit` and `fail` as [`walk`] does for the files that are not among the shown files of
/// the file system at `mount_point`: fsck puts stubs into `lost+found`, which stays where it is.
fn walk_concealed(
    mount_point: &[u8],
    visit: &mut dyn FnMut(VisitedFile<'_>) -> bool,
    fail: &mut dyn FnMut(&[u8], &std::io::Error),
) -> std::io::Result<()> {
    let Some((_whole, outer)) = hidden::root_of_shown_files(mount_point)? else {
        return Ok(());
    };
    let found = match outer.open_dir(LOST_AND_FOUND) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        found => Arc::new(found?),
    };
    let name = Name::new(LOST_AND_FOUND).map_err(std::io::Error::other)?;
    let path = DirPath::root().child(&name);
    let device_id = outer.stat_self()?.device_id;
    let filesystem = FilesystemId::of(&outer)?;
    walk_from(Origin { directory: found, path, device_id, filesystem }, visit, fail)
}

/// Counts the migrated files in `lost+found` of the file system at `mount_point`, if the files of
/// the file system are shown without it.
pub(crate) fn count_concealed_stubs(
    mount_point: &[u8],
    fail: &mut dyn FnMut(&[u8], &std::io::Error),
) -> std::io::Result<u64> {
    let mut stubs = 0;
    let mut visit = |visited: VisitedFile<'_>| {
        stubs += u64::from(visited.state() == FileState::Migrated);
        true
    };
    walk_concealed(mount_point, &mut visit, fail)?;
    Ok(stubs)
}

fn walk_from(
    origin: Origin,
    visit: &mut dyn FnMut(VisitedFile<'_>) -> bool,
    fail: &mut dyn FnMut(&[u8], &std::io::Error),
) -> std::io::Result<()> {
    let Origin { directory, path, device_id, filesystem } = origin;
    // A name that vanishes meanwhile was removed, or moved: maybe to where the walk was already.
    let mut fail = |path: &[u8], error: &std::io::Error| {
        if error.kind() != std::io::ErrorKind::NotFound {
            fail(path, error);
        }
    };
    let mut waiting = vec![Subtree { parent: directory, path, name: None }];
    let mut listing = Listing::default();
    while let Some(Subtree { parent, path, name }) = waiting.pop() {
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
                let (parent, path) = (Arc::clone(&dir), path.child(&name));
                below.push(Subtree { parent, path, name: Some(name) });
            } else if is_file(&found) {
                let goes_on = match visit_file(&dir, &path, &name, found, &filesystem) {
                    Ok(visited) => visit(visited),
                    // The error may concern /proc, through which records are read.
                    Err(error) if dir.stat(name.as_bytes()).is_ok() => {
                        let error = std::io::Error::other(error.to_string());
                        fail(&path.join(&name), &error);
                        true
                    }
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

fn is_file(found: &ObjectStatus) -> bool {
    found.stat.kind == Kind::File
}

fn visit_file<'a>(
    directory: &'a Arc<Dir>,
    path: &'a DirPath,
    name: &'a Name,
    found: ObjectStatus,
    filesystem: &FilesystemId,
) -> std::io::Result<VisitedFile<'a>> {
    let record = match found.stat.size {
        0 => FoundRecord::Absent,
        _ => record::find_of(directory, name, &found, filesystem)?,
    };
    let named_copy = record.named_copy();
    Ok(VisitedFile { directory, path, name, found, stub: record.own(), named_copy })
}

/// Lists the files at and below `path` of the file system at `mount_point`.
pub fn list(
    mount_point: &[u8],
    path: &[u8],
    visit: &mut dyn FnMut(ListedFile) -> bool,
    fail: &mut dyn FnMut(&[u8], &std::io::Error),
) -> std::io::Result<()> {
    let mut visit = |visited: VisitedFile<'_>| {
        let path = absolute(mount_point, &visited.file_path());
        visit(ListedFile { path, found: visited.found, state: visited.state() })
    };
    walk(mount_point, path, &mut visit, fail)
}

/// The files at and below a path, each once.
#[derive(Default)]
struct Sum {
    counts: Counts,
    /// Inodes of the files with several names.
    seen: HashSet<u64>,
}

impl Sum {
    fn add(&mut self, visited: &VisitedFile<'_>) {
        let stat = &visited.found.stat;
        if !stat.linked || self.seen.insert(stat.inode) {
            self.counts.add(&visited.found, visited.state());
        }
    }
}

/// Counts the files at and below `path` of the file system at `mount_point`. A file with several
/// names counts once.
pub fn count(
    mount_point: &[u8],
    path: &[u8],
    fail: &mut dyn FnMut(&[u8], &std::io::Error),
) -> std::io::Result<Counts> {
    let mut sum = Sum::default();
    let mut visit = |visited: VisitedFile<'_>| {
        sum.add(&visited);
        true
    };
    walk(mount_point, path, &mut visit, fail)?;
    Ok(sum.counts)
}

/// Counts the files at and below each of `paths` as [`count`] does. A directory that several of
/// them are above is read once. The paths begin with `/` and have no `/` at their ends.
pub fn count_each(
    mount_point: &[u8],
    paths: &[Vec<u8>],
    fail: &mut dyn FnMut(&[u8], &std::io::Error),
) -> Vec<std::io::Result<Counts>> {
    let mut sums: HashMap<&[u8], Sum> =
        paths.iter().map(|path| (&path[..], Sum::default())).collect();
    let is_below = |path: &[u8]| above(path).any(|folder| sums.contains_key(folder));
    let mut tops: Vec<&[u8]> = sums.keys().copied().filter(|path| !is_below(path)).collect();
    tops.sort_unstable();
    let mut errors = HashMap::new();
    for top in tops {
        let mut visit = |visited: VisitedFile<'_>| {
            let file = visited.file_path();
            for path in above(&file).chain([&file[..]]) {
                if let Some(sum) = sums.get_mut(path) {
                    sum.add(&visited);
                }
            }
            true
        };
        if let Err(error) = walk(mount_point, top, &mut visit, fail) {
            errors.insert(top, error);
        }
    }
    let counts = |path: &Vec<u8>| {
        match errors.remove(&path[..]) {
            Some(error) => return Err(error),
            // A walk tells nothing of a path that it has not met.
            None => drop(Start::find(mount_point, path)?),
        }
        Ok(sums[&path[..]].counts)
    };
    paths.iter().map(counts).collect()
}

/// Returns the directories above a path, the root first.
fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
    let root = (path != b"/").then_some(&path[..1]);
    root.into_iter().chain(ends.map(move |(end, _)| &path[..end]))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use super::*;

    fn bytes(path: &Path) -> &[u8] {
        path.as_os_str().as_bytes()
    }

    /// `a/1`, `a/b/2` and `3`, which is a second name of `a/1`; and a symbolic link to `a`.
    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b")).expect("made");
        std::fs::write(at("a/1"), vec![1; 1000]).expect("written");
        std::fs::write(at("a/b/2"), vec![1; 10]).expect("written");
        std::fs::hard_link(at("a/1"), at("3")).expect("linked");
        std::os::unix::fs::symlink("a", at("link")).expect("linked");
        folder
    }

    fn paths_below(folder: &Path, path: &[u8]) -> Vec<String> {
        let mut paths = Vec::new();
        let mut visit = |visited: VisitedFile<'_>| {
            paths.push(model::escaped(&visited.file_path()));
            true
        };
        let mut fail = |path: &[u8], error: &std::io::Error| {
            panic!("{}: {error}", model::escaped(path));
        };
        walk(bytes(folder), path, &mut visit, &mut fail).expect("walked");
        paths.sort();
        paths
    }

    #[test]
    fn a_walk_visits_each_name_below_a_path() {
        let folder = tree();
        assert_eq!(paths_below(folder.path(), b"/"), ["/3", "/a/1", "/a/b/2"]);
        assert_eq!(paths_below(folder.path(), b"/a/b"), ["/a/b/2"]);
        assert_eq!(paths_below(folder.path(), b"/a/1"), ["/a/1"]);
    }

    #[test]
    fn a_walk_begins_at_no_symbolic_link_and_ends_when_told() {
        let folder = tree();
        let mut visits = 0;
        let mut visit = |_: VisitedFile<'_>| {
            visits += 1;
            false
        };
        walk(bytes(folder.path()), b"/", &mut visit, &mut |_, _| {}).expect("walked");
        assert!(walk(bytes(folder.path()), b"/link", &mut visit, &mut |_, _| {}).is_err());
        assert!(walk(bytes(folder.path()), b"/none", &mut visit, &mut |_, _| {}).is_err());
        assert_eq!(visits, 1);
    }

    #[test]
    fn what_vanishes_during_a_walk_is_no_error() {
        let folder = tree();
        std::fs::write(folder.path().join("4"), b"x").expect("written");
        let mut paths = Vec::new();
        let mut visit = |visited: VisitedFile<'_>| {
            paths.push(model::escaped(&visited.file_path()));
            std::fs::remove_file(folder.path().join("4")).expect("removed");
            std::fs::remove_dir_all(folder.path().join("a")).expect("removed");
            true
        };
        let mut fail = |path: &[u8], error: &std::io::Error| {
            panic!("{}: {error}", model::escaped(path));
        };
        walk(bytes(folder.path()), b"/", &mut visit, &mut fail).expect("walked");
        assert_eq!(paths, ["/3"]);
    }

    #[test]
    fn a_file_with_two_names_counts_once() {
        let folder = tree();
        let counts = count(bytes(folder.path()), b"/", &mut |_, _| {}).expect("counted");
        assert_eq!((counts.files, counts.bytes), (2, 1010));
        assert_eq!((counts.premigrated_files, counts.migrated_files), (0, 0));
    }

    #[test]
    fn paths_above_and_below_each_other_are_counted_in_one_walk() {
        let folder = tree();
        let paths = ["/a/b", "/a", "/", "/3", "/a/b/2", "/none", "/link", "/a/b/none", "/a"];
        let paths: Vec<Vec<u8>> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let mut failed = 0;
        let counts = count_each(bytes(folder.path()), &paths, &mut |_, _| failed += 1);
        let alone = |path: &[u8]| count(bytes(folder.path()), path, &mut |_, _| {}).ok();
        for (path, counts) in paths.iter().zip(counts) {
            assert_eq!(counts.ok(), alone(path), "{}", model::escaped(path));
        }
        assert_eq!(failed, 0);
        let files = alone(b"/").expect("counted").files;
        assert_eq!((files, alone(b"/a").map(|counts| counts.files)), (2, Some(2)));
        assert_eq!(above(b"/a/b").collect::<Vec<_>>(), [&b"/"[..], b"/a"]);
        assert_eq!(above(b"/").count(), 0);
    }
}

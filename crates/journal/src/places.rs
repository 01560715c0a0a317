//! Places: the paths of changed directories in a filespace, and of files that may change without a
//! report.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

use model::{DirPath, Name};
use sys::Dir;
use sys::fanotify::changes::{reports_all, reports_overlays};
use sys::identity::{DirectoryHandle, DirectoryLocation, path_of};
use sys::open_files::WritableFile;

/// Reason why the journal cannot be used for a filespace.
#[derive(Debug, thiserror::Error)]
pub enum Unsuitability {
    #[error("its file system does not report all changes")]
    SilentFilesystem,
    #[error("programs may write to it through overlayfs, which kernels before 6.5 do not report")]
    SilentOverlays,
    #[error("only a part of the file system is mounted there")]
    PartialMount,
    #[error("the same file system is mounted again at {}", model::escaped(.0))]
    MountedAgain(Vec<u8>),
    #[error("it cannot be examined: {0}")]
    Unreadable(#[from] io::Error),
}

/// Place that a handle stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    Directory(DirPath),
    /// The directory does not exist any more.
    Gone,
    /// The directory belongs to another filespace of the same file system, such as a subvolume.
    Elsewhere,
    /// The directory exists, but its path in the filespace is not known.
    Nameless,
}

/// File that may have changed without a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenFile {
    /// Directory that holds the file.
    In(DirPath),
    /// The file has a path that this process cannot follow.
    Nameless(Vec<u8>),
}

/// Places in one filespace.
#[derive(Debug)]
pub struct Places {
    root: Dir,
    device_id: u64,
    inode: u64,
    /// Path of the root, as the kernel shows it, without a slash at its end.
    prefix: Vec<u8>,
    /// Part of the file system that is mounted at the root, without a slash at its end.
    mounted_part: Vec<u8>,
    /// Directories below the root at which other file systems are mounted.
    mount_points: Vec<DirPath>,
}

impl Places {
    /// Examines the filespace at the mount point `root`.
    pub fn of(root: &[u8]) -> Result<Self, Unsuitability> {
        let dir = Dir::open(root)?;
        if !reports_all(&dir)? {
            return Err(Unsuitability::SilentFilesystem);
        }
        if !reports_overlays()? {
            return Err(Unsuitability::SilentOverlays);
        }
        let status = dir.stat_self()?;
        let mounted = sys::mount::mounted(root)?.ok_or(Unsuitability::PartialMount)?;
        // In btrfs a subvolume is mounted by its path. All of the subvolume is there.
        let is_subvolume = mounted.kind == "btrfs" && status.stat.inode == BTRFS_ROOT_INODE;
        if mounted.root != b"/" && !is_subvolume {
            return Err(Unsuitability::PartialMount);
        }
        let prefix = path_of(&dir)?.unwrap_or_default();
        let mut places = Self {
            root: dir,
            device_id: status.device_id,
            inode: status.stat.inode,
            prefix: without_slash(prefix),
            mounted_part: without_slash(mounted.root),
            mount_points: Vec::new(),
        };
        places.find_mount_points()?;
        Ok(places)
    }

    fn find_mount_points(&mut self) -> Result<(), Unsuitability> {
        for point in sys::mount::points_below(&[&self.prefix[..], b"/"].concat())? {
            // A mount that another mount covers cannot be asked, and hides nothing.
            let is_same = std::fs::symlink_metadata(OsStr::from_bytes(&point))
                .is_ok_and(|status| status.dev() == self.device_id);
            if is_same {
                return Err(Unsuitability::MountedAgain(point));
            }
            if let Some(path) = self.within(&point)
                && let Ok(path) = DirPath::new(&[&path[..], b"/"].concat())
            {
                self.mount_points.push(path);
            }
        }
        Ok(())
    }

    /// Returns the device and the inode number of the root.
    pub fn identity(&self) -> (u64, u64) {
        (self.device_id, self.inode)
    }

    /// Returns the directories below the root at which other file systems are mounted.
    pub fn mount_points(&self) -> &[DirPath] {
        &self.mount_points
    }

    /// Returns the part of `path` from the root on; it begins with a slash. `None` if `path` does
    /// not lie below the root.
    fn within(&self, path: &[u8]) -> Option<Vec<u8>> {
        let rest = model::within(path, &self.prefix)?;
        (!rest.is_empty()).then(|| rest.to_vec())
    }

    /// Finds the directory that `handle` stands for.
    pub fn find(&self, handle: &DirectoryHandle) -> io::Result<Place> {
        let path = match handle.locate(&self.root)? {
            DirectoryLocation::Gone => return Ok(Place::Gone),
            DirectoryLocation::Found { device_id, .. } if device_id != self.device_id => {
                return Ok(Place::Elsewhere);
            }
            DirectoryLocation::Found { path, .. } => path,
        };
        Ok(path
            .and_then(|path| self.directory(path))
            .map_or(Place::Nameless, Place::Directory))
    }

    fn directory(&self, mut path: Vec<u8>) -> Option<DirPath> {
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        DirPath::new(&self.within(&path)?).ok()
    }

    /// Calls `visit` with the files of the filespace that may have changed without a report.
    pub fn open_files(&self, visit: &mut dyn FnMut(OpenFile)) -> io::Result<()> {
        sys::open_files::visit(self.device_id, &mut |file| {
            visit(match self.directory_of(&file) {
                Some(directory) => OpenFile::In(directory),
                None => OpenFile::Nameless(file.path),
            });
        })
    }

    fn directory_of(&self, file: &WritableFile) -> Option<DirPath> {
        let as_seen = self.within(&file.path);
        as_seen.and_then(|path| self.verified(&path, file)).or_else(|| {
            // The process sees other mounts. Its mount shows the path in the file system.
            let mount = file.mount.as_ref()?;
            let rest = file.path.strip_prefix(&without_slash(mount.point.clone())[..])?;
            let of_filesystem = [&without_slash(mount.root.clone())[..], rest].concat();
            let path = of_filesystem.strip_prefix(&self.mounted_part[..])?;
            self.verified(path, file)
        })
    }

    /// Returns the directory of the file at `path`, if that is the same file.
    fn verified(&self, path: &[u8], file: &WritableFile) -> Option<DirPath> {
        let full = [&self.prefix[..], path].concat();
        let status = std::fs::symlink_metadata(OsStr::from_bytes(&full)).ok()?;
        let is_same = file.identity == Some((status.dev(), status.ino()));
        let at = path.iter().rposition(|&byte| byte == b'/').filter(|_| is_same)?;
        Name::new(&path[at + 1..]).ok()?;
        DirPath::new(&path[..=at]).ok()
    }
}

/// Inode number of the root of a subvolume of btrfs.
const BTRFS_ROOT_INODE: u64 = 256;

fn without_slash(mut path: Vec<u8>) -> Vec<u8> {
    if path.ends_with(b"/") {
        path.pop();
    }
    path
}

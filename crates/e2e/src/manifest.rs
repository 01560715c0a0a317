//! Content and attributes of a tree, path by path, so that two trees can be compared.
//!
//! A manifest leaves out ctime, inode number and atime, which no restore can bring back; the size
//! of a folder, which depends on the file system; and sockets, which are never backed up.

mod choice;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FileType, IFlags, SeekFrom, Stat, seek};

pub use choice::assert_one_of;

use crate::folder::Folder;

/// Size of the units in which files are compared. A unit of zeros counts as a hole.
const UNIT_BYTES: usize = 64 << 10;

/// Flags that users set and a restore brings back. Other flags describe the file system.
const FLAGS_COMPARED: IFlags = IFlags::SYNC
    .union(IFlags::IMMUTABLE)
    .union(IFlags::APPEND)
    .union(IFlags::NODUMP)
    .union(IFlags::NOATIME)
    .union(IFlags::COMPRESSED)
    .union(IFlags::DIRSYNC)
    .union(IFlags::TOPDIR)
    .union(IFlags::NOCOW);

/// The objects of a tree, by their paths relative to its top. The top itself has the empty path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    pub objects: BTreeMap<Vec<u8>, Object>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub kind: Kind,
    /// The twelve permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Size of a regular file or a symlink.
    pub bytes: Option<u64>,
    /// Size that `stat` reports, even for folders. Session reports count this size.
    pub stat_bytes: u64,
    pub mtime_ns: i128,
    /// Extended attributes. ACLs are `system.posix_acl_access` and `system.posix_acl_default`.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub flags: u32,
    pub symlink_target: Option<Vec<u8>>,
    /// Number of a device node.
    pub device: Option<u64>,
    /// The first path, in byte order, that names the same inode; `None` for an inode with one name.
    pub link_group: Option<Vec<u8>>,
    /// Space that a regular file takes on disk.
    pub allocation: Option<Allocation>,
    pub content: Option<Content>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Regular,
    Directory,
    Symlink,
    Fifo,
    CharacterDevice,
    BlockDevice,
}

/// Space that a file takes on disk. A restored file may take less, but never much more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub bytes: u64,
    pub extents: u64,
    pub block_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// BLAKE3 over the size, and over each unit that is not all zeros, with the number of the unit.
    Digest(blake3::Hash),
    Unreadable(String),
}

impl Manifest {
    /// Describes the tree at `top`, which may be any object.
    pub fn take(top: &Path) -> io::Result<Self> {
        let mut walk = Walk::default();
        if std::fs::symlink_metadata(top)?.is_dir() {
            let folder = Folder::open(top)?;
            walk.visit(&folder, b".", Vec::new())?;
            walk.descend(&folder, &[])?;
        } else {
            let parent = top.parent().filter(|parent| !parent.as_os_str().is_empty());
            let folder = Folder::open(parent.unwrap_or(Path::new(".")))?;
            let name = top.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            walk.visit(&folder, std::os::unix::ffi::OsStrExt::as_bytes(name), Vec::new())?;
        }
        Ok(walk.finish())
    }

    pub fn object(&self, path: &[u8]) -> &Object {
        let object = self.objects.get(path);
        object.unwrap_or_else(|| panic!("{} is not in the manifest", shown(path)))
    }

    /// Returns the manifest without the objects for whose paths `drop_path` returns true.
    pub fn without(mut self, drop_path: impl Fn(&[u8]) -> bool) -> Self {
        self.objects.retain(|path, _| !drop_path(path));
        self
    }

    /// Returns the number of objects, folders included.
    pub fn len(&self) -> u64 {
        self.objects.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns the sum of the sizes that `stat` shows.
    pub fn stat_bytes(&self) -> u64 {
        self.objects.values().map(|object| object.stat_bytes).sum()
    }
}

/// Returns one line for each difference of `restored` from `source`; none if they are the same.
pub fn diff(source: &Manifest, restored: &Manifest) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, object) in &source.objects {
        match restored.objects.get(path) {
            None => lines.push(format!("{}: missing ({:?})", shown(path), object.kind)),
            Some(other) => object.differences(other, &shown(path), &mut lines),
        }
    }
    for (path, object) in &restored.objects {
        if !source.objects.contains_key(path) {
            lines.push(format!("{}: not in the source ({:?})", shown(path), object.kind));
        }
    }
    lines
}

/// Fails with the first differences if the two trees are not the same.
#[track_caller]
pub fn assert_same(source: &Manifest, restored: &Manifest) {
    let lines = diff(source, restored);
    let first: Vec<_> = lines.iter().take(25).map(String::as_str).collect();
    assert!(
        lines.is_empty(),
        "the trees differ; number of differences: {}\n{}",
        lines.len(),
        first.join("\n")
    );
}

/// Returns `path` as text for people, with bytes outside ASCII escaped. The top becomes a dot, and
/// a long path is shortened.
pub fn shown(path: &[u8]) -> String {
    match path.len() {
        0 => ".".to_owned(),
        1..=300 => path.escape_ascii().to_string(),
        bytes => {
            let (begin, end) = (&path[..100], &path[bytes - 100..]);
            format!("{}...({bytes} bytes)...{}", begin.escape_ascii(), end.escape_ascii())
        }
    }
}

impl Object {
    fn differences(&self, other: &Self, path: &str, lines: &mut Vec<String>) {
        let mut found = Differences { path, lines };
        let hexadecimal = |device: &Option<u64>| format!("{device:x?}");
        found.compare("type", &self.kind, &other.kind, |kind| format!("{kind:?}"));
        found.compare("mode", &self.mode, &other.mode, |mode| format!("{mode:04o}"));
        found.compare("uid", &self.uid, &other.uid, u32::to_string);
        found.compare("gid", &self.gid, &other.gid, u32::to_string);
        found.compare("size", &self.bytes, &other.bytes, |bytes| format!("{bytes:?}"));
        found.compare("mtime", &self.mtime_ns, &other.mtime_ns, i128::to_string);
        found.compare("inode flags", &self.flags, &other.flags, |flags| format!("{flags:#x}"));
        found.compare("symlink target", &self.symlink_target, &other.symlink_target, optional);
        found.compare("device", &self.device, &other.device, hexadecimal);
        found.compare("hard-link group", &self.link_group, &other.link_group, optional);
        found.compare("content", &self.content, &other.content, |content| format!("{content:?}"));
        let names: BTreeSet<_> = self.xattrs.keys().chain(other.xattrs.keys()).collect();
        for name in names {
            let what = format!("xattr {}", name.escape_ascii());
            let (source, restored) = (self.xattrs.get(name), other.xattrs.get(name));
            found.compare(&what, &source.cloned(), &restored.cloned(), optional);
        }
        if let (Some(source), Some(restored)) = (self.allocation, other.allocation) {
            let bytes_max = source.bytes + source.tolerance_bytes().max(restored.tolerance_bytes());
            if restored.bytes > bytes_max {
                let (is, was) = (restored.bytes, source.bytes);
                lines.push(format!("{path}: takes {is} bytes of disk, should take about {was}"));
            }
        }
    }
}

impl Allocation {
    /// Returns the difference in size on disk that is acceptable: a hole may begin and end within a
    /// block, and a file of many extents needs more blocks for the list of its extents.
    fn tolerance_bytes(self) -> u64 {
        self.block_bytes * 2 * (self.extents + 1)
    }
}

struct Differences<'a> {
    path: &'a str,
    lines: &'a mut Vec<String>,
}

impl Differences<'_> {
    fn compare<T: PartialEq>(
        &mut self,
        what: &str,
        source: &T,
        restored: &T,
        show: impl Fn(&T) -> String,
    ) {
        if source != restored {
            let (is, should_be) = (show(restored), show(source));
            self.lines.push(format!("{}: {what} is {is}, should be {should_be}", self.path));
        }
    }
}

fn optional(bytes: &Option<Vec<u8>>) -> String {
    match bytes {
        None => "absent".to_owned(),
        Some(bytes) if bytes.is_empty() => "''".to_owned(),
        Some(bytes) => format!("'{}'", shown(bytes)),
    }
}

#[derive(Default)]
struct Walk {
    objects: BTreeMap<Vec<u8>, Object>,
    /// Paths of each inode that has several names.
    links: HashMap<(u64, u64), Vec<Vec<u8>>>,
}

impl Walk {
    fn descend(&mut self, folder: &Folder, prefix: &[u8]) -> io::Result<()> {
        for name in folder.names()? {
            let mut path = prefix.to_vec();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            let kind = self.visit(folder, &name, path.clone())?;
            if kind == Some(Kind::Directory)
                && let Ok(child) = folder.child(&name)
            {
                self.descend(&child, &path)?;
            }
        }
        Ok(())
    }

    /// Describes one object and returns its kind. A socket is left out and has no kind.
    fn visit(&mut self, folder: &Folder, name: &[u8], path: Vec<u8>) -> io::Result<Option<Kind>> {
        let stat = folder.stat(name)?;
        let Some(kind) = kind(&stat) else { return Ok(None) };
        if kind != Kind::Directory && stat.st_nlink > 1 {
            self.links.entry((stat.st_dev, stat.st_ino)).or_default().push(path.clone());
        }
        let earlier = self.objects.insert(path, describe(folder, name, kind, &stat)?);
        assert!(earlier.is_none(), "each path must be visited once");
        Ok(Some(kind))
    }

    fn finish(mut self) -> Manifest {
        for paths in self.links.into_values().filter(|paths| paths.len() > 1) {
            let first = paths.iter().min().cloned();
            for path in paths {
                if let Some(object) = self.objects.get_mut(&path) {
                    object.link_group.clone_from(&first);
                }
            }
        }
        Manifest { objects: self.objects }
    }
}

fn describe(folder: &Folder, name: &[u8], kind: Kind, stat: &Stat) -> io::Result<Object> {
    let stat_bytes = u64::try_from(stat.st_size).expect("the kernel gives no negative size");
    let has_flags = matches!(kind, Kind::Regular | Kind::Directory);
    let flags = if has_flags { folder.flags(name).ok().flatten() } else { None };
    let is_device = matches!(kind, Kind::CharacterDevice | Kind::BlockDevice);
    let (content, extents) = match kind {
        Kind::Regular => match folder.read(name).and_then(|file| digest(&file, stat_bytes)) {
            Ok((digest, extents)) => (Some(Content::Digest(digest)), extents),
            Err(error) => (Some(Content::Unreadable(error.to_string())), 0),
        },
        _ => (None, 0),
    };
    Ok(Object {
        kind,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        bytes: matches!(kind, Kind::Regular | Kind::Symlink).then_some(stat_bytes),
        stat_bytes,
        mtime_ns: i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
        xattrs: folder.xattrs(name)?,
        flags: flags.unwrap_or(IFlags::empty()).intersection(FLAGS_COMPARED).bits(),
        symlink_target: match kind {
            Kind::Symlink => Some(folder.symlink_target(name)?),
            _ => None,
        },
        device: is_device.then_some(stat.st_rdev),
        link_group: None,
        allocation: (kind == Kind::Regular).then(|| allocation(stat, extents)),
        content,
    })
}

fn kind(stat: &Stat) -> Option<Kind> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Some(Kind::Regular),
        FileType::Directory => Some(Kind::Directory),
        FileType::Symlink => Some(Kind::Symlink),
        FileType::Fifo => Some(Kind::Fifo),
        FileType::CharacterDevice => Some(Kind::CharacterDevice),
        FileType::BlockDevice => Some(Kind::BlockDevice),
        _ => None,
    }
}

fn allocation(stat: &Stat, extents: u64) -> Allocation {
    let blocks = u64::try_from(stat.st_blocks).expect("a file takes no negative space");
    let block_bytes = u64::try_from(stat.st_blksize).expect("a block has a size");
    Allocation { bytes: blocks * 512, extents, block_bytes }
}

/// Returns the digest of a file's content and the number of its extents. Reads only the extents.
fn digest(file: &File, bytes: u64) -> io::Result<(blake3::Hash, u64)> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes.to_le_bytes());
    let mut unit = vec![0; UNIT_BYTES];
    let (mut offset, mut extents) = (0, 0);
    let mut unit_next = 0;
    while let Some((begin, end)) = extent(file, offset)? {
        // Units are aligned, so that the digest does not depend on the positions of the extents.
        let unit_bytes = UNIT_BYTES as u64;
        for index in (begin / unit_bytes).max(unit_next)..end.div_ceil(unit_bytes) {
            let filled = read_unit(file, &mut unit, index * unit_bytes)?;
            if unit[..filled].iter().any(|byte| *byte != 0) {
                hasher.update(&index.to_le_bytes());
                hasher.update(&unit[..filled]);
            }
            unit_next = index + 1;
        }
        offset = end;
        extents += 1;
    }
    Ok((hasher.finalize(), extents))
}

/// Returns the start and end of the next data at or after `offset`.
fn extent(file: &File, offset: u64) -> io::Result<Option<(u64, u64)>> {
    match seek(file, SeekFrom::Data(offset)) {
        Ok(begin) => Ok(Some((begin, seek(file, SeekFrom::Hole(begin))?))),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn read_unit(file: &File, unit: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < unit.len() {
        match file.read_at(&mut unit[filled..], offset + filled as u64)? {
            0 => break,
            bytes => filled += bytes,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests;

//! Local file systems of real disks: those that a backup of the whole machine takes.
//!
//! The kernel's table of mounts decides. From it come:
//! 1. visible mounts only: one that another mount covers cannot be read by its path;
//! 2. file systems with a disk of their own, and btrfs, ZFS and bcachefs, which have disks but no
//!    device number of a disk. Not: memory, networks, FUSE, the kernel's own file systems, and
//!    media and images that are only ever read;
//! 3. each part of a disk once: a bind mount shows what another mount shows already. A subvolume
//!    of btrfs is a part of its own, because a backup of the volume does not descend into it;
//! 4. an overlay only as the root directory, because it is all that a container has.
//!
//! Source: proc(5), `/proc/pid/mountinfo`.

use std::fmt;

use model::is_at_or_below;

/// A line of the kernel's table of mounts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    pub id: u32,
    pub parent: u32,
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// Path in the file system that is mounted.
    pub root: Vec<u8>,
    pub point: Vec<u8>,
    /// Type of the file system.
    pub kind: String,
    pub source: Vec<u8>,
    /// Options of the file system.
    pub options: Vec<u8>,
}

/// Treatment of a mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It is backed up.
    Local,
    LeftOut(Reason),
}

/// Reason why a mount is left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The kernel's own file system, which has no files of anybody.
    Kernel,
    Memory,
    Network,
    Fuse,
    /// Media and images that are only read.
    ReadOnly,
    /// An overlay that is not the root directory.
    Overlay,
    /// A file is mounted, and no directory.
    File,
    /// The same files are at this mount point.
    Bind(Vec<u8>),
    /// Another mount covers it.
    Covered,
    /// The list of paths leaves it out.
    Excluded,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Kernel => "it has no disk",
            Self::Memory => "it is in memory",
            Self::Network => "it is on a network",
            Self::Fuse => "a program provides it (FUSE)",
            Self::ReadOnly => "it is a medium or an image that is only read",
            Self::Overlay => "it is an overlay of other directories",
            Self::File => "it is a single file",
            Self::Bind(point) => {
                return write!(f, "its files are also at {}", model::escaped(point));
            }
            Self::Covered => "another file system is mounted over it",
            Self::Excluded => "the setting paths leaves it out",
        };
        f.write_str(text)
    }
}

/// A mount and its treatment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountStanding {
    pub point: Vec<u8>,
    pub kind: String,
    pub standing: Standing,
}

/// Types that are in memory.
const MEMORY: [&str; 4] = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];
/// Types of file systems on networks. They have no device.
const NETWORK: [&str; 20] = [
    "9p",
    "acfs",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "coda",
    "davfs",
    "gfs2",
    "glusterfs",
    "gpfs",
    "lustre",
    "mmfs",
    "ncpfs",
    "nfs",
    "nfs4",
    "ocfs2",
    "orangefs",
    "smb3",
    "smbfs",
];
/// Types that are only read.
const READ_ONLY: [&str; 6] = ["cramfs", "erofs", "iso9660", "romfs", "squashfs", "udf"];
/// Types with disks, but without the device number of a disk.
const NUMBERED_ALONE: [&str; 3] = ["bcachefs", "btrfs", "zfs"];
const OVERLAYS: [&str; 3] = ["aufs", "overlay", "unionfs"];

/// Decides about each mount, by mount point. `is_directory` returns false for a mount point that is
/// a file. `left_out` has the mount points that the list of paths leaves out.
pub fn decide(
    mounts: &[Mount],
    is_directory: impl Fn(&[u8]) -> bool,
    left_out: &[Vec<u8>],
) -> Vec<MountStanding> {
    let standing = |mount: &Mount| {
        if !is_visible(mount, mounts, 0) {
            return Standing::LeftOut(Reason::Covered);
        }
        if let Some(reason) = unfit(mount) {
            return Standing::LeftOut(reason);
        }
        if !is_directory(&mount.point) {
            return Standing::LeftOut(Reason::File);
        }
        Standing::Local
    };
    let mut decided: Vec<(&Mount, Standing)> =
        mounts.iter().map(|mount| (mount, standing(mount))).collect();
    // Of several mounts of the same files, the one nearest to the root of their file system stays,
    // and of equal ones the one with the shortest path.
    decided.sort_by(|(one, _), (other, _)| {
        let rank = |mount: &Mount| (mount.root.len(), mount.point.len());
        rank(one).cmp(&rank(other)).then_with(|| one.point.cmp(&other.point))
    });
    let mut taken: Vec<&Mount> = Vec::new();
    for (mount, standing) in &mut decided {
        if *standing != Standing::Local {
            continue;
        }
        match taken.iter().find(|other| shows(other, mount)) {
            Some(other) => *standing = Standing::LeftOut(Reason::Bind(other.point.clone())),
            None => taken.push(mount),
        }
    }
    for (mount, standing) in &mut decided {
        if *standing == Standing::Local && left_out.contains(&mount.point) {
            *standing = Standing::LeftOut(Reason::Excluded);
        }
    }
    let mut standings: Vec<MountStanding> = decided
        .into_iter()
        .map(|(mount, standing)| MountStanding {
            point: mount.point.clone(),
            kind: mount.kind.clone(),
            standing,
        })
        .collect();
    standings.sort_by(|one, other| one.point.cmp(&other.point));
    standings
}

/// Maximum number of mounts above a mount. The kernel has no circles, but a table that was changed
/// while it was read may have one.
const DEPTH_MAX: usize = 1000;

/// Returns true if a path leads to the mount.
fn is_visible(mount: &Mount, mounts: &[Mount], depth: usize) -> bool {
    let covers = |other: &Mount| {
        let is_on_top = other.parent == mount.id && other.point == mount.point;
        let is_beside = other.parent == mount.parent
            && other.id != mount.id
            && other.point != mount.point
            && is_at_or_below(&mount.point, &other.point);
        // A path below the other one would lead to a mount on it, and not on its parent.
        is_on_top || is_beside
    };
    if depth > DEPTH_MAX || mounts.iter().any(covers) {
        return false;
    }
    let parent = mounts.iter().find(|parent| parent.id == mount.parent && parent.id != mount.id);
    // A mount on top of its parent takes the parent's place, so the parent need not be visible.
    parent.is_none_or(|parent| parent.point == mount.point || is_visible(parent, mounts, depth + 1))
}

/// Returns the reason why the mount is no local file system of a disk.
fn unfit(mount: &Mount) -> Option<Reason> {
    let kind = mount.kind.as_str();
    let is_of = |list: &[&str]| list.contains(&kind);
    if OVERLAYS.contains(&kind) {
        return (mount.point != b"/").then_some(Reason::Overlay);
    }
    if is_of(&MEMORY) || is_memory_disk(&mount.source) {
        return Some(Reason::Memory);
    }
    if is_of(&NETWORK) {
        return Some(Reason::Network);
    }
    if kind == "fuse" || kind.starts_with("fuse.") {
        return Some(Reason::Fuse);
    }
    if is_of(&READ_ONLY) {
        return Some(Reason::ReadOnly);
    }
    (mount.device.0 == 0 && !is_of(&NUMBERED_ALONE)).then_some(Reason::Kernel)
}

fn is_memory_disk(source: &[u8]) -> bool {
    source.starts_with(b"/dev/ram") || source.starts_with(b"/dev/zram")
}

/// Returns true if a backup at the mount point of `mount` takes the files of `other`, too.
fn shows(mount: &Mount, other: &Mount) -> bool {
    if mount.device != other.device || mount.kind != other.kind {
        return false;
    }
    if mount.root == other.root {
        return true;
    }
    match (subvolume(mount), subvolume(other)) {
        // Each subvolume is a file system of its own for a backup.
        (Some(one), Some(two)) => one == two && is_at_or_below(&other.root, &mount.root),
        _ => is_at_or_below(&other.root, &mount.root),
    }
}

/// Returns the path of the btrfs subvolume that is mounted.
fn subvolume(mount: &Mount) -> Option<&[u8]> {
    let mut options = mount.options.split(|&byte| byte == b',');
    options.find_map(|option| option.strip_prefix(b"subvol="))
}

/// Parses the kernel's table of mounts. A line that is none is left out.
pub fn parse_mounts(table: &[u8]) -> Vec<Mount> {
    table.split(|&byte| byte == b'\n').filter_map(mount_of_line).collect()
}

fn mount_of_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let number = |field: &[u8]| str::from_utf8(field).ok()?.parse::<u32>().ok();
    let (id, parent) = (number(fields.next()?)?, number(fields.next()?)?);
    let device = fields.next()?;
    let colon = device.iter().position(|&byte| byte == b':')?;
    let device = (number(&device[..colon])?, number(&device[colon + 1..])?);
    let (root, point) = (unescaped(fields.next()?), unescaped(fields.next()?));
    fields.find(|field| *field == b"-")?;
    let kind = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = unescaped(fields.next()?);
    let options = unescaped(fields.next().unwrap_or_default());
    Some(Mount { id, parent, device, root, point, kind, source, options })
}

/// Reverses the kernel's escapes: a backslash and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.first_chunk::<3>().filter(|_| byte == b'\\');
        let escape = digits.and_then(octal);
        match escape {
            Some(value) => {
                bytes.push(value);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    bytes
}

/// The byte with these octal digits; `None` if they are none.
fn octal(digits: &[u8; 3]) -> Option<u8> {
    let mut value = 0;
    for digit in digits {
        value = value * 8 + char::from(*digit).to_digit(8)?;
    }
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests;

//! Which file system holds a path.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree, unmount,
};

use crate::dir::Dir;

/// Symbolic links followed in one path at most, as in the kernel.
const LINKS_MAX: usize = 40;

const HANDLE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Splits `path` into the root of the file system that holds it and the rest; both start with `/`.
///
/// The symbolic links in `path` are resolved, but for the last component: a backup of a link is a
/// backup of the link, unless a slash follows it. The root is the highest directory that is reached
/// from the object's directory (from the object, if it is one) without a change of `st_dev`: a bind
/// mount of the same file system is not seen, a btrfs subvolume is a root. `path` may have any
/// length; a relative one starts at the working directory.
pub fn filespace_root(path: &[u8]) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut walk = Walk::new()?;
    if path.is_empty() {
        return Err(Errno::NOENT.into());
    }
    if path[0] != b'/' {
        walk.go(std::env::current_dir()?.as_os_str().as_bytes())?;
        assert!(walk.leaf.is_none(), "the working directory is a directory");
    }
    walk.go(path)?;
    Ok(walk.split())
}

/// What is mounted somewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mounted {
    /// What of the file system is mounted there: `/` for all of it.
    pub root: Vec<u8>,
    /// The type of the file system, as the kernel calls it.
    pub kind: String,
    /// Mostly a device.
    pub source: Vec<u8>,
}

/// The type of the file system that is mounted at `path`, as the kernel calls it; `None` where
/// nothing is mounted there.
pub fn filesystem_type(path: &[u8]) -> io::Result<Option<String>> {
    Ok(mounted(path)?.map(|mounted| mounted.kind))
}

/// What is mounted at `path`; `None` where nothing is.
pub fn mounted(path: &[u8]) -> io::Result<Option<Mounted>> {
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    Ok(mounted_at(&mounts, path))
}

/// Source: proc(5), `/proc/pid/mountinfo`. Of several mounts at a path the one is seen that no
/// other of them lies on.
fn mounted_at(mountinfo: &[u8], path: &[u8]) -> Option<Mounted> {
    let of_line = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ');
        let number = |field: Option<&[u8]>| str::from_utf8(field?).ok()?.parse::<u32>().ok();
        let (id, parent) = (number(fields.next())?, number(fields.next())?);
        let root = unescaped(fields.nth(1)?);
        if unescaped(fields.next()?) != path {
            return None;
        }
        fields.find(|field| *field == b"-")?;
        let kind = String::from_utf8_lossy(fields.next()?).into_owned();
        Some((id, parent, Mounted { root, kind, source: unescaped(fields.next()?) }))
    };
    let found: Vec<_> = mountinfo.split(|&byte| byte == b'\n').filter_map(of_line).collect();
    let lower: Vec<u32> = found.iter().map(|(_, parent, _)| *parent).collect();
    let mut upper = found.into_iter().rev();
    upper.find_map(|(id, _, mounted)| (!lower.contains(&id)).then_some(mounted))
}

/// Undoes the kernel's octal escapes, such as `\040`.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, behind)) = rest.split_first() {
        let octal = behind.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        let code = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(|_| first == b'\\') {
            Some(code) => {
                bytes.push(code);
                rest = &behind[3..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    bytes
}

/// Whether anything is mounted below `path`, and where.
pub fn mounted_below(path: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    let points = mounts.split(|&byte| byte == b'\n').filter_map(mount_point);
    let is_below = |point: &Vec<u8>| {
        point
            .strip_prefix(path)
            .is_some_and(|rest| rest.starts_with(b"/") && rest.len() > 1)
    };
    Ok(points.into_iter().find(is_below))
}

fn mount_point(line: &[u8]) -> Option<Vec<u8>> {
    line.split(|&byte| byte == b' ').nth(4).map(unescaped)
}

/// A part of a file system that nobody can reach by a path yet.
#[derive(Debug)]
pub struct Detached(OwnedFd);

impl Detached {
    /// What `directory` is with all below it, with the options of the mount that it was reached by.
    /// What is mounted below it is left out.
    pub fn of(directory: &Dir) -> io::Result<Self> {
        let empty_path = OpenTreeFlags::from_bits_retain(AtFlags::EMPTY_PATH.bits());
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | empty_path;
        Ok(Self(open_tree(directory, c"", flags)?))
    }

    /// The file system of which a part is mounted at `path`, with the options of that mount: all of
    /// it, or of btrfs the subvolume `root`.
    pub fn whole(path: &[u8], root: &[u8]) -> io::Result<Self> {
        let Some(Mounted { kind, source, .. }) = mounted(path)? else {
            return Err(io::Error::other("nothing is mounted there"));
        };
        let context = fsopen(&kind[..], FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, c"source", &source[..])?;
        if kind == "btrfs" {
            // Where nobody says which, another one may be mounted.
            let root = if root.is_empty() { b"/" } else { root };
            fsconfig_set_string(&context, c"subvol", root)?;
        }
        fsconfig_create(&context)?;
        let options = attributes(rustix::fs::statvfs(path)?.f_flag);
        Ok(Self(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, options)?))
    }

    /// Its topmost directory.
    pub fn root(&self) -> io::Result<Dir> {
        Dir::at(&self.0)
    }

    /// Puts it in the place of what is mounted at `path`; who has something open there keeps that.
    /// There is no moment without a mount. Before Linux 6.5 it lies on what was mounted.
    pub fn replace(self, path: &[u8]) -> io::Result<()> {
        let whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        let beneath = whole | MoveMountFlags::MOVE_MOUNT_BENEATH;
        match move_mount(&self.0, c"", CWD, path, beneath) {
            Ok(()) => Ok(unmount(path, UnmountFlags::DETACH)?),
            Err(Errno::INVAL) => Ok(move_mount(&self.0, c"", CWD, path, whole)?),
            Err(error) => Err(error.into()),
        }
    }
}

/// What `statvfs` says of a mount, as it is said of a new one.
fn attributes(flags: StatVfsMountFlags) -> MountAttrFlags {
    let pairs = [
        (StatVfsMountFlags::RDONLY, MountAttrFlags::MOUNT_ATTR_RDONLY),
        (StatVfsMountFlags::NOSUID, MountAttrFlags::MOUNT_ATTR_NOSUID),
        (StatVfsMountFlags::NODEV, MountAttrFlags::MOUNT_ATTR_NODEV),
        (StatVfsMountFlags::NOEXEC, MountAttrFlags::MOUNT_ATTR_NOEXEC),
        (StatVfsMountFlags::NOATIME, MountAttrFlags::MOUNT_ATTR_NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountAttrFlags::MOUNT_ATTR_NODIRATIME),
    ];
    let said = pairs.into_iter().filter(|(told, _)| flags.contains(*told));
    said.fold(MountAttrFlags::empty(), |all, (_, one)| all | one)
}

/// A walk from `/` to the object, one component at a time.
///
/// Invariant: `here` is the directory that `steps` lead to, and none of them is a symbolic link.
struct Walk {
    here: OwnedFd,
    root_device: u64,
    steps: Vec<Step>,
    /// The object, if it is not a directory.
    leaf: Option<Vec<u8>>,
    link_count: usize,
}

struct Step {
    name: Vec<u8>,
    device: u64,
}

impl Walk {
    fn new() -> io::Result<Self> {
        let here = open_root()?;
        let root_device = rustix::fs::fstat(&here)?.st_dev;
        Ok(Self { here, root_device, steps: Vec::new(), leaf: None, link_count: 0 })
    }

    fn go(&mut self, path: &[u8]) -> io::Result<()> {
        // What is still to go, the next component last; links push their targets.
        let mut ahead = Vec::new();
        self.push(&mut ahead, path)?;
        while let Some(name) = ahead.pop() {
            if self.leaf.is_some() {
                return Err(Errno::NOTDIR.into());
            }
            match &name[..] {
                b"" | b"." => {}
                b".." => self.climb()?,
                _ => {
                    let last = ahead.is_empty();
                    if let Some(target) = self.descend(name, last)? {
                        self.push(&mut ahead, &target)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, ahead: &mut Vec<Vec<u8>>, path: &[u8]) -> io::Result<()> {
        if path.first() == Some(&b'/') {
            self.here = open_root()?;
            self.steps.clear();
        }
        // An empty part stays: a slash at the end asks for a directory.
        ahead.extend(path.split(|&byte| byte == b'/').rev().map(<[u8]>::to_vec));
        Ok(())
    }

    fn climb(&mut self) -> io::Result<()> {
        if self.steps.pop().is_some() {
            self.here = rustix::fs::openat(&self.here, c"..", HANDLE, Mode::empty())?;
        }
        Ok(())
    }

    /// Enters the directory `name`; returns the target if it is a link to be followed.
    fn descend(&mut self, name: Vec<u8>, last: bool) -> io::Result<Option<Vec<u8>>> {
        let stat = self.stat(&name)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                // O_DIRECTORY makes an automount point mount what belongs there.
                let flags = HANDLE | OFlags::DIRECTORY;
                self.here = rustix::fs::openat(&self.here, &name[..], flags, Mode::empty())?;
                let device = rustix::fs::fstat(&self.here)?.st_dev;
                self.steps.push(Step { name, device });
                Ok(None)
            }
            FileType::Symlink if !last => {
                self.link_count += 1;
                if self.link_count > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                let target = rustix::fs::readlinkat(&self.here, &name[..], Vec::new())?;
                Ok(Some(target.into_bytes()))
            }
            _ => {
                self.leaf = Some(name);
                Ok(None)
            }
        }
    }

    fn stat(&self, name: &[u8]) -> io::Result<Stat> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        Ok(rustix::fs::statat(&self.here, name, flags)?)
    }

    fn split(self) -> (Vec<u8>, Vec<u8>) {
        let device = self.steps.last().map_or(self.root_device, |step| step.device);
        let outside = self.steps.iter().rposition(|step| step.device != device);
        let root_steps = match outside {
            Some(index) => index + 2,
            None if self.root_device == device => 0,
            None => 1,
        };
        let (root, rest) = self.steps.split_at(root_steps);
        let names = |steps: &[Step], leaf: Option<Vec<u8>>| {
            let names = steps.iter().map(|step| &step.name[..]).chain(leaf.as_deref());
            let path = names.flat_map(|name| [b"/", name].concat()).collect::<Vec<u8>>();
            if path.is_empty() { b"/".to_vec() } else { path }
        };
        (names(root, None), names(rest, self.leaf))
    }
}

fn open_root() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(c"/", HANDLE | OFlags::DIRECTORY, Mode::empty())?)
}

#[cfg(test)]
mod tests;

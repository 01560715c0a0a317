//! Mounted file systems: the file system that holds a path, and the mounts at and below a path.
//!
//! `/proc/self/mountinfo` is parsed here because mount points are bytes: the procfs crate reads the
//! file as UTF-8 text, refuses the whole file if one name is not UTF-8, and leaves escapes as they
//! are.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::time::Duration;

use model::within;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
    open_tree, unmount,
};

use crate::dir::Dir;

/// Maximum number of symbolic links followed in one path, as in the kernel.
const LINKS_MAX: usize = 40;

const HANDLE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Splits `path` into the root of the file system that holds the object, and the rest of the path.
/// Both parts start with `/`.
///
/// The symbolic links in `path` are resolved, except the last component: a backup of a link backs
/// up the link itself, unless a slash follows it. The root is the highest directory above the
/// object's directory (or the object itself, if it is a directory) with the same `st_dev`: a bind
/// mount of the same file system is not recognised, a btrfs subvolume counts as a root. `path` may
/// have any length. Fails with `InvalidInput` for a relative path.
pub fn filespace_root(path: &[u8]) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut walk = Walk::new()?;
    match walk.go(path)?.is_empty() {
        true => Ok(walk.split()),
        false => Err(walk.obstacle().into()),
    }
}

/// Returns `path` with its symbolic links resolved, except the last component. From the first name
/// that does not exist, or that lies below something other than a directory, the rest stays as it
/// is: an object that was backed up may be gone. Fails with `InvalidInput` for a relative path.
pub fn resolved(path: &[u8]) -> io::Result<Vec<u8>> {
    let mut walk = Walk::new()?;
    let rest = walk.go(path)?;
    // Nothing says where `..` leads from a name that does not exist.
    if rest.iter().any(|name| name == b"..") {
        return Err(walk.obstacle().into());
    }
    let is_name = |name: &&[u8]| !matches!(*name, b"" | b".");
    let names = names(&walk.steps, walk.leaf.as_deref());
    Ok(path_of(names.chain(rest.iter().map(Vec::as_slice).filter(is_name))))
}

/// A mounted file system, or a part of a file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountedFilesystem {
    /// The part of the file system that is mounted: `/` for all of it.
    pub root: Vec<u8>,
    /// The type of the file system, as the kernel calls it.
    pub kind: String,
    /// The source of the mount, usually a device.
    pub source: Vec<u8>,
}

/// Returns the kernel's table of mounts, as this process sees them.
pub fn table() -> io::Result<Vec<u8>> {
    std::fs::read("/proc/self/mountinfo")
}

/// The type of the file system that is mounted at `path`, as the kernel calls it; `None` if nothing
/// is mounted there.
pub fn filesystem_type(path: &[u8]) -> io::Result<Option<String>> {
    Ok(mounted(path)?.map(|mounted| mounted.kind))
}

/// Finds the mount that is visible at `path`; `None` if nothing is mounted there.
pub fn mounted(path: &[u8]) -> io::Result<Option<MountedFilesystem>> {
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    Ok(mounted_in(&mounts, path))
}

/// Finds in the kernel's table of mounts the uppermost mount at `path`: if there are several, the
/// mount that no other mount covers.
///
/// Source: proc(5), `/proc/pid/mountinfo`.
pub fn mounted_in(mountinfo: &[u8], path: &[u8]) -> Option<MountedFilesystem> {
    let found = mounts_at(mountinfo, path);
    let lower: Vec<u32> = found.iter().map(|(_, parent, _)| *parent).collect();
    let mut upper = found.into_iter().rev();
    upper.find_map(|(id, _, mounted)| (!lower.contains(&id)).then_some(mounted))
}

/// All mounts at `path`, each with its id and the id of its parent.
fn mounts_at(mountinfo: &[u8], path: &[u8]) -> Vec<(u32, u32, MountedFilesystem)> {
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
        Some((id, parent, MountedFilesystem { root, kind, source: unescaped(fields.next()?) }))
    };
    mountinfo.split(|&byte| byte == b'\n').filter_map(of_line).collect()
}

/// Returns a directory at which all of the file system on the block device with the number `device`
/// is mounted; `None` if there is none. Of a file system with a number of its own, such as btrfs, a
/// part may be mounted there.
pub fn point_of_device(device: u64) -> io::Result<Option<Vec<u8>>> {
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    Ok(point_in(&mounts, device).or_else(|| point_of_source(&mounts, device)))
}

/// Finds a file system whose number is not that of its device, by the path of its device.
fn point_of_source(mountinfo: &[u8], device: u64) -> Option<Vec<u8>> {
    let of_line = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        let is_own_number = fields.next()?.starts_with(b"0:");
        let point = unescaped(fields.nth(1)?);
        fields.find(|field| *field == b"-")?;
        let source = unescaped(fields.nth(1)?);
        // Other sources may be paths that make the kernel ask another machine.
        if !is_own_number || !source.starts_with(b"/dev/") {
            return None;
        }
        let stat = std::fs::metadata(OsStr::from_bytes(&source)).ok()?;
        (stat.file_type().is_block_device() && stat.rdev() == device).then_some(point)
    };
    mountinfo.split(|&byte| byte == b'\n').find_map(of_line)
}

fn point_in(mountinfo: &[u8], device: u64) -> Option<Vec<u8>> {
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let of_line = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        let is_device = fields.next()? == number.as_bytes();
        let is_whole = fields.next()? == b"/";
        let point = unescaped(fields.next()?);
        (is_device && is_whole).then_some(point)
    };
    mountinfo.split(|&byte| byte == b'\n').find_map(of_line)
}

/// Ids of the mounts at one path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MountStack {
    /// Id of the mount that is visible.
    pub top: Option<u32>,
    /// Ids of the mounts that others cover. A mount keeps its id as long as it exists.
    pub covered: Vec<u32>,
}

/// Returns the ids of the mounts at `path`.
pub fn stack(path: &[u8]) -> io::Result<MountStack> {
    Ok(stack_in(&std::fs::read("/proc/self/mountinfo")?, path))
}

fn stack_in(mountinfo: &[u8], path: &[u8]) -> MountStack {
    let found = mounts_at(mountinfo, path);
    let is_covered = |id: u32| found.iter().any(|(_, parent, _)| *parent == id);
    let (covered, uncovered): (Vec<u32>, Vec<u32>) =
        found.iter().map(|(id, ..)| *id).partition(|id| is_covered(*id));
    MountStack { top: uncovered.last().copied(), covered }
}

/// Watch on the table of mounts of this process.
#[derive(Debug)]
pub struct MountWatch(File);

impl MountWatch {
    pub fn new() -> io::Result<Self> {
        Ok(Self(File::open("/proc/self/mountinfo")?))
    }

    /// Waits until something is mounted or unmounted, at most for `at_most`. Returns true if the
    /// table has changed since the last call, or since the start of the watch.
    ///
    /// Source: proc(5), `/proc/mounts`: the file becomes readable with an exceptional condition.
    pub fn wait(&self, at_most: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(at_most).map_err(io::Error::other)?;
        let mut polled = [PollFd::new(&self.0, PollFlags::PRI)];
        match poll(&mut polled, Some(&timeout)) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Undoes the kernel's octal escapes, such as `\040`.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        let code = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(|_| first == b'\\') {
            Some(code) => {
                bytes.push(code);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

/// Returns all mount points below `path`, in the order of the kernel's table. A point at which
/// several file systems are mounted comes several times.
pub fn points_below(path: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    let points = mounts.split(|&byte| byte == b'\n').filter_map(mount_point);
    Ok(points.filter(|point| is_below(path, point)).collect())
}

/// Returns true if `point` is below the directory `path`. Neither ends with a slash, unless it is
/// the root.
pub fn is_below(path: &[u8], point: &[u8]) -> bool {
    within(point, path).is_some_and(|rest| rest.len() > 1)
}

/// A mount of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessMount {
    /// The part of the file system that is mounted: `/` for all of it.
    pub root: Vec<u8>,
    /// The directory at which the process sees it.
    pub point: Vec<u8>,
    /// Of an overlay: the directory that gets what is written, as the overlay was told it.
    pub upper: Option<Vec<u8>>,
}

/// Finds the mount with the id `id` in a table of mounts.
pub(crate) fn mount_with_id(mountinfo: &[u8], id: &[u8]) -> Option<ProcessMount> {
    let of_line = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ');
        (fields.next()? == id).then_some(())?;
        let (root, point) = (unescaped(fields.nth(2)?), unescaped(fields.next()?));
        Some(ProcessMount { root, point, upper: upper_layer(fields) })
    };
    mountinfo.split(|&byte| byte == b'\n').find_map(of_line)
}

/// Finds the upper layer in the rest of a line, if the line is that of an overlay.
fn upper_layer<'a>(mut fields: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    fields.find(|field| *field == b"-")?;
    (fields.next()? == b"overlay").then_some(())?;
    let mut options = fields.nth(1)?.split(|&byte| byte == b',');
    options.find_map(|option| option.strip_prefix(b"upperdir=")).map(unescaped)
}

/// Finds a mount point below `path`.
pub fn mounted_below(path: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    Ok(point_below(&mounts, path))
}

/// Finds in the kernel's table of mounts a mount point below `path`.
pub fn point_below(mountinfo: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let mut points = mountinfo.split(|&byte| byte == b'\n').filter_map(mount_point);
    points.find(|point| is_below(path, point))
}

fn mount_point(line: &[u8]) -> Option<Vec<u8>> {
    line.split(|&byte| byte == b' ').nth(4).map(unescaped)
}

/// A mount that no path leads to yet.
#[derive(Debug)]
pub struct DetachedMount(OwnedFd);

impl DetachedMount {
    /// Clones the mount of `directory` from that directory downwards, with its options. Mounts
    /// below it are left out.
    pub fn of(directory: &Dir) -> io::Result<Self> {
        let empty_path = OpenTreeFlags::from_bits_retain(AtFlags::EMPTY_PATH.bits());
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | empty_path;
        let clone = Self(open_tree(directory, c"", flags)?);
        clone.leave_peers()?;
        Ok(clone)
    }

    /// Separates the mount from its peers. A clone of a shared mount, as systemd makes all mounts,
    /// is a peer of that mount: a later mount over the clone would appear in the other one too, at
    /// the directory that was cloned.
    ///
    /// Sources: mount_setattr(2), mount_namespaces(7).
    fn leave_peers(&self) -> io::Result<()> {
        let change = libc::mount_attr {
            attr_set: 0,
            attr_clr: 0,
            propagation: libc::MS_PRIVATE,
            userns_fd: 0,
        };
        // SAFETY: `change` and the empty path, which ends with a NUL, live until the call returns.
        let status = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                self.0.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH,
                &raw const change,
                size_of::<libc::mount_attr>(),
            )
        };
        match if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) } {
            // A kernel before 5.12.
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
            done => done,
        }
    }

    /// Makes a new mount of the file system that has a part mounted at `path`, with the options of
    /// that mount. The new mount shows the whole file system; for btrfs, the subvolume `root`.
    pub fn whole(path: &[u8], root: &[u8]) -> io::Result<Self> {
        let Some(MountedFilesystem { kind, source, .. }) = mounted(path)? else {
            let message = format!("nothing is mounted at {}", path.escape_ascii());
            return Err(io::Error::other(message));
        };
        let context = fsopen(&kind[..], FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, c"source", &source[..])?;
        if kind == "btrfs" {
            // Without a name, btrfs mounts its default subvolume.
            let root = if root.is_empty() { b"/" } else { root };
            fsconfig_set_string(&context, c"subvol", root)?;
        }
        fsconfig_create(&context)?;
        let options = attributes(rustix::fs::statvfs(path)?.f_flag);
        Ok(Self(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, options)?))
    }

    /// Mounts the file system of the type `kind` on `device` for reading, where no path leads to.
    /// It ends when it is dropped. Fails if the kernel would have to write to the device first,
    /// such as after a crash, unless `as_it_is` leaves out the journal.
    pub fn read_only(device: &[u8], kind: &str, as_it_is: bool) -> io::Result<Self> {
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, c"source", device)?;
        fsconfig_set_flag(&context, c"ro")?;
        if kind == "xfs" {
            // The original may be mounted, and has the same UUID.
            fsconfig_set_flag(&context, c"nouuid")?;
        }
        match kind {
            "ext2" | "ext3" | "ext4" if as_it_is => fsconfig_set_flag(&context, c"noload")?,
            "xfs" if as_it_is => fsconfig_set_flag(&context, c"norecovery")?,
            "btrfs" if as_it_is => fsconfig_set_string(&context, c"rescue", c"nologreplay")?,
            _ => {}
        }
        fsconfig_create(&context)?;
        let options = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC
            | MountAttrFlags::MOUNT_ATTR_NOATIME;
        Ok(Self(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, options)?))
    }

    /// Mounts a file system that this process serves through `device`, the open `/dev/fuse`, where
    /// no path leads to. Only this user may use it.
    pub fn fuse(device: &OwnedFd) -> io::Result<Self> {
        let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        for (option, value) in [
            (c"source", "holdfast".to_owned()),
            (c"fd", device.as_raw_fd().to_string()),
            // The mode of a directory, in octal digits.
            (c"rootmode", "40000".to_owned()),
            (c"user_id", user.as_raw().to_string()),
            (c"group_id", group.as_raw().to_string()),
        ] {
            fsconfig_set_string(&context, option, value)?;
        }
        fsconfig_create(&context)?;
        let options = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        Ok(Self(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, options)?))
    }

    /// Opens the file `name` in the topmost directory for reading.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Opens the topmost directory.
    pub fn root(&self) -> io::Result<Dir> {
        Dir::at(&self.0)
    }

    /// Replaces the mount at `path` by this mount. Files that are open in the old mount stay open.
    /// One of the two mounts is visible at every moment. Before Linux 6.5 the old mount stays,
    /// covered by this mount. There the old mount is removed first if its directory was removed,
    /// because nothing can be mounted over such a directory.
    pub fn replace(self, path: &[u8]) -> io::Result<()> {
        let whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        let beneath = whole | MoveMountFlags::MOVE_MOUNT_BENEATH;
        match move_mount(&self.0, c"", CWD, path, beneath) {
            Ok(()) => Ok(unmount(path, UnmountFlags::DETACH)?),
            Err(Errno::INVAL) => self.cover(path),
            Err(error) => Err(error.into()),
        }
    }

    /// Mounts this mount over the mount at `path`.
    fn cover(&self, path: &[u8]) -> io::Result<()> {
        let cover = || move_mount(&self.0, c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
        match cover() {
            Err(Errno::NOENT) => {
                unmount(path, UnmountFlags::DETACH)?;
                Ok(cover()?)
            }
            done => Ok(done?),
        }
    }
}

/// Translates the options of a mount, as `statvfs` reports them, into the options of a new mount.
fn attributes(flags: StatVfsMountFlags) -> MountAttrFlags {
    let pairs = [
        (StatVfsMountFlags::RDONLY, MountAttrFlags::MOUNT_ATTR_RDONLY),
        (StatVfsMountFlags::NOSUID, MountAttrFlags::MOUNT_ATTR_NOSUID),
        (StatVfsMountFlags::NODEV, MountAttrFlags::MOUNT_ATTR_NODEV),
        (StatVfsMountFlags::NOEXEC, MountAttrFlags::MOUNT_ATTR_NOEXEC),
        (StatVfsMountFlags::NOATIME, MountAttrFlags::MOUNT_ATTR_NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountAttrFlags::MOUNT_ATTR_NODIRATIME),
    ];
    let set = pairs.into_iter().filter(|(flag, _)| flags.contains(*flag));
    set.fold(MountAttrFlags::empty(), |all, (_, one)| all | one)
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

    /// Goes along `path`, up to the first name that does not exist, or that lies below something
    /// other than a directory. Returns this name and those after it.
    fn go(&mut self, path: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        if path.is_empty() {
            return Err(Errno::NOENT.into());
        }
        if path[0] != b'/' {
            let message = "the path does not begin with /";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        // The remaining components, the next one last; the targets of links are added.
        let mut ahead = Vec::new();
        self.push(&mut ahead, path)?;
        while let Some(name) = ahead.pop() {
            let is_gone = self.leaf.is_some() || !self.step(&name, &mut ahead)?;
            if is_gone {
                ahead.push(name);
                ahead.reverse();
                return Ok(ahead);
            }
        }
        Ok(Vec::new())
    }

    /// Goes to `name`. Returns false if it does not exist.
    fn step(&mut self, name: &[u8], ahead: &mut Vec<Vec<u8>>) -> io::Result<bool> {
        match name {
            b"" | b"." => {}
            b".." => self.climb()?,
            _ => {
                let last = ahead.is_empty();
                match self.descend(name.to_vec(), last) {
                    Ok(Some(target)) => self.push(ahead, &target)?,
                    Ok(None) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(true)
    }

    /// Returns the reason why a walk has ended before its last name.
    fn obstacle(&self) -> Errno {
        if self.leaf.is_some() { Errno::NOTDIR } else { Errno::NOENT }
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

    /// Enters the directory `name`; if `name` is a link that has to be followed, returns its
    /// target.
    fn descend(&mut self, name: Vec<u8>, last: bool) -> io::Result<Option<Vec<u8>>> {
        let stat = self.stat(&name)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                // O_DIRECTORY makes an automount point mount its file system.
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
        let leaf = self.leaf.as_deref();
        (path_of(names(root, None)), path_of(names(rest, leaf)))
    }
}

/// Returns the names that lead to `leaf`, or to the last of `steps`.
fn names<'a>(steps: &'a [Step], leaf: Option<&'a [u8]>) -> impl Iterator<Item = &'a [u8]> {
    steps.iter().map(|step| &step.name[..]).chain(leaf)
}

/// Returns the absolute path of `names`.
fn path_of<'a>(names: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let path = names.flat_map(|name| [b"/", name].concat()).collect::<Vec<u8>>();
    if path.is_empty() { b"/".to_vec() } else { path }
}

fn open_root() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(c"/", HANDLE | OFlags::DIRECTORY, Mode::empty())?)
}

#[cfg(test)]
mod tests;

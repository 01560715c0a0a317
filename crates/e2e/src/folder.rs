//! An open folder. Its objects are reached relative to it, so no path is ever too long.
//!
//! If an object of the folder is a symlink, no call follows the symlink.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, IFlags, Mode, OFlags, Stat, Timespec};

/// Maximum number of bytes in the list of names, and in one value: the kernel's own limits.
const XATTR_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
}

impl Folder {
    /// Opens the folder at `path`; symlinks in `path` are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let fd = fs::openat(CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { fd })
    }

    pub fn child(&self, name: &[u8]) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self { fd: fs::openat(&self.fd, name, flags, Mode::empty())? })
    }

    /// Makes a folder and opens it.
    pub fn make(&self, name: &[u8]) -> io::Result<Self> {
        fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o755))?;
        self.child(name)
    }

    /// Makes a regular file, which must not exist yet, and opens it for writing.
    pub fn create(&self, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(fs::openat(&self.fd, name, flags, Mode::from_raw_mode(0o644))?.into())
    }

    /// Opens a regular file or a folder for reading.
    pub fn read(&self, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(fs::openat(&self.fd, name, flags, Mode::empty())?.into())
    }

    pub fn symlink(&self, name: &[u8], target: &[u8]) -> io::Result<()> {
        Ok(fs::symlinkat(target, &self.fd, name)?)
    }

    /// Gives the object `name` of this folder a second name in `other`.
    pub fn link(&self, name: &[u8], other: &Self, other_name: &[u8]) -> io::Result<()> {
        Ok(fs::linkat(&self.fd, name, &other.fd, other_name, AtFlags::empty())?)
    }

    pub fn make_special(&self, name: &[u8], kind: FileType, device: u64) -> io::Result<()> {
        Ok(fs::mknodat(&self.fd, name, kind, Mode::from_raw_mode(0o640), device)?)
    }

    /// Returns the names in the folder in byte order, without `.` and `..`.
    pub fn names(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for item in Dir::read_from(&self.fd)? {
            let name = item?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    pub fn stat(&self, name: &[u8]) -> io::Result<Stat> {
        Ok(fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    pub fn symlink_target(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        Ok(fs::readlinkat(&self.fd, name, Vec::new())?.into_bytes())
    }

    pub fn set_mode(&self, name: &[u8], mode: u32) -> io::Result<()> {
        Ok(fs::chmodat(&self.fd, name, Mode::from_raw_mode(mode), AtFlags::empty())?)
    }

    pub fn set_owner(&self, name: &[u8], uid: u32, gid: u32) -> io::Result<()> {
        let (uid, gid) = (fs::Uid::from_raw(uid), fs::Gid::from_raw(gid));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(fs::chownat(&self.fd, name, Some(uid), Some(gid), flags)?)
    }

    /// Sets the time of the last modification, and keeps the time of the last access.
    pub fn set_mtime(&self, name: &[u8], time: Timespec) -> io::Result<()> {
        let omit = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT };
        let times = fs::Timestamps { last_access: omit, last_modification: time };
        Ok(fs::utimensat(&self.fd, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Returns all extended attributes, among them the ACLs in their binary form.
    pub fn xattrs(&self, name: &[u8]) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let path = self.path_in_proc(name);
        let mut list = vec![0; XATTR_BYTES_MAX];
        let list_bytes = match fs::llistxattr(path.as_slice(), list.as_mut_slice()) {
            Err(rustix::io::Errno::NOTSUP) => return Ok(BTreeMap::new()),
            result => result?,
        };
        let attributes =
            list[..list_bytes].split(|byte| *byte == 0).filter(|name| !name.is_empty());
        attributes
            .map(|attribute| {
                let mut value = vec![0; XATTR_BYTES_MAX];
                let bytes = fs::lgetxattr(path.as_slice(), attribute, value.as_mut_slice())?;
                value.truncate(bytes);
                Ok((attribute.to_vec(), value))
            })
            .collect()
    }

    pub fn set_xattr(&self, name: &[u8], attribute: &str, value: &[u8]) -> io::Result<()> {
        let path = self.path_in_proc(name);
        Ok(fs::lsetxattr(path.as_slice(), attribute, value, fs::XattrFlags::empty())?)
    }

    pub fn remove_xattr(&self, name: &[u8], attribute: &str) -> io::Result<()> {
        Ok(fs::lremovexattr(self.path_in_proc(name).as_slice(), attribute)?)
    }

    /// Returns the inode flags of a regular file or folder; `None` if the file system has no such
    /// flags.
    pub fn flags(&self, name: &[u8]) -> io::Result<Option<IFlags>> {
        match fs::ioctl_getflags(self.read(name)?) {
            Ok(flags) => Ok(Some(IFlags::from_bits_retain(flags.bits()))),
            Err(rustix::io::Errno::NOTTY | rustix::io::Errno::NOTSUP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    pub fn set_flags(&self, name: &[u8], flags: IFlags) -> io::Result<()> {
        Ok(fs::ioctl_setflags(self.read(name)?, flags)?)
    }

    /// The path of the object `name` in /proc: the calls for extended attributes have no form that
    /// is relative to a folder and follows no symlink.
    fn path_in_proc(&self, name: &[u8]) -> Vec<u8> {
        let mut path = format!("/proc/self/fd/{}/", self.fd.as_raw_fd()).into_bytes();
        path.extend_from_slice(name);
        path
    }
}

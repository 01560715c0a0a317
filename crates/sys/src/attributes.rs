//! Extended attributes and inode flags of one inode, reached by an open descriptor or through
//! `/proc`.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use model::{Attributes, Xattr};
use rustix::fs::{IFlags, XattrFlags};
use rustix::io::Errno;

/// The inode flags that are backed up and restored: the flags that a user sets by `chattr`.
///
/// Flags that describe how the file system stores the inode (extents, inline data, index, huge
/// file, verity, encryption, case folding) are left out: restoring them elsewhere would be wrong,
/// or the kernel refuses to set them on an inode in use.
pub const FLAGS_RESTORED: u32 = IFlags::APPEND
    .union(IFlags::COMPRESSED)
    .union(IFlags::DIRSYNC)
    .union(IFlags::IMMUTABLE)
    .union(IFlags::JOURNALING)
    .union(IFlags::NOATIME)
    .union(IFlags::NOCOW)
    .union(IFlags::NODUMP)
    .union(IFlags::NOTAIL)
    .union(IFlags::PROJECT_INHERIT)
    .union(IFlags::SECURE_REMOVAL)
    .union(IFlags::SYNC)
    .union(IFlags::TOPDIR)
    .union(IFlags::UNRM)
    .bits();

/// Maximum length of a list and of a value, in bytes: `XATTR_LIST_MAX` and `XATTR_SIZE_MAX`.
const XATTR_BYTES_MAX: usize = 64 << 10;

/// Number of bytes that is enough for most lists and values, ACLs and labels among them.
const XATTR_BYTES_USUAL: usize = 512;

/// Reference to an inode whose attributes are read or changed.
pub(crate) enum Inode<'fd> {
    /// A file or directory open for reading or writing.
    Open(BorrowedFd<'fd>),
    /// An `O_PATH` descriptor as `/proc/self/fd/N`: calls that follow this link reach the inode
    /// itself, even if it is a symbolic link and its name leads to another object by now.
    Handle(String),
}

impl<'fd> Inode<'fd> {
    pub(crate) fn of_open(fd: BorrowedFd<'fd>) -> Self {
        Self::Open(fd)
    }

    /// Returns a reference for calls that take a path. The caller keeps `fd` open while it is used.
    pub(crate) fn of_handle(fd: &'fd impl AsFd) -> Self {
        Self::Handle(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
    }

    pub(crate) fn attributes(&self) -> io::Result<Attributes> {
        Ok(Attributes { xattrs: self.xattrs()?, flags: self.flags()?.bits() & FLAGS_RESTORED })
    }

    /// The inode flags; none if the file system has no flags.
    pub(crate) fn flags(&self) -> io::Result<IFlags> {
        let Self::Open(fd) = self else { return Ok(IFlags::empty()) };
        match rustix::fs::ioctl_getflags(fd) {
            Ok(flags) => Ok(flags),
            Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                Ok(IFlags::empty())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The attributes of the namespaces that a backup covers, sorted by name.
    pub(crate) fn xattrs(&self) -> io::Result<Vec<Xattr>> {
        let mut xattrs = Vec::new();
        for name in self.xattr_names()? {
            if let Some(value) = self.xattr(&name)? {
                xattrs.push(Xattr { name, value });
            }
        }
        xattrs.sort_unstable();
        Ok(xattrs)
    }

    pub(crate) fn xattr_names(&self) -> io::Result<Vec<Vec<u8>>> {
        let list = match read_whole(|buffer| match self {
            Self::Open(fd) => rustix::fs::flistxattr(fd, buffer),
            Self::Handle(path) => rustix::fs::listxattr(path, buffer),
        }) {
            Ok(list) => list,
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let covered = |name: &&[u8]| is_covered(name);
        Ok(list.split(|&byte| byte == 0).filter(covered).map(<[u8]>::to_vec).collect())
    }

    /// The value of one attribute; `None` if it vanished or the caller may not read it.
    fn xattr(&self, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
        match read_whole(|buffer| match self {
            Self::Open(fd) => rustix::fs::fgetxattr(fd, name, buffer),
            Self::Handle(path) => rustix::fs::getxattr(path, name, buffer),
        }) {
            Ok(value) => Ok(Some(value)),
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn set_xattr(&self, xattr: &Xattr) -> io::Result<()> {
        let (name, value, flags) = (&xattr.name[..], &xattr.value[..], XattrFlags::empty());
        match self {
            Self::Open(fd) => rustix::fs::fsetxattr(fd, name, value, flags)?,
            Self::Handle(path) => rustix::fs::setxattr(path, name, value, flags)?,
        }
        Ok(())
    }

    pub(crate) fn remove_xattr(&self, name: &[u8]) -> io::Result<()> {
        let removed = match self {
            Self::Open(fd) => rustix::fs::fremovexattr(fd, name),
            Self::Handle(path) => rustix::fs::removexattr(path, name),
        };
        match removed {
            Ok(()) | Err(Errno::NODATA) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Calls `read` once if the answer is short, otherwise once more with room for the longest possible
/// answer.
fn read_whole(read: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut usual = [0; XATTR_BYTES_USUAL];
    match read(&mut usual) {
        Ok(count) => Ok(usual[..count].to_vec()),
        Err(Errno::RANGE) => {
            let mut bytes = vec![0; XATTR_BYTES_MAX];
            let count = read(&mut bytes)?;
            bytes.truncate(count);
            bytes.shrink_to_fit();
            Ok(bytes)
        }
        Err(error) => Err(error),
    }
}

/// Name of Holdfast's own attribute, the record of a migrated file. It is not backed up.
const OWN: &[u8] = b"trusted.hf";

fn is_covered(name: &[u8]) -> bool {
    name != OWN
        && [&b"user."[..], b"trusted.", b"security.", b"system.posix_acl_"]
            .iter()
            .any(|namespace| name.starts_with(namespace))
}

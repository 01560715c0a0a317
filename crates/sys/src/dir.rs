//! An open directory, and queries about the names in it.
//!
//! A backup reaches everything from a [`Dir`] by one name (invariants 1 and 3 of the crate). A
//! `Dir` holds one file descriptor; users share it by `Arc` and release it early, since the limit
//! of open files bounds how many live at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use model::{Attributes, Kind};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;

use crate::attributes::{FLAGS_RESTORED, Inode};
use crate::listing::Listing;
use crate::lock::Mutex;
use crate::new_file_state::NewFileState;
use crate::source::SourceFile;
use crate::status::{ObjectStatus, stat_open};

/// Maximum length of a path that is passed to the kernel, in bytes. The kernel's limit is 4096 with
/// the terminating NUL.
const PIECE_BYTES_MAX: usize = 4000;

/// Flags for a directory that only leads to others.
const WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Size in bytes of the first buffer for the target of a symbolic link; a longer target is read
/// again.
const LINK_BYTES: usize = 512;

/// An open directory.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    /// True once the descriptor's position has left the start of the directory; locked while the
    /// directory is listed.
    is_listed: Mutex<bool>,
    /// State of a new file in this directory, known after the first file was made. It is assumed
    /// that nothing changes the default attributes of the directory, or the umask of the process,
    /// while files are being made.
    pub(crate) new_file: OnceLock<NewFileState>,
}

impl Dir {
    /// Opens the directory at `path`. Symbolic links are followed, as the kernel does. `path` may
    /// have any length. A relative path starts at the working directory.
    pub fn open(path: &[u8]) -> io::Result<Self> {
        let (base, rest) = reach(path)?;
        Ok(Self::from_fd(open_quietly(at(base.as_ref()), rest, OFlags::DIRECTORY)?))
    }

    /// Opens the directory to which the names `below` lead from the directory at `path`. Symbolic
    /// links in `path` are followed. A link among `below` is refused with `NotADirectory`. As in
    /// [`Self::open`], only the last directory must be readable.
    pub fn open_below<'n>(
        path: &[u8],
        below: impl IntoIterator<Item = &'n [u8]>,
    ) -> io::Result<Self> {
        let (base, rest) = reach(path)?;
        let mut way = rustix::fs::openat(at(base.as_ref()), rest, WAY, Mode::empty())?;
        for name in below {
            way = rustix::fs::openat(&way, single(name)?, WAY | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Self::at(&way)
    }

    /// Opens the directory that `handle` refers to.
    pub(crate) fn at(handle: &impl AsFd) -> io::Result<Self> {
        Ok(Self::from_fd(open_quietly(handle.as_fd(), b".", OFlags::DIRECTORY)?))
    }

    /// Returns true if an object has the name `name`.
    pub fn has(&self, name: &[u8]) -> io::Result<bool> {
        match self.open_handle(name) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the directory `name` in this directory. A symbolic link is refused with
    /// `NotADirectory`.
    pub fn open_dir(&self, name: &[u8]) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
        Ok(Self::from_fd(open_quietly(self.as_fd(), single(name)?, flags)?))
    }

    pub(crate) fn open_again(&self) -> io::Result<Self> {
        Ok(Self::from_fd(open_quietly(self.as_fd(), b".", OFlags::DIRECTORY)?))
    }

    pub(crate) fn from_fd(fd: OwnedFd) -> Self {
        Self { fd, is_listed: Mutex::new(false), new_file: OnceLock::new() }
    }

    /// Fills `listing` with all names of this directory, sorted, and the status of each object.
    /// Names that vanish meanwhile are left out. Fails only if the directory cannot be read; an
    /// object whose status cannot be read is among [`Listing::failures`].
    ///
    /// Costs two `getdents64` for up to some 2000 names and one `statx` for each name. Calls for
    /// one `Dir` from several threads wait for each other.
    pub fn list(&self, listing: &mut Listing) -> io::Result<()> {
        let mut is_listed = self.is_listed.lock();
        if *is_listed {
            rustix::fs::seek(self.as_fd(), SeekFrom::Start(0))?;
        }
        *is_listed = true;
        listing.read(self.as_fd())
    }

    /// Returns all names of this directory, in the order in which the file system keeps them.
    pub fn names(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut is_listed = self.is_listed.lock();
        if *is_listed {
            rustix::fs::seek(self.as_fd(), SeekFrom::Start(0))?;
        }
        *is_listed = true;
        crate::listing::names(self.as_fd())
    }

    /// Asks for the status of `name`; `None` for a socket, which is no object.
    pub fn stat(&self, name: &[u8]) -> io::Result<Option<ObjectStatus>> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let statx = rustix::fs::statx(self, single(name)?, flags, StatxFlags::BASIC_STATS)?;
        Ok(ObjectStatus::new(&statx))
    }

    /// Asks for the status of this directory itself.
    pub fn stat_self(&self) -> io::Result<ObjectStatus> {
        stat_open(self.as_fd())
    }

    /// Opens the regular file `name` for reading. Anything else is refused with `InvalidInput`, a
    /// symbolic link with `ELOOP`.
    ///
    /// Never waits on a FIFO. If a device node has replaced the file since it was listed, the
    /// device is opened: callers open only names that they have seen as files.
    pub fn open_file(&self, name: &[u8]) -> io::Result<SourceFile> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        SourceFile::new(open_quietly(self.as_fd(), single(name)?, flags)?)
    }

    /// Opens `name` as [`Self::open_file`] does, but does not ask for its kind: for callers who saw
    /// a regular file there and compare it with [`SourceFile::stat`] after they have read it.
    pub fn open_seen_file(&self, name: &[u8]) -> io::Result<SourceFile> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(SourceFile::unchecked(open_quietly(self.as_fd(), single(name)?, flags)?))
    }

    /// Succeeds if files of this directory can be read as they are at one moment; see
    /// [`SourceFile::reflinked`].
    pub fn can_reflink(&self) -> io::Result<()> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self, ".", flags, Mode::RUSR | Mode::WUSR)?;
        SourceFile::unchecked(file).reflinked(self).map(drop)
    }

    /// Reads the target of the symbolic link `name`, whatever its length.
    pub fn read_link(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        let target = rustix::fs::readlinkat(self, single(name)?, Vec::with_capacity(LINK_BYTES))?;
        Ok(target.into_bytes())
    }

    /// The extended attributes and inode flags of the object `name`, which is of `kind`.
    ///
    /// Attributes that the caller may not read, or that vanish meanwhile, are left out; a file
    /// system without them has none. Needs `/proc`, except for files and directories.
    pub fn attributes(&self, name: &[u8], kind: Kind) -> io::Result<Attributes> {
        match kind {
            Kind::File => self.open_file(name)?.attributes(),
            Kind::Directory => self.open_dir(name)?.own_attributes(),
            Kind::Symlink | Kind::Fifo | Kind::CharDevice | Kind::BlockDevice => {
                let fd = self.open_handle(name)?;
                Ok(Attributes { xattrs: Inode::of_handle(&fd).xattrs()?, flags: 0 })
            }
        }
    }

    /// Returns the same as [`Self::attributes`] without opening the object. The inode flags are
    /// only those that `statx` reports (compressed, immutable, append only, not to be dumped).
    pub fn attributes_unopened(&self, name: &[u8]) -> io::Result<Attributes> {
        let fd = self.open_handle(name)?;
        let told = rustix::fs::statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::empty())?;
        // statx numbers its attributes as the inode flags are numbered.
        let flags = u32::try_from(told.stx_attributes.bits() & u64::from(FLAGS_RESTORED));
        Ok(Attributes { xattrs: Inode::of_handle(&fd).xattrs()?, flags: flags.unwrap_or(0) })
    }

    /// The extended attributes and inode flags of this directory itself.
    pub fn own_attributes(&self) -> io::Result<Attributes> {
        Inode::of_open(self.as_fd()).attributes()
    }

    /// Returns a handle on `name`, also on a symbolic link itself, without opening the object.
    pub(crate) fn open_handle(&self, name: &[u8]) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(self, single(name)?, flags, Mode::empty())?)
    }

    /// Returns true if this directory lies on a file system that shows the kernel's state, not
    /// data. `devtmpfs` cannot be told from `tmpfs`, so it does not count as pseudo.
    pub fn is_pseudo(&self) -> io::Result<bool> {
        // The number is sign extended or not, by architecture and kernel.
        let magic = rustix::fs::fstatfs(self)?.f_type & 0xffff_ffff;
        Ok(PSEUDO_FILE_SYSTEMS.iter().any(|&(_, pseudo)| i64::from(pseudo) == magic))
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Refuses anything but one component: a name with a slash would escape from its directory.
pub(crate) fn single(name: &[u8]) -> io::Result<&[u8]> {
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a name must be one path component",
        ));
    }
    Ok(name)
}

/// Opens `path` for reading. Keeps the access time unchanged if the kernel allows that, for root
/// and the owner.
fn open_quietly(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | flags;
    match rustix::fs::openat(dir, path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => Ok(rustix::fs::openat(dir, path, flags, Mode::empty())?),
        result => Ok(result?),
    }
}

fn at(base: Option<&OwnedFd>) -> BorrowedFd<'_> {
    base.map_or(CWD, AsFd::as_fd)
}

/// Opens the directories of `path` that are beyond the kernel's limit. Returns the last of them,
/// and the rest of the path.
fn reach(path: &[u8]) -> io::Result<(Option<OwnedFd>, &[u8])> {
    let mut base: Option<OwnedFd> = None;
    let mut rest = path;
    while let Some((piece, after)) = split_piece(rest) {
        base = Some(rustix::fs::openat(at(base.as_ref()), piece, WAY, Mode::empty())?);
        rest = after;
    }
    Ok((base, rest))
}

/// The start of `path` up to a slash within the kernel's limit, and the rest without its leading
/// slashes; `None` if `path` can be passed to the kernel as it is.
fn split_piece(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.len() <= PIECE_BYTES_MAX {
        return None;
    }
    let end = path[..PIECE_BYTES_MAX].iter().rposition(|&byte| byte == b'/')?;
    let rest = &path[end..];
    let skip = rest.iter().position(|&byte| byte != b'/')?;
    // The slash stays with the piece, so that the piece is not empty even at the root.
    Some((&path[..=end], &rest[skip..]))
}

/// Pseudo file systems, with the magic numbers that `statfs` returns. Sources: the kernel's
/// `linux/magic.h` and the code of each file system.
const PSEUDO_FILE_SYSTEMS: [(&str, u32); 20] = [
    ("autofs", 0x0187),
    ("binfmt_misc", 0x4249_4e4d),
    ("bpf", 0xcafe_4a11),
    ("cgroup", 0x0027_e0eb),
    ("cgroup2", 0x6367_7270),
    ("configfs", 0x6265_6570),
    ("debugfs", 0x6462_6720),
    ("devpts", 0x1cd1),
    ("efivarfs", 0xde5e_81e4),
    ("fusectl", 0x6573_5543),
    ("hugetlbfs", 0x9584_58f6),
    ("mqueue", 0x1980_0202),
    ("nsfs", 0x6e73_6673),
    ("proc", 0x9fa0),
    ("pstore", 0x6165_676c),
    ("rpc_pipefs", 0x6759_6969),
    ("securityfs", 0x7363_6673),
    ("selinuxfs", 0xf97c_ff8c),
    ("sysfs", 0x6265_6572),
    ("tracefs", 0x7472_6163),
];

#[cfg(test)]
mod tests;

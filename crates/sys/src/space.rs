//! The means to make and fill stubs: holes, leases, extended attributes and times.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

use model::Timestamp;
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, SeekFrom, StatxFlags, Timespec, Timestamps, XattrFlags,
};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::status::{ObjectStatus, stat_open, timestamp};

const CAPABILITY_ATTRIBUTE: &str = "security.capability";
/// Maximum length of a record of capabilities, in bytes: `XATTR_CAPS_SZ_3` is 24.
const CAPABILITY_BYTES_MAX: usize = 64;

/// Maximum length of a block of any file system, in bytes.
const BLOCK_BYTES_MAX: u64 = 1 << 20;

/// A regular file whose content can be removed and written again.
#[derive(Debug)]
pub struct SpaceFile {
    file: File,
}

impl SpaceFile {
    /// Opens the regular file `name` of `directory` for reading and writing.
    pub fn open(directory: &Dir, name: &[u8]) -> io::Result<Self> {
        let flags =
            OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOATIME;
        let fd = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
            // A file of another user is opened without `O_NOATIME`, which needs a privilege.
            Err(Errno::PERM) => {
                rustix::fs::openat(directory, name, flags - OFlags::NOATIME, Mode::empty())?
            }
            other => other?,
        };
        Ok(Self { file: fd.into() })
    }

    /// Wraps the file that a question of the kernel is about.
    pub fn asked(fd: OwnedFd) -> Self {
        Self { file: fd.into() }
    }

    pub fn stat(&self) -> io::Result<ObjectStatus> {
        stat_open(self.file.as_fd())
    }

    /// The value of an extended attribute of at most `N` bytes; `None` if the file has none.
    pub fn attribute<const N: usize>(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        attribute::<N>(&self.file, name)
    }

    pub fn set_attribute(&self, name: &str, value: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::fsetxattr(&self.file, name, value, XattrFlags::empty())?)
    }

    pub fn remove_attribute(&self, name: &str) -> io::Result<()> {
        match rustix::fs::fremovexattr(&self.file, name) {
            Err(Errno::NODATA) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Runs `change`, which writes to the file or cuts it, and then sets the file's capabilities
    /// again: the kernel removes them from a file that is written to.
    pub fn keeping_capabilities<T, E: From<io::Error>>(
        &self,
        change: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let before = self.attribute::<CAPABILITY_BYTES_MAX>(CAPABILITY_ATTRIBUTE)?;
        let changed = change();
        if let Some(capabilities) = before {
            self.set_attribute(CAPABILITY_ATTRIBUTE, &capabilities)?;
        }
        changed
    }

    /// Locks the file against opening until [`Self::unlock`]. Returns false if another process has
    /// it open or mapped.
    pub fn lock_alone(&self) -> io::Result<bool> {
        match set_lease(&self.file, libc::F_WRLCK) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn unlock(&self) -> io::Result<()> {
        set_lease(&self.file, libc::F_UNLCK)
    }

    /// Frees the space of the whole content; the size stays.
    pub fn punch(&self, size: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // The range is rounded up, because a block that lies only partly in it would keep its
        // space.
        Ok(rustix::fs::fallocate(&self.file, flags, 0, size.next_multiple_of(BLOCK_BYTES_MAX))?)
    }

    /// Frees the space of a part of the content; that part reads as zeros afterwards.
    pub fn punch_part(&self, part: &Range<u64>) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, flags, part.start, part.end - part.start)?)
    }

    /// Finds the parts of `range` that take no space, in ascending order.
    pub fn holes(&self, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        let mut holes = Vec::new();
        let mut offset = range.start;
        while offset < range.end {
            let hole = match rustix::fs::seek(&self.file, SeekFrom::Hole(offset)) {
                Ok(hole) => hole,
                Err(Errno::NXIO) => break,
                Err(error) => return Err(error.into()),
            };
            if hole >= range.end {
                break;
            }
            let data = match rustix::fs::seek(&self.file, SeekFrom::Data(hole)) {
                Ok(data) => data.min(range.end),
                Err(Errno::NXIO) => range.end,
                Err(error) => return Err(error.into()),
            };
            holes.push(hole..data);
            offset = data;
        }
        Ok(holes)
    }

    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Returns the time at which the file was last used, as far as its file system records it.
    pub fn accessed(&self) -> io::Result<Timestamp> {
        let told = rustix::fs::statx(&self.file, "", AtFlags::EMPTY_PATH, StatxFlags::ATIME)?;
        Ok(timestamp(&told.stx_atime))
    }

    pub fn set_times(&self, accessed: Option<Timestamp>, modified: Timestamp) -> io::Result<()> {
        let omitted = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
        let times = Timestamps {
            last_access: accessed.map_or(omitted, timespec),
            last_modification: timespec(modified),
        };
        Ok(rustix::fs::futimens(&self.file, &times)?)
    }

    /// Waits until data and attributes are on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl AsFd for SpaceFile {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn timespec(time: Timestamp) -> Timespec {
    Timespec { tv_sec: time.secs, tv_nsec: i64::from(time.nanos) }
}

/// Reads an extended attribute of at most `N` bytes; `None` if the file has none, or if the file
/// system has no attributes.
pub fn attribute<const N: usize>(file: &impl AsFd, name: &str) -> io::Result<Option<Vec<u8>>> {
    let mut value = [0; N];
    value_of(rustix::fs::fgetxattr(file, name, &mut value[..])).map(|bytes| take(&value, bytes))
}

/// A file that is not opened: the kernel asks no question about it, and its access time does not
/// change.
#[derive(Debug)]
pub struct UnopenedFile {
    handle: OwnedFd,
}

impl UnopenedFile {
    /// Finds the object `name` of `directory`. It follows no symbolic link.
    pub fn find(directory: &Dir, name: &[u8]) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self { handle: rustix::fs::openat(directory, name, flags, Mode::empty())? })
    }

    /// Reads an attribute as [`attribute`] does.
    pub fn attribute<const N: usize>(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        // The attributes of a handle cannot be read; its link in /proc gives the attributes of the
        // object.
        let path = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        let mut value = [0; N];
        value_of(rustix::fs::getxattr(path, name, &mut value[..])).map(|bytes| take(&value, bytes))
    }
}

impl AsFd for UnopenedFile {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Returns the time at which the object `name` of `directory` was last used, as far as its file
/// system records it.
pub fn accessed(directory: &Dir, name: &[u8]) -> io::Result<Timestamp> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let told = rustix::fs::statx(directory, name, flags, StatxFlags::ATIME)?;
    Ok(timestamp(&told.stx_atime))
}

fn value_of(got: Result<usize, Errno>) -> io::Result<Option<usize>> {
    match got {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn take(value: &[u8], bytes: Option<usize>) -> Option<Vec<u8>> {
    bytes.map(|bytes| value[..bytes].to_vec())
}

fn set_lease(file: &File, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    let status = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ignores the signal by which the kernel reports that a process waits for a lease: leases are held
/// for moments only.
pub fn ignore_lease_signals() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
}

/// Space of a file system, in bytes and in files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    pub bytes: u64,
    /// Bytes that users other than root may still use.
    pub free_bytes: u64,
    /// Number of files that the file system has room for, and the number of files that can still be
    /// made; `None` for a file system such as btrfs, which makes inodes as they are needed.
    pub inodes: Option<Inodes>,
}

/// Inodes of a file system that has a fixed number of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inodes {
    pub all: u64,
    /// Inodes that users other than root may still use.
    pub free: u64,
}

/// Returns the space of the file system that `file` lies in.
pub fn room(file: &impl AsFd) -> io::Result<Room> {
    let told = rustix::fs::fstatvfs(file)?;
    Ok(Room {
        // A file system over a network may report numbers that overflow.
        bytes: told.f_blocks.saturating_mul(told.f_frsize),
        free_bytes: told.f_bavail.saturating_mul(told.f_frsize),
        inodes: inodes(told.f_files, told.f_favail),
    })
}

/// The inodes of a file system that reports these numbers.
fn inodes(all: u64, free: u64) -> Option<Inodes> {
    (all > 0).then_some(Inodes { all, free })
}

/// Waits until everything written to the file system of `file` is on its disk.
pub fn sync_filesystem(file: &impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::syncfs(file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_reports_no_inodes_has_no_limit() {
        assert_eq!(inodes(0, 0), None);
        assert_eq!(inodes(5, 0), Some(Inodes { all: 5, free: 0 }));
    }

    fn file() -> (tempfile::TempDir, SpaceFile) {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("f"), vec![1; (1 << 20) - 5]).expect("written");
        let dir = Dir::open(folder.path().as_os_str().as_encoded_bytes()).expect("a folder");
        let file = SpaceFile::open(&dir, b"f").expect("opened");
        (folder, file)
    }

    #[test]
    fn a_punched_file_keeps_its_size_and_gets_its_time_back() {
        let (_folder, file) = file();
        let before = file.stat().expect("stat").stat;
        assert!(file.holes(0..before.size).expect("asked").is_empty());
        file.punch(before.size).expect("punched");
        file.set_times(None, before.mtime).expect("set");
        let after = file.stat().expect("stat").stat;
        assert_eq!((after.size, after.mtime), (before.size, before.mtime));
        let within = file.holes(4096..8192).expect("asked");
        assert!(within.len() == 1 && within[0] == (4096..8192), "{within:?}");
        file.write_at(&[2; 4096], 65536).expect("written");
        let holes = file.holes(0..before.size).expect("asked");
        assert_eq!(holes, [0..65536, 69632..before.size]);
    }

    #[test]
    fn a_file_that_another_has_open_cannot_be_locked() {
        let (folder, file) = file();
        let other = File::open(folder.path().join("f")).expect("opened");
        assert!(!file.lock_alone().expect("asked"));
        drop(other);
        assert!(file.lock_alone().expect("asked"));
        file.unlock().expect("unlocked");
    }

    #[test]
    fn attributes_come_and_go() {
        let (_folder, file) = file();
        assert_eq!(file.attribute::<64>("user.a").expect("asked"), None);
        file.set_attribute("user.a", b"value").expect("set");
        assert_eq!(file.attribute::<64>("user.a").expect("asked"), Some(b"value".to_vec()));
        file.remove_attribute("user.a").expect("removed");
        file.remove_attribute("user.a").expect("none is fine");
    }
}

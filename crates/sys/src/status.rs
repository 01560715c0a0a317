//! The status of an object, as one `statx` reports it.

use std::io;
use std::os::fd::BorrowedFd;

use model::{Kind, Stat, Timestamp};
use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;

/// Status of an object: the answer of one `statx`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectStatus {
    pub stat: Stat,
    /// `st_dev`; differs from that of the parent directory if another file system is mounted there.
    pub device_id: u64,
    /// Space taken on disk. A file that takes less than `stat.size` may have holes.
    pub allocated_bytes: u64,
    /// Number of names of the object. The number of a directory has no meaning here.
    pub links: u32,
}

impl ObjectStatus {
    /// Translates an answer; `None` for a socket and for types that Linux does not have yet.
    pub(crate) fn new(statx: &Statx) -> Option<Self> {
        let kind = match u32::from(statx.stx_mode) & libc::S_IFMT {
            libc::S_IFREG => Kind::File,
            libc::S_IFDIR => Kind::Directory,
            libc::S_IFLNK => Kind::Symlink,
            libc::S_IFIFO => Kind::Fifo,
            libc::S_IFCHR => Kind::CharDevice,
            libc::S_IFBLK => Kind::BlockDevice,
            _ => return None,
        };
        let device = match kind {
            Kind::CharDevice | Kind::BlockDevice => {
                rustix::fs::makedev(statx.stx_rdev_major, statx.stx_rdev_minor)
            }
            _ => 0,
        };
        let stat = Stat {
            kind,
            mode: statx.stx_mode & 0o7777,
            uid: statx.stx_uid,
            gid: statx.stx_gid,
            size: statx.stx_size,
            mtime: timestamp(&statx.stx_mtime),
            ctime: timestamp(&statx.stx_ctime),
            inode: statx.stx_ino,
            linked: statx.stx_nlink > 1 && kind != Kind::Directory,
            device,
        };
        let device_id = rustix::fs::makedev(statx.stx_dev_major, statx.stx_dev_minor);
        let allocated_bytes = statx.stx_blocks.saturating_mul(512);
        Some(Self { stat, device_id, allocated_bytes, links: statx.stx_nlink })
    }
}

pub(crate) fn timestamp(time: &StatxTimestamp) -> Timestamp {
    Timestamp { secs: time.tv_sec, nanos: time.tv_nsec }
}

/// Asks for the status of an open object.
pub(crate) fn stat_open(fd: BorrowedFd<'_>) -> io::Result<ObjectStatus> {
    let statx = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    ObjectStatus::new(&statx).ok_or_else(|| Errno::OPNOTSUPP.into())
}

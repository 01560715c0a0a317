//! One file with the content of a disk.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen,
    Request, Session, SessionACL,
};
use sys::mount::DetachedMount;

/// Name of the file in its file system.
const NAME: &str = "disk";
const INODE: INodeNo = INodeNo(2);
/// Time for which the kernel remembers attributes. They never change.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// Number of threads that answer the kernel.
const THREADS: usize = 4;

/// Content of a disk. Several threads read it.
pub trait DiskContent: Send + Sync + 'static {
    /// Size in bytes.
    fn bytes(&self) -> u64;

    /// Fills `buffer` from `offset` on. The range ends at or before the end of the disk.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

/// A file that this process serves. It ends when it is dropped and nobody has the file open.
pub struct ServedDisk {
    file: File,
    // The mount ends before its session.
    _mount: DetachedMount,
    _session: BackgroundSession,
}

impl ServedDisk {
    /// Begins to serve `content`. Needs root's rights and Linux 5.2.
    pub fn serve(content: Arc<dyn DiskContent>) -> io::Result<Self> {
        let device: OwnedFd = File::options().read(true).write(true).open("/dev/fuse")?.into();
        // The kernel greets when the file system is mounted, and the session answers.
        let mount = DetachedMount::fuse(&device)?;
        let mut config = Config::default();
        config.n_threads = Some(THREADS);
        let session =
            Session::from_fd(Disk(content), device, SessionACL::Owner, config)?.spawn()?;
        let file = mount.open_file(NAME)?;
        Ok(Self { file, _mount: mount, _session: session })
    }

    pub fn file(&self) -> &File {
        &self.file
    }
}

/// File system with one file.
struct Disk(Arc<dyn DiskContent>);

impl Disk {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (size, kind, perm) = match inode {
            INodeNo::ROOT => (0, FileType::Directory, 0o500),
            INODE => (self.0.bytes(), FileType::RegularFile, 0o400),
            _ => return None,
        };
        let (uid, gid) = sys::process::effective_ids();
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid,
            gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Disk {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(INODE).filter(|_| parent == INodeNo::ROOT && name == NAME) {
            Some(attributes) => reply.entry(&REMEMBERED, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&REMEMBERED, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // The device on top of the file has a cache of its own, and reads ahead.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let end = offset.saturating_add(u64::from(size)).min(self.0.bytes());
        let bytes = usize::try_from(end.saturating_sub(offset)).expect("at most 4 GiB");
        let mut buffer = vec![0; bytes];
        match self.0.read_at(&mut buffer, offset) {
            Ok(()) => reply.data(&buffer),
            Err(_) => reply.error(Errno::EIO),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    struct Pattern;

    impl DiskContent for Pattern {
        fn bytes(&self) -> u64 {
            1_000_000
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            if offset >= 500_000 {
                return Err(io::Error::other("lost"));
            }
            for (byte, at) in buffer.iter_mut().zip(offset..) {
                *byte = u8::try_from(at % 251).expect("small");
            }
            Ok(())
        }
    }

    #[test]
    fn a_disk_is_read_and_its_losses_are_errors() {
        let disk = match ServedDisk::serve(Arc::new(Pattern)) {
            Ok(disk) => disk,
            Err(error) => {
                eprintln!("skipped: no file system can be served here: {error}");
                return;
            }
        };
        assert_eq!(disk.file().metadata().expect("known").len(), 1_000_000);
        let mut buffer = [0; 100];
        disk.file().read_exact_at(&mut buffer, 12_345).expect("read");
        assert_eq!(buffer[7], u8::try_from(12_352 % 251).expect("small"));
        let error = disk.file().read_exact_at(&mut buffer, 600_000).expect_err("lost");
        assert_eq!(error.raw_os_error(), Some(5));
    }
}

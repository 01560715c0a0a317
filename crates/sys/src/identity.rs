//! Identities on the disk: of a file system, and of a file in it. They stay the same after a new
//! mount and after a new start of the machine.
//!
//! Sources: `ioctl_fs(2)`, `name_to_handle_at(2)`, `include/uapi/linux/fs.h`.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;

/// `FS_IOC_GETFSUUID`, which kernels since 6.9 know.
const GET_UUID: libc::c_ulong = 0x8011_1500;
/// Length of a UUID, in bytes.
const UUID_BYTES: usize = 16;
/// Maximum length of the handle of a file, in bytes: `MAX_HANDLE_SZ`.
const HANDLE_BYTES_MAX: usize = 128;

/// Identity of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilesystemId(pub [u8; UUID_BYTES]);

impl FilesystemId {
    /// Returns the identity of the file system that `file` lies in: its UUID, or the number that
    /// `statfs` reports if the file system does not report its UUID.
    pub fn of(file: &impl AsFd) -> io::Result<Self> {
        if let Some(uuid) = uuid(file) {
            return Ok(Self(uuid));
        }
        let number = rustix::fs::fstatvfs(file)?.f_fsid;
        let mut id = [0; UUID_BYTES];
        id[..8].copy_from_slice(&number.to_le_bytes());
        Ok(Self(id))
    }
}

/// `struct fsuuid2` of the kernel.
#[repr(C)]
struct Uuid {
    length: u8,
    value: [u8; UUID_BYTES],
}

fn uuid(file: &impl AsFd) -> Option<[u8; UUID_BYTES]> {
    let mut uuid = Uuid { length: 0, value: [0; UUID_BYTES] };
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the kernel writes one `Uuid`, which lives until the call returns.
    let status = unsafe { libc::ioctl(fd, GET_UUID, &raw mut uuid) };
    (status == 0 && usize::from(uuid.length) == UUID_BYTES).then_some(uuid.value)
}

/// `struct file_handle` of the kernel, with room for the longest handle.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: c_int,
    value: [u8; HANDLE_BYTES_MAX],
}

/// Returns the handle of `file`: bytes that no other file of the file system has, not even a later
/// file with the same inode number. `file` may be a descriptor that was opened with `O_PATH`.
pub fn file_handle(file: &impl AsFd) -> io::Result<Vec<u8>> {
    match handle_of(file.as_fd().as_raw_fd()) {
        // A file system without handles: its inode numbers have to do.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            let found = crate::status::stat_open(file.as_fd())?;
            Ok(found.stat.inode.to_le_bytes().to_vec())
        }
        other => other,
    }
}

fn handle_of(fd: RawFd) -> io::Result<Vec<u8>> {
    let room = u32::try_from(HANDLE_BYTES_MAX).expect("a small number");
    let mut handle = Handle { bytes: room, kind: 0, value: [0; HANDLE_BYTES_MAX] };
    let mut mount: c_int = 0;
    // SAFETY: the name is empty and ends with a NUL. The kernel writes at most the announced number
    // of bytes after the head of the handle, and one number.
    let status = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            fd,
            c"".as_ptr(),
            &raw mut handle,
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    let bytes = usize::try_from(handle.bytes).expect("a small number");
    Ok(handle.value[..bytes.min(HANDLE_BYTES_MAX)].to_vec())
}

/// Returns the path at which this process sees an open object; `None` if the path is too long for
/// the kernel.
pub fn path_of(file: &impl AsFd) -> io::Result<Option<Vec<u8>>> {
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    match rustix::fs::readlink(link, Vec::new()) {
        Ok(path) => Ok(Some(path.into_bytes())),
        Err(Errno::NAMETOOLONG) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Place of a directory that a handle stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectoryLocation {
    Gone,
    Found {
        device_id: u64,
        /// Path at which this process sees the directory; `None` if it is too long for the kernel.
        path: Option<Vec<u8>>,
    },
}

/// Handle of a directory, as the kernel reports it: short, and the same under every name. No later
/// directory of the file system has the same handle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DirectoryHandle {
    kind: c_int,
    length: u8,
    /// Bytes of the handle, followed by zeros.
    value: [u8; Self::BYTES_MAX],
}

impl DirectoryHandle {
    /// Maximum length of a handle, in bytes. Directories have 8 on ext4, 12 on XFS and 20 on btrfs.
    pub const BYTES_MAX: usize = 20;

    /// Makes a handle of the kernel's number of its kind and of its bytes; `None` if it is empty or
    /// too long.
    pub fn new(kind: i32, bytes: &[u8]) -> Option<Self> {
        let length = u8::try_from(bytes.len()).ok().filter(|length| *length > 0)?;
        let mut value = [0; Self::BYTES_MAX];
        value.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { kind, length, value })
    }

    pub fn kind(&self) -> i32 {
        self.kind
    }

    pub fn bytes(&self) -> &[u8] {
        &self.value[..usize::from(self.length)]
    }

    /// Finds the directory. `root` is a directory of the file system, through whose mount the path
    /// leads. Needs root.
    pub fn locate(&self, root: &impl AsFd) -> io::Result<DirectoryLocation> {
        let Some(fd) = self.open(root)? else { return Ok(DirectoryLocation::Gone) };
        let statx = rustix::fs::statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
        // The directory is removed, and somebody still uses it.
        if statx.stx_nlink == 0 {
            return Ok(DirectoryLocation::Gone);
        }
        let device_id = rustix::fs::makedev(statx.stx_dev_major, statx.stx_dev_minor);
        Ok(DirectoryLocation::Found { device_id, path: path_of(&fd)? })
    }

    /// Opens the directory; `None` if it does not exist any more.
    fn open(&self, root: &impl AsFd) -> io::Result<Option<OwnedFd>> {
        let mut handle =
            Handle { bytes: u32::from(self.length), kind: self.kind, value: [0; HANDLE_BYTES_MAX] };
        handle.value[..self.bytes().len()].copy_from_slice(self.bytes());
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let mount = root.as_fd().as_raw_fd();
        // SAFETY: the kernel reads the announced number of bytes after the head of the handle,
        // which lives until the call returns.
        let fd =
            unsafe { libc::syscall(libc::SYS_open_by_handle_at, mount, &raw const handle, flags) };
        match c_int::try_from(fd) {
            // SAFETY: the kernel has just opened it for us.
            Ok(fd) if fd >= 0 => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
            _ => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::ESTALE) => Ok(None),
                error => Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dir;
    use crate::space::{SpaceFile, UnopenedFile};

    #[test]
    fn a_handle_belongs_to_one_file_whatever_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("one"), b"content").expect("written");
        std::fs::copy(at("one"), at("copy")).expect("copied");
        std::fs::hard_link(at("one"), at("link")).expect("linked");
        let dir = Dir::open(folder.path().as_os_str().as_encoded_bytes()).expect("a folder");
        let handle = |name: &[u8]| {
            let file = SpaceFile::open(&dir, name).expect("opened");
            let opened = file_handle(&file).expect("asked");
            let unopened = UnopenedFile::find(&dir, name).expect("found");
            assert_eq!(file_handle(&unopened).expect("asked"), opened);
            opened
        };
        let one = handle(b"one");
        assert!(!one.is_empty());
        assert_eq!(handle(b"link"), one);
        assert_ne!(handle(b"copy"), one);
        std::fs::rename(at("one"), at("renamed")).expect("renamed");
        assert_eq!(handle(b"renamed"), one);
    }

    #[test]
    fn a_directory_handle_has_a_bounded_length() {
        let longest = [7; DirectoryHandle::BYTES_MAX];
        let handle = DirectoryHandle::new(0x4d, &longest).expect("a handle");
        assert_eq!((handle.kind(), handle.bytes()), (0x4d, &longest[..]));
        assert_eq!(DirectoryHandle::new(1, &[7; DirectoryHandle::BYTES_MAX + 1]), None);
        assert_eq!(DirectoryHandle::new(1, &[]), None);
        // A handle is no other handle with zeros after it.
        assert_ne!(DirectoryHandle::new(1, &[7]), DirectoryHandle::new(1, &[7, 0]));
    }

    #[test]
    fn a_file_system_has_one_identity() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = Dir::open(folder.path().as_os_str().as_encoded_bytes()).expect("a folder");
        std::fs::write(folder.path().join("f"), b"").expect("written");
        let file = SpaceFile::open(&dir, b"f").expect("opened");
        let of_file = FilesystemId::of(&file).expect("asked");
        assert_eq!(FilesystemId::of(&dir).expect("asked"), of_file);
        let other = Dir::open(b"/proc").expect("a folder");
        assert_ne!(FilesystemId::of(&other).expect("asked"), of_file);
    }
}

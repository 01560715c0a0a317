//! Identities on the disk: of a file system, and of a file in it. They stay the same after a new
//! mount and after a new start of the machine.
//!
//! Sources: `ioctl_fs(2)`, `name_to_handle_at(2)`, `include/uapi/linux/fs.h`.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, RawFd};

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

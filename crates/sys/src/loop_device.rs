//! Loop devices: a file as a block device.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Number of times that a free loop device is sought, because another process may take it.
const TRIES: u32 = 64;
/// Numbers of the requests. Source: Linux, `include/uapi/linux/loop.h`.
const CTL_GET_FREE: libc::c_ulong = 0x4c82;
const CONFIGURE: libc::c_ulong = 0x4c0a;
const GET_STATUS: libc::c_ulong = 0x4c05;
const READ_ONLY: u32 = 1;
/// The device ends when nobody uses it any more.
const AUTOCLEAR: u32 = 4;

/// Source: Linux, `include/uapi/linux/loop.h`, `struct loop_info64`.
#[repr(C)]
struct Settings {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// Source: Linux, `include/uapi/linux/loop.h`, `struct loop_config`.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Settings,
    reserved: [u64; 8],
}

/// A read-only block device with the content of a file. It ends when it is dropped and nothing on
/// it is mounted any more, even if the process is killed. The kernel makes no devices of partitions
/// in it, at which udev and LVM would look.
#[derive(Debug)]
pub struct LoopDevice {
    /// Keeps the device.
    _open: File,
    path: PathBuf,
}

impl LoopDevice {
    /// Makes a device of `bytes` bytes from `offset` on of `file`, or of the whole file if `bytes`
    /// is 0. Its sectors have 512 bytes. Needs Linux 5.8 and root's rights.
    pub fn read_only(file: &File, offset: u64, bytes: u64) -> io::Result<Self> {
        Self::with_sectors(file, offset, bytes, 512)
    }

    /// Makes a device as [`Self::read_only`] does, with sectors of `sector` bytes.
    pub fn with_sectors(file: &File, offset: u64, bytes: u64, sector: u32) -> io::Result<Self> {
        let control = File::options().read(true).write(true).open("/dev/loop-control")?;
        let mut failure = io::Error::other("every loop device is in use");
        for _ in 0..TRIES {
            // SAFETY: the call takes no pointer.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), CTL_GET_FREE) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            match Self::configure(number, file, offset, bytes, sector) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => failure = error,
                done => return done,
            }
        }
        Err(failure)
    }

    fn configure(
        number: i32,
        file: &File,
        offset: u64,
        bytes: u64,
        sector: u32,
    ) -> io::Result<Self> {
        let path = Path::new("/dev").join(format!("loop{number}"));
        make_node(&path, number)?;
        let open = File::open(&path)?;
        let fd = u32::try_from(file.as_raw_fd()).expect("a descriptor is not negative");
        let config = Config {
            fd,
            block_size: sector,
            info: Settings {
                device: 0,
                inode: 0,
                rdevice: 0,
                offset,
                size_limit: bytes,
                number: 0,
                encrypt_type: 0,
                encrypt_key_size: 0,
                flags: READ_ONLY | AUTOCLEAR,
                file_name: [0; 64],
                crypt_name: [0; 64],
                encrypt_key: [0; 32],
                init: [0; 2],
            },
            reserved: [0; 8],
        };
        // SAFETY: the kernel reads `config`, which lives until the call returns.
        let status = unsafe { libc::ioctl(open.as_raw_fd(), CONFIGURE, &raw const config) };
        if status == 0 { Ok(Self { _open: open, path }) } else { Err(io::Error::last_os_error()) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the device and the inode number of the file behind the loop device at `path`, as `stat`
/// tells them; `None` if it cannot be asked.
pub(crate) fn identity_behind(path: &Path) -> Option<(u64, u64)> {
    let device = File::open(path).ok()?;
    let mut told = std::mem::MaybeUninit::<Settings>::zeroed();
    // SAFETY: the kernel writes one `Settings`, for which there is room.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), GET_STATUS, told.as_mut_ptr()) };
    // SAFETY: it has numbers only, and all of its bytes are set.
    let told = unsafe { told.assume_init() };
    (status == 0).then_some((told.device, told.inode))
}

/// Returns the loop devices that have the content of the file at `path`.
pub fn of_file(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (path, stat) = (path.canonicalize()?, std::fs::metadata(path)?);
    let mut found = Vec::new();
    for AttachedFile { device, path: named, .. } in attached()? {
        let is_same = match identity_behind(&device) {
            Some((_, inode)) if inode != stat.ino() => false,
            Some((number, _)) if number == stat.dev() => true,
            // The subvolumes of btrfs have numbers of their own, and not everybody may ask.
            _ => named == path.as_os_str().as_bytes(),
        };
        if is_same {
            found.push(device);
        }
    }
    Ok(found)
}

/// A loop device with a file.
pub(crate) struct AttachedFile {
    /// Folder of the device in sysfs.
    pub(crate) folder: PathBuf,
    pub(crate) device: PathBuf,
    /// Path of the file, as the kernel shows it.
    pub(crate) path: Vec<u8>,
}

/// Returns the loop devices that have a file; none if the kernel shows no devices.
pub(crate) fn attached() -> io::Result<Vec<AttachedFile>> {
    let entries = match std::fs::read_dir("/sys/block") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let folder = entry?.path();
        // Only a loop device that has a file names it.
        let Ok(mut path) = std::fs::read(folder.join("loop/backing_file")) else { continue };
        path.truncate(path.trim_ascii_end().len());
        let device = Path::new("/dev").join(folder.file_name().unwrap_or_default());
        found.push(AttachedFile { folder, device, path });
    }
    Ok(found)
}

/// Makes the file of a loop device where nobody else does, such as in a container.
fn make_node(path: &Path, number: i32) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    /// Major number of loop devices. Source: Linux, `include/uapi/linux/major.h`.
    const MAJOR: u32 = 7;
    if path.try_exists()? {
        return Ok(());
    }
    let minor = u32::try_from(number).expect("the kernel gave the number of a device");
    match mknodat(CWD, path, FileType::BlockDevice, Mode::from(0o600), makedev(MAJOR, minor)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_have_the_layout_of_the_kernel() {
        assert_eq!(size_of::<Settings>(), 232);
        assert_eq!(size_of::<Config>(), 304);
    }
}

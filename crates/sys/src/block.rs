//! Block devices and files that stand for them: size, use, counters of writes, and the blocks that
//! a mounted file system uses.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use crate::dir::Dir;

/// Length of the units in which the kernel counts sectors, whatever the device.
const SECTOR_BYTES: u64 = 512;
/// Alignment of reads that bypass the page cache, in bytes.
pub const DIRECT_BYTES: usize = 4096;
/// Number of records that the kernel returns at once about the blocks of a file system.
const RECORDS: usize = 1024;
/// `FS_IOC_GETFSMAP`: `_IOWR('X', 59, struct fsmap_head)`.
///
/// Source: Linux, `include/uapi/linux/fsmap.h`; ioctl_getfsmap(2).
const GETFSMAP: libc::c_ulong = 0xc0c0_583b;
/// The owner of a record is a kind of block, not an inode.
const SPECIAL_OWNER: u32 = 0x10;
/// The record is the last.
const LAST: u32 = 0x20;
/// Owner of free blocks.
const FREE: u64 = 1;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A partition of a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    pub number: u32,
    pub device: PathBuf,
    /// Bytes of the disk that belong to the partition.
    pub range: Range<u64>,
}

/// Returns true if `path` is a block device.
pub fn is_block_device(path: &Path) -> io::Result<bool> {
    Ok(std::fs::metadata(path)?.file_type().is_block_device())
}

/// Returns the size of a block device or a file in bytes.
pub fn size(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::seek(file, SeekFrom::End(0))?)
}

/// Opens a device or a file for reading that bypasses the page cache. Reads must be aligned to
/// [`DIRECT_BYTES`], in memory and in the file. Returns `None` if the file system has no such
/// reading.
pub fn open_direct(path: &Path) -> io::Result<Option<File>> {
    match File::options().read(true).custom_flags(libc::O_DIRECT).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Fills `buffer`, whose memory is aligned, from a file that was opened by [`open_direct`]. Only
/// its length need not be aligned: a disk may end anywhere. The page cache may have older content
/// of a device than the disk, because a file system writes past it.
pub fn read_direct(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let (whole, tail) = buffer.split_at_mut(buffer.len() / DIRECT_BYTES * DIRECT_BYTES);
    file.read_exact_at(whole, offset)?;
    if tail.is_empty() {
        return Ok(());
    }
    let mut room = [0; 2 * DIRECT_BYTES];
    let start = room.as_ptr().align_offset(DIRECT_BYTES);
    let block = &mut room[start..start + DIRECT_BYTES];
    // The kernel ends this read where the disk ends.
    let read = file.read_at(block, offset + whole.len() as u64)?;
    let there = block[..read].get(..tail.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
    tail.copy_from_slice(there);
    Ok(())
}

/// Makes the kernel forget what it has read of a device through the page cache: a file system
/// writes past that. It does nothing for a file, and without root's rights.
///
/// Source: Linux, `include/uapi/linux/fs.h`, `BLKFLSBUF`.
pub fn forget_cache(device: &File) {
    const BLKFLSBUF: libc::c_ulong = 0x1261;
    // SAFETY: the call takes no pointer.
    let _forgotten = unsafe { libc::ioctl(device.as_raw_fd(), BLKFLSBUF) };
}

/// Makes the kernel look at the partitions of a disk again.
///
/// Source: Linux, `include/uapi/linux/fs.h`, `BLKRRPART`.
pub fn reread_partitions(disk: &File) -> io::Result<()> {
    const BLKRRPART: libc::c_ulong = 0x125f;
    // SAFETY: the call takes no pointer.
    match unsafe { libc::ioctl(disk.as_raw_fd(), BLKRRPART) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes a copy of `file` without a name, in `folder`, that shares its blocks. Fails with
/// `Unsupported` if the file system cannot do that.
pub fn reflinked(file: &File, folder: &Path) -> io::Result<File> {
    let options = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(folder);
    let copy = options?;
    match rustix::fs::ioctl_ficlone(&copy, file) {
        Ok(()) => Ok(copy),
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::XDEV | Errno::NOTTY) => {
            Err(io::ErrorKind::Unsupported.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens a block device for writing, for nobody else: fails with `ResourceBusy` if the device, or
/// one of its partitions, is mounted or used otherwise.
pub fn open_alone(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).custom_flags(libc::O_EXCL).open(path)
}

/// Makes `range` read as zeros and frees its blocks, where the device or the file system can do
/// that. Otherwise writes zeros.
pub fn clear(file: &File, range: Range<u64>) -> io::Result<()> {
    let bytes = range.end - range.start;
    if bytes == 0 {
        return Ok(());
    }
    for flags in [FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE] {
        let flags = flags | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(file, flags, range.start, bytes) {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NODEV) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut offset = range.start;
    while offset < range.end {
        let left = usize::try_from(range.end - offset).unwrap_or(ZEROS.len());
        let part = &ZEROS[..left.min(ZEROS.len())];
        file.write_all_at(part, offset)?;
        offset += part.len() as u64;
    }
    Ok(())
}

/// Makes the kernel begin to write what is in its cache for `range`, and does not wait for that. It
/// is only a help: the data is durable after a sync.
pub fn start_writing(file: &File, range: Range<u64>) {
    let (Ok(start), Ok(bytes)) =
        (libc::off64_t::try_from(range.start), libc::off64_t::try_from(range.end - range.start))
    else {
        return;
    };
    // SAFETY: the call takes no pointer.
    let _started = unsafe {
        libc::sync_file_range(file.as_raw_fd(), start, bytes, libc::SYNC_FILE_RANGE_WRITE)
    };
}

/// Returns true if a device, or one of its partitions, is mounted or used otherwise.
pub fn is_in_use(device: &Path) -> io::Result<bool> {
    match File::options().read(true).custom_flags(libc::O_EXCL).open(device) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns the ranges of a file that hold data, in order; the rest are holes.
pub fn data_ranges(file: &File) -> io::Result<Vec<Range<u64>>> {
    let end = size(file)?;
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut at = 0;
    while at < end {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // No data follows.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let hole = rustix::fs::seek(file, SeekFrom::Hole(data))?.min(end);
        ranges.push(data..hole);
        at = hole;
    }
    Ok(ranges)
}

/// Folder of the kernel about the block device `path`.
fn kernel_folder(path: &Path) -> io::Result<PathBuf> {
    let device = std::fs::metadata(path)?.rdev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    Ok(Path::new("/sys/dev/block").join(format!("{major}:{minor}")))
}

/// Returns the number of sectors that were written to a block device since the machine started.
///
/// Source: Linux, `Documentation/block/stat.rst`, field 7.
pub fn sectors_written(device: &Path) -> io::Result<u64> {
    let stat = std::fs::read_to_string(kernel_folder(device)?.join("stat"))?;
    let field = stat.split_ascii_whitespace().nth(6).and_then(|field| field.parse().ok());
    field.ok_or_else(|| io::Error::other("the kernel gives no count of written sectors"))
}

/// Returns the partitions of a disk as the kernel knows them, in the order of their places.
pub fn partitions(disk: &Path) -> io::Result<Vec<Partition>> {
    let folder = kernel_folder(disk)?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let entry = entry?;
        let number = |name: &str| -> Option<u64> {
            std::fs::read_to_string(entry.path().join(name)).ok()?.trim().parse().ok()
        };
        let Some(partition) = number("partition").and_then(|number| u32::try_from(number).ok())
        else {
            continue;
        };
        let (Some(start), Some(sectors)) = (number("start"), number("size")) else { continue };
        let range = start * SECTOR_BYTES..(start + sectors) * SECTOR_BYTES;
        let device = device_called(&entry.file_name());
        found.push(Partition { number: partition, device, range });
    }
    found.sort_by_key(|partition| partition.range.start);
    Ok(found)
}

/// Returns the name that the kernel gives a block device.
fn kernel_name(device: &Path) -> io::Result<OsString> {
    let folder = kernel_folder(device)?.canonicalize()?;
    Ok(folder.file_name().ok_or(io::ErrorKind::NotFound)?.to_owned())
}

/// Returns the devices of the btrfs file system that is mounted and lies on `device`, sorted by
/// their paths; none if there is no such file system.
///
/// Source: Linux, `fs/btrfs/sysfs.c`, `/sys/fs/btrfs/UUID/devices`.
pub fn btrfs_devices(device: &Path) -> io::Result<Vec<PathBuf>> {
    let name = kernel_name(device)?;
    for entry in std::fs::read_dir("/sys/fs/btrfs")? {
        let devices = entry?.path().join("devices");
        if !devices.join(&name).try_exists()? {
            continue;
        }
        let mut found = Vec::new();
        for entry in std::fs::read_dir(devices)? {
            found.push(device_called(&entry?.file_name()));
        }
        found.sort();
        return Ok(found);
    }
    Ok(Vec::new())
}

/// Returns the path in `/dev` of the device that the kernel calls `name`. A slash in the name of a
/// device is an exclamation mark in the name of its folder.
fn device_called(name: &OsStr) -> PathBuf {
    let slashed = |byte: &u8| if *byte == b'!' { b'/' } else { *byte };
    let name: Vec<u8> = name.as_bytes().iter().map(slashed).collect();
    Path::new("/dev").join(OsStr::from_bytes(&name))
}

/// Returns the path in `/dev` of the block device with the number `device`.
pub fn path_of(device: u64) -> io::Result<PathBuf> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let folder = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    let events = std::fs::read_to_string(folder.join("uevent"))?;
    let name = events.lines().find_map(|line| line.strip_prefix("DEVNAME="));
    let name = name.ok_or_else(|| io::Error::other("the kernel has no name for the device"))?;
    Ok(Path::new("/dev").join(name))
}

/// A record about blocks of a file system.
///
/// Source: Linux, `include/uapi/linux/fsmap.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Record {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

#[repr(C)]
struct Request {
    input_flags: u32,
    output_flags: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [Record; 2],
    records: [Record; RECORDS],
}

/// Returns true if the kernel has found errors in the ext4 file system on `device`, which is
/// mounted, since it was last repaired.
///
/// Source: Linux, `Documentation/ABI/testing/sysfs-fs-ext4`, `errors_count`.
fn has_errors(device: &Path) -> bool {
    let count = || {
        let name = kernel_name(device)?;
        std::fs::read_to_string(Path::new("/sys/fs/ext4").join(name).join("errors_count"))
    };
    count().is_ok_and(|count| count.trim() != "0")
}

/// Returns the ranges of `device` that the file system mounted at `root` does not use, in order.
/// Fails with `Unsupported` if the file system does not tell, or is known to have errors: a block
/// that it calls free may be that of a file.
pub fn free_ranges(root: &Dir, device: &Path) -> io::Result<Vec<Range<u64>>> {
    let number = encoded(std::fs::metadata(device)?.rdev());
    let lowest = Record::default();
    let highest = Record {
        device: u32::MAX,
        flags: u32::MAX,
        physical: u64::MAX,
        owner: u64::MAX,
        offset: u64::MAX,
        length: 0,
        reserved: [0; 3],
    };
    let mut request = Box::new(Request {
        input_flags: 0,
        output_flags: 0,
        count: u32::try_from(RECORDS).expect("a small number"),
        entries: 0,
        reserved: [0; 6],
        keys: [lowest, highest],
        records: [Record::default(); RECORDS],
    });
    let mut free: Vec<Range<u64>> = Vec::new();
    loop {
        request.entries = 0;
        // SAFETY: the request is as large as its count says, and lives until the call returns.
        let status = unsafe { libc::ioctl(root.as_fd().as_raw_fd(), GETFSMAP, &raw mut *request) };
        if status != 0 {
            let error = io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::ENOTTY | libc::EOPNOTSUPP | libc::EINVAL) => {
                    io::ErrorKind::Unsupported.into()
                }
                _ => error,
            });
        }
        let entries = (request.entries as usize).min(RECORDS);
        for record in &request.records[..entries] {
            let is_free = record.flags & SPECIAL_OWNER != 0 && record.owner == FREE;
            if is_free && record.device == number {
                note(&mut free, record.physical..record.physical.saturating_add(record.length));
            }
        }
        let Some(last) = entries.checked_sub(1).map(|at| request.records[at]) else { break };
        if last.flags & LAST != 0 {
            break;
        }
        // The next call goes on after this record.
        request.keys[0] = last;
    }
    if has_errors(device) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    free.sort_by_key(|range| range.start);
    Ok(free)
}

fn note(free: &mut Vec<Range<u64>>, range: Range<u64>) {
    match free.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => free.push(range),
    }
}

/// Encodes the number of a device as the kernel does in 32 bits.
///
/// Source: Linux, `include/linux/kdev_t.h`, `new_encode_dev`.
fn encoded(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_may_end_anywhere() {
        #[repr(align(4096))]
        struct Blocks([u8; 3 * DIRECT_BYTES]);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let content = std::fs::read(&path).expect("read");
        let Some(direct) = open_direct(&path).expect("opened") else { return };
        let mut buffer = Box::new(Blocks([0; 3 * DIRECT_BYTES]));
        let bytes = content.len().min(buffer.0.len());
        read_direct(&direct, &mut buffer.0[..bytes], 0).expect("read");
        assert_eq!(buffer.0[..bytes], content[..bytes]);
        let beyond = &mut buffer.0[..bytes + 1];
        assert!(read_direct(&direct, beyond, 0).is_err(), "the file is shorter");
    }

    #[test]
    fn the_request_has_the_layout_of_the_kernel() {
        assert_eq!(size_of::<Record>(), 64);
        assert_eq!(size_of::<Request>(), 192 + RECORDS * 64);
    }

    #[test]
    fn holes_of_a_file_are_known_and_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let file = File::options().create_new(true).read(true).write(true).open(&path);
        let file = file.expect("made");
        file.set_len(8 << 20).expect("sized");
        file.write_all_at(&[7; 4096], 4 << 20).expect("written");
        assert_eq!(size(&file).expect("known"), 8 << 20);
        let data = data_ranges(&file).expect("known");
        assert!(data.iter().any(|range| range.contains(&(4 << 20))), "{data:?}");
        clear(&file, 4 << 20..(4 << 20) + 4096).expect("cleared");
        let mut block = [1; 4096];
        file.read_exact_at(&mut block, 4 << 20).expect("read");
        assert_eq!(block, [0; 4096]);
        assert_eq!(size(&file).expect("known"), 8 << 20);
    }

    #[test]
    fn what_is_no_device_is_told_apart() {
        assert!(!is_block_device(Path::new("/")).expect("there"));
        assert!(is_block_device(Path::new("/nowhere")).is_err());
    }
}

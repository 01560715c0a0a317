//! An image whose file system is mounted, so that single files can be read.
//!
//! ```text
//!   ImageReader (ranges from the server) -> file by FUSE -> loop device -> the kernel's file
//!                                                                          system
//! ```
//!
//! Nothing of it has a path: other users and programs do not see it, and the kernel removes it when
//! the process ends, however it ends. Only the blocks that the kernel asks for are fetched.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use client::{ClientError, ErrorKind, ImageReader};
use mount::{DiskContent, ServedDisk};
use rustix::io::Errno;
use sys::Dir;
use sys::block::Partition;
use sys::lock::Mutex;
use sys::loop_device::LoopDevice;
use sys::mount::DetachedMount;

use crate::content::{DeviceContent, partitions_in};

/// Length of the sectors of most disks, in bytes.
const SECTOR_BYTES: u32 = 512;
/// Length of the sectors of disks that say so, in bytes.
const LONG_SECTOR_BYTES: u32 = 4096;

/// Error while an image is opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The user names a partition.
    #[error("{problem}; it has {partitions}; name one with --partition")]
    Partition { problem: String, partitions: String },
    /// The user leaves out the number.
    #[error("the image has no partitions; leave out --partition")]
    NoPartitions,
    /// The user restores the image to a disk and works there.
    #[error("the image holds {content}, from which files cannot be taken; {remedy}")]
    NoFiles { content: String, remedy: &'static str },
    /// The server or the connection to it has failed.
    #[error(transparent)]
    Server(ClientError),
    /// The user becomes root, or uses another machine.
    #[error("cannot {verb}: {error}")]
    System { verb: &'static str, error: io::Error },
}

/// Image whose file system is mounted. The fields are dropped in their order.
pub struct OpenImage {
    root: Dir,
    _mount: DetachedMount,
    _device: LoopDevice,
    _disk: ServedDisk,
    content: Arc<ImageContent>,
    /// True if the file system had changes in its journal, which are not seen.
    pub leaves_out_journal: bool,
}

/// Content of an image as a disk. It remembers an error of the server, of which the kernel
/// only says that the disk has failed.
struct ImageContent {
    reader: ImageReader,
    failure: Mutex<Option<ClientError>>,
}

impl DiskContent for ImageContent {
    fn bytes(&self) -> u64 {
        // A device has whole sectors.
        self.reader.image().facts.layout.bytes.next_multiple_of(u64::from(SECTOR_BYTES))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.reader.read_at(buffer, offset).map_err(|error| {
            let text = error.message.clone();
            let mut known = self.failure.lock();
            // A later error is kept out: it may be a consequence of this one. Lost data has none.
            if known.as_ref().is_none_or(|known| known.kind == ErrorKind::Damaged) {
                *known = Some(error);
            }
            io::Error::other(text)
        })
    }
}

impl OpenImage {
    /// Opens the file system in an image, or in its partition `partition`.
    pub fn open(reader: ImageReader, partition: Option<u32>) -> Result<Self, OpenError> {
        let content = Arc::new(ImageContent { reader, failure: Mutex::new(None) });
        let disk = ServedDisk::serve(Arc::clone(&content) as Arc<dyn DiskContent>)
            .map_err(|error| OpenError::System { verb: "show the image as a disk", error })?;
        Self::mount(&content, disk, partition).map_err(|error| {
            match content.failure.lock().take() {
                // The server's reason is more precise than its consequence. A list of partitions is
                // none.
                Some(failure) if !matches!(error, OpenError::Partition { .. }) => {
                    OpenError::Server(failure)
                }
                _ => error,
            }
        })
    }

    fn mount(
        content: &Arc<ImageContent>,
        disk: ServedDisk,
        partition: Option<u32>,
    ) -> Result<Self, OpenError> {
        let system = |verb| move |error| OpenError::System { verb, error };
        let looped = |offset, bytes, sector| {
            LoopDevice::with_sectors(disk.file(), offset, bytes, sector)
                .map_err(system("make a loop device of the image"))
        };
        let mut sector = SECTOR_BYTES;
        let mut whole = looped(0, 0, sector)?;
        let mut partitions = partitions_in(whole.path());
        if partitions.is_empty() && DeviceContent::of(whole.path()).table.is_some() {
            // A table of partitions is read by the length of the disk's sectors.
            sector = LONG_SECTOR_BYTES;
            whole = looped(0, 0, sector)?;
            partitions = partitions_in(whole.path());
        }
        let held = DeviceContent::of(whole.path());
        let (device, held) = match choose(&partitions, partition)? {
            None => (whole, held),
            Some(Partition { range, .. }) => {
                let part = looped(range.start, range.end - range.start, sector)?;
                let held = DeviceContent::of(part.path());
                (part, held)
            }
        };
        let kind = match held.kind.as_deref() {
            Some(kind) if is_file_system(kind) => kind,
            _ => return Err(no_files(&held)),
        };
        let path = device.path().as_os_str().as_bytes();
        let (mount, leaves_out_journal) = match DetachedMount::read_only(path, kind, false) {
            Ok(mount) => (mount, false),
            // The journal has changes that would have to be written.
            Err(_) => {
                let mounted = DetachedMount::read_only(path, kind, true);
                (mounted.map_err(system("mount the file system in the image"))?, true)
            }
        };
        let root = mount.root().map_err(system("open the file system in the image"))?;
        Ok(Self {
            root,
            _mount: mount,
            _device: device,
            _disk: disk,
            content: Arc::clone(content),
            leaves_out_journal,
        })
    }

    /// Returns the topmost directory.
    pub fn root(&self) -> &Dir {
        &self.root
    }

    /// Returns the number of bytes that were received from the server.
    pub fn bytes_transferred(&self) -> u64 {
        self.content.reader.bytes_transferred()
    }

    /// Returns an error of the server, if there was one.
    fn failure(&self) -> Option<ClientError> {
        self.content.failure.lock().clone()
    }

    /// Returns the reason of `error`: what the server said, if the kernel only says that the disk
    /// has failed.
    pub fn reason(&self, error: &io::Error) -> String {
        let is_of_disk = error.raw_os_error() == Some(Errno::IO.raw_os_error());
        match self.failure() {
            Some(failure) if is_of_disk => failure.message,
            _ => error.to_string(),
        }
    }
}

/// Chooses the partition that is opened; `None` for an image without partitions.
fn choose(partitions: &[Partition], number: Option<u32>) -> Result<Option<&Partition>, OpenError> {
    let error = |problem: String| {
        let line = |partition: &Partition| {
            let megabytes = (partition.range.end - partition.range.start) >> 20;
            format!("{} ({megabytes} MiB)", partition.number)
        };
        let partitions = partitions.iter().map(line).collect::<Vec<_>>().join(", ");
        OpenError::Partition { problem, partitions }
    };
    match (partitions, number) {
        ([], None) => Ok(None),
        ([], Some(_)) => Err(OpenError::NoPartitions),
        ([only], None) => Ok(Some(only)),
        (_, None) => Err(error("the image has several partitions".to_owned())),
        (all, Some(number)) => {
            let found = all.iter().find(|partition| partition.number == number);
            found
                .map(Some)
                .ok_or_else(|| error(format!("the image has no partition {number}")))
        }
    }
}

/// Returns true if the kernel may be asked to mount a file system of this type from a device.
fn is_file_system(kind: &str) -> bool {
    !matches!(kind, "swap" | "LVM2_member" | "crypto_LUKS" | "linux_raid_member")
}

fn no_files(held: &DeviceContent) -> OpenError {
    let content = held.shown().unwrap_or_else(|| "nothing that blkid recognises".to_owned());
    let remedy = match held.kind.as_deref() {
        Some("LVM2_member") => {
            "restore it to a disk and import its volume group with 'vgimportclone'"
        }
        Some("crypto_LUKS") => "restore it to a disk and open it with 'cryptsetup'",
        _ => "restore it to a disk",
    };
    OpenError::NoFiles { content, remedy }
}

/// Returns the components of a path in an image.
pub(crate) fn components(path: &Path) -> impl Iterator<Item = &[u8]> {
    path.as_os_str()
        .as_bytes()
        .split(|&byte| byte == b'/')
        .filter(|part| !matches!(*part, b"" | b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(number: u32) -> Partition {
        let start = u64::from(number) << 30;
        Partition { number, device: "/dev/x".into(), range: start..start + (5 << 20) }
    }

    #[test]
    fn a_partition_must_be_named_if_there_are_several() {
        let several = [partition(1), partition(2)];
        assert_eq!(choose(&[], None).expect("none needed"), None);
        assert_eq!(choose(&several[..1], None).expect("the only one"), Some(&several[0]));
        assert_eq!(choose(&several, Some(2)).expect("named"), Some(&several[1]));
        let error = choose(&several, None).expect_err("several").to_string();
        assert!(error.contains("1 (5 MiB), 2 (5 MiB)"), "{error}");
        assert!(choose(&several, Some(3)).expect_err("none").to_string().contains("partition 3"));
        assert!(choose(&[], Some(1)).is_err());
    }

    #[test]
    fn content_without_files_says_what_to_do() {
        let held = DeviceContent { kind: Some("LVM2_member".to_owned()), ..Default::default() };
        let error = no_files(&held).to_string();
        assert!(error.contains("a physical volume of LVM") && error.contains("vgimportclone"));
        assert!(no_files(&DeviceContent::default()).to_string().contains("blkid"));
    }

    #[test]
    fn a_path_has_components() {
        let parts: Vec<&[u8]> = components(Path::new("/a//./b/")).collect();
        assert_eq!(parts, [b"a", b"b"]);
    }
}

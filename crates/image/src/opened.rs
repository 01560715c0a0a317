//! An image whose file system is mounted, so that single files can be read.
//!
//! ```text
//!   ImageReader (ranges from the server) -> file by FUSE -> loop device -> the kernel's file
//!         |                                   ^                            system
//!         +--> logical volume (its extents) --+
//! ```
//!
//! Only the loop device has a path: other users and programs see neither the file nor the mount,
//! and the kernel removes all of it when the process ends, however it ends. Only the blocks that
//! the kernel asks for are fetched.
//!
//! udev looks at each loop device, and LVM activates a volume group that it finds there. So a loop
//! device covers one file system and nothing else. `partx` and `blkid` look for it in the file.

use std::io;
use std::ops::Range;
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
use crate::lvm::{Obstacle, VolumeMap};
use crate::parts::{Part, PartName, Parts, is_file_system, no_files};

/// Length of the sectors of most disks, in bytes.
const SECTOR_BYTES: u32 = 512;
/// Length of the sectors of disks that say so, in bytes.
const LONG_SECTOR_BYTES: u32 = 4096;

/// Error while an image is opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The user names a part.
    #[error("{problem}; it has {partitions}; name one with --partition")]
    Partition { problem: String, partitions: String },
    /// The user leaves out the number.
    #[error("the image has no partitions; leave out --partition")]
    NoPartitions,
    /// The user restores the image to a disk and works there.
    #[error("the image holds {content}, from which files cannot be taken; {remedy}")]
    NoFiles { content: String, remedy: &'static str },
    /// The user restores the image to a disk and works there, or chooses another volume.
    #[error(
        "no files can be taken from the logical volume {volume}: {obstacle}; restore the image to \
         a disk and import its volume group with 'vgimportclone'"
    )]
    Volume { volume: String, obstacle: Obstacle },
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

/// Content of a logical volume as a disk: its extents in the order of the volume.
struct VolumeContent {
    image: Arc<ImageContent>,
    map: VolumeMap,
}

impl DiskContent for VolumeContent {
    fn bytes(&self) -> u64 {
        self.map.bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut rest = buffer;
        for piece in self.map.pieces(offset..offset + rest.len() as u64) {
            let bytes = usize::try_from(piece.end - piece.start).expect("a piece of the buffer");
            let (part, after) = std::mem::take(&mut rest).split_at_mut(bytes);
            self.image.read_at(part, piece.start)?;
            rest = after;
        }
        assert!(rest.is_empty(), "the pieces fill the buffer");
        Ok(())
    }
}

impl OpenImage {
    /// Opens the file system in an image, or in one of its parts.
    pub fn open(reader: ImageReader, part: Option<&PartName>) -> Result<Self, OpenError> {
        let content = Arc::new(ImageContent { reader, failure: Mutex::new(None) });
        let disk = served(Arc::clone(&content) as Arc<dyn DiskContent>)?;
        Self::mount(&content, disk, part).map_err(|error| {
            match content.failure.lock().take() {
                // The server's reason is more precise than its consequence. A list of partitions
                // and the kind of a volume are none.
                Some(_)
                    if matches!(error, OpenError::Partition { .. } | OpenError::Volume { .. }) =>
                {
                    error
                }
                Some(failure) => OpenError::Server(failure),
                None => error,
            }
        })
    }

    fn mount(
        content: &Arc<ImageContent>,
        disk: ServedDisk,
        part: Option<&PartName>,
    ) -> Result<Self, OpenError> {
        let (partitions, sector) = partitions_of(&disk);
        let chosen = content.choose(&partitions, part)?;
        let is_volume = matches!(chosen, Part::Volume(_));
        let bytes = content.bytes();
        let (disk, range) = match chosen {
            Part::Whole => (disk, 0..bytes),
            Part::Partition(range) => (disk, range.start.min(bytes)..range.end.min(bytes)),
            Part::Volume(map) => {
                let range = 0..map.bytes();
                let volume = served(Arc::new(VolumeContent { image: Arc::clone(content), map }))?;
                (volume, range)
            }
        };
        let held = DeviceContent::within(disk.file(), &range);
        let kind = match held.kind.as_deref() {
            Some(kind) if is_file_system(kind) => kind,
            Some("LVM2_member") if !is_volume => {
                return Err(content.parts(&partitions)?.physical_volume());
            }
            _ => return Err(no_files(&held)),
        };
        let device = looped(&disk, range, sector)?;
        let (mount, leaves_out_journal) = mounted(&device, kind)?;
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

    /// Returns a function that tells [`Self::bytes_transferred`], for a display.
    pub fn transfer(&self) -> impl Fn() -> u64 + Send + use<> {
        let content = Arc::clone(&self.content);
        move || content.reader.bytes_transferred()
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

impl ImageContent {
    /// Chooses the part that is opened. Other parts are looked at only if that is needed: each look
    /// fetches data from the server.
    fn choose(&self, partitions: &[Partition], name: Option<&PartName>) -> Result<Part, OpenError> {
        let named = partitions
            .iter()
            .find(|partition| name == Some(&PartName::Partition(partition.number)));
        match named {
            Some(partition) => Ok(Part::Partition(partition.range.clone())),
            None => self.parts(partitions)?.choose(name),
        }
    }

    fn parts<'a>(&self, partitions: &'a [Partition]) -> Result<Parts<'a>, OpenError> {
        let read = |offset: u64, bytes: usize| -> io::Result<Vec<u8>> {
            let mut buffer = vec![0; bytes];
            self.read_at(&mut buffer, offset)?;
            Ok(buffer)
        };
        Parts::find(partitions, self.bytes(), &read)
            .map_err(system("look for logical volumes in the image"))
    }
}

/// Returns the partitions of a disk, and the length of the sectors by which their table counts.
fn partitions_of(disk: &ServedDisk) -> (Vec<Partition>, u32) {
    let found = partitions_in(disk.file(), SECTOR_BYTES);
    if found.is_empty() && DeviceContent::within(disk.file(), &(0..0)).table.is_some() {
        // A table of partitions is read by the length of the disk's sectors.
        return (partitions_in(disk.file(), LONG_SECTOR_BYTES), LONG_SECTOR_BYTES);
    }
    (found, SECTOR_BYTES)
}

fn system(verb: &'static str) -> impl Fn(io::Error) -> OpenError {
    move |error| OpenError::System { verb, error }
}

fn served(content: Arc<dyn DiskContent>) -> Result<ServedDisk, OpenError> {
    ServedDisk::serve(content).map_err(system("show the image as a disk"))
}

/// Makes a device of a range of `disk`, which holds a file system.
fn looped(disk: &ServedDisk, range: Range<u64>, sector: u32) -> Result<LoopDevice, OpenError> {
    LoopDevice::with_sectors(disk.file(), range.start, range.end - range.start, sector)
        .map_err(system("make a loop device of the image"))
}

/// Mounts the file system of the type `kind` on `device`. Returns true beside it if its journal is
/// left out.
fn mounted(device: &LoopDevice, kind: &str) -> Result<(DetachedMount, bool), OpenError> {
    let path = device.path().as_os_str().as_bytes();
    match DetachedMount::read_only(path, kind, false) {
        Ok(mount) => Ok((mount, false)),
        // The journal has changes that would have to be written.
        Err(_) => {
            let mounted = DetachedMount::read_only(path, kind, true);
            Ok((mounted.map_err(system("mount the file system in the image"))?, true))
        }
    }
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

    #[test]
    fn a_path_has_components() {
        let parts: Vec<&[u8]> = components(Path::new("/a//./b/")).collect();
        assert_eq!(parts, [b"a", b"b"]);
    }
}

//! The conditions under which predictions are tried.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::harness::Image;
use tempfile::TempDir;

use crate::relay::Link;
use crate::trouble::{Context as _, Trouble};

/// Storage of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Storage {
    /// A tmpfs.
    Memory,
    /// The disk of the work folder.
    Disk,
    /// A file system on a loop device.
    OwnDisk,
    /// A file system on a loop device that is limited to [`SLOW_IOPS`] reads a second.
    SlowDisk,
}

impl Storage {
    /// Returns true if an image of the disk has the tree and nothing else.
    pub(super) fn has_own_device(self) -> bool {
        match self {
            Self::Memory | Self::Disk => false,
            Self::OwnDisk | Self::SlowDisk => true,
        }
    }
}

/// Form of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// The tree as it is.
    Whole,
    /// So many of its files.
    Part(usize),
    /// Its content in files of 128 MiB.
    Large,
}

/// A condition.
pub(super) struct Condition {
    pub(super) name: &'static str,
    pub(super) storage: Storage,
    pub(super) form: Form,
    /// True if the caches are dropped before each run.
    pub(super) cold: bool,
    pub(super) link: Option<Link>,
}

/// Number of reads a second of a slow disk, as a disk of 2010 had.
pub(super) const SLOW_IOPS: u32 = 130;

const fn link(millis: u64, mbit: u64) -> Option<Link> {
    Some(Link { round_trip: Duration::from_millis(millis), bits_per_sec: Some(mbit * 1_000_000) })
}

pub(super) const CONDITIONS: [Condition; 10] = [
    condition("small files in memory", Storage::Memory, Form::Whole),
    condition("large files in memory", Storage::Memory, Form::Large),
    condition("small files on a disk, warm", Storage::Disk, Form::Whole),
    Condition {
        cold: true,
        ..condition("small files on a disk, cold", Storage::Disk, Form::Whole)
    },
    Condition {
        cold: true,
        ..condition("large files on a disk, cold", Storage::Disk, Form::Large)
    },
    Condition {
        cold: true,
        ..condition("small files on an own disk, cold", Storage::OwnDisk, Form::Part(20_000))
    },
    Condition {
        cold: true,
        ..condition("large files on an own disk, cold", Storage::OwnDisk, Form::Large)
    },
    Condition {
        cold: true,
        ..condition("130 reads a second, cold", Storage::SlowDisk, Form::Part(3000))
    },
    Condition { link: link(20, 10), ..condition("10 Mbit/s", Storage::Memory, Form::Part(10_000)) },
    Condition { link: link(5, 1000), ..condition("1 Gbit/s", Storage::Memory, Form::Whole) },
];

const fn condition(name: &'static str, storage: Storage, form: Form) -> Condition {
    Condition { name, storage, form, cold: false, link: None }
}

/// Size of the image of an own disk.
const IMAGE_BYTES: u64 = 4 << 30;

/// The folder of a tree, in its storage. Dropping the value removes the storage.
pub(super) struct Place {
    path: PathBuf,
    _memory: Option<TempDir>,
    _own: Option<Image>,
    _slow: Option<SlowDisk>,
}

impl Place {
    /// Makes the place of a tree in `storage`. `folder` is on the disk.
    pub(super) fn make(storage: Storage, folder: &Path) -> Result<Self, Trouble> {
        let (path, memory, own, slow) = match storage {
            Storage::Disk => (folder.to_owned(), None, None, None),
            Storage::Memory => {
                let memory = tempfile::Builder::new().prefix("hfb").tempdir_in("/dev/shm");
                let memory = memory.while_doing(|| "make a folder in /dev/shm".to_owned())?;
                (memory.path().to_owned(), Some(memory), None, None)
            }
            Storage::OwnDisk => {
                let own = own_disk(folder)?;
                (own.path().to_owned(), None, Some(own), None)
            }
            Storage::SlowDisk => {
                let slow = SlowDisk::make(folder)?;
                (slow.image.path().to_owned(), None, None, Some(slow))
            }
        };
        Ok(Self { path, _memory: memory, _own: own, _slow: slow })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes a file system on a loop device. `folder` is on the disk.
fn own_disk(folder: &Path) -> Result<Image, Trouble> {
    let (file, mount) = (folder.join("image"), folder.join("own"));
    let image = Image::mount(&file, IMAGE_BYTES, &["mkfs.ext4", "-q"], &mount);
    image.ok_or_else(|| Trouble::new("loop devices do not work here"))
}

/// A file system on a loop device whose reads are limited by the control group of this process and
/// its children.
struct SlowDisk {
    image: Image,
}

/// Control groups for limits of block devices.
const GROUPS: &str = "/sys/fs/cgroup/blkio";

impl SlowDisk {
    fn make(folder: &Path) -> Result<Self, Trouble> {
        let image = own_disk(folder)?;
        let device = fs::metadata(image.path())
            .while_doing(|| "stat the slow disk".to_owned())?
            .dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let group = Path::new(GROUPS).join("holdfast-bench");
        let what = || format!("limit reads by a control group in {GROUPS}");
        fs::create_dir_all(&group).while_doing(what)?;
        let limit = format!("{major}:{minor} {SLOW_IOPS}");
        fs::write(group.join("blkio.throttle.read_iops_device"), limit).while_doing(what)?;
        fs::write(group.join("cgroup.procs"), std::process::id().to_string()).while_doing(what)?;
        Ok(Self { image })
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // A process that stays in the group has no disk with a limit.
        drop(fs::write(Path::new(GROUPS).join("cgroup.procs"), std::process::id().to_string()));
        drop(fs::remove_dir(Path::new(GROUPS).join("holdfast-bench")));
    }
}

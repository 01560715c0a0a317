//! The counters of the block device under a path, which the kernel keeps.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// A block device, by its folder in sysfs.
pub(crate) struct Device(PathBuf);

impl Device {
    /// Returns the device that holds the file system at `path`; `None` if it has none of its own,
    /// as tmpfs, NFS and overlays.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let number = fs::metadata(path).ok()?.dev();
        Self::numbered(number).or_else(|| Self::of_mount(path))
    }

    /// Returns the device of a file system whose number is not that of its device, as of btrfs;
    /// `None` if it has several.
    fn of_mount(path: &Path) -> Option<Self> {
        let root = crate::mount_point(path)?;
        let mounted = sys::mount::mounted(&root).ok()??;
        let source = Path::new(OsStr::from_bytes(&mounted.source));
        // Other sources may be paths that make the kernel ask another machine.
        if !source.starts_with("/dev") {
            return None;
        }
        let status = fs::metadata(source).ok()?;
        let has_several = sys::block::btrfs_devices(source).unwrap_or_default().len() > 1;
        if !status.file_type().is_block_device() || has_several {
            return None;
        }
        Self::numbered(status.rdev())
    }

    /// Returns the device at `path`, or the one that holds the file system whose directory is
    /// there; `None` for anything else.
    pub(crate) fn read_for(path: &Path) -> Option<Self> {
        let status = fs::metadata(path).ok()?;
        match status.file_type() {
            kind if kind.is_block_device() => Self::numbered(status.rdev()),
            kind if kind.is_dir() => Self::of(path),
            _ => None,
        }
    }

    fn numbered(number: u64) -> Option<Self> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        folder.join("stat").is_file().then_some(Self(folder))
    }

    /// Returns the number of reads that the device has completed since the machine was started.
    pub(crate) fn reads(&self) -> Option<u64> {
        reads(&fs::read_to_string(self.0.join("stat")).ok()?)
    }

    /// Returns the size of the device.
    pub(crate) fn bytes(&self) -> Option<u64> {
        bytes(&fs::read_to_string(self.0.join("size")).ok()?)
    }

    /// Returns true if the device is a file that the kernel reads through the page cache: a loop
    /// device, or a part of one, without direct reads.
    pub(crate) fn is_cached_file(&self) -> bool {
        let direct = ["loop/dio", "../loop/dio"].map(|file| self.0.join(file));
        direct
            .iter()
            .any(|file| fs::read(file).is_ok_and(|says| says.starts_with(b"0")))
    }

    /// Returns the name of the device, as `sda1`.
    pub(crate) fn name(&self) -> Option<String> {
        // The folder is a link to the one that has the device's name.
        let folder = fs::read_link(&self.0).ok()?;
        Some(folder.file_name()?.to_string_lossy().into_owned())
    }
}

/// Returns the first field of a device's `stat`: completed reads.
fn reads(stat: &str) -> Option<u64> {
    stat.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns what a device's `size` says: the number of its sectors of 512 bytes, whatever its own
/// sectors are.
fn bytes(size: &str) -> Option<u64> {
    size.trim().parse::<u64>().ok()?.checked_mul(512)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_size_is_in_sectors() {
        assert_eq!(bytes("8388608\n"), Some(4 << 30));
        assert_eq!((bytes(""), bytes("18446744073709551615")), (None, None));
    }

    #[test]
    fn a_file_behind_a_loop_device_is_cached_unless_it_is_read_directly() {
        let folder = tempfile::tempdir().expect("a folder");
        let is_cached = |device: &str| Device(folder.path().join(device)).is_cached_file();
        fs::create_dir_all(folder.path().join("loop0/loop")).expect("made");
        fs::create_dir_all(folder.path().join("loop0/loop0p1")).expect("made");
        fs::create_dir_all(folder.path().join("sda")).expect("made");
        for (direct, expected) in [("0\n", true), ("1\n", false)] {
            fs::write(folder.path().join("loop0/loop/dio"), direct).expect("written");
            assert_eq!(["loop0", "loop0/loop0p1"].map(is_cached), [expected; 2]);
        }
        assert!(!is_cached("sda"));
    }

    #[test]
    fn reads_are_the_first_field() {
        assert_eq!(reads("    9876      120   456 7 8 9\n"), Some(9876));
        assert_eq!(reads(""), None);
    }

    #[test]
    fn an_image_of_a_directory_is_read_from_its_device() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = |device: Option<Device>| device.and_then(|device| device.name());
        let held = name(Device::of(folder.path()));
        assert_eq!(name(Device::read_for(folder.path())), held);
        if let Some(node) = held
            .map(|name| Path::new("/dev").join(name))
            .filter(|at| fs::metadata(at).is_ok())
        {
            let at = name(Device::read_for(&node));
            assert_eq!(at.as_deref().map(|name| Path::new("/dev").join(name)), Some(node));
        }
        let file = folder.path().join("disk.img");
        fs::write(&file, b"").expect("written");
        assert!(Device::read_for(&file).is_none(), "it is no part of the disk that holds it");
    }

    /// Images of btrfs were not compared with their predictions, and reads were not counted.
    #[test]
    fn the_device_of_a_btrfs_file_system_is_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let [disk, point] = ["disk", "point"].map(|name| folder.path().join(name));
        fs::File::create(&disk)
            .and_then(|file| file.set_len(320 << 20))
            .expect("a file");
        fs::create_dir(&point).expect("a folder");
        let runs = |words: &[&str], path: &Path| {
            let output = Command::new(words[0]).args(&words[1..]).arg(path).output();
            output.is_ok_and(|output| output.status.success())
        };
        let source = disk.to_str().expect("a name");
        if !runs(&["mkfs.btrfs", "-q"], &disk) || !runs(&["mount", "-o", "loop", source], &point) {
            eprintln!("skipped: no btrfs can be mounted here");
            return;
        }
        let name = Device::of(&point).and_then(|device| device.name());
        assert!(runs(&["umount", "--lazy"], &point));
        assert!(name.as_ref().is_some_and(|name| name.starts_with("loop")), "{name:?}");
    }

    #[test]
    fn a_file_system_in_memory_has_no_device() {
        assert!(Device::of(Path::new("/proc")).is_none());
        assert!(Device::of(Path::new("/does/not/exist")).is_none());
    }
}

//! The counters of the block device under a path, which the kernel keeps.

use std::fs;
use std::path::{Path, PathBuf};

/// A block device, by its folder in sysfs.
pub(crate) struct Device(PathBuf);

impl Device {
    /// Returns the device that holds the file system at `path`; `None` if it has none of its own,
    /// as tmpfs, NFS and overlays.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let number = fs::metadata(path).ok()?.dev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        folder.join("stat").is_file().then_some(Self(folder))
    }

    /// Returns the number of reads that the device has completed since the machine was started.
    pub(crate) fn reads(&self) -> Option<u64> {
        reads(&fs::read_to_string(self.0.join("stat")).ok()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_the_first_field() {
        assert_eq!(reads("    9876      120   456 7 8 9\n"), Some(9876));
        assert_eq!(reads(""), None);
    }

    #[test]
    fn a_file_system_in_memory_has_no_device() {
        assert!(Device::of(Path::new("/proc")).is_none());
        assert!(Device::of(Path::new("/does/not/exist")).is_none());
    }
}

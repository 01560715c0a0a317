//! The ranges of a device that hold data, as far as the kernel tells.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use sys::Dir;
use sys::block::{self, Partition};
use sys::loop_device::LoopDevice;
use sys::mount::{self, DetachedMount};

use crate::content::DeviceContent;

/// Size of the head of swap space: one page of the largest size that Linux has. The rest is not
/// needed.
const SWAP_HEAD_BYTES: u64 = 64 << 10;

/// Returns the ranges of a block device of `bytes` bytes that may hold data, in order. `was_frozen`
/// says that the kernel has frozen the file system on it, so that all is in its place.
pub(crate) fn of_device(device: &Path, bytes: u64, was_frozen: bool) -> Vec<Range<u64>> {
    let partitions = block::partitions(device).unwrap_or_default();
    if partitions.is_empty() {
        return complement(&free_ranges(device, was_frozen).unwrap_or_default(), bytes);
    }
    complement(&free_in_partitions(&partitions), bytes)
}

/// Makes the kernel write what the file systems on a disk and its partitions have only in memory.
/// A disk that cannot be written can be read all the same.
pub(crate) fn sync(disk: &Path) {
    let partitions = block::partitions(disk).unwrap_or_default();
    let devices = partitions.iter().map(|partition| partition.device.as_path());
    for device in devices.chain([disk]) {
        // The table of mounts names one of the devices of a btrfs file system only.
        let together = block::btrfs_devices(device).unwrap_or_default();
        for device in together.iter().map(AsRef::<Path>::as_ref).chain([device]) {
            let number = std::fs::metadata(device).map(|stat| stat.rdev());
            if let Ok(Some(point)) = number.and_then(mount::point_of_device)
                && let Ok(root) = Dir::open(&point)
            {
                let _written = rustix::fs::syncfs(&root);
            }
        }
    }
}

/// Returns the ranges of a disk that the file systems on its partitions do not use.
fn free_in_partitions(partitions: &[Partition]) -> Vec<Range<u64>> {
    let mut free = Vec::new();
    for Partition { device, range, .. } in partitions {
        let within = |part: Range<u64>| {
            let start = (range.start + part.start).min(range.end);
            start..(range.start.saturating_add(part.end)).min(range.end)
        };
        free.extend(free_ranges(device, false).unwrap_or_default().into_iter().map(within));
    }
    free
}

/// Returns the ranges of a device that hold nothing that is needed. Fails if nobody knows.
fn free_ranges(device: &Path, was_frozen: bool) -> io::Result<Vec<Range<u64>>> {
    let number = std::fs::metadata(device)?.rdev();
    if let Some(point) = mount::point_of_device(number)? {
        let root = Dir::open(&point)?;
        // The kernel gives files that were just written their blocks, and writes them.
        rustix::fs::syncfs(&root)?;
        return block::free_ranges(&root, device);
    }
    let content = DeviceContent::of(device);
    // Beside a table of partitions, a file system is what was there before the table: its blocks
    // that are free belong to partitions, which the kernel may not know.
    let is_divided = content.table.is_some() && !has_empty_boot_record(device, &content)?;
    match content.kind.as_deref().filter(|_| !is_divided) {
        Some("swap") => Ok(Vec::from([SWAP_HEAD_BYTES..u64::MAX])),
        Some(kind @ ("ext4" | "xfs")) => free_ranges_unmounted(device, kind, was_frozen),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Returns true if the table of a disk is that of a boot record, and has no entry: boot code in
/// front of a file system looks so.
fn has_empty_boot_record(device: &Path, content: &DeviceContent) -> io::Result<bool> {
    let mut entries = [0; 64];
    File::open(device)?.read_exact_at(&mut entries, 446)?;
    Ok(content.table.as_deref() == Some("dos") && entries == [0; 64])
}

/// Asks a file system that is not mounted. The kernel refuses it if its journal has changes that
/// are not in their places, because the device cannot be written.
///
/// A file system that was frozen has all changes in their places. Nevertheless xfs marks its
/// journal as one that has some, so that files which are open and deleted are seen to after a
/// crash. So its journal is left out.
fn free_ranges_unmounted(
    device: &Path,
    kind: &str,
    was_frozen: bool,
) -> io::Result<Vec<Range<u64>>> {
    let of = LoopDevice::read_only(&File::open(device)?, 0, 0)?;
    let path = of.path().as_os_str().as_bytes();
    let mounted = DetachedMount::read_only(path, kind, false).or_else(|error| {
        let is_in_place = was_frozen && kind == "xfs";
        if is_in_place { DetachedMount::read_only(path, kind, true) } else { Err(error) }
    })?;
    block::free_ranges(&mounted.root()?, of.path())
}

/// Returns true if `range` has a byte in one of `ranges`, which are in order.
pub(crate) fn touches(ranges: &[Range<u64>], range: &Range<u64>) -> bool {
    let first = ranges.partition_point(|known| known.end <= range.start);
    ranges.get(first).is_some_and(|known| known.start < range.end)
}

/// Returns the ranges of `bytes` bytes that are not in `free`.
pub(crate) fn complement(free: &[Range<u64>], bytes: u64) -> Vec<Range<u64>> {
    let mut free: Vec<Range<u64>> =
        free.iter().filter(|range| !range.is_empty()).cloned().collect();
    free.sort_by_key(|range| range.start);
    let mut used = Vec::new();
    let mut at = 0;
    for range in free {
        let start = range.start.min(bytes);
        if at < start {
            used.push(at..start);
        }
        at = at.max(range.end.min(bytes));
    }
    if at < bytes {
        used.push(at..bytes);
    }
    used
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;
    use std::path::PathBuf;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    const DISK_BYTES: u64 = 320 << 20;

    fn runs(words: &[&str], path: &Path) -> bool {
        let output = Command::new(words[0]).args(&words[1..]).arg(path).output();
        output.is_ok_and(|output| output.status.success())
    }

    /// Returns a copy of a disk with xfs, taken while its file system was frozen; `None` if this
    /// machine cannot do that.
    fn copied_disk(folder: &Path) -> Option<PathBuf> {
        let [disk, copy, point] = ["disk", "copy", "point"].map(|name| folder.join(name));
        File::create(&disk).and_then(|file| file.set_len(DISK_BYTES)).expect("a file");
        std::fs::create_dir(&point).expect("a folder");
        let name = disk.to_str().expect("a name");
        if !runs(&["mkfs.xfs", "-q"], &disk) || !runs(&["mount", "-o", "loop", name], &point) {
            return None;
        }
        std::fs::write(point.join("content"), vec![0x5a; 8 << 20]).expect("written");
        std::fs::write(point.join("gone"), vec![0x5b; 40 << 20]).expect("written");
        std::fs::remove_file(point.join("gone")).expect("removed");
        let is_frozen = runs(&["fsfreeze", "--freeze"], &point);
        let is_copied = runs(&["cp", "--sparse=always", name], &copy);
        let is_thawed = runs(&["fsfreeze", "--unfreeze"], &point);
        assert!(runs(&["umount", "--lazy"], &point) && is_frozen && is_copied && is_thawed);
        Some(copy)
    }

    #[test]
    fn free_blocks_of_a_frozen_xfs_are_known_in_spite_of_its_journal() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(copy) = copied_disk(folder.path()) else {
            eprintln!("skipped: no xfs can be mounted here");
            return;
        };
        free_ranges_unmounted(&copy, "xfs", false).expect_err("the journal has changes");
        let free = free_ranges_unmounted(&copy, "xfs", true).expect("told");
        assert!(free.iter().map(|range| range.end - range.start).sum::<u64>() > 150 << 20);
        let content = File::open(&copy).expect("opened");
        let mut found = 0;
        for used in complement(&free, DISK_BYTES) {
            let mut data = vec![0; usize::try_from(used.end - used.start).expect("small")];
            content.read_exact_at(&mut data, used.start).expect("read");
            let is_content = |block: &&[u8]| block.iter().all(|byte| *byte == 0x5a);
            found += data.chunks(4096).filter(is_content).count();
        }
        assert_eq!(found, 2048, "all blocks of the file are used");
    }

    /// Makes a disk with ext4 whose free blocks are known; `None`, with a message, if this machine
    /// cannot do that.
    fn ext4_disk(folder: &Path) -> Option<(PathBuf, File)> {
        let disk = folder.join("disk");
        let file = File::create(&disk).expect("a file");
        file.set_len(DISK_BYTES).expect("sized");
        if !runs(&["mkfs.ext4", "-q", "-F"], &disk) || free_ranges(&disk, false).is_err() {
            eprintln!("skipped: no ext4 can be mounted here");
            return None;
        }
        Some((disk, file))
    }

    #[test]
    fn what_an_ext4_with_errors_calls_free_is_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some((disk, _)) = ext4_disk(folder.path()) else { return };
        assert!(runs(&["debugfs", "-w", "-R", "set_super_value error_count 1"], &disk));
        free_ranges(&disk, false).expect_err("its bitmaps may be wrong");
        assert!(runs(&["debugfs", "-w", "-R", "set_super_value error_count 0"], &disk));
        free_ranges(&disk, false).expect("repaired");
    }

    #[test]
    fn what_is_left_of_a_file_system_beside_a_table_tells_of_no_free_blocks() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some((disk, file)) = ext4_disk(folder.path()) else { return };
        // A partition of 256 MiB after the first MiB, and the mark of a boot record.
        let entry = [0, 0, 2, 0, 0x83, 0xff, 0xff, 0xff, 0, 8, 0, 0, 0, 0, 8, 0];
        file.write_all_at(&entry, 446).expect("written");
        file.write_all_at(&[0x55, 0xaa], 510).expect("written");
        let held = DeviceContent::of(&disk);
        assert_eq!((held.kind.as_deref(), held.table.as_deref()), (Some("ext4"), Some("dos")));
        free_ranges(&disk, false).expect_err("the partition may use any block");
    }

    #[test]
    fn all_that_is_not_free_is_used() {
        assert_eq!(complement(&[], 10), Vec::from([0..10]));
        assert_eq!(complement(&[4..6, 0..2], 10), [2..4, 6..10]);
        assert_eq!(complement(&[0..5, 3..20], 10), []);
        assert_eq!(complement(&[8..u64::MAX, 12..14], 10), Vec::from([0..8]));
    }

    proptest! {
        #[test]
        fn each_byte_is_either_free_or_used(
            ranges in prop::collection::vec((0_u64..100, 0_u64..30), 0..10),
        ) {
            let free: Vec<Range<u64>> =
                ranges.iter().map(|(start, length)| *start..start + length).collect();
            let used = complement(&free, 80);
            prop_assert!(used.windows(2).all(|pair| pair[0].end < pair[1].start));
            for byte in 0..80 {
                let is_free = free.iter().any(|range| range.contains(&byte));
                prop_assert_eq!(used.iter().any(|range| range.contains(&byte)), !is_free);
            }
        }
    }
}

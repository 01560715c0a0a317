//! The ranges of a device that hold data, as far as the kernel tells.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use sys::Dir;
use sys::block::{self, Partition};
use sys::loop_device::LoopDevice;
use sys::mount::{self, DetachedMount};

use crate::content::DeviceContent;

/// Size of the head of swap space: one page of the largest size that Linux has. The rest is not
/// needed.
const SWAP_HEAD_BYTES: u64 = 64 << 10;

/// Returns the ranges of a block device of `bytes` bytes that may hold data, in order.
pub(crate) fn of_device(device: &Path, bytes: u64) -> Vec<Range<u64>> {
    let partitions = block::partitions(device).unwrap_or_default();
    if partitions.is_empty() {
        return complement(&free_ranges(device).unwrap_or_default(), bytes);
    }
    complement(&free_in_partitions(&partitions), bytes)
}

/// Makes the kernel write what the file systems on a disk and its partitions have only in memory.
/// A disk that cannot be written can be read all the same.
pub(crate) fn sync(disk: &Path) {
    let partitions = block::partitions(disk).unwrap_or_default();
    let devices = partitions.iter().map(|partition| partition.device.as_path());
    for device in devices.chain([disk]) {
        let number = std::fs::metadata(device).map(|stat| stat.rdev());
        if let Ok(Some(point)) = number.and_then(mount::point_of_device)
            && let Ok(root) = Dir::open(&point)
        {
            let _written = rustix::fs::syncfs(&root);
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
        free.extend(free_ranges(device).unwrap_or_default().into_iter().map(within));
    }
    free
}

/// Returns the ranges of a device that hold nothing that is needed. Fails if nobody knows.
fn free_ranges(device: &Path) -> io::Result<Vec<Range<u64>>> {
    let number = std::fs::metadata(device)?.rdev();
    if let Some(point) = mount::point_of_device(number)? {
        let root = Dir::open(&point)?;
        // The kernel gives files that were just written their blocks, and writes them.
        rustix::fs::syncfs(&root)?;
        return block::free_ranges(&root, device);
    }
    match DeviceContent::of(device).kind.as_deref() {
        Some("swap") => Ok(Vec::from([SWAP_HEAD_BYTES..u64::MAX])),
        Some(kind @ ("ext4" | "xfs")) => free_ranges_unmounted(device, kind),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Asks a file system that is not mounted. The kernel refuses it if its journal has changes that
/// are not in their places, because the device cannot be written.
fn free_ranges_unmounted(device: &Path, kind: &str) -> io::Result<Vec<Range<u64>>> {
    let of = LoopDevice::read_only(&File::open(device)?, 0, 0)?;
    let mounted = DetachedMount::read_only(of.path().as_os_str().as_bytes(), kind, false)?;
    block::free_ranges(&mounted.root()?, of.path())
}

/// Returns the ranges of `bytes` bytes that are not in `free`.
fn complement(free: &[Range<u64>], bytes: u64) -> Vec<Range<u64>> {
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
    use proptest::prelude::*;

    use super::*;

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

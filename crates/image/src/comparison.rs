//! Comparison of an image with a device, without writing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use client::{ImageFacts, ImageTarget};
use sys::block;
use sys::lock::Mutex;

use crate::error::ImageError;
use crate::export::{self, ExportReader};
use crate::source;

/// Length of the blocks that are compared.
const BLOCK_BYTES: usize = 4096;
/// Number of bytes of a hole that are compared at once.
const CLEARED_BYTES: usize = 1 << 20;
/// Maximum number of ranges that are kept.
const DIFFERENCES_LISTED: usize = 1000;

/// Target that compares what it gets with a device or a file. If the image leaves out blocks that
/// were not used, blocks of zeros are not compared: nobody knows what the disk had there.
pub struct Comparison {
    path: PathBuf,
    disk: Disk,
    compares_zeros: bool,
    found: Mutex<Differences>,
}

/// Access to the disk that an image is compared with.
enum Disk {
    File(File),
    /// Disk of a virtual machine, through `qemu-nbd`.
    Export(Box<ExportReader>),
}

impl Disk {
    /// Opens the disk at `path`. An image of the disk in a file such as qcow2 is compared with the
    /// disk in such a file, and not with the bytes of the file.
    fn open(path: &Path, of: &ImageFacts) -> Result<Self, ImageError> {
        let failed = |error| ImageError::file("read", path, error);
        let file = File::open(path).map_err(failed)?;
        block::forget_cache(&file);
        let format = match of.kind.as_str() {
            source::DEVICE | source::FILE => None,
            _ => export::format_of(&file).map_err(failed)?,
        };
        let Some(format) = format else { return Ok(Self::File(file)) };
        let path = path.canonicalize().map_err(failed)?;
        match ExportReader::serve(&path, &format, None) {
            Ok(reader) => Ok(Self::Export(Box::new(reader))),
            Err(error) => Err(ImageError::Export { path, error }),
        }
    }

    /// Fills `buffer` from `offset` on, up to the end. Returns the number of bytes.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => read_file(file, buffer, offset),
            Self::Export(export) => {
                let left = export.bytes.saturating_sub(offset);
                let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                if bytes > 0 {
                    export.read_at(&mut buffer[..bytes], offset)?;
                }
                Ok(bytes)
            }
        }
    }
}

fn read_file(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64)? {
            0 => break,
            bytes => filled += bytes,
        }
    }
    Ok(filled)
}

/// Blocks in which an image and a disk differ.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Differences {
    pub bytes: u64,
    /// Beginnings and ends of the ranges, of which no two touch each other. Their number is
    /// limited.
    ranges: BTreeMap<u64, u64>,
    /// True if there are more ranges.
    pub is_cut: bool,
}

impl Differences {
    fn note(&mut self, range: Range<u64>) {
        self.bytes += range.end - range.start;
        let before = self.ranges.range(..=range.start).next_back();
        let start = match before {
            Some((&start, &end)) if end == range.start => start,
            _ => range.start,
        };
        let end = self.ranges.remove(&range.end).unwrap_or(range.end);
        if start == range.start && self.ranges.len() >= DIFFERENCES_LISTED {
            self.is_cut = true;
            return;
        }
        self.ranges.insert(start, end);
    }

    /// Returns the ranges in order.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        self.ranges.iter().map(|(&start, &end)| start..end).collect()
    }
}

impl Comparison {
    /// Compares the image with the facts `of` with a device or a file.
    pub fn with(path: &Path, of: &ImageFacts) -> Result<Self, ImageError> {
        let disk = Disk::open(path, of)?;
        let (path, compares_zeros) = (path.to_owned(), !of.leaves_out_unused);
        Ok(Self { path, disk, compares_zeros, found: Mutex::default() })
    }

    /// Returns what differs.
    pub fn differences(self) -> Differences {
        self.found.into_inner()
    }

    fn note(&self, range: Range<u64>) {
        self.found.lock().note(range);
    }
}

impl ImageTarget for Comparison {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut there = vec![0; data.len()];
        let filled = self.disk.read(&mut there, offset)?;
        let mut at = offset;
        for (ours, theirs) in data.chunks(BLOCK_BYTES).zip(there.chunks(BLOCK_BYTES)) {
            let end = at + ours.len() as u64;
            let is_there = end <= offset + filled as u64;
            let is_compared = self.compares_zeros || ours.iter().any(|byte| *byte != 0);
            if is_compared && (ours != theirs || !is_there) {
                self.note(at..end);
            }
            at = end;
        }
        Ok(())
    }

    fn clear(&self, range: Range<u64>) -> io::Result<()> {
        if !self.compares_zeros {
            return Ok(());
        }
        let zeros = vec![0; CLEARED_BYTES];
        let mut at = range.start;
        while at < range.end {
            let left = usize::try_from(range.end - at).unwrap_or(CLEARED_BYTES);
            let part = &zeros[..left.min(CLEARED_BYTES)];
            self.write_at(part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn failure(&self, error: &io::Error) -> String {
        format!("cannot read {}: {error}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_differ_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        std::fs::write(&path, [7; 10_000]).expect("written");
        let open = |compares_zeros| Comparison {
            path: path.clone(),
            disk: Disk::File(File::open(&path).expect("opened")),
            compares_zeros,
            found: Mutex::default(),
        };
        let comparison = open(true);
        let mut data = [7; 10_000];
        comparison.write_at(&data, 0).expect("compared");
        data[5000] = 8;
        comparison.write_at(&data[..8192], 0).expect("compared");
        comparison.write_at(&[7; 5000], 8192).expect("compared");
        let differences = comparison.differences();
        assert_eq!(differences.ranges(), Vec::from([4096..13_192]));
        assert_eq!(differences.bytes, 4096 + 5000);
        // Zeros that may stand for blocks that were not used.
        for (compares_zeros, different) in [(true, 8192), (false, 0)] {
            let comparison = open(compares_zeros);
            comparison.clear(0..4096).expect("compared");
            comparison.write_at(&[0; 4096], 4096).expect("compared");
            assert_eq!(comparison.differences().bytes, different);
        }
    }

    #[test]
    fn ranges_are_joined_in_any_order_and_cut_when_there_are_many() {
        let mut found = Differences::default();
        for start in [3, 1, 2, 6, 5, 0] {
            found.note(start * 10..start * 10 + 10);
        }
        assert_eq!(found.ranges(), [0..40, 50..70]);
        for number in 0..DIFFERENCES_LISTED as u64 {
            found.note(1000 + number * 20..1010 + number * 20);
        }
        assert!(found.is_cut);
        assert_eq!(found.ranges().len(), DIFFERENCES_LISTED);
        assert_eq!(found.bytes, 60 + 10 * DIFFERENCES_LISTED as u64);
        found.note(40..50);
        assert_eq!(found.ranges()[0], 0..70);
    }
}

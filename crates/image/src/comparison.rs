//! Comparison of an image with a device, without writing.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use client::{ImageFacts, ImageTarget};
use sys::lock::Mutex;

use crate::error::ImageError;

/// Length of the blocks that are compared.
const BLOCK_BYTES: usize = 4096;
/// Number of bytes of a hole that are compared at once.
const CLEARED_BYTES: usize = 1 << 20;
/// Maximum number of ranges that are listed.
pub const DIFFERENCES_LISTED: usize = 1000;

/// Target that compares what it gets with a device or a file. If the image leaves out blocks that
/// were not used, blocks of zeros are not compared: nobody knows what the disk had there.
pub struct Comparison {
    file: File,
    compares_zeros: bool,
    found: Mutex<Differences>,
}

#[derive(Default)]
struct Differences {
    bytes: u64,
    ranges: Vec<Range<u64>>,
}

impl Comparison {
    /// Compares the image with the facts `of` with a device or a file.
    pub fn with(path: &Path, of: &ImageFacts) -> Result<Self, ImageError> {
        let file = File::open(path).map_err(|error| ImageError::file("read", path, error))?;
        let compares_zeros = !of.leaves_out_unused;
        Ok(Self { file, compares_zeros, found: Mutex::default() })
    }

    /// Fills `buffer` from `offset` on, up to the end. Returns the number of bytes.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64)? {
                0 => break,
                bytes => filled += bytes,
            }
        }
        Ok(filled)
    }

    /// Returns the number of bytes in blocks that differ, and the ranges of these blocks in order,
    /// at most [`DIFFERENCES_LISTED`].
    pub fn differences(self) -> (u64, Vec<Range<u64>>) {
        let Differences { bytes, mut ranges } = self.found.into_inner();
        ranges.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => joined.push(range),
            }
        }
        (bytes, joined)
    }

    fn note(&self, range: Range<u64>) {
        let mut found = self.found.lock();
        found.bytes += range.end - range.start;
        if found.ranges.len() < DIFFERENCES_LISTED {
            found.ranges.push(range);
        }
    }
}

impl ImageTarget for Comparison {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut there = vec![0; data.len()];
        let filled = self.read(&mut there, offset)?;
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
            file: File::open(&path).expect("opened"),
            compares_zeros,
            found: Mutex::default(),
        };
        let comparison = open(true);
        let mut data = [7; 10_000];
        comparison.write_at(&data, 0).expect("compared");
        data[5000] = 8;
        comparison.write_at(&data[..8192], 0).expect("compared");
        comparison.write_at(&[7; 5000], 8192).expect("compared");
        let (bytes, ranges) = comparison.differences();
        assert_eq!(ranges, Vec::from([4096..13_192]));
        assert_eq!(bytes, 4096 + 5000);
        // Zeros that may stand for blocks that were not used.
        for (compares_zeros, different) in [(true, 8192), (false, 0)] {
            let comparison = open(compares_zeros);
            comparison.clear(0..4096).expect("compared");
            comparison.write_at(&[0; 4096], 4096).expect("compared");
            assert_eq!(comparison.differences().0, different);
        }
    }
}

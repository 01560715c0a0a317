//! The sample of a tree, drawn while the tree is walked. Memory is bounded, whatever the tree
//! holds.
//!
//! Four draws, for three questions:
//!
//! 1. *What does reading cost?* Directories, with a chance that grows with their files. All small
//!    files of such a directory are read in their order, as a backup does: files that lie side by
//!    side on the disk are read together.
//! 2. *How well does the data compress?* Stretches of small files side by side in a directory,
//!    which a backup compresses together, and large files. Their chance is in proportion to their
//!    sizes, so each byte of the tree has the same chance; holes count as bytes.
//! 3. *How much is there twice?* Sizes, by a digest of the size: all files of a drawn size. Two
//!    files of equal content have equal sizes, so both are in the draw, or none.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::{Path, PathBuf};

use model::QUANTUM_BYTES_MAX;

use super::SMALL_BYTES_MAX;

/// Number of directories that are drawn.
const DIRECTORIES: usize = 400;
/// Number of stretches of small files.
const STRETCHES: usize = 24;
/// Number of files that are drawn by their size.
const FILES: usize = 600;
/// Maximum number of files of drawn sizes.
const SIZED_FILES_MAX: usize = 20_000;
/// Maximum number of files of a directory that are read.
const FILES_OF_DIRECTORY_MAX: usize = 300;

/// A directory of the sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DrawnDirectory {
    pub(crate) path: PathBuf,
    /// Names and sizes of files in it, in their order.
    pub(crate) files: Vec<(Vec<u8>, u64)>,
}

/// A file of the sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DrawnFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// An item of a draw with its lot. The items with the greatest lots are kept.
struct Lot<T> {
    lot: f64,
    item: T,
}

impl<T> PartialEq for Lot<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Lot<T> {}

impl<T> PartialOrd for Lot<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Lot<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.lot.total_cmp(&other.lot)
    }
}

/// A draw of at most `most` items without replacement, with chances in proportion to weights:
/// Efraimidis and Spirakis, "Weighted random sampling with a reservoir" (2006), with logarithms of
/// their keys.
struct Reservoir<T> {
    most: usize,
    kept: BinaryHeap<Reverse<Lot<T>>>,
}

impl<T> Reservoir<T> {
    fn new(most: usize) -> Self {
        Self { most, kept: BinaryHeap::new() }
    }

    /// Offers an item, which is only made if it is kept.
    fn offer(&mut self, weight: u64, make: impl FnOnce() -> T) {
        if weight == 0 {
            return;
        }
        let lot = fastrand::f64().max(f64::MIN_POSITIVE).ln() / crate::to_f64(weight);
        if self.kept.len() == self.most {
            if self.kept.peek().is_none_or(|Reverse(least)| lot <= least.lot) {
                return;
            }
            self.kept.pop();
        }
        self.kept.push(Reverse(Lot { lot, item: make() }));
    }

    fn items(&self) -> impl Iterator<Item = &T> {
        self.kept.iter().map(|Reverse(lot)| &lot.item)
    }
}

/// The sample of a tree.
pub(crate) struct Draw {
    directories: Reservoir<DrawnDirectory>,
    /// Directories with small files of the size of a quantum, side by side.
    stretches: Reservoir<DrawnDirectory>,
    files: Reservoir<DrawnFile>,
    /// Files by the digest of their size, for the sizes whose digest is at most `digest_max`.
    sized: BTreeMap<u64, Vec<DrawnFile>>,
    sized_files: usize,
    digest_max: u64,
}

impl Default for Draw {
    fn default() -> Self {
        Self {
            directories: Reservoir::new(DIRECTORIES),
            stretches: Reservoir::new(STRETCHES),
            files: Reservoir::new(FILES),
            sized: BTreeMap::new(),
            sized_files: 0,
            digest_max: u64::MAX,
        }
    }
}

impl Draw {
    /// Offers a directory with the names and sizes of its files.
    pub(crate) fn offer(&mut self, directory: &Path, files: &[(&[u8], u64)]) {
        self.directories.offer(files.len() as u64, || {
            let read = &files[..files.len().min(FILES_OF_DIRECTORY_MAX)];
            let files = read.iter().map(|(name, bytes)| (name.to_vec(), *bytes)).collect();
            DrawnDirectory { path: directory.to_owned(), files }
        });
        let small = files.iter().filter(|file| file.1 <= SMALL_BYTES_MAX);
        let bytes = small.map(|file| file.1).sum();
        self.stretches
            .offer(bytes, || stretch(directory, files, fastrand::u64(0..bytes)));
        for &(name, bytes) in files {
            let file = || DrawnFile { path: super::join(directory, name), bytes };
            self.files.offer(bytes, file);
            let digest = scattered(bytes);
            if bytes > 0 && digest <= self.digest_max {
                self.sized.entry(digest).or_default().push(file());
                self.sized_files += 1;
                self.keep_bounded();
            }
        }
    }

    /// Drops the sizes with the greatest digests while there are too many files. The last size
    /// stays.
    fn keep_bounded(&mut self) {
        while self.sized_files > SIZED_FILES_MAX && self.sized.len() > 1 {
            let (digest, dropped) = self.sized.pop_last().expect("there are sizes");
            self.digest_max = digest - 1;
            self.sized_files -= dropped.len();
        }
    }

    pub(crate) fn directories(&self) -> Vec<&DrawnDirectory> {
        self.directories.items().collect()
    }

    pub(crate) fn stretches(&self) -> Vec<&DrawnDirectory> {
        self.stretches.items().collect()
    }

    /// Returns the files that were drawn by size, in no order.
    pub(crate) fn files(&self) -> Vec<&DrawnFile> {
        self.files.items().collect()
    }

    /// Returns the files of each drawn size.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = &[DrawnFile]> {
        self.sized.values().map(Vec::as_slice)
    }
}

/// Returns the small files of a directory from the one that holds the byte `from` of all of them,
/// until a quantum is full. If the directory ends before, its first files follow.
fn stretch(directory: &Path, files: &[(&[u8], u64)], from: u64) -> DrawnDirectory {
    let small: Vec<_> = files.iter().filter(|file| file.1 <= SMALL_BYTES_MAX).collect();
    let mut before = 0;
    let is_before = |file: &&&(&[u8], u64)| {
        before += file.1;
        before <= from
    };
    let start = small.iter().take_while(is_before).count();
    let mut bytes = 0;
    let fits = |file: &&&(&[u8], u64)| {
        bytes += file.1;
        bytes <= QUANTUM_BYTES_MAX as u64
    };
    let around = small[start..].iter().chain(&small[..start]);
    let files = around.take_while(fits).map(|(name, bytes)| (name.to_vec(), *bytes)).collect();
    DrawnDirectory { path: directory.to_owned(), files }
}

/// Scatters numbers evenly, each to another one: the finaliser of splitmix64.
fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_in_proportion_to_weights() {
        let mut heavy = 0;
        for _ in 0..2000 {
            let mut reservoir = Reservoir::new(1);
            (0..10).for_each(|n| reservoir.offer(if n == 7 { 9 } else { 1 }, || n));
            heavy += usize::from(reservoir.items().next() == Some(&7));
        }
        // Half of all, with a deviation of 22.
        assert!((880..1120).contains(&heavy), "{heavy}");
    }

    #[test]
    fn a_stretch_begins_anywhere_and_fills_a_quantum() {
        let files: Vec<(&[u8], u64)> =
            vec![(b"a", 10), (b"large", 9 << 20), (b"b", 5), (b"c", 1 << 20), (b"d", 1 << 20)];
        let names = |from| {
            let drawn = stretch(Path::new("/tree"), &files, from);
            drawn
                .files
                .iter()
                .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
                .collect()
        };
        let names: [Vec<String>; 3] = [0, 10, 20].map(names);
        assert_eq!(names, [vec!["a", "b", "c"], vec!["b", "c"], vec!["c", "d"]]);
    }

    #[test]
    fn the_sample_is_bounded_and_holds_all_files_of_its_sizes() {
        let mut draw = Draw::default();
        let names: Vec<Vec<u8>> = (0..50).map(|n: u32| n.to_string().into_bytes()).collect();
        for directory in 0..2000_u64 {
            let size = |n: usize| (directory + n as u64) % 997;
            let files: Vec<_> =
                names.iter().enumerate().map(|(n, name)| (name.as_slice(), size(n))).collect();
            draw.offer(Path::new("/tree"), &files);
        }
        assert_eq!(draw.directories().len(), DIRECTORIES);
        assert_eq!(draw.files().len(), FILES);
        assert!(draw.files().iter().all(|file| file.bytes > 0));
        let sized: Vec<usize> = draw.sizes().map(<[DrawnFile]>::len).collect();
        assert!(sized.iter().sum::<usize>() <= SIZED_FILES_MAX && sized.len() > 100);
        // Each size has a hundred files or a few more; none has lost some.
        assert!(sized.iter().all(|files| (95..=110).contains(files)), "{sized:?}");
    }
}

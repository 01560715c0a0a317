//! The sets: as many files of one size, or of a range of sizes, as are needed for the requested
//! number of bytes.

use std::io::Write as _;
use std::path::Path;

use super::corpus::Stream;
use crate::random::Random;
use crate::trouble::{Context as _, Trouble};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const FOLDER_FILES: usize = 256;
const BUFFER_BYTES: usize = 1 << 20;

/// A kind of set: files of sizes from `least` to `most` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    least: u64,
    most: u64,
}

pub(super) const KINDS: [Kind; 11] = [
    Kind { name: "small", least: KIB, most: 16 * KIB },
    Kind { name: "500K", least: 500 * KIB, most: 500 * KIB },
    Kind { name: "1M", least: MIB, most: MIB },
    Kind { name: "2M", least: 2 * MIB, most: 2 * MIB },
    Kind { name: "4M", least: 4 * MIB, most: 4 * MIB },
    Kind { name: "8M", least: 8 * MIB, most: 8 * MIB },
    Kind { name: "16M", least: 16 * MIB, most: 16 * MIB },
    Kind { name: "32M", least: 32 * MIB, most: 32 * MIB },
    Kind { name: "64M", least: 64 * MIB, most: 64 * MIB },
    Kind { name: "128M", least: 128 * MIB, most: 128 * MIB },
    Kind { name: "256M", least: 256 * MIB, most: 256 * MIB },
];

impl Kind {
    pub(super) fn named(name: &str) -> Option<Self> {
        KINDS.iter().find(|kind| kind.name == name).copied()
    }

    /// Returns the sizes of the files of a set of `set_bytes` bytes. The last file has the
    /// remaining bytes.
    fn sizes(self, set_bytes: u64) -> impl Iterator<Item = u64> {
        let mut random = Random::new(self.most);
        let mut left = set_bytes;
        std::iter::from_fn(move || {
            let bytes = (self.least + random.below(self.most - self.least + 1)).min(left);
            left -= bytes;
            (bytes > 0).then_some(bytes)
        })
    }

    /// Creates `folder` and writes the set to it. Returns the number of files.
    pub(super) fn make(
        self,
        folder: &Path,
        set_bytes: u64,
        stream: &mut Stream<'_>,
    ) -> Result<u64, Trouble> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut files = 0;
        for (index, bytes) in self.sizes(set_bytes).enumerate() {
            let parent = folder.join(format!("folder-{}", index / FOLDER_FILES));
            let path = parent.join(format!("file-{index}"));
            let what = || format!("write {}", path.display());
            std::fs::create_dir_all(&parent).while_doing(what)?;
            let mut file = std::fs::File::create(&path).while_doing(what)?;
            let mut left = bytes;
            while left > 0 {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(BUFFER_BYTES);
                stream.fill(&mut buffer[..length])?;
                file.write_all(&buffer[..length]).while_doing(what)?;
                left -= u64::try_from(length).unwrap_or(left);
            }
            files += 1;
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, set_bytes: u64, expected: &[u64]) {
        let sizes: Vec<u64> = Kind::named(name).unwrap().sizes(set_bytes).collect();
        assert_eq!(sizes, expected);
    }

    #[test]
    fn the_last_file_is_what_is_left() {
        check("1M", 5 * MIB / 2, &[MIB, MIB, MIB / 2]);
        check("256M", 1000, &[1000]);
        check("1M", 0, &[]);
    }

    #[test]
    fn small_files_have_many_sizes_and_add_up() {
        let sizes: Vec<u64> = Kind::named("small").unwrap().sizes(MIB).collect();
        assert_eq!(sizes.iter().sum::<u64>(), MIB);
        let (_, whole) = sizes.split_last().unwrap();
        assert!(whole.iter().all(|bytes| (KIB..=16 * KIB).contains(bytes)));
        assert!(whole.iter().any(|bytes| *bytes < 4 * KIB));
        assert!(whole.iter().any(|bytes| *bytes > 12 * KIB));
    }
}

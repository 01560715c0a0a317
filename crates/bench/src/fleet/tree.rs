//! The small tree of a node: text files or empty files, in folders of [`FOLDER_FILES`], the same
//! in every run.
//!
//! No two text files of a fleet are equal, so that each node sends all of its data.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::random::Random;
use crate::trouble::{Context as _, Trouble};

/// Number of files whose content is replaced in a round. In addition, one file is deleted and one
/// file is added.
const REWRITTEN: usize = 4;

/// Minimum number of files. A smaller tree has too few files to change some and to keep others.
pub(super) const FILES_MIN: usize = 8;

const FOLDER_FILES: usize = 50;
const FILE_BYTES_MAX: u64 = 8 << 10;
/// Room that is reserved for a file without content.
const EMPTY_BYTES: u64 = 1 << 10;

/// Shape of the trees of all nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) files: usize,
    /// True if the files have no content.
    pub(super) is_empty: bool,
}

impl Shape {
    /// Returns the maximum number of bytes of a tree.
    pub(super) fn bytes_max(self) -> u64 {
        let of_file = if self.is_empty { EMPTY_BYTES } else { FILE_BYTES_MAX };
        u64::try_from(self.files).unwrap_or(u64::MAX).saturating_mul(of_file)
    }

    /// Makes the tree of `node` in the folder `top`.
    pub(super) fn plant(self, top: &Path, node: usize) -> Result<(), Trouble> {
        for file in 0..self.files {
            self.write(top, file, seed(node, file, 0))?;
        }
        Ok(())
    }

    /// Changes a few files. Each `round`, which counts from 1, changes other files.
    pub(super) fn change(self, top: &Path, node: usize, round: usize) -> Result<(), Trouble> {
        let files = self.files;
        for touched in 0..REWRITTEN {
            let file = (round * REWRITTEN + touched) % (files / 2);
            self.write(top, file, seed(node, file, round))?;
        }
        // Only files of the upper half are deleted, one in each round until none is left.
        let gone = path(top, files - 1 - (round - 1) % (files / 2));
        match std::fs::remove_file(&gone) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).while_doing(|| format!("remove {}", gone.display()))?;
            }
            _ => {}
        }
        let come = files + round;
        self.write(top, come, seed(node, come, round))
    }

    fn write(self, top: &Path, file: usize, seed: u64) -> Result<(), Trouble> {
        let path = path(top, file);
        let what = || format!("write {}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).while_doing(what)?;
        }
        let content = if self.is_empty { String::new() } else { text(seed) };
        std::fs::write(&path, content).while_doing(what)
    }
}

fn path(top: &Path, file: usize) -> PathBuf {
    top.join(format!("folder-{}", file / FOLDER_FILES)).join(format!("file-{file}"))
}

fn seed(node: usize, file: usize, round: usize) -> u64 {
    let wide = |number: usize| u64::try_from(number).unwrap_or(0);
    wide(node) << 40 | wide(file) << 16 | wide(round)
}

fn text(seed: u64) -> String {
    let mut random = Random::new(seed);
    let bytes = random.below(FILE_BYTES_MAX);
    let mut text = format!("file {seed}\n");
    while u64::try_from(text.len()).unwrap_or(u64::MAX) < bytes {
        // Lines with two random numbers are about as compressible as a log.
        let (number, word) = (random.below(100_000), random.below(64));
        let written = writeln!(text, "entry {number} of kind {word} has been seen");
        written.expect("writing to a string does not fail");
    }
    text.truncate(usize::try_from(bytes.max(16)).unwrap_or(usize::MAX));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn files(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let folders = std::fs::read_dir(top).unwrap();
        let names = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
        names
            .map(|file| file.unwrap().path())
            .map(|p| (p.clone(), std::fs::read(p).unwrap()))
            .collect()
    }

    #[test]
    fn each_round_rewrites_some_removes_one_and_adds_one() {
        let dir = tempfile::tempdir().unwrap();
        let shape = Shape { files: 120, is_empty: false };
        shape.plant(dir.path(), 3).unwrap();
        let mut before = files(dir.path());
        assert_eq!(before.len(), 120);
        for round in 1..4 {
            shape.change(dir.path(), 3, round).unwrap();
            let after = files(dir.path());
            let count =
                |keep: &dyn Fn(&PathBuf) -> bool| after.keys().filter(|path| keep(path)).count();
            assert_eq!(after.len(), 120);
            assert_eq!(count(&|path| !before.contains_key(path)), 1);
            let changed = |path: &PathBuf| before.get(path).is_some_and(|old| *old != after[path]);
            assert_eq!(count(&changed), REWRITTEN);
            before = after;
        }
    }

    #[test]
    fn empty_files_stay_empty() {
        let dir = tempfile::tempdir().unwrap();
        let shape = Shape { files: 120, is_empty: true };
        shape.plant(dir.path(), 3).unwrap();
        shape.change(dir.path(), 3, 1).unwrap();
        let files = files(dir.path());
        assert_eq!(files.len(), 120);
        assert!(files.values().all(Vec::is_empty));
    }

    #[test]
    fn no_two_nodes_have_the_same_file() {
        assert_ne!(text(seed(0, 1, 0)), text(seed(1, 1, 0)));
        assert_ne!(text(seed(0, 1, 0)), text(seed(0, 1, 1)));
    }
}

//! The options of a run, as the command line determines them.

use std::path::PathBuf;

use super::shape::Plan;

/// Seed of the tree, so that equal numbers of objects give equal trees.
pub(super) const SEED: u64 = 1;

/// The tree that is made and measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tree {
    /// Many directories.
    Many(Plan),
    /// One directory with this number of files.
    OneDirectory(u64),
}

/// The options of a run.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Options {
    pub(super) tree: Tree,
    /// Path of the image, which is made if it does not exist.
    pub(super) image: PathBuf,
    pub(super) keeps: bool,
    pub(super) work: PathBuf,
    pub(super) is_cold: bool,
}

impl Options {
    /// Returns the shape of the tree.
    pub(super) fn plan(&self) -> Plan {
        match self.tree {
            Tree::Many(plan) => plan,
            Tree::OneDirectory(files) => Plan { directories: 1, files, seed: SEED },
        }
    }
}

//! Errors of the index: damage, and failures of the file system.

use std::io;
use std::path::{Path, PathBuf};

use crate::manifest::RunNumber;

/// The part of an index's files that is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    Manifest,
    /// The run is missing or has another length, or its fence, filter or trailer is damaged.
    Run(RunNumber),
    Block {
        run: RunNumber,
        block: u64,
    },
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Manifest => write!(f, "its manifest"),
            Self::Run(RunNumber(run)) => write!(f, "run {run}"),
            Self::Block { run: RunNumber(run), block } => write!(f, "run {run}, block {block}"),
        }
    }
}

/// Failure of a call. A caller may treat a failed look-up as "not found": the cost is a chunk that
/// is stored twice, never lost data.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Damage of a file. The caller drops the index, discards its folder, opens the index again and
    /// inserts the chunks of all packs.
    #[error("the chunk index is damaged at {0}")]
    Damaged(Damage),
    /// Failure of the file system. Nothing is lost, and the caller may repeat the call.
    #[error("the chunk index cannot use the file or folder {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl IndexError {
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Io { path: path.to_owned(), source }
    }

    /// Returns the error for a failure at a run. A run that is missing or too short counts as
    /// damaged; other failures may be temporary.
    pub(crate) fn at_run(run: RunNumber, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => {
                Self::Damaged(Damage::Run(run))
            }
            _ => Self::at(path)(source),
        }
    }
}

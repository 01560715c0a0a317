//! Errors of pools, by what the caller can do about them.

use std::io;
use std::path::{Path, PathBuf};

use format::DamageError;
use model::PackNumber;

use crate::layout;

/// Reason why a quantum could not be appended or made durable.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Nothing was changed. Free some space, then go on.
    #[error(
        "the pool in {folder} is full; make room on its disk, give it a next pool, or expire \
         versions and reclaim their space"
    )]
    Full { folder: PathBuf },
    /// The pack takes no more quanta: everything appended to it since the last sync is lost. The
    /// next append begins a new pack.
    #[error("a pack of the pool cannot be written")]
    Failed { pack: PackNumber, source: io::Error },
    /// The file beside the packs is unchanged.
    #[error("a file of the pool in {folder} cannot be written")]
    File { folder: PathBuf, source: io::Error },
    /// Nothing was changed. Make the pool's storage available, then go on.
    #[error("the pool in {folder} is not available; mount its disk, or check its object store")]
    Away { folder: PathBuf },
    /// Nothing was changed. Try again.
    #[error("no number is available for a new pack")]
    Numbers { source: io::Error },
}

impl AppendError {
    /// Returns the error for a failed write of `pack` in `folder`. A full disk is not a failure of
    /// the pack.
    pub(crate) fn of_write(pack: PackNumber, folder: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { folder: folder.to_owned() }
            }
            _ => Self::Failed { pack, source },
        }
    }

    /// Returns the text with its causes for those who store data. It has no number of a pack.
    pub fn without_numbers(&self) -> String {
        let text = model::chain(self);
        match self {
            Self::Failed { pack, .. } => unnumbered(*pack, &text),
            _ => text,
        }
    }
}

/// Returns the text of an error at a pack without the number of the pack, which stores name in the
/// addresses of their errors.
pub(crate) fn unnumbered(pack: PackNumber, text: &str) -> String {
    let path = layout::path(Path::new(""), pack);
    text.replace(&*path.to_string_lossy(), "PACK")
}

/// Reason why a chunk could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The pack does not exist, or it has no such chunk.
    #[error("pack {pack} has no chunk {index}")]
    Missing { pack: PackNumber, index: u32 },
    /// The pack may be in a pool that is unavailable. Make that pool available.
    #[error("pack {pack} is in no available pool; is a disk not mounted?")]
    Away { pack: PackNumber },
    /// The pack's bytes differ from the bytes that were written. Read a copy.
    #[error("pack {pack} is damaged")]
    Damaged { pack: PackNumber, source: DamageError },
    /// The pack's volume is not available, for this reason.
    #[error("pack {pack} is on a volume that is not available: {reason}")]
    Volume { pack: PackNumber, reason: String },
    /// The disk did not answer. Another try may help.
    #[error("pack {pack} cannot be read")]
    Disk { pack: PackNumber, source: io::Error },
}

impl ReadError {
    /// Returns true if the data is damaged or gone, and not only out of reach.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Damaged { .. })
    }

    /// Returns the reason for those who store data. It has no number of a pack: packs are numbered
    /// over all domains, so the numbers would tell how much others store.
    pub fn without_numbers(&self) -> String {
        match self {
            Self::Missing { .. } => "the server has the data no longer".to_owned(),
            Self::Away { .. } => {
                "the data is in no available pool; is a disk of the server not mounted?".to_owned()
            }
            Self::Damaged { source, .. } => format!("the stored data is damaged: {}", source.why),
            Self::Volume { reason, .. } => {
                format!("the data is on a volume that is not available: {reason}")
            }
            Self::Disk { pack, source } => {
                let text = unnumbered(*pack, &source.to_string());
                format!("the stored data cannot be read: {text}")
            }
        }
    }

    /// Returns the error for a failure to open or read the file of `pack`.
    pub(crate) fn of_file(pack: PackNumber, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { pack, index: 0 },
            _ => Self::Disk { pack, source },
        }
    }

    /// Returns the error for a pack whose bytes contradict the format.
    pub(crate) fn damaged(pack: PackNumber, why: &'static str) -> Self {
        Self::Damaged { pack, source: DamageError { what: "pack", why } }
    }
}

/// Reason why a pack could not be put into a pool. The pool is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// No pool has an undamaged copy of some quantum of the pack.
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] AppendError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_for_those_who_store_data_has_no_number() {
        let (pack, index) = (PackNumber(7_777), 8_888);
        let timeout = || {
            let path = layout::path(Path::new("site"), pack);
            io::Error::other(format!("PUT {} failed", path.display()))
        };
        let unwritten = AppendError::Failed { pack, source: timeout() }.without_numbers();
        assert!(!unwritten.contains(char::is_numeric), "{unwritten}");
        for error in [
            ReadError::Missing { pack, index },
            ReadError::Away { pack },
            ReadError::damaged(pack, "its checksum differs"),
            ReadError::Volume { pack, reason: "no drive".to_owned() },
            ReadError::Disk { pack, source: timeout() },
        ] {
            let text = error.without_numbers();
            assert!(!text.contains(char::is_numeric), "{text}");
        }
    }
}

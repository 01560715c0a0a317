//! Errors of metadata.

use std::io;

/// Reason why metadata cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub(super) &'static str);

/// Error while metadata is read from a disk.
#[derive(Debug)]
pub(super) enum Failure {
    /// The disk gives nothing. Nothing else on it can be trusted to be complete.
    Read(io::Error),
    /// The other copies of the metadata may be sound.
    Damaged(Fault),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Damaged(fault)
    }
}

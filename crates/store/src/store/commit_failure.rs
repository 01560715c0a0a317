//! Failure of a commit.

use catalog::{CatalogError, CommitError};

use crate::error::StoreError;

/// Failure of a commit.
#[derive(Debug)]
pub enum CommitFailure {
    /// Packs were condemned that the caller does not know of. The caller resolves its changes anew.
    Stale,
    /// Another attempt would fail the same way.
    Failed(StoreError),
}

impl CommitFailure {
    /// Returns the error for a caller that makes no other attempt.
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Stale => StoreError::Busy(CommitError::Stale.to_string()),
            Self::Failed(error) => error,
        }
    }
}

impl From<StoreError> for CommitFailure {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl From<CatalogError> for CommitFailure {
    fn from(error: CatalogError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<CommitError> for CommitFailure {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Stale => Self::Stale,
            CommitError::Catalog(error) => Self::Failed(error.into()),
        }
    }
}

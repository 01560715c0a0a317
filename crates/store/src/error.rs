//! Errors of the store, grouped by the reaction of the caller.

use std::io::ErrorKind;

use catalog::CatalogError;
use pool::{AppendError, PutError};

/// An error of the store. The variants differ by the caller's reaction. The text says what
/// happened, to which object, and what to do next.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// The request is wrong: its author corrects the request.
    #[error("{0}")]
    Usage(String),
    /// The request does not fit the present state: something has to be changed first.
    #[error("{0}")]
    Conflict(String),
    /// The request would destroy so much that it is carried out only when it is confirmed.
    #[error("{0}")]
    Unconfirmed(String),
    /// The object that the request names does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Another request uses the object: the same request succeeds later.
    #[error("{0}")]
    Busy(String),
    /// Space or numbers have run out: the administrator provides more.
    #[error("{0}")]
    NoSpace(String),
    /// Stored data differs from the data that was written: it has to be repaired from a copy.
    #[error("{0}")]
    Damaged(String),
    /// A disk, a database, an object store or a drive does not answer: another try may help.
    #[error("{0}")]
    Away(String),
    /// The client has cancelled the request or has disconnected.
    #[error("{0}")]
    Cancelled(String),
}

impl StoreError {
    /// Returns true if the same request fails each time.
    pub fn is_for_good(&self) -> bool {
        matches!(
            self,
            Self::Usage(_) | Self::Conflict(_) | Self::Unconfirmed(_) | Self::NotFound(_)
        )
    }

    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// Returns the error for a message that no correct client sends.
    pub fn malformed(what: impl std::fmt::Display) -> Self {
        Self::Usage(format!("malformed message: {what}"))
    }

    pub fn conflict(text: impl Into<String>) -> Self {
        Self::Conflict(text.into())
    }

    pub fn not_found(text: impl Into<String>) -> Self {
        Self::NotFound(text.into())
    }

    pub fn busy(text: impl Into<String>) -> Self {
        Self::Busy(text.into())
    }

    pub fn no_space(text: impl Into<String>) -> Self {
        Self::NoSpace(text.into())
    }

    pub fn damaged(text: impl Into<String>) -> Self {
        Self::Damaged(text.into())
    }

    pub fn away(text: impl Into<String>) -> Self {
        Self::Away(text.into())
    }

    pub fn cancelled(text: impl Into<String>) -> Self {
        Self::Cancelled(text.into())
    }
}

/// Converts each error of the catalogue to an error of the store.
impl From<CatalogError> for StoreError {
    fn from(error: CatalogError) -> Self {
        let text = model::chain(&error);
        match error {
            CatalogError::NotFound { .. } => Self::NotFound(text),
            CatalogError::Exists { .. } | CatalogError::Limit { .. } => Self::Conflict(text),
            CatalogError::NoSpace => Self::NoSpace(text),
            CatalogError::Damaged(_) => Self::Damaged(text),
            CatalogError::Away(_)
            | CatalogError::Fenced
            | CatalogError::Unusable(_)
            | CatalogError::Database(_) => Self::Away(text),
        }
    }
}

impl From<AppendError> for StoreError {
    fn from(error: AppendError) -> Self {
        let text = error.without_numbers();
        match error {
            // Another attempt fails as well until the administrator acts.
            AppendError::Full { .. } | AppendError::Away { .. } => Self::NoSpace(text),
            AppendError::Failed { source, .. } | AppendError::File { source, .. }
                if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound) =>
            {
                Self::Conflict(format!("the server's pool accepts no data: {text}"))
            }
            AppendError::Failed { .. } | AppendError::File { .. } | AppendError::Numbers { .. } => {
                Self::Away(text)
            }
        }
    }
}

impl From<PutError> for StoreError {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Read(error) => Self::Damaged(model::chain(&error)),
            PutError::Write(error) => error.into(),
        }
    }
}

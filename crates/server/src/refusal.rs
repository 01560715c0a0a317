//! What a session is told when something does not go: eight kinds, as gRPC codes.
//!
//! | kind | code | the client |
//! |---|---|---|
//! | retry | `UNAVAILABLE` | connects again and goes on |
//! | busy | `ABORTED` | waits and tries again |
//! | refused | `PERMISSION_DENIED`, `UNAUTHENTICATED` | gives up |
//! | not found | `NOT_FOUND` | gives up |
//! | no space | `RESOURCE_EXHAUSTED` | gives up, the administrator acts |
//! | damaged | `DATA_LOSS` | reports it |
//! | usage | `INVALID_ARGUMENT`, `ALREADY_EXISTS`, `FAILED_PRECONDITION` | gives up |
//! | bug | `INTERNAL` | reports it |

use catalog::CatalogError;
use std::io::ErrorKind;

use pool::{AppendError, PutError};
use tonic::Status;

pub(crate) fn catalog(error: &CatalogError) -> Status {
    let text = model::chain(error);
    match error {
        CatalogError::NotFound { .. } => Status::not_found(text),
        CatalogError::Exists { .. } => Status::already_exists(text),
        CatalogError::Token(_) => Status::permission_denied(text),
        CatalogError::NoSpace => Status::resource_exhausted(text),
        CatalogError::Damaged(_) => Status::data_loss(text),
        CatalogError::Away(_) | CatalogError::Fenced | CatalogError::Moving(_) => {
            Status::unavailable(text)
        }
        CatalogError::Stale => Status::aborted(text),
        CatalogError::Url(_) | CatalogError::Database(_) => Status::internal(text),
    }
}

pub(crate) fn append(error: &AppendError) -> Status {
    let text = model::chain(error);
    match error {
        // The administrator acts: nothing is wrong with the connection.
        AppendError::Full { .. } | AppendError::Away { .. } => Status::resource_exhausted(text),
        AppendError::Failed { source, .. } | AppendError::File { source, .. }
            if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound) =>
        {
            Status::failed_precondition(format!("the server's pool takes nothing: {text}"))
        }
        AppendError::Failed { .. } | AppendError::File { .. } | AppendError::Numbers { .. } => {
            Status::unavailable(text)
        }
    }
}

pub(crate) fn put(error: &PutError) -> Status {
    match error {
        PutError::Read(error) => Status::data_loss(model::chain(error)),
        PutError::Write(error) => append(error),
    }
}

/// A message that no correct client sends.
pub(crate) fn malformed(what: &str) -> Status {
    Status::invalid_argument(format!("malformed message: {what}"))
}

/// A thread of the server panicked; its message is in the log.
pub(crate) fn panicked() -> Status {
    Status::internal("the server failed at this request; see its log")
}

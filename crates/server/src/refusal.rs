//! Errors as a client gets them: eight kinds, as gRPC codes.
//!
//! | kind | code | the client |
//! |---|---|---|
//! | retry | `UNAVAILABLE` | connects again and continues |
//! | busy | `ABORTED` | waits and tries again |
//! | refused | `PERMISSION_DENIED`, `UNAUTHENTICATED` | fails |
//! | not found | `NOT_FOUND` | fails |
//! | no space | `RESOURCE_EXHAUSTED` | fails, and the administrator acts |
//! | damaged | `DATA_LOSS` | reports the damage |
//! | usage | `INVALID_ARGUMENT`, `ALREADY_EXISTS`, `FAILED_PRECONDITION` | fails |
//! | bug | `INTERNAL` | reports the bug |

use tonic::Status;

use store::StoreError;

/// Maps an error of the store to a status. No other function does.
pub(crate) fn status(error: StoreError) -> Status {
    match error {
        StoreError::Usage(text) => Status::invalid_argument(text),
        StoreError::Conflict(text) => Status::failed_precondition(text),
        StoreError::Unconfirmed(text) => Status::failed_precondition(format!(
            "{text}; if you want this, repeat the command with --confirm"
        )),
        StoreError::NotFound(text) => Status::not_found(text),
        StoreError::Busy(text) => Status::aborted(text),
        StoreError::NoSpace(text) => Status::resource_exhausted(text),
        StoreError::Damaged(text) => Status::data_loss(text),
        StoreError::Away(text) => Status::unavailable(text),
        StoreError::Cancelled(text) => Status::cancelled(text),
    }
}

/// The status for a panic of a thread, whose message is in the log.
pub(crate) fn panicked() -> Status {
    Status::internal("the server failed at this request; see its log")
}

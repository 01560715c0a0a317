//! Why a command as a whole did not go: one of eight kinds, with what to do about it.

use std::io;

use tonic::{Code, Status};

/// How a failure begins of which the server itself tells.
const SERVER_SAYS: &str = "the server cannot serve";

/// What the user or a script can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The server cannot be reached, or the connection was lost: try again.
    Retry,
    /// Something else is at it: wait.
    Busy,
    /// Not allowed.
    Refused,
    NotFound,
    NoSpace,
    Damaged,
    /// What was asked for makes no sense.
    Usage,
    /// Holdfast is wrong.
    Bug,
    /// The user stopped it.
    Interrupted,
}

/// An error that ends a command.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ClientError {
    pub kind: ErrorKind,
    /// What happened, to which object.
    pub message: String,
}

impl ClientError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn interrupted() -> Self {
        Self::new(ErrorKind::Interrupted, "interrupted; what was committed stays")
    }

    /// The error of a file of our own.
    pub(crate) fn file(what: &str, path: &std::path::Path, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::StorageFull => ErrorKind::NoSpace,
            io::ErrorKind::PermissionDenied => ErrorKind::Refused,
            _ => ErrorKind::Usage,
        };
        Self::new(kind, format!("cannot {what} {}: {error}", path.display()))
    }

    /// What to do next, where that is not plain from the message.
    pub fn hint(&self) -> Option<&'static str> {
        match self.kind {
            ErrorKind::Retry if self.message.starts_with(SERVER_SAYS) => {
                Some("try again later; the server's log has more")
            }
            ErrorKind::Retry => Some("is the server running, and is its address right?"),
            ErrorKind::Busy => Some("wait until the other one has ended"),
            ErrorKind::NoSpace => Some("free space, then run the same command again"),
            ErrorKind::Damaged => Some("run 'holdfast verify --data' to see what is affected"),
            ErrorKind::Bug => Some("please report this with the server's log"),
            ErrorKind::Refused
            | ErrorKind::NotFound
            | ErrorKind::Usage
            | ErrorKind::Interrupted => None,
        }
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        let kind = match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => {
                ErrorKind::Retry
            }
            Code::Aborted => ErrorKind::Busy,
            Code::PermissionDenied | Code::Unauthenticated => ErrorKind::Refused,
            Code::NotFound => ErrorKind::NotFound,
            Code::ResourceExhausted => ErrorKind::NoSpace,
            Code::DataLoss => ErrorKind::Damaged,
            Code::InvalidArgument | Code::AlreadyExists | Code::FailedPrecondition => {
                ErrorKind::Usage
            }
            _ => ErrorKind::Bug,
        };
        let is_of_server = std::error::Error::source(&status).is_none();
        let mut message = match kind {
            ErrorKind::Retry if status.code() == Code::Unavailable && is_of_server => {
                format!("{SERVER_SAYS}: {}", status.message())
            }
            ErrorKind::Retry => {
                format!("the connection to the server failed: {}", status.message())
            }
            _ => status.message().to_owned(),
        };
        if let Some(source) = std::error::Error::source(&status) {
            message = format!("{message}: {source}");
        }
        Self { kind, message }
    }
}

//! Errors that end a command, in kinds that ask the user or a script for different reactions.

use std::error::Error;
use std::io;

use tonic::{Code, Status};

use crate::link::version::unknown;

/// Maximum number of bytes in a text of the server that becomes part of a message to people.
const TEXT_BYTES_MAX: usize = 4096;

/// Kind of an error. The kind decides the reaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The server cannot be reached, or the connection was lost: try again.
    Retry,
    /// Another session or program uses the object: wait.
    Busy,
    /// The node or the user has no right to the operation.
    Refused,
    NotFound,
    NoSpace,
    Damaged,
    /// The command or the configuration is not valid.
    Usage,
    /// Holdfast has a fault.
    Bug,
    /// The user stopped the command.
    Interrupted,
}

/// Side that an error of kind [`ErrorKind::Retry`] comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// The connection, or this machine.
    Connection,
    /// The server, which has answered that it cannot serve.
    Server,
    /// A stream that takes no more messages. The answers on the same stream end with the reason.
    ClosedStream,
}

/// Error that ends a command.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ClientError {
    pub kind: ErrorKind,
    /// Text for people: the event, and the object that it concerns.
    pub message: String,
    origin: Origin,
}

impl ClientError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), origin: Origin::Connection }
    }

    /// Makes the error for a stream that takes no more messages.
    pub(crate) fn lost() -> Self {
        let error = Self::new(ErrorKind::Retry, "the connection to the server was lost");
        Self { origin: Origin::ClosedStream, ..error }
    }

    /// Returns the error with its object before the message.
    pub(crate) fn about(self, object: &str) -> Self {
        Self { message: format!("{object}: {}", self.message), ..self }
    }

    /// Returns whether the error is a consequence of another one, which the server's answers have.
    pub(crate) fn is_consequence(&self) -> bool {
        self.origin == Origin::ClosedStream
    }

    pub(crate) fn interrupted() -> Self {
        Self::new(ErrorKind::Interrupted, "interrupted")
    }

    /// Makes the error for a file of the client. `verb` names the operation that failed.
    pub(crate) fn file(verb: &str, path: &std::path::Path, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::StorageFull => ErrorKind::NoSpace,
            io::ErrorKind::PermissionDenied => ErrorKind::Refused,
            _ => ErrorKind::Usage,
        };
        let remedy = remedy(error.kind(), sys::process::is_root());
        Self::new(kind, format!("cannot {verb} {}: {error}{remedy}", path.display()))
    }

    /// Returns the next step for the user, if the message does not have it.
    pub fn hint(&self) -> Option<&'static str> {
        match self.kind {
            ErrorKind::Retry => match self.origin {
                Origin::Server => Some("try again later; the server's log has more"),
                Origin::Connection | Origin::ClosedStream => {
                    Some("is the server running, and is its address right?")
                }
            },
            ErrorKind::Busy => {
                Some("wait until the other session or program has ended, then try again")
            }
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

/// Returns the end of a message about a file: who may use it, if that is the fault.
fn remedy(kind: io::ErrorKind, is_root: bool) -> &'static str {
    if kind == io::ErrorKind::PermissionDenied && !is_root {
        "; run the command as root, or as a user who has the right"
    } else {
        ""
    }
}

/// Returns the beginning of a text of the server. Many errors may have it, so it is short.
pub(crate) fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

/// Returns the message of the first cause of `error`. The messages above it name the layers of the
/// protocol, often twice.
fn first_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        // tonic sets a source only for its own failures. A status that the server sent has no
        // source.
        let source = Error::source(&status);
        let kind = match status.code() {
            // The connection has failed, whatever code tonic gives to the reason.
            _ if source.is_some() => ErrorKind::Retry,
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => {
                ErrorKind::Retry
            }
            Code::Aborted => ErrorKind::Busy,
            Code::PermissionDenied | Code::Unauthenticated => ErrorKind::Refused,
            Code::NotFound => ErrorKind::NotFound,
            Code::ResourceExhausted => ErrorKind::NoSpace,
            Code::DataLoss => ErrorKind::Damaged,
            Code::InvalidArgument
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::Unimplemented => ErrorKind::Usage,
            _ => ErrorKind::Bug,
        };
        let origin = match (status.code(), source) {
            (Code::Unavailable, None) => Origin::Server,
            _ => Origin::Connection,
        };
        let said = shortened(status.message().to_owned());
        let message = match (kind, origin, source) {
            (_, _, Some(source)) => {
                format!("the connection to the server broke: {}", first_cause(source))
            }
            (ErrorKind::Retry, Origin::Server, None) => format!("the server cannot serve: {said}"),
            (ErrorKind::Retry, _, None) => format!("the connection to the server failed: {said}"),
            _ if status.code() == Code::Unimplemented => unknown(&status),
            _ => said,
        };
        Self { kind, message, origin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: Status, kind: ErrorKind, message: &str, hint: Option<&str>) {
        let error = ClientError::from(status);
        assert_eq!((error.kind, error.message.as_str()), (kind, message));
        assert_eq!(error.hint().map(|hint| &hint[..12]), hint);
    }

    #[test]
    fn a_status_becomes_the_kind_that_says_what_to_do() {
        let (code, kind) = (Status::not_found("no archive 7"), ErrorKind::NotFound);
        check(code, kind, "no archive 7", None);
        let (code, kind) = (Status::aborted("another session"), ErrorKind::Busy);
        check(code, kind, "another session", Some("wait until t"));
        let (code, kind) = (Status::resource_exhausted("full"), ErrorKind::NoSpace);
        check(code, kind, "full", Some("free space, "));
        let (code, kind) = (Status::failed_precondition("no"), ErrorKind::Usage);
        check(code, kind, "no", None);
        let (code, kind) = (Status::internal("bug"), ErrorKind::Bug);
        check(code, kind, "bug", Some("please repor"));
    }

    #[test]
    fn a_server_that_answers_is_told_from_a_connection_that_is_lost() {
        let message = "the server cannot serve: its database is away";
        let status = Status::unavailable("its database is away");
        check(status, ErrorKind::Retry, message, Some("try again la"));
        let mut status = Status::unavailable("h2");
        status.set_source(std::sync::Arc::new(io::Error::other("reset")));
        let message = "the connection to the server broke: reset";
        check(status, ErrorKind::Retry, message, Some("is the serve"));
        // HTTP/2 ends a connection with many resets by ENHANCE_YOUR_CALM, which tonic calls
        // exhausted.
        let mut status = Status::resource_exhausted("h2");
        status.set_source(std::sync::Arc::new(io::Error::other("calm")));
        let message = "the connection to the server broke: calm";
        check(status, ErrorKind::Retry, message, Some("is the serve"));
        let status = Status::deadline_exceeded("slow");
        let message = "the connection to the server failed: slow";
        check(status, ErrorKind::Retry, message, Some("is the serve"));
        // Only the kind and the code decide, whatever the message begins with.
        let error = ClientError::new(ErrorKind::Retry, "the server cannot serve");
        assert_eq!(error.hint(), Some("is the server running, and is its address right?"));
    }

    #[derive(Debug, thiserror::Error)]
    #[error("error reading a body from connection")]
    struct BodyError(#[source] io::Error);

    #[test]
    fn a_connection_that_breaks_is_told_without_the_layers_of_the_protocol() {
        let mut status = Status::unknown("h2 protocol error: error reading a body from connection");
        status.set_source(std::sync::Arc::new(BodyError(io::Error::other("broken pipe"))));
        let message = "the connection to the server broke: broken pipe";
        check(status, ErrorKind::Retry, message, Some("is the serve"));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened("short".to_owned()), "short");
        let long = "\u{e9}".repeat(TEXT_BYTES_MAX);
        assert_eq!(shortened(format!("a{long}")).len(), TEXT_BYTES_MAX - 1);
    }

    #[test]
    fn a_file_that_fails_is_named() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = ClientError::file("write", std::path::Path::new("/x"), &full);
        assert_eq!(error.kind, ErrorKind::NoSpace);
        assert!(error.message.starts_with("cannot write /x: "), "{}", error.message);
        assert!(!error.message.contains("as root"), "{}", error.message);
    }

    #[test]
    fn a_user_without_the_right_learns_who_has_it() {
        let denied = io::ErrorKind::PermissionDenied;
        assert_eq!(
            remedy(denied, false),
            "; run the command as root, or as a user who has the right"
        );
        assert_eq!((remedy(denied, true), remedy(io::ErrorKind::NotFound, false)), ("", ""));
    }
}

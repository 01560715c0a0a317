//! The error that ends a command, and the exit codes.

use std::error::Error;

use client::{ClientError, ErrorKind};

/// Exit code of a command that has done everything.
pub(crate) const DONE: u8 = 0;

/// Exit code of a command that failed with some objects.
pub(crate) const FAILED: u8 = 4;

/// Exit code of a command that is done, with warnings.
pub(crate) const WARNED: u8 = 8;

/// Exit code of a command that was not done.
pub(crate) const NOT_DONE: u8 = 12;

/// An error that ends a command with [`NOT_DONE`].
#[derive(Debug)]
pub(crate) struct CommandError {
    /// One line: what happened, to which object.
    pub(crate) message: String,
    /// The next thing to do.
    pub(crate) hint: Option<String>,
    /// True if the server cannot be reached, or the connection was lost.
    pub(crate) is_loss: bool,
    /// Kind of the error, if it comes from the client or the server.
    pub(crate) kind: Option<ErrorKind>,
}

impl CommandError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, is_loss: false, kind: None }
    }

    /// Adds the next thing to do.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Says of an order that nobody knows what became of it, if the connection was lost after it
    /// was given. `look` says what shows it.
    pub(crate) fn of_order(self, look: &str) -> Self {
        if !self.is_loss {
            return self;
        }
        self.with_hint(format!("the server may have done it, or a part of it: {look}"))
    }

    /// Makes the error for a command line that makes no sense. `command` is the command whose help
    /// explains it, as in `holdfast backup`.
    pub(crate) fn usage(message: &str, command: &str) -> Self {
        Self::new(message).with_hint(format!("try '{command} --help'"))
    }

    /// Makes an error of `error` and its sources, each named once, on one line.
    pub(crate) fn chain(error: &dyn Error) -> Self {
        Self::new(model::on_one_line(&model::chain(error)))
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        let hint = error.hint().map(str::to_owned);
        let is_loss = error.kind == ErrorKind::Retry;
        Self { is_loss, kind: Some(error.kind), message: error.message, hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_a_chain_is_named_once() {
        let io = std::io::Error::other("disk on fire");
        let error = store::folder::OpenError::File { path: "/srv".into(), source: io };
        let message = CommandError::chain(&error).message;
        assert_eq!(message, "cannot use /srv: disk on fire");
    }

    /// Only the question whether the server is running was asked, as if nothing had happened there.
    #[test]
    fn a_lost_order_may_have_been_carried_out() {
        let lost = CommandError { is_loss: true, ..CommandError::new("broke") };
        let hint = lost.of_order("'holdfast undelete' lists deletions").hint;
        let expected = "the server may have done it, or a part of it: 'holdfast undelete' lists \
                        deletions";
        assert_eq!(hint.as_deref(), Some(expected));
        assert_eq!(CommandError::new("refused").of_order("look").hint, None);
    }

    #[test]
    fn a_usage_error_names_the_help_in_its_hint() {
        let error = CommandError::usage("name a path", "holdfast backup");
        assert_eq!(error.message, "name a path");
        assert_eq!(error.hint.as_deref(), Some("try 'holdfast backup --help'"));
    }
}

//! Why a command was not done: one line, and what to do about it.

use std::error::Error;

use client::ClientError;

/// The exit code of a command that was not done.
pub(crate) const NOT_DONE: u8 = 12;

/// Done, but not with every object.
pub(crate) const FAILED: u8 = 4;

/// Done, and there is something to know.
pub(crate) const WARNED: u8 = 8;

/// Ends a command with [`NOT_DONE`].
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl CommandError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// What was asked for makes no sense. `command` is what to ask for help, as in
    /// `holdfast backup`.
    pub(crate) fn usage(message: &str, command: &str) -> Self {
        Self::new(format!("{message}; try '{command} --help'"))
    }

    /// The error and its sources, each once, on one line.
    pub(crate) fn chain(error: &dyn Error) -> Self {
        let message = model::chain(error);
        let lines: Vec<_> = message.lines().map(str::trim).collect();
        Self::new(lines.join(" "))
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        let hint = error.hint().map(str::to_owned);
        Self { message: error.message, hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_told_once() {
        let io = std::io::Error::other("disk on fire");
        let error = server::RunError::Folder { folder: "/srv".into(), source: io };
        let told = CommandError::chain(&error).message;
        assert_eq!(told, "cannot use the folder /srv: disk on fire");
    }

    #[test]
    fn a_usage_error_is_one_line() {
        let error = CommandError::usage("name a path", "holdfast backup");
        assert_eq!(error.message, "name a path; try 'holdfast backup --help'");
        assert_eq!(error.hint, None);
    }
}

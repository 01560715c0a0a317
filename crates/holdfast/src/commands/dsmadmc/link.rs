//! The link to the server, and the way to run command lines over it.

use std::path::PathBuf;

use client::admin::Admin;

use crate::error::CommandError;

/// Output of a command line that was run, and its exit code.
pub(crate) struct LineOutcome {
    pub(crate) code: u8,
    pub(crate) text: String,
}

/// Reason why a command line was not carried out.
pub(crate) enum LineError {
    /// The command line is not valid.
    Usage(CommandError),
    /// The command has failed.
    Failure(CommandError),
}

/// Runs the words of a command line of `holdfast` over a connection, quietly or not.
pub(crate) type LineRunner = fn(&[String], bool, &mut Admin) -> Result<LineOutcome, LineError>;

/// A link to a server.
pub(super) struct Link {
    pub(super) admin: Admin,
    /// Folder of the server.
    pub(super) folder: PathBuf,
    pub(super) runner: LineRunner,
}

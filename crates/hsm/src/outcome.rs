//! The result for one file of a request: its new state, or the reason why it keeps its state.

use std::io;

use crate::record::FileState;

/// Final state of a file of a request or of the monitor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FinalState {
    pub(crate) state: FileState,
    /// Number of bytes that were freed, copied or recalled, or that a new stub has at the server.
    pub(crate) bytes: u64,
}

impl FinalState {
    /// A file in `state` for which nothing had to be moved.
    pub(crate) fn unmoved(state: FileState) -> Self {
        Self { state, bytes: 0 }
    }
}

/// Result for one file.
pub(crate) type Outcome = Result<FinalState, FileError>;

/// Reason why one file keeps its state. Each variant needs another reaction of the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// Leave the file out of the request, or change the rules.
    #[error(transparent)]
    Ineligible(#[from] Ineligibility),
    /// Repeat the request when no program has the file open.
    #[error("somebody has it open")]
    InUse,
    /// Repeat the request.
    #[error("{0}")]
    Changed(&'static str),
    /// Run a backup first.
    #[error("its current state is not backed up")]
    NotBackedUp,
    /// Make room, and recall the file.
    #[error(
        "it is a stub again, but its copy was released and will expire, and there is no room for \
         its content; recall it in time"
    )]
    Expiring,
    /// Name a path that is managed and belongs to the user.
    #[error(transparent)]
    Refused(#[from] PathRefusal),
    /// The server gives the reason.
    #[error("{0}")]
    Server(String),
    /// The file system failed: repair it.
    #[error("{0}")]
    System(#[source] io::Error),
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        // Files are opened without waiting for the end of a lease. A lease of a program, or the
        // delegation of an NFS client, belongs to somebody who uses the file.
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::InUse,
            _ => Self::System(error),
        }
    }
}

impl From<client::ClientError> for FileError {
    fn from(error: client::ClientError) -> Self {
        Self::Server(error.message)
    }
}

/// Reason why a file may not migrate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Ineligibility {
    #[error("it is excluded from space management: {0}")]
    Excluded(String),
    #[error("a socket is not migrated")]
    Socket,
    #[error("only regular files are migrated")]
    NotRegular,
    #[error("it lies in another file system")]
    OtherFilesystem,
    #[error(
        "it is smaller than {bytes_min} bytes (--min-size); name the file to migrate it anyway"
    )]
    TooSmall { bytes_min: u64 },
    #[error("it is empty")]
    Empty,
}

/// Reason why a path is refused: this worker does not manage it, or the requester may not use it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum PathRefusal {
    #[error("its file system {} is not managed", model::escaped(.0))]
    Filesystem(Vec<u8>),
    /// The text is the same for missing files and for files of other users, so that users do not
    /// learn which files others have.
    #[error("you have no file there")]
    NothingOwn,
    /// Nothing can come back.
    #[error("the server has no copy of a file that was migrated from this path")]
    NoCopy,
    /// The file is still there: make a link, or rename it.
    #[error(
        "it was not deleted: it is at {}; 'ln' gives it this name too, and 'mv' moves it back",
        model::escaped(.0)
    )]
    OtherName(Vec<u8>),
    /// Move the other file away.
    #[error("another file has this path; move it away first")]
    Taken,
    /// Ask root, or make the folder again.
    #[error("you may not make files in its folder, or it is gone; root can undelete it")]
    ForeignFolder,
}

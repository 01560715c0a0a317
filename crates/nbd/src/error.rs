//! Errors, by what the caller can do about them.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Reason why an operation on an export failed.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// Correct the address or the name of a context.
    #[error("'{address}' does not name an NBD export: {reason}")]
    Address { address: String, reason: &'static str },
    /// Start the server, or try again later.
    #[error("cannot connect to {address}")]
    Unreachable { address: String, source: io::Error },
    /// Correct the name of the export, or the configuration of the server.
    #[error("the NBD server refuses the export: {refusal}{}", Remark(message))]
    Refused {
        refusal: Refusal,
        /// The server's own words, or nothing. They may hold any characters.
        message: String,
    },
    /// Use another server. The connection is unusable.
    #[error("the NBD server breaks the protocol: {fault}")]
    Protocol { fault: &'static str },
    /// Connect again and repeat the operation. The connection is unusable.
    #[error("the connection to the NBD server is lost")]
    Lost { source: io::Error },
    /// Treat the place as failed, and go on with others: the connection is usable.
    #[error("the {command} at byte {offset} of the NBD export failed: {fault}{}", Remark(message))]
    Failed {
        command: Command,
        /// Place that the server names, or the start of the request, which covers at most
        /// [`REQUEST_BYTES_MAX`](crate::REQUEST_BYTES_MAX) bytes of a read or a write.
        offset: u64,
        fault: Fault,
        /// The server's own words, or nothing. They may hold any characters.
        message: String,
    },
    /// Install the Debian package.
    #[error("{program} is not installed (Debian package {package})")]
    Missing { program: &'static str, package: &'static str },
    /// Correct the path, the format or the name of the bitmap, or end the program that uses the
    /// image.
    #[error("{program} does not serve {}{}", file.display(), Remark(message))]
    Program {
        program: &'static str,
        file: PathBuf,
        /// Output of the program. It may hold any characters.
        message: String,
    },
}

impl NbdError {
    pub(crate) fn protocol(fault: &'static str) -> Self {
        Self::Protocol { fault }
    }

    pub(crate) fn lost(kind: impl Into<io::Error>) -> Self {
        Self::Lost { source: kind.into() }
    }

    /// Returns true if the connection cannot be used any more.
    pub(crate) fn ends_connection(&self) -> bool {
        match self {
            Self::Protocol { .. } | Self::Lost { .. } | Self::Refused { .. } => true,
            Self::Failed { fault, .. } => *fault == Fault::ShuttingDown,
            _ => false,
        }
    }
}

/// Words of a server after a colon, or nothing.
struct Remark<'a>(&'a str);

impl fmt::Display for Remark<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

/// Operation on an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    Read,
    Write,
    Flush,
    WriteZeroes,
    BlockStatus,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::WriteZeroes => "write of zeros",
            Self::BlockStatus => "query of block status",
        })
    }
}

/// Reason with which a server, or this client in its place, fails a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The export is read-only.
    NotPermitted,
    /// The device of the server failed.
    Io,
    OutOfMemory,
    /// The place is beyond the end, or not aligned to the minimum block.
    Invalid,
    NoSpace,
    TooLarge,
    Unsupported,
    ShuttingDown,
    /// A number that the protocol does not define.
    Other(u32),
}

impl Fault {
    /// Returns the fault of a number on the wire; `None` for success.
    pub(crate) fn from_wire(number: u32) -> Option<Self> {
        Some(match number {
            0 => return None,
            1 => Self::NotPermitted,
            5 => Self::Io,
            12 => Self::OutOfMemory,
            22 => Self::Invalid,
            28 => Self::NoSpace,
            75 => Self::TooLarge,
            95 => Self::Unsupported,
            108 => Self::ShuttingDown,
            other => Self::Other(other),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPermitted => "operation not permitted",
            Self::Io => "input/output error",
            Self::OutOfMemory => "out of memory",
            Self::Invalid => "invalid request",
            Self::NoSpace => "no space left",
            Self::TooLarge => "request too large",
            Self::Unsupported => "operation not supported",
            Self::ShuttingDown => "the server is shutting down",
            Self::Other(number) => return write!(f, "error number {number}"),
        })
    }
}

/// Reason with which a server refuses an option of the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    Unsupported,
    Policy,
    Invalid,
    TlsRequired,
    UnknownExport,
    ShuttingDown,
    /// A number that has no meaning for this client.
    Other(u32),
}

impl Refusal {
    const ERROR_BIT: u32 = 1 << 31;

    /// Returns the refusal of a reply type; `None` for a type that is no error.
    pub(crate) fn from_wire(kind: u32) -> Option<Self> {
        if kind & Self::ERROR_BIT == 0 {
            return None;
        }
        Some(match kind & !Self::ERROR_BIT {
            1 => Self::Unsupported,
            2 => Self::Policy,
            3 => Self::Invalid,
            5 => Self::TlsRequired,
            6 => Self::UnknownExport,
            7 => Self::ShuttingDown,
            other => Self::Other(other),
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsupported => "it does not support the request",
            Self::Policy => "its policy forbids it",
            Self::Invalid => "it takes the request for invalid",
            Self::TlsRequired => "it requires TLS, which this client does not have",
            Self::UnknownExport => "it has no export of this name",
            Self::ShuttingDown => "it is shutting down",
            Self::Other(number) => return write!(f, "error number {number}"),
        })
    }
}

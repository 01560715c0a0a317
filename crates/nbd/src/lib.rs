//! A client of network block devices (NBD), without the kernel's module: it reads and writes the
//! exports of any NBD server, and starts `qemu-nbd` for the image of a virtual machine.
//!
//! ```text
//! qemu        starts qemu-nbd for an image, on a private socket
//! export      an open export: reading, writing, zeros, flush, status of blocks
//!   transfer    one request and its reply
//!     assembly    the pieces of a read in their places (pure)
//!     status      the status of blocks, by context (pure)
//!   handshake   agreement with the server on the export, its sizes and its contexts
//!     message     the bytes of all messages (pure)
//!     connection  bytes that are sent and received before a deadline
//! uri         addresses of exports
//! ```
//!
//! Source: `doc/proto.md` and `doc/uri.md` of the project NetworkBlockDevice. The handshake is the
//! fixed newstyle.
//!
//! Invariants:
//! 1. A number from the server is compared with a limit before memory or time depends on it. The
//!    limits are constants with the ending `_MAX`.
//! 2. Each wait for the server ends at the deadline of the handshake or the request. A server that
//!    sends single bytes does not prolong it.
//! 3. A read gives all bytes or an error. A piece that the server leaves out or sends twice breaks
//!    the protocol.
//! 4. After a broken message the connection is not used again, because nobody knows where the
//!    next message begins. An error that the server reports leaves the connection usable.
//! 5. The client never asks for less than the minimum block of the server, nor beyond the end.
//!
//! Deliberately absent: TLS, the older handshakes, several requests at once on one connection
//! (callers open several connections), trim, and the experimental extensions.

mod assembly;
mod connection;
mod error;
mod export;
mod handshake;
mod message;
mod qemu;
mod status;
mod transfer;
mod uri;

pub use connection::{Patience, Stream};
pub use error::{Command, Fault, NbdError, Refusal};
pub use export::{CONTEXTS_MAX, Export, REQUEST_BYTES_MAX};
pub use qemu::{Image, QemuNbd, dirty_bitmap_context};
pub use status::{BlockStatus, State, Status};
pub use uri::{Endpoint, Uri};

/// Context that says which blocks are holes and which read as zeros.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";

//! The protocol between nodes and servers: gRPC services and messages, versions, the enrolment
//! token, the rows and documents inside messages, and the bytes of a measurement of the network. It
//! has no business logic. See `docs/format/wire.md`.

mod baseline;
mod codec;
mod grant;
pub mod network;
mod password;
mod rows;
mod token;
mod trust;
pub mod version;

pub use baseline::{
    BASELINE_BYTES_MAX, BASELINE_DOCUMENT_BYTES_MAX, decode_baseline, encode_baseline,
};
pub use codec::{FIELDS_MAX, MESSAGES_MAX, PACKED_BYTES_MAX};
pub use grant::{GRANT_BYTES, Grant, decode_grants, encode_grant};
pub use password::{PASSWORD_BYTES, PasswordError, password_secret};
pub use rows::{DigestRow, decode_digest_rows, encode_digest_row};
pub use token::{Token, TokenError, TokenKind};
pub use trust::{fingerprint, quantum_check, raw_check};

/// Generated messages and services; see `proto/holdfast.proto`.
pub mod proto {
    #![allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated code")]
    #![allow(
        unreachable_pub,
        elided_lifetimes_in_paths,
        let_underscore_drop,
        unused_qualifications,
        reason = "generated code"
    )]
    tonic::include_proto!("holdfast.v1");
}

/// Name in the certificate of every server. Clients recognise a server by its CA, not by its
/// address.
pub const SERVER_NAME: &str = "server.holdfast.internal";

/// Maximum number of bytes in one message, in each direction: enough for a page of 512 objects with
/// large attributes.
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// Maximum length of the report of a backup, in bytes.
pub const REPORT_BYTES_MAX: usize = 64 << 10;

/// Maximum number of items in one portion of a list.
pub const PORTION_ITEMS_MAX: u32 = 1000;

/// Maximum number of objects that one request deletes by their names.
pub const NAMED_OBJECTS_MAX: usize = 1000;

/// Maximum number of unacknowledged bytes on one HTTP/2 stream: enough for 10 Gbit/s at 10 ms.
pub const STREAM_WINDOW_BYTES: u32 = 8 << 20;

/// Maximum number of unacknowledged bytes on one HTTP/2 connection.
pub const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Maximum number of bytes in one HTTP/2 frame. It is larger than usual, because for each frame the
/// data after it is copied.
pub const FRAME_BYTES: u32 = 1 << 20;

/// Default port of a server.
pub const PORT: u16 = 1500;

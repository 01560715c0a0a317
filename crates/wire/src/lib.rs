//! What goes over the wire: the gRPC services and messages, the enrolment token, and the flat rows
//! inside bulk messages. No business logic.

mod grant;
mod rows;
mod token;
mod trust;

pub use grant::{GRANT_BYTES, Grant, decode_grants, encode_grant};
pub use rows::{DigestRow, decode_digest_rows, encode_digest_row};
pub use token::{Token, TokenError};
pub use trust::{fingerprint, quantum_check, raw_check};

/// Generated messages and services; see `proto/holdfast.proto`.
pub mod proto {
    #![allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated code")]
    #![allow(
        unreachable_pub,
        elided_lifetimes_in_paths,
        let_underscore_drop,
        unused_qualifications,
        reason = "same"
    )]
    tonic::include_proto!("holdfast.v1");
}

/// The name that every server's certificate carries, whatever its address: clients know a server by
/// its CA, not by where it runs.
pub const SERVER_NAME: &str = "server.holdfast.internal";

/// Bytes of one message at most, either way: a page of 512 objects with large attributes.
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// Bytes that HTTP/2 may have under way on one stream: enough for 10 Gbit/s at 10 ms.
pub const STREAM_WINDOW_BYTES: u32 = 8 << 20;

/// Bytes that HTTP/2 may have under way on one connection.
pub const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Bytes in one HTTP/2 frame at most: larger than the usual, because each costs a copy of its rest.
pub const FRAME_BYTES: u32 = 1 << 20;

/// Default port of a server.
pub const PORT: u16 = 1500;

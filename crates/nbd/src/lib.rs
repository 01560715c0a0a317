//! A client of network block devices (NBD), without the kernel's module.
//!
//! Source: `doc/proto.md` and `doc/uri.md` of the project NetworkBlockDevice.

mod error;
mod uri;

pub use error::{Command, Fault, NbdError, Refusal};
pub use uri::{Endpoint, Uri};

//! The bytes of Holdfast: directory pages, quanta and packs.
//!
//! Everything here is pure: bytes in, values out. Every decoder takes bytes from a disk or a peer and
//! answers with a value or with `Damaged`; it never panics and never allocates more than its named
//! limit. Each format has a version byte of its own, a byte table in `docs/format/`, and golden files
//! in `testdata/` written by the release that introduced it.

mod bytes;
mod damaged;
pub mod pack;
pub mod page;
pub mod quantum;

pub use bytes::{Reader, Writer, unzigzag, zigzag};
pub use damaged::Damaged;

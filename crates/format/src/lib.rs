//! The bytes of Holdfast: directory pages, quanta, packs, volumes, and lists of a catalogue's
//! blocks.
//!
//! Everything here is pure: bytes in, values out. Every decoder takes bytes from a disk or a peer
//! and answers with a value or with `Damaged`; it never panics and never allocates more than its
//! named limit. Each format has a version byte of its own, a byte table in `docs/format/`, and
//! golden files in `testdata/` written by the release that introduced it.

mod bytes;
pub mod catalog_copy;
mod damaged;
pub mod pack;
pub mod page;
pub mod quantum;
pub mod stub;
pub mod volume;

pub use bytes::{Reader, Writer, unzigzag, zigzag};
pub use damaged::Damaged;

/// The hash by which digests travel without their paths: xxh3-64. A collision costs a comparison of
/// the page, because the digest itself covers the path.
pub fn path_hash(directory: &model::DirPath) -> model::PathHash {
    model::PathHash(xxhash_rust::xxh3::xxh3_64(directory.as_bytes()).to_le_bytes())
}

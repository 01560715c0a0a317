//! Byte formats of Holdfast: directory pages, quanta, packs, volumes, stubs, and copies of the
//! catalogue.
//!
//! The crate is pure: it converts between bytes and values, and does no I/O. Every decoder takes
//! bytes from a disk or a peer and returns a value or the error `DamageError`. It never panics and
//! never allocates more than its named limit. Each format has a version byte of its own, a byte
//! table in `docs/format/`, and golden files in `testdata/` that the release wrote that introduced
//! the format.

mod budget;
mod bytes;
pub mod catalog_copy;
mod damage_error;
pub mod pack;
pub mod page;
pub mod quantum;
pub mod stub;
pub mod volume;

pub use budget::{Budget, OverBudget};
pub use bytes::{Reader, Writer, unzigzag, zigzag};
pub use damage_error::DamageError;

/// Returns the xxh3-64 hash of a path. Digests are sent with this hash in place of the path. If two
/// paths have the same hash, their pages are compared object by object, because the digest covers
/// the path.
pub fn path_hash(directory: &model::DirPath) -> model::PathHash {
    model::PathHash(xxhash_rust::xxh3::xxh3_64(directory.as_bytes()).to_le_bytes())
}

//! Packs on volumes: on tape, or in files that stand for tapes. The crate that manages volumes
//! implements [`Shelf`].

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::time::SystemTime;

use model::PackNumber;

use crate::error::ReadError;

/// The volumes that hold the packs of a pool.
pub trait Shelf: Send + Sync {
    /// Lists all packs, with their sizes in bytes.
    fn packs(&self) -> io::Result<BTreeMap<PackNumber, u64>>;

    /// Brings the whole pack to a disk and opens it. Waits until the pack's volume is mounted.
    fn open(&self, pack: PackNumber) -> Result<File, ReadError>;

    /// Gives up the pack, because nothing needs its copy on volumes any more.
    fn forget(&self, pack: PackNumber) -> io::Result<()>;

    /// Returns the time at which the pack arrived.
    fn arrival(&self, pack: PackNumber) -> Option<SystemTime>;
}

/// A shelf equals itself and no other.
impl PartialEq for dyn Shelf {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self, other)
    }
}

impl Eq for dyn Shelf {}

impl fmt::Debug for dyn Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shelf")
    }
}

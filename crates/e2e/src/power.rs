//! A disk whose power can be cut: it logs the writes and flushes of a file system. From the log,
//! tests make the states that a power cut may leave on the medium.
//!
//! ```text
//!   file system -> loop device -> file of FUSE -> image file
//!                                      |
//!                                      +-> log: writes and flushes, in their order
//! ```
//!
//! 1. Each write before the last flush before the cut is in every state.
//! 2. Each write between that flush and the cut is there, is missing, or is torn between two
//!    sectors, whatever became of the writes before and after it.
//! 3. Nothing that comes after the cut is in a state.
//!
//! Content that the file system had only in memory is lost in every state.

mod cut;
mod disk;
mod fuse;
mod log;
mod replay;

pub use cut::{Cut, Fragment, Loss, SECTOR_BYTES};
pub use disk::Disk;
pub use log::{Entry, Log, Position, Write};
pub use replay::Replay;

//! Images of disks: what is read for an image, and where an image is restored to.
//!
//! ```text
//!   qcow2 file, NBD export ------> export --------------------+
//!   device, mount point, file --> still (snapshot, freeze) --> used (free blocks are left out)
//!                                                                |
//!   client: cut, digest, send  <-------------------------- source: reads without the page cache
//!   client: fetch, check  -------> target: guards, sparse writing, discarding
//!                          \-----> comparison with a device
//!                           \----> opened: a disk by FUSE, mounted where nobody sees it -> files
//! ```
//!
//! 1. Nothing is written to the device that is read. A file system that nobody has mounted is asked
//!    through a loop device that cannot be written, so that no journal is replayed.
//! 2. The kernel says which blocks are free. If it does not, all blocks are read.
//! 3. A target is written only if nobody uses it, if it is large enough, and if the user has
//!    confirmed what it holds.
//!
//! Deliberately absent: the formats of file systems and of tables of partitions. The kernel and
//! `blkid` know them. The metadata of LVM are read here, in [`lvm`]: the kernel shows volumes only
//! by device mapper, which would change the state of the machine.

mod comparison;
mod content;
mod error;
mod export;
mod files;
pub mod lvm;
mod opened;
mod parts;
mod source;
mod still;
mod target;
pub mod thin;
mod used;

pub use comparison::{Comparison, Differences};
pub use content::DeviceContent;
pub use error::ImageError;
pub use files::{ExtractReport, Extraction, FoundFile, list};
pub use opened::{OpenError, OpenImage};
pub use parts::{NoPartName, PartName};
pub use source::{Source, SourceOptions};
pub use still::{StillnessChoice, UnknownChoice};
pub use target::Target;

//! A simulated tape library: a changer and drives that answer SCSI commands in memory, on a virtual
//! clock.
//!
//! [`Library`] is the library; each of its logical units is a [`Unit`], which takes commands
//! through `tape::transport::ScsiTransport`. Blocks are kept in memory; a repeated word at the end
//! of a block is kept once. A cartridge with a pattern has any number of blocks, which are computed
//! when they are read. Every command advances the clock by the time that a [`Clockwork`] returns.
//! No call ever sleeps.
//!
//! Beside the library, [`lvm`] makes the physical volumes of LVM, for test machines without LVM.
//!
//! Deliberately absent: partitions, fixed-length blocks, encryption.

mod attention;
mod cartridge;
mod changer;
mod clockwork;
mod drive;
mod layout;
mod library;
pub mod lvm;
mod reply;
mod world;

pub use cartridge::Cartridge;
pub use clockwork::{Clockwork, Constants, Motion, Spot};
pub use drive::DriveModel;
pub use layout::Layout;
pub use library::{Library, Trouble, Unit};

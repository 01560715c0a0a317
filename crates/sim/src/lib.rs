//! A tape library that is not there: a changer and drives that answer SCSI commands in memory, on
//! a clock of their own.
//!
//! [`Library`] is the library; each of its logical units is a [`Unit`], which takes commands
//! through `tape::transport::ScsiTransport`. Blocks are kept in memory, those of a repeated word as
//! that word, and cartridges can be made that hold any number of blocks in no memory at all. Every
//! command advances the clock by what a [`Clockwork`] says; nothing ever waits.
//!
//! Deliberately absent: partitions, fixed-length blocks, encryption.

mod cartridge;
mod changer;
mod clockwork;
mod drive;
mod library;
mod reply;

pub use cartridge::Cartridge;
pub use clockwork::{Clockwork, Constants, Motion, Spot};
pub use drive::DriveModel;
pub use library::{Layout, Library, Trouble, Unit};

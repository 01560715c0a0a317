//! Tape: SCSI drives and changers, volumes on tape or in files, and libraries of both; where data
//! lies on a volume, what reading it takes, and in which order it is read.
//!
//! ```text
//! library   volumes by barcode: mount, dismount, label, check in and out, clean
//!   changer   elements, moves          volume   label, objects, index: over a medium
//!     drive     what it can, its place, its errors  <- medium ->  file volumes
//!       scsi      commands and answers as bytes; transport: SG_IO, iSCSI, or an emulator
//!
//! schedule  which volume is mounted where, and who is read next: pure, for any drives
//!   operator  carries out what it decides, a thread a drive
//!   order     the cheapest of several orders
//!     timing    what moves and transfers take: generation, geometry
//! ```

pub mod changer;
pub mod device;
pub mod drive;
pub mod file_volume;
pub mod generation;
pub mod geometry;
pub mod library;
pub mod medium;
pub mod operator;
pub mod order;
mod queue;
pub mod schedule;
pub mod scsi;
pub mod simulation;
pub mod timing;
pub mod transport;
pub mod volume;

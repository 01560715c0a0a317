//! Tape: SCSI drives and changers, volumes on tape or in files, and libraries of both.
//!
//! ```text
//! library   volumes by barcode: mount, dismount, label, check in and out, clean
//!   changer   elements, moves          volume   label, objects, index: over a medium
//!     drive     what it can, its place, its errors  <- medium ->  file volumes
//!       scsi      commands and answers as bytes; transport: SG_IO, iSCSI, or an emulator
//! ```

pub mod changer;
pub mod device;
pub mod drive;
pub mod file_volume;
pub mod library;
pub mod medium;
pub mod scsi;
pub mod transport;
pub mod volume;

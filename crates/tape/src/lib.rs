//! Tape: SCSI drives and changers, volumes on tape or in files, and libraries of both; the places
//! of data on a volume, the time of reading it, and the order in which it is read.
//!
//! ```text
//! library   volumes by barcode: mount, dismount, label, check in and out, clean
//!   changer   elements, moves          volume   label, objects, index: over a medium
//!     drive     abilities, position, errors    <- medium ->  file volumes
//!       scsi      commands and answers as bytes
//!       transport SG_IO, iSCSI, or an emulator; address: the names of devices
//!
//! schedule  which volume is mounted where, and which read is next: pure, for any drives
//!   operator    carries out what it decides, a thread a drive
//!   order       the cheapest of several orders
//!     timing      times of moves and transfers: generation, geometry
//!   calibration the real times of drives against the assumed ones
//!
//! site, settings   libraries that have a name on this machine
//!   depot            a library or folder that is open for work by hand
//!     inventory        its elements and volumes
//!     manual           writing, extracting and verifying objects
//! ```

pub mod address;
pub mod calibration;
pub mod changer;
pub mod depot;
pub mod device;
pub mod drive;
pub mod file_volume;
pub mod generation;
pub mod geometry;
pub mod inventory;
pub mod library;
pub mod manual;
pub mod medium;
pub mod operator;
pub mod order;
mod queue;
pub mod schedule;
pub mod scsi;
pub mod settings;
pub mod simulation;
pub mod site;
pub mod timing;
pub mod transport;
pub mod volume;

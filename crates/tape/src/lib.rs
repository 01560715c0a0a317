//! Tape storage: SCSI drives and changers, volumes on tape or in files, and libraries. The crate
//! also models the place of data on a volume, estimates the time of a read, and chooses the order
//! of reads.
//!
//! ```text
//! library   volumes by barcode: mount, dismount, label, check in and out, clean
//!   changer   elements, moves          volume   label, objects, index: over a medium
//!     drive     abilities, position, errors    <- medium ->  file volumes
//!       scsi      commands and answers as bytes
//!       transport SG_IO, iSCSI, or an emulator; address: the names of devices
//!       line      the connection to an iSCSI device, which is made again after it was cut
//!
//! schedule  decides which volume is mounted where, and which read is next: no I/O
//!   operator    carries out the decisions of the schedule, with one thread for each drive
//!   order       chooses the cheapest of several orders of reading
//!     timing      times of moves and transfers: generation, geometry
//!   calibration the real times of drives, compared with the assumed times
//!
//! site, settings   libraries that have a name on this machine
//!   depot            a library or folder that a command has opened for work by hand
//!     inventory        the elements and volumes of a depot
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
pub mod line;
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

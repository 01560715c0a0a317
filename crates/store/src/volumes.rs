//! Pools whose packs lie on volumes: on tape, or in files that stand for tapes.
//!
//! ```text
//!   pools::tend --write--> volumes of the pool          reclaim: packs of nearly dead volumes
//!   restore, recall --ahead, fetch--> stage (whole packs on disk) --shelf--> pool::Pools
//!                          |
//!                     operator of each library: one queue for all, see tape::schedule
//! ```
//!
//! A read always brings a whole pack: reading 64 MiB takes a fifth of a second, winding the tape
//! takes many seconds, and a reader often needs the neighbours too. The catalogue has the places of
//! packs. Volumes have these places as well, so that volumes can be read without a catalogue.

pub(crate) mod choose;
pub(crate) mod drive;
pub(crate) mod error;
mod failures;
pub(crate) mod fetch;
pub(crate) mod holdings;
mod libraries;
pub(crate) mod listing;
mod shelf;
pub(crate) mod site;
mod stage;
pub(crate) mod trouble;
pub(crate) mod wait;
mod work;

pub use error::{AbsentVolume, FetchError, LibraryError, SiteFault};
pub use fetch::EarlyRequests;
pub use holdings::Volumes;
pub use libraries::{Devices, LibrarySettings, LibraryWork, NewLibrary};
pub use listing::{
    DriveErrors, DriveState, DriveSummary, LibraryOutage, LibrarySummary, QueueEntry, VolumeFilter,
    VolumeKey, VolumeSummary,
};
pub use tape::schedule::Kind as ReadKind;
pub use tape::scsi::{Element, ElementKind};
pub use wait::Reader;
pub use work::{LabelChoice, LabelOrder, LabelReport, VolumeChange};

#[cfg(test)]
mod tests;

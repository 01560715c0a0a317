//! Selecting versions and sending them: lists, restores, and planned recalls.

mod ahead;
mod condition;
mod content;
pub mod drill;
mod recipient;
mod restore;
mod restored;
mod sample;
pub(crate) mod select;
mod staging;
mod trim;

pub use crate::store::drills::{Delivery, Sample};
pub use condition::VersionCondition;
pub use content::{Content, ContentReader};
pub use recipient::{Answer, DirectoryVersions, Message, Recipient, WindowEnd};
pub use restore::serve;
pub use restored::note_restore;
pub use select::{Choice, Part, Selection, Unreadable, VersionBatch, split};
pub use staging::{
    PlannedVolume, RecallListener, RecallMessage, RecallOrder, RecallPlan, UnavailableCopies,
    stage_copies,
};

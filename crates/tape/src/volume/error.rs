//! Reasons why a volume could not be used.

use std::io;

use format::Damaged;
use format::volume::{Foreign, VolumeName};

use crate::medium::MediumError;

/// Reason why a volume could not be used. Each variant asks for another reaction of the caller.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// Label it.
    #[error("the volume is blank: it has no label")]
    Blank,
    /// Leave it alone.
    #[error("the volume holds {0}")]
    Foreign(Foreign),
    /// The medium is another volume than the one that was asked for: take the inventory again.
    #[error("this is volume {found}, labelled at another time or with another name than expected")]
    Another { found: VolumeName },
    /// Ask for permission to overwrite it.
    #[error("the volume is labelled {0}")]
    Labelled(VolumeName),
    /// Read another copy; mark the volume damaged.
    #[error("the block at position {position} is not what it should be")]
    Damaged { position: u64, source: Damaged },
    /// The drive went to a wrong place: try again, then in another drive.
    #[error("the block at position {wanted} says that it belongs to another place")]
    WrongPlace { wanted: u64 },
    /// The source or the target of the object failed.
    #[error("the source or the target of the object failed")]
    Handover(#[source] io::Error),
    #[error(transparent)]
    Medium(#[from] MediumError),
}

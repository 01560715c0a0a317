//! Reasons why a volume could not be used.

use std::io;

use format::DamageError;
use format::volume::{ForeignContent, VolumeName};

use crate::medium::MediumError;

/// Reason why a volume could not be used. Each variant requires a different reaction of the caller.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The medium has no label: the caller labels it.
    #[error("the volume is blank: it has no label")]
    Blank,
    /// The medium belongs to another program: the caller leaves it alone.
    #[error("the volume holds {0}")]
    Foreign(ForeignContent),
    /// The medium is another volume than the requested volume: the caller takes the inventory
    /// again.
    #[error("this is volume {found}, labelled at another time or with another name than expected")]
    Another { found: VolumeName },
    /// The medium has a label already: the user has to allow to overwrite it.
    #[error("the volume is labelled {0}")]
    Labelled(VolumeName),
    /// A block is damaged: the caller reads another copy, and marks the volume as damaged.
    #[error("the block at position {position} cannot be used")]
    Damaged { position: u64, source: DamageError },
    /// The drive went to a wrong position: the caller tries again, and then uses another drive.
    #[error("the block at position {wanted} belongs to another position")]
    WrongPlace { wanted: u64 },
    /// The source or the target of the object's bytes failed; the medium is good.
    #[error("the source or the target of the object failed")]
    Handover(#[source] io::Error),
    #[error(transparent)]
    Medium(#[from] MediumError),
}

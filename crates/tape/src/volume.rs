//! Volumes: labelled, self-describing, over any medium.
//!
//! [`VolumeWriter`] appends objects behind what is there, [`VolumeReader`] lists a volume and reads
//! what is on it without any catalogue. The bytes are in `docs/format/volume.md`.
//!
//! Rules:
//! 1. Nothing is written to a medium that was not found to be ours, or blank, or that somebody told
//!    to overwrite.
//! 2. A part counts only when [`VolumeWriter::sync`] or [`VolumeWriter::close`] has returned it.
//! 3. Every block says where it belongs; one that says otherwise is an error, never content.

mod reader;
mod writer;

use std::io;

use format::Damaged;
use format::volume::{Foreign, Label, VolumeName};

use crate::medium::{Found, Medium, MediumError};

pub use reader::{Listing, VolumeReader};
pub use writer::{Closed, Continuation, Progress, VolumeWriter, WriterOptions};

/// Enough for any label; of what others have written only the first bytes matter.
const FIRST_BLOCK_BYTES: usize = 64 << 10;

/// Why a volume could not be used. Each variant asks another thing of the caller.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// Label it.
    #[error("the volume has no label and nothing on it")]
    Blank,
    /// Leave it alone.
    #[error("the volume holds {0}")]
    Foreign(Foreign),
    /// Another volume than was asked for is there: look through the library again.
    #[error("this is volume {found}, labelled at another time or with another name than expected")]
    Another { found: VolumeName },
    /// Ask to be told to overwrite it.
    #[error("the volume is labelled {0}")]
    Labelled(VolumeName),
    /// Read another copy; mark the volume damaged.
    #[error("the block at position {position} is not what it should be")]
    Damaged { position: u64, source: Damaged },
    /// The drive went to a wrong place: try again, elsewhere if it stays so.
    #[error("the block at position {wanted} says that it belongs elsewhere")]
    WrongPlace { wanted: u64 },
    /// The other side failed: where the object comes from or goes to.
    #[error("the object could not be handed over")]
    Handover(#[source] io::Error),
    #[error(transparent)]
    Medium(#[from] MediumError),
}

/// What may be lost by labelling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overwrite {
    /// Only blank media are labelled.
    Nothing,
    /// Volumes of this program too.
    Ours,
    /// Anything: what others have written, and what cannot be read.
    Anything,
}

/// What a medium turns out to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Identified {
    Blank,
    Ours(Label),
    Foreign(Foreign),
    /// Ours, but its label cannot be read.
    Damaged(Damaged),
}

/// Finds out what is on `medium`; leaves it behind the first block.
pub fn identify(medium: &mut dyn Medium) -> Result<Identified, VolumeError> {
    medium.rewind()?;
    let mut block = vec![0; FIRST_BLOCK_BYTES];
    let bytes = match medium.read(&mut block) {
        Ok(Found::Block { bytes } | Found::LongBlock { bytes }) => bytes.min(block.len()),
        Ok(Found::EndOfData) => return Ok(Identified::Blank),
        Ok(Found::Filemark) => return Ok(Identified::Foreign(Foreign::Unknown)),
        Err(error) => return Err(error.into()),
    };
    let block = &block[..bytes];
    if let Some(foreign) = Foreign::of(block) {
        return Ok(Identified::Foreign(foreign));
    }
    Ok(match Label::decode(block) {
        Ok(label) => Identified::Ours(label),
        Err(damaged) => Identified::Damaged(damaged),
    })
}

/// Returns the label of `medium`, which must be one of ours.
pub fn read_label(medium: &mut dyn Medium) -> Result<Label, VolumeError> {
    match identify(medium)? {
        Identified::Ours(label) => Ok(label),
        Identified::Blank => Err(VolumeError::Blank),
        Identified::Foreign(foreign) => Err(VolumeError::Foreign(foreign)),
        Identified::Damaged(source) => Err(VolumeError::Damaged { position: 0, source }),
    }
}

/// Whether nothing lies behind the label, which `medium` must have.
pub fn is_unwritten(medium: &mut dyn Medium) -> Result<bool, VolumeError> {
    medium.rewind()?;
    let mut block = vec![0; FIRST_BLOCK_BYTES];
    let _label = medium.read(&mut block)?;
    Ok(medium.read(&mut block)? == Found::Filemark && medium.read(&mut block)? == Found::EndOfData)
}

/// Labels `medium`, as far as `overwrite` allows it. Everything on it is gone.
pub fn label(
    medium: &mut dyn Medium,
    label: &Label,
    overwrite: Overwrite,
) -> Result<(), VolumeError> {
    check_overwrite(medium, overwrite)?;
    write_label(medium, label)
}

/// Fails if `medium` is write-protected or there is more on it than may be overwritten.
pub(crate) fn check_overwrite(
    medium: &mut dyn Medium,
    overwrite: Overwrite,
) -> Result<(), VolumeError> {
    if medium.is_write_protected()? {
        return Err(MediumError::WriteProtected.into());
    }
    let identified = match identify(medium) {
        Err(VolumeError::Medium(MediumError::Damaged { .. }))
            if overwrite == Overwrite::Anything =>
        {
            return Ok(());
        }
        other => other?,
    };
    match (identified, overwrite) {
        (Identified::Blank, _) | (_, Overwrite::Anything) => Ok(()),
        (Identified::Ours(_), Overwrite::Ours) => Ok(()),
        (Identified::Ours(label), Overwrite::Nothing) => Err(VolumeError::Labelled(label.name)),
        (Identified::Foreign(foreign), _) => Err(VolumeError::Foreign(foreign)),
        (Identified::Damaged(source), _) => Err(VolumeError::Damaged { position: 0, source }),
    }
}

pub(crate) fn write_label(medium: &mut dyn Medium, label: &Label) -> Result<(), VolumeError> {
    medium.rewind()?;
    let _room = medium.write(&label.encode())?;
    let _room = medium.mark()?;
    Ok(())
}

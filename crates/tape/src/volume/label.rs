//! Labels: finding out what is on a medium, and making it a volume.

use format::Damaged;
use format::volume::{Foreign, Label};

use super::error::VolumeError;
use crate::medium::{Medium, MediumError, ReadOutcome};

/// Length of a read that takes any label; only the first bytes of foreign content matter.
const FIRST_BLOCK_BYTES: usize = 64 << 10;

/// The content that labelling may destroy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overwrite {
    /// Only blank media are labelled.
    Nothing,
    /// Volumes of this program too.
    Ours,
    /// Anything: foreign content, and content that cannot be read.
    Anything,
}

/// The kind of content that was found on a medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Identification {
    Blank,
    Ours(Label),
    Foreign(Foreign),
    /// A volume of ours whose label cannot be read.
    Damaged(Damaged),
}

/// Finds out what is on `medium`; leaves the medium after its first block.
pub fn identify(medium: &mut dyn Medium) -> Result<Identification, VolumeError> {
    medium.rewind()?;
    let mut block = vec![0; FIRST_BLOCK_BYTES];
    let bytes = match medium.read(&mut block) {
        Ok(ReadOutcome::Block { bytes } | ReadOutcome::LongBlock { bytes }) => {
            bytes.min(block.len())
        }
        Ok(ReadOutcome::EndOfData) => return Ok(Identification::Blank),
        Ok(ReadOutcome::Filemark) => return Ok(Identification::Foreign(Foreign::Unknown)),
        Err(error) => return Err(error.into()),
    };
    let block = &block[..bytes];
    if let Some(foreign) = Foreign::of(block) {
        return Ok(Identification::Foreign(foreign));
    }
    Ok(match Label::decode(block) {
        Ok(label) => Identification::Ours(label),
        Err(damaged) => Identification::Damaged(damaged),
    })
}

/// Returns the label of `medium`, which must be one of ours.
pub fn read_label(medium: &mut dyn Medium) -> Result<Label, VolumeError> {
    match identify(medium)? {
        Identification::Ours(label) => Ok(label),
        Identification::Blank => Err(VolumeError::Blank),
        Identification::Foreign(foreign) => Err(VolumeError::Foreign(foreign)),
        Identification::Damaged(source) => Err(VolumeError::Damaged { position: 0, source }),
    }
}

/// Returns true if nothing follows the label, which `medium` must have.
pub fn is_unwritten(medium: &mut dyn Medium) -> Result<bool, VolumeError> {
    medium.rewind()?;
    let mut block = vec![0; FIRST_BLOCK_BYTES];
    let _label = medium.read(&mut block)?;
    Ok(medium.read(&mut block)? == ReadOutcome::Filemark
        && medium.read(&mut block)? == ReadOutcome::EndOfData)
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

/// Fails if `medium` is write-protected, or has content that may not be overwritten.
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
        (Identification::Blank, _) | (_, Overwrite::Anything) => Ok(()),
        (Identification::Ours(_), Overwrite::Ours) => Ok(()),
        (Identification::Ours(label), Overwrite::Nothing) => Err(VolumeError::Labelled(label.name)),
        (Identification::Foreign(foreign), _) => Err(VolumeError::Foreign(foreign)),
        (Identification::Damaged(source), _) => Err(VolumeError::Damaged { position: 0, source }),
    }
}

pub(crate) fn write_label(medium: &mut dyn Medium, label: &Label) -> Result<(), VolumeError> {
    medium.rewind()?;
    let block = label.encode();
    assert!(block.len() <= FIRST_BLOCK_BYTES, "a label is read whole");
    debug_assert!(Label::decode(&block).is_ok(), "a label is read back");
    let _room = medium.write(&block)?;
    let _room = medium.mark()?;
    Ok(())
}

//! Labels: identification of the content of a medium, and labelling of a medium as a volume.

use format::DamageError;
use format::volume::{ForeignContent, Label};

use super::error::VolumeError;
use crate::medium::{Medium, MediumError, ReadOutcome};

/// Number of bytes of a read that is long enough for any label. Of foreign content, the first bytes
/// are enough.
const FIRST_BLOCK_BYTES: usize = 64 << 10;

/// The content that labelling may destroy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overwrite {
    /// Nothing: only blank media are labelled.
    Nothing,
    /// Volumes of this program.
    Ours,
    /// Anything: foreign content, and content that cannot be read.
    Anything,
}

/// The kind of content that was found on a medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Identification {
    Blank,
    Ours(Label),
    Foreign(ForeignContent),
    /// A volume of this program whose label cannot be read.
    Damaged(DamageError),
}

/// Identifies the content of `medium`. Afterwards the medium is after its first block.
pub fn identify(medium: &mut dyn Medium) -> Result<Identification, VolumeError> {
    medium.rewind()?;
    let mut block = vec![0; FIRST_BLOCK_BYTES];
    let bytes = match medium.read(&mut block) {
        Ok(ReadOutcome::Block { bytes } | ReadOutcome::LongBlock { bytes }) => {
            bytes.min(block.len())
        }
        Ok(ReadOutcome::EndOfData) => return Ok(Identification::Blank),
        Ok(ReadOutcome::Filemark) => return Ok(Identification::Foreign(ForeignContent::Unknown)),
        Err(error) => return Err(error.into()),
    };
    let block = &block[..bytes];
    if let Some(foreign) = ForeignContent::of(block) {
        return Ok(Identification::Foreign(foreign));
    }
    Ok(match Label::decode(block) {
        Ok(label) => Identification::Ours(label),
        Err(damaged) => Identification::Damaged(damaged),
    })
}

/// Returns the label of `medium`, which must be a label of this program.
pub fn read_label(medium: &mut dyn Medium) -> Result<Label, VolumeError> {
    match identify(medium)? {
        Identification::Ours(label) => Ok(label),
        Identification::Blank => Err(VolumeError::Blank),
        Identification::Foreign(foreign) => Err(VolumeError::Foreign(foreign)),
        Identification::Damaged(source) => Err(VolumeError::Damaged { position: 0, source }),
    }
}

/// Returns true if nothing follows the label of `medium`, which must have a label.
pub fn is_unwritten(medium: &mut dyn Medium) -> Result<bool, VolumeError> {
    medium.rewind()?;
    let mut block = vec![0; FIRST_BLOCK_BYTES];
    let _label = medium.read(&mut block)?;
    Ok(medium.read(&mut block)? == ReadOutcome::Filemark
        && medium.read(&mut block)? == ReadOutcome::EndOfData)
}

/// Labels `medium` if `overwrite` allows that. All content of the medium is lost.
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

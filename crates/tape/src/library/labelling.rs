//! Instructions for labelling volumes.

use format::volume::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, Label, VolumeId, VolumeName};
use sys::{clock, entropy};

use crate::volume::Overwrite;

/// Instructions for labelling one volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Labelling {
    pub pool: String,
    /// Number of the volume within its pool, in the order of labelling.
    pub sequence: u64,
    /// Maximum size of a block, in bytes. The label gets a smaller size if the drive does not
    /// accept this size; the smaller size stays within the limits of the format.
    pub block_bytes: u32,
    pub overwrite: Overwrite,
}

impl Labelling {
    /// Returns a label for the volume `name`, with a new random identity.
    pub fn label(&self, name: &VolumeName, block_bytes_max: u32) -> Label {
        Label {
            volume: VolumeId(entropy::bytes()),
            name: name.clone(),
            pool: self.pool.clone(),
            labelled: clock::now(),
            sequence: self.sequence,
            block_bytes: self
                .block_bytes
                .min(block_bytes_max)
                .clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX),
        }
    }
}

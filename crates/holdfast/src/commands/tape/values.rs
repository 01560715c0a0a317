//! Lists of volumes on the command line.

use format::volume::{VolumeName, VolumeNameError};

use crate::values::volume_name;

/// Names of volumes, separated by commas.
#[derive(Clone, Debug)]
pub(super) struct VolumeList(pub(super) Vec<VolumeName>);

pub(super) fn volume_list(text: &str) -> Result<VolumeList, VolumeNameError> {
    text.split(',').map(volume_name).collect::<Result<_, _>>().map(VolumeList)
}

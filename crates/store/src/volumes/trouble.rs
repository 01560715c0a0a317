//! Problem that ends the filling of a volume early.

use tape::volume::VolumeError;

use crate::error::StoreError;

/// Problem that ends the filling of a volume early.
pub(crate) enum Trouble {
    /// The drive or the volume failed. The run continues with another volume.
    Volume(VolumeError),
    /// The run cannot continue.
    Store(StoreError),
}

impl From<VolumeError> for Trouble {
    fn from(error: VolumeError) -> Self {
        Self::Volume(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

//! The elements of a library.

use crate::drive::DriveModel;

/// Numbers of slots and import/export elements, and the drives.
#[derive(Clone, Debug)]
pub struct Layout {
    pub slot_count: u16,
    pub import_export_count: u16,
    pub drives: Vec<DriveModel>,
}

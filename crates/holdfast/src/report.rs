//! The session reports, as classic lines and as JSON.

mod amount;
mod backup;
mod baseline;
pub(crate) mod drills;
mod estimate;
mod expiry;
mod file_system;
mod image;
mod interruption;
mod last_backup;
mod lines;
mod restore;
mod restore_plan;
mod stages;
mod verify;

pub(crate) use backup::{BackupDocument, backup_text};
pub(crate) use baseline::{baseline_text, comparison_line, trend_text};
pub(crate) use drills::LastDrillsDocument;
pub(crate) use expiry::expiry_text;
pub(crate) use file_system::FileSystemDocument;
pub(crate) use image::{
    ImageDocument, ImageReportDocument, ImageRestoreDocument, image_restore_text, image_text,
    stillness_words,
};
pub(crate) use interruption::{interrupted_reading, interruption};
pub(crate) use last_backup::{LastBackupDocument, last_backup_text};
pub(crate) use lines::{FAILURES_SHOWN, troubles};
pub(crate) use restore::{BringBack, RestoreDocument, restore_text};
pub(crate) use restore_plan::{RestorePlanDocument, restore_plan_text};
pub(crate) use verify::{VerifyDocument, verify_text};

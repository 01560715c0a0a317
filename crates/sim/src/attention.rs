//! Conditions that a unit reports before it executes a command.

use tape::scsi::opcode::{INQUIRY, REQUEST_SENSE};

use crate::reply::Check;

/// Reports the oldest condition in the queue, if there is one. INQUIRY and REQUEST SENSE never
/// report conditions.
pub(crate) fn report_first(queue: &mut Vec<Check>, opcode: u8) -> Result<(), Check> {
    if queue.is_empty() || [INQUIRY, REQUEST_SENSE].contains(&opcode) {
        return Ok(());
    }
    Err(queue.remove(0))
}

/// Reports that the unit is not ready yet, and counts `looks` down; at 0 the unit is ready.
pub(crate) fn report_not_ready(looks: &mut u32) -> Result<(), Check> {
    match looks.checked_sub(1) {
        Some(left) => {
            *looks = left;
            Err(Check::BECOMING_READY)
        }
        None => Ok(()),
    }
}

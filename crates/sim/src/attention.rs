//! Conditions that a unit reports before it does anything else.

use tape::scsi::opcode::{INQUIRY, REQUEST_SENSE};

use crate::reply::Check;

/// Reports the oldest condition in the queue, unless the command is one that never reports
/// conditions.
pub(crate) fn report_first(queue: &mut Vec<Check>, opcode: u8) -> Result<(), Check> {
    if queue.is_empty() || [INQUIRY, REQUEST_SENSE].contains(&opcode) {
        return Ok(());
    }
    Err(queue.remove(0))
}

/// Reports that the unit is not ready yet, as often as `looks` says.
pub(crate) fn report_not_ready(looks: &mut u32) -> Result<(), Check> {
    match looks.checked_sub(1) {
        Some(left) => {
            *looks = left;
            Err(Check::BECOMING_READY)
        }
        None => Ok(()),
    }
}

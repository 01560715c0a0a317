//! The commands that a device knows, and their timeouts (SPC-4 6.35).

use std::time::Duration;

use format::DamageError;

use super::answer::Answer;

/// One command that the device knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SupportedCommand {
    pub opcode: u8,
    /// Service action; `None` for an operation code without service actions.
    pub service_action: Option<u16>,
    /// Time after which the device may be regarded as dead; `None` if the device gives none.
    pub timeout: Option<Duration>,
}

/// Returns the commands in an answer that lists all commands. A command that was cut off is left
/// out.
pub fn supported_commands(bytes: &[u8]) -> Result<Vec<SupportedCommand>, DamageError> {
    const DESCRIPTOR_BYTES: usize = 8;
    const TIMEOUTS_BYTES: usize = 12;
    let answer = Answer::new(bytes, "supported commands");
    let length = usize::try_from(answer.u32(0)?).unwrap_or(usize::MAX);
    let end = length.saturating_add(4).min(answer.len());
    let mut commands = Vec::new();
    let mut at = 4;
    while at + DESCRIPTOR_BYTES <= end {
        let flags = answer.u8(at + 5)?;
        let mut command = SupportedCommand {
            opcode: answer.u8(at)?,
            service_action: (flags & 1 != 0).then_some(answer.u16(at + 2)?),
            timeout: None,
        };
        at += DESCRIPTOR_BYTES;
        if flags & 2 != 0 {
            // The recommended timeout, otherwise the nominal timeout. Zero means that the device
            // gives none.
            let said = [at + 8, at + 4].map(|field| answer.u32(field).unwrap_or(0));
            command.timeout = said
                .into_iter()
                .find(|&secs| secs > 0)
                .map(|secs| Duration::from_secs(secs.into()));
            at += TIMEOUTS_BYTES;
        }
        commands.push(command);
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_with_and_without_timeouts() {
        let mut bytes = vec![0, 0, 0, 48];
        bytes.extend([0x92, 0, 0, 0, 0, 2, 0, 16]);
        bytes.extend([0, 10, 0, 0, 0, 0, 0, 200, 0, 0, 0x09, 0x60]);
        bytes.extend([0xa3, 0, 0, 0x1d, 0, 1, 0, 12]);
        bytes.extend([0x08, 0, 0, 0, 0, 2, 0, 6]);
        bytes.extend([0, 10, 0, 0, 0, 0, 0, 60, 0, 0, 0, 0]);
        let commands = supported_commands(&bytes).expect("whole");
        let expected = [(0x92, None, Some(2400)), (0xa3, Some(0x1d), None), (0x08, None, Some(60))];
        let found: Vec<_> = commands
            .iter()
            .map(|c| (c.opcode, c.service_action, c.timeout.map(|t| t.as_secs())))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(supported_commands(&bytes[..20]).expect("cut off").len(), 1);
        assert!(supported_commands(&[0, 0]).is_err());
    }
}

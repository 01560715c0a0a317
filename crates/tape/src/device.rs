//! One SCSI device: sends commands, waits as long as each command may take, and converts answers to
//! typed errors.
//!
//! Some commands name the place to which the medium goes, or ask about the device. These commands
//! are repeated if the device reports a unit attention first, is busy or aborts the command.
//! Commands that count from the present position of the medium are not repeated, because it is
//! unknown whether they have moved the medium.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use format::DamageError;

use crate::line::Line;
use crate::scsi::{
    Attention, Cdb, Condition, Designator, Inquiry, Sense, designators, opcode, serial_number,
    supported_commands,
};
use crate::transport::{Completion, ScsiTransport, Transfer, TransportError, status};

/// Maximum number of repetitions of a command after unit attentions. A library that was just
/// switched on has several of them queued.
const ATTENTIONS_MAX: u32 = 12;
const ABORTED_MAX: u32 = 3;
/// Maximum number of repetitions of a command during which the line to the device was cut. Each
/// repetition waits for the line.
const CUTS_MAX: u32 = 3;
/// Maximum number of tries while a device is busy.
const BUSY_MAX: u32 = 300;
const BUSY_WAIT: Duration = Duration::from_millis(200);
/// Minimum timeout, even if the device recommends a shorter timeout. As a fixed timeout for all
/// commands, 60 s has been too short for LTO-9.
const TIMEOUT_MIN: Duration = Duration::from_secs(60);

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The device reports the reason in its sense bytes; see [`Sense::condition`].
    #[error("command {opcode:02x}h: {sense}")]
    Check {
        opcode: u8,
        sense: Sense,
        /// Number of bytes that were not transferred, as the device claims; not reliable.
        residual: u64,
    },
    /// Another host has reserved the device.
    #[error("command {opcode:02x}h: another host has reserved the device")]
    Conflict { opcode: u8 },
    #[error("command {opcode:02x}h: the device answered with status {status:02x}h")]
    Status { opcode: u8, status: u8 },
    #[error("command {opcode:02x}h: the device did not answer in time")]
    Timeout { opcode: u8 },
    /// The line to the device was cut and is being made again: the medium has to be made ready
    /// again.
    #[error("command {opcode:02x}h: the connection to the device was cut")]
    Cut { opcode: u8, source: io::Error },
    #[error("command {opcode:02x}h: the device cannot be reached")]
    Lost { opcode: u8, source: io::Error },
    /// The bytes of the answer cannot be parsed.
    #[error("the device's answer cannot be read")]
    Answer(#[from] DamageError),
}

impl CommandError {
    /// Returns the condition that the device reports; `None` if it reports none.
    pub fn condition(&self) -> Option<Condition> {
        match self {
            Self::Check { sense, .. } => Some(sense.condition()),
            _ => None,
        }
    }

    /// Returns true if the device refused the command itself, so that another attempt is of no use.
    pub fn is_refused(&self) -> bool {
        matches!(self.condition(), Some(Condition::Refused(_)))
    }
}

/// The inquiry data and the names of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    pub inquiry: Inquiry,
    /// Serial number; empty if the device has none.
    pub serial: String,
    /// Other names of the device, such as the name by which a changer lists a drive.
    pub designators: Vec<Designator>,
}

impl Identity {
    /// Returns true if `name`, which a changer has reported for a drive, means this device: the
    /// name ends with the serial number, or is a designator of the device.
    pub fn is_named(&self, name: &str) -> bool {
        let by_serial = !self.serial.is_empty() && name.trim().ends_with(&self.serial);
        by_serial || self.designators.iter().any(|designator| designator.text() == name.trim())
    }
}

/// A device with the timeouts of its commands.
pub struct Device {
    transport: Box<dyn ScsiTransport>,
    timeouts: BTreeMap<u8, Duration>,
    /// Operation codes and service actions that the device lists as supported; `None` if the device
    /// gives no list.
    known: Option<Vec<(u8, Option<u16>)>>,
    disturbed: Option<Attention>,
    /// Number of times that the line was cut.
    cuts: u64,
    wants_cleaning: bool,
}

impl Device {
    /// Opens the device, and asks it for the commands that it supports and for their timeouts.
    pub fn open(transport: Box<dyn ScsiTransport>) -> Result<Self, CommandError> {
        let mut device = Self {
            transport,
            timeouts: BTreeMap::new(),
            known: None,
            disturbed: None,
            cuts: 0,
            wants_cleaning: false,
        };
        device.learn_commands()?;
        Ok(device)
    }

    fn learn_commands(&mut self) -> Result<(), CommandError> {
        const ANSWER_BYTES: u16 = 16 << 10;
        let mut answer = vec![0; usize::from(ANSWER_BYTES)];
        let cdb = Cdb::report_supported_opcodes(ANSWER_BYTES.into());
        match self.query(&cdb, &mut answer) {
            Ok(()) => {}
            Err(error) if error.is_refused() => return Ok(()),
            Err(error) => return Err(error),
        }
        let commands = supported_commands(&answer)?;
        for command in &commands {
            if let Some(timeout) = command.timeout {
                // All service actions of one operation code share the longest of their timeouts.
                let longest = self.timeouts.entry(command.opcode).or_insert(TIMEOUT_MIN);
                *longest = timeout.max(*longest);
            }
        }
        let names = commands.iter().map(|command| (command.opcode, command.service_action));
        self.known = (!commands.is_empty()).then(|| names.collect());
        Ok(())
    }

    /// Returns false only if the device lists its commands and this command is not among them.
    pub fn may_know(&self, opcode: u8, service_action: Option<u16>) -> bool {
        let Some(known) = &self.known else { return true };
        known.iter().any(|&(code, action)| {
            code == opcode && (service_action.is_none() || action == service_action)
        })
    }

    /// Returns true if the device lists the command.
    pub fn lists(&self, opcode: u8) -> bool {
        self.known.is_some() && self.may_know(opcode, None)
    }

    pub fn identity(&mut self) -> Result<Identity, CommandError> {
        const SERIAL: u8 = 0x80;
        const IDENTIFICATION: u8 = 0x83;
        let mut answer = [0; 96];
        self.query(&Cdb::inquiry(96), &mut answer)?;
        let inquiry = Inquiry::parse(&answer)?;
        let serial = self.vital_page(SERIAL)?.and_then(|page| serial_number(&page).ok());
        let others = self.vital_page(IDENTIFICATION)?.and_then(|page| designators(&page).ok());
        Ok(Identity {
            inquiry,
            serial: serial.unwrap_or_default(),
            designators: others.unwrap_or_default(),
        })
    }

    /// Returns a page of vital product data; `None` if the device does not have the page.
    fn vital_page(&mut self, page: u8) -> Result<Option<Vec<u8>>, CommandError> {
        let mut answer = vec![0; 252];
        match self.query(&Cdb::vital_product(page, 252), &mut answer) {
            Ok(()) => Ok(Some(answer)),
            Err(error) if error.is_refused() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a command that asks for data, and reads the data into `answer`. Bytes that the device
    /// does not send are zero.
    pub fn query(&mut self, cdb: &Cdb, answer: &mut [u8]) -> Result<(), CommandError> {
        self.repeat(cdb, |device| {
            answer.fill(0);
            device.once(cdb, Transfer::In(answer))
        })
    }

    /// Sends a command without data. The effect of the command must not depend on the state before
    /// it, because the command may be repeated.
    pub fn order(&mut self, cdb: &Cdb) -> Result<(), CommandError> {
        self.repeat(cdb, |device| device.once(cdb, Transfer::None))
    }

    /// Sends a command with `parameters`. The command may be repeated.
    pub fn send(&mut self, cdb: &Cdb, parameters: &[u8]) -> Result<(), CommandError> {
        self.repeat(cdb, |device| device.once(cdb, Transfer::Out(parameters)))
    }

    fn repeat(
        &mut self,
        cdb: &Cdb,
        mut attempt: impl FnMut(&mut Self) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let (mut attentions, mut aborted, mut cuts) = (0, 0, 0);
        loop {
            let error = match attempt(self) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if matches!(error, CommandError::Cut { .. }) && cuts < CUTS_MAX {
                cuts += 1;
                continue;
            }
            match error.condition() {
                Some(Condition::Attention(_)) if attentions < ATTENTIONS_MAX => attentions += 1,
                Some(Condition::Aborted) if aborted < ABORTED_MAX => aborted += 1,
                _ => return Err(error),
            }
            debug_assert!(cdb.opcode() != opcode::READ_6 && cdb.opcode() != opcode::WRITE_6);
        }
    }

    /// Sends a command once. Sends it again only while the device is busy and has not begun the
    /// command.
    pub fn once(&mut self, cdb: &Cdb, mut transfer: Transfer<'_>) -> Result<(), CommandError> {
        let timeout = self.timeout(cdb.opcode());
        for _ in 0..BUSY_MAX {
            let lent = match &mut transfer {
                Transfer::None => Transfer::None,
                Transfer::In(bytes) => Transfer::In(bytes),
                Transfer::Out(bytes) => Transfer::Out(bytes),
            };
            let completion = self.transport.execute(cdb.bytes(), lent, timeout);
            let completion = completion.map_err(|error| self.unanswered(cdb.opcode(), error))?;
            if !matches!(completion.status, status::BUSY | status::TASK_SET_FULL) {
                return self.judge(cdb.opcode(), &completion);
            }
            self.transport.wait(BUSY_WAIT);
        }
        Err(CommandError::Status { opcode: cdb.opcode(), status: status::BUSY })
    }

    /// Converts the reason why there is no answer. After a cut, the device may have been reset and
    /// its medium changed, with or without a unit attention that says so.
    fn unanswered(&mut self, opcode: u8, error: TransportError) -> CommandError {
        match error {
            TransportError::Timeout => CommandError::Timeout { opcode },
            TransportError::Lost(source) => CommandError::Lost { opcode, source },
            TransportError::Cut(source) => {
                self.disturbed = Some(Attention::MediumChanged);
                self.cuts += 1;
                CommandError::Cut { opcode, source }
            }
        }
    }

    fn judge(&mut self, opcode: u8, completion: &Completion) -> Result<(), CommandError> {
        match completion.status {
            status::GOOD => return Ok(()),
            status::CHECK_CONDITION => {}
            status::RESERVATION_CONFLICT => return Err(CommandError::Conflict { opcode }),
            status => return Err(CommandError::Status { opcode, status }),
        }
        let sense = Sense::parse(&completion.sense)?;
        self.wants_cleaning |= sense.wants_cleaning();
        match sense.condition() {
            Condition::Recovered => return Ok(()),
            // A reset hides no earlier change of the medium.
            Condition::Attention(attention @ (Attention::Reset | Attention::MediumChanged))
                if self.disturbed != Some(Attention::MediumChanged) =>
            {
                self.disturbed = Some(attention);
            }
            _ => {}
        }
        Err(CommandError::Check { opcode, sense, residual: completion.residual })
    }

    /// Returns the timeout of a command: the value that the device reports, otherwise the default
    /// for this kind of command.
    fn timeout(&self, opcode: u8) -> Duration {
        let timeout = self.timeouts.get(&opcode).copied();
        let timeout = timeout.unwrap_or_else(|| default_timeout(opcode));
        assert!(timeout >= TIMEOUT_MIN, "no timeout is below the minimum");
        timeout
    }

    /// Returns the last disturbance since [`Self::settle`]: a reset of the device, or a change of
    /// its medium.
    pub fn disturbed(&self) -> Option<Attention> {
        self.disturbed
    }

    /// Forgets the last disturbance.
    pub fn settle(&mut self) {
        self.disturbed = None;
    }

    /// Returns the number of times that the line to the device was cut, as far as commands noticed.
    pub fn cuts(&self) -> u64 {
        self.cuts
    }

    /// Returns true if the line was cut since the last command.
    pub fn was_cut(&self) -> bool {
        self.transport.was_cut()
    }

    /// Returns the line to the device, if a line is made again after it was cut.
    pub fn line(&self) -> Option<Arc<Line>> {
        self.transport.line()
    }

    /// Returns true if the device has asked to be cleaned and was not cleaned since.
    pub fn wants_cleaning(&self) -> bool {
        self.wants_cleaning
    }

    pub(crate) fn note_cleaning(&mut self, wanted: bool) {
        self.wants_cleaning = wanted;
    }

    pub(crate) fn wait(&mut self, duration: Duration) {
        self.transport.wait(duration);
    }

    pub(crate) fn transfer_bytes_max(&self) -> Option<u32> {
        self.transport.transfer_bytes_max()
    }
}

/// Returns the timeout of a command for a device that reports none. The values are from vendors'
/// tables for the slowest generation, LTO-9: the first load of an LTO-9 medium alone takes up to
/// two hours.
fn default_timeout(opcode: u8) -> Duration {
    const MINUTE: u64 = 60;
    Duration::from_secs(match opcode {
        opcode::LOAD_UNLOAD => 150 * MINUTE,
        // For a changer, the code of LOCATE(10) means POSITION TO ELEMENT, which takes less time.
        opcode::REWIND
        | opcode::SPACE_6
        | opcode::SPACE_16
        | opcode::LOCATE_10
        | opcode::LOCATE_16
        | opcode::INITIALIZE_ELEMENT_STATUS
        | opcode::MAINTENANCE_OUT => 60 * MINUTE,
        opcode::READ_6 | opcode::WRITE_6 | opcode::WRITE_FILEMARKS_6 => 40 * MINUTE,
        opcode::MOVE_MEDIUM | opcode::READ_ELEMENT_STATUS | opcode::MAINTENANCE_IN => 15 * MINUTE,
        _ => 3 * MINUTE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_tape_gets_more_time_than_what_asks() {
        let ask = default_timeout(opcode::TEST_UNIT_READY);
        for motion in [opcode::REWIND, opcode::LOCATE_16, opcode::READ_6, opcode::MOVE_MEDIUM] {
            assert!(default_timeout(motion) > ask);
        }
        assert!(default_timeout(opcode::LOAD_UNLOAD) >= Duration::from_secs(7200));
    }
}

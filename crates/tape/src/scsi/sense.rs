//! Parsing of sense bytes, in fixed format and in descriptor format (SPC-4 4.5). The result is the
//! condition to which the caller reacts.

use format::DamageError;

use super::answer::Answer;

/// Parsed sense bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sense {
    /// True if the error belongs to an earlier command whose status was good.
    pub deferred: bool,
    pub key: u8,
    /// Additional sense code and qualifier.
    pub code: u16,
    /// The INFORMATION field: for READ, the requested bytes minus the bytes in the block; for
    /// SPACE, the remaining count.
    pub information: Option<i64>,
    /// Three flags for tapes, at their places in byte 2 of the fixed format.
    marks: u8,
}

const FILEMARK: u8 = 0x80;
const END_OF_MEDIUM: u8 = 0x40;
const INCORRECT_LENGTH: u8 = 0x20;

/// Sense keys (SPC-4 table 28).
mod key {
    pub(super) const NO_SENSE: u8 = 0x0;
    pub(super) const RECOVERED: u8 = 0x1;
    pub(super) const NOT_READY: u8 = 0x2;
    pub(super) const MEDIUM_ERROR: u8 = 0x3;
    pub(super) const HARDWARE_ERROR: u8 = 0x4;
    pub(super) const ILLEGAL_REQUEST: u8 = 0x5;
    pub(super) const UNIT_ATTENTION: u8 = 0x6;
    pub(super) const DATA_PROTECT: u8 = 0x7;
    pub(super) const BLANK_CHECK: u8 = 0x8;
    pub(super) const ABORTED: u8 = 0xb;
    pub(super) const VOLUME_OVERFLOW: u8 = 0xd;
}

/// The meaning of a CHECK CONDITION for the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// The command succeeded. The drive reports a recovered error, or that it needs cleaning.
    Recovered,
    /// The data was written, and the medium is nearly full.
    EarlyWarning,
    /// The data was not written: the medium ends here.
    EndOfMedium,
    Filemark,
    /// The block has another length than requested.
    IncorrectLength,
    EndOfData,
    BeginningOfMedium,
    NotReady(ReadinessFault),
    Attention(Attention),
    MediumError,
    HardwareError,
    /// The device refuses the command itself: another attempt is of no use.
    Refused(Refusal),
    WriteProtected,
    /// The device aborted the command. The caller may repeat a command that does not move the
    /// medium.
    Aborted,
    Other,
}

/// Reason why a device is not ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadinessFault {
    /// The device is becoming ready: the caller waits.
    Becoming,
    /// The medium must be loaded: the caller sends LOAD.
    NeedsLoad,
    NoMedium,
    /// A person must act, at the device's panel or door.
    Intervention,
    Cleaning,
    Other,
}

/// Event that a device reports by a unit attention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attention {
    /// The device became ready: it may have another medium now.
    MediumChanged,
    /// The import/export elements were opened.
    ImportExport,
    /// Power on or bus reset: settings and position are lost.
    Reset,
    /// Another host set modes or logs, or cleared reservations.
    Parameters,
    Microcode,
    Other,
}

/// Reason why a device refuses a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The device does not know the command.
    Command,
    /// The device does not know a field of the command or of its parameters.
    Field,
    ElementAddress,
    SourceEmpty,
    DestinationFull,
    /// The medium cannot be taken: its removal is prevented, or the drive has not released it.
    RemovalPrevented,
    /// The medium does not suit the drive, or is a cleaning cartridge.
    IncompatibleMedium,
    NoSuchUnit,
    Other,
}

impl Sense {
    /// Parses sense bytes in either format.
    pub fn parse(bytes: &[u8]) -> Result<Self, DamageError> {
        let answer = Answer::new(bytes, "sense");
        match answer.u8(0)? & 0x7f {
            code @ (0x70 | 0x71) => Self::fixed(answer, code == 0x71),
            code @ (0x72 | 0x73) => Self::descriptors(answer, code == 0x73),
            _ => Err(answer.damaged("unknown response code")),
        }
    }

    /// Parses the fixed format (SPC-4 4.5.3). Fields that the device did not send count as zero.
    fn fixed(answer: Answer<'_>, deferred: bool) -> Result<Self, DamageError> {
        let flags = answer.u8(2)?;
        let valid = answer.u8(0)? & 0x80 != 0;
        let information = answer.u32(3).ok().filter(|_| valid);
        Ok(Self {
            deferred,
            key: flags & 0x0f,
            code: answer.u16(12).unwrap_or(0),
            information: information.map(|value| i64::from(value.cast_signed())),
            marks: flags & !0x1f,
        })
    }

    /// Parses the descriptor format (SPC-4 4.5.2).
    fn descriptors(answer: Answer<'_>, deferred: bool) -> Result<Self, DamageError> {
        const INFORMATION: u8 = 0x00;
        const STREAM_COMMANDS: u8 = 0x04;
        let mut sense = Self {
            deferred,
            key: answer.u8(1)? & 0x0f,
            code: answer.u16(2)?,
            information: None,
            marks: 0,
        };
        let end = (8 + usize::from(answer.u8(7)?)).min(answer.len());
        let mut at = 8;
        while at + 2 <= end {
            let next = at + 2 + usize::from(answer.u8(at + 1)?);
            if next > end {
                break;
            }
            match answer.u8(at)? {
                INFORMATION if answer.u8(at + 2)? & 0x80 != 0 => {
                    sense.information = Some(answer.u64(at + 4)?.cast_signed());
                }
                STREAM_COMMANDS => {
                    sense.marks = answer.u8(at + 3)? & !0x1f;
                }
                _ => {}
            }
            at = next;
        }
        Ok(sense)
    }

    /// Returns the condition. If the sense key does not determine it, the flags do (SSC-4 table 5).
    pub fn condition(&self) -> Condition {
        match self.key {
            key::NO_SENSE | key::RECOVERED => self.remark(),
            key::NOT_READY => Condition::NotReady(self.not_ready()),
            key::MEDIUM_ERROR if self.code == 0x0005 => Condition::EndOfData,
            // CANNOT READ MEDIUM, INCOMPATIBLE or UNKNOWN FORMAT, CLEANING CARTRIDGE.
            key::MEDIUM_ERROR if self.code >> 8 == 0x30 => {
                Condition::Refused(Refusal::IncompatibleMedium)
            }
            key::MEDIUM_ERROR => Condition::MediumError,
            key::HARDWARE_ERROR => Condition::HardwareError,
            key::ILLEGAL_REQUEST => Condition::Refused(self.refusal()),
            key::UNIT_ATTENTION => Condition::Attention(self.attention()),
            key::DATA_PROTECT => Condition::WriteProtected,
            key::BLANK_CHECK => Condition::EndOfData,
            key::VOLUME_OVERFLOW => Condition::EndOfMedium,
            key::ABORTED => Condition::Aborted,
            _ => Condition::Other,
        }
    }

    /// Returns true if the medium is at or after the early warning, or at its beginning after a
    /// move backwards.
    pub fn end_of_medium(&self) -> bool {
        self.has(END_OF_MEDIUM)
    }

    fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    fn remark(&self) -> Condition {
        match self.code {
            _ if self.has(FILEMARK) => Condition::Filemark,
            0x0005 => Condition::EndOfData,
            0x0004 => Condition::BeginningOfMedium,
            _ if self.has(INCORRECT_LENGTH) => Condition::IncorrectLength,
            _ if self.end_of_medium() => Condition::EarlyWarning,
            _ => Condition::Recovered,
        }
    }

    fn not_ready(&self) -> ReadinessFault {
        match self.code {
            0x0401 | 0x0407 | 0x0404 | 0x3e00 => ReadinessFault::Becoming,
            0x0402 => ReadinessFault::NeedsLoad,
            0x0403 | 0x0412 | 0x0418 | 0x0481 | 0x0483 => ReadinessFault::Intervention,
            0x3003 | 0x3007 => ReadinessFault::Cleaning,
            code if code >> 8 == 0x3a => ReadinessFault::NoMedium,
            _ => ReadinessFault::Other,
        }
    }

    fn attention(&self) -> Attention {
        match self.code >> 8 {
            0x28 if self.code == 0x2801 => Attention::ImportExport,
            0x28 => Attention::MediumChanged,
            0x29 => Attention::Reset,
            0x2a => Attention::Parameters,
            0x3f if self.code == 0x3f01 => Attention::Microcode,
            _ => Attention::Other,
        }
    }

    fn refusal(&self) -> Refusal {
        match self.code {
            0x2000 => Refusal::Command,
            0x2400 | 0x2401 | 0x1a00 => Refusal::Field,
            0x2101 => Refusal::ElementAddress,
            0x3b0d => Refusal::DestinationFull,
            0x3b0e => Refusal::SourceEmpty,
            0x5302 | 0x5303 | 0x3b12 => Refusal::RemovalPrevented,
            0x2500 => Refusal::NoSuchUnit,
            code if code >> 8 == 0x26 => Refusal::Field,
            code if code >> 8 == 0x30 => Refusal::IncompatibleMedium,
            _ => Refusal::Other,
        }
    }

    /// Returns true if the device asks to be cleaned: CLEANING REQUESTED (SPC-4 annex D).
    pub fn wants_cleaning(&self) -> bool {
        matches!(self.code, 0x0017 | 0x8282 | 0x8283)
    }
}

impl std::fmt::Display for Sense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [code, qualifier] = self.code.to_be_bytes();
        write!(f, "sense {:x}/{code:02x}/{qualifier:02x}", self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(key: u8, code: u16, information: Option<i32>) -> Vec<u8> {
        let valid = if information.is_some() { 0xf0 } else { 0x70 };
        let mut bytes = vec![valid, 0, key];
        bytes.extend(information.unwrap_or(0).to_be_bytes());
        bytes.extend([10, 0, 0, 0, 0]);
        bytes.extend(code.to_be_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    #[track_caller]
    fn check(key: u8, code: u16, expected: Condition) {
        let sense = Sense::parse(&fixed(key, code, None)).expect("whole");
        assert_eq!(sense.condition(), expected, "{sense}");
        let [asc, ascq] = code.to_be_bytes();
        let stream = [0x04, 2, 0, key & 0xe0];
        let bytes = [&[0x72, key & 0x0f, asc, ascq, 0, 0, 0, 4][..], &stream].concat();
        assert_eq!(Sense::parse(&bytes).map(|sense| sense.condition()), Ok(expected));
    }

    #[test]
    fn each_condition_is_told_in_both_formats() {
        check(0x40, 0x0002, Condition::EarlyWarning);
        check(0x4d, 0x0002, Condition::EndOfMedium);
        check(0x80, 0x0001, Condition::Filemark);
        check(0x20, 0, Condition::IncorrectLength);
        check(0x08, 0x0005, Condition::EndOfData);
        check(0x00, 0x0005, Condition::EndOfData);
        check(0x40, 0x0004, Condition::BeginningOfMedium);
        check(0x01, 0x0017, Condition::Recovered);
        check(0x02, 0x3a00, Condition::NotReady(ReadinessFault::NoMedium));
        check(0x02, 0x0401, Condition::NotReady(ReadinessFault::Becoming));
        check(0x02, 0x0402, Condition::NotReady(ReadinessFault::NeedsLoad));
        check(0x06, 0x2800, Condition::Attention(Attention::MediumChanged));
        check(0x06, 0x2801, Condition::Attention(Attention::ImportExport));
        check(0x06, 0x2904, Condition::Attention(Attention::Reset));
        check(0x03, 0x1100, Condition::MediumError);
        check(0x43, 0x0c00, Condition::MediumError);
        check(0x03, 0x3001, Condition::Refused(Refusal::IncompatibleMedium));
        check(0x04, 0x1501, Condition::HardwareError);
        check(0x05, 0x2000, Condition::Refused(Refusal::Command));
        check(0x05, 0x3b0e, Condition::Refused(Refusal::SourceEmpty));
        check(0x05, 0x5302, Condition::Refused(Refusal::RemovalPrevented));
        check(0x07, 0x2700, Condition::WriteProtected);
        check(0x0b, 0x4b00, Condition::Aborted);
    }

    #[test]
    fn information_has_a_sign_and_a_validity() {
        let sense = Sense::parse(&fixed(0x20, 0, Some(-4096))).expect("whole");
        assert_eq!(sense.information, Some(-4096));
        assert_eq!(Sense::parse(&fixed(0x20, 0, None)).expect("whole").information, None);
        let mut bytes = vec![0x73, 0, 0, 0, 0, 0, 0, 12, 0, 10, 0x80, 0];
        bytes.extend((-2_i64).to_be_bytes());
        let sense = Sense::parse(&bytes).expect("whole");
        assert_eq!((sense.information, sense.deferred), (Some(-2), true));
    }

    #[test]
    fn short_and_strange_sense_is_no_panic() {
        assert!(Sense::parse(&[]).is_err());
        assert!(Sense::parse(&[0x70, 0]).is_err());
        assert!(Sense::parse(&[0x7f, 0, 0]).is_err());
        let short = Sense::parse(&[0x70, 0, 0x06]).expect("three bytes have a key");
        assert_eq!(short.condition(), Condition::Attention(Attention::Other));
        for end in 0..20 {
            let bytes = [0x72, 0, 0, 0, 0, 0, 0, 12, 0, 10, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(Sense::parse(&bytes[..end]).is_ok(), end >= 8);
        }
    }
}

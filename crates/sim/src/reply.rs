//! Answers of a unit to commands.

use tape::transport::{Completion, Transfer, status};

/// A reason for the status CHECK CONDITION, which is reported as sense bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    key: u8,
    code: u16,
    marks: u8,
    information: Option<i32>,
}

pub(crate) const FILEMARK: u8 = 0x80;
pub(crate) const END_OF_MEDIUM: u8 = 0x40;
pub(crate) const INCORRECT_LENGTH: u8 = 0x20;

impl Check {
    pub(crate) const NO_MEDIUM: Self = Self::new(0x2, 0x3a00);
    pub(crate) const BECOMING_READY: Self = Self::new(0x2, 0x0401);
    pub(crate) const NEEDS_LOAD: Self = Self::new(0x2, 0x0402);
    pub(crate) const CLEANING_CARTRIDGE: Self = Self::new(0x2, 0x3003);
    pub(crate) const UNREADABLE: Self = Self::new(0x3, 0x1100);
    pub(crate) const HARDWARE: Self = Self::new(0x4, 0x4400);
    pub(crate) const JAMMED: Self = Self::new(0x4, 0x1501);
    pub(crate) const UNKNOWN_COMMAND: Self = Self::new(0x5, 0x2000);
    pub(crate) const WRONG_ELEMENT: Self = Self::new(0x5, 0x2101);
    pub(crate) const WRONG_FIELD: Self = Self::new(0x5, 0x2400);
    pub(crate) const DESTINATION_FULL: Self = Self::new(0x5, 0x3b0d);
    pub(crate) const SOURCE_EMPTY: Self = Self::new(0x5, 0x3b0e);
    pub(crate) const REMOVAL_PREVENTED: Self = Self::new(0x5, 0x5302);
    pub(crate) const MEDIUM_CHANGED: Self = Self::new(0x6, 0x2800);
    pub(crate) const PORTAL_OPENED: Self = Self::new(0x6, 0x2801);
    pub(crate) const RESET: Self = Self::new(0x6, 0x2900);
    pub(crate) const PROTECTED: Self = Self::new(0x7, 0x2700);
    pub(crate) const END_OF_DATA: Self = Self::new(0x8, 0x0005);
    pub(crate) const NEAR_END: Self = Self::new(0x0, 0x0002).marked(END_OF_MEDIUM);
    pub(crate) const OVERFLOW: Self = Self::new(0xd, 0x0002).marked(END_OF_MEDIUM);
    pub(crate) const AT_FILEMARK: Self = Self::new(0x0, 0x0001).marked(FILEMARK);
    pub(crate) const OTHER_LENGTH: Self = Self::new(0x0, 0x0000).marked(INCORRECT_LENGTH);
    pub(crate) const AT_BEGINNING: Self = Self::new(0x0, 0x0004).marked(END_OF_MEDIUM);

    const fn new(key: u8, code: u16) -> Self {
        Self { key, code, marks: 0, information: None }
    }

    const fn marked(self, marks: u8) -> Self {
        Self { marks, ..self }
    }

    /// Returns the same check with `information` in the INFORMATION field. The field stays invalid
    /// if the number needs more than 32 bits.
    pub(crate) fn about(self, information: i64) -> Self {
        Self { information: i32::try_from(information).ok(), ..self }
    }

    /// Returns the sense bytes: a current error in fixed format.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let valid = if self.information.is_some() { 0x80 } else { 0 };
        let mut bytes = vec![0x70 | valid, 0, self.key | self.marks];
        bytes.extend(self.information.unwrap_or(0).to_be_bytes());
        bytes.extend([10, 0, 0, 0, 0]);
        bytes.extend(self.code.to_be_bytes());
        bytes.extend([0; 4]);
        bytes
    }
}

/// Data for the host, and the check that ends the command, if any.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    pub(crate) check: Option<Check>,
}

/// A reply, or a check without data.
pub(crate) type Answer = Result<Reply, Check>;

impl Reply {
    pub(crate) fn good() -> Self {
        Self::default()
    }

    pub(crate) fn with(bytes: Vec<u8>) -> Self {
        Self { bytes, check: None }
    }

    /// Copies as much of the data into the host's buffer as fits, and returns the end of the
    /// command.
    pub(crate) fn deliver(self, transfer: Transfer<'_>) -> Completion {
        let mut residual = 0;
        if let Transfer::In(buffer) = transfer {
            let count = buffer.len().min(self.bytes.len());
            buffer[..count].copy_from_slice(&self.bytes[..count]);
            residual = (buffer.len() - count) as u64;
        }
        match self.check {
            None => Completion { residual, ..Completion::good() },
            Some(check) => {
                Completion { status: status::CHECK_CONDITION, sense: check.encode(), residual }
            }
        }
    }
}

/// Returns the big-endian number in the `count` bytes from `at` on.
pub(crate) fn field(cdb: &[u8], at: usize, count: usize) -> u64 {
    cdb[at..at + count]
        .iter()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

//! The abilities of drives.

use crate::scsi::{BlockLimits, log_page};

/// The command by which a drive goes to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocateMethod {
    Sixteen,
    Ten,
    /// SPACE from the beginning of the tape.
    Space,
}

/// The form in which a drive reports its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PositionMethod {
    Long,
    Short,
    /// The drive does not report its position: this program counts blocks.
    Count,
}

impl PositionMethod {
    /// Returns the method to try when the drive does not know this method.
    pub(super) fn simpler(self) -> Self {
        match self {
            Self::Long => Self::Short,
            Self::Short | Self::Count => Self::Count,
        }
    }
}

/// The abilities of one drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// Method that was tried with a tape; without a tape, the method that the drive's list of
    /// commands suggests.
    pub locate: LocateMethod,
    /// Method that was tried with a tape; `None` without a tape.
    pub tell: Option<PositionMethod>,
    /// Limits of the size of a block; `None` if the drive does not report them.
    pub block_limits: Option<BlockLimits>,
    /// Maximum number of segments in a list that the drive can put into the best order; 0 if the
    /// drive has no such command.
    pub order_blocks_max: u16,
    /// True if the drive reports the ends of wraps.
    pub knows_wraps: bool,
    /// True if the drive can read the memory of its cartridge; `None` without a tape.
    pub reads_cartridge_memory: Option<bool>,
    pub log_pages: Vec<u8>,
    /// True if the drive holds a tape that can be used.
    pub is_ready: bool,
}

impl Abilities {
    pub fn has_alerts(&self) -> bool {
        self.log_pages.contains(&log_page::TAPE_ALERT)
    }
}

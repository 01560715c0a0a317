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
    /// The drive reports none: this program counts.
    Count,
}

impl PositionMethod {
    /// Returns the method to try when the drive does not know this one.
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
    /// Method that was tried; without a tape, the method that the drive's list of commands
    /// suggests.
    pub locate: LocateMethod,
    /// Method that was tried; `None` without a tape.
    pub tell: Option<PositionMethod>,
    /// `None` from a drive that does not say.
    pub block_limits: Option<BlockLimits>,
    /// Number of blocks that the drive can put into the best order at once; 0 if it cannot.
    pub order_blocks_max: u16,
    /// True if the drive reports the ends of wraps.
    pub knows_wraps: bool,
    /// True if the drive reads the memory of its cartridge; `None` without a tape.
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

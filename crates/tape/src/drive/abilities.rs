//! What a drive can and cannot do, found out by asking and, where a tape is in it, by trying.

use super::{Drive, Locate, Tell};
use crate::device::CommandError;
use crate::medium::{Found, Medium as _};
use crate::scsi::{BlockLimits, Cdb, log_page, opcode};

/// What a drive can.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// How it goes to a block: as tried, or without a tape as it lists its commands.
    pub locate: Locate,
    /// How it tells where it is; `None` without a tape to try it on.
    pub tell: Option<Tell>,
    /// `None` from a drive that does not say.
    pub block_limits: Option<BlockLimits>,
    /// Blocks that it can put into the best order at once; 0 where it cannot.
    pub order_blocks_max: u16,
    /// Whether it says where wraps end.
    pub knows_wraps: bool,
    /// Whether it reads the memory of the cartridge in it; `None` without a tape.
    pub reads_cartridge_memory: Option<bool>,
    pub log_pages: Vec<u8>,
    /// Whether a tape is in it that can be used.
    pub is_ready: bool,
}

impl Abilities {
    pub fn has_alerts(&self) -> bool {
        self.log_pages.contains(&log_page::TAPE_ALERT)
    }
}

impl Drive {
    /// Finds out what the drive can. A tape in it is rewound, and its first block read.
    pub fn abilities(&mut self) -> Result<Abilities, CommandError> {
        let is_ready = self.is_ready()?;
        if is_ready {
            self.try_ways();
        }
        let wraps = opcode::READ_END_OF_WRAP.into();
        Ok(Abilities {
            locate: self.locate,
            tell: is_ready.then_some(self.tell),
            block_limits: self.block_limits()?,
            order_blocks_max: self.order_limits()?.map_or(0, |limits| limits.segments_max),
            knows_wraps: self.device.lists(opcode::MAINTENANCE_IN)
                && self.device.may_know(opcode::MAINTENANCE_IN, Some(wraps)),
            reads_cartridge_memory: self.cartridge_memory(is_ready)?,
            log_pages: self.log_pages()?,
            is_ready,
        })
    }

    /// Going somewhere and asking where that is shows which ways the drive has. An error is one of
    /// the tape, about which nobody has asked.
    fn try_ways(&mut self) {
        let mut block = vec![0; 64 << 10];
        let tried = self.load().and_then(|()| match self.read(&mut block)? {
            Found::EndOfData => Ok(()),
            _ => {
                let _next = self.read(&mut block)?;
                self.locate(1)
            }
        });
        let _rewound = tried.and_then(|()| self.rewind());
    }

    fn block_limits(&mut self) -> Result<Option<BlockLimits>, CommandError> {
        let mut limits = [0; 6];
        match self.device.query(&Cdb::read_block_limits(), &mut limits) {
            Ok(()) => Ok(Some(BlockLimits::parse(&limits)?)),
            Err(error) if error.is_refused() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn cartridge_memory(&mut self, is_ready: bool) -> Result<Option<bool>, CommandError> {
        if !is_ready {
            return Ok(None);
        }
        Ok(Some(!self.attributes(0)?.is_empty()))
    }
}

//! Detection of a drive's abilities: by questions to the drive and, with a tape in it, by trials.

use super::Drive;
use super::abilities::Abilities;
use crate::device::CommandError;
use crate::medium::{Medium as _, ReadOutcome};
use crate::scsi::{BlockLimits, Cdb, opcode};

impl Drive {
    /// Detects the abilities of the drive. A tape in the drive is rewound, and its first blocks are
    /// read.
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

    /// Tries the methods of the drive: goes to a block, and asks for the position. An error means
    /// that the tape is damaged, which does not matter here.
    fn try_ways(&mut self) {
        let mut block = vec![0; 64 << 10];
        let tried = self.load().and_then(|()| match self.read(&mut block)? {
            ReadOutcome::EndOfData => Ok(()),
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

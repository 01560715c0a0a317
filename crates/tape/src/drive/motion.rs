//! Moves of the tape.

use super::Drive;
use super::abilities::{LocateMethod, PositionMethod};
use crate::device::CommandError;
use crate::medium::{MediumError, WriteOutcome};
use crate::scsi::{Attention, Cdb, Condition, SpaceCode, long_position, opcode, short_position};
use crate::transport::Transfer;

/// Largest count in one SPACE(6) command.
const SPACE_6_MAX: u64 = (1 << 23) - 1;
/// Number of bytes of a read that only has to show the kind of the next item. The drive reports if
/// the block is longer.
const PEEK_BYTES: u32 = 512;

impl Drive {
    pub(super) fn go_to_beginning(&mut self) -> Result<(), MediumError> {
        self.place = None;
        let rewound = self.device.order(&Cdb::rewind());
        // A rewind leads to the beginning of the medium in the drive, after any disturbance.
        rewound.map_err(|error| self.judge(error))?;
        self.refuse_another_medium()?;
        self.place = Some(0);
        Ok(())
    }

    /// Forgets a reset, which does not matter after a move to a known position. Fails if another
    /// medium was put in.
    fn refuse_another_medium(&mut self) -> Result<(), MediumError> {
        if self.device.disturbed() == Some(Attention::MediumChanged) {
            return Err(MediumError::PositionLost);
        }
        self.device.settle();
        Ok(())
    }

    pub(super) fn go_to_block(&mut self, block: u64) -> Result<(), MediumError> {
        if self.place == Some(block) && self.device.disturbed().is_none() {
            return Ok(());
        }
        if block == 0 {
            return self.go_to_beginning();
        }
        self.place = None;
        self.send_locate(block)?;
        self.refuse_another_medium()?;
        let found = match self.ask_place() {
            Ok(found) => found.unwrap_or(block),
            Err(error) => return Err(self.judge(error)),
        };
        self.place = Some(found);
        if found == block { Ok(()) } else { Err(MediumError::WrongPlace { wanted: block, found }) }
    }

    fn send_locate(&mut self, block: u64) -> Result<(), MediumError> {
        loop {
            let target = block + self.base;
            let (cdb, simpler) = match (self.locate, u32::try_from(target)) {
                (LocateMethod::Space, _) => return self.space_from_beginning(block),
                (LocateMethod::Ten, Ok(short)) => (Cdb::locate_10(short), LocateMethod::Space),
                // Only LOCATE(16) can name a block with so high a number.
                (LocateMethod::Ten, Err(_)) => {
                    return Err(MediumError::EndOfData { position: block });
                }
                (LocateMethod::Sixteen, _) => (Cdb::locate_16(target), LocateMethod::Ten),
            };
            match self.device.order(&cdb) {
                Ok(()) => return Ok(()),
                Err(error) if error.is_refused() => self.locate = simpler,
                Err(error) => return Err(self.failed_locate(error, block)),
            }
        }
    }

    fn failed_locate(&mut self, error: CommandError, block: u64) -> MediumError {
        match self.lost_track(error) {
            MediumError::EndOfData { .. } => MediumError::EndOfData { position: block },
            MediumError::Damaged { .. } => MediumError::Damaged { position: block },
            other => other,
        }
    }

    /// Goes to `block` with SPACE: skips all items before it except the last, and reads the last
    /// item. The read is needed because one known target reports an error if a skip ends exactly at
    /// the end of data. If the last item cannot be read, it is skipped as well.
    fn space_from_beginning(&mut self, block: u64) -> Result<(), MediumError> {
        assert!(block > 0, "a rewind leads to block 0");
        self.skip_from_beginning(block - 1, block)?;
        match self.peek() {
            Ok(true) => Ok(()),
            Ok(false) => Err(MediumError::EndOfData { position: block }),
            Err(MediumError::Damaged { .. }) => self.skip_from_beginning(block, block),
            Err(error) => Err(error),
        }
    }

    /// Skips `count` blocks and filemarks from the beginning. Errors name `block` as the target.
    fn skip_from_beginning(&mut self, count: u64, block: u64) -> Result<(), MediumError> {
        self.go_to_beginning()?;
        let mut left = count;
        while left > 0 {
            left -= self.space_blocks(left, block)?;
        }
        Ok(())
    }

    /// Skips up to `left` blocks and filemarks; returns the number of skipped items. A drive that
    /// meets a filemark stops after it, and reports how many items it has not skipped.
    fn space_blocks(&mut self, left: u64, block: u64) -> Result<u64, MediumError> {
        let (cdb, step) = self.space_command(left);
        debug_assert!((1..=left).contains(&step), "no more items are skipped than requested");
        let Err(error) = self.device.once(&cdb, Transfer::None) else { return Ok(step) };
        let CommandError::Check { sense, .. } = &error else {
            return Err(self.failed_locate(error, block));
        };
        let left = sense.information.and_then(|left| u64::try_from(left).ok());
        match (sense.condition(), left) {
            // The drive does not count the filemark as skipped.
            (Condition::Filemark, Some(left)) if (1..=step).contains(&left) => Ok(step - left + 1),
            _ => Err(self.failed_locate(error, block)),
        }
    }

    /// Returns the command that skips `left` blocks, or as many as one command can, and the number
    /// of blocks that it skips.
    fn space_command(&self, left: u64) -> (Cdb, u64) {
        debug_assert!(left > 0, "at least one block is skipped");
        match i64::try_from(left) {
            Ok(count) if self.device.lists(opcode::SPACE_16) => {
                (Cdb::space_16(SpaceCode::Blocks, count), left)
            }
            _ => {
                let count = left.min(SPACE_6_MAX);
                let short = i32::try_from(count).expect("bounded by SPACE(6)");
                (Cdb::space_6(SpaceCode::Blocks, short), count)
            }
        }
    }

    /// Skips the next block or filemark; returns false at the end of data.
    fn peek(&mut self) -> Result<bool, MediumError> {
        let mut buffer = [0; PEEK_BYTES as usize];
        match self.device.once(&Cdb::read(PEEK_BYTES), Transfer::In(&mut buffer)) {
            Ok(()) => Ok(true),
            Err(error) => match error.condition() {
                Some(
                    Condition::IncorrectLength | Condition::Filemark | Condition::EarlyWarning,
                ) => Ok(true),
                Some(Condition::EndOfData) => Ok(false),
                _ => Err(self.lost_track(error)),
            },
        }
    }

    pub(super) fn go_to_end(&mut self) -> Result<(), MediumError> {
        if self.place.is_none() || self.tell == PositionMethod::Count {
            self.go_to_beginning()?;
            // This shows whether the drive reports positions.
            if let Err(error) = self.ask_place() {
                return Err(self.judge(error));
            }
        }
        if self.tell == PositionMethod::Count {
            return self.count_to_end();
        }
        self.place = None;
        let spaced = self.device.order(&Cdb::space_6(SpaceCode::EndOfData, 0));
        if let Err(error) = spaced {
            return Err(self.lost_track(error));
        }
        self.refuse_another_medium()?;
        match self.ask_place() {
            Ok(place) => {
                self.place = place;
                place.map(drop).ok_or(MediumError::PositionLost)
            }
            Err(error) => Err(self.judge(error)),
        }
    }

    /// Goes to the end with one command for each block, for drives that report no positions.
    fn count_to_end(&mut self) -> Result<(), MediumError> {
        let mut place = self.here()?;
        while self.peek()? {
            place += 1;
        }
        self.place = Some(place);
        Ok(())
    }

    /// Returns the position that the drive reports, counted from 0; `None` if it reports none.
    pub(super) fn ask_place(&mut self) -> Result<Option<u64>, CommandError> {
        Ok(self.ask_raw_place()?.map(|raw| raw.saturating_sub(self.base)))
    }

    fn ask_raw_place(&mut self) -> Result<Option<u64>, CommandError> {
        loop {
            let mut answer = [0; 32];
            let (cdb, bytes) = match self.tell {
                PositionMethod::Long => (Cdb::read_position_long(), 32),
                PositionMethod::Short => (Cdb::read_position_short(), 20),
                PositionMethod::Count => return Ok(None),
            };
            match self.device.query(&cdb, &mut answer[..bytes]) {
                Ok(()) => {}
                Err(error) if error.is_refused() => {
                    self.tell = self.tell.simpler();
                    continue;
                }
                Err(error) => return Err(error),
            }
            let raw = match self.tell {
                PositionMethod::Long => long_position(&answer)?,
                _ => short_position(&answer)?,
            };
            if raw.is_some() {
                return Ok(raw);
            }
            self.tell = self.tell.simpler();
        }
    }

    /// Counts one block or filemark that was passed. After the first item of a medium, learns how
    /// the drive counts.
    pub(super) fn moved_on(&mut self, place: u64) -> Result<(), MediumError> {
        debug_assert!(place < u64::MAX, "positions do not wrap round");
        self.place = Some(place + 1);
        if place == 0 {
            let learned = self.learn_base();
            learned.map_err(|error| self.lost_track(error))?;
        }
        Ok(())
    }

    /// Learns how the drive counts. After the first block, a drive that counts from 0 reports 1,
    /// and a drive that counts from 1 reports 2. Any other position means that the drive has not
    /// understood the question.
    fn learn_base(&mut self) -> Result<(), CommandError> {
        while let Some(raw) = self.ask_raw_place()? {
            if let 1..=2 = raw {
                self.base = raw - 1;
                return Ok(());
            }
            self.tell = self.tell.simpler();
        }
        Ok(())
    }

    /// Converts the result of writing a block or filemark at `place`, and updates the position.
    pub(super) fn wrote(
        &mut self,
        place: u64,
        result: Result<(), CommandError>,
    ) -> Result<WriteOutcome, MediumError> {
        let written = match result {
            Ok(()) => WriteOutcome::Whole,
            Err(CommandError::Check { sense, .. })
                if sense.condition() == Condition::EarlyWarning && !sense.deferred =>
            {
                WriteOutcome::NearEnd
            }
            Err(error) => return Err(self.lost_track(error)),
        };
        self.moved_on(place)?;
        Ok(written)
    }
}

//! A tape drive: its abilities, the position of its tape, and the meaning of its errors.
//!
//! Invariants:
//! 1. `place` is the position of the next read or write, or `None` if the position is unknown.
//!    After every error the drive is asked for its position again; after a move by an unknown
//!    distance the position is never computed.
//! 2. The drive itself shows its abilities: it lists its commands, or refuses a command. After a
//!    refusal the next simpler command is used from then on: LOCATE(16), LOCATE(10), SPACE from the
//!    beginning; for the position, READ POSITION in its long form, in its short form, or counting
//!    by this program.
//! 3. A residual that says that bytes are missing is never trusted: the block is read again.

mod abilities;
mod motion;
mod probe;
mod talk;

use std::sync::Arc;
use std::time::Duration;

use crate::device::{CommandError, Device, Identity};
use crate::line::Line;
use crate::medium::{Medium, MediumError, ReadOutcome, WriteOutcome};
use crate::scsi::{
    BlockLimits, Cdb, Condition, DeviceKind, ModeHeader, ReadinessFault, TapeAlert,
    mode_select_variable, opcode, without_compression,
};
use crate::transport::{ScsiTransport, Transfer};

pub use abilities::{Abilities, LocateMethod, PositionMethod};

/// Pause between two checks of a drive that is loading.
const READY_WAIT: Duration = Duration::from_millis(500);
/// Maximum number of checks of a drive that is loading. Together they take two and a half hours,
/// enough for the first load of an LTO-9 medium (see `device`).
const READY_LOOKS_MAX: u32 = 18_000;

/// A tape drive.
pub struct Drive {
    device: Device,
    identity: Identity,
    locate: LocateMethod,
    tell: PositionMethod,
    /// Number that the drive adds to block numbers: one known kind of drive counts from 1.
    base: u64,
    /// True if UNLOAD needs the bit that ejects the medium of a disk drive.
    unloads_as_disk: bool,
    block_bytes_max: u32,
    place: Option<u64>,
    alerts: Vec<TapeAlert>,
}

impl Drive {
    /// Opens the drive at the other end of `transport`, with or without a tape in the drive.
    pub fn open(transport: Box<dyn ScsiTransport>) -> Result<Self, CommandError> {
        let mut device = Device::open(transport)?;
        let identity = device.identity()?;
        if identity.inquiry.kind != DeviceKind::Tape {
            return Err(CommandError::Answer(format::DamageError {
                what: "inquiry",
                why: "the device is not a tape drive",
            }));
        }
        let locate = match [opcode::LOCATE_16, opcode::LOCATE_10].map(|o| device.may_know(o, None))
        {
            [true, _] => LocateMethod::Sixteen,
            [false, true] => LocateMethod::Ten,
            [false, false] => LocateMethod::Space,
        };
        Ok(Self {
            device,
            identity,
            locate,
            tell: PositionMethod::Long,
            base: 0,
            unloads_as_disk: false,
            block_bytes_max: 0,
            place: None,
            alerts: Vec::new(),
        })
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the methods by which the drive locates blocks and reports positions, as far as they
    /// are known.
    pub fn ways(&self) -> (LocateMethod, PositionMethod) {
        (self.locate, self.tell)
    }

    /// Returns the line to the drive, if a line is made again after it was cut.
    pub fn line(&self) -> Option<Arc<Line>> {
        self.device.line()
    }

    /// Returns true if the drive was reset, its line was cut or its medium was changed since the
    /// medium was made ready.
    pub fn is_disturbed(&self) -> bool {
        self.device.disturbed().is_some() || self.device.was_cut()
    }

    /// Returns true if a medium is in the drive and can be used.
    pub fn is_ready(&mut self) -> Result<bool, CommandError> {
        match self.device.order(&Cdb::test_unit_ready()) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.condition(), Some(Condition::NotReady(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until the medium in the drive can be used. Then sets up the drive (blocks of variable
    /// length, no compression) and rewinds.
    pub fn load(&mut self) -> Result<(), MediumError> {
        self.place = None;
        self.wait_until_ready()?;
        self.device.settle();
        self.set_up().map_err(|error| self.judge(error))?;
        self.rewind()
    }

    fn wait_until_ready(&mut self) -> Result<(), MediumError> {
        let mut asked_to_load = false;
        for _ in 0..READY_LOOKS_MAX {
            let Err(error) = self.device.order(&Cdb::test_unit_ready()) else { return Ok(()) };
            match error.condition() {
                Some(Condition::NotReady(ReadinessFault::NeedsLoad)) if !asked_to_load => {
                    asked_to_load = true;
                    self.send_load()?;
                }
                Some(Condition::NotReady(ReadinessFault::Becoming | ReadinessFault::NeedsLoad)) => {
                    self.device.wait(READY_WAIT);
                }
                Some(Condition::NotReady(ReadinessFault::NoMedium)) => {
                    return Err(MediumError::NoMedium);
                }
                _ => return Err(self.judge(error)),
            }
        }
        Err(MediumError::failed(CommandError::Timeout { opcode: opcode::TEST_UNIT_READY }))
    }

    fn send_load(&mut self) -> Result<(), MediumError> {
        let cdb = Cdb::load(self.unloads_as_disk);
        self.device.order(&cdb).map_err(|error| self.judge(error))
    }

    fn set_up(&mut self) -> Result<(), CommandError> {
        let mut limits = [0; 6];
        self.device.query(&Cdb::read_block_limits(), &mut limits)?;
        let by_drive = BlockLimits::parse(&limits)?.bytes_max;
        let by_way = self.device.transfer_bytes_max().unwrap_or(u32::MAX);
        self.block_bytes_max = by_drive.min(by_way);
        let header = self.mode_header()?;
        let select = mode_select_variable(header.density);
        // MODE SELECT is sent only if the setting is wrong, because not all targets know this
        // command.
        if header.block_bytes != 0 {
            self.device.send(&Cdb::mode_select(12), &select)?;
        }
        self.compression_off()
    }

    fn mode_header(&mut self) -> Result<ModeHeader, CommandError> {
        let mut sensed = [0; 12];
        self.device.query(&Cdb::mode_sense(0, 12), &mut sensed)?;
        Ok(ModeHeader::parse(&sensed)?)
    }

    /// Switches compression off. A drive without the compression page does not compress.
    fn compression_off(&mut self) -> Result<(), CommandError> {
        const PAGE: u8 = 0x0f;
        let mut sensed = [0; 64];
        match self.device.query(&Cdb::mode_sense(PAGE, 64), &mut sensed) {
            Ok(()) => {}
            Err(error) if error.is_refused() => return Ok(()),
            Err(error) => return Err(error),
        }
        let Ok(Some(select)) = without_compression(&sensed) else { return Ok(()) };
        let length = u8::try_from(select.len()).expect("the page is 16 bytes long");
        self.device.send(&Cdb::mode_select(length), &select)
    }

    /// Rewinds and releases the medium, so that the changer can take it.
    pub fn unload(&mut self) -> Result<(), MediumError> {
        self.place = None;
        let unloaded = self.send_unload();
        self.device.settle();
        unloaded.map_err(|error| self.judge(error))
    }

    fn send_unload(&mut self) -> Result<(), CommandError> {
        self.device.order(&Cdb::prevent_removal(false))?;
        self.device.order(&Cdb::unload(self.unloads_as_disk))?;
        if self.unloads_as_disk || !self.is_ready()? {
            return Ok(());
        }
        self.unloads_as_disk = true;
        self.device.order(&Cdb::unload(true))
    }

    /// Prevents the removal of the medium, or allows it.
    pub fn prevent_removal(&mut self, prevent: bool) -> Result<(), MediumError> {
        let ordered = self.device.order(&Cdb::prevent_removal(prevent));
        ordered.map_err(|error| self.judge(error))
    }

    /// Converts the error of a command to an error of the medium. Asks the drive for alerts if the
    /// error may have raised some.
    fn judge(&mut self, error: CommandError) -> MediumError {
        let position = self.place.unwrap_or(0);
        match error.condition() {
            Some(Condition::EndOfMedium) => MediumError::EndOfMedium,
            Some(Condition::WriteProtected) => MediumError::WriteProtected,
            Some(Condition::EndOfData) => MediumError::EndOfData { position },
            Some(Condition::NotReady(ReadinessFault::NoMedium)) => MediumError::NoMedium,
            Some(Condition::Attention(_)) => MediumError::PositionLost,
            // The device may have been reset. The caller makes the medium ready again.
            None if matches!(error, CommandError::Cut { .. }) => MediumError::PositionLost,
            Some(Condition::MediumError) => {
                self.look_for_alerts();
                MediumError::Damaged { position }
            }
            _ => {
                self.look_for_alerts();
                MediumError::failed(error)
            }
        }
    }

    /// Converts the error of a command to an error of the medium, and asks the drive for its
    /// position after the error.
    fn lost_track(&mut self, error: CommandError) -> MediumError {
        let judged = self.judge(error);
        self.place =
            if self.tell == PositionMethod::Count { None } else { self.ask_place().ok().flatten() };
        judged
    }

    fn here(&mut self) -> Result<u64, MediumError> {
        if self.device.disturbed().is_some() {
            self.place = None;
        }
        self.place.ok_or(MediumError::PositionLost)
    }

    /// Reads the block at `place` again, which is exactly as long as `buffer`.
    fn read_again(&mut self, place: u64, buffer: &mut [u8]) -> Result<(), MediumError> {
        assert!(!buffer.is_empty(), "a block that is read again has bytes");
        self.place = None;
        self.go_to_block(place)?;
        let bytes = u32::try_from(buffer.len()).expect("bounded by the field of READ");
        match self.device.once(&Cdb::read(bytes), Transfer::In(buffer)) {
            Ok(()) => Ok(()),
            Err(error) if error.condition() == Some(Condition::EarlyWarning) => Ok(()),
            Err(error) => Err(self.lost_track(error)),
        }
    }

    /// Completes the read of a block whose length differs from the length of the buffer.
    fn other_length(
        &mut self,
        place: u64,
        error: &CommandError,
        buffer: &mut [u8],
    ) -> Result<ReadOutcome, MediumError> {
        let CommandError::Check { sense, residual, .. } = error else {
            return Ok(ReadOutcome::Block { bytes: buffer.len() });
        };
        let asked = i64::try_from(buffer.len()).expect("bounded by the field of READ");
        let bytes = asked.saturating_sub(sense.information.unwrap_or(0));
        let bytes = usize::try_from(bytes).unwrap_or(0);
        if bytes > buffer.len() {
            return Ok(ReadOutcome::LongBlock { bytes });
        }
        // One known target reports, as the residual, the number of bytes that it has sent. If bytes
        // may be missing according to the residual, the block is read again.
        let moved = buffer.len().saturating_sub(usize::try_from(*residual).unwrap_or(0));
        debug_assert!(
            bytes <= buffer.len() && moved <= buffer.len(),
            "the block lies within the buffer"
        );
        if moved < bytes {
            self.read_again(place, &mut buffer[..bytes])?;
        }
        Ok(ReadOutcome::Block { bytes })
    }
}

impl Medium for Drive {
    fn rewind(&mut self) -> Result<(), MediumError> {
        self.go_to_beginning()
    }

    fn locate(&mut self, position: u64) -> Result<(), MediumError> {
        self.go_to_block(position)
    }

    fn locate_end(&mut self) -> Result<(), MediumError> {
        self.go_to_end()
    }

    fn locate_last_block(&mut self) -> Result<bool, MediumError> {
        self.go_to_end()?;
        let Some(last) = self.here()?.checked_sub(2) else { return Ok(false) };
        self.go_to_block(last)?;
        Ok(true)
    }

    fn position(&mut self) -> Result<u64, MediumError> {
        self.here()
    }

    fn distrust(&mut self) {
        self.place = None;
    }

    fn make_ready(&mut self) -> Result<(), MediumError> {
        self.load()
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<ReadOutcome, MediumError> {
        let place = self.here()?;
        let bytes = u32::try_from(buffer.len()).expect("bounded by the field of READ");
        let found = match self.device.once(&Cdb::read(bytes), Transfer::In(buffer)) {
            Ok(()) => ReadOutcome::Block { bytes: buffer.len() },
            Err(error) => match error.condition() {
                Some(Condition::EarlyWarning) => ReadOutcome::Block { bytes: buffer.len() },
                Some(Condition::IncorrectLength) => self.other_length(place, &error, buffer)?,
                Some(Condition::Filemark) => ReadOutcome::Filemark,
                Some(Condition::EndOfData) => return Ok(ReadOutcome::EndOfData),
                _ => return Err(self.lost_track(error)),
            },
        };
        self.moved_on(place)?;
        Ok(found)
    }

    fn write(&mut self, block: &[u8]) -> Result<WriteOutcome, MediumError> {
        let place = self.here()?;
        let bytes = u32::try_from(block.len()).expect("bounded by the field of WRITE");
        let result = self.device.once(&Cdb::write(bytes), Transfer::Out(block));
        self.wrote(place, result)
    }

    fn mark(&mut self) -> Result<WriteOutcome, MediumError> {
        let place = self.here()?;
        let result = self.device.once(&Cdb::write_filemarks(1), Transfer::None);
        self.wrote(place, result)
    }

    fn is_write_protected(&mut self) -> Result<bool, MediumError> {
        match self.mode_header() {
            Ok(header) => Ok(header.write_protected),
            Err(error) => Err(self.judge(error)),
        }
    }

    fn block_bytes_max(&self) -> u32 {
        self.block_bytes_max
    }

    fn remaining_bytes(&mut self) -> Result<Option<u64>, MediumError> {
        match self.capacity() {
            Ok(capacity) => Ok(capacity.map(|capacity| capacity.remaining_bytes)),
            Err(error) => Err(self.judge(error)),
        }
    }
}

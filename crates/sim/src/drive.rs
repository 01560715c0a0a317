//! A simulated drive: its state, and its answers to SCSI commands.

mod pages;

use std::collections::BTreeSet;

use tape::scsi::opcode;

use crate::attention::{report_first, report_not_ready};
use crate::cartridge::{Cartridge, Recording};
use crate::clockwork::{Motion, Spot};
use crate::reply::{Answer, Check, Reply, field};

/// A drive's identity and abilities.
#[derive(Clone, Debug)]
pub struct DriveModel {
    pub serial: String,
    pub block_bytes_max: u32,
    /// Operation codes that this drive refuses, although the simulator implements them.
    pub refused: BTreeSet<u8>,
}

impl DriveModel {
    /// Returns a drive that knows all commands and takes blocks of up to 8 MiB.
    pub fn new(serial: &str) -> Self {
        Self { serial: serial.to_owned(), block_bytes_max: 8 << 20, refused: BTreeSet::new() }
    }

    /// Returns the same drive, which also refuses the commands `refused`.
    #[must_use]
    pub fn without(mut self, refused: &[u8]) -> Self {
        self.refused.extend(refused);
        self
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mechanism {
    Unloaded,
    Loaded,
    /// A cleaning cartridge is in the drive and has cleaned it.
    Cleaned,
}

/// A drive with its cartridge.
pub(crate) struct DriveUnit {
    pub(crate) model: DriveModel,
    pub(crate) cartridge: Option<Cartridge>,
    pub(crate) source: Option<u16>,
    mechanism: Mechanism,
    block: u64,
    pub(crate) is_dead: bool,
    pub(crate) is_silent: bool,
    pub(crate) is_unplugged: bool,
    /// Number of further commands that the drive answers with "becoming ready".
    pub(crate) loading: u32,
    /// Number of blocks by which the next LOCATE goes too far.
    pub(crate) locate_off: u64,
    /// Error of the position that READ POSITION reports, in blocks. It is above 0 after a LOCATE
    /// that went too far without the drive noticing.
    unnoticed: u64,
    settings: Settings,
    alerts: BTreeSet<u16>,
    /// Recommended access order: the segments of the host's list, sorted by block.
    recommended: Vec<u8>,
    /// Conditions to report, oldest first.
    conditions: Vec<Check>,
    motions: Vec<Motion>,
}

/// Settings that a host makes. A reset of the drive restores their defaults.
#[derive(Clone, Copy, Default)]
struct Settings {
    keeps_medium: bool,
    is_uncompressed: bool,
}

impl DriveUnit {
    pub(crate) fn new(model: DriveModel) -> Self {
        Self {
            model,
            cartridge: None,
            source: None,
            mechanism: Mechanism::Unloaded,
            block: 0,
            is_dead: false,
            is_silent: false,
            is_unplugged: false,
            loading: 0,
            locate_off: 0,
            unnoticed: 0,
            settings: Settings::default(),
            alerts: BTreeSet::new(),
            recommended: Vec::new(),
            conditions: vec![Check::RESET],
            motions: Vec::new(),
        }
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.mechanism == Mechanism::Loaded
    }

    pub(crate) fn insert(&mut self, cartridge: Cartridge, source: Option<u16>) {
        let is_cleaning = cartridge.is_cleaning;
        self.cartridge = Some(cartridge);
        self.source = source;
        if is_cleaning {
            self.mechanism = Mechanism::Cleaned;
            self.alerts.clear();
            self.motions.push(Motion::Cleaning);
        } else {
            self.load();
        }
    }

    pub(crate) fn remove(&mut self) -> Option<Cartridge> {
        self.mechanism = Mechanism::Unloaded;
        self.cartridge.take()
    }

    fn load(&mut self) {
        self.mechanism = Mechanism::Loaded;
        self.block = 0;
        self.unnoticed = 0;
        self.conditions.push(Check::MEDIUM_CHANGED);
        self.motions.push(Motion::Load);
    }

    pub(crate) fn reset(&mut self) {
        self.block = 0;
        self.unnoticed = 0;
        self.settings = Settings::default();
        self.conditions.push(Check::RESET);
    }

    pub(crate) fn alert(&mut self, number: u16) {
        self.alerts.insert(number);
    }

    pub(crate) fn take_motions(&mut self) -> Vec<Motion> {
        std::mem::take(&mut self.motions)
    }

    pub(crate) fn execute(&mut self, cdb: &[u8], parameters: &[u8]) -> Answer {
        report_first(&mut self.conditions, cdb[0])?;
        if self.model.refused.contains(&cdb[0]) {
            return Err(Check::UNKNOWN_COMMAND);
        }
        match cdb[0] {
            opcode::INQUIRY => self.inquiry(cdb),
            opcode::REQUEST_SENSE => Ok(Reply::with(self.sense())),
            opcode::READ_BLOCK_LIMITS => Ok(Reply::with(self.block_limits())),
            opcode::MODE_SENSE_6 => self.mode_sense(cdb),
            opcode::MODE_SELECT_6 => self.mode_select(parameters),
            opcode::LOG_SENSE => self.log_sense(cdb),
            opcode::REPORT_DENSITY_SUPPORT => Ok(Reply::with(Self::densities())),
            opcode::MAINTENANCE_IN => self.maintenance_in(cdb),
            opcode::PREVENT_ALLOW_MEDIUM_REMOVAL => {
                self.settings.keeps_medium = cdb[4] & 1 != 0;
                Ok(Reply::good())
            }
            opcode::LOAD_UNLOAD => self.load_or_unload(cdb),
            _ => self.with_medium(cdb, parameters),
        }
    }

    fn ready(&self) -> Result<(), Check> {
        match (&self.cartridge, self.mechanism) {
            (None, _) => Err(Check::NO_MEDIUM),
            (_, Mechanism::Unloaded) => Err(Check::NEEDS_LOAD),
            (_, Mechanism::Cleaned) => Err(Check::CLEANING_CARTRIDGE),
            (_, Mechanism::Loaded) => Ok(()),
        }
    }

    fn with_medium(&mut self, cdb: &[u8], parameters: &[u8]) -> Answer {
        self.ready()?;
        report_not_ready(&mut self.loading)?;
        if cdb[0] == opcode::TEST_UNIT_READY {
            return Ok(Reply::good());
        }
        if self.is_dead {
            self.alerts.insert(30);
            return Err(Check::HARDWARE);
        }
        match cdb[0] {
            opcode::REWIND => Ok(self.go(0)),
            opcode::READ_6 => self.read(cdb),
            opcode::WRITE_6 => self.write(parameters),
            opcode::WRITE_FILEMARKS_6 => self.write_filemarks(cdb),
            opcode::SPACE_6 => self.space(cdb[1] & 0x0f, signed(field(cdb, 2, 3), 24)),
            opcode::SPACE_16 => self.space(cdb[1] & 0x0f, signed(field(cdb, 4, 8), 64)),
            opcode::LOCATE_10 => self.locate(field(cdb, 3, 4)),
            opcode::LOCATE_16 => self.locate(field(cdb, 4, 8)),
            opcode::READ_POSITION => self.read_position(cdb),
            opcode::READ_ATTRIBUTE => self.read_attributes(cdb),
            opcode::WRITE_ATTRIBUTE => self.write_attributes(parameters),
            opcode::MAINTENANCE_OUT => self.put_in_order(cdb, parameters),
            _ => Err(Check::UNKNOWN_COMMAND),
        }
    }

    fn tape(&self) -> &Cartridge {
        self.cartridge.as_ref().expect("a drive that is ready has a cartridge")
    }

    fn tape_mut(&mut self) -> &mut Cartridge {
        self.cartridge.as_mut().expect("a drive that is ready has a cartridge")
    }

    fn spot(&self) -> Spot {
        self.tape().spot(self.block)
    }

    fn go(&mut self, block: u64) -> Reply {
        let (from, to) = (self.spot(), self.tape().spot(block));
        self.motions.push(Motion::Position { from, to });
        self.block = block;
        self.unnoticed = 0;
        Reply::good()
    }

    fn load_or_unload(&mut self, cdb: &[u8]) -> Answer {
        let cartridge = self.cartridge.as_ref().ok_or(Check::NO_MEDIUM)?;
        let wants_load = cdb[4] & 1 != 0;
        if wants_load && self.mechanism == Mechanism::Unloaded {
            self.load();
        } else if !wants_load && self.is_loaded() {
            if self.settings.keeps_medium {
                return Err(Check::REMOVAL_PREVENTED);
            }
            let from = cartridge.spot(self.block);
            self.motions.push(Motion::Unload { from });
            self.mechanism = Mechanism::Unloaded;
        }
        Ok(Reply::good())
    }

    fn read(&mut self, cdb: &[u8]) -> Answer {
        const FIXED: u8 = 1;
        if cdb[1] & FIXED != 0 {
            return Err(Check::WRONG_FIELD);
        }
        let asked = field(cdb, 2, 3).cast_signed();
        let at = self.spot();
        let recording = self.tape().recording(self.block).ok_or(Check::END_OF_DATA.about(asked))?;
        let is_bad = self.tape().bad_blocks.contains(&self.block);
        self.block += 1;
        if is_bad {
            self.alerts.insert(4);
            return Err(Check::UNREADABLE.about(asked));
        }
        let Recording::Block(bytes) = recording else {
            return Err(Check::AT_FILEMARK.about(asked));
        };
        self.motions.push(Motion::Read { at, bytes: bytes.len() as u64 });
        let length = i64::try_from(bytes.len()).expect("blocks are short");
        let check = (length != asked).then(|| Check::OTHER_LENGTH.about(asked - length));
        Ok(Reply { bytes, check })
    }

    /// Cuts off the tape at the present position, and checks that `bytes` more fit on it. Returns
    /// true if these bytes lie beyond the early warning.
    fn room(&mut self, bytes: u64) -> Result<bool, Check> {
        let block = self.block;
        let tape = self.tape_mut();
        if tape.is_write_protected {
            return Err(Check::PROTECTED);
        }
        tape.cut(block);
        let used = tape.end().bytes + bytes;
        if used > tape.capacity_bytes {
            // After the end of the tape was met, shorter blocks do not fit either.
            tape.capacity_bytes = tape.end().bytes;
            return Err(Check::OVERFLOW.about(bytes.cast_signed()));
        }
        Ok(used > tape.capacity_bytes.saturating_sub(tape.warning_bytes))
    }

    fn write(&mut self, block: &[u8]) -> Answer {
        let at = self.spot();
        let bytes = block.len() as u64;
        let is_near = self.room(bytes)?;
        self.tape_mut().append(block);
        self.motions.push(Motion::Write { at, bytes });
        self.block += 1;
        if is_near { Err(Check::NEAR_END) } else { Ok(Reply::good()) }
    }

    fn write_filemarks(&mut self, cdb: &[u8]) -> Answer {
        let at = self.spot();
        self.motions.push(Motion::Filemark { at });
        let count = field(cdb, 2, 3);
        let is_near = self.room(0)?;
        for _ in 0..count {
            self.tape_mut().append_filemark();
        }
        self.block += count;
        if is_near { Err(Check::NEAR_END) } else { Ok(Reply::good()) }
    }

    fn locate(&mut self, block: u64) -> Answer {
        let end = self.tape().end().block;
        let off = std::mem::take(&mut self.locate_off);
        self.go((block + off).min(end));
        self.unnoticed = self.block.saturating_sub(block);
        if block > end { Err(Check::END_OF_DATA) } else { Ok(Reply::good()) }
    }

    fn space(&mut self, by: u8, count: i64) -> Answer {
        let from = self.block;
        let answer = match by {
            0 => self.space_blocks(count),
            1 => self.space_filemarks(count),
            3 => {
                self.block = self.tape().end().block;
                Ok(Reply::good())
            }
            _ => Err(Check::WRONG_FIELD),
        };
        let (from, to) = (self.tape().spot(from), self.spot());
        self.motions.push(Motion::Position { from, to });
        answer
    }

    /// Looks at the next item in the direction of `count`. Returns true if it is a filemark. Fails
    /// at either end of the recorded data. `left` is the count that the error reports.
    fn next(&self, count: i64, left: i64) -> Result<bool, Check> {
        let next = if count > 0 { Some(self.block) } else { self.block.checked_sub(1) };
        let next = next.ok_or(Check::AT_BEGINNING.about(left))?;
        self.tape().is_filemark(next).ok_or(Check::END_OF_DATA.about(left))
    }

    fn step(&mut self, count: i64) {
        self.block = self.block.saturating_add_signed(count.signum());
    }

    fn space_blocks(&mut self, count: i64) -> Answer {
        for done in 0..count.abs() {
            let left = count.abs() - done;
            let is_filemark = self.next(count, left)?;
            self.step(count);
            if is_filemark {
                return Err(Check::AT_FILEMARK.about(left));
            }
        }
        Ok(Reply::good())
    }

    fn space_filemarks(&mut self, count: i64) -> Answer {
        let mut left = count.abs();
        while left > 0 {
            left -= i64::from(self.next(count, left)?);
            self.step(count);
        }
        Ok(Reply::good())
    }
}

/// Returns the number in the low `bits` bits of `raw`. The highest of these bits is the sign.
fn signed(raw: u64, bits: u32) -> i64 {
    let unused = 64 - bits;
    (raw << unused).cast_signed() >> unused
}

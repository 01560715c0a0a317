//! Reports of a drive about itself and its medium.

use tape::scsi::{attribute_id, opcode};

use super::DriveUnit;
use crate::reply::{Answer, Check, Reply, field};

/// The density of LTO-8.
const DENSITY: u8 = 0x5e;
const MIB: u64 = 1 << 20;

/// Commands that REPORT SUPPORTED OPERATION CODES lists, with their recommended timeouts in seconds
/// (IBM LTO reference).
const COMMANDS: [(u8, u32); 22] = [
    (opcode::TEST_UNIT_READY, 60),
    (opcode::REWIND, 600),
    (opcode::REQUEST_SENSE, 60),
    (opcode::READ_BLOCK_LIMITS, 60),
    (opcode::READ_6, 2340),
    (opcode::WRITE_6, 1560),
    (opcode::WRITE_FILEMARKS_6, 1680),
    (opcode::SPACE_6, 2940),
    (opcode::INQUIRY, 60),
    (opcode::MODE_SELECT_6, 60),
    (opcode::MODE_SENSE_6, 60),
    (opcode::LOAD_UNLOAD, 840),
    (opcode::PREVENT_ALLOW_MEDIUM_REMOVAL, 60),
    (opcode::LOCATE_10, 2940),
    (opcode::READ_POSITION, 60),
    (opcode::REPORT_DENSITY_SUPPORT, 60),
    (opcode::LOG_SENSE, 60),
    (opcode::READ_ATTRIBUTE, 60),
    (opcode::WRITE_ATTRIBUTE, 60),
    (opcode::SPACE_16, 2940),
    (opcode::LOCATE_16, 2940),
    (opcode::MAINTENANCE_OUT, 60),
];

impl DriveUnit {
    pub(super) fn inquiry(&self, cdb: &[u8]) -> Answer {
        let serial = self.model.serial.as_bytes();
        let length = u8::try_from(serial.len()).expect("serial numbers are short");
        match (cdb[1] & 1, cdb[2]) {
            (0, _) => {
                let mut bytes = vec![0x01, 0x80, 6, 2, 31, 0, 0, 2];
                bytes.extend(b"HOLDFASTSIM DRIVE       0001");
                Ok(Reply::with(bytes))
            }
            (_, 0x80) => Ok(Reply::with([&[1, 0x80, 0, length], serial].concat())),
            (_, 0x83) => {
                let named = [&[2, 1, 0, length + 8], &b"HOLDFAST"[..], serial].concat();
                Ok(Reply::with([&[1, 0x83, 0, length + 12][..], &named].concat()))
            }
            _ => Err(Check::WRONG_FIELD),
        }
    }

    /// Returns sense bytes in fixed format that report no error.
    pub(super) fn sense(&self) -> Vec<u8> {
        let mut bytes = vec![0; 18];
        bytes[0] = 0x70;
        bytes[7] = 10;
        if !self.alerts.is_empty() {
            bytes[13] = 0x17;
        }
        bytes
    }

    pub(super) fn block_limits(&self) -> Vec<u8> {
        let max = self.model.block_bytes_max.to_be_bytes();
        vec![0, max[1], max[2], max[3], 0, 1]
    }

    pub(super) fn mode_sense(&self, cdb: &[u8]) -> Answer {
        let is_protected = self.cartridge.as_ref().is_some_and(|tape| tape.is_write_protected);
        let specific = 0x10 | u8::from(is_protected) << 7;
        let mut bytes = vec![0, 0, specific, 8, DENSITY, 0, 0, 0, 0, 0, 0, 0];
        match cdb[2] & 0x3f {
            0 => {}
            0x0f => {
                let enabled = u8::from(!self.settings.is_uncompressed) << 7;
                bytes.extend([0x0f, 14, 0x40 | enabled, 0x80]);
                bytes.extend([0; 12]);
            }
            _ => return Err(Check::WRONG_FIELD),
        }
        bytes[0] = u8::try_from(bytes.len() - 1).expect("the page is short");
        Ok(Reply::with(bytes))
    }

    pub(super) fn mode_select(&mut self, parameters: &[u8]) -> Answer {
        let block_bytes = parameters.get(9..12).ok_or(Check::WRONG_FIELD)?;
        if block_bytes != [0; 3] {
            return Err(Check::WRONG_FIELD);
        }
        if let Some([0x0f, 14, flags, ..]) = parameters.get(12..) {
            self.settings.is_uncompressed = flags & 0x80 == 0;
        }
        Ok(Reply::good())
    }

    pub(super) fn log_sense(&mut self, cdb: &[u8]) -> Answer {
        let page = cdb[2] & 0x3f;
        let parameters = match page {
            0 => vec![0, 0x2e, 0x31],
            0x2e => {
                let raised = std::mem::take(&mut self.alerts);
                let flag = |code: u16| u8::from(raised.contains(&code));
                (1..=64).flat_map(|code| parameter(code, &[flag(code)])).collect()
            }
            0x31 => {
                let tape = self.cartridge.as_ref().ok_or(Check::NO_MEDIUM)?;
                let left = tape.capacity_bytes.saturating_sub(tape.end().bytes);
                let mebibytes = |bytes: u64| (bytes / MIB).to_be_bytes();
                [parameter(1, &mebibytes(left)), parameter(3, &mebibytes(tape.capacity_bytes))]
                    .concat()
            }
            _ => return Err(Check::WRONG_FIELD),
        };
        let length = u16::try_from(parameters.len()).expect("the page is short").to_be_bytes();
        Ok(Reply::with([&[page, 0, length[0], length[1]][..], &parameters].concat()))
    }

    pub(super) fn read_position(&self, cdb: &[u8]) -> Answer {
        let said = self.block.saturating_sub(self.unnoticed);
        let at_beginning = u8::from(said == 0) << 7;
        match cdb[1] & 0x1f {
            0 => {
                let short = u32::try_from(said).unwrap_or(u32::MAX).to_be_bytes();
                let mut bytes = vec![at_beginning, 0, 0, 0];
                bytes.extend(short);
                bytes.extend(short);
                bytes.extend([0; 8]);
                Ok(Reply::with(bytes))
            }
            6 => {
                let mut bytes = vec![at_beginning, 0, 0, 0, 0, 0, 0, 0];
                bytes.extend(said.to_be_bytes());
                bytes.extend([0; 16]);
                Ok(Reply::with(bytes))
            }
            _ => Err(Check::WRONG_FIELD),
        }
    }

    pub(super) fn read_attributes(&self, cdb: &[u8]) -> Answer {
        let first = field(cdb, 8, 2);
        let tape = self.tape();
        let mebibytes = |bytes: u64| (bytes / MIB).to_be_bytes().to_vec();
        let left = tape.capacity_bytes.saturating_sub(tape.end().bytes);
        let mut all = tape.attributes.clone();
        all.insert(attribute_id::REMAINING_CAPACITY, mebibytes(left));
        all.insert(attribute_id::MAXIMUM_CAPACITY, mebibytes(tape.capacity_bytes));
        all.insert(attribute_id::MEDIUM_MANUFACTURER, b"HOLDFAST".to_vec());
        let mut body = Vec::new();
        for (id, value) in all.iter().filter(|(id, _)| u64::from(**id) >= first) {
            let length = u16::try_from(value.len()).expect("attributes are short");
            body.extend(id.to_be_bytes());
            body.push(u8::from(*id >= 0x0400));
            body.extend(length.to_be_bytes());
            body.extend(value);
        }
        let length = u32::try_from(body.len()).expect("attributes are few");
        Ok(Reply::with([&length.to_be_bytes()[..], &body].concat()))
    }

    pub(super) fn write_attributes(&mut self, parameters: &[u8]) -> Answer {
        let attributes =
            tape::scsi::Attribute::parse_all(parameters).map_err(|_| Check::WRONG_FIELD)?;
        let kept = attributes.into_iter().map(|attribute| (attribute.id, attribute.value));
        self.tape_mut().attributes.extend(kept);
        Ok(Reply::good())
    }

    pub(super) fn densities() -> Vec<u8> {
        let mut bytes = vec![0, 54, 0, 0, DENSITY, DENSITY, 0xa0, 0, 47, 0, 0x50, 0xa2, 0, 127];
        bytes.extend(6656_u16.to_be_bytes());
        bytes.extend(12_000_000_u32.to_be_bytes());
        bytes.extend(b"LTO-CVE U-816   Ultrium 8/32T       ");
        bytes
    }

    pub(super) fn maintenance_in(&self, cdb: &[u8]) -> Answer {
        match cdb[1] & 0x1f {
            opcode::REPORT_SUPPORTED_OPCODES => Ok(Reply::with(self.commands())),
            opcode::RECOMMENDED_ACCESS_ORDER if cdb[1] & 0x80 != 0 => {
                Ok(Reply::with(vec![0x0a, 0x8c, 0, 32]))
            }
            opcode::RECOMMENDED_ACCESS_ORDER => Ok(Reply::with(self.recommended.clone())),
            opcode::READ_END_OF_WRAP if cdb[2] == opcode::READ_END_OF_WRAP_QUALIFIER => {
                self.ready()?;
                Ok(Reply::with(self.wrap_ends()))
            }
            _ => Err(Check::WRONG_FIELD),
        }
    }

    fn commands(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let known = COMMANDS.iter().filter(|(code, _)| !self.model.refused.contains(code));
        for &(code, secs) in known {
            body.extend([code, 0, 0, 0, 0, 2, 0, 16, 0, 10, 0, 0, 0, 0, 0, 0]);
            body.extend(secs.to_be_bytes());
        }
        let actions = [
            (opcode::MAINTENANCE_IN, opcode::REPORT_SUPPORTED_OPCODES),
            (opcode::MAINTENANCE_IN, opcode::RECOMMENDED_ACCESS_ORDER),
            (opcode::MAINTENANCE_IN, opcode::READ_END_OF_WRAP),
            (opcode::MAINTENANCE_OUT, opcode::RECOMMENDED_ACCESS_ORDER),
        ];
        for (code, action) in actions {
            body.extend([code, 0, 0, action, 0, 1, 0, 12]);
        }
        let length = u32::try_from(body.len()).expect("there are few commands");
        [&length.to_be_bytes()[..], &body].concat()
    }

    fn wrap_ends(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (wrap, block) in (0_u16..).zip(self.tape().wrap_ends()) {
            body.extend(wrap.to_be_bytes());
            body.extend([0; 4]);
            body.extend(&block.to_be_bytes()[2..]);
        }
        let length = u16::try_from(body.len() + 2).expect("there are few wraps").to_be_bytes();
        [&length[..], &[0, 0], &body].concat()
    }

    /// Sorts the segments of the host's list by their first blocks, as the recommended order.
    pub(super) fn put_in_order(&mut self, cdb: &[u8], parameters: &[u8]) -> Answer {
        const DESCRIPTOR_BYTES: usize = 32;
        if cdb[1] & 0x1f != opcode::RECOMMENDED_ACCESS_ORDER || parameters.len() < 8 {
            return Err(Check::WRONG_FIELD);
        }
        let mut segments: Vec<&[u8]> = parameters[8..].chunks_exact(DESCRIPTOR_BYTES).collect();
        segments.sort_by_key(|segment| field(segment, 16, 8));
        self.recommended = [&parameters[..8], &segments.concat()].concat();
        Ok(Reply::good())
    }
}

fn parameter(code: u16, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).expect("the parameter is short");
    [&code.to_be_bytes()[..], &[0, length], value].concat()
}

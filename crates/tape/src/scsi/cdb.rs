//! Command descriptor blocks.

/// Operation codes (SPC-4 annex D).
pub mod opcode {
    pub const TEST_UNIT_READY: u8 = 0x00;
    pub const REWIND: u8 = 0x01;
    pub const REQUEST_SENSE: u8 = 0x03;
    pub const READ_BLOCK_LIMITS: u8 = 0x05;
    pub const INITIALIZE_ELEMENT_STATUS: u8 = 0x07;
    pub const READ_6: u8 = 0x08;
    pub const WRITE_6: u8 = 0x0a;
    pub const WRITE_FILEMARKS_6: u8 = 0x10;
    pub const SPACE_6: u8 = 0x11;
    pub const INQUIRY: u8 = 0x12;
    pub const MODE_SELECT_6: u8 = 0x15;
    pub const MODE_SENSE_6: u8 = 0x1a;
    pub const LOAD_UNLOAD: u8 = 0x1b;
    pub const PREVENT_ALLOW_MEDIUM_REMOVAL: u8 = 0x1e;
    /// LOCATE(10) of a drive, POSITION TO ELEMENT of a changer.
    pub const LOCATE_10: u8 = 0x2b;
    pub const POSITION_TO_ELEMENT: u8 = 0x2b;
    pub const READ_POSITION: u8 = 0x34;
    pub const REPORT_DENSITY_SUPPORT: u8 = 0x44;
    pub const LOG_SENSE: u8 = 0x4d;
    pub const READ_ATTRIBUTE: u8 = 0x8c;
    pub const WRITE_ATTRIBUTE: u8 = 0x8d;
    pub const SPACE_16: u8 = 0x91;
    pub const LOCATE_16: u8 = 0x92;
    pub const MAINTENANCE_IN: u8 = 0xa3;
    pub const MAINTENANCE_OUT: u8 = 0xa4;
    pub const MOVE_MEDIUM: u8 = 0xa5;
    pub const READ_ELEMENT_STATUS: u8 = 0xb8;

    /// Service action of MAINTENANCE IN: REPORT SUPPORTED OPERATION CODES (SPC-4 6.35).
    pub const REPORT_SUPPORTED_OPCODES: u8 = 0x0c;
    /// Service action for the recommended access order (SSC-5): of MAINTENANCE IN to receive it, of
    /// MAINTENANCE OUT to generate it.
    pub const RECOMMENDED_ACCESS_ORDER: u8 = 0x1d;
    /// Service action of MAINTENANCE IN by IBM: READ END OF WRAP POSITION, used with
    /// [`READ_END_OF_WRAP_QUALIFIER`].
    pub const READ_END_OF_WRAP: u8 = 0x1f;
    pub const READ_END_OF_WRAP_QUALIFIER: u8 = 0x45;
}

/// Largest number in 24 bits: the limit of transfer lengths and counts in six-byte commands.
const U24_MAX: u32 = 0x00ff_ffff;

/// Code in a SPACE command: the kind of item that the command counts (SSC-4 7.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceCode {
    Blocks,
    Filemarks,
    EndOfData,
}

impl SpaceCode {
    fn code(self) -> u8 {
        match self {
            Self::Blocks => 0,
            Self::Filemarks => 1,
            Self::EndOfData => 3,
        }
    }
}

/// One command descriptor block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cdb {
    bytes: [u8; 16],
    length: usize,
}

impl Cdb {
    fn new(parts: &[&[u8]]) -> Self {
        let mut bytes = [0; 16];
        let mut length = 0;
        for part in parts {
            bytes[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        }
        assert!([6, 10, 12, 16].contains(&length), "a command has 6, 10, 12 or 16 bytes");
        Self { bytes, length }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub fn opcode(&self) -> u8 {
        self.bytes[0]
    }

    fn six(opcode: u8, flags: u8, number: u32) -> Self {
        assert!(number <= U24_MAX, "the field has 24 bits");
        Self::new(&[&[opcode, flags], &number.to_be_bytes()[1..], &[0]])
    }

    /// TEST UNIT READY (SPC-4 6.47).
    pub fn test_unit_ready() -> Self {
        Self::six(opcode::TEST_UNIT_READY, 0, 0)
    }

    /// REQUEST SENSE (SPC-4 6.39), for sense data in fixed format.
    pub fn request_sense(bytes: u8) -> Self {
        Self::new(&[&[opcode::REQUEST_SENSE, 0, 0, 0, bytes, 0]])
    }

    /// INQUIRY (SPC-4 6.6), for the standard data.
    pub fn inquiry(bytes: u16) -> Self {
        Self::new(&[&[opcode::INQUIRY, 0, 0], &bytes.to_be_bytes(), &[0]])
    }

    /// INQUIRY (SPC-4 6.6), for a page of vital product data.
    pub fn vital_product(page: u8, bytes: u16) -> Self {
        Self::new(&[&[opcode::INQUIRY, 1, page], &bytes.to_be_bytes(), &[0]])
    }

    /// MODE SENSE(6) (SPC-4 6.13). `page` 0 asks for the header and the block descriptor alone.
    pub fn mode_sense(page: u8, bytes: u8) -> Self {
        Self::new(&[&[opcode::MODE_SENSE_6, 0, page, 0, bytes, 0]])
    }

    /// MODE SELECT(6) (SPC-4 6.11), with parameters in page format.
    pub fn mode_select(bytes: u8) -> Self {
        const PAGE_FORMAT: u8 = 0x10;
        Self::new(&[&[opcode::MODE_SELECT_6, PAGE_FORMAT, 0, 0, bytes, 0]])
    }

    /// READ BLOCK LIMITS (SSC-4 7.4). The answer has 6 bytes.
    pub fn read_block_limits() -> Self {
        Self::six(opcode::READ_BLOCK_LIMITS, 0, 0)
    }

    /// REWIND (SSC-4 7.10). The command ends after the rewind.
    pub fn rewind() -> Self {
        Self::six(opcode::REWIND, 0, 0)
    }

    /// READ(6) (SSC-4 6.3), for one block of variable length. The drive reports a block of another
    /// length.
    pub fn read(bytes: u32) -> Self {
        Self::six(opcode::READ_6, 0, bytes)
    }

    /// WRITE(6) (SSC-4 6.7), for one block of variable length.
    pub fn write(bytes: u32) -> Self {
        Self::six(opcode::WRITE_6, 0, bytes)
    }

    /// WRITE FILEMARKS(6) (SSC-4 6.8). The command ends when everything is on the medium; a `count`
    /// of 0 only empties the buffer of the drive.
    pub fn write_filemarks(count: u32) -> Self {
        Self::six(opcode::WRITE_FILEMARKS_6, 0, count)
    }

    /// SPACE(6) (SSC-4 7.6), over at most 2^23 - 1 items; backwards if `count` is negative.
    pub fn space_6(by: SpaceCode, count: i32) -> Self {
        assert!((-(1 << 23)..1 << 23).contains(&count), "the field has 24 bits");
        Self::six(opcode::SPACE_6, by.code(), count.cast_unsigned() & U24_MAX)
    }

    /// SPACE(16) (SSC-4 7.7).
    pub fn space_16(by: SpaceCode, count: i64) -> Self {
        let opcode = [opcode::SPACE_16, by.code(), 0, 0];
        Self::new(&[&opcode, &count.to_be_bytes(), &[0; 4]])
    }

    /// LOCATE(10) (SSC-4 7.2), to a block in the current partition.
    pub fn locate_10(block: u32) -> Self {
        Self::new(&[&[opcode::LOCATE_10, 0, 0], &block.to_be_bytes(), &[0; 3]])
    }

    /// LOCATE(16) (SSC-4 7.3), to a logical object in the current partition.
    pub fn locate_16(block: u64) -> Self {
        Self::new(&[&[opcode::LOCATE_16, 0, 0, 0], &block.to_be_bytes(), &[0; 4]])
    }

    /// READ POSITION (SSC-4 7.5) in its short form. The answer has 20 bytes.
    pub fn read_position_short() -> Self {
        Self::new(&[&[opcode::READ_POSITION], &[0; 9]])
    }

    /// READ POSITION (SSC-4 7.5) in its long form. The answer has 32 bytes.
    pub fn read_position_long() -> Self {
        const LONG_FORM: u8 = 0x06;
        Self::new(&[&[opcode::READ_POSITION, LONG_FORM], &[0; 8]])
    }

    /// LOAD UNLOAD (SSC-4 7.1), to unload. `eject` is the bit that ejects the medium of a disk
    /// drive; some targets need it.
    pub fn unload(eject: bool) -> Self {
        Self::new(&[&[opcode::LOAD_UNLOAD, 0, 0, 0, u8::from(eject) << 1, 0]])
    }

    /// LOAD UNLOAD (SSC-4 7.1), to load. `eject` is the same bit as in [`Self::unload`].
    pub fn load(eject: bool) -> Self {
        Self::new(&[&[opcode::LOAD_UNLOAD, 0, 0, 0, 1 | u8::from(eject) << 1, 0]])
    }

    /// LOG SENSE (SPC-4 6.8), for the cumulative values of a page.
    pub fn log_sense(page: u8, bytes: u16) -> Self {
        const CUMULATIVE: u8 = 0x40;
        let head = [opcode::LOG_SENSE, 0, CUMULATIVE | page & 0x3f, 0, 0, 0, 0];
        Self::new(&[&head, &bytes.to_be_bytes(), &[0]])
    }

    /// READ ATTRIBUTE (SPC-4 6.16), for the values of partition 0 from attribute `first` on.
    pub fn read_attributes(first: u16, bytes: u32) -> Self {
        let head = [opcode::READ_ATTRIBUTE, 0, 0, 0, 0, 0, 0, 0];
        Self::new(&[&head, &first.to_be_bytes(), &bytes.to_be_bytes(), &[0; 2]])
    }

    /// WRITE ATTRIBUTE (SPC-4 6.51), to partition 0, through any cache.
    pub fn write_attributes(bytes: u32) -> Self {
        let head = [opcode::WRITE_ATTRIBUTE, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        Self::new(&[&head, &bytes.to_be_bytes(), &[0; 2]])
    }

    /// REPORT SUPPORTED OPERATION CODES (SPC-4 6.35), for all commands with their timeouts.
    pub fn report_supported_opcodes(bytes: u32) -> Self {
        const WITH_TIMEOUTS: u8 = 0x80;
        let action = opcode::REPORT_SUPPORTED_OPCODES;
        let head = [opcode::MAINTENANCE_IN, action, WITH_TIMEOUTS, 0, 0, 0];
        Self::new(&[&head, &bytes.to_be_bytes(), &[0; 2]])
    }

    /// REPORT DENSITY SUPPORT (SSC-4 7.8), for the densities of the drive, or for the densities of
    /// the loaded medium if `of_medium` is true.
    pub fn report_density_support(of_medium: bool, bytes: u16) -> Self {
        let head = [opcode::REPORT_DENSITY_SUPPORT, u8::from(of_medium), 0, 0, 0, 0, 0];
        Self::new(&[&head, &bytes.to_be_bytes(), &[0]])
    }

    /// GENERATE RECOMMENDED ACCESS ORDER (SSC-5, IBM LTO reference): sends a list of segments to be
    /// put into order.
    pub fn generate_recommended_order(bytes: u32) -> Self {
        const REORDER: u8 = 2;
        let action = opcode::RECOMMENDED_ACCESS_ORDER;
        let head = [opcode::MAINTENANCE_OUT, action, REORDER, 0, 0, 0];
        Self::new(&[&head, &bytes.to_be_bytes(), &[0; 2]])
    }

    /// RECEIVE RECOMMENDED ACCESS ORDER (IBM LTO reference): receives the ordered list, or the
    /// maximum length of a list if `limits` is true.
    pub fn receive_recommended_order(limits: bool, bytes: u32) -> Self {
        let action = opcode::RECOMMENDED_ACCESS_ORDER | u8::from(limits) << 7;
        let head = [opcode::MAINTENANCE_IN, action, 0, 0, 0, 0];
        Self::new(&[&head, &bytes.to_be_bytes(), &[0; 2]])
    }

    /// READ END OF WRAP POSITION (IBM LTO reference, from LTO-7 on), for the end of each wrap that
    /// holds data.
    pub fn read_end_of_wrap(bytes: u32) -> Self {
        const REPORT_ALL: u8 = 0x02;
        let action = [opcode::READ_END_OF_WRAP, opcode::READ_END_OF_WRAP_QUALIFIER];
        let head = [opcode::MAINTENANCE_IN, action[0], action[1], REPORT_ALL, 0, 0];
        Self::new(&[&head, &bytes.to_be_bytes(), &[0; 2]])
    }

    /// PREVENT ALLOW MEDIUM REMOVAL (SSC-4 7.9; SPC-4 6.14 in earlier standards).
    pub fn prevent_removal(prevent: bool) -> Self {
        let code = opcode::PREVENT_ALLOW_MEDIUM_REMOVAL;
        Self::new(&[&[code, 0, 0, 0, u8::from(prevent), 0]])
    }

    /// INITIALIZE ELEMENT STATUS (SMC-3 6.2).
    pub fn initialize_element_status() -> Self {
        Self::six(opcode::INITIALIZE_ELEMENT_STATUS, 0, 0)
    }

    /// MOVE MEDIUM (SMC-3 6.4), without turning the medium over.
    pub fn move_medium(changer: u16, from: u16, to: u16) -> Self {
        let [changer, from, to] = [changer, from, to].map(u16::to_be_bytes);
        Self::new(&[&[opcode::MOVE_MEDIUM, 0], &changer, &from, &to, &[0; 4]])
    }

    /// POSITION TO ELEMENT (SMC-3 6.9).
    pub fn position_to_element(changer: u16, to: u16) -> Self {
        let [changer, to] = [changer, to].map(u16::to_be_bytes);
        Self::new(&[&[opcode::POSITION_TO_ELEMENT, 0], &changer, &to, &[0; 4]])
    }

    /// READ ELEMENT STATUS (SMC-3 6.11), with volume tags, and with the identifiers of devices if
    /// `identified` is true.
    pub fn read_element_status(kind: u8, first: u16, count: u16, identified: bool) -> Self {
        const VOLUME_TAGS: u8 = 0x10;
        let bytes = super::element::elements_answer_bytes(count);
        assert!(bytes <= U24_MAX, "bounded by the count");
        let [first, count] = [first, count].map(u16::to_be_bytes);
        let head = [opcode::READ_ELEMENT_STATUS, VOLUME_TAGS | kind];
        let flags = [u8::from(identified)];
        Self::new(&[&head, &first, &count, &flags, &bytes.to_be_bytes()[1..], &[0; 2]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cdb: Cdb, golden: &[u8]) {
        assert_eq!(cdb.bytes(), golden);
    }

    #[test]
    fn commands_of_all_devices() {
        check(Cdb::test_unit_ready(), &[0, 0, 0, 0, 0, 0]);
        check(Cdb::request_sense(96), &[3, 0, 0, 0, 96, 0]);
        check(Cdb::inquiry(0x124), &[0x12, 0, 0, 1, 0x24, 0]);
        check(Cdb::vital_product(0x83, 252), &[0x12, 1, 0x83, 0, 252, 0]);
        check(Cdb::mode_sense(0x1d, 252), &[0x1a, 0, 0x1d, 0, 252, 0]);
        check(Cdb::mode_select(12), &[0x15, 0x10, 0, 0, 12, 0]);
        check(Cdb::log_sense(0x2e, 0x1000), &[0x4d, 0, 0x6e, 0, 0, 0, 0, 0x10, 0, 0]);
        check(Cdb::prevent_removal(true), &[0x1e, 0, 0, 0, 1, 0]);
        check(
            Cdb::report_supported_opcodes(0x8000),
            &[0xa3, 0x0c, 0x80, 0, 0, 0, 0, 0, 0x80, 0, 0, 0],
        );
    }

    #[test]
    fn commands_of_tapes() {
        check(Cdb::rewind(), &[1, 0, 0, 0, 0, 0]);
        check(Cdb::read_block_limits(), &[5, 0, 0, 0, 0, 0]);
        check(Cdb::read(524_288), &[8, 0, 8, 0, 0, 0]);
        check(Cdb::write(262_143), &[0x0a, 0, 3, 0xff, 0xff, 0]);
        check(Cdb::write_filemarks(1), &[0x10, 0, 0, 0, 1, 0]);
        check(Cdb::space_6(SpaceCode::Blocks, -2), &[0x11, 0, 0xff, 0xff, 0xfe, 0]);
        check(Cdb::space_6(SpaceCode::EndOfData, 0), &[0x11, 3, 0, 0, 0, 0]);
        let minus_one = [0xff; 8];
        let space = [&[0x91, 1, 0, 0][..], &minus_one, &[0; 4]].concat();
        check(Cdb::space_16(SpaceCode::Filemarks, -1), &space);
        check(Cdb::locate_10(0x0102_0304), &[0x2b, 0, 0, 1, 2, 3, 4, 0, 0, 0]);
        check(
            Cdb::locate_16(0x0102_0304_0506),
            &[0x92, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0],
        );
        check(Cdb::read_position_long(), &[0x34, 6, 0, 0, 0, 0, 0, 0, 0, 0]);
        check(Cdb::unload(false), &[0x1b, 0, 0, 0, 0, 0]);
        check(Cdb::unload(true), &[0x1b, 0, 0, 0, 2, 0]);
        check(Cdb::load(false), &[0x1b, 0, 0, 0, 1, 0]);
        check(Cdb::report_density_support(true, 512), &[0x44, 1, 0, 0, 0, 0, 0, 2, 0, 0]);
    }

    #[test]
    fn commands_about_the_medium() {
        check(
            Cdb::read_attributes(0x0400, 0x1000),
            &[0x8c, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0x10, 0, 0, 0],
        );
        check(Cdb::write_attributes(20), &[0x8d, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0]);
        check(Cdb::generate_recommended_order(72), &[0xa4, 0x1d, 2, 0, 0, 0, 0, 0, 0, 72, 0, 0]);
        check(Cdb::receive_recommended_order(true, 8), &[0xa3, 0x9d, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0]);
        check(Cdb::read_end_of_wrap(0x4000), &[0xa3, 0x1f, 0x45, 2, 0, 0, 0, 0, 0x40, 0, 0, 0]);
    }

    #[test]
    fn commands_of_changers() {
        check(Cdb::initialize_element_status(), &[7, 0, 0, 0, 0, 0]);
        check(Cdb::move_medium(1, 1000, 500), &[0xa5, 0, 0, 1, 3, 0xe8, 1, 0xf4, 0, 0, 0, 0]);
        check(Cdb::position_to_element(1, 500), &[0x2b, 0, 0, 1, 1, 0xf4, 0, 0, 0, 0]);
        check(
            Cdb::read_element_status(4, 500, 2, true),
            &[0xb8, 0x14, 1, 0xf4, 0, 2, 1, 0, 1, 0x50, 0, 0],
        );
    }
}

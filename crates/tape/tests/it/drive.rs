//! Tests of a drive with each of its methods, against the emulator.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sim::{Cartridge, Constants, DriveModel, Layout, Library, Trouble};
use tape::drive::{Drive, LocateMethod, PositionMethod};
use tape::medium::{Medium as _, MediumError, ReadOutcome, WriteOutcome};
use tape::scsi::{Segment, TapeAlert, attribute_id, opcode};
use tape::transport::{Completion, ScsiTransport, Transfer, TransportError};

const MIB: u64 = 1 << 20;

fn library(model: DriveModel) -> Library {
    let layout = Layout { slot_count: 2, import_export_count: 1, drives: vec![model] };
    Library::new(layout, Vec::new(), Box::new(Constants))
}

/// Returns a library, and its drive with a blank tape of 64 MiB.
fn loaded(model: DriveModel) -> (Library, Drive) {
    let library = library(model);
    library.insert(0, Cartridge::blank("A00001L8", 64 * MIB, 4 * MIB));
    let mut drive = Drive::open(Box::new(library.drive(0))).expect("the drive answers");
    drive.load().expect("a tape is in the drive");
    (library, drive)
}

/// Writes blocks of different lengths and content, with a filemark after the third block.
fn fill(drive: &mut Drive) {
    for number in 0..6_u8 {
        let block = vec![number; 1000 + usize::from(number)];
        assert_eq!(drive.write(&block).expect("room"), WriteOutcome::Whole);
        if number == 2 {
            assert_eq!(drive.mark().expect("room"), WriteOutcome::Whole);
        }
    }
    assert_eq!(drive.position().expect("known"), 7);
}

#[track_caller]
fn expect_block(drive: &mut Drive, position: u64, number: u8) {
    drive.locate(position).expect("the block exists");
    let mut buffer = vec![0xff; 4096];
    let bytes = 1000 + usize::from(number);
    assert_eq!(drive.read(&mut buffer).expect("readable"), ReadOutcome::Block { bytes });
    assert!(buffer[..bytes].iter().all(|&byte| byte == number));
    assert_eq!(drive.position().expect("known"), position + 1);
}

#[track_caller]
fn check_ways(refused: &[u8], expected: (LocateMethod, PositionMethod)) {
    let (_library, mut drive) = loaded(DriveModel::new("DRV00001").without(refused));
    fill(&mut drive);
    for (position, number) in [(6, 5), (0, 0), (4, 3), (2, 2), (5, 4)] {
        expect_block(&mut drive, position, number);
    }
    drive.locate(3).expect("the filemark");
    assert_eq!(drive.read(&mut [0; 100]).expect("readable"), ReadOutcome::Filemark);
    drive.locate_end().expect("the data has an end");
    assert_eq!(drive.position().expect("known"), 7);
    assert_eq!(drive.read(&mut [0; 100]).expect("readable"), ReadOutcome::EndOfData);
    assert!(matches!(drive.locate(9), Err(MediumError::EndOfData { position: 9 })));
    expect_block(&mut drive, 1, 1);
    assert_eq!(drive.ways(), expected);
}

#[test]
fn a_drive_is_used_in_the_best_way_that_it_knows() {
    check_ways(&[], (LocateMethod::Sixteen, PositionMethod::Long));
    check_ways(
        &[opcode::LOCATE_16, opcode::MAINTENANCE_IN],
        (LocateMethod::Ten, PositionMethod::Long),
    );
    check_ways(
        &[opcode::LOCATE_16, opcode::LOCATE_10],
        (LocateMethod::Space, PositionMethod::Long),
    );
    let all = [
        opcode::LOCATE_16,
        opcode::LOCATE_10,
        opcode::READ_POSITION,
        opcode::LOG_SENSE,
        opcode::MAINTENANCE_IN,
        opcode::SPACE_16,
    ];
    check_ways(&all, (LocateMethod::Space, PositionMethod::Count));
}

#[test]
fn a_block_longer_than_the_buffer_is_said() {
    let (_library, mut drive) = loaded(DriveModel::new("DRV00001"));
    fill(&mut drive);
    drive.rewind().expect("a tape is in the drive");
    assert_eq!(
        drive.read(&mut [0; 512]).expect("readable"),
        ReadOutcome::LongBlock { bytes: 1000 }
    );
    expect_block(&mut drive, 1, 1);
}

#[test]
fn the_early_warning_comes_before_the_end() {
    let (_library, mut drive) = loaded(DriveModel::new("DRV00001"));
    let block = vec![7; 1 << 20];
    let mut warned_at = None;
    let end = loop {
        match drive.write(&block) {
            Ok(WriteOutcome::Whole) => assert_eq!(warned_at, None),
            Ok(WriteOutcome::NearEnd) => {
                warned_at = warned_at.or(Some(drive.position().expect("known")));
            }
            Err(MediumError::EndOfMedium) => break drive.position().expect("known"),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!((warned_at, end), (Some(61), 64));
    drive.locate(63).expect("the last block");
    let mut buffer = vec![0; 1 << 20];
    assert_eq!(drive.read(&mut buffer).expect("readable"), ReadOutcome::Block { bytes: 1 << 20 });
}

#[test]
fn bad_blocks_are_said_with_their_place_and_the_rest_can_be_read() {
    let (library, mut drive) = loaded(DriveModel::new("DRV00001"));
    fill(&mut drive);
    library.trouble(Trouble::BadBlock { barcode: "A00001L8".to_owned(), block: 4 });
    drive.locate(4).expect("the position exists");
    assert!(matches!(drive.read(&mut [0; 4096]), Err(MediumError::Damaged { position: 4 })));
    expect_block(&mut drive, 5, 4);
    assert_eq!(drive.alerts().expect("the drive answers"), [TapeAlert(4)]);
}

#[test]
fn a_reset_loses_the_position_until_the_drive_is_told_where_to_go() {
    let (library, mut drive) = loaded(DriveModel::new("DRV00001"));
    fill(&mut drive);
    library.trouble(Trouble::Reset { drive: 0 });
    assert!(matches!(drive.write(b"somewhere"), Err(MediumError::PositionLost)));
    assert!(matches!(drive.write(b"somewhere"), Err(MediumError::PositionLost)));
    expect_block(&mut drive, 5, 4);
    drive.locate_end().expect("the drive answers");
    assert_eq!(drive.position().expect("known"), 7, "nothing was written over");
}

#[test]
fn another_tape_is_not_gone_on_with() {
    let (library, mut drive) = loaded(DriveModel::new("DRV00001"));
    fill(&mut drive);
    library.insert(0, Cartridge::blank("A00002L8", 64 * MIB, 4 * MIB));
    assert!(matches!(drive.write(b"somewhere"), Err(MediumError::PositionLost)));
    assert!(matches!(drive.rewind(), Err(MediumError::PositionLost)));
    assert!(matches!(drive.locate_end(), Err(MediumError::PositionLost)));
    drive.load().expect("the new tape");
    assert_eq!(drive.write(b"first").expect("room"), WriteOutcome::Whole);
}

#[test]
fn a_locate_that_goes_wrong_unnoticed_is_left_to_the_block_to_say() {
    let (library, mut drive) = loaded(DriveModel::new("DRV00001"));
    fill(&mut drive);
    library.trouble(Trouble::LocateOff { drive: 0, by: 1 });
    drive.locate(1).expect("the drive believes it");
    let mut buffer = [0; 4096];
    assert_eq!(drive.read(&mut buffer).expect("readable"), ReadOutcome::Block { bytes: 1002 });
}

#[test]
fn write_protection_and_missing_tapes_are_told_apart() {
    let (library, mut drive) = loaded(DriveModel::new("DRV00001"));
    library.alter("A00001L8", |cartridge| cartridge.is_write_protected = true);
    assert!(drive.is_write_protected().expect("the drive answers"));
    assert!(matches!(drive.write(b"x"), Err(MediumError::WriteProtected)));
    drive.unload().expect("a tape is in the drive");
    assert!(!drive.is_ready().expect("the drive answers"));
    drive.load().expect("the drive loads its tape");
    let empty = self::library(DriveModel::new("DRV00002"));
    let mut drive = Drive::open(Box::new(empty.drive(0))).expect("the drive answers");
    assert!(matches!(drive.load(), Err(MediumError::NoMedium)));
}

#[test]
fn a_drive_that_dies_or_does_not_answer_fails() {
    for trouble in [
        Trouble::DriveDies { drive: 0 },
        Trouble::Unplugged { drive: 0 },
        Trouble::Silence { drive: 0 },
    ] {
        let (library, mut drive) = loaded(DriveModel::new("DRV00001"));
        library.trouble(trouble);
        assert!(matches!(drive.write(b"x"), Err(MediumError::Failed(_))));
    }
}

#[test]
fn what_the_drive_knows_of_the_tape() {
    let (library, mut drive) = loaded(DriveModel::new("DRV00001"));
    let capacity = drive.capacity().expect("the drive answers").expect("the drive has the page");
    assert_eq!((capacity.remaining_bytes, capacity.bytes_max), (64 * MIB, 64 * MIB));
    assert_eq!(drive.log_pages().expect("the drive answers"), [0, 0x2e, 0x31]);
    let name = tape::scsi::Attribute::text(attribute_id::BARCODE, "A00001L8", 32);
    assert!(drive.set_attributes(std::slice::from_ref(&name)).expect("the drive answers"));
    let read = drive.attributes(attribute_id::BARCODE).expect("the drive answers");
    assert_eq!(read, [name]);
    assert_eq!(drive.densities(true).expect("the drive answers")[0].name, "U-816");
    assert_eq!(drive.wrap_ends().expect("the drive answers").len(), 1);
    library.trouble(Trouble::Dirty { drive: 0 });
    assert!(!drive.wants_cleaning());
    assert_eq!(drive.alerts().expect("the drive answers"), [TapeAlert::CLEAN_NOW]);
    assert!(drive.wants_cleaning());
}

#[test]
fn the_drive_puts_segments_in_order_where_it_can() {
    let segments = [900, 100, 500].map(|first| Segment {
        number: first,
        first_block: first.into(),
        last_block: u64::from(first) + 9,
    });
    let (_library, mut drive) = loaded(DriveModel::new("DRV00001"));
    assert_eq!(drive.recommend(&segments).expect("the drive answers"), Some(vec![100, 500, 900]));
    let plain = DriveModel::new("DRV00002").without(&[opcode::MAINTENANCE_IN]);
    let (_library, mut drive) = loaded(plain);
    assert_eq!(drive.recommend(&segments).expect("the drive answers"), None);
    assert!(drive.wrap_ends().expect("the drive answers").is_empty());
}

#[test]
fn a_huge_tape_costs_time_and_no_memory() {
    let library = library(DriveModel::new("DRV00001"));
    let full =
        Cartridge::blank("A00001L8", 12_000_000 * MIB, 1 << 30).with_pattern(20_000_000, 512 << 10);
    library.insert(0, full);
    let mut drive = Drive::open(Box::new(library.drive(0))).expect("the drive answers");
    drive.load().expect("a tape is in the drive");
    let before = library.clock();
    drive.locate(19_999_999).expect("the last block");
    let mut buffer = vec![0; 512 << 10];
    assert_eq!(drive.read(&mut buffer).expect("readable"), ReadOutcome::Block { bytes: 512 << 10 });
    assert!((library.clock() - before).as_secs() > 60);
    assert!(drive.wrap_ends().expect("the drive answers").len() > 100);
}

#[test]
fn compression_is_turned_off_by_loading() {
    const ENABLED: u8 = 0x80;
    let (library, _drive) = loaded(DriveModel::new("DRV00001"));
    let mut page = [0; 28];
    let cdb = tape::scsi::Cdb::mode_sense(0x0f, 28);
    let answered =
        library
            .drive(0)
            .execute(cdb.bytes(), Transfer::In(&mut page), Duration::from_secs(1));
    assert_eq!(answered.expect("the drive answers").status, 0);
    assert_eq!(page[12], 0x0f);
    assert_eq!(page[14] & ENABLED, 0);
}

/// A transport that records the timeout of each command.
struct TimeoutRecorder {
    unit: sim::Unit,
    timeouts: Arc<Mutex<Vec<(u8, Duration)>>>,
}

impl ScsiTransport for TimeoutRecorder {
    fn execute(
        &mut self,
        cdb: &[u8],
        transfer: Transfer<'_>,
        timeout: Duration,
    ) -> Result<Completion, TransportError> {
        self.timeouts.lock().expect("nobody panics").push((cdb[0], timeout));
        self.unit.execute(cdb, transfer, timeout)
    }
}

#[track_caller]
fn check_timeouts(model: DriveModel, expected: [(u8, u64); 3]) {
    let library = library(model);
    library.insert(0, Cartridge::blank("A00001L8", 64 * MIB, 4 * MIB));
    let timeouts = Arc::new(Mutex::new(Vec::new()));
    let timed = TimeoutRecorder { unit: library.drive(0), timeouts: Arc::clone(&timeouts) };
    let mut drive = Drive::open(Box::new(timed)).expect("the drive answers");
    drive.load().expect("a tape is in the drive");
    fill(&mut drive);
    drive.locate(2).expect("the block exists");
    let noted = timeouts.lock().expect("nobody panics");
    for (opcode, secs) in expected {
        let found = noted.iter().find(|(code, _)| *code == opcode).map(|(_, timeout)| *timeout);
        assert_eq!(found, Some(Duration::from_secs(secs)), "{opcode:02x}h");
    }
}

#[test]
fn commands_get_the_time_that_the_drive_wants_or_that_of_their_kind() {
    let model = DriveModel::new("DRV00001");
    let wanted = [(opcode::LOCATE_16, 2940), (opcode::WRITE_6, 1560), (opcode::REWIND, 600)];
    check_timeouts(model.clone(), wanted);
    let by_kind = [(opcode::LOCATE_16, 3600), (opcode::WRITE_6, 2400), (opcode::REWIND, 3600)];
    check_timeouts(model.without(&[opcode::MAINTENANCE_IN]), by_kind);
}

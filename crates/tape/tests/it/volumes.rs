//! Tests of volumes in the drives of the emulator, and of volumes in files.

use std::fs::Permissions;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::PathBuf;

use format::volume::VolumeId;
use sim::{Cartridge, Constants, DriveModel, Layout, Library, Trouble};
use tape::drive::Drive;
use tape::file_volume::{FileMedium, FileVolumes};
use tape::medium::{Medium, MediumError};
use tape::scsi::opcode;
use tape::volume::{Overwrite, Progress, VolumeError, VolumeReader, VolumeWriter, WriterOptions};

use crate::scenario::{self, Site, content, expect_content, label, object, put};

const MIB: u64 = 1 << 20;
const BARCODES: [&str; 2] = ["A00001L8", "A00002L8"];

struct EmulatedDrives {
    library: Library,
    drives: Vec<Drive>,
}

impl EmulatedDrives {
    /// Returns two drives that refuse the commands `refused`, with tapes whose early warning comes
    /// `warning_bytes` before their end.
    fn new(refused: &[u8], warning_bytes: u64) -> Self {
        let models = ["DRV00001", "DRV00002"].map(|name| DriveModel::new(name).without(refused));
        let layout = Layout { slot_count: 1, import_export_count: 1, drives: models.to_vec() };
        let library = Library::new(layout, Vec::new(), Box::new(Constants));
        let drive = |(index, barcode)| {
            library.insert(index, Cartridge::blank(barcode, 16 * MIB, warning_bytes));
            let mut drive = Drive::open(Box::new(library.drive(index))).expect("the drive answers");
            drive.load().expect("a tape is in the drive");
            drive
        };
        let drives = (0..).zip(BARCODES).map(drive).collect();
        Self { library, drives }
    }
}

impl Site for EmulatedDrives {
    fn tape(&mut self, index: usize) -> &mut dyn Medium {
        &mut self.drives[index]
    }

    fn protect(&mut self, index: usize, protected: bool) -> bool {
        self.library
            .alter(BARCODES[index], |cartridge| cartridge.is_write_protected = protected);
        true
    }

    fn damage(&mut self, index: usize, block: u64) -> bool {
        self.library
            .trouble(Trouble::BadBlock { barcode: BARCODES[index].to_owned(), block });
        true
    }
}

struct Files {
    folder: tempfile::TempDir,
    media: Vec<FileMedium>,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let media = [0, 1]
            .map(|index| {
                let path = folder.path().join(format!("{index}"));
                std::fs::write(&path, b"").expect("a file");
                FileMedium::open(&path, 16 * MIB).expect("a file")
            })
            .into();
        Self { folder, media }
    }

    fn path(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("{index}"))
    }
}

impl Site for Files {
    fn tape(&mut self, index: usize) -> &mut dyn Medium {
        &mut self.media[index]
    }

    fn protect(&mut self, index: usize, protected: bool) -> bool {
        let mode = if protected { 0o400 } else { 0o600 };
        std::fs::set_permissions(self.path(index), Permissions::from_mode(mode)).is_ok()
    }

    fn damage(&mut self, index: usize, position: u64) -> bool {
        let file = std::fs::File::options().write(true).open(self.path(index)).expect("a file");
        file.write_all_at(b"?", position + 500).is_ok()
    }
}

#[test]
fn volumes_on_emulated_tapes() {
    scenario::run_all(&mut EmulatedDrives::new(&[], MIB));
}

#[test]
fn volumes_on_emulated_drives_that_know_little() {
    let refused = [opcode::LOCATE_10, opcode::LOCATE_16, opcode::READ_POSITION];
    scenario::run_all(&mut EmulatedDrives::new(&refused, MIB));
}

#[test]
fn volumes_in_files() {
    scenario::run_all(&mut Files::new());
}

/// Without an early warning, the end of the tape is an error, and there is no room for an index or
/// a filemark.
#[test]
fn the_hard_end_of_a_tape_loses_nothing() {
    let mut site = EmulatedDrives::new(&[], 0);
    tape::volume::label(site.tape(0), &label(1), Overwrite::Anything)
        .expect("the tape takes a label");
    let options = WriterOptions { group_bytes: MIB };
    let tape = site.tape(0);
    let mut writer =
        VolumeWriter::open(tape, VolumeId([1; 16]), options).expect("a label of this program");
    let last = (1..).find(|&number| put(&mut writer, number, 3_000_000) == Progress::Full);
    let (closed, _) = writer.close().expect("the volume can be closed");
    assert_eq!(last, Some(6));
    assert!(!closed.is_indexed);
    let from = closed.continues.expect("the last object is not whole");
    let mut reader = VolumeReader::open(site.tape(0), None).expect("a label of this program");
    assert_eq!(reader.list().expect("readable").parts, closed.parts);
    let part = closed.parts.last().expect("a part of the last object");
    assert_eq!((part.object, part.bytes, part.is_last), (object(6), from.offset, false));
    let begun = &content(6, 3_000_000)[..usize::try_from(from.offset).expect("small")];
    expect_content(&mut reader, part, begun);
}

/// If the drive cannot report how much of an object is on the tape, the object starts again on
/// another tape.
#[test]
fn the_hard_end_of_a_tape_that_tells_nothing_loses_nothing_either() {
    let refused = [opcode::LOCATE_10, opcode::LOCATE_16, opcode::READ_POSITION];
    let mut site = EmulatedDrives::new(&refused, 0);
    tape::volume::label(site.tape(0), &label(1), Overwrite::Anything)
        .expect("the tape takes a label");
    let options = WriterOptions { group_bytes: MIB };
    let tape = site.tape(0);
    let mut writer =
        VolumeWriter::open(tape, VolumeId([1; 16]), options).expect("a label of this program");
    let last = (1..).find(|&number| put(&mut writer, number, 3_000_000) == Progress::Full);
    let (closed, _) = writer.close().expect("the volume can be closed");
    assert_eq!(last, Some(6));
    let numbers: Vec<u8> = closed.parts.iter().map(|part| part.object.0[0]).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!(closed.continues, Some(tape::volume::Continuation::start(object(6))));
}

#[test]
fn a_wrong_locate_is_noticed_by_the_block() {
    let mut site = EmulatedDrives::new(&[], MIB);
    tape::volume::label(site.tape(0), &label(1), Overwrite::Anything)
        .expect("the tape takes a label");
    let options = WriterOptions::default();
    let mut writer = VolumeWriter::open(site.tape(0), VolumeId([1; 16]), options)
        .expect("a label of this program");
    for number in 1..5 {
        assert_eq!(put(&mut writer, number, 1000), Progress::Going);
    }
    let (closed, _) = writer.close().expect("the volume can be closed");
    let library = site.library.clone();
    let mut reader = VolumeReader::open(site.tape(0), None).expect("a label of this program");
    library.trouble(Trouble::LocateOff { drive: 0, by: 1 });
    let wrong = reader.read(&closed.parts[1], &mut Vec::new());
    let wanted = closed.parts[1].position;
    assert!(matches!(wrong, Err(VolumeError::WrongPlace { wanted: found }) if found == wanted));
    expect_content(&mut reader, &closed.parts[2], &content(3, 1000));
}

/// If a reset between two blocks went unnoticed, the next block would be written over the label.
#[test]
fn a_reset_while_writing_destroys_nothing() {
    let mut site = EmulatedDrives::new(&[], MIB);
    tape::volume::label(site.tape(0), &label(1), Overwrite::Anything)
        .expect("the tape takes a label");
    let library = site.library.clone();
    let options = WriterOptions::default();
    let mut writer = VolumeWriter::open(site.tape(0), VolumeId([1; 16]), options)
        .expect("a label of this program");
    assert_eq!(put(&mut writer, 1, 100_000), Progress::Going);
    let synced = writer.sync().expect("room");
    writer
        .begin(tape::volume::Continuation::start(object(2)))
        .expect("the writer continues");
    library.trouble(Trouble::Reset { drive: 0 });
    let refused = writer.write(&content(2, 200_000));
    assert!(matches!(refused, Err(VolumeError::Medium(MediumError::PositionLost))));
    drop(writer);
    let mut reader = VolumeReader::open(site.tape(0), None).expect("the label is there");
    assert_eq!(reader.list().expect("readable").parts, synced);
}

#[test]
fn a_torn_end_of_a_file_is_cut_off() {
    let mut site = Files::new();
    tape::volume::label(site.tape(0), &label(1), Overwrite::Anything)
        .expect("the tape takes a label");
    let options = WriterOptions::default();
    let mut writer = VolumeWriter::open(site.tape(0), VolumeId([1; 16]), options)
        .expect("a label of this program");
    assert_eq!(put(&mut writer, 1, 100_000), Progress::Going);
    let synced = writer.sync().expect("room");
    drop(writer);
    let whole = std::fs::read(site.path(0)).expect("a file");
    for torn in [1, 16, 40, 1000] {
        let bytes = [&whole[..], &content(9, torn)].concat();
        std::fs::write(site.path(0), bytes).expect("a file");
        let mut medium = FileMedium::open(&site.path(0), 16 * MIB).expect("a file");
        let mut writer = VolumeWriter::open(&mut medium, VolumeId([1; 16]), options)
            .expect("a label of this program");
        assert_eq!(put(&mut writer, 2, 10), Progress::Going);
        let (closed, _) = writer.close().expect("room");
        let mut reader = VolumeReader::open(&mut medium, None).expect("a label of this program");
        let expected = [&synced[..], &closed.parts].concat();
        assert_eq!(reader.list().expect("indexed").parts, expected);
    }
}

/// After a crash, the file may have any length from its last sync on.
#[test]
fn whatever_a_crash_leaves_of_a_file_what_was_synced_is_there() {
    let mut site = Files::new();
    tape::volume::label(site.tape(0), &label(1), Overwrite::Anything)
        .expect("the tape takes a label");
    let options = WriterOptions::default();
    let path = site.path(0);
    let mut writer = VolumeWriter::open(site.tape(0), VolumeId([1; 16]), options)
        .expect("a label of this program");
    assert_eq!(put(&mut writer, 1, 100_000), Progress::Going);
    let synced = writer.sync().expect("room");
    let synced_bytes = std::fs::metadata(&path).expect("a file").len();
    assert_eq!(put(&mut writer, 2, 70_000), Progress::Going);
    let (closed, _) = writer.close().expect("room");
    let whole = std::fs::read(&path).expect("a file");
    let synced_bytes = usize::try_from(synced_bytes).expect("small");
    let edges = [0, 1, 15, 16, 17, 32, 97].map(|back| whole.len() - back);
    for cut in (synced_bytes..whole.len()).step_by(997).chain(edges) {
        std::fs::write(&path, &whole[..cut]).expect("a file");
        let medium = FileMedium::open(&path, 16 * MIB).expect("a file");
        let mut reader = VolumeReader::open(medium, None).expect("a label of this program");
        let listing = reader.list().expect("readable");
        assert_eq!(listing.parts[0], synced[0], "cut at {cut}");
        assert!(listing.damaged.is_empty(), "cut at {cut}");
        for part in listing.parts.iter().filter(|part| part.is_last) {
            let number = part.object.0[0];
            let bytes = [100_000, 70_000][usize::from(number) - 1];
            expect_content(&mut reader, part, &content(number, bytes));
        }
    }
    assert_eq!(closed.parts.len(), 1);
}

#[test]
fn a_folder_of_volumes_has_whole_labels_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let volumes = FileVolumes::open(folder.path(), 16 * MIB).expect("a folder");
    assert!(FileVolumes::open(folder.path(), 16 * MIB).is_err(), "one process at a time");
    assert!(volumes.names().expect("a folder").is_empty());
    volumes.label(&label(1), Overwrite::Nothing).expect("the volume is new");
    assert_eq!(volumes.names().expect("a folder"), [label(1).name]);
    let refused = volumes.label(&label(1), Overwrite::Nothing);
    assert!(matches!(refused, Err(VolumeError::Labelled(_))));
    let mut medium = volumes.medium(&label(1).name).expect("the volume exists");
    let mut writer = VolumeWriter::open(&mut medium, VolumeId([1; 16]), WriterOptions::default())
        .expect("a label of this program");
    assert_eq!(put(&mut writer, 1, 100_000), Progress::Going);
    let (closed, _) = writer.close().expect("room");
    assert_eq!(closed.parts.len(), 1);
    volumes.label(&label(1), Overwrite::Ours).expect("the overwrite is allowed");
    let medium = volumes.medium(&label(1).name).expect("the volume exists");
    let mut reader = VolumeReader::open(medium, None).expect("a label of this program");
    assert!(reader.list().expect("readable").parts.is_empty());
    let path = folder.path().join("A00001L8.volume");
    std::fs::set_permissions(&path, Permissions::from_mode(0o400)).expect("a file");
    let refused = volumes.label(&label(1), Overwrite::Anything);
    assert!(matches!(refused, Err(VolumeError::Medium(MediumError::WriteProtected))));
    volumes.remove(&label(1).name).expect("the volume exists");
    let missing = volumes.medium(&label(1).name);
    assert!(matches!(missing, Err(VolumeError::Medium(MediumError::NoMedium))));
}

/// A foreign file in the folder was once regarded as blank, and was overwritten by a label.
#[test]
fn a_file_of_somebody_else_is_not_blank() {
    let folder = tempfile::tempdir().expect("a folder");
    let volumes = FileVolumes::open(folder.path(), 16 * MIB).expect("a folder");
    let path = folder.path().join("A00001L8.volume");
    for text in [&b"x"[..], &[0x20; 100_000]] {
        std::fs::write(&path, text).expect("a file");
        for overwrite in [Overwrite::Nothing, Overwrite::Ours] {
            let refused = volumes.label(&label(1), overwrite);
            assert!(matches!(refused, Err(VolumeError::Foreign(_))), "{refused:?}");
        }
        assert_eq!(std::fs::read(&path).expect("a file"), text);
    }
    volumes.label(&label(1), Overwrite::Anything).expect("the overwrite is allowed");
}

//! Tests of a whole library, against the emulator.

use format::volume::VolumeName;
use sim::{Cartridge, Constants, DriveModel, Layout, Trouble};
use tape::library::{DriveState, Labelling, Library, LibraryError};
use tape::medium::{Medium as _, MediumError};
use tape::scsi::{ElementKind, TapeAlert};
use tape::transport::ScsiTransport;
use tape::volume::{Overwrite, Progress, VolumeError, VolumeReader, VolumeWriter, WriterOptions};

use crate::scenario::{content, expect_content, put};

const MIB: u64 = 1 << 20;

fn name(name: &str) -> VolumeName {
    VolumeName::new(name).expect("a name")
}

fn cartridge(barcode: &str) -> Cartridge {
    Cartridge::blank(barcode, 16 * MIB, MIB)
}

/// Returns a library with two drives, and five slots that hold three tapes and a cleaning
/// cartridge.
fn open() -> (sim::Library, Library) {
    let drives = ["DRV00001", "DRV00002"].map(DriveModel::new).to_vec();
    let layout = Layout { slot_count: 5, import_export_count: 1, drives };
    let barcodes = ["A00001L8", "A00002L8", "A00003L8", "CLN001L1"];
    let sim = sim::Library::new(layout, barcodes.map(cartridge).into(), Box::new(Constants));
    // The drives are in the wrong order; the changer reports which drive is in which element.
    let drives: Vec<Box<dyn ScsiTransport>> = vec![Box::new(sim.drive(1)), Box::new(sim.drive(0))];
    let library = Library::open(Box::new(sim.changer()), drives).expect("the library answers");
    (sim, library)
}

pub(crate) fn labelling(overwrite: Overwrite) -> Labelling {
    Labelling { pool: "tape".to_owned(), sequence: 1, block_bytes: 512 << 10, overwrite }
}

fn labelled() -> (sim::Library, Library) {
    let (sim, mut library) = open();
    for barcode in ["A00001L8", "A00002L8"] {
        library
            .label(&name(barcode), &labelling(Overwrite::Nothing))
            .expect("the volume is blank");
    }
    (sim, library)
}

#[track_caller]
fn where_is(library: &Library, barcode: &str) -> ElementKind {
    let volumes = library.volumes();
    let found = volumes.iter().find(|volume| volume.name == name(barcode));
    found.expect("the volume is in the library").kind
}

#[test]
fn the_library_lists_what_is_in_it() {
    let (_sim, library) = open();
    let volumes: Vec<_> = library
        .volumes()
        .iter()
        .map(|volume| (volume.name.to_string(), volume.address, volume.is_cleaning))
        .collect();
    let expected = [
        ("A00001L8".to_owned(), 1000, false),
        ("A00002L8".to_owned(), 1001, false),
        ("A00003L8".to_owned(), 1002, false),
        ("CLN001L1".to_owned(), 1003, true),
    ];
    assert_eq!(volumes, expected);
    let drives = library.drives();
    let serials: Vec<_> =
        drives.iter().map(|drive| (drive.address, drive.serial.as_str())).collect();
    assert_eq!(serials, [(500, "DRV00001"), (501, "DRV00002")]);
    assert!(drives.iter().all(|drive| drive.state == DriveState::Free));
}

#[test]
fn volumes_are_mounted_by_name_and_put_back() {
    let (_sim, mut library) = labelled();
    let (first, label) = library.mount(&name("A00001L8")).expect("the volume is labelled");
    assert_eq!((label.name, label.pool.as_str()), (name("A00001L8"), "tape"));
    let (second, _) = library.mount(&name("A00002L8")).expect("there is another drive");
    assert_ne!(first.address(), second.address());
    assert_eq!(where_is(&library, "A00001L8"), ElementKind::Drive);
    let states: Vec<_> = library.drives().into_iter().map(|drive| drive.state).collect();
    assert_eq!(states[0], DriveState::Lent(name("A00001L8")));
    let busy = library.mount(&name("A00001L8"));
    assert!(matches!(busy.err(), Some(LibraryError::InUse(_))));
    let busy = library.mount(&name("A00003L8"));
    assert!(matches!(busy.err(), Some(LibraryError::NoDrive)));
    library.dismount(second).expect("the volume is put away");
    library.dismount(first).expect("the volume is put away");
    assert_eq!(where_is(&library, "A00001L8"), ElementKind::Slot);
    assert_eq!(library.volumes()[0].address, 1000, "the volume is in its old slot");
    let unknown = library.mount(&name("A00009L8"));
    assert!(matches!(unknown.err(), Some(LibraryError::NotFound(_))));
}

#[test]
fn objects_survive_a_dismount() {
    let (_sim, mut library) = labelled();
    let (mut mounted, label) = library.mount(&name("A00001L8")).expect("labelled");
    let options = WriterOptions::default();
    let mut writer = VolumeWriter::open(&mut mounted.drive, label.volume, options)
        .expect("a label of this program");
    assert_eq!(put(&mut writer, 1, 2_000_000), Progress::Going);
    let (closed, _) = writer.close().expect("room");
    library.dismount(mounted).expect("the volume is put away");
    let (mut mounted, label) = library.mount(&name("A00001L8")).expect("labelled");
    let mut reader = VolumeReader::open(&mut mounted.drive, Some(label.volume)).expect("the same");
    assert_eq!(reader.list().expect("indexed").parts, closed.parts);
    expect_content(&mut reader, &closed.parts[0], &content(1, 2_000_000));
    library.dismount(mounted).expect("the volume is put away");
}

#[test]
fn volumes_without_our_label_are_not_handed_out() {
    let (sim, mut library) = labelled();
    let blank = library.mount(&name("A00003L8"));
    assert!(matches!(blank.err(), Some(LibraryError::Volume { source: VolumeError::Blank, .. })));
    assert_eq!(where_is(&library, "A00003L8"), ElementKind::Slot, "the volume was put away");
    let again = library.label(&name("A00001L8"), &labelling(Overwrite::Nothing));
    assert!(matches!(
        again.err(),
        Some(LibraryError::Volume { source: VolumeError::Labelled(_), .. })
    ));
    sim.alter("A00001L8", |cartridge| cartridge.is_write_protected = true);
    let protected = library.label(&name("A00001L8"), &labelling(Overwrite::Anything));
    assert!(matches!(
        protected.err(),
        Some(LibraryError::Volume { source: VolumeError::Medium(MediumError::WriteProtected), .. })
    ));
    // The volume gets another barcode.
    sim.alter("A00002L8", |cartridge| cartridge.barcode = "A00007L8".to_owned());
    let another = library.mount(&name("A00007L8"));
    assert!(matches!(
        another.err(),
        Some(LibraryError::Volume { source: VolumeError::Another { found }, .. })
            if found == name("A00002L8")
    ));
    assert!(library.drives().iter().all(|drive| drive.state == DriveState::Free));
}

#[test]
fn a_drive_that_fails_is_left_out_and_another_one_taken() {
    let (sim, mut library) = labelled();
    sim.trouble(Trouble::DriveDies { drive: 0 });
    let (mounted, _) = library.mount(&name("A00001L8")).expect("the other drive works");
    assert_eq!(mounted.address(), 501);
    assert!(matches!(library.drives()[0].state, DriveState::OutOfService(_)));
    library.dismount(mounted).expect("the volume is put away");
    sim.trouble(Trouble::DriveDies { drive: 1 });
    let none = library.mount(&name("A00001L8"));
    assert!(matches!(none.err(), Some(LibraryError::NoDrive)));
    assert_eq!(where_is(&library, "A00001L8"), ElementKind::Slot, "the volume was put away");
    library.restore_to_service(500);
    assert_eq!(library.drives()[0].state, DriveState::Free);
}

#[test]
fn a_volume_that_cannot_be_read_is_marked_and_not_the_drive() {
    let (sim, mut library) = labelled();
    sim.trouble(Trouble::BadBlock { barcode: "A00001L8".to_owned(), block: 0 });
    let damaged = library.mount(&name("A00001L8"));
    assert!(matches!(
        damaged.err(),
        Some(LibraryError::Volume {
            source: VolumeError::Medium(MediumError::Damaged { position: 0 }),
            ..
        })
    ));
    assert!(library.volumes()[0].is_damaged);
    assert!(library.drives().iter().all(|drive| drive.state == DriveState::Free));
    assert_eq!(library.take_alerts().get(&500), Some(&vec![TapeAlert(4)]));
}

#[test]
fn media_come_and_go_through_the_portal() {
    let (sim, mut library) = labelled();
    assert!(sim.import(cartridge("B00001L8")));
    assert_eq!(library.check_in().expect("a slot is free"), [name("B00001L8")]);
    assert_eq!(where_is(&library, "B00001L8"), ElementKind::Slot);
    assert!(sim.import(cartridge("B00002L8")));
    let full = library.check_in();
    assert!(matches!(full.err(), Some(LibraryError::NoRoom(ElementKind::Slot))));
    let full = library.check_out(&name("A00003L8"));
    assert!(matches!(full.err(), Some(LibraryError::NoRoom(ElementKind::ImportExport))));
    assert_eq!(sim.export().len(), 1);
    assert_eq!(library.check_out(&name("A00003L8")).expect("free"), 700);
    assert_eq!(sim.export()[0].barcode, "A00003L8");
    library.refresh().expect("the library answers");
    let gone = library.check_out(&name("A00003L8"));
    assert!(matches!(gone.err(), Some(LibraryError::NotFound(_))));
}

#[test]
fn a_drive_that_asks_for_it_is_cleaned() {
    let (sim, mut library) = labelled();
    sim.trouble(Trouble::Dirty { drive: 0 });
    let (mounted, _) = library.mount(&name("A00001L8")).expect("labelled");
    library.dismount(mounted).expect("the volume is put away");
    assert!(library.drives()[0].wants_cleaning);
    let (mounted, _) = library.mount(&name("A00001L8")).expect("labelled");
    assert_eq!(mounted.address(), 501, "a clean drive is taken first");
    assert!(matches!(library.clean(501).err(), Some(LibraryError::DriveNotFree(501))));
    library.dismount(mounted).expect("the volume is put away");
    assert!(matches!(library.clean(999).err(), Some(LibraryError::UnknownDrive(999))));
    library.clean(500).expect("there is a cleaning cartridge");
    assert!(!library.drives()[0].wants_cleaning);
    assert_eq!(where_is(&library, "CLN001L1"), ElementKind::Slot);
    library.check_out(&name("CLN001L1")).expect("the portal is free");
    sim.export();
    assert!(matches!(library.clean(500).err(), Some(LibraryError::NoCleaner)));
}

#[test]
fn what_a_program_that_died_left_in_drives_is_used_or_put_away() {
    let (sim, mut library) = labelled();
    for barcode in ["A00001L8", "A00002L8"] {
        let _left = library.mount(&name(barcode)).expect("labelled");
    }
    drop(library);
    let drives = [0, 1].map(|index| Box::new(sim.drive(index)) as Box<dyn ScsiTransport>);
    let mut library =
        Library::open(Box::new(sim.changer()), drives.into()).expect("the library answers");
    let (mounted, _) = library.mount(&name("A00002L8")).expect("the volume is in a drive");
    assert_eq!(mounted.address(), 501);
    library
        .label(&name("A00003L8"), &labelling(Overwrite::Nothing))
        .expect("a drive is emptied");
    assert_eq!(where_is(&library, "A00001L8"), ElementKind::Slot);
    library.dismount(mounted).expect("the volume is put away");
    assert_eq!(library.volumes()[1].address, 1001, "the volume is in its old slot");
}

#[test]
fn a_jam_is_a_fault_of_the_changer() {
    let (sim, mut library) = labelled();
    sim.trouble(Trouble::ChangerJams);
    let jammed = library.mount(&name("A00001L8"));
    let Some(LibraryError::Changer(error)) = jammed.err() else { panic!("the changer jams") };
    assert!(matches!(error, tape::changer::ChangerError::Failed(_)));
    let (mut mounted, _) = library.mount(&name("A00001L8")).expect("the jam has ended");
    mounted.drive.rewind().expect("the volume is mounted");
    library.dismount(mounted).expect("the volume is put away");
}

#[test]
fn two_drives_are_used_by_two_threads() {
    let (_sim, mut library) = labelled();
    let mounted =
        ["A00001L8", "A00002L8"].map(|tape| library.mount(&name(tape)).expect("labelled"));
    let threads = mounted.map(|(mut mounted, label)| {
        std::thread::spawn(move || {
            let options = WriterOptions::default();
            let mut writer = VolumeWriter::open(&mut mounted.drive, label.volume, options)
                .expect("a label of this program");
            assert_eq!(put(&mut writer, 1, 1_000_000), Progress::Going);
            let (closed, _) = writer.close().expect("room");
            let mut reader =
                VolumeReader::open(&mut mounted.drive, None).expect("a label of this program");
            expect_content(&mut reader, &closed.parts[0], &content(1, 1_000_000));
            mounted
        })
    });
    for thread in threads {
        library
            .dismount(thread.join().expect("the thread succeeded"))
            .expect("the volume is put away");
    }
}

#[test]
fn what_is_just_starting_is_waited_for() {
    let (sim, library) = labelled();
    drop(library);
    sim.trouble(Trouble::ChangerStarts { looks: 100 });
    let drives = [0, 1].map(|index| Box::new(sim.drive(index)) as Box<dyn ScsiTransport>);
    let before = sim.clock();
    let mut library =
        Library::open(Box::new(sim.changer()), drives.into()).expect("the library starts");
    assert!((sim.clock() - before).as_secs() >= 100);
    // The first load of an LTO-9 tape takes more than an hour.
    sim.trouble(Trouble::SlowLoad { drive: 0, looks: 10_000 });
    let before = sim.clock();
    let (mounted, _) = library.mount(&name("A00001L8")).expect("the load takes long");
    assert!((sim.clock() - before).as_secs() >= 3600);
    library.dismount(mounted).expect("the volume is put away");
}

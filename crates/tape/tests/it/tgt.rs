//! Tests with `tgt`, an iSCSI target with a changer and two drives that know neither LOCATE nor
//! READ POSITION.
//!
//! Known faults that the crate hides: byte counts of READ ELEMENT STATUS include headers;
//! UNLOAD needs the bit for disk drives; a short block comes with an inverted residual; SPACE over
//! blocks does not stop at filemarks, and reports an error when it ends at the end of data; changes
//! of media raise no unit attention. Known faults that remain visible: tapes continue for a quarter
//! of their capacity after the early warning, and have no hard end; write protection is unknown.

use std::path::Path;
use std::time::Duration;

use format::volume::VolumeName;
use tape::address::Address;
use tape::device::CommandError;
use tape::drive::{Drive, LocateMethod, PositionMethod};
use tape::library::{DriveState, Labelling, Library, LibraryError, MountedVolume};
use tape::line::Pauses;
use tape::medium::{Medium, MediumError};
use tape::scsi::ElementKind;
use tape::volume::{Overwrite, Progress, VolumeError, VolumeReader, VolumeWriter, WriterOptions};

use crate::scenario::{self, Site, content, expect_content, put};
use crate::server::{self, Server};

const TARGET: &str = "iqn.2026-01.test:vtl";
const PROGRAMS: [&str; 3] = ["tgtd", "tgtadm", "tgtimg"];
const CHANGER_LUN: u16 = 4;
const TAPES: [&str; 4] = ["A00001L8", "A00002L8", "A00003L8", "A00004L8"];
const TAPE_MEBIBYTES: &str = "16";

struct Tgt {
    _server: Server,
    _folder: tempfile::TempDir,
    port: u16,
}

impl Tgt {
    /// Starts a library with ten slots, four tapes in the first slots, two drives and two
    /// import/export elements.
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = server::free_port();
        // Number of the socket through which the server is set up; at most 32767.
        let control = (port % 30_000 + 1).to_string();
        let portal = format!("portal=127.0.0.1:{port}");
        let arguments = ["-f", "--control-port", &control, "--iscsi", &portal];
        let server = server::start("tgtd", &arguments, port);
        set_up(folder.path(), &control);
        Self { _server: server, _folder: folder, port }
    }

    fn library(&self) -> Library {
        let drives = [1, 2].map(|lun| server::open(self.port, TARGET, lun)).into();
        let changer = server::open(self.port, TARGET, CHANGER_LUN);
        Library::open(changer, drives).expect("the library answers")
    }
}

fn set_up(folder: &Path, control: &str) {
    let path = |name: &str| folder.join(name).to_str().expect("plain").to_owned();
    let image = |barcode: &str, kind: &str, file: &str| {
        let common = ["--op", "new", "--device-type", "tape", "--barcode", barcode];
        let sized = ["--size", TAPE_MEBIBYTES, "--type", kind, "--file", file];
        server::run("tgtimg", &[common, sized].concat());
    };
    for barcode in TAPES {
        image(barcode, "data", &path(barcode));
    }
    image("", "clean", &path("notape"));
    std::fs::write(folder.join("smc"), [0; 1024]).expect("a file");
    let admin = |arguments: &[&str]| {
        let common = ["--control-port", control, "--lld", "iscsi", "--tid", "1", "--mode"];
        server::run("tgtadm", &[&common[..], arguments].concat());
    };
    let unit = |lun: &str, arguments: &[&str]| {
        admin(&[&["logicalunit", "--lun", lun][..], arguments].concat());
    };
    admin(&["target", "--op", "new", "-T", TARGET]);
    for lun in ["1", "2"] {
        let backing = path("notape");
        unit(lun, &["--op", "new", "--device-type", "tape", "--bstype", "ssc", "-b", &backing]);
        let named = format!("vendor_id=IBM,product_id=ULT3580-TD8,scsi_sn=DRV0000{lun}");
        unit(lun, &["--op", "update", "--params", &format!("{named},removable=1,online=0")]);
    }
    let backing = path("smc");
    unit("4", &["--op", "new", "--device-type", "changer", "--bstype", "smc", "-b", &backing]);
    let home = format!("media_home={}", folder.display());
    let mut parameters: Vec<String> = [
        "vendor_id=STK,product_id=L700,product_rev=0001,scsi_sn=CHG00001,removable=1",
        &home,
        "element_type=1,start_address=1,quantity=1",
        "element_type=2,start_address=1000,quantity=10",
        "element_type=3,start_address=700,quantity=2",
        "element_type=4,start_address=500,quantity=2",
        "element_type=4,address=500,tid=1,lun=1",
        "element_type=4,address=501,tid=1,lun=2",
    ]
    .map(str::to_owned)
    .into();
    parameters.extend((1000..).zip(TAPES).map(|(address, barcode)| {
        format!("element_type=2,address={address},barcode={barcode},sides=1")
    }));
    for parameter in &parameters {
        unit("4", &["--op", "update", "--params", parameter]);
    }
    admin(&["target", "--op", "bind", "-I", "127.0.0.1"]);
}

fn name(name: &str) -> VolumeName {
    VolumeName::new(name).expect("a name")
}

struct MountedPair(Vec<MountedVolume>);

impl Site for MountedPair {
    fn tape(&mut self, index: usize) -> &mut dyn Medium {
        &mut self.0[index].drive
    }
}

#[test]
fn volumes_on_tapes_of_tgt() {
    if server::is_missing(&PROGRAMS) {
        return;
    }
    let tgt = Tgt::start();
    let mut library = tgt.library();
    let tapes = ["A00001L8", "A00002L8"];
    let mounted = tapes.map(|tape| library.mount_any(&name(tape)).expect("a drive is free"));
    let mut pair = MountedPair(mounted.into());
    scenario::run_all(&mut pair);
    for mounted in pair.0 {
        assert_eq!(mounted.drive.ways(), (LocateMethod::Space, PositionMethod::Count));
        library.dismount(mounted).expect("the volume is put away");
    }
}

#[test]
fn the_library_of_tgt() {
    if server::is_missing(&PROGRAMS) {
        return;
    }
    let tgt = Tgt::start();
    let mut library = tgt.library();
    library.look_again().expect("the library answers");
    let listed: Vec<_> = library.volumes().into_iter().map(|v| (v.name, v.address)).collect();
    let expected: Vec<_> = TAPES.map(name).into_iter().zip(1000..).collect();
    assert_eq!(listed, expected);
    assert_eq!(library.drives().len(), 2);
    let labelling = Labelling {
        pool: "tape".to_owned(),
        sequence: 1,
        block_bytes: 256 << 10,
        overwrite: Overwrite::Nothing,
    };
    let blank = library.mount(&name("A00003L8"));
    assert!(matches!(blank.err(), Some(LibraryError::Volume { source: VolumeError::Blank, .. })));
    let label = library.label(&name("A00003L8"), &labelling).expect("the volume is blank");
    let (mut mounted, found) = library.mount(&name("A00003L8")).expect("the volume is labelled");
    assert_eq!(found, label);
    let options = WriterOptions::default();
    let mut writer = VolumeWriter::open(&mut mounted.drive, label.volume, options)
        .expect("a label of this program");
    assert_eq!(put(&mut writer, 1, 3_000_000), Progress::Going);
    let (closed, _) = writer.close().expect("room");
    library.dismount(mounted).expect("the volume is put away");
    let (mut mounted, _) = library.mount(&name("A00003L8")).expect("the volume is labelled");
    let mut reader = VolumeReader::open(&mut mounted.drive, Some(label.volume)).expect("the same");
    assert_eq!(reader.list().expect("indexed").parts, closed.parts);
    expect_content(&mut reader, &closed.parts[0], &content(1, 3_000_000));
    library.dismount(mounted).expect("the volume is put away");
    let portal = library.check_out(&name("A00004L8")).expect("the portal is free");
    assert_eq!(portal, 700);
    assert_eq!(library.check_in().expect("a slot is free"), [name("A00004L8")]);
    assert!(library.drives().iter().all(|drive| drive.state == DriveState::Free));
    let kinds = library.volumes().into_iter().map(|volume| volume.kind);
    assert!(kinds.eq([ElementKind::Slot; 4]));
}

#[test]
fn an_empty_drive_of_tgt_says_so() {
    if server::is_missing(&PROGRAMS) {
        return;
    }
    let tgt = Tgt::start();
    let mut drive = Drive::open(server::open(tgt.port, TARGET, 1)).expect("the drive answers");
    assert_eq!(drive.identity().serial, "DRV00001");
    assert!(!drive.is_ready().expect("the drive answers"));
}

#[test]
fn a_target_that_dies_is_a_drive_that_fails() {
    if server::is_missing(&PROGRAMS) {
        return;
    }
    let tgt = Tgt::start();
    let address = format!("iscsi://127.0.0.1:{}/{TARGET}/1", tgt.port);
    let address: Address = address.parse().expect("an address");
    let pauses = Pauses { patience: Duration::from_millis(200), ..Pauses::default() };
    let line = address.open_with(pauses).expect("the drive answers");
    let seen = line.line().expect("the connection is a line");
    let mut drive = Drive::open(line).expect("the drive answers");
    drop(tgt);
    assert!(matches!(drive.is_ready(), Err(CommandError::Lost { .. })));
    assert!(matches!(drive.load(), Err(MediumError::Failed(_))));
    assert!(seen.outage().is_some());
}

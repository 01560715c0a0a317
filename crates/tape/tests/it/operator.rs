//! Tests of the operator, with the drives of the emulator and with files.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use format::volume::{ObjectId as StoredId, Part, VolumeId as LabelId, VolumeName};
use sim::{Cartridge, Constants, DriveModel, Layout, Trouble};
use tape::file_volume::FileVolumes;
use tape::generation::MEDIUM_LTO8;
use tape::geometry::Geometry;
use tape::library::Library;
use tape::line::Pauses;
use tape::operator::{
    DriveStatus, Event, LoanError, Operator, Outcome, ReadRequest, Stock, VolumeRef,
};
use tape::schedule::{
    Absence, Config, Kind, ObjectId, OwnerId, ProgramId, Schedule, VolumeId, WaiterId,
};
use tape::timing::Timing;
use tape::transport::ScsiTransport;
use tape::volume::{self, Overwrite, VolumeWriter, WriterOptions};

use crate::library::labelling;
use crate::line::{Network, PAUSES};
use crate::scenario::{content, put};

const BARCODES: [&str; 3] = ["A00001L8", "A00002L8", "A00003L8"];
const OBJECT_BYTES: usize = 700_000;
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// An operator with two drives and three labelled volumes.
struct Yard {
    operator: Operator,
    volumes: Vec<VolumeRef>,
    events: Arc<Mutex<Vec<Event>>>,
    sim: Option<sim::Library>,
    _folder: Option<tempfile::TempDir>,
}

impl Yard {
    fn emulated() -> Self {
        let sim = emulator();
        Self::over(Stock::Library(Box::new(attached(&sim))), Some(sim), None)
    }

    /// Makes a yard whose devices are reached over lines. Returns it with the networks of the
    /// changer and of the two drives.
    fn remote(pauses: Pauses) -> (Self, [Network; 3]) {
        let sim = emulator();
        let networks = [(); 3].map(|()| Network::default());
        let [changer, first, second] = [(); 3].map(|()| sim.clone());
        let changer = networks[0].line(pauses, move || changer.changer());
        let drives: Vec<Box<dyn ScsiTransport>> = vec![
            Box::new(networks[1].line(pauses, move || first.drive(0))),
            Box::new(networks[2].line(pauses, move || second.drive(1))),
        ];
        let library = Library::open(Box::new(changer), drives).expect("the library answers");
        let yard = Self::over(Stock::Library(Box::new(library)), Some(sim), None);
        (yard, networks)
    }

    /// Ends the operator, and starts another for the same library.
    fn restarted(self) -> Self {
        let Self { operator, volumes, events, sim, _folder } = self;
        drop(operator);
        let stock = Stock::Library(Box::new(attached(sim.as_ref().expect("an emulator"))));
        let operator = start(stock, &events);
        operator.take_over(&volumes).expect("the library answers");
        let yard = Self { operator, volumes, events, sim, _folder };
        yard.settle();
        yard
    }

    fn files() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let volumes = FileVolumes::open(folder.path(), 16 << 20).expect("the folder is free");
        for name in BARCODES {
            let name = VolumeName::new(name).expect("a name");
            let label = labelling(Overwrite::Nothing).label(&name, 512 << 10);
            volumes.label(&label, Overwrite::Nothing).expect("the volume is new");
        }
        Self::over(Stock::Folder { volumes, drives: 2 }, None, Some(folder))
    }

    fn over(stock: Stock, sim: Option<sim::Library>, folder: Option<tempfile::TempDir>) -> Self {
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let operator = start(stock, &events);
        let mut yard = Self { operator, volumes: Vec::new(), events, sim, _folder: folder };
        for (id, name) in (1..).zip(BARCODES) {
            let known = yard.labelled(id, name);
            yard.volumes.push(known);
        }
        yard.settle();
        yard
    }

    /// Waits until all drives are idle, so that the next volume takes an empty drive and displaces
    /// no other volume.
    fn settle(&self) {
        let end = sys::clock::monotonic() + SETTLE_MAX;
        while !self.operator.drives().iter().all(|drive| drive.is_idle) {
            assert!(sys::clock::monotonic() < end, "{:?}", self.operator.drives());
            sys::clock::sleep(Duration::from_millis(1));
        }
    }

    /// Labels a tape. A file has a label already, which is read instead.
    fn labelled(&self, id: u64, name: &str) -> VolumeRef {
        let name = VolumeName::new(name).expect("a name");
        let blank = VolumeRef { id: VolumeId(id), name, label: None, block_bytes: 512 << 10 };
        let mut lent = self.operator.borrow(&blank).expect("a drive is free");
        let label = match volume::read_label(lent.medium()) {
            Ok(label) => label,
            Err(_) => {
                let label = labelling(Overwrite::Nothing).label(&blank.name, 512 << 10);
                let labelled = volume::label(lent.medium(), &label, Overwrite::Nothing);
                labelled.expect("the volume is blank");
                label
            }
        };
        VolumeRef { label: Some(label.volume), block_bytes: label.block_bytes, ..blank }
    }

    /// Writes objects with these numbers to the volume.
    fn write(&self, volume: usize, numbers: &[u8]) -> Vec<Part> {
        let known = &self.volumes[volume];
        let mut lent = self.operator.borrow(known).expect("a drive is free");
        let expected = known.label.expect("the volume is labelled");
        let options = WriterOptions::default();
        let writer = VolumeWriter::open(lent.medium(), expected, options);
        let mut writer = writer.expect("the volume has a label of this program");
        for number in numbers {
            let _going = put(&mut writer, *number, OBJECT_BYTES);
        }
        writer.close().expect("room").0.parts
    }

    fn ask(&self, number: u8, copies: &[(usize, Part)]) -> (WaiterId, PendingRead) {
        let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
        let sink = Arc::clone(&bytes);
        let wanted = ReadRequest {
            object: ObjectId(number.into()),
            copies: copies.iter().map(|(at, part)| (self.volumes[*at].clone(), *part)).collect(),
            deliver: Arc::new(move |_| {
                sink.lock().expect("whole").clear();
                Ok(Box::new(Sink(Arc::clone(&sink))))
            }),
            salvages: false,
            kind: Kind::List,
            owner: OwnerId(0),
            program: ProgramId(0),
        };
        let (told, answer) = channel();
        let waiter = self.operator.ask(wanted, told).expect("the request is accepted");
        (waiter, PendingRead { number, bytes, answer })
    }

    fn events(&self) -> Vec<Event> {
        self.events.lock().expect("whole").clone()
    }

    fn trouble(&self, trouble: Trouble) {
        self.sim.as_ref().expect("an emulator").trouble(trouble);
    }
}

/// A library with two drives and the cartridges of all barcodes.
fn emulator() -> sim::Library {
    let drives = ["DRV00001", "DRV00002"].map(DriveModel::new).to_vec();
    let layout = Layout { slot_count: 5, import_export_count: 1, drives };
    let cartridge = |barcode: &&str| Cartridge::blank(barcode, 16 << 20, 1 << 20);
    let cartridges = BARCODES.iter().map(cartridge).collect();
    sim::Library::new(layout, cartridges, Box::new(Constants))
}

fn attached(sim: &sim::Library) -> Library {
    let drives: Vec<Box<dyn ScsiTransport>> = vec![Box::new(sim.drive(0)), Box::new(sim.drive(1))];
    Library::open(Box::new(sim.changer()), drives).expect("the library answers")
}

fn start(stock: Stock, events: &Arc<Mutex<Vec<Event>>>) -> Operator {
    let config = Config::new(Timing::files(), 2);
    let schedule = Schedule::new(config, Geometry::even(MEDIUM_LTO8));
    let heard = Arc::clone(events);
    let listener = Box::new(move |event| heard.lock().expect("whole").push(event));
    Operator::start(schedule, stock, listener).expect("threads")
}

struct PendingRead {
    number: u8,
    bytes: Arc<Mutex<Vec<u8>>>,
    answer: Receiver<Outcome>,
}

impl PendingRead {
    #[track_caller]
    fn expect_content(self) {
        let outcome = self.answer.recv().expect("an answer");
        assert_eq!(outcome.result, Ok(()));
        let found = self.bytes.lock().expect("whole");
        assert!(*found == content(self.number, OBJECT_BYTES), "object {}", self.number);
    }

    #[track_caller]
    fn expect_failure(self, words: &str) {
        let outcome = self.answer.recv().expect("an answer");
        let reason = outcome.result.expect_err("no copy can be read").to_string();
        assert!(reason.contains(words), "{reason}");
    }
}

struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("whole").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn object_of(part: &Part) -> u8 {
    let StoredId(bytes) = part.object;
    bytes[0]
}

fn everything_written_is_read(yard: &Yard) {
    let first = yard.write(0, &[1, 2, 3]);
    let second = yard.write(1, &[4, 5]);
    let third = yard.write(0, &[6]);
    let on = |volume: usize, parts: &[Part]| -> Vec<PendingRead> {
        let ask = |part: &Part| yard.ask(object_of(part), &[(volume, *part)]).1;
        parts.iter().rev().map(ask).collect()
    };
    let waits = [on(0, &first), on(1, &second), on(0, &third)].concat_all();
    waits.into_iter().for_each(PendingRead::expect_content);
    assert_eq!(yard.events(), []);
}

trait ConcatAll {
    fn concat_all(self) -> Vec<PendingRead>;
}

impl<const COUNT: usize> ConcatAll for [Vec<PendingRead>; COUNT] {
    fn concat_all(self) -> Vec<PendingRead> {
        self.into_iter().flatten().collect()
    }
}

#[test]
fn tapes_are_written_and_read() {
    everything_written_is_read(&Yard::emulated());
}

#[test]
fn files_are_written_and_read() {
    everything_written_is_read(&Yard::files());
}

#[test]
fn a_copy_serves_where_the_first_is_damaged_or_away() {
    let yard = Yard::emulated();
    let first = yard.write(0, &[1, 2])[0];
    let second = yard.write(1, &[9, 1])[1];
    let block = first.position;
    yard.trouble(Trouble::BadBlock { barcode: BARCODES[0].to_owned(), block });
    yard.ask(1, &[(0, first), (1, second)]).1.expect_content();
    yard.ask(1, &[(0, first)]).1.expect_failure("damaged");
    let blamed = yard.events().into_iter().filter_map(|event| match event {
        Event::Damaged { volume, .. } => Some(volume),
        _ => None,
    });
    assert_eq!(Vec::from_iter(blamed), [yard.volumes[0].id; 2]);
    let counted: u64 = yard.operator.drives().iter().map(|drive| drive.errors).sum();
    assert_eq!(counted, 2, "each error counts at the drive in which it was met");
    yard.operator.volume_absent(yard.volumes[1].id, Absence::Offsite);
    let refused = yard.operator.ask(
        ReadRequest {
            object: ObjectId(77),
            copies: vec![(yard.volumes[1].clone(), second)],
            deliver: Arc::new(|_| Err(io::ErrorKind::Other.into())),
            salvages: false,
            kind: Kind::Open,
            owner: OwnerId(0),
            program: ProgramId(0),
        },
        channel().0,
    );
    assert!(refused.is_err());
    yard.operator.volume_present(yard.volumes[1].id);
    yard.ask(1, &[(1, second)]).1.expect_content();
}

#[test]
fn another_drive_takes_over_from_one_that_dies() {
    let yard = Yard::emulated();
    let first = yard.write(0, &[1, 2]);
    let second = yard.write(1, &[3, 1]);
    let holder = yard.operator.drives();
    let holds = |drive: &DriveStatus| drive.volume.as_ref() == Some(&yard.volumes[0].name);
    let drive = holder.iter().position(holds).expect("the volume stays mounted");
    yard.trouble(Trouble::DriveDies { drive });
    let copied = yard.ask(1, &[(0, first[0]), (1, second[1])]).1;
    let single = yard.ask(2, &[(0, first[1])]).1;
    copied.expect_content();
    single.expect_content();
    let died = |event: &Event| matches!(event, Event::DriveFailed { .. });
    assert_eq!(yard.events().iter().filter(|event| died(event)).count(), 1);
    let broken = yard.operator.drives();
    let broken: Vec<_> = broken.iter().map(|drive| drive.problem.is_some()).collect();
    assert_eq!(broken.iter().position(|broken| *broken), Some(drive));
    assert_eq!(broken.iter().filter(|broken| **broken).count(), 1);
    let errors: Vec<_> = yard.operator.drives().iter().map(|drive| drive.errors).collect();
    assert_eq!((errors[drive], errors.iter().sum::<u64>()), (1, 1), "{errors:?}");
}

#[test]
fn without_a_drive_everybody_is_told() {
    let yard = Yard::emulated();
    let part = yard.write(0, &[1])[0];
    yard.trouble(Trouble::DriveDies { drive: 0 });
    yard.trouble(Trouble::DriveDies { drive: 1 });
    yard.ask(1, &[(0, part)]).1.expect_failure("no drive works");
    yard.ask(1, &[(0, part)]).1.expect_failure("no drive works");
    let refused = yard.operator.borrow(&yard.volumes[1]);
    assert!(matches!(refused, Err(LoanError::Drives(_))), "{:?}", refused.err());
}

#[test]
fn a_volume_that_is_gone_or_another_is_said() {
    let yard = Yard::files();
    let part = yard.write(0, &[1])[0];
    let gone = VolumeName::new("GONE01").expect("a name");
    let gone = VolumeRef { id: VolumeId(99), name: gone, ..yard.volumes[0].clone() };
    let other = VolumeRef { label: Some(LabelId([9; 16])), ..yard.volumes[1].clone() };
    let refused = yard.operator.borrow(&other).err().map(|error| error.to_string());
    assert!(refused.expect("the volume is another one").contains(BARCODES[1]));
    let refused = yard.operator.borrow(&gone).err().map(|error| error.to_string());
    assert!(refused.expect("the volume is gone").contains("GONE01"));
    yard.ask(1, &[(0, part)]).1.expect_content();
}

#[test]
fn who_writes_gives_way_to_who_reads_the_volume() {
    let yard = Yard::files();
    let part = yard.write(0, &[1])[0];
    let lent = yard.operator.borrow(&yard.volumes[0]).expect("the volume is free");
    assert!(!lent.watch().is_wanted_back());
    let (_, wait) = yard.ask(1, &[(0, part)]);
    assert!(lent.watch().is_wanted_back());
    assert!(wait.answer.try_recv().is_err());
    drop(lent);
    wait.expect_content();
}

#[test]
fn who_has_cancelled_is_not_told() {
    let yard = Yard::files();
    let part = yard.write(0, &[1])[0];
    let lent = yard.operator.borrow(&yard.volumes[0]).expect("the volume is free");
    let (waiter, wait) = yard.ask(1, &[(0, part)]);
    assert!(yard.operator.cancel(waiter));
    drop(lent);
    assert!(wait.answer.recv().is_err());
    yard.ask(1, &[(0, part)]).1.expect_content();
}

/// Returns the position of the volume's drive in the list of drives.
fn holder(yard: &Yard, volume: usize) -> Option<usize> {
    let name = &yard.volumes[volume].name;
    yard.operator
        .drives()
        .iter()
        .position(|drive| drive.volume.as_ref() == Some(name))
}

#[test]
fn reads_go_on_after_any_cut_of_a_drive_or_the_changer() {
    let mut cuts = 0;
    for (network, executes) in [(0, false), (0, true), (1, false), (1, true)] {
        for command in (0..40).step_by(3) {
            let (yard, networks) = Yard::remote(PAUSES);
            let parts = yard.write(0, &[1, 2]);
            yard.operator.configure(2, Duration::ZERO, false);
            yard.settle();
            let other = yard.ask(9, &[(1, yard.write(1, &[9])[0])]).1;
            other.expect_content();
            networks[network].cut_in(command, executes);
            let waits = parts.iter().map(|part| yard.ask(object_of(part), &[(0, *part)]).1);
            Vec::from_iter(waits).into_iter().for_each(PendingRead::expect_content);
            assert_eq!(yard.events(), [], "network {network}, command {command}");
            cuts += 1;
        }
    }
    assert!(cuts > 40, "{cuts}");
}

#[test]
fn a_drive_that_was_away_is_used_again_with_its_volume() {
    let pauses = Pauses { patience: Duration::from_millis(20), ..PAUSES };
    let (yard, networks) = Yard::remote(pauses);
    let part = yard.write(0, &[1])[0];
    yard.settle();
    let drive = holder(&yard, 0).expect("the volume stays mounted");
    networks[1 + drive].set_down(true);
    let (_, wait) = yard.ask(1, &[(0, part)]);
    let away = || yard.operator.drives()[drive].clone();
    while !(away().problem.is_some() && away().outage.is_some()) {
        std::thread::yield_now();
    }
    assert!(yard.operator.waits_for_drives() && yard.operator.outage().is_none());
    networks[1 + drive].set_down(false);
    while away().problem.is_some() {
        yard.operator.try_again();
        std::thread::yield_now();
    }
    drop(wait);
    yard.settle();
    yard.ask(1, &[(0, part)]).1.expect_content();
    assert_eq!(holder(&yard, 0), Some(drive), "the volume was not moved");
    let unexpected = yard
        .events()
        .into_iter()
        .find(|event| matches!(event, Event::Missing { .. } | Event::Damaged { .. }));
    assert_eq!(unexpected, None);
}

#[test]
fn after_a_restart_a_volume_is_read_in_the_drive_that_has_it() {
    let yard = Yard::emulated();
    let (first, second) = (yard.write(0, &[1]), yard.write(1, &[2]));
    yard.settle();
    let holders = [holder(&yard, 0), holder(&yard, 1)];
    assert!(holders.iter().all(Option::is_some), "both stay in their drives");
    let yard = yard.restarted();
    assert_eq!([holder(&yard, 0), holder(&yard, 1)], holders);
    assert!(yard.operator.preview(&yard.volumes[0], &first).is_mounted);
    assert!(yard.operator.preview(&yard.volumes[1], &second).is_mounted);
    assert!(!yard.operator.preview(&yard.volumes[2], &first).is_mounted);
    let before = yard.sim.as_ref().expect("an emulator").clock();
    yard.ask(2, &[(1, second[0])]).1.expect_content();
    yard.ask(1, &[(0, first[0])]).1.expect_content();
    let took = yard.sim.as_ref().expect("an emulator").clock() - before;
    assert!(took < Duration::from_secs(10), "a cartridge was moved: {took:?}");
}

#[test]
fn a_volume_in_a_drive_that_is_not_the_one_of_the_catalogue_is_put_away() {
    let mut yard = Yard::emulated();
    let part = yard.write(0, &[1])[0];
    yard.settle();
    yard.volumes[0].label = Some(LabelId([9; 16]));
    let yard = yard.restarted();
    assert_eq!(holder(&yard, 0), None);
    let id = yard.volumes[0].id;
    let missing = |event: &Event| matches!(event, Event::Missing { volume, .. } if *volume == id);
    assert!(yard.events().iter().any(missing), "{:?}", yard.events());
    assert!(!yard.operator.preview(&yard.volumes[0], &[part]).is_mounted);
}

#[test]
fn a_mount_that_nobody_wants_any_more_does_not_happen() {
    let yard = Yard::emulated();
    let part = yard.write(0, &[1])[0];
    yard.operator.configure(2, Duration::ZERO, false);
    while yard
        .operator
        .drives()
        .iter()
        .any(|drive| drive.volume.is_some() || !drive.is_idle)
    {
        std::thread::yield_now();
    }
    let before = yard.sim.as_ref().expect("an emulator").clock();
    let moving = yard.operator.with_library(|_| {
        // The drive waits for the changer, which this closure keeps busy.
        let (waiter, wait) = yard.ask(1, &[(0, part)]);
        assert!(yard.operator.cancel(waiter));
        wait
    });
    drop(moving);
    yard.settle();
    let took = yard.sim.as_ref().expect("an emulator").clock() - before;
    assert!(took < Duration::from_secs(1), "the cartridge was moved: {took:?}");
    assert_eq!(holder(&yard, 0), None);
    yard.ask(1, &[(0, part)]).1.expect_content();
}

//! Lines that are cut: nothing is lost, nothing is written twice, and the work goes on by itself.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sim::{Cartridge, Constants, DriveModel, Layout, Trouble};
use tape::device::CommandError;
use tape::drive::Drive;
use tape::line::{Line, LineTransport, Pauses};
use tape::medium::MediumError;
use tape::transport::{Completion, ScsiTransport, Transfer, TransportError};
use tape::volume::{self, Overwrite, VolumeError, VolumeReader, VolumeWriter, WriterOptions};

use crate::scenario::{self, content, expect_content, label, put};

const INQUIRY: u8 = 0x12;
/// Times of a line for a test: nobody waits for long, and idle lines are not checked.
pub(crate) const PAUSES: Pauses = Pauses {
    patience: Duration::from_secs(20),
    attempt_min: Duration::from_millis(1),
    attempt_max: Duration::from_millis(4),
    check: Duration::from_secs(3600),
};
const OBJECT_BYTES: usize = 150_000;

/// The network between a line and its device.
#[derive(Clone, Default)]
pub(crate) struct Network(Arc<Mutex<Weather>>);

#[derive(Default)]
struct Weather {
    /// Number of commands until the line is cut, counted without inquiries.
    cut_in: Option<u32>,
    /// True if the device executes the command during which the line is cut.
    executes: bool,
    is_down: bool,
    /// True if another device answers after the next connection.
    is_exchanged: bool,
    cuts: u32,
}

impl Network {
    /// Cuts the line during the command after `commands` further commands.
    pub(crate) fn cut_in(&self, commands: u32, executes: bool) {
        let mut weather = self.0.lock().expect("whole");
        (weather.cut_in, weather.executes) = (Some(commands), executes);
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.0.lock().expect("whole").is_down = is_down;
    }

    fn cuts(&self) -> u32 {
        self.0.lock().expect("whole").cuts
    }

    /// Opens a line over this network to the device that `device` returns.
    pub(crate) fn line<T: ScsiTransport + 'static>(
        &self,
        pauses: Pauses,
        device: impl Fn() -> T + Send + Sync + 'static,
    ) -> LineTransport {
        let network = self.clone();
        let connect = move || -> io::Result<Box<dyn ScsiTransport>> {
            if network.0.lock().expect("whole").is_down {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            Ok(Box::new(Connection { network: network.clone(), device: device() }))
        };
        Line::open(Box::new(connect), pauses).expect("the device answers")
    }
}

struct Connection<T> {
    network: Network,
    device: T,
}

impl<T: ScsiTransport> ScsiTransport for Connection<T> {
    fn execute(
        &mut self,
        cdb: &[u8],
        transfer: Transfer<'_>,
        timeout: Duration,
    ) -> Result<Completion, TransportError> {
        let lost = || TransportError::Lost(io::ErrorKind::ConnectionReset.into());
        let mut weather = self.network.0.lock().expect("whole");
        if weather.is_down {
            return Err(lost());
        }
        let is_question = cdb[0] == INQUIRY;
        let is_exchanged = weather.is_exchanged;
        let is_cut = !is_question && weather.cut_in.is_some_and(|left| left == 0);
        if !is_question {
            weather.cut_in = weather.cut_in.and_then(|left| left.checked_sub(1));
        }
        weather.cuts += u32::from(is_cut);
        let executes = !is_cut || weather.executes;
        drop(weather);
        let result = match transfer {
            Transfer::In(bytes) if is_question && is_exchanged => {
                let result = self.device.execute(cdb, Transfer::In(bytes), timeout);
                // The last character of the serial number differs.
                bytes.iter_mut().filter(|byte| **byte == b'1').for_each(|byte| *byte = b'9');
                result
            }
            transfer if executes => self.device.execute(cdb, transfer, timeout),
            _ => Err(lost()),
        };
        if is_cut { Err(lost()) } else { result }
    }
}

/// A library with one drive, with a labelled cartridge in it.
fn sim() -> sim::Library {
    let layout =
        Layout { slot_count: 2, import_export_count: 1, drives: vec![DriveModel::new("DRV00001")] };
    let sim = sim::Library::new(layout, Vec::new(), Box::new(Constants));
    sim.insert(0, Cartridge::blank("A00001L8", 16 << 20, 1 << 20));
    let mut drive = Drive::open(Box::new(sim.drive(0))).expect("the drive answers");
    drive.load().expect("a cartridge is in the drive");
    volume::label(&mut drive, &label(1), Overwrite::Nothing).expect("the cartridge is blank");
    sim
}

fn is_lost(error: &VolumeError) -> bool {
    matches!(error, VolumeError::Medium(MediumError::PositionLost))
}

/// Writes objects 1 to 6, with a filemark after each two, in spite of cuts.
fn write_objects(drive: &mut Drive) -> Vec<format::volume::Part> {
    let mut writer = loop {
        let options = WriterOptions { group_bytes: u64::MAX };
        match VolumeWriter::open(&mut *drive, label(1).volume, options) {
            Ok(writer) => break writer,
            Err(error) => assert!(is_lost(&error), "{error}"),
        }
        while drive.load().is_err() {}
    };
    let mut parts: Vec<format::volume::Part> = Vec::new();
    let mut is_closed = false;
    while !is_closed {
        let done = u8::try_from(parts.len()).expect("few parts");
        let written = (|| {
            for number in [done + 1, done + 2].into_iter().filter(|number| *number <= 6) {
                writer.begin(volume::Continuation::start(scenario::object(number)))?;
                let _going = writer.write(&content(number, OBJECT_BYTES))?;
                let _going = writer.end()?;
            }
            if done < 6 { Ok((writer.sync()?, false)) } else { Ok((writer.finish()?.parts, true)) }
        })();
        match written {
            Ok((durable, is_end)) => {
                parts.extend(durable);
                is_closed = is_end;
            }
            Err(error) => {
                assert!(is_lost(&error), "{error}");
                while let Err(error) = writer.resume() {
                    assert!(is_lost(&error), "{error}");
                }
                parts.extend(writer.sync().expect("nothing is pending"));
            }
        }
    }
    parts
}

#[test]
fn whichever_command_is_cut_each_object_is_written_once() {
    let mut cuts = 0;
    for (executes, resets) in [(false, false), (true, false), (true, true)] {
        for command in 0.. {
            let (sim, network) = (sim(), Network::default());
            let unit = sim.clone();
            let line = network.line(PAUSES, move || {
                if resets {
                    unit.trouble(Trouble::Reset { drive: 0 });
                }
                unit.drive(0)
            });
            let mut drive = Drive::open(Box::new(line)).expect("the drive answers");
            drive.load().expect("the cartridge is ready");
            network.cut_in(command, executes);
            let parts = write_objects(&mut drive);
            assert_eq!(parts.len(), 6, "command {command}");
            network.0.lock().expect("whole").cut_in = None;
            while drive.load().is_err() {}
            let mut reader =
                VolumeReader::open(&mut drive, Some(label(1).volume)).expect("the label is whole");
            let listed = reader.list().expect("the volume is listed");
            let mut counts: BTreeMap<[u8; 16], u32> = BTreeMap::new();
            listed
                .parts
                .iter()
                .for_each(|part| *counts.entry(part.object.0).or_default() += 1);
            assert_eq!(counts.len(), 6, "command {command}");
            assert!(counts.values().all(|count| *count == 1), "command {command}: {counts:?}");
            for part in &listed.parts {
                let number = part.object.0[0];
                expect_content(&mut reader, part, &content(number, OBJECT_BYTES));
            }
            if network.cuts() == 0 {
                break;
            }
            cuts += 1;
        }
    }
    assert!(cuts > 60, "only {cuts} commands were cut");
}

#[test]
fn an_idle_line_that_is_cut_comes_back_before_anybody_needs_it() {
    let (sim, network) = (sim(), Network::default());
    let pauses = Pauses { check: Duration::from_millis(5), ..PAUSES };
    let line = network.line(pauses, move || sim.drive(0));
    let seen = line.line().expect("a line");
    let mut drive = Drive::open(Box::new(line)).expect("the drive answers");
    drive.load().expect("the cartridge is ready");
    network.set_down(true);
    while seen.outage().is_none() {
        std::thread::yield_now();
    }
    network.set_down(false);
    while seen.outage().is_some() {
        std::thread::yield_now();
    }
    // The drive may have been reset or emptied meanwhile, so its position is not trusted.
    assert!(drive.is_disturbed());
    let mut writer = VolumeWriter::open(&mut drive, label(1).volume, WriterOptions::default());
    assert!(writer.as_ref().err().is_some_and(is_lost), "the cartridge may be another one");
    drive.load().expect("the cartridge is ready");
    writer = VolumeWriter::open(&mut drive, label(1).volume, WriterOptions::default());
    let _going = put(&mut writer.expect("it is the same"), 1, OBJECT_BYTES);
}

#[test]
fn a_line_that_is_away_for_long_is_reported_and_fails_at_once() {
    let (sim, network) = (sim(), Network::default());
    let pauses = Pauses { patience: Duration::from_millis(50), ..PAUSES };
    let line = network.line(pauses, move || sim.drive(0));
    let seen = line.line().expect("a line");
    let mut drive = Drive::open(Box::new(line)).expect("the drive answers");
    let before = sys::clock::now();
    network.set_down(true);
    let failed = drive.is_ready().expect_err("nobody answers");
    assert!(matches!(failed, CommandError::Lost { .. }), "{failed}");
    assert!(model::chain(&failed).contains("has been away for 0 seconds"), "{failed:?}");
    let outage = seen.outage().expect("the line is away");
    assert!(outage.since >= before && outage.reason.contains("refused"), "{outage:?}");
    assert!(matches!(drive.load(), Err(MediumError::Failed(_))));
    network.set_down(false);
    while seen.outage().is_some() {
        std::thread::yield_now();
    }
    drive.load().expect("the drive answers again");
}

#[test]
fn another_device_at_the_address_is_not_taken_for_the_same() {
    let (sim, network) = (sim(), Network::default());
    let pauses = Pauses { patience: Duration::from_millis(50), ..PAUSES };
    let line = network.line(pauses, move || sim.drive(0));
    let seen = line.line().expect("a line");
    let mut drive = Drive::open(Box::new(line)).expect("the drive answers");
    network.0.lock().expect("whole").is_exchanged = true;
    network.cut_in(0, false);
    assert!(drive.is_ready().is_err());
    let reason = seen.outage().expect("the line is away").reason;
    assert!(reason.contains("another device"), "{reason}");
}

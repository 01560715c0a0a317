//! Tests that a schedule learns the real times of the drives in an emulated library.

use std::collections::BTreeMap;
use std::time::Duration;

use format::volume::VolumeName;
use sim::{Cartridge, Clockwork, DriveModel, Layout, Motion};
use tape::generation::MEDIUM_LTO8;
use tape::geometry::Geometry;
use tape::library::{Library, MountedVolume};
use tape::medium::Medium as _;
use tape::order::Stop;
use tape::schedule::{
    Config, Demand, DriveId, Kind, ObjectId, OwnerId, ProgramId, Schedule, Source, VolumeId,
    Waiter, WaiterId,
};
use tape::simulation::{Hardware, ReadTime, Simulation};
use tape::timing::{Correction, Timing, duration};
use tape::transport::ScsiTransport;

const BLOCK_BYTES: u64 = 512 << 10;
const BLOCK_COUNT: u64 = 40_000;
const READ_BLOCKS: u64 = 16;
const VOLUME_COUNT: u64 = 8;
const SLOWER: Correction = Correction { mounting: 2.0, positioning: 2.5, reading: 3.0 };

/// Clock of devices that take the times of a [`Timing`].
struct ModelClock {
    timing: Timing,
    geometry: Geometry,
}

impl Clockwork for ModelClock {
    fn cost(&mut self, motion: Motion) -> Duration {
        let point = |bytes| self.geometry.point(bytes);
        let secs = match motion {
            Motion::Load => self.timing.load + self.timing.label + self.timing.session,
            Motion::Unload { from } => {
                let along = self.geometry.along(&point(from.bytes));
                self.timing.dismount_secs(along, 0.0) - self.timing.changer
            }
            Motion::Position { from, to } => {
                self.timing.locate.secs(&point(from.bytes), &point(to.bytes))
            }
            Motion::Read { bytes, .. } => self.timing.transfer_secs(bytes),
            Motion::Move { .. } => self.timing.changer,
            Motion::Command | Motion::Write { .. } | Motion::Filemark { .. } | Motion::Cleaning => {
                0.0
            }
        };
        duration(secs)
    }
}

/// An emulated library with one drive, which gets the same commands as a real library.
struct Emulation {
    sim: sim::Library,
    library: Library,
    mounted: BTreeMap<DriveId, MountedVolume>,
}

fn barcode(volume: u64) -> String {
    format!("A0000{volume}L8")
}

impl Emulation {
    fn new(timing: Timing) -> Self {
        let slot_count = u16::try_from(VOLUME_COUNT).expect("few");
        let drives = vec![DriveModel::new("DRV00001")];
        let layout = Layout { slot_count, import_export_count: 0, drives };
        let bytes = usize::try_from(BLOCK_BYTES).expect("small");
        let cartridge = |volume| {
            Cartridge::blank(&barcode(volume), MEDIUM_LTO8.capacity_bytes, 1 << 30)
                .with_pattern(BLOCK_COUNT, bytes)
        };
        let clock = ModelClock { timing, geometry: Geometry::even(MEDIUM_LTO8) };
        let cartridges = (0..VOLUME_COUNT).map(cartridge).collect();
        let sim = sim::Library::new(layout, cartridges, Box::new(clock));
        let drives: Vec<Box<dyn ScsiTransport>> = vec![Box::new(sim.drive(0))];
        let library =
            Library::open(Box::new(sim.changer()), drives).expect("the library is emulated");
        Self { sim, library, mounted: BTreeMap::new() }
    }

    /// Returns the seconds that the devices take for `work`.
    fn timed(&mut self, work: impl FnOnce(&mut Self)) -> f64 {
        let before = self.sim.clock();
        work(self);
        (self.sim.clock() - before).as_secs_f64()
    }
}

impl Hardware for Emulation {
    fn mount(&mut self, drive: DriveId, volume: VolumeId) -> f64 {
        self.timed(|emulation| {
            let name = VolumeName::new(&barcode(volume.0)).expect("a name");
            let address = emulation.library.drives()[drive.0 as usize].address;
            let brought = emulation.library.bring_to(&name, address);
            let mut mounted = brought.expect("the volume is in its slot");
            mounted.drive.load().expect("nothing fails here");
            emulation.mounted.insert(drive, mounted);
        })
    }

    fn read(&mut self, drive: DriveId, stop: Stop) -> ReadTime {
        let positioning_secs = self.timed(|emulation| {
            let mounted = emulation.mounted.get_mut(&drive).expect("the volume is mounted");
            mounted.drive.locate(stop.at / BLOCK_BYTES).expect("the block is written");
        });
        let reading_secs = self.timed(|emulation| {
            let mounted = emulation.mounted.get_mut(&drive).expect("the volume is mounted");
            let mut buffer = vec![0; usize::try_from(BLOCK_BYTES).expect("small")];
            for _ in 0..stop.bytes.div_ceil(BLOCK_BYTES) {
                mounted.drive.read(&mut buffer).expect("the block is written");
            }
        });
        ReadTime { positioning_secs, reading_secs }
    }

    fn dismount(&mut self, drive: DriveId) -> f64 {
        self.timed(|emulation| {
            let mut mounted = emulation.mounted.remove(&drive).expect("the volume is mounted");
            mounted.drive.unload().expect("nothing fails here");
            emulation.library.put_back(mounted).expect("the old slot is free");
        })
    }
}

/// Returns a demand for a few blocks of one of the volumes.
fn demand(id: u64) -> Demand {
    let kind = Kind::List;
    let waiter = Waiter { id: WaiterId(id), owner: OwnerId(0), program: ProgramId(0), kind };
    let at = id * 7919 % (BLOCK_COUNT - READ_BLOCKS) * BLOCK_BYTES;
    let stop = Stop { at, bytes: READ_BLOCKS * BLOCK_BYTES };
    let source = Source { volume: VolumeId(id % VOLUME_COUNT), stop };
    Demand { waiter, object: ObjectId(id), sources: vec![source] }
}

/// Reads objects that are wanted at the same time. Returns the average error of their forecasts, as
/// a share of the real waits.
fn forecast_error(simulation: &mut Simulation<Emulation>, ids: std::ops::Range<u64>) -> f64 {
    let before = simulation.served.len();
    let start = simulation.now();
    ids.clone().for_each(|id| simulation.ask(start, demand(id)));
    while simulation.schedule.forecast(start, WaiterId(ids.end - 1)).is_none() {
        assert!(simulation.step() && simulation.now() == start, "all ask at the same time");
    }
    let forecast = |id| Some((id, simulation.schedule.forecast(start, id)?.served_at - start));
    let told: BTreeMap<WaiterId, Duration> = ids.map(WaiterId).filter_map(forecast).collect();
    simulation.run();
    let errors = simulation.served[before..].iter().filter_map(|served| {
        let real = (served.served - start).as_secs_f64();
        Some((told.get(&served.waiter)?.as_secs_f64() / real - 1.0).abs())
    });
    let errors: Vec<f64> = errors.collect();
    assert!(errors.len() > 20, "only a volume that is being dismounted has no forecasts");
    errors.iter().sum::<f64>() / f64::from(u32::try_from(errors.len()).expect("few"))
}

#[test]
fn a_library_that_is_slower_than_assumed_is_predicted_better_after_some_recalls() {
    let assumed = Timing { request: 0.0, ..Timing::lto8() };
    let schedule = Schedule::new(Config::new(assumed, 1), Geometry::even(MEDIUM_LTO8));
    let mut simulation = Simulation::over(schedule, Emulation::new(assumed.corrected(&SLOWER)), 1);
    let first = forecast_error(&mut simulation, 0..40);
    let later = forecast_error(&mut simulation, 40..80);
    let found = simulation.schedule.correction();
    assert!((found.mounting - SLOWER.mounting).abs() < 0.1, "{found:?}");
    assert!((found.positioning - SLOWER.positioning).abs() < 0.1, "{found:?}");
    assert!((found.reading - SLOWER.reading).abs() < 0.1, "{found:?}");
    assert!(first > 0.3, "the first forecasts were wrong by {first}");
    assert!(later < first / 2.0, "the later forecasts were wrong by {later}, the first by {first}");
}

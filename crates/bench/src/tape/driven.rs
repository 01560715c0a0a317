//! The first rows of IBM's table once more, through SCSI: the schedule that serves real drives, and
//! the library and the drives as the server commands them, over an emulated library whose clock is
//! the model's. The difference between the two shows what the model leaves out: superfluous
//! commands, needless winding, a file that is read twice.
//!
//! Rows with more than [`BYTES_MAX`] are not emulated.

use std::collections::BTreeMap;
use std::time::Duration;

use format::volume::VolumeName;
use sim::{Cartridge, Clockwork, DriveModel, Layout, Motion};
use tape::generation::MEDIUM_LTO8;
use tape::geometry::Geometry;
use tape::library::{Library, MountedVolume};
use tape::medium::Medium as _;
use tape::order::Stop;
use tape::schedule::{Config, DriveId, Schedule, VolumeId};
use tape::simulation::{Hardware, ReadTime, Simulation};
use tape::timing::{Timing, duration};
use tape::transport::ScsiTransport;

use super::recalls::{self, Published};

/// Maximum number of bytes that are read in one row.
const BYTES_MAX: u64 = 16 << 30;
const BLOCK_BYTES_MAX: u64 = 512 << 10;
const BARCODE: &str = "A00001L8";

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) label: &'static str,
    /// Seconds of a list, and of opened files.
    pub(super) list_secs: f64,
    pub(super) open_secs: f64,
    /// Seconds of the list by the model.
    pub(super) list_model_secs: f64,
    pub(super) open_model_secs: f64,
    /// Number of commands that one list took.
    pub(super) commands: u64,
}

pub(super) fn rows() -> Vec<Row> {
    let small = recalls::PUBLISHED.iter().filter(|published| published.bytes_all() <= BYTES_MAX);
    small.map(row).collect()
}

fn row(published: &Published) -> Row {
    let (list_secs, commands) = {
        let mut library = library(published);
        let secs = recalls::list(published, &mut library);
        (secs, library.hardware().commands())
    };
    Row {
        label: published.label,
        list_secs,
        open_secs: recalls::opens(published, 0, &mut library(published)),
        list_model_secs: recalls::list(published, &mut recalls::library()),
        open_model_secs: recalls::opens(published, 0, &mut recalls::library()),
        commands,
    }
}

fn library(published: &Published) -> Simulation<Driven> {
    let config = Config::new(Timing::lto8(), 1);
    let schedule = Schedule::new(config, Geometry::even(MEDIUM_LTO8));
    Simulation::over(schedule, Driven::new(published), 1)
}

/// The model's times for the motions of the emulated devices.
struct ModelClock {
    timing: Timing,
    geometry: Geometry,
}

impl Clockwork for ModelClock {
    fn cost(&mut self, motion: Motion) -> Duration {
        let point = |bytes| self.geometry.point(bytes);
        let secs = match motion {
            Motion::Load => self.timing.load,
            Motion::Unload { from } => {
                let along = self.geometry.along(&point(from.bytes));
                self.timing.dismount_secs(along, 0.0) - self.timing.robot
            }
            Motion::Position { from, to } => {
                self.timing.reach(&point(from.bytes), &point(to.bytes)).1
            }
            Motion::Read { bytes, .. } => self.timing.transfer_secs(bytes),
            Motion::Robot { .. } => self.timing.robot,
            Motion::Command | Motion::Write { .. } | Motion::Filemark { .. } | Motion::Cleaning => {
                0.0
            }
        };
        duration(secs)
    }
}

/// An emulated library with one drive and one tape, commanded as real ones are.
pub(super) struct Driven {
    sim: sim::Library,
    library: Library,
    mounted: BTreeMap<DriveId, MountedVolume>,
    /// Time of the host, which is not part of any command.
    timing: Timing,
    block_bytes: u64,
}

impl Driven {
    fn new(published: &Published) -> Self {
        let block_bytes = published.bytes.min(BLOCK_BYTES_MAX);
        let blocks = published.end().div_ceil(block_bytes) + 1;
        let cartridge = Cartridge::blank(BARCODE, MEDIUM_LTO8.capacity_bytes, 1 << 30);
        let bytes = usize::try_from(block_bytes).expect("a block fits into memory");
        let layout = Layout {
            slot_count: 1,
            import_export_count: 0,
            drives: vec![DriveModel::new("DRV00001")],
        };
        let timing = Timing::lto8();
        let clock = ModelClock { timing, geometry: Geometry::even(MEDIUM_LTO8) };
        let cartridges = vec![cartridge.with_pattern(blocks, bytes)];
        let sim = sim::Library::new(layout, cartridges, Box::new(clock));
        let drives: Vec<Box<dyn ScsiTransport>> = vec![Box::new(sim.drive(0))];
        let library = Library::open(Box::new(sim.changer()), drives).expect("it is emulated");
        Self { sim, library, mounted: BTreeMap::new(), timing, block_bytes }
    }

    fn commands(&self) -> u64 {
        self.sim.commands()
    }

    /// Seconds that the devices take for `work`.
    fn timed(&mut self, work: impl FnOnce(&mut Self)) -> f64 {
        let before = self.sim.clock();
        work(self);
        (self.sim.clock() - before).as_secs_f64()
    }
}

impl Hardware for Driven {
    fn mount(&mut self, drive: DriveId, _: VolumeId) -> f64 {
        let secs = self.timed(|driven| {
            let name = VolumeName::new(BARCODE).expect("a name");
            let address = driven.library.drives()[drive.0 as usize].address;
            let mut mounted = driven.library.bring_to(&name, address).expect("it is in its slot");
            mounted.drive.load().expect("nothing fails here");
            driven.mounted.insert(drive, mounted);
        });
        secs + self.timing.label + self.timing.session
    }

    fn read(&mut self, drive: DriveId, stop: Stop) -> ReadTime {
        let block_bytes = self.block_bytes;
        let positioning_secs = self.timed(|driven| {
            let mounted = driven.mounted.get_mut(&drive).expect("it is mounted");
            mounted.drive.locate(stop.at / block_bytes).expect("it is written");
        });
        let secs = self.timed(|driven| {
            let mounted = driven.mounted.get_mut(&drive).expect("it is mounted");
            let mut buffer = vec![0; usize::try_from(block_bytes).expect("it fits into memory")];
            for _ in 0..stop.bytes.div_ceil(block_bytes) {
                mounted.drive.read(&mut buffer).expect("it is written");
            }
        });
        ReadTime { positioning_secs, reading_secs: secs + self.timing.request }
    }

    fn dismount(&mut self, drive: DriveId) -> f64 {
        self.timed(|driven| {
            let mut mounted = driven.mounted.remove(&drive).expect("it is mounted");
            mounted.drive.unload().expect("nothing fails here");
            driven.library.put_back(mounted).expect("its slot is free");
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_take_what_the_model_says() {
        for published in recalls::PUBLISHED.iter().take(2) {
            let row = row(published);
            let list = row.list_secs / row.list_model_secs;
            let open = row.open_secs / row.open_model_secs;
            assert!((0.98..1.02).contains(&list), "{row:?}");
            assert!((0.95..1.05).contains(&open), "{row:?}");
        }
    }
}

//! Rows of IBM's table through SCSI. The schedule and the code that commands real changers and
//! drives command an emulated library, whose clock uses the times of the model. A difference
//! between the emulation and the model shows things that the model does not have: superfluous
//! commands, needless winding, or a file that is read twice.
//!
//! Rows with more than [`BYTES_MAX`] bytes are not emulated.

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

use super::recalls::{self, PublishedRow};

/// Maximum number of bytes that are read in one row.
const BYTES_MAX: u64 = 16 << 30;
const BLOCK_BYTES_MAX: u64 = 512 << 10;
const BARCODE: &str = "A00001L8";

/// Times of a row with the emulated library, and with the model.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) label: &'static str,
    /// Time of a list with the emulated library, in seconds.
    pub(super) list_secs: f64,
    /// Time of opened files with the emulated library, in seconds.
    pub(super) open_secs: f64,
    /// Time of the list with the model, in seconds.
    pub(super) list_model_secs: f64,
    /// Time of the opened files with the model, in seconds.
    pub(super) open_model_secs: f64,
    /// Number of commands that one list took.
    pub(super) commands: u64,
}

pub(super) fn rows() -> Vec<Row> {
    let small = recalls::PUBLISHED.iter().filter(|published| published.bytes_all() <= BYTES_MAX);
    small.map(row).collect()
}

fn row(published: &PublishedRow) -> Row {
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

fn library(published: &PublishedRow) -> Simulation<EmulatedLibrary> {
    let config = Config::new(Timing::lto8(), 1);
    let schedule = Schedule::new(config, Geometry::even(MEDIUM_LTO8));
    Simulation::over(schedule, EmulatedLibrary::new(published), 1)
}

/// The clock of the emulated devices: their motions take the times of the model.
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
                self.timing.dismount_secs(along, 0.0) - self.timing.changer
            }
            Motion::Position { from, to } => {
                self.timing.reach(&point(from.bytes), &point(to.bytes)).1
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

/// An emulated library with one drive and one tape, and the library object that commands it.
pub(super) struct EmulatedLibrary {
    sim: sim::Library,
    library: Library,
    mounted: BTreeMap<DriveId, MountedVolume>,
    /// Times of the model. The times of the host are added, because they are not part of any
    /// command.
    timing: Timing,
    block_bytes: u64,
}

impl EmulatedLibrary {
    fn new(published: &PublishedRow) -> Self {
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
        let library = Library::open(Box::new(sim.changer()), drives)
            .expect("the emulated library can be opened");
        Self { sim, library, mounted: BTreeMap::new(), timing, block_bytes }
    }

    fn commands(&self) -> u64 {
        self.sim.commands()
    }

    /// Calls `work`, and returns the time that the devices took for it, in seconds.
    fn timed(&mut self, work: impl FnOnce(&mut Self)) -> f64 {
        let before = self.sim.clock();
        work(self);
        (self.sim.clock() - before).as_secs_f64()
    }
}

impl Hardware for EmulatedLibrary {
    fn mount(&mut self, drive: DriveId, _: VolumeId) -> f64 {
        let secs = self.timed(|emulated| {
            let name = VolumeName::new(BARCODE).expect("the barcode is a name");
            let address = emulated.library.drives()[drive.0 as usize].address;
            let mut mounted =
                emulated.library.bring_to(&name, address).expect("the volume is in its slot");
            mounted.drive.load().expect("nothing fails here");
            emulated.mounted.insert(drive, mounted);
        });
        secs + self.timing.label + self.timing.session
    }

    fn read(&mut self, drive: DriveId, stop: Stop) -> ReadTime {
        let block_bytes = self.block_bytes;
        let positioning_secs = self.timed(|emulated| {
            let mounted = emulated.mounted.get_mut(&drive).expect("the volume is mounted");
            mounted.drive.locate(stop.at / block_bytes).expect("the block is written");
        });
        let secs = self.timed(|emulated| {
            let mounted = emulated.mounted.get_mut(&drive).expect("the volume is mounted");
            let bytes = usize::try_from(block_bytes).expect("a block fits into memory");
            let mut buffer = vec![0; bytes];
            for _ in 0..stop.bytes.div_ceil(block_bytes) {
                mounted.drive.read(&mut buffer).expect("the block is written");
            }
        });
        ReadTime { positioning_secs, reading_secs: secs + self.timing.request }
    }

    fn dismount(&mut self, drive: DriveId) -> f64 {
        self.timed(|emulated| {
            let mut mounted = emulated.mounted.remove(&drive).expect("the volume is mounted");
            mounted.drive.unload().expect("nothing fails here");
            emulated.library.put_back(mounted).expect("its slot is free");
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

//! Lists of files on eight volumes, with one drive and with several drives.

use std::time::Duration;

use tape::generation::MEDIUM_LTO8;
use tape::geometry::Geometry;
use tape::schedule::{Config, KINDS, Kind, Schedule};
use tape::simulation::Simulation;
use tape::timing::Timing;

use super::demand::{ask, source};
use super::orders::scattered;

const VOLUMES: u64 = 8;
const FILES: u64 = 64;
const FILE_BYTES: u64 = 200_000_000;
const DRIVES: [u32; 4] = [1, 2, 4, 8];

#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) drives: u32,
    pub(super) secs: f64,
    pub(super) mounts: u64,
}

pub(super) fn rows() -> Vec<Row> {
    DRIVES.into_iter().map(with).collect()
}

fn with(drives: u32) -> Row {
    let geometry = Geometry::even(MEDIUM_LTO8);
    let config = Config::new(Timing::lto8(), drives as usize);
    let config = Config { kind_drives_max: [drives as usize; KINDS], ..config };
    let schedule = Schedule::new(config, geometry.clone());
    let mut library = Simulation::new(schedule, config.timing, geometry, drives);
    for volume in 0..VOLUMES {
        for (file, stop) in (0..).zip(scattered(FILES, volume, FILE_BYTES)) {
            let wanted = source(volume, stop.at, stop.bytes);
            library.ask(Duration::ZERO, ask(volume * FILES + file, Kind::List, wanted));
        }
    }
    library.run();
    Row { drives, secs: library.now().as_secs_f64(), mounts: library.mounts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_drives_are_nearly_four_times_as_fast_as_one() {
        let ratio = with(1).secs / with(4).secs;
        assert!((3.5..4.5).contains(&ratio), "{ratio}");
    }
}

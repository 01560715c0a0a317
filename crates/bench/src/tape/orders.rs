//! Positioning time for each file by the order of reading, for files of 200 MB at random places of
//! a full volume.

use std::ops::Range;

use tape::generation::MEDIUM_LTO8;
use tape::geometry::Geometry;
use tape::order::{Candidate, Course, Plan, Stop};
use tape::timing::Timing;

use super::demand::seeded;
use crate::spread::{Spread, float};

const FILE_BYTES: u64 = 200_000_000;
const COUNTS: [u64; 6] = [4, 16, 64, 256, 1024, 2000];

/// Positioning times in recalls of a number of files, in seconds for each file.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) files: u64,
    pub(super) random: Spread,
    pub(super) by_block: Spread,
    pub(super) sweep: Spread,
    pub(super) greedy: Spread,
    /// The improved order. The planner makes it only for a limited number of files.
    pub(super) improved: Option<Spread>,
    /// The cheapest of all orders, which is computed only for a few files.
    pub(super) cheapest: Option<Spread>,
    /// The order that the schedule chooses. It reads through gaps where that is faster.
    pub(super) chosen: Spread,
    /// Ratio of the chosen order to the order by block, for each arrangement.
    pub(super) part: Spread,
}

pub(super) fn rows(seeds: u64) -> Vec<Row> {
    COUNTS.into_iter().map(|files| row(files, 0..seeds)).collect()
}

/// Estimates for one arrangement of files.
struct Trial {
    random: f64,
    /// Plan that never reads through a gap.
    plain: Plan,
    cheapest: Option<f64>,
    chosen: Plan,
}

fn row(files: u64, seeds: Range<u64>) -> Row {
    let trials: Vec<Trial> = seeds.map(|seed| trial(files, seed)).collect();
    let a_file = |secs: fn(&Trial) -> Option<f64>| {
        let secs: Option<Vec<f64>> = trials.iter().map(secs).collect();
        secs.map(|secs| Spread::of(secs.into_iter().map(|secs| secs / float(files))))
    };
    let by = |secs: fn(&Trial) -> Option<f64>| a_file(secs).unwrap_or_default();
    let part = |trial: &Trial| {
        trial.chosen.positioning_secs / estimate(&trial.plain, Candidate::ByBlock).unwrap_or(0.0)
    };
    Row {
        files,
        random: by(|trial| Some(trial.random)),
        by_block: by(|trial| estimate(&trial.plain, Candidate::ByBlock)),
        sweep: by(|trial| estimate(&trial.plain, Candidate::Sweep)),
        greedy: by(|trial| estimate(&trial.plain, Candidate::Greedy)),
        improved: a_file(|trial| estimate(&trial.plain, Candidate::Improved)),
        cheapest: a_file(|trial| trial.cheapest),
        chosen: by(|trial| Some(trial.chosen.positioning_secs)),
        part: Spread::of(trials.iter().map(part)),
    }
}

fn estimate(plan: &Plan, wanted: Candidate) -> Option<f64> {
    let of_it = plan.estimates.iter().find(|(candidate, _)| *candidate == wanted);
    of_it.map(|(_, secs)| *secs)
}

fn trial(files: u64, seed: u64) -> Trial {
    let geometry = Geometry::even(MEDIUM_LTO8);
    let timing = Timing::lto8();
    let plain = Timing { skip_bytes_max: 0, ..timing };
    let stops = scattered(files, seed, FILE_BYTES);
    let as_they_are: Vec<usize> = (0..stops.len()).collect();
    let course = |timing| Course { timing, geometry: &geometry };
    Trial {
        random: course(&plain).positioning_secs(0, &stops, &as_they_are),
        plain: course(&plain).plan(0, &stops, None),
        cheapest: course(&plain).cheapest_secs(0, &stops),
        chosen: course(&timing).plan(0, &stops, None),
    }
}

/// Returns files of `bytes` at random places of a full volume, in random order.
pub(super) fn scattered(files: u64, seed: u64, bytes: u64) -> Vec<Stop> {
    let mut random = seeded(seed);
    let last = MEDIUM_LTO8.capacity_bytes - bytes;
    (0..files).map(|_| Stop { at: random.below(last), bytes }).collect()
}

//! The cost of planning: processor time of a plan for files of 1 MB at random places of a full
//! volume.

use tape::generation::MEDIUM_LTO8;
use tape::geometry::Geometry;
use tape::order::{Candidate, Course};
use tape::timing::Timing;

use super::orders::scattered;
use crate::effort::Effort;
use crate::spread::float;

const FILE_BYTES: u64 = 1_000_000;
const COUNTS: [u64; 6] = [100, 256, 1000, 2000, 10_000, 100_000];

#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) files: u64,
    /// Cost of a plan that may read through gaps.
    pub(super) through: Cost,
    /// Cost of a plan that never reads through gaps.
    pub(super) never: Cost,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) cpu_secs: f64,
    pub(super) candidate: Candidate,
    pub(super) positioning_secs_per_file: f64,
}

pub(super) fn rows() -> Vec<Row> {
    let timing = Timing::lto8();
    let never = Timing { skip_bytes_max: 0, ..timing };
    let row = |files| Row { files, through: cost(files, &timing), never: cost(files, &never) };
    COUNTS.into_iter().map(row).collect()
}

fn cost(files: u64, timing: &Timing) -> Cost {
    let geometry = Geometry::even(MEDIUM_LTO8);
    let stops = scattered(files, 1, FILE_BYTES);
    let mut spent = Effort::default();
    let course = Course { timing, geometry: &geometry };
    let plan = spent.timed(|| course.plan(0, &stops, None));
    Cost {
        cpu_secs: spent.cpu.as_secs_f64(),
        candidate: plan.candidate,
        positioning_secs_per_file: plan.positioning_secs / float(files),
    }
}

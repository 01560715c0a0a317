//! The results of all measurements, which are made in the order of the page.

use super::{day, drives, emulation, orders, planning, recalls};
use crate::output;

/// The results of all measurements.
pub(super) struct Results {
    pub(super) seeds: u64,
    pub(super) recalls: Vec<recalls::Row>,
    pub(super) emulation: Vec<emulation::Row>,
    pub(super) orders: Vec<orders::Row>,
    pub(super) drives: Vec<drives::Row>,
    pub(super) day: day::Day,
    pub(super) planning: Vec<planning::Row>,
}

pub(super) fn measure(seeds: u64) -> Results {
    output::step("IBM's table");
    let recalls = recalls::rows(seeds);
    output::step("through SCSI");
    let emulation = emulation::rows();
    output::step("orders");
    let orders = orders::rows(seeds);
    output::step("drives");
    let drives = drives::rows();
    output::step("a day");
    let day = day::day();
    output::step("planning");
    Results { seeds, recalls, emulation, orders, drives, day, planning: planning::rows() }
}

//! The answers to all questions, asked in the order of the page.

use super::{day, driven, drives, orders, planning, recalls};
use crate::output;

/// The answers to all questions.
pub(super) struct Results {
    pub(super) seeds: u64,
    pub(super) recalls: Vec<recalls::Row>,
    pub(super) driven: Vec<driven::Row>,
    pub(super) orders: Vec<orders::Row>,
    pub(super) drives: Vec<drives::Row>,
    pub(super) day: day::Day,
    pub(super) planning: Vec<planning::Row>,
}

pub(super) fn measure(seeds: u64) -> Results {
    output::step("IBM's table");
    let recalls = recalls::rows(seeds);
    output::step("through SCSI");
    let driven = driven::rows();
    output::step("orders");
    let orders = orders::rows(seeds);
    output::step("drives");
    let drives = drives::rows();
    output::step("a day");
    let day = day::day();
    output::step("planning");
    Results { seeds, recalls, driven, orders, drives, day, planning: planning::rows() }
}

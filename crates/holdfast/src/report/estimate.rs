//! The estimate of a dry run: the objects and bytes that a backup would handle.

use client::{Amount, BackupReport};
use serde::Serialize;

use super::amount::{AmountDocument, amount_row};
use crate::quantity;
use crate::table::{self, Align};

/// `estimate` in `backup --dry-run --json`.
#[derive(Serialize)]
pub(super) struct EstimateDocument {
    examined: AmountDocument,
    new: AmountDocument,
    changed: AmountDocument,
    attributes_only: u64,
    expired: u64,
    bytes_to_send_max: u64,
}

impl EstimateDocument {
    pub(super) fn new(report: &BackupReport) -> Self {
        Self {
            examined: examined(report).into(),
            new: report.estimate.new.into(),
            changed: report.estimate.changed.into(),
            attributes_only: attributes_only(report),
            expired: report.expired,
            bytes_to_send_max: report.estimate.bytes_to_send_max(),
        }
    }
}

fn examined(report: &BackupReport) -> Amount {
    Amount { objects: report.inspected, bytes: report.bytes_inspected }
}

fn attributes_only(report: &BackupReport) -> u64 {
    report.updated + report.rebound
}

/// Returns the estimate as a table, and the limit of the data to send.
pub(super) fn estimate_text(report: &BackupReport) -> String {
    let count_row =
        |label: &str, objects| [label.to_owned(), quantity::count(objects), String::new()];
    let rows = [
        amount_row("examined", examined(report)),
        amount_row("new", report.estimate.new),
        amount_row("changed", report.estimate.changed),
        count_row("new attributes only", attributes_only(report)),
        count_row("expired", report.expired),
    ];
    let columns = [("Would be", Align::Left), ("Objects", Align::Right), ("Size", Align::Right)];
    format!(
        "{}\nTo send: at most {}, before deduplication and compression.\n",
        table::render(columns, &rows),
        quantity::bytes_with_unit(report.estimate.bytes_to_send_max()),
    )
}

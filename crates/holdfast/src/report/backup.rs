//! The report of a backup: TSM's lines in TSM's order and wording, which scripts read.

use client::{BackupReport, CompressorWork, Stages};
use model::escaped;
use serde::Serialize;

use super::lines::{
    FailureDocument, bytes_line, count_line, documents, failure_lines, line, warning_lines,
};
use super::stages::stages_text;
use crate::path::JsonPath;
use crate::quantity;

/// `backup --json`.
#[derive(Serialize)]
pub(crate) struct BackupDocument<'a> {
    command: &'static str,
    node: &'a str,
    filespaces: Vec<JsonPath<'a>>,
    inspected: u64,
    backed_up: u64,
    updated: u64,
    rebound: u64,
    deleted: u64,
    expired: u64,
    failed: u64,
    encrypted: u64,
    deduplicated: u64,
    grew: u64,
    retries: u64,
    sockets_skipped: u64,
    bytes_inspected: u64,
    bytes_processed: u64,
    bytes_before_dedup: u64,
    bytes_after_dedup: u64,
    bytes_transferred: u64,
    data_transfer_secs: f64,
    network_rate_kb_per_sec: f64,
    aggregate_rate_kb_per_sec: f64,
    compressed_percent: f64,
    dedup_reduction_percent: f64,
    total_reduction_percent: f64,
    elapsed_secs: f64,
    stages: &'a Stages,
    compressors: &'a [CompressorWork],
    exit_code: u8,
    failures: Vec<FailureDocument<'a>>,
    warnings: &'a [String],
    dry_run: bool,
    planned: Vec<PlannedDocument<'a>>,
    /// Number of the archive that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<u64>,
}

#[derive(Serialize)]
struct PlannedDocument<'a> {
    action: &'a str,
    path: JsonPath<'a>,
}

impl<'a> BackupDocument<'a> {
    pub(crate) fn new(report: &'a BackupReport) -> Self {
        let planned = report.planned.iter();
        Self {
            command: if report.archive.is_some() { "archive" } else { "backup" },
            node: &report.node,
            filespaces: report.filespaces.iter().map(|name| JsonPath(name)).collect(),
            inspected: report.inspected,
            backed_up: report.backed_up,
            updated: report.updated,
            rebound: report.rebound,
            deleted: report.deleted,
            expired: report.expired,
            failed: report.failed,
            encrypted: report.encrypted,
            deduplicated: report.deduplicated,
            grew: report.grew,
            retries: report.retries,
            sockets_skipped: report.sockets_skipped,
            bytes_inspected: report.bytes_inspected,
            bytes_processed: report.bytes_processed,
            bytes_before_dedup: report.bytes_before_dedup,
            bytes_after_dedup: report.bytes_after_dedup,
            bytes_transferred: report.bytes_transferred,
            data_transfer_secs: report.data_transfer.as_secs_f64(),
            network_rate_kb_per_sec: report.network_rate_kb_per_sec(),
            aggregate_rate_kb_per_sec: report.aggregate_rate_kb_per_sec(),
            compressed_percent: report.compressed_percent(),
            dedup_reduction_percent: report.dedup_reduction_percent(),
            total_reduction_percent: report.total_reduction_percent(),
            elapsed_secs: report.elapsed.as_secs_f64(),
            stages: &report.stages,
            compressors: &report.compressors,
            exit_code: report.exit_code(),
            failures: documents(&report.failures),
            warnings: &report.warnings,
            dry_run: report.dry_run,
            planned: planned
                .map(|(action, path)| PlannedDocument { action, path: JsonPath(path) })
                .collect(),
            archive: report.archive,
        }
    }
}

/// Returns the report as text: the plan of a dry run, the classic lines, the stages of a backup
/// that was no dry run, then failures, at most `failures_max`, and warnings.
pub(crate) fn backup_text(report: &BackupReport, failures_max: usize) -> String {
    let failures = failure_lines("Not backed up:", &report.failures, report.failed, failures_max);
    let sockets = match report.sockets_skipped {
        0 => String::new(),
        sockets => format!("\nSockets skipped: {}\n", quantity::count(sockets)),
    };
    let stages = if report.dry_run {
        String::new()
    } else {
        format!("\n{}", stages_text(&report.stages, &report.compressors))
    };
    let archive = report.archive.map(|number| format!("Archive {number} is created.\n\n"));
    [
        archive.unwrap_or_default(),
        plan(report),
        counts(report),
        bytes(report),
        stages,
        failures,
        sockets,
        warning_lines(&report.warnings),
    ]
    .concat()
}

fn plan(report: &BackupReport) -> String {
    if !report.dry_run {
        return String::new();
    }
    let lines = report.planned.iter();
    let lines: String = lines
        .map(|(action, path)| format!("{action:<10} {}\n", escaped(path)))
        .collect();
    let gap = if lines.is_empty() { "" } else { "\n" };
    format!(
        "{lines}{gap}Dry run: nothing was sent and nothing expired. \
         The report shows a backup's work.\n\n"
    )
}

fn counts(report: &BackupReport) -> String {
    let taken = match report.archive {
        Some(_) => "Total number of objects archived:",
        None => "Total number of objects backed up:",
    };
    [
        count_line("Total number of objects inspected:", report.inspected),
        count_line(taken, report.backed_up),
        count_line("Total number of objects updated:", report.updated),
        count_line("Total number of objects rebound:", report.rebound),
        count_line("Total number of objects deleted:", report.deleted),
        count_line("Total number of objects expired:", report.expired),
        count_line("Total number of objects failed:", report.failed),
        count_line("Total number of objects encrypted:", report.encrypted),
        count_line("Total objects deduplicated:", report.deduplicated),
        count_line("Total number of objects grew:", report.grew),
        count_line("Total number of retries:", report.retries),
    ]
    .concat()
}

fn bytes(report: &BackupReport) -> String {
    let secs = quantity::hundredths(report.data_transfer.as_secs_f64());
    let network = quantity::hundredths(report.network_rate_kb_per_sec());
    let aggregate = quantity::hundredths(report.aggregate_rate_kb_per_sec());
    let compressed = quantity::percent(report.compressed_percent(), 0);
    let dedup = quantity::percent(report.dedup_reduction_percent(), 2);
    let total = quantity::percent(report.total_reduction_percent(), 2);
    [
        bytes_line("Total number of bytes inspected:", report.bytes_inspected),
        bytes_line("Total number of bytes processed:", report.bytes_processed),
        bytes_line("Total bytes before deduplication:", report.bytes_before_dedup),
        bytes_line("Total bytes after deduplication:", report.bytes_after_dedup),
        bytes_line("Total number of bytes transferred:", report.bytes_transferred),
        line("Data transfer time:", &secs, "sec"),
        line("Network data transfer rate:", &network, "KB/sec"),
        line("Aggregate data transfer rate:", &aggregate, "KB/sec"),
        line("Objects compressed by:", &compressed, ""),
        line("Deduplication reduction:", &dedup, ""),
        line("Total data reduction ratio:", &total, ""),
        line("Elapsed processing time:", &quantity::clock(report.elapsed), ""),
    ]
    .concat()
}

#[cfg(test)]
mod tests;

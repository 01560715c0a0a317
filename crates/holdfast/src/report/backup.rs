//! The report of a backup: TSM's lines in TSM's order and wording, which scripts read.

use client::{BackupReport, CompressorWork, Exclusion, InterruptionsDocument, JournalUse, Stages};
use model::{escaped, printable};
use policy::local::MountStanding;
use serde::Serialize;

use super::estimate::{EstimateDocument, estimate_text};
use super::file_system::FileSystemDocument;
use super::lines::{
    FailureDocument, bytes_line, count_line, documents, failure_lines, interruption_lines, line,
    planned_lines, warning_lines,
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
    /// File systems of the machine that a backup without paths takes, and those that it does not,
    /// with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    file_systems: Vec<FileSystemDocument<'a>>,
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
    bytes_metadata: u64,
    data_transfer_secs: f64,
    /// Rates and ratios; `None` for a dry run.
    network_rate_kb_per_sec: Option<f64>,
    aggregate_rate_kb_per_sec: Option<f64>,
    compressed_percent: Option<f64>,
    dedup_reduction_percent: Option<f64>,
    total_reduction_percent: Option<f64>,
    elapsed_secs: f64,
    #[serde(flatten)]
    interruptions: InterruptionsDocument,
    stages: &'a Stages,
    compressors: &'a [CompressorWork],
    exit_code: u8,
    failures: Vec<FailureDocument<'a>>,
    warnings: &'a [String],
    /// Paths of the command line that a statement leaves out, if the command asks for the list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    excluded: Vec<ExclusionDocument<'a>>,
    journals: Vec<JournalDocument<'a>>,
    dry_run: bool,
    /// Estimate of a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<EstimateDocument>,
    planned: Vec<PlannedDocument<'a>>,
    /// Number of the archive that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<u64>,
    /// Number of objects in the archive, with the directories above the paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive_objects: Option<u64>,
}

/// A path that a statement leaves out.
#[derive(Serialize)]
struct ExclusionDocument<'a> {
    path: JsonPath<'a>,
    statement: &'a str,
    source: &'a str,
}

impl<'a> ExclusionDocument<'a> {
    fn of(exclusion: &'a Exclusion) -> Self {
        let Exclusion { path, statement, source } = exclusion;
        Self { path: JsonPath(path), statement, source }
    }
}

/// Use of the journal in one filespace.
#[derive(Serialize)]
struct JournalDocument<'a> {
    filespace: JsonPath<'a>,
    used: bool,
    directories: u64,
    subtrees: u64,
    /// Reason why everything was walked.
    reason: Option<&'a str>,
    compared: bool,
    missed: u64,
    silent: u64,
    /// Reason why the next backup walks everything, if that is known.
    next_walk: Option<&'a str>,
}

/// An action that a dry run has planned.
#[derive(Serialize)]
pub(super) struct PlannedDocument<'a> {
    action: &'a str,
    path: JsonPath<'a>,
}

impl<'a> PlannedDocument<'a> {
    pub(super) fn of(planned: &'a [(&'static str, Vec<u8>)]) -> Vec<Self> {
        let planned = planned.iter();
        planned.map(|(action, path)| Self { action, path: JsonPath(path) }).collect()
    }
}

impl<'a> BackupDocument<'a> {
    /// Returns the document of a command that ends versions and sends nothing.
    pub(crate) fn of_expiry(report: &'a BackupReport) -> Self {
        Self { command: "expire", ..Self::new(report, &[]) }
    }

    /// Returns the document of a backup. `mounts` are the file systems of the machine, if the
    /// backup has chosen among them.
    pub(crate) fn new(report: &'a BackupReport, mounts: &'a [MountStanding]) -> Self {
        // A dry run has done nothing. What a backup would do is its estimate.
        let done = |count: u64| if report.dry_run { 0 } else { count };
        let figure = |figure: f64| (!report.dry_run).then_some(figure);
        Self {
            command: if report.archive.is_some() { "archive" } else { "backup" },
            node: &report.node,
            filespaces: report.filespaces.iter().map(|name| JsonPath(name)).collect(),
            file_systems: FileSystemDocument::of_disks(mounts),
            inspected: report.inspected,
            backed_up: done(report.backed_up),
            updated: done(report.updated),
            rebound: done(report.rebound),
            deleted: done(report.deleted),
            expired: done(report.expired),
            failed: report.failed,
            encrypted: done(report.encrypted),
            deduplicated: done(report.deduplicated),
            grew: done(report.grew),
            retries: done(report.retries),
            sockets_skipped: report.sockets_skipped,
            bytes_inspected: report.bytes_inspected,
            bytes_processed: done(report.bytes_processed),
            bytes_before_dedup: done(report.bytes_before_dedup),
            bytes_after_dedup: done(report.bytes_after_dedup),
            bytes_transferred: done(report.bytes_transferred),
            bytes_metadata: done(report.bytes_metadata),
            data_transfer_secs: report.data_transfer.as_secs_f64(),
            network_rate_kb_per_sec: figure(report.network_rate_kb_per_sec()),
            aggregate_rate_kb_per_sec: figure(report.aggregate_rate_kb_per_sec()),
            compressed_percent: figure(report.compressed_percent()),
            dedup_reduction_percent: figure(report.dedup_reduction_percent()),
            total_reduction_percent: figure(report.total_reduction_percent()),
            elapsed_secs: report.elapsed.as_secs_f64(),
            interruptions: report.interruptions.into(),
            stages: &report.stages,
            compressors: &report.compressors,
            exit_code: report.exit_code(),
            failures: documents(&report.failures),
            warnings: &report.warnings,
            excluded: report.excluded.iter().map(ExclusionDocument::of).collect(),
            journals: report.journals.iter().map(journal_document).collect(),
            dry_run: report.dry_run,
            estimate: report.dry_run.then(|| EstimateDocument::new(report)),
            planned: PlannedDocument::of(&report.planned),
            archive: report.archive,
            archive_objects: report.archive_objects,
        }
    }
}

fn journal_document(usage: &JournalUse) -> JournalDocument<'_> {
    JournalDocument {
        filespace: JsonPath(&usage.filespace),
        used: usage.is_used,
        directories: usage.directories,
        subtrees: usage.subtrees,
        reason: usage.reason.as_deref(),
        compared: usage.is_compared,
        missed: usage.missed,
        silent: usage.silent,
        next_walk: usage.next_walk.as_deref(),
    }
}

/// Returns a line about the journal for each filespace.
fn journal_lines(journals: &[JournalUse]) -> String {
    if journals.is_empty() {
        return String::new();
    }
    let line = |usage: &JournalUse| {
        let way = match &usage.reason {
            Some(reason) => format!("everything was walked: {}", printable(reason)),
            None if usage.is_used => format!(
                "{} and {} were looked at",
                counted(usage.directories, "directory", "directories"),
                counted(usage.subtrees, "subtree", "subtrees")
            ),
            None => "everything was walked".to_owned(),
        };
        let silent = match usage.silent {
            0 => String::new(),
            silent => format!(
                "; only the change time of {} differed, as after chattr",
                counted(silent, "object", "objects")
            ),
        };
        let next = usage
            .next_walk
            .as_ref()
            .map(|reason| format!("; the next backup walks everything: {}", printable(reason)));
        let filespace = escaped(&usage.filespace);
        format!("Journal of {filespace}: {way}{silent}{}\n", next.unwrap_or_default())
    };
    let lines: String = journals.iter().map(line).collect();
    format!("\n{lines}")
}

fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", quantity::count(count), if count == 1 { one } else { several })
}

/// Returns the report as text: the classic lines and the stages, or the plan and the estimate of a
/// dry run; then the use of the journal, failures, at most `failures_max`, and warnings.
pub(crate) fn backup_text(report: &BackupReport, failures_max: usize) -> String {
    let failures = failure_lines("Not backed up:", &report.failures, report.failed, failures_max);
    let sockets = match report.sockets_skipped {
        0 => String::new(),
        sockets => format!("\nSockets skipped: {}\n", quantity::count(sockets)),
    };
    let work = if report.dry_run { plan(report) } else { done(report) };
    let journals = journal_lines(&report.journals);
    [work, journals, failures, sockets, warning_lines(&report.warnings)].concat()
}

/// Returns the work that was done.
fn done(report: &BackupReport) -> String {
    let archive = report.archive.map(|number| created(number, report));
    let stages = format!("\n{}", stages_text(&report.stages, &report.compressors));
    [archive.unwrap_or_default(), counts(report), bytes(report), stages].concat()
}

/// Returns the line about an archive, whose objects are more than what was named.
fn created(number: u64, report: &BackupReport) -> String {
    let above = match report.archive_objects.filter(|objects| *objects > report.backed_up) {
        Some(objects) => format!(
            " With the directories above its paths it has {} objects.",
            quantity::count(objects)
        ),
        None => String::new(),
    };
    format!("Archive {number} is created.{above}\n\n")
}

/// Returns the work that a backup would do.
fn plan(report: &BackupReport) -> String {
    format!(
        "{}Dry run: nothing was sent and nothing expired.\n\n{}",
        planned_lines(report),
        estimate_text(report)
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
        interruption_lines(report.interruptions),
    ]
    .concat()
}

#[cfg(test)]
mod tests;

//! Reports about images.

use std::ops::Range;

use client::{
    CompressorWork, Image, ImageFacts, ImageReport, ImageRestoreReport, ImageStillness,
    InterruptionsDocument, LostRange, Stages,
};
use model::{escaped, printable};
use serde::Serialize;

use super::lines::{bytes_line, interruption_lines, line, warning_lines};
use super::stages::stages_text;
use crate::path::JsonPath;
use crate::{moment, quantity};

/// Number of ranges that a report lists.
const RANGES_SHOWN: usize = 20;

/// Says in words how a disk was held still.
pub(crate) fn stillness_words(stillness: ImageStillness) -> &'static str {
    match stillness {
        ImageStillness::Unchanged => "unchanged",
        ImageStillness::Snapshot => "snapshot",
        ImageStillness::Frozen => "frozen",
        ImageStillness::Fuzzy => "fuzzy",
    }
}

#[derive(Serialize)]
struct RangeDocument {
    offset: u64,
    bytes: u64,
}

fn range_documents(facts: &ImageFacts) -> Vec<RangeDocument> {
    let ranges = facts.unreadable.iter();
    ranges
        .map(|range| RangeDocument { offset: range.offset, bytes: range.bytes })
        .collect()
}

/// An image in `image list --json`, one document per line.
#[derive(Serialize)]
pub(crate) struct ImageDocument<'a> {
    image: JsonPath<'a>,
    taken: String,
    replaced: Option<String>,
    class: &'a str,
    bytes: u64,
    data_bytes: u64,
    state: &'static str,
    kind: &'a str,
    holds: Option<&'a str>,
    host: &'a str,
    unreadable: Vec<RangeDocument>,
}

impl<'a> ImageDocument<'a> {
    pub(crate) fn new(image: &'a Image) -> Self {
        let facts = &image.facts;
        Self {
            image: JsonPath(&image.name),
            taken: moment::rfc3339(image.taken),
            replaced: image.replaced.map(moment::rfc3339),
            class: &image.class,
            bytes: facts.layout.bytes,
            data_bytes: facts.data_bytes,
            state: stillness_words(facts.stillness),
            kind: &facts.kind,
            holds: facts.holds.as_deref(),
            host: &facts.host,
            unreadable: range_documents(facts),
        }
    }
}

/// `image backup --json`.
#[derive(Serialize)]
pub(crate) struct ImageReportDocument<'a> {
    command: &'static str,
    node: &'a str,
    image: JsonPath<'a>,
    bytes: u64,
    data_bytes: u64,
    parts: u64,
    changed_parts: u64,
    /// Data in the parts that were read.
    bytes_before_dedup: u64,
    bytes_after_dedup: u64,
    bytes_transferred: u64,
    data_transfer_secs: f64,
    compressed_percent: f64,
    state: &'static str,
    holds: Option<&'a str>,
    unreadable: Vec<RangeDocument>,
    elapsed_secs: f64,
    #[serde(flatten)]
    interruptions: InterruptionsDocument,
    stages: &'a Stages,
    compressors: &'a [CompressorWork],
    exit_code: u8,
    warnings: &'a [String],
}

impl<'a> ImageReportDocument<'a> {
    pub(crate) fn new(name: &'a [u8], report: &'a ImageReport, exit_code: u8) -> Self {
        let ImageReport { backup, facts, parts, changed_parts, read_bytes: _ } = report;
        Self {
            command: "image backup",
            node: &backup.node,
            image: JsonPath(name),
            bytes: facts.layout.bytes,
            data_bytes: facts.data_bytes,
            parts: *parts,
            changed_parts: *changed_parts,
            bytes_before_dedup: backup.bytes_before_dedup,
            bytes_after_dedup: backup.bytes_after_dedup,
            bytes_transferred: backup.bytes_transferred,
            data_transfer_secs: backup.data_transfer.as_secs_f64(),
            compressed_percent: backup.compressed_percent(),
            state: stillness_words(facts.stillness),
            holds: facts.holds.as_deref(),
            unreadable: range_documents(facts),
            elapsed_secs: backup.elapsed.as_secs_f64(),
            interruptions: backup.interruptions.into(),
            stages: &backup.stages,
            compressors: &backup.compressors,
            exit_code,
            warnings: &backup.warnings,
        }
    }
}

/// `image restore --json` and `image verify --json`.
#[derive(Serialize)]
pub(crate) struct ImageRestoreDocument<'a> {
    command: &'static str,
    node: &'a str,
    image: JsonPath<'a>,
    taken: String,
    bytes: u64,
    data_bytes: u64,
    bytes_transferred: u64,
    data_transfer_secs: f64,
    lost: Vec<LostDocument<'a>>,
    unreadable: Vec<RangeDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    different_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    different: Vec<RangeDocument>,
    elapsed_secs: f64,
    #[serde(flatten)]
    interruptions: InterruptionsDocument,
}

#[derive(Serialize)]
struct LostDocument<'a> {
    offset: u64,
    bytes: u64,
    reason: &'a str,
}

impl<'a> ImageRestoreDocument<'a> {
    pub(crate) fn new(
        command: &'static str,
        image: &'a Image,
        report: &'a ImageRestoreReport,
    ) -> Self {
        let lost = |range: &'a LostRange| LostDocument {
            offset: range.offset,
            bytes: range.bytes,
            reason: &range.reason,
        };
        Self {
            command,
            node: &report.node,
            image: JsonPath(&image.name),
            taken: moment::rfc3339(image.taken),
            bytes: image.facts.layout.bytes,
            data_bytes: report.data_bytes,
            bytes_transferred: report.bytes_transferred,
            data_transfer_secs: report.data_transfer.as_secs_f64(),
            lost: report.lost.iter().map(lost).collect(),
            unreadable: range_documents(&image.facts),
            different_bytes: None,
            different: Vec::new(),
            elapsed_secs: report.elapsed.as_secs_f64(),
            interruptions: report.interruptions.into(),
        }
    }

    /// Adds the result of a comparison with a disk.
    pub(crate) fn set_differences(&mut self, bytes: u64, ranges: &[Range<u64>]) {
        let document = |range: &Range<u64>| RangeDocument {
            offset: range.start,
            bytes: range.end - range.start,
        };
        self.different_bytes = Some(bytes);
        self.different = ranges.iter().map(document).collect();
    }
}

/// Returns the report about a new image as text.
pub(crate) fn image_text(name: &[u8], report: &ImageReport) -> String {
    let ImageReport { backup, facts, parts, changed_parts, read_bytes: _ } = report;
    let holds = facts.holds.as_ref().map(|holds| format!(", {holds}")).unwrap_or_default();
    [
        format!("Image of {}{}\n", escaped(name), printable(&holds)),
        bytes_line("Size of the disk:", facts.layout.bytes),
        bytes_line("Data in the image:", facts.data_bytes),
        line(
            "Changed parts:",
            &format!("{} of {}", quantity::count(*changed_parts), quantity::count(*parts)),
            "",
        ),
        bytes_line("New data:", backup.bytes_after_dedup),
        bytes_line("Bytes transferred:", backup.bytes_transferred),
        line("State:", stillness_words(facts.stillness), ""),
        line("Elapsed processing time:", &quantity::clock(backup.elapsed), ""),
        interruption_lines(backup.interruptions),
        format!("\n{}", stages_text(&backup.stages, &backup.compressors)),
        unreadable_lines(facts),
        warning_lines(&backup.warnings),
    ]
    .concat()
}

/// Returns the report about a restored or checked image as text.
pub(crate) fn image_restore_text(
    heading: &str,
    image: &Image,
    report: &ImageRestoreReport,
) -> String {
    let lost = report
        .lost
        .iter()
        .map(|range| (range.offset, range.bytes, range.reason.as_str()));
    [
        format!("{}\n", printable(heading)),
        line("Image taken:", &moment::shown(image.taken), ""),
        bytes_line("Size of the disk:", image.facts.layout.bytes),
        bytes_line("Data in the image:", report.data_bytes),
        bytes_line("Bytes transferred:", report.bytes_transferred),
        line("Elapsed processing time:", &quantity::clock(report.elapsed), ""),
        interruption_lines(report.interruptions),
        range_lines("Lost or damaged at the server:", lost),
        unreadable_lines(&image.facts),
    ]
    .concat()
}

fn unreadable_lines(facts: &ImageFacts) -> String {
    let unreadable = facts.unreadable.iter().map(|range| (range.offset, range.bytes, ""));
    range_lines("Not readable on the disk, zeros in the image:", unreadable)
}

fn range_lines<'a>(
    heading: &str,
    ranges: impl ExactSizeIterator<Item = (u64, u64, &'a str)>,
) -> String {
    let hidden = ranges.len().saturating_sub(RANGES_SHOWN);
    let lines: Vec<String> = ranges
        .take(RANGES_SHOWN)
        .map(|(offset, bytes, reason)| {
            let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            // The numbers may come from another machine.
            let last = offset.saturating_add(bytes).saturating_sub(1);
            format!("  bytes {offset} to {last}{}\n", printable(&reason))
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    let rest = match hidden {
        0 => String::new(),
        hidden => format!("  and {} more; --json names all\n", quantity::count(hidden as u64)),
    };
    format!("\n{heading}\n{}{rest}", lines.concat())
}

//! Lines and parts of documents that all reports have.

use client::{BackupReport, Failure, Interruptions};
use model::{escaped, printable};
use serde::Serialize;

use crate::path::JsonPath;
use crate::quantity;

/// Maximum number of failures that a report names, so that its figures stay on the screen.
pub(crate) const FAILURES_SHOWN: usize = 20;

const LABEL_COLUMNS: usize = 36;
const VALUE_COLUMNS: usize = 14;

/// A failure in a document.
#[derive(Serialize)]
pub(super) struct FailureDocument<'a> {
    path: JsonPath<'a>,
    error: &'a str,
}

/// Returns the documents of `failures`.
pub(super) fn documents(failures: &[Failure]) -> Vec<FailureDocument<'_>> {
    let failures = failures.iter();
    failures
        .map(|Failure { path, error }| FailureDocument { path: JsonPath(path), error })
        .collect()
}

/// Formats one line: `label`, then `value`, so that the digits of all lines are aligned.
pub(super) fn line(label: &str, value: &str, unit: &str) -> String {
    let line = format!("{label:<LABEL_COLUMNS$}{value:>VALUE_COLUMNS$} {unit}");
    format!("{}\n", line.trim_end())
}

pub(super) fn count_line(label: &str, count: u64) -> String {
    line(label, &quantity::count(count), "")
}

pub(super) fn bytes_line(label: &str, bytes: u64) -> String {
    let (value, unit) = quantity::bytes(bytes);
    line(label, &value, unit)
}

/// Lists what a dry run has planned, and an empty line if there is anything.
pub(super) fn planned_lines(report: &BackupReport) -> String {
    let planned = report.planned.iter();
    let lines: String = planned
        .map(|(action, path)| format!("{action:<10} {}\n", escaped(path)))
        .collect();
    let gap = if lines.is_empty() { "" } else { "\n" };
    lines + gap
}

/// Returns lines about the times in which the server was away, and about pauses; nothing if there
/// were none.
pub(super) fn interruption_lines(interruptions: Interruptions) -> String {
    let Interruptions { count, away, pauses, paused } = interruptions;
    let lines = |count, label, time, of: &str| match count {
        0 => String::new(),
        _ => format!("{}{}", count_line(label, count), line(of, &quantity::clock(time), "")),
    };
    [
        lines(count, "Total number of interruptions:", away, "Time without the server:"),
        lines(pauses, "Total number of pauses:", paused, "Time paused:"),
    ]
    .concat()
}

/// Returns the failures and warnings, which even a quiet command writes.
pub(crate) fn troubles(
    failures: &[Failure],
    failed: u64,
    warnings: &[String],
    shown_max: usize,
) -> String {
    let failures = failure_lines("Failed:", failures, failed, shown_max);
    format!("{}{}", failures.trim_start(), warning_lines(warnings).trim_start())
}

/// Lists the first `shown_max` of `failed` failures below `heading`. Returns an empty text if there
/// are no failures.
pub(super) fn failure_lines(
    heading: &str,
    failures: &[Failure],
    failed: u64,
    shown_max: usize,
) -> String {
    let shown = failures.iter().take(shown_max);
    let line = |failure: &Failure| {
        format!("  {}: {}\n", escaped(&failure.path), printable(&failure.error))
    };
    let lines: Vec<_> = shown.map(line).collect();
    if lines.is_empty() {
        return String::new();
    }
    let hidden = failed.saturating_sub(u64::try_from(lines.len()).unwrap_or(u64::MAX));
    let rest = match hidden {
        0 => String::new(),
        hidden if shown_max > FAILURES_SHOWN => {
            format!("  and {} more\n", quantity::count(hidden))
        }
        hidden => format!("  and {} more; --verbose names more\n", quantity::count(hidden)),
    };
    format!("\n{heading}\n{}{rest}", lines.concat())
}

/// Lists the warnings after an empty line. Returns an empty text if there are no warnings.
pub(super) fn warning_lines(warnings: &[String]) -> String {
    let gap = if warnings.is_empty() { "" } else { "\n" };
    let lines = warnings.iter().map(|warning| format!("Warning: {}\n", printable(warning)));
    format!("{gap}{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(count: u8) -> Vec<Failure> {
        let failure = |index| Failure {
            path: vec![b'/', b'a' + index, 0xff],
            error: "permission denied".to_owned(),
        };
        (0..count).map(failure).collect()
    }

    #[test]
    fn failures_are_named_up_to_a_limit() {
        assert_eq!(failure_lines("Failed:", &[], 0, 2), "");
        let text = failure_lines("Failed:", &failures(3), 1_234, 2);
        insta::assert_snapshot!(text, @r"

        Failed:
          /a\xff: permission denied
          /b\xff: permission denied
          and 1,232 more; --verbose names more
        ");
    }
}

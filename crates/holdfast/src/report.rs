//! The session reports, as classic lines and as JSON.

mod backup;
mod restore;
mod verify;

pub(crate) use backup::{BackupDocument, backup_text};
pub(crate) use restore::{RestoreDocument, restore_text};
pub(crate) use verify::{VerifyDocument, verify_text};

use client::Failure;
use model::escaped;
use serde::Serialize;

use crate::path::JsonPath;
use crate::quantity;

/// Failures that a text names at most, so that the report stays in sight.
pub(crate) const FAILURES_SHOWN: usize = 20;

const LABEL_COLUMNS: usize = 36;
const VALUE_COLUMNS: usize = 14;

/// A failure in a document.
#[derive(Serialize)]
struct FailureDocument<'a> {
    path: JsonPath<'a>,
    error: &'a str,
}

fn documents(failures: &[Failure]) -> Vec<FailureDocument<'_>> {
    let failures = failures.iter();
    failures
        .map(|Failure { path, error }| FailureDocument { path: JsonPath(path), error })
        .collect()
}

/// One line: `label`, and `value` so that the digits of all lines stand below each other.
fn line(label: &str, value: &str, unit: &str) -> String {
    let line = format!("{label:<LABEL_COLUMNS$}{value:>VALUE_COLUMNS$} {unit}");
    format!("{}\n", line.trim_end())
}

fn count_line(label: &str, count: u64) -> String {
    line(label, &quantity::count(count), "")
}

fn bytes_line(label: &str, bytes: u64) -> String {
    let (value, unit) = quantity::bytes(bytes);
    line(label, &value, unit)
}

/// What must be said even to those who want no report: failures and warnings.
pub(crate) fn troubles(
    failures: &[Failure],
    failed: u64,
    warnings: &[String],
    shown_max: usize,
) -> String {
    let failures = failure_lines("Failed:", failures, failed, shown_max);
    format!("{}{}", failures.trim_start(), warning_lines(warnings).trim_start())
}

/// The first `shown_max` of `failures` out of `failed` below `heading`; nothing if there are none.
fn failure_lines(heading: &str, failures: &[Failure], failed: u64, shown_max: usize) -> String {
    let shown = failures.iter().take(shown_max);
    let line = |failure: &Failure| format!("  {}: {}\n", escaped(&failure.path), failure.error);
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

/// The warnings after a gap; nothing if there are none.
fn warning_lines(warnings: &[String]) -> String {
    let gap = if warnings.is_empty() { "" } else { "\n" };
    let lines = warnings.iter().map(|warning| format!("Warning: {warning}\n"));
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

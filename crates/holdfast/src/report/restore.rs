//! The report of a restore.

use client::{InterruptionsDocument, RestoreReport};
use serde::Serialize;

use super::lines::{
    FailureDocument, bytes_line, count_line, documents, failure_lines, interruption_lines, line,
    warning_lines,
};
use crate::quantity;

/// Command that brings objects back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BringBack {
    Restore,
    Retrieve,
}

impl BringBack {
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Restore => "restore",
            Self::Retrieve => "retrieve",
        }
    }

    /// Returns what has happened to an object that was brought back.
    pub(super) fn done(self) -> &'static str {
        match self {
            Self::Restore => "restored",
            Self::Retrieve => "retrieved",
        }
    }

    /// Returns what the objects come from.
    pub(super) fn source(self) -> &'static str {
        match self {
            Self::Restore => "backup",
            Self::Retrieve => "archive",
        }
    }
}

/// `restore --json` and `retrieve --json`.
#[derive(Serialize)]
pub(crate) struct RestoreDocument<'a> {
    command: &'static str,
    node: &'a str,
    restored: u64,
    skipped: u64,
    kept: u64,
    failed: u64,
    bytes_restored: u64,
    bytes_transferred: u64,
    data_transfer_secs: f64,
    elapsed_secs: f64,
    #[serde(flatten)]
    interruptions: InterruptionsDocument,
    exit_code: u8,
    failures: Vec<FailureDocument<'a>>,
    warnings: &'a [String],
}

impl<'a> RestoreDocument<'a> {
    pub(crate) fn new(report: &'a RestoreReport, what: BringBack) -> Self {
        Self {
            command: what.command(),
            node: &report.node,
            restored: report.restored,
            skipped: report.skipped,
            kept: report.kept,
            failed: report.failed,
            bytes_restored: report.bytes_restored,
            bytes_transferred: report.bytes_transferred,
            data_transfer_secs: report.data_transfer.as_secs_f64(),
            elapsed_secs: report.elapsed.as_secs_f64(),
            interruptions: report.interruptions.into(),
            exit_code: report.exit_code(),
            failures: documents(&report.failures),
            warnings: &report.warnings,
        }
    }
}

/// Returns the report as text, with at most `failures_max` failures.
pub(crate) fn restore_text(report: &RestoreReport, what: BringBack, failures_max: usize) -> String {
    let (done, source) = (what.done(), what.source());
    let kept = match report.kept {
        0 => String::new(),
        kept => format!(
            "\nKept {} that {} from the {source}; --replace can overwrite them.\n",
            quantity::counted(kept, "object"),
            if kept == 1 { "differs" } else { "differ" },
        ),
    };
    [
        count_line(&format!("Total number of objects {done}:"), report.restored),
        count_line("Total number of objects skipped:", report.skipped),
        count_line("Total number of objects failed:", report.failed),
        bytes_line(&format!("Total number of bytes {done}:"), report.bytes_restored),
        bytes_line("Total number of bytes transferred:", report.bytes_transferred),
        line("Elapsed processing time:", &quantity::clock(report.elapsed), ""),
        interruption_lines(report.interruptions),
        kept,
        failure_lines(&format!("Not {done}:"), &report.failures, report.failed, failures_max),
        warning_lines(&report.warnings),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use client::{Failure, Interruptions};

    use super::*;

    fn report() -> RestoreReport {
        RestoreReport {
            node: "anna".to_owned(),
            restored: 1_234,
            skipped: 56,
            kept: 3,
            failed: 1,
            bytes_restored: 7 << 20,
            hole_bytes: 1 << 20,
            bytes_transferred: 2_000_000,
            data_transfer: Duration::from_millis(40_250),
            elapsed: Duration::from_millis(61_500),
            interruptions: Interruptions {
                count: 2,
                away: Duration::from_secs(40),
                pauses: 1,
                paused: Duration::from_secs(5),
            },
            failures: vec![Failure {
                path: b"/srv/b\xff".to_vec(),
                error: "no space left on device".to_owned(),
            }],
            warnings: vec!["owners were not set: not root".to_owned()],
        }
    }

    #[test]
    fn the_text_says_what_was_kept_and_what_failed() {
        insta::assert_snapshot!(restore_text(&report(), BringBack::Restore, 20));
    }

    #[test]
    fn a_retrieve_has_its_own_words() {
        let text = restore_text(&report(), BringBack::Retrieve, 20);
        for line in [
            "Total number of objects retrieved:           1,234\n",
            "Total number of bytes retrieved:              7.00 MB\n",
            "Kept 3 objects that differ from the archive; --replace can overwrite them.\n",
            "Not retrieved:\n",
        ] {
            assert!(text.contains(line), "{line} is missing: {text}");
        }
        assert!(!text.contains("restored"), "{text}");
    }

    #[test]
    fn the_document_has_every_key() {
        let document =
            serde_json::to_string_pretty(&RestoreDocument::new(&report(), BringBack::Restore));
        insta::assert_snapshot!(document.expect("a document"));
    }
}

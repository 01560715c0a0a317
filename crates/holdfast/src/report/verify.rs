//! The report of a verification.

use client::{InterruptionsDocument, VerifyReport};
use serde::Serialize;

use super::lines::{
    FailureDocument, bytes_line, count_line, documents, failure_lines, interruption_lines, line,
};
use crate::quantity;

/// `verify --json`.
#[derive(Serialize)]
pub(crate) struct VerifyDocument<'a> {
    command: &'static str,
    node: &'a str,
    versions: u64,
    /// Number of damaged versions.
    failed: u64,
    bytes_verified: u64,
    bytes_transferred: u64,
    elapsed_secs: f64,
    #[serde(flatten)]
    interruptions: InterruptionsDocument,
    exit_code: u8,
    failures: Vec<FailureDocument<'a>>,
}

impl<'a> VerifyDocument<'a> {
    pub(crate) fn new(report: &'a VerifyReport) -> Self {
        Self {
            command: "verify",
            node: &report.node,
            versions: report.versions,
            failed: report.damaged,
            bytes_verified: report.bytes_verified,
            bytes_transferred: report.bytes_transferred,
            elapsed_secs: report.elapsed.as_secs_f64(),
            interruptions: report.interruptions.into(),
            exit_code: report.exit_code(),
            failures: documents(&report.failures),
        }
    }
}

/// Returns the report as text, with at most `failures_max` damaged versions.
pub(crate) fn verify_text(report: &VerifyReport, failures_max: usize) -> String {
    [
        count_line("Total number of versions verified:", report.versions),
        count_line("Total number of versions damaged:", report.damaged),
        bytes_line("Total number of bytes verified:", report.bytes_verified),
        bytes_line("Total number of bytes transferred:", report.bytes_transferred),
        line("Elapsed processing time:", &quantity::clock(report.elapsed), ""),
        interruption_lines(report.interruptions),
        failure_lines("Damaged:", &report.failures, report.damaged, failures_max),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use client::{Failure, Interruptions};

    use super::*;

    fn report() -> VerifyReport {
        VerifyReport {
            node: "anna".to_owned(),
            versions: 12_345,
            damaged: 1,
            bytes_verified: 3 << 30,
            bytes_transferred: 1 << 30,
            elapsed: Duration::from_secs(30),
            interruptions: Interruptions::default(),
            failures: vec![Failure {
                path: b"/home/ann".to_vec(),
                error: "pack 7 is damaged".to_owned(),
            }],
        }
    }

    #[test]
    fn the_text_names_what_is_damaged() {
        insta::assert_snapshot!(verify_text(&report(), 20));
    }

    #[test]
    fn the_document_has_every_key() {
        let document = serde_json::to_string_pretty(&VerifyDocument::new(&report()));
        insta::assert_snapshot!(document.expect("a document"));
    }
}

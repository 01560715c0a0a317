//! The report of a verification.

use client::{DrillReport, InterruptionsDocument, VerifyReport};
use model::printable;
use serde::Serialize;

use super::drills::amount;
use super::lines::{
    FailureDocument, bytes_line, count_line, documents, failure_lines, interruption_lines, line,
};
use crate::{moment, quantity};

/// `verify --json`.
#[derive(Serialize)]
pub(crate) struct VerifyDocument<'a> {
    command: &'static str,
    node: &'a str,
    versions: u64,
    /// Number of damaged versions and missing paths.
    failed: u64,
    bytes_verified: u64,
    bytes_transferred: u64,
    elapsed_secs: f64,
    #[serde(flatten)]
    interruptions: InterruptionsDocument,
    exit_code: u8,
    failures: Vec<FailureDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drill: Option<DrillDocument<'a>>,
}

/// A restore drill.
#[derive(Serialize)]
struct DrillDocument<'a> {
    seed: u64,
    good: bool,
    time: String,
    /// Number of files that the server has sent and the node has checked, and their bytes at the
    /// server.
    objects: u64,
    bytes: u64,
    reason: &'a str,
}

impl<'a> VerifyDocument<'a> {
    /// Describes a verification that ends with `exit_code`.
    pub(crate) fn new(report: &'a VerifyReport, exit_code: u8) -> Self {
        let drill = |DrillReport { seed, result }: &'a DrillReport| DrillDocument {
            seed: *seed,
            good: result.is_good,
            time: moment::rfc3339(result.at),
            objects: result.objects,
            bytes: result.bytes,
            reason: &result.reason,
        };
        Self {
            command: "verify",
            node: &report.node,
            versions: report.versions,
            failed: report.failed(),
            bytes_verified: report.bytes_verified,
            bytes_transferred: report.bytes_transferred,
            elapsed_secs: report.elapsed.as_secs_f64(),
            interruptions: report.interruptions.into(),
            exit_code,
            failures: documents(&report.failures),
            drill: report.drill.as_ref().map(drill),
        }
    }
}

/// Returns the report as text, with at most `failures_max` failures.
pub(crate) fn verify_text(report: &VerifyReport, failures_max: usize) -> String {
    let (missing, heading) = match report.missing {
        0 => (String::new(), "Damaged:"),
        paths => (count_line("Total number of paths not stored:", paths), "Damaged or not stored:"),
    };
    [
        count_line("Total number of versions verified:", report.versions),
        count_line("Total number of versions damaged:", report.damaged),
        missing,
        bytes_line("Total number of bytes verified:", report.bytes_verified),
        bytes_line("Total number of bytes transferred:", report.bytes_transferred),
        line("Elapsed processing time:", &quantity::clock(report.elapsed), ""),
        interruption_lines(report.interruptions),
        failure_lines(heading, &report.failures, report.failed(), failures_max),
        report.drill.as_ref().map(drill_lines).unwrap_or_default(),
    ]
    .concat()
}

/// Returns the lines of a restore drill.
fn drill_lines(DrillReport { seed, result }: &DrillReport) -> String {
    let verdict = match result.is_good {
        true => format!(
            "Proven restorable at {}: {}. The server keeps this date.",
            moment::shown(result.at),
            amount(result)
        ),
        false => format!("The restore drill has failed: {}.", printable(&result.reason)),
    };
    format!("\nSeed of the sample: {seed} (--seed {seed} draws it again)\n{verdict}\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use client::{Drill, Failure, Interruptions};
    use model::ServerTime;

    use super::*;

    fn report() -> VerifyReport {
        VerifyReport {
            node: "anna".to_owned(),
            versions: 12_345,
            damaged: 1,
            missing: 0,
            bytes_verified: 3 << 30,
            bytes_transferred: 1 << 30,
            elapsed: Duration::from_secs(30),
            interruptions: Interruptions::default(),
            failures: vec![Failure {
                path: b"/home/ann".to_vec(),
                error: "pack 7 is damaged".to_owned(),
            }],
            drill: None,
        }
    }

    fn drill(is_good: bool) -> VerifyReport {
        let reason = if is_good { "" } else { "1 file could not be restored" };
        let result = Drill {
            is_good,
            at: ServerTime::from_secs(1_700_000_000),
            objects: 3,
            bytes: 5 << 20,
            damaged: u64::from(!is_good),
            reason: reason.to_owned(),
        };
        VerifyReport { drill: Some(DrillReport { seed: 42, result }), ..report() }
    }

    #[test]
    fn a_drill_tells_its_seed_and_its_result() {
        let good = verify_text(&drill(true), 20);
        let amount = "3 files, 5.00 MB. The server keeps this date.\n";
        assert!(good.contains("--seed 42 draws it again") && good.ends_with(amount), "{good}");
        let failed = verify_text(&drill(false), 20);
        assert!(failed.ends_with("has failed: 1 file could not be restored.\n"), "{failed}");
        let report = drill(true);
        let document = serde_json::to_value(VerifyDocument::new(&report, 0));
        let document = document.expect("a document");
        assert_eq!(document["drill"]["seed"], 42);
        assert_eq!(document["drill"]["time"], "2023-11-14T22:13:20Z");
    }

    #[test]
    fn the_text_names_what_is_damaged() {
        insta::assert_snapshot!(verify_text(&report(), 20));
    }

    #[test]
    fn a_missing_path_is_not_called_damaged() {
        let report = VerifyReport { damaged: 0, missing: 1, ..report() };
        let text = verify_text(&report, 20);
        for part in ["versions damaged:                0", "paths not stored:                1"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.contains("\nDamaged or not stored:\n"), "{text}");
        assert_eq!((VerifyDocument::new(&report, 4).failed, report.exit_code()), (1, 4));
    }

    #[test]
    fn the_document_has_every_key() {
        let document = serde_json::to_string_pretty(&VerifyDocument::new(&report(), 4));
        insta::assert_snapshot!(document.expect("a document"));
    }
}

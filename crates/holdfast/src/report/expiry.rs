//! The report of `holdfast expire`.

use client::BackupReport;

use super::lines::{
    count_line, failure_lines, interruption_lines, line, planned_lines, warning_lines,
};
use crate::quantity;

/// Returns the report as text: what has ended, or the plan of a dry run; then failures, at most
/// `failures_max`, and warnings.
pub(crate) fn expiry_text(report: &BackupReport, failures_max: usize) -> String {
    let failures = failure_lines("Not expired:", &report.failures, report.failed, failures_max);
    let work = if report.dry_run { plan(report) } else { done(report) };
    [work, failures, warning_lines(&report.warnings)].concat()
}

fn done(report: &BackupReport) -> String {
    [
        count_line("Total number of objects expired:", report.expired),
        count_line("Total number of objects failed:", report.failed),
        line("Elapsed processing time:", &quantity::clock(report.elapsed), ""),
        interruption_lines(report.interruptions),
    ]
    .concat()
}

fn plan(report: &BackupReport) -> String {
    let expired = quantity::counted(report.expired, "object");
    format!("{}Dry run: {expired} would expire, and nothing has.\n", planned_lines(report))
}

#[cfg(test)]
mod tests {
    use client::Failure;

    use super::*;

    #[test]
    fn a_report_has_what_ended_and_what_did_not() {
        let failure =
            Failure { path: b"/a\xff".to_vec(), error: "no active version is stored".to_owned() };
        let report = BackupReport {
            expired: 1_200,
            failed: 1,
            failures: vec![failure],
            ..BackupReport::default()
        };
        insta::assert_snapshot!(expiry_text(&report, 10), @r"
        Total number of objects expired:             1,200
        Total number of objects failed:                  1
        Elapsed processing time:                  00:00:00

        Not expired:
          /a\xff: no active version is stored
        ");
    }

    #[test]
    fn a_dry_run_lists_what_would_end() {
        let report = BackupReport {
            expired: 2,
            dry_run: true,
            planned: vec![("expire", b"/srv/old".to_vec())],
            ..BackupReport::default()
        };
        insta::assert_snapshot!(expiry_text(&report, 10), @r"
        expire     /srv/old

        Dry run: 2 objects would expire, and nothing has.
        ");
    }
}

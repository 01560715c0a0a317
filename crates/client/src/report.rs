//! Reports of commands. Counts and bytes are exact; the lines of the classic session report are
//! computed from them.

use std::time::Duration;

use serde::Serialize;

use crate::drills::Drill;
use crate::interruptions::Interruptions;
use crate::source::Source;
use crate::stages::{CompressorWork, Stages};

/// Maximum number of failures that a report lists. All failures are counted.
pub(crate) const FAILURES_LISTED: usize = 1000;

/// Object with which a command has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Path on the node, from `/`.
    pub path: Vec<u8>,
    pub error: String,
}

/// Target of a backup that a statement leaves out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Exclusion {
    /// Path on the node, from `/`.
    pub path: Vec<u8>,
    pub statement: String,
    /// Place of the statement.
    pub source: String,
}

impl std::fmt::Display for Exclusion {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, statement, source } = self;
        write!(text, "{} is left out by '{statement}' ({source})", model::escaped(path))
    }
}

/// Use of the journal in one filespace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JournalUse {
    pub filespace: Vec<u8>,
    /// True if the backup has looked only at the directories that the journal names.
    pub is_used: bool,
    /// Number of directories that the journal named, and of subtrees that were walked.
    pub directories: u64,
    pub subtrees: u64,
    /// Reason why the backup has walked everything.
    pub reason: Option<String>,
    /// True if the walk was compared with the journal.
    pub is_compared: bool,
    /// Number of changes that the journal has missed.
    pub missed: u64,
    /// Number of objects of which only the change time has changed, without a report of the kernel.
    pub silent: u64,
    /// Reason why the next backup walks, if that is known.
    pub next_walk: Option<String>,
}

impl JournalUse {
    pub(crate) fn without(filespace: &[u8], reason: String) -> Self {
        Self { filespace: filespace.to_vec(), reason: Some(reason), ..Self::default() }
    }
}

/// Objects that a backup would send, and the sum of their sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    pub objects: u64,
    pub bytes: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Work of a backup, as a dry run estimates it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Estimate {
    /// Objects of which the server has no version.
    pub new: Amount,
    /// Objects of which the server has an older version.
    pub changed: Amount,
}

impl Estimate {
    /// Returns the bytes of data before deduplication and compression. A backup does not send more.
    pub fn bytes_to_send_max(&self) -> u64 {
        self.new.bytes.saturating_add(self.changed.bytes)
    }
}

/// Report of a backup.
#[derive(Clone, Debug, Default)]
pub struct BackupReport {
    pub node: String,
    /// Names of the filespaces that were backed up.
    pub filespaces: Vec<Vec<u8>>,
    /// Number of examined objects, including directories.
    pub inspected: u64,
    /// Number of new versions.
    pub backed_up: u64,
    /// Number of objects with new attributes only.
    pub updated: u64,
    pub rebound: u64,
    /// Number of local objects that were deleted after an archive; 0 for a backup.
    pub deleted: u64,
    /// Number of active versions that became inactive because their objects are gone or excluded.
    pub expired: u64,
    pub failed: u64,
    pub encrypted: u64,
    /// Number of objects that went through deduplication.
    pub deduplicated: u64,
    /// Number of objects that compression made larger.
    pub grew: u64,
    /// Number of reads that were repeated because the object changed, and of objects that were sent
    /// twice.
    pub retries: u64,
    /// Number of sockets, which are never backed up.
    pub sockets_skipped: u64,
    /// Sum of the sizes of inspected objects.
    pub bytes_inspected: u64,
    /// Bytes to send after deduplication, before compression.
    pub bytes_processed: u64,
    pub bytes_before_dedup: u64,
    pub bytes_after_dedup: u64,
    /// Bytes that have arrived at the server, including retries.
    pub bytes_transferred: u64,
    /// Bytes among them that are no data: names, attributes and references to stored data.
    pub bytes_metadata: u64,
    /// Time in which data was on its way to the server.
    pub data_transfer: Duration,
    pub stages: Stages,
    /// Compressors that have worked.
    pub compressors: Vec<CompressorWork>,
    /// Time since the beginning, interruptions included.
    pub elapsed: Duration,
    pub interruptions: Interruptions,
    /// Failures, at most 1000.
    pub failures: Vec<Failure>,
    /// Facts that the user must know and that do not concern a single object, such as withheld
    /// expirations.
    pub warnings: Vec<String>,
    /// Targets that a statement leaves out, if the options ask for the list.
    pub excluded: Vec<Exclusion>,
    /// Use of the journal, for each filespace for which a journal was wanted.
    pub journals: Vec<JournalUse>,
    pub dry_run: bool,
    /// Number of the archive that was made.
    pub archive: Option<u64>,
    /// Number of objects in the archive, with the directories above the targets.
    pub archive_objects: Option<u64>,
    /// Estimate of a dry run.
    pub estimate: Estimate,
    /// Verbs and paths of a dry run, at most 1000.
    pub planned: Vec<(&'static str, Vec<u8>)>,
}

/// Returns a rate in kilobytes of 1024 bytes per second; 0 if no time has passed.
fn rate(bytes: u64, time: Duration) -> f64 {
    let secs = time.as_secs_f64();
    if secs > 0.0 { to_f64(bytes) / 1024.0 / secs } else { 0.0 }
}

/// Returns 100 * (1 - part / whole); 0 if `whole` is 0.
fn reduction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * (1.0 - to_f64(part) / to_f64(whole)) }
}

#[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

impl BackupReport {
    /// Returns transferred bytes over the time in which they were on their way, in KiB/s.
    pub fn network_rate_kb_per_sec(&self) -> f64 {
        rate(self.bytes_transferred, self.data_transfer)
    }

    /// Returns transferred bytes over elapsed time, in KiB/s.
    pub fn aggregate_rate_kb_per_sec(&self) -> f64 {
        rate(self.bytes_transferred, self.elapsed)
    }

    /// Returns 1 - transferred / processed, in per cent.
    pub fn compressed_percent(&self) -> f64 {
        reduction(self.bytes_transferred.min(self.bytes_processed), self.bytes_processed)
    }

    /// Returns 1 - after / before deduplication, in per cent.
    pub fn dedup_reduction_percent(&self) -> f64 {
        reduction(self.bytes_after_dedup, self.bytes_before_dedup)
    }

    /// Returns 1 - transferred / (inspected + metadata), in per cent; at least 0.
    ///
    /// Metadata is on both sides, because a backup without any reduction sends it too. Otherwise a
    /// backup of small changes, or of empty files, would seem to send many times what there is.
    pub fn total_reduction_percent(&self) -> f64 {
        let whole = self.bytes_inspected.saturating_add(self.bytes_metadata);
        reduction(self.bytes_transferred.min(whole), whole)
    }

    /// Returns 0 if all is done, 4 if some objects failed, 8 if there are warnings.
    pub fn exit_code(&self) -> u8 {
        match (self.warnings.is_empty(), self.failed) {
            (false, _) => 8,
            (true, 1..) => 4,
            (true, 0) => 0,
        }
    }

    /// Returns the counters that the server keeps, as JSON.
    pub(crate) fn summary_json(&self) -> String {
        self.summary_since(&Self::default(), None)
    }

    /// Returns the counters that the server keeps, as JSON, without those of `before`: an earlier
    /// state of the same report. `source` is the file system that was backed up, if it is one.
    pub(crate) fn summary_since(&self, before: &Self, source: Option<&Source>) -> String {
        #[derive(Serialize)]
        struct Summary<'a> {
            inspected: u64,
            backed_up: u64,
            updated: u64,
            expired: u64,
            failed: u64,
            bytes_inspected: u64,
            bytes_before_dedup: u64,
            bytes_after_dedup: u64,
            bytes_transferred: u64,
            stages: Stages,
            #[serde(skip_serializing_if = "Option::is_none")]
            source: Option<&'a Source>,
        }
        let summary = Summary {
            inspected: self.inspected.saturating_sub(before.inspected),
            backed_up: self.backed_up.saturating_sub(before.backed_up),
            updated: self.updated.saturating_sub(before.updated),
            expired: self.expired.saturating_sub(before.expired),
            failed: self.failed.saturating_sub(before.failed),
            bytes_inspected: self.bytes_inspected.saturating_sub(before.bytes_inspected),
            bytes_before_dedup: self.bytes_before_dedup.saturating_sub(before.bytes_before_dedup),
            bytes_after_dedup: self.bytes_after_dedup.saturating_sub(before.bytes_after_dedup),
            bytes_transferred: self.bytes_transferred.saturating_sub(before.bytes_transferred),
            stages: self.stages.since(&before.stages),
            source,
        };
        serde_json::to_string(&summary).expect("numbers are JSON")
    }

    /// Counts and lists a failure. An object that fails in two ways fails once.
    pub(crate) fn fail(&mut self, failure: Failure) {
        if self.failures.iter().any(|known| known.path == failure.path) {
            return;
        }
        self.failed += 1;
        if self.failures.len() < FAILURES_LISTED {
            self.failures.push(failure);
        }
    }
}

/// Report of a restore.
#[derive(Clone, Debug, Default)]
pub struct RestoreReport {
    pub node: String,
    pub restored: u64,
    /// Number of objects that existed in the target and were right, or were not to be replaced.
    pub skipped: u64,
    /// Number of skipped objects that differ from the stored version, and were kept because of the
    /// replace option.
    pub kept: u64,
    pub failed: u64,
    /// Sum of the sizes of restored files.
    pub bytes_restored: u64,
    /// Bytes among them that are holes, which are not written.
    pub hole_bytes: u64,
    pub bytes_transferred: u64,
    /// Time in which the restore waited for the server's messages. While the restore writes faster
    /// than data arrives, this is the time that the data takes on its way.
    pub data_transfer: Duration,
    pub elapsed: Duration,
    pub interruptions: Interruptions,
    pub failures: Vec<Failure>,
    pub warnings: Vec<String>,
}

impl RestoreReport {
    /// Returns 0 if all is done, 4 if objects failed or were kept, 8 if there are warnings.
    pub fn exit_code(&self) -> u8 {
        match (self.failed + self.kept, self.warnings.is_empty()) {
            (1.., _) => 4,
            (0, false) => 8,
            (0, true) => 0,
        }
    }
}

/// Plan of a restore. The sizes are those of files.
#[derive(Clone, Debug, Default)]
pub struct RestorePlan {
    pub node: String,
    /// Objects that do not exist in the target.
    pub new: Amount,
    /// Objects that would replace others, because of the replace option.
    pub replaced: Amount,
    /// Objects that differ from the target, which would be kept.
    pub kept: Amount,
    /// Objects that the target has in the stored state. Of a directory, only its existence counts.
    pub right: Amount,
    pub failed: u64,
    /// Objects that the restore could not make or compare, at most 1000.
    pub failures: Vec<Failure>,
    /// Verbs and paths, at most 1000.
    pub planned: Vec<(&'static str, Vec<u8>)>,
    pub warnings: Vec<String>,
}

impl RestorePlan {
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failed += 1;
        if self.failures.len() < FAILURES_LISTED {
            self.failures.push(failure);
        }
    }

    /// Returns 0 if the restore would restore or find everything, 4 if it would not, 8 if there are
    /// warnings.
    pub fn exit_code(&self) -> u8 {
        match (self.failed + self.kept.objects, self.warnings.is_empty()) {
            (1.., _) => 4,
            (0, false) => 8,
            (0, true) => 0,
        }
    }
}

/// Report of a verification.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    pub node: String,
    /// Number of examined versions, active and inactive.
    pub versions: u64,
    /// Number of versions that cannot be restored as they were.
    pub damaged: u64,
    /// Number of the paths that the command names and the server has no version of.
    pub missing: u64,
    pub bytes_verified: u64,
    pub bytes_transferred: u64,
    pub elapsed: Duration,
    pub interruptions: Interruptions,
    /// Damaged versions and missing paths.
    pub failures: Vec<Failure>,
    /// Result of the restore drill, if a sample was verified.
    pub drill: Option<DrillReport>,
}

/// Result of a restore drill.
#[derive(Clone, Debug)]
pub struct DrillReport {
    pub seed: u64,
    pub result: Drill,
}

impl VerifyReport {
    /// Returns the number of failures.
    pub fn failed(&self) -> u64 {
        self.damaged + self.missing
    }

    /// Returns 0 if all is well, 4 if something failed or the drill has failed.
    pub fn exit_code(&self) -> u8 {
        let is_proven = self.drill.as_ref().is_none_or(|drill| drill.result.is_good);
        if self.failed() == 0 && is_proven { 0 } else { 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures are from the first backup of a real node.
    #[test]
    fn the_reference_report_comes_out() {
        let gib = |value: f64| -> u64 {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "positive and small"
            )]
            let bytes = (value * 1024.0 * 1024.0 * 1024.0) as u64;
            bytes
        };
        let report = BackupReport {
            bytes_inspected: gib(438.16),
            bytes_processed: gib(270.86),
            bytes_before_dedup: gib(419.78),
            bytes_after_dedup: gib(262.49),
            bytes_transferred: gib(171.405),
            data_transfer: Duration::from_secs_f64(6982.41),
            elapsed: Duration::from_secs(89_778),
            ..BackupReport::default()
        };
        let rounded = |value: f64| format!("{value:.2}");
        assert_eq!(rounded(report.dedup_reduction_percent()), "37.47");
        assert_eq!(format!("{:.0}", report.compressed_percent()), "37");
        assert_eq!(rounded(report.total_reduction_percent()), "60.88");
        assert!((report.network_rate_kb_per_sec() - 25_740.56).abs() < 1.0);
        assert!((report.aggregate_rate_kb_per_sec() - 2001.94).abs() < 0.1);
    }

    /// A backup of little data reported a reduction of -4083 %.
    #[test]
    fn metadata_is_no_negative_reduction() {
        let check = |inspected, metadata, transferred, expected: &str| {
            let report = BackupReport {
                bytes_inspected: inspected,
                bytes_metadata: metadata,
                bytes_transferred: transferred,
                ..BackupReport::default()
            };
            assert_eq!(format!("{:.2}", report.total_reduction_percent()), expected);
        };
        check(100, 4_183, 4_183, "2.33");
        check(0, 500, 500, "0.00");
        check(1_000, 0, 250, "75.00");
        check(1_000, 100, 375, "65.91");
        // Data that was sent twice is no reduction.
        check(1_000, 100, 2_100, "0.00");
    }

    #[test]
    fn the_server_keeps_counters_and_stages() {
        let report = BackupReport { inspected: 1, failed: 2, ..BackupReport::default() };
        assert_eq!(
            report.summary_json(),
            "{\"inspected\":1,\"backed_up\":0,\"updated\":0,\"expired\":0,\"failed\":2,\
             \"bytes_inspected\":0,\"bytes_before_dedup\":0,\"bytes_after_dedup\":0,\
             \"bytes_transferred\":0,\"stages\":{\
             \"authenticate\":{\"busy_secs\":0.0,\"waited_for_secs\":0.0},\
             \"read\":{\"busy_secs\":0.0,\"waited_for_secs\":0.0},\
             \"compress\":{\"busy_secs\":0.0,\"waited_for_secs\":0.0},\
             \"send\":{\"busy_secs\":0.0,\"waited_for_secs\":0.0},\
             \"commit\":{\"busy_secs\":0.0,\"waited_for_secs\":0.0}}}"
        );
    }

    #[test]
    fn the_summary_of_a_filespace_leaves_out_those_before() {
        let before = BackupReport { inspected: 5, expired: 1, ..BackupReport::default() };
        let mut after = BackupReport { inspected: 7, expired: 1, ..before.clone() };
        after.stages.read.busy = Duration::from_secs(2);
        let source = Source::of(b"/");
        let summary: serde_json::Value =
            serde_json::from_str(&after.summary_since(&before, Some(&source))).expect("is JSON");
        assert_eq!((&summary["inspected"], &summary["expired"]), (&2.into(), &0.into()));
        assert_eq!(summary["stages"]["read"]["busy_secs"], 2.0);
        assert_eq!(summary["source"]["client_version"], env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn an_empty_run_divides_by_nothing() {
        let report = BackupReport::default();
        assert_eq!(report.total_reduction_percent().to_bits(), 0.0_f64.to_bits());
        assert_eq!(report.network_rate_kb_per_sec().to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn exit_codes_tell_how_it_went() {
        let mut report = BackupReport::default();
        assert_eq!(report.exit_code(), 0);
        report.fail(Failure { path: b"/x".to_vec(), error: "gone".to_owned() });
        assert_eq!(report.exit_code(), 4);
        report.warnings.push("withheld".to_owned());
        assert_eq!(report.exit_code(), 8);
    }

    #[test]
    fn the_exit_code_says_the_worst() {
        let check = |failed, warnings: &[&str], expected| {
            let warnings: Vec<String> = warnings.iter().map(|&text| text.to_owned()).collect();
            let backup = BackupReport { failed, warnings: warnings.clone(), ..Default::default() };
            let restore = RestoreReport { failed, warnings, ..Default::default() };
            assert_eq!([backup.exit_code(), restore.exit_code()], expected);
        };
        check(0, &[], [0, 0]);
        check(1, &[], [4, 4]);
        check(0, &["look"], [8, 8]);
        // In a backup, a warning such as withheld expirations is worse than a failed object.
        check(1, &["look"], [8, 4]);
        let kept = RestoreReport { kept: 1, skipped: 1, ..Default::default() };
        assert_eq!(kept.exit_code(), 4);
        let warnings = vec!["look".to_owned()];
        assert_eq!(RestorePlan { warnings, ..RestorePlan::default() }.exit_code(), 8);
        assert_eq!(RestorePlan::default().exit_code(), 0);
        let damaged = VerifyReport { damaged: 1, ..Default::default() };
        assert_eq!((damaged.exit_code(), VerifyReport::default().exit_code()), (4, 0));
    }
}

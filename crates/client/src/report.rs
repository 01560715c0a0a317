//! What a command came to. Counts and bytes are exact; the lines of the classic session report are
//! computed from them.

use std::time::Duration;

/// Failures that a report lists at most; all are counted.
pub(crate) const FAILURES_LISTED: usize = 1000;

/// An object that could not be handled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// As on the node, from `/`.
    pub path: Vec<u8>,
    pub error: String,
}

/// A backup's session report.
#[derive(Clone, Debug, Default)]
pub struct BackupReport {
    pub node: String,
    /// Names of the filespaces looked at.
    pub filespaces: Vec<Vec<u8>>,
    /// Objects looked at, directories included.
    pub inspected: u64,
    /// New versions.
    pub backed_up: u64,
    /// Attributes alone.
    pub updated: u64,
    pub rebound: u64,
    /// Local objects deleted after an archive: none in a backup.
    pub deleted: u64,
    /// Active versions made inactive because their objects are gone or excluded.
    pub expired: u64,
    pub failed: u64,
    pub encrypted: u64,
    /// Objects that went through deduplication.
    pub deduplicated: u64,
    /// Objects that compression made larger.
    pub grew: u64,
    /// Readings that were repeated because the object changed, and objects sent twice.
    pub retries: u64,
    /// Sockets, which are never backed up.
    pub sockets_skipped: u64,
    /// Sum of the sizes of inspected objects.
    pub bytes_inspected: u64,
    /// Bytes left to send before compression.
    pub bytes_processed: u64,
    pub bytes_before_dedup: u64,
    pub bytes_after_dedup: u64,
    /// Bytes on the wire, retries included.
    pub bytes_transferred: u64,
    /// Time inside network sends, summed over all sessions.
    pub data_transfer: Duration,
    pub elapsed: Duration,
    /// At most 1000.
    pub failures: Vec<Failure>,
    /// Anything the user must know that is no failure of one object, such as withheld expirations.
    pub warnings: Vec<String>,
    pub dry_run: bool,
    /// The archive that was made, if one was.
    pub archive: Option<u64>,
    /// What a dry run would do to objects, at most 1000: verb, path.
    pub planned: Vec<(&'static str, Vec<u8>)>,
}

/// Kilobytes of 1024 bytes a second; 0 when no time has passed.
fn rate(bytes: u64, time: Duration) -> f64 {
    let secs = time.as_secs_f64();
    if secs > 0.0 { to_f64(bytes) / 1024.0 / secs } else { 0.0 }
}

/// 100 * (1 - part / whole); 0 when there is no whole.
fn reduction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * (1.0 - to_f64(part) / to_f64(whole)) }
}

#[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

impl BackupReport {
    /// Transferred bytes over the time inside network sends, in KiB/s.
    pub fn network_rate_kb_per_sec(&self) -> f64 {
        rate(self.bytes_transferred, self.data_transfer)
    }

    /// Transferred bytes over elapsed time, in KiB/s.
    pub fn aggregate_rate_kb_per_sec(&self) -> f64 {
        rate(self.bytes_transferred, self.elapsed)
    }

    /// 1 - transferred / processed.
    pub fn compressed_percent(&self) -> f64 {
        reduction(self.bytes_transferred.min(self.bytes_processed), self.bytes_processed)
    }

    /// 1 - after / before deduplication.
    pub fn dedup_reduction_percent(&self) -> f64 {
        reduction(self.bytes_after_dedup, self.bytes_before_dedup)
    }

    /// 1 - transferred / inspected.
    pub fn total_reduction_percent(&self) -> f64 {
        reduction(self.bytes_transferred, self.bytes_inspected)
    }

    /// 0 all done, 4 some objects failed, 8 done with warnings.
    pub fn exit_code(&self) -> u8 {
        match (self.warnings.is_empty(), self.failed) {
            (false, _) => 8,
            (true, 1..) => 4,
            (true, 0) => 0,
        }
    }

    /// Counts and lists a failure; an object that failed in two ways failed once.
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

/// A restore's report.
#[derive(Clone, Debug, Default)]
pub struct RestoreReport {
    pub node: String,
    pub restored: u64,
    /// There already and right, or there and not to be replaced.
    pub skipped: u64,
    /// Of those skipped: different from what was stored, and kept because of the replace option.
    pub kept: u64,
    pub failed: u64,
    pub bytes_restored: u64,
    pub bytes_transferred: u64,
    pub elapsed: Duration,
    pub failures: Vec<Failure>,
    pub warnings: Vec<String>,
}

impl RestoreReport {
    /// 0 all done, 4 some objects failed or were kept, 8 done with warnings.
    pub fn exit_code(&self) -> u8 {
        match (self.failed + self.kept, self.warnings.is_empty()) {
            (1.., _) => 4,
            (0, false) => 8,
            (0, true) => 0,
        }
    }
}

/// A verification's report.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    pub node: String,
    /// Versions looked at, active and inactive.
    pub versions: u64,
    pub damaged: u64,
    pub bytes_verified: u64,
    pub bytes_transferred: u64,
    pub elapsed: Duration,
    /// The versions that cannot be restored as they were.
    pub failures: Vec<Failure>,
}

impl VerifyReport {
    /// 0 all well, 4 something is damaged.
    pub fn exit_code(&self) -> u8 {
        if self.damaged == 0 { 0 } else { 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference node's first run; see the definition of each line.
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
}

//! Sums over the backups that have ended at this server since it began.

use std::collections::BTreeMap;

use serde::Deserialize;
use sys::lock::Mutex;

/// Names of the stages of a backup, in the order in which data passes them.
pub const STAGES: [&str; 5] = ["authenticate", "read", "compress", "send", "commit"];
/// Maximum time of a stage that a report may claim, in seconds: 30 days of 256 threads.
const STAGE_SECS_MAX: f64 = 256.0 * 30.0 * 86_400.0;

/// Sums over backups.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BackupSums {
    /// Number of backups that examined everything, and of those that did not.
    pub complete: u64,
    pub partial: u64,
    pub objects: ObjectSums,
    pub bytes: ByteSums,
    /// Times of the stages in [`STAGES`], in seconds.
    pub stages: [StageSums; STAGES.len()],
}

/// Numbers of objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ObjectSums {
    pub inspected: u64,
    pub backed_up: u64,
    pub updated: u64,
    pub expired: u64,
    pub failed: u64,
}

/// Numbers of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByteSums {
    pub inspected: u64,
    pub before_dedup: u64,
    pub after_dedup: u64,
    pub transferred: u64,
}

/// Times of a stage.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StageSums {
    /// Work, summed over threads.
    pub busy_secs: f64,
    /// Time for which the backups waited because of the stage.
    pub waited_for_secs: f64,
}

/// The report of a backup, as its node sends it. Older programs leave fields out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Report {
    inspected: u64,
    backed_up: u64,
    updated: u64,
    expired: u64,
    failed: u64,
    bytes_inspected: u64,
    bytes_before_dedup: u64,
    bytes_after_dedup: u64,
    bytes_transferred: u64,
    stages: BTreeMap<String, StageSums>,
}

/// The sums, which any thread may read and add to.
#[derive(Debug, Default)]
pub struct Tallies(Mutex<BackupSums>);

impl Tallies {
    /// Adds a backup with the report of its node. A report that cannot be read counts as empty.
    pub(crate) fn add(&self, is_complete: bool, report: &str) {
        let report: Report = serde_json::from_str(report).unwrap_or_default();
        self.0.lock().add(is_complete, &report);
    }

    pub fn sums(&self) -> BackupSums {
        self.0.lock().clone()
    }
}

impl BackupSums {
    /// A node may claim any number, so sums stay at their maximum.
    fn add(&mut self, is_complete: bool, report: &Report) {
        let count = if is_complete { &mut self.complete } else { &mut self.partial };
        *count += 1;
        let sums = [
            (&mut self.objects.inspected, report.inspected),
            (&mut self.objects.backed_up, report.backed_up),
            (&mut self.objects.updated, report.updated),
            (&mut self.objects.expired, report.expired),
            (&mut self.objects.failed, report.failed),
            (&mut self.bytes.inspected, report.bytes_inspected),
            (&mut self.bytes.before_dedup, report.bytes_before_dedup),
            (&mut self.bytes.after_dedup, report.bytes_after_dedup),
            (&mut self.bytes.transferred, report.bytes_transferred),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        for (sum, name) in self.stages.iter_mut().zip(STAGES) {
            let more = report.stages.get(name).copied().unwrap_or_default();
            sum.busy_secs += plausible(more.busy_secs);
            sum.waited_for_secs += plausible(more.waited_for_secs);
        }
    }
}

/// Returns the seconds if a stage can have taken them, and 0 otherwise.
fn plausible(secs: f64) -> f64 {
    if (0.0..=STAGE_SECS_MAX).contains(&secs) { secs } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_added_up() {
        let tallies = Tallies::default();
        let report = r#"{"inspected":9,"backed_up":3,"bytes_before_dedup":100,
            "bytes_after_dedup":40,"stages":{"read":{"busy_secs":1.5,"waited_for_secs":0.5}}}"#;
        tallies.add(true, report);
        tallies.add(true, report);
        tallies.add(false, "");
        let sums = tallies.sums();
        assert_eq!((sums.complete, sums.partial), (2, 1));
        assert_eq!((sums.objects.inspected, sums.objects.backed_up), (18, 6));
        assert_eq!((sums.bytes.before_dedup, sums.bytes.after_dedup), (200, 80));
        let read = StageSums { busy_secs: 3.0, waited_for_secs: 1.0 };
        assert_eq!(sums.stages[1], read);
    }

    #[test]
    fn a_node_that_lies_breaks_nothing() {
        let tallies = Tallies::default();
        for report in [
            "{\"inspected\":18446744073709551615}",
            "{\"inspected\":18446744073709551615}",
            "{\"inspected\":-1}",
            "{\"stages\":{\"read\":{\"busy_secs\":-5}}}",
            "{\"stages\":{\"read\":{\"busy_secs\":1e300}}}",
            "[]",
        ] {
            tallies.add(true, report);
        }
        let sums = tallies.sums();
        assert_eq!((sums.complete, sums.objects.inspected), (6, u64::MAX));
        assert_eq!(sums.stages[1], StageSums::default());
    }
}

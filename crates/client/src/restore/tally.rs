//! Counters of a restore, which all threads increment.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sys::lock::Mutex;

use crate::progress::Progress;
use crate::report::{FAILURES_LISTED, Failure, RestoreReport};

/// Maximum number of bytes of the path of a failure. Nothing with a longer path can be restored.
const PATH_BYTES_MAX: usize = 128 << 10;

/// Report of a restore in progress.
pub(super) struct Tally {
    pub(super) progress: Arc<Progress>,
    report: Mutex<RestoreReport>,
}

impl Tally {
    pub(super) fn new(progress: Arc<Progress>) -> Self {
        Self { progress, report: Mutex::default() }
    }

    fn note(&self, change: impl FnOnce(&mut RestoreReport)) {
        change(&mut self.report.lock());
    }

    /// Counts a restored object.
    pub(super) fn restored(&self, bytes: u64) {
        self.progress.objects.fetch_add(1, Relaxed);
        self.progress.done.fetch_add(1, Relaxed);
        self.progress.bytes.fetch_add(bytes, Relaxed);
        self.note(|report| {
            report.restored += 1;
            report.bytes_restored = report.bytes_restored.saturating_add(bytes);
        });
    }

    /// Counts the holes of a restored file.
    pub(super) fn note_holes(&self, bytes: u64) {
        // Few files have holes, and all threads count.
        if bytes > 0 {
            self.note(|report| report.hole_bytes = report.hole_bytes.saturating_add(bytes));
        }
    }

    /// Counts an object that stays as it is. `is_kept` is true if it differs from the stored
    /// version.
    pub(super) fn skipped(&self, is_kept: bool) {
        self.progress.objects.fetch_add(1, Relaxed);
        self.note(|report| {
            report.skipped += 1;
            report.kept += u64::from(is_kept);
            assert!(report.kept <= report.skipped, "an object that is kept is skipped");
        });
    }

    /// Returns the numbers of objects that were skipped and kept so far.
    pub(super) fn skips(&self) -> (u64, u64) {
        let report = self.report.lock();
        (report.skipped, report.kept)
    }

    /// Sets the numbers of objects that were skipped and kept back, because the same objects have
    /// been counted before.
    pub(super) fn set_skips_back(&self, (skipped, kept): (u64, u64)) {
        self.note(|report| {
            assert!(skipped <= report.skipped && kept <= report.kept, "counts only grow");
            (report.skipped, report.kept) = (skipped, kept);
        });
    }

    /// Adds time in which the restore waited for a message of the server.
    pub(super) fn note_transfer(&self, time: Duration) {
        self.note(|report| report.data_transfer += time);
    }

    pub(super) fn fail(&self, mut path: Vec<u8>, error: impl Into<String>) {
        path.truncate(PATH_BYTES_MAX);
        self.progress.objects.fetch_add(1, Relaxed);
        self.progress.failed.fetch_add(1, Relaxed);
        let failure = Failure { path, error: error.into() };
        self.note(|report| {
            // An object that fails in two ways fails once.
            if report.failures.iter().any(|known| known.path == failure.path) {
                return;
            }
            report.failed += 1;
            if report.failures.len() < FAILURES_LISTED {
                report.failures.push(failure);
            }
        });
    }

    pub(super) fn warn(&self, warnings: Vec<String>) {
        self.note(|report| report.warnings.extend(warnings));
    }

    pub(super) fn into_report(self) -> RestoreReport {
        self.report.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_what_was_counted() {
        let tally = Tally::new(Arc::new(Progress::default()));
        tally.restored(10);
        tally.restored(5);
        tally.skipped(false);
        tally.skipped(true);
        tally.fail(b"/x".to_vec(), "no room");
        tally.fail(b"/x".to_vec(), "no attributes");
        tally.note_transfer(Duration::from_secs(2));
        tally.note_transfer(Duration::from_secs(1));
        assert_eq!(tally.progress.objects.load(Relaxed), 6);
        let report = tally.into_report();
        assert_eq!((report.restored, report.bytes_restored), (2, 15));
        assert_eq!((report.skipped, report.kept), (2, 1));
        assert_eq!(report.data_transfer, Duration::from_secs(3));
        assert_eq!((report.failed, report.failures[0].error.as_str()), (1, "no room"));
    }
}

//! Counting, from all threads.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::progress::Progress;
use crate::report::{BackupReport, FAILURES_LISTED, Failure};

/// The report while it is being made.
pub(super) struct Tally {
    pub(super) progress: Arc<Progress>,
    pub(super) inspected: AtomicU64,
    pub(super) backed_up: AtomicU64,
    pub(super) updated: AtomicU64,
    pub(super) rebound: AtomicU64,
    pub(super) expired: AtomicU64,
    pub(super) deduplicated: AtomicU64,
    pub(super) encrypted: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) sockets_skipped: AtomicU64,
    pub(super) bytes_inspected: AtomicU64,
    pub(super) bytes_before_dedup: AtomicU64,
    pub(super) bytes_after_dedup: AtomicU64,
    pub(super) bytes_transferred: AtomicU64,
    pub(super) transfer_micros: AtomicU64,
    /// Objects of the last backup that are still there: what the expiry guard weighs against.
    pub(super) kept: AtomicU64,
    rest: Mutex<BackupReport>,
}

impl Tally {
    pub(super) fn new(progress: Arc<Progress>) -> Self {
        Self {
            progress,
            inspected: AtomicU64::new(0),
            backed_up: AtomicU64::new(0),
            updated: AtomicU64::new(0),
            rebound: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            deduplicated: AtomicU64::new(0),
            encrypted: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            sockets_skipped: AtomicU64::new(0),
            bytes_inspected: AtomicU64::new(0),
            bytes_before_dedup: AtomicU64::new(0),
            bytes_after_dedup: AtomicU64::new(0),
            bytes_transferred: AtomicU64::new(0),
            transfer_micros: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            rest: Mutex::default(),
        }
    }

    fn rest(&self) -> std::sync::MutexGuard<'_, BackupReport> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts `objects` of `bytes` together as looked at.
    pub(super) fn inspect(&self, objects: u64, bytes: u64) {
        self.inspected.fetch_add(objects, Relaxed);
        self.bytes_inspected.fetch_add(bytes, Relaxed);
        self.progress.objects.fetch_add(objects, Relaxed);
    }

    pub(super) fn fail(&self, failure: Failure) {
        self.progress.failed.fetch_add(1, Relaxed);
        self.rest().fail(failure);
    }

    pub(super) fn first_failure(&self) -> Option<Failure> {
        self.rest().failures.first().cloned()
    }

    pub(super) fn warn(&self, warning: String) {
        self.rest().warnings.push(warning);
    }

    /// Notes what a dry run would do.
    pub(super) fn plan(&self, verb: &'static str, path: Vec<u8>) {
        let mut rest = self.rest();
        if rest.planned.len() < FAILURES_LISTED {
            rest.planned.push((verb, path));
        }
    }

    /// The report as it stands, to send along.
    pub(super) fn report(&self) -> BackupReport {
        let rest = self.rest().clone();
        self.filled(rest)
    }

    pub(super) fn into_report(self) -> BackupReport {
        let rest = std::mem::take(&mut *self.rest());
        self.filled(rest)
    }

    fn filled(&self, rest: BackupReport) -> BackupReport {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        BackupReport {
            inspected: get(&self.inspected),
            backed_up: get(&self.backed_up),
            updated: get(&self.updated),
            rebound: get(&self.rebound),
            expired: get(&self.expired),
            deduplicated: get(&self.deduplicated),
            encrypted: get(&self.encrypted),
            retries: get(&self.retries),
            sockets_skipped: get(&self.sockets_skipped),
            bytes_inspected: get(&self.bytes_inspected),
            // Every object with data qualifies for deduplication.
            bytes_processed: get(&self.bytes_after_dedup),
            bytes_before_dedup: get(&self.bytes_before_dedup),
            bytes_after_dedup: get(&self.bytes_after_dedup),
            bytes_transferred: get(&self.bytes_transferred),
            data_transfer: Duration::from_micros(get(&self.transfer_micros)),
            ..rest
        }
    }
}

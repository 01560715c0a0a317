//! Counters of a backup, which all threads increment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::figures::Figures;
use super::transit::{Arrival, Payload};
use crate::progress::Progress;
use crate::report::{BackupReport, Exclusion, FAILURES_LISTED, Failure, JournalUse};
use crate::stages::{PressWork, StageTime, Stages};
use sys::lock::{Mutex, MutexGuard};

/// Report of a backup in progress.
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
    /// Bytes of messages that have arrived at the server.
    bytes_transferred: AtomicU64,
    /// Bytes of the records of quanta in these messages.
    record_bytes: AtomicU64,
    /// Time inside network sends.
    sending_micros: AtomicU64,
    /// Number of objects of the last backup that still exist. The expiry guard compares it with the
    /// number of objects that are gone.
    pub(super) kept: AtomicU64,
    /// Figures of what the server has committed.
    committed: Mutex<Figures>,
    /// Lists of the report, and counters that have no field here.
    rest: Mutex<BackupReport>,
}

/// Counts of inspected objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Inspection {
    objects: u64,
    bytes: u64,
    kept: u64,
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
            record_bytes: AtomicU64::new(0),
            sending_micros: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            committed: Mutex::default(),
            rest: Mutex::default(),
        }
    }

    fn rest(&self) -> MutexGuard<'_, BackupReport> {
        self.rest.lock()
    }

    /// Counts inspected objects, and the sum of their sizes.
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

    /// Adds a target that a statement leaves out: to the list of these, or as a warning.
    pub(super) fn exclude(&self, exclusion: Exclusion, is_listed: bool) {
        if is_listed {
            self.rest().excluded.push(exclusion);
        } else {
            self.warn(exclusion.to_string());
        }
    }

    /// Adds the use of the journal in one filespace.
    pub(super) fn note_journal(&self, usage: JournalUse) {
        self.rest().journals.push(usage);
    }

    /// Notes the reason why the next backup of a filespace walks.
    pub(super) fn note_next_walk(&self, filespace: &[u8], reason: String) {
        let mut rest = self.rest();
        if let Some(usage) = rest.journals.iter_mut().find(|usage| usage.filespace == filespace) {
            usage.next_walk = Some(reason);
        }
    }

    /// Returns the counts of inspected objects so far.
    pub(super) fn inspection(&self) -> Inspection {
        Inspection {
            objects: self.inspected.load(Relaxed),
            bytes: self.bytes_inspected.load(Relaxed),
            kept: self.kept.load(Relaxed),
        }
    }

    /// Sets the counts of inspected objects back, because the filespace is walked once more.
    pub(super) fn restart_inspection(&self, before: &Inspection) {
        let inspected = self.inspected.swap(before.objects, Relaxed);
        self.progress.objects.fetch_sub(inspected - before.objects, Relaxed);
        self.bytes_inspected.store(before.bytes, Relaxed);
        self.kept.store(before.kept, Relaxed);
    }

    /// Notes, for a dry run, the action `verb` that a backup would take on the object at `path`.
    pub(super) fn plan(&self, verb: &'static str, path: Vec<u8>) {
        let mut rest = self.rest();
        if rest.planned.len() < FAILURES_LISTED {
            rest.planned.push((verb, path));
        }
    }

    /// Adds an object with `bytes` of data to the estimate of a dry run.
    pub(super) fn estimate(&self, is_known: bool, bytes: u64) {
        let estimate = &mut self.rest().estimate;
        let amount = if is_known { &mut estimate.changed } else { &mut estimate.new };
        amount.add(bytes);
    }

    /// Counts the data of files that are sent.
    pub(super) fn count_data(&self, figures: Figures) {
        self.deduplicated.fetch_add(figures.deduplicated, Relaxed);
        self.encrypted.fetch_add(figures.encrypted, Relaxed);
        self.bytes_before_dedup.fetch_add(figures.bytes_before_dedup, Relaxed);
    }

    /// Counts a transaction that the server has committed.
    pub(super) fn note_committed(&self, figures: Figures) {
        self.progress.committed.fetch_add(figures.objects, Relaxed);
        *self.committed.lock() += figures;
    }

    /// Counts messages that have arrived at the server.
    pub(super) fn note_arrival(&self, arrival: &Arrival) {
        let Arrival { bytes, payload: Payload { data_bytes, record_bytes } } = *arrival;
        self.bytes_transferred.fetch_add(bytes, Relaxed);
        self.record_bytes.fetch_add(record_bytes, Relaxed);
        self.progress.bytes_transferred.fetch_add(bytes, Relaxed);
        self.progress.bytes.fetch_add(data_bytes, Relaxed);
    }

    /// Adds time in which the network could take no more data.
    pub(super) fn note_sending(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.sending_micros.fetch_add(micros, Relaxed);
    }

    /// Adds time in which data was on its way to the server.
    pub(super) fn note_transfer(&self, time: Duration) {
        self.rest().data_transfer += time;
    }

    /// Adds to the times of the stages.
    pub(super) fn note_stages(&self, note: impl FnOnce(&mut Stages)) {
        note(&mut self.rest().stages);
    }

    /// Notes how long it took to connect. An attempt has one connection, so this counts once.
    pub(super) fn note_authentication(&self, time: Duration) {
        self.note_stages(|stages| stages.authenticate = StageTime::alone(time));
    }

    /// Adds to the busy time of the stage that reads.
    pub(super) fn note_read(&self, time: Duration) {
        if !time.is_zero() {
            self.note_stages(|stages| stages.read.busy += time);
        }
    }

    /// Counts a quantum that was handed to the outbox as a record of `handed` bytes.
    pub(super) fn note_press_work(&self, work: &PressWork, handed: u64) {
        let mut rest = self.rest();
        rest.stages.compress.busy += work.time;
        work.count(handed, &mut rest.compressors);
    }

    /// Returns the report so far.
    pub(super) fn report(&self) -> BackupReport {
        let rest = self.rest().clone();
        self.filled(rest)
    }

    /// Returns the report of a backup that has lost its connection. Of objects and their data only
    /// what is known to be committed counts: the next attempt sends the others again. A commit
    /// whose answer was lost counts nowhere.
    pub(super) fn report_of_lost(&self) -> BackupReport {
        let committed = *self.committed.lock();
        BackupReport {
            backed_up: committed.backed_up(),
            updated: committed.updated,
            rebound: committed.rebound,
            deduplicated: committed.deduplicated,
            encrypted: committed.encrypted,
            bytes_processed: committed.bytes_after_dedup,
            bytes_before_dedup: committed.bytes_before_dedup,
            bytes_after_dedup: committed.bytes_after_dedup,
            ..self.report()
        }
    }

    pub(super) fn into_report(self) -> BackupReport {
        let rest = std::mem::take(&mut *self.rest());
        self.filled(rest)
    }

    fn filled(&self, rest: BackupReport) -> BackupReport {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        let sending = Duration::from_micros(get(&self.sending_micros));
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
            bytes_metadata: get(&self.bytes_transferred).saturating_sub(get(&self.record_bytes)),
            stages: Stages { send: StageTime::alone(sending), ..rest.stages },
            ..rest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_what_was_counted() {
        let tally = Tally::new(Arc::new(Progress::default()));
        tally.inspect(3, 100);
        tally.backed_up.fetch_add(2, Relaxed);
        tally.bytes_after_dedup.fetch_add(40, Relaxed);
        tally.note_sending(Duration::from_millis(1500));
        tally.note_transfer(Duration::from_secs(2));
        tally.note_transfer(Duration::from_secs(1));
        tally.warn("a warning".to_owned());
        let exclusion = |path: &[u8]| Exclusion {
            path: path.to_vec(),
            statement: "exclude /.../*.o".to_owned(),
            source: "inclexcl line 1".to_owned(),
        };
        tally.exclude(exclusion(b"/a.o"), true);
        tally.exclude(exclusion(b"/b.o"), false);
        let failure = Failure { path: b"/x".to_vec(), error: "gone".to_owned() };
        tally.fail(failure.clone());
        // An object that fails in two ways fails once.
        tally.fail(failure.clone());
        assert_eq!(tally.first_failure(), Some(failure));
        assert_eq!(tally.progress.objects.load(Relaxed), 3);
        let report = tally.into_report();
        assert_eq!((report.inspected, report.bytes_inspected, report.backed_up), (3, 100, 2));
        assert_eq!((report.bytes_processed, report.bytes_after_dedup), (40, 40));
        assert_eq!(report.data_transfer, Duration::from_secs(3));
        assert_eq!(report.stages.send, StageTime::alone(Duration::from_millis(1500)));
        assert_eq!((report.failed, report.failures.len(), report.warnings.len()), (1, 1, 2));
        assert_eq!(report.excluded, [exclusion(b"/a.o")]);
    }

    #[test]
    fn what_is_not_committed_does_not_count_after_a_loss() {
        let tally = Tally::new(Arc::new(Progress::default()));
        tally.backed_up.fetch_add(9, Relaxed);
        tally.updated.fetch_add(3, Relaxed);
        tally.bytes_after_dedup.fetch_add(700, Relaxed);
        let (deduplicated, bytes_before_dedup) = (6, 900);
        let sent = Figures { deduplicated, bytes_before_dedup, ..Figures::default() };
        tally.count_data(sent);
        tally.note_committed(Figures {
            updated: 1,
            deduplicated: 2,
            bytes_before_dedup: 300,
            bytes_after_dedup: 250,
            ..Figures::of_objects(5)
        });
        let payload = Payload { data_bytes: 400, record_bytes: 300 };
        tally.note_arrival(&Arrival { bytes: 310, payload });
        let report = tally.report_of_lost();
        assert_eq!((report.bytes_transferred, report.bytes_metadata), (310, 10));
        assert_eq!((report.backed_up, report.updated, report.deduplicated), (4, 1, 2));
        assert_eq!((report.bytes_processed, report.bytes_after_dedup), (250, 250));
        assert_eq!(report.bytes_before_dedup, 300);
        let whole = tally.report();
        assert_eq!((whole.backed_up, whole.bytes_processed), (9, 700), "it ends, and sends it all");
        let progress = &tally.progress;
        let counts = [&progress.bytes, &progress.bytes_transferred, &progress.committed];
        assert_eq!(counts.map(|count| count.load(Relaxed)), [400, 310, 5]);
    }

    #[test]
    fn the_first_filespace_tells_how_long_it_took_to_connect() {
        let tally = Tally::new(Arc::new(Progress::default()));
        let connected = StageTime::alone(Duration::from_millis(70));
        let mut told = Vec::new();
        for _ in 0..2 {
            let before = tally.report();
            tally.note_authentication(connected.busy);
            told.push(tally.report().stages.since(&before.stages).authenticate);
        }
        assert_eq!(told, [connected, StageTime::default()]);
        assert_eq!(tally.report_of_lost().stages.authenticate, connected);
        assert_eq!(tally.into_report().stages.authenticate, connected);
    }

    #[test]
    fn a_plan_lists_no_more_than_a_report_shows() {
        let tally = Tally::new(Arc::new(Progress::default()));
        (0..FAILURES_LISTED + 5).for_each(|_| tally.plan("back up", b"/x".to_vec()));
        assert_eq!(tally.report().planned.len(), FAILURES_LISTED);
    }
}

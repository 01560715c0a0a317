//! Attempts: the parts of a command between the losses of its connection, and the state that a
//! later attempt takes over from the earlier ones.
//!
//! 1. The first attempt decides the time from which a version counts as made by this command. A
//!    later attempt does not send such a version again, even if it sends all objects.
//! 2. An archive keeps its number, and is completed once.
//! 3. Of an attempt that has lost its connection, objects and their data count if the server has
//!    answered their commit, so that nothing counts twice. What has arrived counts as transferred.
//!    It may arrive again.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use model::{DirPath, ServerTime};
use sys::lock::Mutex;

use crate::report::{BackupReport, FAILURES_LISTED, RestoreReport};

/// State of a command that its attempts share.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Begin of the first attempt, or of the wait for a server before it.
    started: Option<Instant>,
    /// Begin of the first attempt, by the clock of its server.
    began: Option<ServerTime>,
    /// True after the first attempt.
    is_continued: bool,
    backup: BackupReport,
    restore: RestoreReport,
    /// Reports about images by their names. A command makes several images at once.
    images: BTreeMap<Vec<u8>, BackupReport>,
    /// Number of the archive that the command makes.
    archive: Option<u64>,
    /// Report of an archive that has all its objects.
    filled: Option<BackupReport>,
    /// Selections that were verified, or a part of them.
    verified: BTreeMap<Vec<u8>, VerifiedPart>,
}

/// Part of a selection that was verified.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct VerifiedPart {
    /// Directory before which everything was verified.
    pub(crate) up_to: Option<DirPath>,
    /// Number of versions, once all of them were verified.
    pub(crate) versions: Option<u64>,
}

impl Attempts {
    /// Notes that the command has begun, with a wait for its server.
    pub(crate) fn start(&self) {
        self.0.lock().started.get_or_insert_with(sys::clock::monotonic);
    }

    /// Begins an attempt at a server whose clock shows `now`.
    pub(crate) fn begin(&self, now: ServerTime) {
        let mut state = self.0.lock();
        state.is_continued = state.began.is_some();
        state.started.get_or_insert_with(sys::clock::monotonic);
        state.began.get_or_insert(now);
    }

    /// Returns the time of the first attempt by the clock of its server, if this is a later one.
    pub(crate) fn continues_from(&self) -> Option<ServerTime> {
        let state = self.0.lock();
        state.began.filter(|_| state.is_continued)
    }

    /// Returns the time since the command began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.lock().started.map_or(Duration::ZERO, |started| started.elapsed())
    }
}

/// Backups and archives.
impl Attempts {
    /// Keeps the report of an attempt that has lost its connection.
    pub(crate) fn keep_backup(&self, report: BackupReport) {
        let mut state = self.0.lock();
        let earlier = std::mem::take(&mut state.backup);
        state.backup = joined_backups(earlier, report);
    }

    /// Returns the report of all attempts, of which the last one made `report`. `committed` is the
    /// number of objects that all of them have committed.
    pub(crate) fn join_backup(&self, report: BackupReport, committed: u64) -> BackupReport {
        let mut state = self.0.lock();
        if !state.is_continued {
            return report;
        }
        let earlier = std::mem::take(&mut state.backup);
        drop(state);
        let mut whole = joined_backups(earlier, report);
        // An object that was sent but not committed was sent again. It counts once.
        let (updated, rebound) = (whole.updated.min(committed), whole.rebound.min(committed));
        whole.backed_up = committed.saturating_sub(updated).saturating_sub(rebound);
        whole.elapsed = self.elapsed();
        whole
    }

    pub(crate) fn archive(&self) -> Option<u64> {
        self.0.lock().archive
    }

    pub(crate) fn set_archive(&self, number: u64) {
        self.0.lock().archive = Some(number);
    }

    /// Notes that the archive has all its objects.
    pub(crate) fn fill_archive(&self, report: &BackupReport) {
        self.0.lock().filled = Some(report.clone());
    }

    /// Returns the report of the archive, if it has all its objects.
    pub(crate) fn filled_archive(&self) -> Option<BackupReport> {
        self.0.lock().filled.clone()
    }
}

/// Images.
impl Attempts {
    /// Keeps the report of an attempt at the image `name` that has lost its connection. The next
    /// attempt reads all parts again, so only it counts the data before deduplication.
    pub(crate) fn keep_image(&self, name: &[u8], report: BackupReport) {
        let lost = BackupReport { bytes_before_dedup: 0, ..report };
        let mut state = self.0.lock();
        let earlier = state.images.remove(name).unwrap_or_default();
        state.images.insert(name.to_vec(), joined_backups(earlier, lost));
    }

    /// Returns the report of all attempts at the image `name`, of which the last one made `report`.
    pub(crate) fn join_image(&self, name: &[u8], report: BackupReport) -> BackupReport {
        let earlier = self.0.lock().images.remove(name).unwrap_or_default();
        joined_backups(earlier, report)
    }
}

/// Restores and verifications.
impl Attempts {
    /// Keeps the report of an attempt that has lost its connection.
    pub(crate) fn keep_restore(&self, report: RestoreReport) {
        let mut state = self.0.lock();
        let earlier = std::mem::take(&mut state.restore);
        state.restore = joined_restores(earlier, report);
    }

    /// Returns the report of all attempts, of which the last one made `report`.
    pub(crate) fn join_restore(&self, report: RestoreReport) -> RestoreReport {
        let mut state = self.0.lock();
        if !state.is_continued {
            return report;
        }
        let earlier = std::mem::take(&mut state.restore);
        drop(state);
        let elapsed = self.elapsed();
        RestoreReport { elapsed, ..joined_restores(earlier, report) }
    }

    /// Returns the report of all attempts of a verification, which has the failures of all of them.
    pub(crate) fn join_verification(&self, later: RestoreReport) -> RestoreReport {
        let mut state = self.0.lock();
        if !state.is_continued {
            return later;
        }
        let mut whole = std::mem::take(&mut state.restore);
        drop(state);
        whole.bytes_restored += later.bytes_restored;
        whole.elapsed = self.elapsed();
        whole.failed += later.failed;
        for failure in later.failures {
            if whole.failures.iter().any(|known| known.path == failure.path) {
                whole.failed -= 1;
            } else if whole.failures.len() < FAILURES_LISTED {
                whole.failures.push(failure);
            }
        }
        whole
    }

    /// Returns the part of the selection `key` that was verified.
    pub(crate) fn verified(&self, key: &[u8]) -> VerifiedPart {
        self.0.lock().verified.get(key).cloned().unwrap_or_default()
    }

    /// Notes that a part of the selection `key` was verified.
    pub(crate) fn verify(&self, key: &[u8], part: VerifiedPart) {
        self.0.lock().verified.insert(key.to_vec(), part);
    }
}

/// Joins the reports of two attempts. The later attempt has looked at every object again, so its
/// failures and its numbers of inspected objects count. The earlier attempt has counted only what
/// it has committed. Transfers and times count in both.
fn joined_backups(earlier: BackupReport, later: BackupReport) -> BackupReport {
    let mut stages = earlier.stages;
    stages += later.stages;
    let mut compressors = earlier.compressors;
    crate::stages::join(&mut compressors, &later.compressors);
    BackupReport {
        backed_up: earlier.backed_up + later.backed_up,
        updated: earlier.updated + later.updated,
        rebound: earlier.rebound + later.rebound,
        expired: earlier.expired + later.expired,
        encrypted: earlier.encrypted + later.encrypted,
        deduplicated: earlier.deduplicated + later.deduplicated,
        grew: earlier.grew + later.grew,
        retries: earlier.retries + later.retries,
        bytes_processed: earlier.bytes_processed + later.bytes_processed,
        bytes_before_dedup: earlier.bytes_before_dedup + later.bytes_before_dedup,
        bytes_after_dedup: earlier.bytes_after_dedup + later.bytes_after_dedup,
        bytes_transferred: earlier.bytes_transferred + later.bytes_transferred,
        bytes_metadata: earlier.bytes_metadata + later.bytes_metadata,
        data_transfer: earlier.data_transfer + later.data_transfer,
        warnings: joined(earlier.warnings, later.warnings),
        excluded: joined(earlier.excluded, later.excluded),
        stages,
        compressors,
        ..later
    }
}

/// Joins the reports of two attempts. The later attempt has skipped what the earlier one restored.
fn joined_restores(earlier: RestoreReport, later: RestoreReport) -> RestoreReport {
    RestoreReport {
        restored: earlier.restored + later.restored,
        skipped: later.skipped.saturating_sub(earlier.restored).max(later.kept),
        bytes_restored: earlier.bytes_restored + later.bytes_restored,
        hole_bytes: earlier.hole_bytes + later.hole_bytes,
        data_transfer: earlier.data_transfer + later.data_transfer,
        warnings: joined(earlier.warnings, later.warnings),
        ..later
    }
}

fn joined<T: Eq + std::hash::Hash + Clone>(mut earlier: Vec<T>, later: Vec<T>) -> Vec<T> {
    let known: HashSet<T> = earlier.iter().cloned().collect();
    earlier.extend(later.into_iter().filter(|one| !known.contains(one)));
    earlier
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Failure;

    const EPOCH: ServerTime = ServerTime(7);

    fn continued() -> Attempts {
        let attempts = Attempts::default();
        attempts.begin(EPOCH);
        assert_eq!(attempts.continues_from(), None, "the first attempt continues nothing");
        attempts.begin(ServerTime(9));
        assert_eq!(attempts.continues_from(), Some(EPOCH));
        attempts
    }

    #[test]
    fn one_attempt_has_its_own_report() {
        let attempts = Attempts::default();
        attempts.begin(EPOCH);
        let report = BackupReport { backed_up: 3, inspected: 5, ..BackupReport::default() };
        assert_eq!(attempts.join_backup(report, 99).backed_up, 3);
        let report = RestoreReport { restored: 3, ..RestoreReport::default() };
        assert_eq!(attempts.join_restore(report).restored, 3);
    }

    #[test]
    fn an_object_of_two_attempts_counts_once() {
        let attempts = continued();
        let warnings = || vec!["look".to_owned()];
        // Of ten objects that were sent first, four were committed.
        attempts.keep_backup(BackupReport {
            inspected: 20,
            backed_up: 10,
            updated: 1,
            bytes_transferred: 100,
            failed: 2,
            warnings: warnings(),
            ..BackupReport::default()
        });
        let whole = attempts.join_backup(
            BackupReport {
                inspected: 25,
                backed_up: 16,
                bytes_transferred: 160,
                warnings: warnings(),
                ..BackupReport::default()
            },
            21,
        );
        assert_eq!((whole.inspected, whole.backed_up, whole.updated), (25, 20, 1));
        assert_eq!((whole.bytes_transferred, whole.failed), (260, 0));
        assert_eq!(whole.warnings, warnings());
    }

    #[test]
    fn each_image_counts_the_data_of_all_its_attempts() {
        let attempts = continued();
        let report = |bytes| BackupReport {
            bytes_before_dedup: bytes,
            bytes_after_dedup: bytes,
            bytes_transferred: bytes,
            ..BackupReport::default()
        };
        attempts.keep_image(b"/dev/a", report(10));
        attempts.keep_image(b"/dev/b", report(500));
        attempts.keep_image(b"/dev/a", report(20));
        let whole = attempts.join_image(b"/dev/a", report(70));
        assert_eq!((whole.bytes_after_dedup, whole.bytes_transferred), (100, 100));
        assert_eq!(whole.bytes_before_dedup, 70, "each attempt reads everything");
        let other = attempts.join_image(b"/dev/c", report(7));
        assert_eq!(other.bytes_transferred, 7, "an image of one attempt has its own report");
    }

    #[test]
    fn what_was_restored_before_is_not_skipped() {
        let attempts = continued();
        let data_transfer = Duration::from_secs(2);
        let earlier =
            RestoreReport { restored: 5, skipped: 1, data_transfer, ..Default::default() };
        attempts.keep_restore(RestoreReport { bytes_restored: 9, hole_bytes: 4, ..earlier });
        let later =
            RestoreReport { restored: 2, skipped: 6, kept: 1, data_transfer, ..Default::default() };
        let whole =
            attempts.join_restore(RestoreReport { bytes_restored: 3, hole_bytes: 2, ..later });
        assert_eq!((whole.restored, whole.skipped, whole.kept), (7, 1, 1));
        assert_eq!((whole.bytes_restored, whole.hole_bytes), (12, 6));
        assert_eq!(whole.data_transfer, Duration::from_secs(4));
    }

    #[test]
    fn damage_is_remembered_and_counts_once() {
        let attempts = continued();
        let damaged = |paths: &[&str]| RestoreReport {
            failed: paths.len() as u64,
            failures: paths
                .iter()
                .map(|path| Failure { path: path.as_bytes().to_vec(), error: String::new() })
                .collect(),
            bytes_restored: 10,
            ..RestoreReport::default()
        };
        attempts.keep_restore(damaged(&["/a", "/b"]));
        let whole = attempts.join_verification(damaged(&["/b", "/c"]));
        assert_eq!((whole.failed, whole.failures.len(), whole.bytes_restored), (3, 3, 20));
    }

    #[test]
    fn an_archive_is_filled_once() {
        let attempts = continued();
        assert_eq!((attempts.archive(), attempts.filled_archive().is_some()), (None, false));
        attempts.set_archive(4);
        attempts.fill_archive(&BackupReport { backed_up: 2, ..BackupReport::default() });
        assert_eq!(attempts.archive(), Some(4));
        assert_eq!(attempts.filled_archive().map(|report| report.backed_up), Some(2));
    }

    #[test]
    fn a_verification_knows_how_far_it_came() {
        let attempts = continued();
        assert_eq!(attempts.verified(b"/"), VerifiedPart::default());
        let part = VerifiedPart { up_to: Some(DirPath::root()), versions: None };
        attempts.verify(b"/", part.clone());
        assert_eq!(attempts.verified(b"/"), part);
    }
}

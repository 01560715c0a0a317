//! The chunk index of a running server. It is derived from the packs, so the server runs without it
//! too:
//!
//! ```text
//!   open ---> present --(damage, failed insert)--> absent --(rebuild)--> present
//!     |                                              ^
//!     +---------(cannot be opened or filled)---------+
//! ```
//!
//! 1. No failure of the index ends anything. While the index is absent, restores and lists go on,
//!    because they read by place. Backups go on too: chunks that their nodes cannot name by a grant
//!    are stored again. That costs space and loses nothing, while a refusal would leave the newest
//!    data without a backup.
//! 2. An index that lacks a chunk of a pack below its recorded end is absent: only a rebuild makes
//!    it complete again.
//! 3. While the index is rebuilt it answers already, with what it has so far, and its file says
//!    that it is complete up to no pack, so that a start after a stop completes it. An index that
//!    is absent because its disk was full keeps its files. They are complete up to a pack, and the
//!    rebuild adds the later packs, as a start does. A chunk that is appended meanwhile is added
//!    by its writer. Packs are listed after the index was opened, so each earlier chunk is in the
//!    table of a listed pack.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use index::{ChunkIndex, IndexError};
use model::{ChunkDigest, PackNumber, Place};
use sys::disk_error::{self, DiskError, FileKind};
use sys::lock::{Mutex, RwLock};

/// The index, which may be absent.
pub(crate) struct DerivedIndex {
    folder: PathBuf,
    open: RwLock<Option<ChunkIndex>>,
    /// True from the beginning of a rebuild until the index has every pack.
    is_partial: AtomicBool,
    /// True if the files of an absent index are good: there was no room for more.
    keeps_files: AtomicBool,
    /// Reason why the index became absent, until somebody takes it.
    loss: Mutex<Option<String>>,
    /// Time of the last rebuild that the index did not survive.
    failed_rebuild: Mutex<Option<Instant>>,
}

/// Pause after a rebuild that failed, which may have read the table of each pack.
const REBUILD_PAUSE: Duration = Duration::from_secs(600);

impl DerivedIndex {
    /// Opens the index in `folder`, if that is possible. Returns the index, and the last pack up to
    /// which it is complete.
    pub(crate) fn open(folder: &Path) -> (Self, PackNumber) {
        let absent = Self {
            folder: folder.to_owned(),
            open: RwLock::new(None),
            is_partial: AtomicBool::new(false),
            keeps_files: AtomicBool::new(false),
            loss: Mutex::new(None),
            failed_rebuild: Mutex::new(None),
        };
        match ChunkIndex::open(folder, Default::default()) {
            Ok((index, found)) => {
                if let Some(damage) = found.discarded {
                    absent.note_error(&IndexError::Damaged(damage), "read");
                }
                *absent.open.write() = Some(index);
                (absent, found.complete_to)
            }
            Err(error) => {
                absent.give_up(&error, "open");
                (absent, PackNumber(0))
            }
        }
    }

    pub(crate) fn is_absent(&self) -> bool {
        self.open.read().is_none()
    }

    /// Returns true if the index is absent and no rebuild has failed lately.
    pub(crate) fn may_be_rebuilt(&self, now: Instant) -> bool {
        let failed = *self.failed_rebuild.lock();
        let pauses = failed.is_some_and(|at| now.saturating_duration_since(at) < REBUILD_PAUSE);
        self.is_absent() && !pauses
    }

    /// Notes that a rebuild has failed, so that the next one waits.
    pub(crate) fn postpone_rebuild(&self, now: Instant) {
        *self.failed_rebuild.lock() = Some(now);
    }

    /// Returns the reason why the index became absent, once.
    pub(crate) fn take_loss(&self) -> Option<String> {
        self.loss.lock().take()
    }

    /// Returns places that the index has for the chunks, not verified.
    pub(crate) fn lookup(&self, digests: &[ChunkDigest]) -> Vec<Option<Place>> {
        let found = self.open.read().as_ref().map(|index| index.lookup(digests));
        match found {
            Some(Ok(places)) => return places,
            Some(Err(error @ IndexError::Damaged(_))) => self.give_up(&error, "read"),
            Some(Err(error)) => self.note_error(&error, "read"),
            None => {}
        }
        vec![None; digests.len()]
    }

    /// Adds chunks. After a failure the index is absent, because it would lack them.
    pub(crate) fn insert(&self, entries: &[(ChunkDigest, Place)]) {
        let inserted = self.open.read().as_ref().map(|index| index.insert(entries));
        if let Some(Err(error)) = inserted {
            self.give_up(&error, "write");
        }
    }

    /// Removes the packs. After a failure they are removed in memory, and the next start removes
    /// them again.
    pub(crate) fn remove_packs(&self, packs: &BTreeSet<PackNumber>) {
        let removed = self.open.read().as_ref().map(|index| index.remove_packs(packs));
        if let Some(Err(error)) = removed {
            self.note_error(&error, "write");
        }
    }

    /// Makes the index durable, complete up to a pack. After a failure, the next start adds what
    /// the file lacks.
    pub(crate) fn flush(&self, complete_to: PackNumber) {
        let is_partial = self.is_partial.load(Ordering::Acquire);
        let complete_to = if is_partial { PackNumber(0) } else { complete_to };
        let flushed = self.open.read().as_ref().map(|index| index.flush(complete_to));
        if let Some(Err(error)) = flushed {
            self.note_error(&error, "write");
        }
    }

    /// Size of the runs on the disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.open.read().as_ref().map_or(0, |index| index.statistics().disk_bytes)
    }

    /// Makes the index durable, complete up to a pack, and puts links to its files into the empty
    /// folder `into`. Returns the last pack up to which they are complete; `None` if the index is
    /// absent or not rebuilt yet.
    pub(crate) fn snapshot(
        &self,
        complete_to: PackNumber,
        into: &Path,
    ) -> io::Result<Option<PackNumber>> {
        let open = self.open.read();
        let Some(index) = open.as_ref() else { return Ok(None) };
        if self.is_partial.load(Ordering::Acquire) {
            return Ok(None);
        }
        index.flush(complete_to).map_err(io::Error::other)?;
        index.snapshot(into).map(Some).map_err(io::Error::other)
    }

    /// Opens an absent index: with its files if they are good, otherwise without any. Returns the
    /// last pack up to which it is complete.
    pub(crate) fn begin_again(&self) -> Result<PackNumber, IndexError> {
        let mut open = self.open.write();
        assert!(open.is_none(), "only an absent index begins again");
        let keeps_files = self.keeps_files.swap(false, Ordering::AcqRel);
        if !keeps_files {
            self.discard()?;
        }
        let (index, found) = ChunkIndex::open(&self.folder, Default::default())?;
        let is_empty = found.complete_to == PackNumber(0);
        assert!(keeps_files || is_empty, "a discarded index has no pack");
        self.is_partial.store(true, Ordering::Release);
        *open = Some(index);
        Ok(found.complete_to)
    }

    fn discard(&self) -> Result<(), IndexError> {
        match ChunkIndex::discard(&self.folder) {
            Err(IndexError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(())
            }
            discarded => discarded,
        }
    }

    /// Notes that the rebuilt index has every pack.
    pub(crate) fn end_rebuild(&self) {
        self.is_partial.store(false, Ordering::Release);
    }

    /// Makes the index absent.
    pub(super) fn give_up(&self, error: &IndexError, operation: &'static str) {
        self.note_error(error, operation);
        let reason = model::chain(error);
        tracing::error!(
            error = reason,
            "the server runs without a chunk index until it is rebuilt"
        );
        let mut open = self.open.write();
        // The index ends under the lock: its merger changes no file once they are opened again.
        let was_open = open.take().map(drop).is_some();
        if was_open {
            self.keeps_files.store(is_for_want_of_room(error), Ordering::Release);
        }
        drop(open);
        if was_open || self.loss.lock().is_none() {
            *self.loss.lock() = Some(reason);
        }
    }

    fn note_error(&self, error: &IndexError, operation: &'static str) {
        let (file, source) = match error {
            IndexError::Io { path, source } => (path.as_path(), source),
            IndexError::Damaged(damage) => {
                let damaged = io::Error::new(io::ErrorKind::InvalidData, damage.to_string());
                return self.note(&self.folder, operation, &damaged);
            }
        };
        if source.kind() == io::ErrorKind::StorageFull {
            tracing::warn!(file = %file.display(), "no space left for the chunk index");
        }
        self.note(file, operation, source);
    }

    fn note(&self, file: &Path, operation: &'static str, error: &io::Error) {
        let (kind, folder) = (FileKind::Index, self.folder.as_path());
        disk_error::note(&DiskError { kind, folder, file, operation, error });
    }

    /// Returns the entries of the index, which must be present.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> index::Entries {
        self.open.read().as_ref().expect("the index is present").entries()
    }
}

/// True if the error shows only that there was no room.
fn is_for_want_of_room(error: &IndexError) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    let IndexError::Io { source, .. } = error else { return false };
    matches!(source.kind(), StorageFull | QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: io::ErrorKind) -> IndexError {
        IndexError::Io { path: PathBuf::from("run"), source: kind.into() }
    }

    #[test]
    fn an_index_keeps_its_files_only_if_its_disk_was_full() {
        let folder = tempfile::tempdir().expect("a folder");
        let (index, _) = DerivedIndex::open(folder.path());
        let (digest, place) = (ChunkDigest([1; 32]), Place::new(PackNumber(7), 0));
        index.insert(&[(digest, place)]);
        index.flush(PackNumber(7));
        index.give_up(&failed(io::ErrorKind::StorageFull), "write");
        assert!(index.is_absent());
        assert_eq!(index.lookup(&[digest]), [None]);
        assert_eq!(index.begin_again().expect("it begins"), PackNumber(7));
        assert_eq!(index.lookup(&[digest]), [Some(place)]);
        index.flush(PackNumber(9));
        index.give_up(&failed(io::ErrorKind::StorageFull), "write");
        let complete_to = index.begin_again().expect("it begins");
        assert_eq!(complete_to, PackNumber(7), "it was not rebuilt");
        index.give_up(&failed(io::ErrorKind::PermissionDenied), "write");
        assert_eq!(index.begin_again().expect("it begins"), PackNumber(0));
        assert_eq!(index.lookup(&[digest]), [None]);
    }

    #[test]
    fn a_rebuild_that_failed_is_not_repeated_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let (index, _) = DerivedIndex::open(folder.path());
        let now = sys::clock::monotonic();
        assert!(!index.may_be_rebuilt(now), "it is present");
        *index.open.write() = None;
        assert!(index.may_be_rebuilt(now));
        index.postpone_rebuild(now);
        assert!(!index.may_be_rebuilt(now + REBUILD_PAUSE - Duration::from_secs(1)));
        assert!(index.may_be_rebuilt(now + REBUILD_PAUSE));
    }

    #[test]
    fn an_index_that_is_not_rebuilt_yet_is_complete_up_to_no_pack() {
        let folder = tempfile::tempdir().expect("a folder");
        let (index, _) = DerivedIndex::open(folder.path());
        *index.open.write() = None;
        index.begin_again().expect("it begins");
        index.insert(&[(ChunkDigest([1; 32]), Place::new(PackNumber(7), 0))]);
        let links = tempfile::tempdir().expect("a folder");
        let sent = index.snapshot(PackNumber(7), links.path()).expect("no snapshot");
        assert_eq!(sent, None);
        index.flush(PackNumber(7));
        drop(index);
        let (index, complete_to) = DerivedIndex::open(folder.path());
        assert_eq!(complete_to, PackNumber(0));
        *index.open.write() = None;
        index.begin_again().expect("it begins");
        index.end_rebuild();
        index.flush(PackNumber(7));
        drop(index);
        assert_eq!(DerivedIndex::open(folder.path()).1, PackNumber(7));
    }
}

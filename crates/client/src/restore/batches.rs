//! Recently asked batches of migrated files: where the contents of their copies lie. Small files
//! that were migrated together are usually recalled soon after each other. With the places and the
//! quanta in memory, such a file needs no request.
//!
//! A copy never changes, and each chunk is checked against its digest when it is used, so what is
//! remembered cannot become wrong.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use model::BatchId;
use sys::lock::{Condvar, Mutex};

use crate::link::versions::Piece;

/// Maximum number of batches. A batch has at most the files of a page.
const BATCHES_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");
/// Maximum number of pieces of a copy that is remembered.
const PIECES_MAX: usize = 16;
/// Maximum time to wait for another thread that asks about the same batch. That thread may have to
/// wait for a volume, while the content that is needed here is on a disk.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// A batch of a filespace.
pub(super) type BatchKey = (Vec<u8>, BatchId);

/// Pieces of the copies of one batch, by the indexes of the copies.
#[derive(Default)]
pub(super) struct Copies(HashMap<u16, Vec<Piece>>);

/// Memory of batches. See the module.
pub(crate) struct RecentBatches {
    batches: Mutex<LruCache<BatchKey, Arc<Copies>>>,
    /// Batches about which a thread asks the server.
    asked: Mutex<HashSet<BatchKey>>,
    has_answer: Condvar,
}

/// A question about a batch, until it is dropped. Other threads wait for its answer meanwhile.
pub(super) struct Question<'a> {
    recent: &'a RecentBatches,
    key: Option<BatchKey>,
}

impl Copies {
    /// Adds a copy, unless it has many pieces.
    pub(super) fn add(&mut self, index: u16, pieces: Vec<Piece>) {
        if pieces.len() <= PIECES_MAX {
            self.0.insert(index, pieces);
        }
    }
}

impl Default for RecentBatches {
    fn default() -> Self {
        let batches = Mutex::new(LruCache::new(BATCHES_MAX));
        Self { batches, asked: Mutex::default(), has_answer: Condvar::new() }
    }
}

impl RecentBatches {
    pub(super) fn put(&self, key: BatchKey, copies: Copies) {
        self.batches.lock().put(key, Arc::new(copies));
    }

    /// Returns the pieces of a copy, if they are in the memory.
    pub(super) fn pieces(&self, key: &BatchKey, index: u16) -> Option<Vec<Piece>> {
        let copies = self.batches.lock().get(key).map(Arc::clone)?;
        copies.0.get(&index).cloned()
    }

    /// Begins a question about a batch. Waits if another thread asks about the same batch, because
    /// its answer may be enough: the caller looks into the memory again.
    pub(super) fn ask(&self, key: &BatchKey) -> Question<'_> {
        let deadline = sys::clock::monotonic() + WAIT_MAX;
        let mut asked = self.asked.lock();
        while asked.contains(key) {
            let rest = deadline.saturating_duration_since(sys::clock::monotonic());
            if rest.is_zero() {
                return Question { recent: self, key: None };
            }
            asked = self.has_answer.wait_timeout(asked, rest);
        }
        asked.insert(key.clone());
        Question { recent: self, key: Some(key.clone()) }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let Some(key) = &self.key else { return };
        assert!(self.recent.asked.lock().remove(key), "a question ends once");
        self.recent.has_answer.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(place: u64) -> Piece {
        Piece { place, offset: 0, bytes: 3, is_sealed: false }
    }

    fn key(batch: u64) -> BatchKey {
        (b"/home".to_vec(), BatchId(batch))
    }

    #[test]
    fn the_copies_of_the_last_batches_are_known() {
        let recent = RecentBatches::default();
        for batch in 0..=BATCHES_MAX.get() as u64 {
            let mut copies = Copies::default();
            copies.add(7, vec![piece(batch)]);
            copies.add(8, vec![piece(batch); PIECES_MAX + 1]);
            recent.put(key(batch), copies);
        }
        assert_eq!(recent.pieces(&key(1), 7), Some(vec![piece(1)]));
        assert_eq!(recent.pieces(&key(1), 8), None, "it has many pieces");
        assert_eq!(recent.pieces(&key(0), 7), None, "the oldest batch has made room");
        assert_eq!(recent.pieces(&(b"/other".to_vec(), BatchId(1)), 7), None);
    }

    #[test]
    fn one_thread_asks_and_the_others_find_its_answer() {
        let recent = RecentBatches::default();
        let first = recent.ask(&key(1));
        assert!(recent.ask(&key(2)).key.is_some(), "nobody asks about this batch");
        assert!(recent.ask(&key(1)).key.is_none(), "the answer takes too long");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let question = recent.ask(&key(1));
                (question.key.is_some(), recent.pieces(&key(1), 7))
            });
            let mut copies = Copies::default();
            copies.add(7, vec![piece(5)]);
            recent.put(key(1), copies);
            drop(first);
            assert_eq!(second.join().expect("no panic"), (true, Some(vec![piece(5)])));
        });
    }
}

//! Ranges of packs in memory, which are being fetched from the store or were read recently.
//!
//! Each range is requested once, however many readers wait for it. If a reader reads sequentially,
//! more is requested than the reader needs, twice as much each time.

use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use lru::LruCache;
use model::PackNumber;
use sys::lock::{Condvar, Mutex};

/// Maximum size of all segments together, including segments that are being fetched.
const BYTES_MAX: u64 = 256 << 20;
/// Minimum number of bytes of a request: a smaller answer would cost as much.
const ASK_MIN: u64 = 64 << 10;
/// Maximum number of bytes of a request, unless one reader wants more.
const ASK_MAX: u64 = 8 << 20;
/// Maximum number of packs for which the position of the last reader is known.
const READERS_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("it is not zero");

/// State of a segment's bytes.
pub(super) enum Content {
    Coming,
    Here(Bytes),
    Failed { kind: io::ErrorKind, reason: String },
}

impl Content {
    pub(super) fn failed(error: &io::Error) -> Self {
        Self::Failed { kind: error.kind(), reason: error.to_string() }
    }
}

/// A range of a pack.
pub(super) struct Segment {
    pub(super) range: Range<u64>,
    content: Mutex<Content>,
    is_settled: Condvar,
}

impl Segment {
    fn new(range: Range<u64>) -> Self {
        Self { range, content: Mutex::new(Content::Coming), is_settled: Condvar::new() }
    }

    /// Gives the segment its bytes or the reason of the failure, and wakes the waiting readers.
    pub(super) fn settle(&self, content: Content) {
        assert!(!matches!(content, Content::Coming), "a settled segment has arrived or failed");
        *self.content.lock() = content;
        self.is_settled.notify_all();
    }

    /// Waits for the segment. Returns the bytes of `range`, which lies within it.
    pub(super) fn wait(&self, range: &Range<u64>) -> io::Result<Vec<u8>> {
        assert!(self.covers(range), "a reader waits for a segment that has its range");
        let content = self.content.lock();
        let content = self
            .is_settled
            .wait_while(content, |content| matches!(content, Content::Coming));
        match &*content {
            Content::Coming => unreachable!("waited for above"),
            Content::Here(bytes) => {
                let at = |offset: u64| {
                    usize::try_from(offset - self.range.start).map_err(io::Error::other)
                };
                // The pack may have become shorter.
                let within = at(range.start)?..at(range.end)?;
                Ok(bytes.get(within).ok_or(io::ErrorKind::UnexpectedEof)?.to_vec())
            }
            Content::Failed { kind, reason } => Err(io::Error::new(*kind, reason.clone())),
        }
    }

    fn covers(&self, range: &Range<u64>) -> bool {
        self.range.start <= range.start && range.end <= self.range.end
    }

    fn has_failed(&self) -> bool {
        matches!(*self.content.lock(), Content::Failed { .. })
    }

    fn bytes(&self) -> u64 {
        length(&self.range)
    }
}

/// The duty to settle a segment. Dropped without an answer it settles the segment as failed,
/// because readers wait for it.
pub(super) struct Settlement {
    segment: Arc<Segment>,
    is_settled: bool,
}

impl Settlement {
    pub(super) fn of(segment: &Arc<Segment>) -> Self {
        Self { segment: Arc::clone(segment), is_settled: false }
    }

    pub(super) fn range(&self) -> Range<u64> {
        self.segment.range.clone()
    }

    pub(super) fn settle(mut self, content: Content) {
        self.segment.settle(content);
        self.is_settled = true;
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        if !self.is_settled {
            self.segment
                .settle(Content::failed(&io::Error::other("the request was broken off")));
        }
    }
}

/// Position of a pack's last reader, and the size that was asked for on its behalf.
#[derive(Clone, Copy, Default)]
struct Reader {
    end: u64,
    asked: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SegmentId {
    pack: PackNumber,
    start: u64,
    end: u64,
}

/// Ranges of packs in memory. See the module.
///
/// Invariant: `bytes` is the sum of the sizes of `all`.
pub(super) struct Segments {
    all: LruCache<SegmentId, Arc<Segment>>,
    bytes: u64,
    readers: LruCache<PackNumber, Reader>,
}

impl Default for Segments {
    fn default() -> Self {
        Self { all: LruCache::unbounded(), bytes: 0, readers: LruCache::new(READERS_MAX) }
    }
}

impl Segments {
    pub(super) fn forget(&mut self, pack: PackNumber) {
        let ids: Vec<SegmentId> =
            self.all.iter().map(|(id, _)| *id).filter(|id| id.pack == pack).collect();
        for id in ids {
            self.bytes -= self.all.pop(&id).map_or(0, |segment| segment.bytes());
        }
        self.readers.pop(&pack);
        assert!(!self.all.is_empty() || self.bytes == 0, "an empty cache has no bytes");
    }

    /// Finds a segment that covers `range` and has not failed. Recently used segments are tried
    /// first.
    pub(super) fn covering(
        &mut self,
        pack: PackNumber,
        range: &Range<u64>,
    ) -> Option<Arc<Segment>> {
        let covers = |id: &SegmentId, segment: &Segment| {
            id.pack == pack && segment.covers(range) && !segment.has_failed()
        };
        let id = self.all.iter().find(|(id, segment)| covers(id, segment)).map(|(id, _)| *id)?;
        self.all.get(&id).cloned()
    }

    /// Adds a segment that has to be fetched.
    pub(super) fn add(&mut self, pack: PackNumber, range: Range<u64>) -> Arc<Segment> {
        let id = SegmentId { pack, start: range.start, end: range.end };
        let segment = Arc::new(Segment::new(range));
        self.bytes += segment.bytes();
        let before = self.all.put(id, Arc::clone(&segment));
        self.bytes -= before.map_or(0, |failed| failed.bytes());
        while self.bytes > BYTES_MAX
            && self.all.len() > 1
            && let Some((_, oldest)) = self.all.pop_lru()
        {
            self.bytes -= oldest.bytes();
        }
        assert!(
            self.bytes <= BYTES_MAX || self.all.len() == 1,
            "other segments were dropped for this segment"
        );
        segment
    }

    /// Adds the segment for a reader that wants `range` of a pack of `pack_bytes`.
    pub(super) fn add_for_reader(
        &mut self,
        pack: PackNumber,
        range: &Range<u64>,
        pack_bytes: u64,
    ) -> Arc<Segment> {
        let reader = self.readers.get_or_insert_mut(pack, Reader::default);
        let reads_on = reader.end == range.start && reader.asked > 0;
        reader.asked = if reads_on { (reader.asked * 2).min(ASK_MAX) } else { ASK_MIN };
        let end = range.start + reader.asked.max(length(range));
        self.add(pack, range.start..end.min(pack_bytes.max(range.end)))
    }

    /// Takes note that a reader of the pack has read up to `end`.
    pub(super) fn note_reader(&mut self, pack: PackNumber, end: u64) {
        self.readers.get_or_insert_mut(pack, Reader::default).end = end;
    }
}

fn length(range: &Range<u64>) -> u64 {
    assert!(range.start <= range.end, "a range ends after it begins");
    range.end - range.start
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACK: PackNumber = PackNumber(1);

    #[test]
    fn a_reader_that_reads_on_gets_twice_as_much_each_time() {
        let mut segments = Segments::default();
        let mut at = 0;
        for bytes in [ASK_MIN, 2 * ASK_MIN, 4 * ASK_MIN] {
            let segment = segments.add_for_reader(PACK, &(at..at + 10), 1 << 30);
            assert_eq!(segment.range, at..at + bytes);
            at = segment.range.end;
            segments.note_reader(PACK, at);
        }
        let elsewhere = segments.add_for_reader(PACK, &(5..10), 1 << 30);
        assert_eq!(elsewhere.range, 5..5 + ASK_MIN);
        let at_the_end = segments.add_for_reader(PACK, &(90..100), 120);
        assert_eq!(at_the_end.range, 90..120);
    }

    /// The readers of a range waited for ever after a panic of the task that fetched it.
    #[test]
    fn a_task_that_panics_fails_its_readers() {
        let segment = Arc::new(Segment::new(0..100));
        let settlement = Settlement::of(&segment);
        let task = std::thread::spawn(move || {
            let _settlement = settlement;
            panic!("a bug in the task");
        });
        assert!(segment.wait(&(10..20)).is_err());
        assert!(task.join().is_err());
    }

    #[test]
    fn a_range_that_failed_is_asked_for_again() {
        let mut segments = Segments::default();
        let failed = segments.add(PACK, 0..100);
        assert!(segments.covering(PACK, &(10..20)).is_some(), "readers wait for the segment");
        failed.settle(Content::failed(&io::Error::other("no")));
        assert!(failed.wait(&(10..20)).is_err());
        assert!(segments.covering(PACK, &(10..20)).is_none());
        let again = segments.add(PACK, 0..100);
        again.settle(Content::Here(Bytes::from_static(&[7; 30])));
        assert_eq!(again.wait(&(10..20)).unwrap(), [7; 10]);
        assert!(again.wait(&(20..40)).is_err(), "the pack is shorter than it was");
        assert_eq!(segments.bytes, 100);
        segments.forget(PACK);
        assert!(segments.covering(PACK, &(10..20)).is_none() && segments.bytes == 0);
    }

    #[test]
    fn segments_that_were_not_read_for_longest_go_first() {
        let mut segments = Segments::default();
        let half = BYTES_MAX / 2;
        drop(segments.add(PACK, 0..half));
        drop(segments.add(PACK, half..2 * half));
        assert!(segments.covering(PACK, &(0..1)).is_some());
        drop(segments.add(PACK, 3 * half..4 * half));
        assert!(segments.covering(PACK, &(0..1)).is_some());
        assert!(segments.covering(PACK, &(half..half + 1)).is_none());
    }
}

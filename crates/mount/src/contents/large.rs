//! Contents of large files: read range by range. When reads follow each other, the data after them
//! is fetched before it is asked for.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use client::{AHEAD_BYTES, ClientError};
use lru::LruCache;
use sys::lock::Mutex;

use crate::connection::Connection;
use crate::node::VersionKey;

/// Two reads of a file that are at most so far apart follow each other: the kernel reads ahead with
/// several threads.
const NEAR_BYTES: u64 = 4 << 20;
/// Number of large files whose reads are remembered.
const STREAMS_REMEMBERED: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");
/// Maximum number of threads that fetch data before it is asked for.
const FETCHING_MAX: usize = 2;

pub(super) struct LargeContents {
    connection: Arc<Connection>,
    /// Files that are being read.
    streams: Mutex<LruCache<VersionKey, StreamState>>,
    /// Number of threads that fetch data before it is asked for.
    fetching: Arc<AtomicUsize>,
}

/// State of a file that is being read.
#[derive(Clone, Copy)]
struct StreamState {
    /// End of the last read.
    end: u64,
    /// End of what was fetched, or is being fetched.
    fetched: u64,
}

impl LargeContents {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        let streams = Mutex::new(LruCache::new(STREAMS_REMEMBERED));
        Self { connection, streams, fetching: Arc::new(AtomicUsize::new(0)) }
    }

    /// Returns the bytes in `range` of a file of `size` bytes.
    pub(super) fn read(
        &self,
        key: &VersionKey,
        size: u64,
        range: Range<u64>,
    ) -> Result<Vec<u8>, ClientError> {
        let reads_ahead = self.note_read(key, size, &range);
        self.read_range(key, size, range, reads_ahead)
    }

    /// Returns the bytes in `range` of a file of `size` bytes. What follows is not wanted.
    pub(super) fn read_alone(
        &self,
        key: &VersionKey,
        size: u64,
        range: Range<u64>,
    ) -> Result<Vec<u8>, ClientError> {
        self.read_range(key, size, range, false)
    }

    /// Notes a read of a large file. Returns true if it follows the last read; then the data after
    /// it is fetched in time.
    fn note_read(&self, key: &VersionKey, size: u64, range: &Range<u64>) -> bool {
        let mut streams = self.streams.lock();
        let before = streams.get(key).copied();
        let follows = |state: &StreamState| state.end.abs_diff(range.start) <= NEAR_BYTES;
        let Some(before) = before.filter(follows) else {
            streams.put(key.clone(), StreamState { end: range.end, fetched: range.end });
            return false;
        };
        let mut fetched = before.fetched.max(range.start.saturating_add(AHEAD_BYTES));
        if fetched < size
            && range.end + AHEAD_BYTES / 2 >= fetched
            && self.fetch_later(key.clone(), size, fetched)
        {
            fetched += AHEAD_BYTES;
        }
        streams.put(key.clone(), StreamState { end: range.end.max(before.end), fetched });
        true
    }

    /// Fetches the bytes from `start` on while the caller goes on. Returns false if too many
    /// threads do that already.
    fn fetch_later(&self, key: VersionKey, size: u64, start: u64) -> bool {
        if self.fetching.fetch_add(1, Relaxed) >= FETCHING_MAX {
            self.fetching.fetch_sub(1, Relaxed);
            return false;
        }
        let (connection, fetching) = (Arc::clone(&self.connection), Arc::clone(&self.fetching));
        let fetch = move || {
            let (place, inserted) = &key;
            let line = connection.line();
            // An error is met again by the read that needs the data.
            let range = start..start + 1;
            drop(line.reader.read((place, *inserted), size, range, &mut [0], AHEAD_BYTES));
            fetching.fetch_sub(1, Relaxed);
        };
        let thread = std::thread::Builder::new().name("fetch".to_owned()).spawn(fetch);
        if thread.is_err() {
            self.fetching.fetch_sub(1, Relaxed);
        }
        thread.is_ok()
    }

    fn read_range(
        &self,
        (place, inserted): &VersionKey,
        size: u64,
        range: Range<u64>,
        reads_ahead: bool,
    ) -> Result<Vec<u8>, ClientError> {
        self.connection.ask(|line| {
            let mut part = vec![0; to_usize(range.end - range.start)];
            let version = (place, *inserted);
            let bytes_min = if reads_ahead { AHEAD_BYTES } else { 0 };
            line.reader.read(version, size, range.clone(), &mut part, bytes_min)?;
            Ok(part)
        })
    }
}

pub(super) fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).expect("lengths of buffers fit")
}

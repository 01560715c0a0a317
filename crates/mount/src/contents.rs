//! Contents of files: read from the server range by range, or with all small files of a directory
//! at once when a program reads one after the other.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use client::{AHEAD_BYTES, ClientError, Image, ImageReader, ObjectPlace};
use lru::LruCache;
use model::{Object, ServerTime};
use sys::lock::Mutex;

use crate::connection::Connection;
use crate::node::{Folder, View};

/// Maximum size of a file that is fetched with others.
const SMALL_BYTES: u64 = 256 << 10;
/// Maximum size of all files that are fetched at once.
const BATCH_BYTES: u64 = 16 << 20;
/// Maximum size of all contents that are remembered.
const REMEMBERED_BYTES: usize = 32 << 20;
/// Two reads of a file that are at most so far apart follow each other: the kernel reads ahead with
/// several threads.
const NEAR_BYTES: u64 = 4 << 20;
/// Number of large files whose reads are remembered.
const STREAMS_REMEMBERED: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");
/// Maximum number of threads that fetch data before it is asked for.
const FETCHING_MAX: usize = 4;
/// Maximum number of images that are read at the same time without their readers being made anew.
const READERS_MAX: usize = 16;

/// A version of a file.
type VersionKey = (ObjectPlace, ServerTime);

/// Readers of images, by name and time.
type ImageReaders = HashMap<(Vec<u8>, ServerTime), Arc<ImageReader>>;

pub(crate) struct Contents {
    connection: Arc<Connection>,
    small: Mutex<SmallContents>,
    images: Mutex<ImageReaders>,
    /// Large files that are being read.
    streams: Mutex<LruCache<VersionKey, StreamState>>,
    /// Number of threads that fetch data before it is asked for.
    fetching: Arc<AtomicUsize>,
}

/// State of a large file that is being read.
#[derive(Clone, Copy)]
struct StreamState {
    /// End of the last read.
    end: u64,
    /// End of what was fetched, or is being fetched.
    fetched: u64,
}

/// Contents of small files that came lately.
struct SmallContents {
    bytes: usize,
    contents: LruCache<VersionKey, Arc<Vec<u8>>>,
    /// Directory of the last small file that was read alone.
    last: Option<Folder>,
}

impl SmallContents {
    fn put(&mut self, key: VersionKey, content: Vec<u8>) {
        self.bytes += content.len();
        if let Some((_, old)) = self.contents.push(key, Arc::new(content)) {
            self.bytes -= old.len();
        }
        while self.bytes > REMEMBERED_BYTES {
            let Some((_, old)) = self.contents.pop_lru() else { break };
            self.bytes -= old.len();
        }
    }
}

impl Contents {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        let contents = LruCache::unbounded();
        let small = Mutex::new(SmallContents { bytes: 0, contents, last: None });
        let streams = Mutex::new(LruCache::new(STREAMS_REMEMBERED));
        let fetching = Arc::new(AtomicUsize::new(0));
        Self { connection, small, images: Mutex::default(), streams, fetching }
    }

    /// Returns the bytes of a stored file in `range`, which ends at or before its size.
    pub(crate) fn read(
        &self,
        view: View,
        folder: &Folder,
        object: &Object,
        range: Range<u64>,
    ) -> Result<Vec<u8>, ClientError> {
        let key = (folder.place(object), object.inserted);
        if let Some(content) = self.small.lock().contents.get(&key).cloned() {
            return Ok(content[to_usize(range.start)..to_usize(range.end)].to_vec());
        }
        let size = object.stat.size;
        if size <= SMALL_BYTES {
            if self.is_second_of_directory(folder) && view != View::Versions {
                self.fetch_directory(view, folder)?;
                if let Some(content) = self.small.lock().contents.get(&key).cloned() {
                    return Ok(content[to_usize(range.start)..to_usize(range.end)].to_vec());
                }
            }
            let content = self.read_range(&key, size, 0..size, false)?;
            let part = content[to_usize(range.start)..to_usize(range.end)].to_vec();
            self.small.lock().put(key, content);
            return Ok(part);
        }
        let reads_ahead = self.note_read(&key, size, &range);
        self.read_range(&key, size, range, reads_ahead)
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
            drop(line.reader.read((place, *inserted), size, range, &mut [0], true));
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
            line.reader.read(version, size, range.clone(), &mut part, reads_ahead)?;
            Ok(part)
        })
    }

    /// Returns true if the last small file came from the same directory: then more will follow.
    fn is_second_of_directory(&self, folder: &Folder) -> bool {
        let mut small = self.small.lock();
        let is_second = small.last.as_ref() == Some(folder);
        small.last = Some(folder.clone());
        is_second
    }

    fn fetch_directory(&self, view: View, folder: &Folder) -> Result<(), ClientError> {
        let Folder { filespace, directory } = folder;
        let limits = (SMALL_BYTES, BATCH_BYTES);
        let files = self
            .connection
            .ask(|line| line.client.small_files(filespace, directory, view.time(), limits))?;
        let mut small = self.small.lock();
        for file in files {
            let (filespace, directory) = (filespace.clone(), directory.clone());
            let place = ObjectPlace { filespace, directory, name: file.name };
            small.put((place, file.inserted), file.content);
        }
        Ok(())
    }

    /// Returns the bytes of an image in `range`.
    pub(crate) fn read_image(
        &self,
        image: &Image,
        range: Range<u64>,
    ) -> Result<Vec<u8>, ClientError> {
        let key = (image.name.clone(), image.taken);
        self.connection.ask(|line| {
            let known = self.images.lock().get(&key).cloned();
            let reader = known.unwrap_or_else(|| Arc::new(line.client.image_reader(image.clone())));
            let mut buffer = vec![0; to_usize(range.end - range.start)];
            let read = reader.read_at(&mut buffer, range.start);
            let mut images = self.images.lock();
            if read.is_err() {
                // The reader has the connection that was lost.
                images.remove(&key);
            } else {
                if images.len() >= READERS_MAX {
                    images.clear();
                }
                images.insert(key.clone(), reader);
            }
            read.map(|()| buffer)
        })
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).expect("lengths of buffers fit")
}

//! Contents of files: read from the server range by range, or with all small files of a directory
//! at once when a program reads one after the other.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use client::{ClientError, Image, ImageReader, ObjectPlace};
use lru::LruCache;
use model::{DirPath, Object, ServerTime};
use sys::lock::Mutex;

use crate::connection::Connection;
use crate::node::View;

/// Maximum size of a file that is fetched with others.
const SMALL_BYTES: u64 = 256 << 10;
/// Maximum size of all files that are fetched at once.
const BATCH_BYTES: u64 = 16 << 20;
/// Maximum size of all contents that are remembered.
const REMEMBERED_BYTES: usize = 32 << 20;
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
    /// End of the last read of each large file that is being read.
    ends: Mutex<LruCache<VersionKey, u64>>,
}

/// Contents of small files that came lately.
struct SmallContents {
    bytes: usize,
    contents: LruCache<VersionKey, Arc<Vec<u8>>>,
    /// Directory of the last small file that was read alone.
    last: Option<(Vec<u8>, DirPath)>,
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
        let ends = LruCache::new(std::num::NonZeroUsize::new(256).expect("not zero"));
        Self { connection, small, images: Mutex::default(), ends: Mutex::new(ends) }
    }

    /// Returns the bytes of a stored file in `range`, which ends at or before its size.
    pub(crate) fn read(
        &self,
        view: View,
        place: &ObjectPlace,
        object: &Object,
        range: Range<u64>,
    ) -> Result<Vec<u8>, ClientError> {
        let key = (place.clone(), object.inserted);
        if let Some(content) = self.small.lock().contents.get(&key).cloned() {
            return Ok(content[to_usize(range.start)..to_usize(range.end)].to_vec());
        }
        let size = object.stat.size;
        if size <= SMALL_BYTES {
            if self.is_second_of_directory(place) && view != View::Versions {
                self.fetch_directory(view, place)?;
                if let Some(content) = self.small.lock().contents.get(&key).cloned() {
                    return Ok(content[to_usize(range.start)..to_usize(range.end)].to_vec());
                }
            }
            let content = self.read_range(&key, size, 0..size, false)?;
            let part = content[to_usize(range.start)..to_usize(range.end)].to_vec();
            self.small.lock().put(key, content);
            return Ok(part);
        }
        let last_end = self.ends.lock().put(key.clone(), range.end);
        self.read_range(&key, size, range.clone(), last_end == Some(range.start))
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
    fn is_second_of_directory(&self, place: &ObjectPlace) -> bool {
        let here = (place.filespace.clone(), place.directory.clone());
        let mut small = self.small.lock();
        let is_second = small.last.as_ref() == Some(&here);
        small.last = Some(here);
        is_second
    }

    fn fetch_directory(&self, view: View, place: &ObjectPlace) -> Result<(), ClientError> {
        let ObjectPlace { filespace, directory, .. } = place;
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

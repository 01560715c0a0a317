//! Contents of files.
//!
//! ```text
//!   read -> small: whole files; in a walk, those of all directories to come
//!        -> large: range by range, and the data after it in time
//!        -> images
//! ```

mod large;
mod small;
mod stock;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use client::{Client, ClientError, ErrorKind, Image, ImageReader};
use model::{Object, ServerTime};
use sys::lock::Mutex;

use self::large::{LargeContents, to_usize};
pub(crate) use self::small::BYTES_MAX as SMALL_BYTES_MAX;
use self::small::SmallContents;
use crate::connection::Connection;
use crate::node::{Folder, View};
use crate::walk::Place;

/// Maximum number of images whose readers are kept.
const READERS_MAX: usize = 16;

/// Readers of images with their connections, by name and time.
type ImageReaders = HashMap<(Vec<u8>, ServerTime), (Arc<Client>, Arc<ImageReader>)>;

pub(crate) struct Contents {
    connection: Arc<Connection>,
    small: SmallContents,
    large: LargeContents,
    images: Mutex<ImageReaders>,
}

impl Contents {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        let small = SmallContents::new(Arc::clone(&connection));
        let large = LargeContents::new(Arc::clone(&connection));
        Self { connection, small, large, images: Mutex::default() }
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
        let size = object.stat.size;
        if size > small::BYTES_MAX {
            return self.large.read(&key, size, range);
        }
        let content = match self.small.find(view, &key, size) {
            Some(content) => content,
            None => {
                let content = Arc::new(self.large.read_alone(&key, size, 0..size)?);
                self.small.remember(key, Arc::clone(&content));
                content
            }
        };
        Ok(content[to_usize(range.start)..to_usize(range.end)].to_vec())
    }

    /// Returns the range of the data of a stored file that `offset` lies in, or of the next data
    /// after it, up to the next hole.
    pub(crate) fn data_from(
        &self,
        folder: &Folder,
        object: &Object,
        offset: u64,
    ) -> Result<Option<Range<u64>>, ClientError> {
        let place = folder.place(object);
        self.connection
            .ask(|line| line.reader.data_from((&place, object.inserted), offset))
    }

    /// Returns the contents of the first of some small files of one directory: as many as have come
    /// ahead of a walk, or the first one that is about to come. Nothing is fetched for them.
    pub(crate) fn find_ahead(
        &self,
        view: View,
        folder: &Folder,
        files: &[&Object],
    ) -> Vec<Arc<Vec<u8>>> {
        let Folder { filespace, directory } = folder.clone();
        self.small.find_ahead(&Place { view, filespace, directory }, files)
    }

    /// Drops the contents of small files of one directory: the kernel has them.
    pub(crate) fn drop_given(&self, view: View, folder: &Folder, files: &[&Object]) {
        let Folder { filespace, directory } = folder.clone();
        self.small.drop_given(&Place { view, filespace, directory }, files);
    }

    /// Returns the bytes of an image in `range`.
    pub(crate) fn read_image(
        &self,
        image: &Image,
        range: Range<u64>,
    ) -> Result<Vec<u8>, ClientError> {
        self.ask_image(image, |reader| {
            let mut buffer = vec![0; to_usize(range.end - range.start)];
            reader.read_at(&mut buffer, range.start)?;
            Ok(buffer)
        })
    }

    /// Returns the range of the data of an image that `offset` lies in, or of the next data after
    /// it, up to the next hole or the end of a part of the image.
    pub(crate) fn image_data_from(
        &self,
        image: &Image,
        offset: u64,
    ) -> Result<Option<Range<u64>>, ClientError> {
        self.ask_image(image, |reader| reader.data_from(offset))
    }

    /// Asks the reader of an image, which is kept for the next question.
    fn ask_image<T>(
        &self,
        image: &Image,
        question: impl Fn(&ImageReader) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let key = (image.name.clone(), image.taken);
        self.connection.ask(|line| {
            let known = self.images.lock().get(&key).cloned();
            // Another connection may lack a key that the node has got since.
            let reader = match known {
                Some((client, reader)) if Arc::ptr_eq(&client, &line.client) => reader,
                _ => {
                    let parts = Arc::clone(&line.image_parts);
                    Arc::new(ImageReader::sharing(parts, image.clone()))
                }
            };
            let answer = question(&reader);
            let mut images = self.images.lock();
            // A reader of an earlier connection would keep the memory of that connection.
            images.retain(|_, (client, _)| Arc::ptr_eq(client, &line.client));
            if answer.as_ref().is_err_and(|error| error.kind != ErrorKind::Damaged) {
                // The reader may have a connection that was lost.
                images.remove(&key);
            } else {
                if images.len() >= READERS_MAX {
                    images.clear();
                }
                images.insert(key.clone(), (Arc::clone(&line.client), reader));
            }
            answer
        })
    }
}

//! Reading packs: from the local folder if it has the pack, otherwise in segments from the store.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use format::pack::Table;
use model::PackNumber;
use object_store::ObjectStoreExt as _;

use super::Bucket;
use super::runtime::{io_error, runtime};
use super::segments::{Content, Segment, Settlement};

/// Number of bytes at the end of a pack that contain its table, if the pack holds ordinary files.
const END_BYTES: u64 = 512 << 10;

impl Bucket {
    /// Opens the file of the whole pack, if it is still in the folder.
    fn kept_file(&self, pack: PackNumber) -> Option<File> {
        self.cache().file(pack)
    }

    /// Returns the table of a pack, if the folder keeps it.
    pub(crate) fn kept_table(&self, pack: PackNumber) -> Option<Table> {
        self.cache().table(pack)
    }

    pub(crate) fn keep_table(&self, table: &Table) {
        self.cache().add_table(table);
    }

    /// Reads the bytes of the pack in `range`, which lies within it.
    pub(crate) fn read(
        self: &Arc<Self>,
        pack: PackNumber,
        range: Range<u64>,
        pack_bytes: u64,
    ) -> io::Result<Vec<u8>> {
        assert!(range.start <= range.end && range.end <= pack_bytes, "a range within the pack");
        if let Some(file) = self.kept_file(pack) {
            let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
            let mut bytes = vec![0; length];
            if file.read_exact_at(&mut bytes, range.start).is_ok() {
                return Ok(bytes);
            }
            // The file in the folder was changed by hand; the store has the pack.
            self.cache().forget(pack);
        }
        self.read_segment(pack, &range, pack_bytes)
    }

    fn read_segment(
        self: &Arc<Self>,
        pack: PackNumber,
        range: &Range<u64>,
        pack_bytes: u64,
    ) -> io::Result<Vec<u8>> {
        let (segment, is_new) = {
            let mut segments = self.segments.lock();
            let found = segments.covering(pack, range);
            let is_new = found.is_none();
            let add = || segments.add_for_reader(pack, range, pack_bytes);
            let segment = found.unwrap_or_else(add);
            segments.note_reader(pack, range.end);
            (segment, is_new)
        };
        if is_new {
            self.fetch(pack, &segment);
        }
        segment.wait(range)
    }

    /// Begins to read the bytes of the pack in `range`.
    pub(crate) fn read_ahead(self: &Arc<Self>, pack: PackNumber, range: Range<u64>) {
        if self.cache().has(pack) {
            return;
        }
        let segment = {
            let mut segments = self.segments.lock();
            if segments.covering(pack, &range).is_some() {
                return;
            }
            segments.add(pack, range)
        };
        self.fetch(pack, &segment);
    }

    /// Begins to read the end of a pack of `bytes`, which contains its table, unless the table is
    /// kept.
    pub(crate) fn read_end_ahead(self: &Arc<Self>, pack: PackNumber, bytes: u64) {
        if !self.cache().has_table(pack) {
            self.read_ahead(pack, bytes.saturating_sub(END_BYTES)..bytes);
        }
    }

    /// Begins to fetch a segment, which is settled in any case: by the answer, or when the task
    /// ends without one.
    fn fetch(self: &Arc<Self>, pack: PackNumber, segment: &Arc<Segment>) {
        let (bucket, coming) = (Arc::clone(self), Settlement::of(segment));
        let task = async move {
            let key = bucket.pack_key(pack);
            let _permit = bucket.fetching.acquire().await;
            let content = match bucket.store.get_range(&key, coming.range()).await {
                Ok(bytes) => Content::Here(bytes),
                Err(error) => Content::failed(&io_error(error)),
            };
            coming.settle(content);
        };
        match runtime() {
            Ok(runtime) => drop(runtime.spawn(task)),
            Err(error) => segment.settle(Content::failed(&error)),
        }
    }
}

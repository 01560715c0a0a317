//! Sending packs to the store: in parts while a pack is being filled, or as a whole if it is
//! smaller than a part.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use format::pack::Table;
use futures_util::future::try_join_all;
use model::PackNumber;
use object_store::multipart::{MultipartStore as _, PartId};
use object_store::path::Path as Key;
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutMultipartOptions, PutPayload};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use super::Bucket;
use super::runtime::{io_error, runtime};
use crate::layout;
use crate::pack::pack_bytes;

/// Size of an object's parts except the last, in bytes.
const PART_BYTES: u64 = 8 << 20;

/// The object that an upload writes, shared by the tasks of the upload.
struct Target {
    bucket: Arc<Bucket>,
    key: Key,
    file: Arc<File>,
    /// Id that the store has given to the upload.
    id: OnceCell<String>,
}

/// An upload of a pack that is being filled. If it is dropped without [`Upload::finish`], the store
/// drops its parts.
pub(crate) struct Upload {
    target: Arc<Target>,
    parts: Vec<JoinHandle<io::Result<PartId>>>,
}

/// The last steps of an upload, which run in the background.
pub(crate) struct Completion(JoinHandle<io::Result<()>>);

impl Target {
    async fn read(&self, offset: u64, length: u64) -> io::Result<Bytes> {
        let file = Arc::clone(&self.file);
        let reading = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
            file.read_exact_at(&mut bytes, offset)?;
            Ok(Bytes::from(bytes))
        });
        reading.await.map_err(io::Error::other)?
    }

    async fn id(&self) -> io::Result<&String> {
        let attributes = self.bucket.attributes();
        let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
        let asking = || self.bucket.store.create_multipart_opts(&self.key, options);
        self.id.get_or_try_init(asking).await.map_err(io_error)
    }

    /// Sends `length` bytes from `offset` as the part with this index.
    async fn send_part(&self, index: usize, offset: u64, length: u64) -> io::Result<PartId> {
        assert_eq!(offset, index as u64 * PART_BYTES, "parts lie without gaps");
        assert!(length > 0, "a part has bytes");
        let _permit = self.bucket.sending.acquire().await.map_err(io::Error::other)?;
        let id = self.id().await?;
        let payload = PutPayload::from_bytes(self.read(offset, length).await?);
        let sent = self.bucket.store.put_part(&self.key, id, index, payload).await;
        sent.map_err(io_error)
    }

    /// Sends a part that could not be sent while the pack was being filled. That may be long ago,
    /// and the store may be back.
    async fn send_again(&self, index: usize, error: &io::Error) -> io::Result<PartId> {
        tracing::debug!(%error, index, "a part is sent again");
        self.send_part(index, index as u64 * PART_BYTES, PART_BYTES).await
    }

    /// Sends all of a pack that is smaller than a part.
    async fn send_whole(&self, bytes: u64) -> io::Result<()> {
        let _permit = self.bucket.sending.acquire().await.map_err(io::Error::other)?;
        let payload = PutPayload::from_bytes(self.read(0, bytes).await?);
        self.bucket.check_lease_in_task().await?;
        let options = self.bucket.put_options();
        let sent = self.bucket.store.put_opts(&self.key, payload, options).await;
        sent.map(drop).map_err(io_error)
    }

    /// Sends the bytes after `parts`, and makes the store join all parts.
    async fn complete(
        &self,
        parts: Vec<JoinHandle<io::Result<PartId>>>,
        bytes: u64,
    ) -> io::Result<()> {
        let sending = parts.into_iter().enumerate().map(async |(index, part)| {
            match part.await.map_err(io::Error::other)? {
                Ok(id) => Ok(id),
                Err(error) => self.send_again(index, &error).await,
            }
        });
        let mut ids = try_join_all(sending).await?;
        let begun = ids.len() as u64 * PART_BYTES;
        assert!(begun <= bytes, "a part that was sent lies within the pack");
        if begun < bytes {
            ids.push(self.send_part(ids.len(), begun, bytes - begun).await?);
        }
        let id = self.id().await?;
        self.bucket.check_lease_in_task().await?;
        match self.bucket.store.complete_multipart(&self.key, id, ids).await {
            Ok(_) => Ok(()),
            // The answer may have been lost; then the repeated request finds no upload.
            Err(error) => match self.bucket.store.head(&self.key).await {
                Ok(object) if object.size == bytes => Ok(()),
                _ => Err(io_error(error)),
            },
        }
    }

    /// Tells the store to drop the parts. If that fails, [`Bucket::end_orphans`] drops them later.
    async fn abort(&self) {
        if let Some(id) = self.id.get()
            && let Err(error) = self.bucket.store.abort_multipart(&self.key, id).await
        {
            tracing::debug!(%error, "an unfinished upload stays in the store");
        }
    }
}

impl Upload {
    pub(crate) fn new(bucket: Arc<Bucket>, pack: PackNumber, file: Arc<File>) -> Self {
        let key = bucket.pack_key(pack);
        let target = Arc::new(Target { bucket, key, file, id: OnceCell::new() });
        Self { target, parts: Vec::new() }
    }

    /// Begins to send the parts that are complete in a file of `end` bytes.
    pub(crate) fn advance(&mut self, end: u64) -> io::Result<()> {
        assert!(self.parts.len() as u64 * PART_BYTES <= end, "a file only grows");
        while (self.parts.len() as u64 + 1) * PART_BYTES <= end {
            let (target, index) = (Arc::clone(&self.target), self.parts.len());
            let offset = index as u64 * PART_BYTES;
            let sending = async move { target.send_part(index, offset, PART_BYTES).await };
            self.parts.push(runtime()?.spawn(sending));
        }
        Ok(())
    }

    /// Begins to send the rest of the complete file of `bytes` bytes. The pack is durable once
    /// [`Completion::wait`] has returned.
    pub(crate) fn finish(mut self, bytes: u64, table: &Arc<Table>) -> io::Result<Completion> {
        let parts = std::mem::take(&mut self.parts);
        let (target, table) = (Arc::clone(&self.target), Arc::clone(table));
        let completing = async move {
            let sent = if parts.is_empty() {
                target.send_whole(bytes).await
            } else {
                target.complete(parts, bytes).await
            };
            match sent {
                Ok(()) => {
                    target.bucket.note_arrival(&table, bytes);
                    Ok(())
                }
                Err(error) => {
                    target.abort().await;
                    Err(error)
                }
            }
        };
        Ok(Completion(runtime()?.spawn(completing)))
    }
}

impl Bucket {
    /// Sends the file of a sealed pack, `path`, and keeps it for a while under the pack's name.
    pub(crate) fn send(self: &Arc<Self>, table: &Arc<Table>, path: &Path) -> io::Result<()> {
        let file = Arc::new(File::open(path)?);
        let bytes = file.metadata()?.len();
        assert_eq!(bytes, pack_bytes(table), "the file is the whole pack");
        self.forget(table.pack);
        self.forget_lock(table.pack);
        let kept = layout::path(&self.folder, table.pack);
        std::fs::rename(path, &kept)?;
        let mut upload = Upload::new(Arc::clone(self), table.pack, file);
        let sent = upload.advance(bytes).and_then(|()| upload.finish(bytes, table)?.wait());
        sent.inspect_err(|_| drop(std::fs::remove_file(&kept)))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.parts.is_empty() {
            return;
        }
        let parts = std::mem::take(&mut self.parts);
        let target = Arc::clone(&self.target);
        if let Ok(runtime) = runtime() {
            drop(runtime.spawn(async move {
                for part in parts {
                    part.abort();
                    drop(part.await);
                }
                target.abort().await;
            }));
        }
    }
}

impl Completion {
    /// Waits until the store has the whole pack.
    pub(crate) fn wait(self) -> io::Result<()> {
        runtime()?.block_on(self.0).map_err(io::Error::other)?
    }
}

//! Pools whose packs are objects of a bucket, in an object store that speaks the protocol of S3.
//!
//! ```text
//!   append --> file in the pool's folder --> parts of 8 MiB, as they fill --> complete
//!                  | while it is open             several at once              with each sync
//!                  v
//!   read <-- files that are still in the folder,
//!        <-- otherwise segments: ranges, larger ones for a reader that reads sequentially
//! ```
//!
//! An object exists as a whole or not at all. Therefore every [`crate::Pools::sync`] seals the open
//! packs, and a pack is durable once the store has confirmed it. By then the store already has most
//! parts of the pack. No file in the folder has to survive a crash: the files only save requests.
//!
//! The objects of a pool, below the prefix of its URL:
//!
//! - `holdfast-pool`: the mark of the pool.
//! - `holdfast-owner`: the identity of the server that writes to the pool.
//! - `holdfast-lease`: the lease of that server, which says whether the server runs.
//! - `packs/0000000/0000000001.pack`: packs, named as in a folder.
//! - `catalogue/NAME`: files beside the packs.

mod connect;
pub(crate) mod credentials;
mod fetch;
mod files;
pub(crate) mod lease;
pub(crate) mod location;
mod lock;
mod orphans;
mod pack_cache;
pub(crate) mod parallel;
mod request;
mod runtime;
mod segments;
pub(crate) mod upload;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use format::pack::Table;
use futures_util::TryStreamExt as _;
use model::{PackNumber, ServerTime};
use object_store::aws::AmazonS3;
use object_store::path::Path as Key;
use object_store::{
    Attribute, Attributes, ObjectStore as _, ObjectStoreExt as _, PutOptions, PutPayload,
};
use sys::lock::{Mutex, MutexGuard};
use tokio::sync::Semaphore;

use crate::layout;
use crate::mark::MARK_FILE;
use lease::Tenure;
use location::BucketUrl;
use pack_cache::PackCache;
use request::Requests;
use runtime::{io_error, runtime, wait};
use segments::Segments;

/// Maximum number of parts of packs that are sent at once. Each part is in memory.
const PARTS_MAX: usize = 8;
/// Maximum number of ranges that are fetched at once.
const FETCHES_MAX: usize = 16;
/// First part of the keys of packs.
const PACKS: &str = "packs";

/// The objects of a pool. All methods may be called from any thread that may block.
pub struct Bucket {
    url: BucketUrl,
    store: AmazonS3,
    requests: Requests,
    /// Local folder for the files of open packs, and for copies of sealed packs.
    folder: PathBuf,
    sending: Semaphore,
    fetching: Semaphore,
    /// Times at which packs arrived in the store, from the last listing or upload.
    arrivals: Mutex<BTreeMap<PackNumber, SystemTime>>,
    cache: Mutex<PackCache>,
    segments: Mutex<Segments>,
    /// Days until which packs are locked at least, as far as this process knows.
    holds: Mutex<LockDays>,
    /// Days until which the store keeps packs that should be removed.
    stuck: Mutex<LockDays>,
    /// The lease that this process holds.
    tenure: Mutex<Option<Tenure>>,
}

/// A day for each pack.
type LockDays = BTreeMap<PackNumber, ServerTime>;

/// A bucket equals itself and no other.
impl PartialEq for Bucket {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Bucket {}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.url)
    }
}

impl Bucket {
    /// Returns the bucket at `url`. Its local `folder` keeps at most `kept_bytes` of copies. No
    /// request is sent to the store yet.
    pub fn new(url: BucketUrl, folder: &Path, kept_bytes: u64) -> io::Result<Self> {
        // The library expects a runtime when a store is created.
        let _entered = runtime()?.enter();
        let store = url.store()?;
        let requests = Requests::new(&url)?;
        let mut cache = PackCache::new(folder, kept_bytes);
        // This removes the packs that were open when the server ended: they were never reported as
        // durable.
        cache.begin()?;
        Ok(Self {
            url,
            store,
            requests,
            folder: folder.to_owned(),
            sending: Semaphore::new(PARTS_MAX),
            fetching: Semaphore::new(FETCHES_MAX),
            arrivals: Mutex::default(),
            cache: Mutex::new(cache),
            segments: Mutex::default(),
            holds: Mutex::default(),
            stuck: Mutex::default(),
            tenure: Mutex::default(),
        })
    }

    /// The URL as it is shown to people.
    pub fn url(&self) -> &BucketUrl {
        &self.url
    }

    fn cache(&self) -> MutexGuard<'_, PackCache> {
        self.cache.lock()
    }

    fn key(&self, name: &str) -> Key {
        self.url.prefix().clone().join(name)
    }

    fn pack_key(&self, pack: PackNumber) -> Key {
        let path = layout::path(Path::new(""), pack);
        let parts = path.iter().filter_map(|part| part.to_str());
        let key = parts.fold(self.key(PACKS), |key, part| key.join(part));
        debug_assert_eq!(self.pack_of(&key), Some(pack), "a listing finds the same number");
        key
    }

    fn pack_of(&self, key: &Key) -> Option<PackNumber> {
        layout::number(key.filename()?)
    }

    /// Attributes of new objects: the storage class of the pool.
    fn attributes(&self) -> Attributes {
        let class = self.url.storage_class().map(ToOwned::to_owned);
        class.map_or_else(Attributes::new, |class| {
            Attributes::from_iter([(Attribute::StorageClass, class)])
        })
    }

    fn put_options(&self) -> PutOptions {
        PutOptions { attributes: self.attributes(), ..PutOptions::default() }
    }

    fn put(&self, key: &Key, content: Bytes) -> io::Result<()> {
        let put = self.store.put_opts(key, PutPayload::from_bytes(content), self.put_options());
        wait(put)?.map(drop).map_err(io_error)
    }

    fn get(&self, key: &Key) -> io::Result<Bytes> {
        let got = async { self.store.get(key).await?.bytes().await };
        wait(got)?.map_err(io_error)
    }

    /// Removes an object, if it exists.
    fn delete(&self, key: &Key) -> io::Result<()> {
        if self.has_locks() {
            return self.delete_versions(key);
        }
        match wait(self.store.delete(key))?.map_err(io_error) {
            // A missing bucket is an error: it may come back, and the object with it.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && !error.to_string().contains("NoSuchBucket") =>
            {
                Ok(())
            }
            other => other,
        }
    }

    /// Writes the mark of the pool. Fails if the pool needs locks and the bucket does not support
    /// them.
    pub(crate) fn write_mark(&self, text: &[u8]) -> io::Result<()> {
        self.check_locks()?;
        self.put(&self.key(MARK_FILE), Bytes::copy_from_slice(text))
    }

    /// Asks the store for all packs, with their sizes in bytes.
    pub(crate) fn list(&self) -> io::Result<BTreeMap<PackNumber, u64>> {
        if self.has_locks() {
            self.check_locks()?;
            self.uncover_below(&self.key(PACKS))?;
        }
        let listed = self.store.list(Some(&self.key(PACKS))).try_collect::<Vec<_>>();
        let listed = wait(listed)?.map_err(io_error)?;
        let mut packs = BTreeMap::new();
        let mut arrivals = self.arrivals.lock();
        for object in listed {
            if let Some(pack) = self.pack_of(&object.location) {
                packs.insert(pack, object.size);
                arrivals.insert(pack, object.last_modified.into());
            }
        }
        Ok(packs)
    }

    /// Asks the store for the size of a pack in bytes; `None` if the pack does not exist.
    pub(crate) fn find(&self, pack: PackNumber) -> io::Result<Option<u64>> {
        match wait(self.store.head(&self.pack_key(pack)))?.map_err(io_error) {
            Ok(object) => {
                self.arrivals.lock().insert(pack, object.last_modified.into());
                Ok(Some(object.size))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the time at which the pack arrived in the store, if this process knows it.
    pub(crate) fn arrival(&self, pack: PackNumber) -> Option<SystemTime> {
        self.arrivals.lock().get(&pack).copied()
    }

    /// Removes a pack from the store, and all local copies of it.
    pub(crate) fn remove(&self, pack: PackNumber) -> io::Result<()> {
        self.check_lease()?;
        self.delete(&self.pack_key(pack))?;
        self.forget(pack);
        self.forget_lock(pack);
        self.arrivals.lock().remove(&pack);
        Ok(())
    }

    /// Drops all local copies of the pack, because the store has changed or removed the pack.
    pub(crate) fn forget(&self, pack: PackNumber) {
        self.cache().forget(pack);
        self.segments.lock().forget(pack);
    }

    /// Takes note that the store has received the sealed pack whose file lies in the folder. The
    /// file is kept for a while.
    fn note_arrival(&self, table: &Table, bytes: u64) {
        let now = Duration::from_micros(sys::clock::system().0.unsigned_abs());
        self.arrivals.lock().insert(table.pack, SystemTime::UNIX_EPOCH + now);
        self.segments.lock().forget(table.pack);
        let mut cache = self.cache();
        cache.add(table.pack, bytes);
        cache.add_table(table);
    }
}

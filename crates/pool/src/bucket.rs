//! Pools whose packs are objects of a bucket, in an object store that speaks the protocol of S3.
//!
//! ```text
//!   append --> file in the pool's folder --> parts of 8 MiB, as they fill --> complete
//!                  | while it is open             several at once              with each sync
//!                  v
//!   read <-- what the folder still has, else <-- segments: a range each, read ahead where
//!                                                 somebody reads on
//! ```
//!
//! An object is there as a whole or not at all: so every [`crate::Pools::sync`] ends the packs that
//! are open, and each is durable once the store has said so. Most of it is with the store by then.
//! Nothing in the folder is needed: it holds what need not be asked for again.
//!
//! The objects of a pool, below the prefix of its URL:
//!
//! - `holdfast-pool`: whose pool it is.
//! - `packs/0000000/0000000001.pack`: as in a folder.
//! - `catalogue/NAME`: files beside the packs.

mod connect;
mod credentials;
mod files;
mod kept;
mod location;
mod lock;
mod orphans;
mod request;
mod segments;
mod upload;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
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
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::folder;
use kept::Kept;
use request::Requests;
use segments::Segments;

pub use credentials::use_variables;
pub use location::{BucketUrl, BucketUrlError};
pub(crate) use lock::each_of;
pub(crate) use upload::{Finishing, Upload};

/// Parts of packs that are on their way to the store at once at most, each in memory.
const PARTS_MAX: usize = 8;
/// Ranges that are on their way from the store at once at most.
const FETCHES_MAX: usize = 16;
/// The table of a pack of common files lies within so many bytes before its end.
const END_BYTES: u64 = 512 << 10;
/// Threads that speak with stores.
const THREADS: usize = 2;
/// Objects whose keys begin with this are packs.
const PACKS: &str = "packs";
pub(crate) const MARK: &str = "holdfast-pool";

/// A pool's objects. All methods may be called from any thread that may block.
pub struct Bucket {
    url: BucketUrl,
    store: AmazonS3,
    requests: Requests,
    /// Holds files of packs that are open, and what is kept of sealed ones.
    folder: PathBuf,
    sending: Semaphore,
    fetching: Semaphore,
    /// When packs came, as last listed or sent.
    arrivals: Mutex<BTreeMap<PackNumber, SystemTime>>,
    kept: Mutex<Kept>,
    segments: Mutex<Segments>,
    locks: Mutex<Locks>,
    /// Until when the store keeps packs that were to go.
    stuck: Mutex<Locks>,
}

/// Until when packs stay at least, as far as this process knows.
type Locks = BTreeMap<PackNumber, ServerTime>;

/// The bucket of a pool; the same one is equal.
#[derive(Clone)]
pub struct Bucketed(pub Arc<Bucket>);

impl PartialEq for Bucketed {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Bucketed {}

impl std::fmt::Debug for Bucketed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bucketed({})", self.0.url)
    }
}

/// The runtime that all buckets share; it is made when the first one is.
fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("bucket")
        .enable_all()
        .build()?;
    Ok(RUNTIME.get_or_init(|| made))
}

fn wait<T>(future: impl Future<Output = T>) -> io::Result<T> {
    Ok(runtime()?.block_on(future))
}

/// What the store says, as disks say it.
fn io_error(error: object_store::Error) -> io::Error {
    use object_store::Error;
    let kind = match &error {
        Error::NotFound { .. } => io::ErrorKind::NotFound,
        Error::AlreadyExists { .. } | Error::Precondition { .. } => io::ErrorKind::AlreadyExists,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            let text = model::chain(&error);
            // Ceph and Garage forbid what goes beyond a quota.
            if ["QuotaExceeded", "quota is reached"].iter().any(|word| text.contains(word)) {
                io::ErrorKind::StorageFull
            } else {
                io::ErrorKind::PermissionDenied
            }
        }
        _ => {
            let text = model::chain(&error);
            let is_full = ["QuotaExceeded", "XMinioStorageFull", "507 Insufficient Storage"]
                .iter()
                .any(|word| text.contains(word));
            if is_full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other }
        }
    };
    let text = model::chain(&error);
    // The address at which machines of a cloud are told their keys: nobody else has said any.
    if text.contains("169.254.169.254") {
        let help = "no keys for the object store were found: name a file with ?credentials=FILE, \
                    or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
        return io::Error::new(io::ErrorKind::PermissionDenied, help);
    }
    io::Error::new(kind, text)
}

impl Bucket {
    /// The bucket at `url`, with `folder` for what is kept of it: at most `kept_bytes`. Asks the
    /// store nothing yet.
    pub fn new(url: BucketUrl, folder: &Path, kept_bytes: u64) -> io::Result<Self> {
        // What reads credentials and names asks for a runtime.
        let _entered = runtime()?.enter();
        let store = url.store()?;
        let requests = Requests::new(&url)?;
        let mut kept = Kept::new(folder, kept_bytes);
        // Files of packs that were open when their server ended: nobody was told of them.
        kept.begin()?;
        Ok(Self {
            url,
            store,
            requests,
            folder: folder.to_owned(),
            sending: Semaphore::new(PARTS_MAX),
            fetching: Semaphore::new(FETCHES_MAX),
            arrivals: Mutex::default(),
            kept: Mutex::new(kept),
            segments: Mutex::default(),
            locks: Mutex::default(),
            stuck: Mutex::default(),
        })
    }

    /// Where it is, as it is shown.
    pub fn url(&self) -> &BucketUrl {
        &self.url
    }

    fn arrivals(&self) -> MutexGuard<'_, BTreeMap<PackNumber, SystemTime>> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn segments(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, name: &str) -> Key {
        self.url.prefix().clone().join(name)
    }

    fn pack_key(&self, pack: PackNumber) -> Key {
        let path = folder::path(Path::new(""), pack);
        let parts = path.iter().filter_map(|part| part.to_str());
        parts.fold(self.key(PACKS), |key, part| key.join(part))
    }

    fn pack_of(&self, key: &Key) -> Option<PackNumber> {
        folder::number(key.filename()?)
    }

    /// How objects are put: of the storage class that the pool has.
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

    /// Removes an object, if it is there.
    fn delete(&self, key: &Key) -> io::Result<()> {
        if self.has_locks() {
            return self.delete_versions(key);
        }
        match wait(self.store.delete(key))?.map_err(io_error) {
            // Without its bucket it may be there again when that is.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && !error.to_string().contains("NoSuchBucket") =>
            {
                Ok(())
            }
            other => other,
        }
    }

    /// Whose pool it is, as its mark says; `None` where it has none.
    pub fn read_mark(&self) -> io::Result<Option<Vec<u8>>> {
        match self.get(&self.key(MARK)) {
            Ok(text) => Ok(Some(text.to_vec())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn write_mark(&self, text: &[u8]) -> io::Result<()> {
        self.check_locks()?;
        self.put(&self.key(MARK), Bytes::copy_from_slice(text))
    }

    pub(crate) fn remove_mark(&self) -> io::Result<()> {
        self.delete(&self.key(MARK))
    }

    /// Asks for all packs, with their bytes.
    pub(crate) fn list(&self) -> io::Result<BTreeMap<PackNumber, u64>> {
        if self.has_locks() {
            self.check_locks()?;
            self.uncover_below(&self.key(PACKS))?;
        }
        let listed = self.store.list(Some(&self.key(PACKS))).try_collect::<Vec<_>>();
        let listed = wait(listed)?.map_err(io_error)?;
        let mut packs = BTreeMap::new();
        let mut arrivals = self.arrivals();
        for object in listed {
            if let Some(pack) = self.pack_of(&object.location) {
                packs.insert(pack, object.size);
                arrivals.insert(pack, object.last_modified.into());
            }
        }
        Ok(packs)
    }

    /// Asks for the bytes of a pack; `None` where it is not there.
    pub(crate) fn find(&self, pack: PackNumber) -> io::Result<Option<u64>> {
        match wait(self.store.head(&self.pack_key(pack)))?.map_err(io_error) {
            Ok(object) => {
                self.arrivals().insert(pack, object.last_modified.into());
                Ok(Some(object.size))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn arrival(&self, pack: PackNumber) -> Option<SystemTime> {
        self.arrivals().get(&pack).copied()
    }

    /// Removes a pack, and what is kept of it.
    pub(crate) fn remove(&self, pack: PackNumber) -> io::Result<()> {
        self.delete(&self.pack_key(pack))?;
        self.forget(pack);
        self.forget_lock(pack);
        self.arrivals().remove(&pack);
        Ok(())
    }

    /// Keeps nothing of the pack: it is another one now, or gone.
    pub(crate) fn forget(&self, pack: PackNumber) {
        self.kept().forget(pack);
        self.segments().forget(pack);
    }

    /// The whole pack, if its file is still in the folder.
    pub(crate) fn kept_file(&self, pack: PackNumber) -> Option<File> {
        self.kept().file(pack)
    }

    /// The sealed pack whose file lies in the folder is with the store: the file is kept for a
    /// while, and counts as what has come just now.
    fn arrived(&self, table: &Table, bytes: u64) {
        let now = Duration::from_micros(sys::clock::system().0.unsigned_abs());
        self.arrivals().insert(table.pack, SystemTime::UNIX_EPOCH + now);
        self.segments().forget(table.pack);
        let mut kept = self.kept();
        kept.add(table.pack, bytes);
        kept.add_table(table);
    }

    /// The table of a pack, if it is kept.
    pub(crate) fn kept_table(&self, pack: PackNumber) -> Option<Table> {
        self.kept().table(pack)
    }

    pub(crate) fn keep_table(&self, table: &Table) {
        self.kept().add_table(table);
    }

    /// Sends the file of a sealed pack, `path`, and keeps it for a while under the pack's name.
    pub(crate) fn send(self: &Arc<Self>, table: &Arc<Table>, path: &Path) -> io::Result<()> {
        let file = Arc::new(File::open(path)?);
        let bytes = file.metadata()?.len();
        self.forget(table.pack);
        self.forget_lock(table.pack);
        let kept = folder::path(&self.folder, table.pack);
        std::fs::rename(path, &kept)?;
        let mut upload = Upload::new(Arc::clone(self), table.pack, file);
        let sent = upload.advance(bytes).and_then(|()| upload.finish(bytes, table)?.wait());
        sent.inspect_err(|_| drop(std::fs::remove_file(&kept)))
    }

    /// The bytes of the pack in `range`, which lies within it.
    pub(crate) fn read(
        self: &Arc<Self>,
        pack: PackNumber,
        range: std::ops::Range<u64>,
        pack_bytes: u64,
    ) -> io::Result<Vec<u8>> {
        if let Some(file) = self.kept_file(pack) {
            let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
            let mut bytes = vec![0; length];
            if file.read_exact_at(&mut bytes, range.start).is_ok() {
                return Ok(bytes);
            }
            // Somebody has been at the folder; the store has it.
            self.kept().forget(pack);
        }
        segments::read(self, pack, &range, pack_bytes)
    }

    /// Has the bytes of the pack in `range` be on their way when they are read.
    pub(crate) fn read_ahead(self: &Arc<Self>, pack: PackNumber, range: std::ops::Range<u64>) {
        let is_kept = self.kept().has(pack);
        if !is_kept && let Err(error) = segments::begin(self, pack, range) {
            tracing::debug!(%error, "nothing is read ahead");
        }
    }

    /// The same of the end of a pack of `bytes`, which has its table, unless that is kept.
    pub(crate) fn read_end_ahead(self: &Arc<Self>, pack: PackNumber, bytes: u64) {
        if !self.kept().has_table(pack) {
            self.read_ahead(pack, bytes.saturating_sub(END_BYTES)..bytes);
        }
    }

    /// Ends uploads that nobody goes on with: all, or those of packs below a number. Returns how
    /// many there were.
    pub fn end_orphans(&self, below: Option<PackNumber>) -> io::Result<usize> {
        let is_orphan = |name: &str| {
            below.is_none_or(|below| folder::number(name).is_some_and(|pack| pack < below))
        };
        wait(orphans::end(&self.url, (&self.store, &self.requests), is_orphan))?
    }
}

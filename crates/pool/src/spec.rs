//! A pool as its administrator has defined it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use model::PoolId;

use crate::bucket::Bucket;
use crate::mark::Mark;
use crate::owner::Owner;
use crate::shelf::Shelf;
use crate::storage::PackStorage;
use crate::storage::bucket::BucketStorage;
use crate::storage::folder::FolderStorage;
use crate::storage::shelf::ShelfStorage;

/// The purpose of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A pool that holds the first copy of packs.
    Primary,
    /// A pool that holds second copies of the packs of all primary pools.
    Copy,
}

/// The kind of storage that holds the packs of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Storage {
    /// The pool's local folder.
    Folder,
    /// Volumes. No new packs are made there.
    Shelf(Arc<dyn Shelf>),
    /// An object store.
    Bucket(Arc<Bucket>),
}

/// Definition of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSpec {
    pub id: PoolId,
    /// The pool's local folder. A pool whose packs lie elsewhere keeps only its state files here.
    pub folder: PathBuf,
    pub role: Role,
    pub mark: Mark,
    /// Maximum size of all packs of the pool together, in bytes; `None` for no limit.
    pub capacity_bytes: Option<u64>,
    /// The pool for new packs when this pool is full.
    pub next: Option<PoolId>,
    pub storage: Storage,
}

impl PoolSpec {
    /// Opens the storage. Only this function depends on the kind of the storage.
    pub(crate) fn open_storage(&self) -> Arc<dyn PackStorage> {
        match &self.storage {
            Storage::Folder => {
                Arc::new(FolderStorage::new(&self.folder, self.role == Role::Primary))
            }
            Storage::Shelf(shelf) => Arc::new(ShelfStorage::new(&self.folder, Arc::clone(shelf))),
            Storage::Bucket(bucket) => {
                Arc::new(BucketStorage::new(&self.folder, Arc::clone(bucket)))
            }
        }
    }

    /// Returns the place as it is shown to people: a folder or a URL.
    pub fn place(&self) -> PathBuf {
        self.open_storage().files().place()
    }

    /// Reads the mark at the pool's place, if there is one.
    pub fn read_mark(&self) -> io::Result<Option<Mark>> {
        self.open_storage().files().read_mark()
    }

    /// Marks the pool's place. Fails with `AlreadyExists` if it has the mark of another pool.
    pub fn put_mark(&self) -> io::Result<()> {
        self.open_storage().files().write_mark(self.mark)
    }

    /// Removes the mark from a place that is no longer a pool.
    pub fn remove_mark(&self) -> io::Result<()> {
        self.open_storage().files().remove_mark()
    }

    /// Reads the identity of the server that writes to the pool; `None` if no server is recorded.
    pub fn read_owner(&self) -> io::Result<Option<Owner>> {
        self.open_storage().files().read_owner()
    }

    /// Makes `owner` the server that writes to the pool.
    pub fn put_owner(&self, owner: Owner) -> io::Result<()> {
        self.open_storage().files().write_owner(owner)
    }

    /// Returns true if another process uses the pool's bucket. The caller has the lock on the
    /// folder of the server `own`. Takes up to a minute if the bucket has the lease of another
    /// server, or of another start of the machine. A pool in a folder has a lock instead.
    pub fn is_leased_by_another(&self, own: Option<Owner>) -> io::Result<bool> {
        self.bucket().map_or(Ok(false), |bucket| bucket.is_leased_by_another(own))
    }

    /// Takes the lease of the pool's bucket, which no other server may have.
    pub fn take_lease(&self, owner: Owner) -> io::Result<()> {
        self.bucket().map_or(Ok(()), |bucket| bucket.take_lease(owner))
    }

    /// Renews the lease of the pool's bucket when it is time. Returns false if another server has
    /// the lease now.
    pub fn renew_lease(&self) -> io::Result<bool> {
        self.bucket().map_or(Ok(true), |bucket| bucket.renew_lease())
    }

    /// Gives back the lease of the pool's bucket.
    pub fn release_lease(&self) -> io::Result<()> {
        self.bucket().map_or(Ok(()), |bucket| bucket.release_lease())
    }

    fn bucket(&self) -> Option<&Bucket> {
        match &self.storage {
            Storage::Bucket(bucket) => Some(bucket),
            Storage::Folder | Storage::Shelf(_) => None,
        }
    }

    /// Returns true if the pool has no packs.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.open_storage().list(&|_| Some(0))?.is_empty())
    }
}

/// Returns true if the pool's storage is available and has the mark of this pool.
pub fn is_marked(spec: &PoolSpec) -> bool {
    spec.open_storage().files().is_marked(spec.mark)
}

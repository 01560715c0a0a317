//! The shelf of a pool on volumes: the storage that the crate `pool` sees.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use sys::lock::{Mutex, MutexGuard};

use catalog::PoolRow;
use catalog::Write;
use model::{PackNumber, PoolId, ServerTime};
use pool::{ReadError, Shelf};

use super::holdings::{Volumes, library_of};
use super::wait::Reader;

/// The shelf of one pool.
///
/// Invariant: `arrivals` has each pack that the pool had when its packs were listed last.
pub(super) struct PoolShelf {
    volumes: Arc<Volumes>,
    pool: PoolId,
    arrivals: Mutex<HashMap<PackNumber, ServerTime>>,
}

impl PoolShelf {
    pub(super) fn new(volumes: Arc<Volumes>, pool: PoolId) -> Self {
        Self { volumes, pool, arrivals: Mutex::default() }
    }

    fn arrivals(&self) -> MutexGuard<'_, HashMap<PackNumber, ServerTime>> {
        self.arrivals.lock()
    }
}

impl Shelf for PoolShelf {
    fn packs(&self) -> io::Result<BTreeMap<PackNumber, u64>> {
        let stored = self.volumes.catalog.stored_packs(self.pool).map_err(io::Error::other)?;
        *self.arrivals() = stored.iter().map(|stored| (stored.pack, stored.stored)).collect();
        Ok(stored.into_iter().map(|stored| (stored.pack, stored.bytes)).collect())
    }

    fn open(&self, pack: PackNumber) -> Result<File, ReadError> {
        self.volumes.fetch(pack, (&Reader::server(), true))
    }

    fn forget(&self, pack: PackNumber) -> io::Result<()> {
        let removal = Write::RemoveParts { pool: self.pool, pack };
        let removed = self.volumes.catalog.commit(vec![removal]);
        removed.map_err(|error| io::Error::other(model::chain(&error)))?;
        self.arrivals().remove(&pack);
        self.volumes.stage.forget(pack);
        Ok(())
    }

    fn arrival(&self, pack: PackNumber) -> Option<SystemTime> {
        let micros = match self.arrivals().get(&pack) {
            Some(time) => time.0,
            // The pack has arrived since the last listing.
            None => sys::clock::now().0,
        };
        Some(SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).ok()?))
    }
}

impl Volumes {
    /// Returns the shelf of the pool, which is the same at each call. Returns `None` for a pool
    /// that is not on volumes.
    pub fn shelf(self: &Arc<Self>, pool: &PoolRow) -> Option<Arc<dyn Shelf>> {
        library_of(&pool.url)?;
        let new = || Arc::new(PoolShelf::new(Arc::clone(self), pool.id)) as Arc<dyn Shelf>;
        Some(self.shelf_or_insert(pool.id, new))
    }
}

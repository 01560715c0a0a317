//! A pool on volumes, as `pool` sees it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use catalog::Write;
use model::{PackNumber, PoolId, ServerTime};
use pool::{ReadError, Shelf};

use super::Volumes;
use super::fetch::Who;

/// Invariant: `arrivals` are the packs that the catalogue has of the pool.
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
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf for PoolShelf {
    fn packs(&self) -> io::Result<BTreeMap<PackNumber, u64>> {
        let stored = self.volumes.catalog.stored_packs(self.pool).map_err(io::Error::other)?;
        *self.arrivals() = stored.iter().map(|stored| (stored.pack, stored.stored)).collect();
        Ok(stored.into_iter().map(|stored| (stored.pack, stored.bytes)).collect())
    }

    fn open(&self, pack: PackNumber) -> Result<File, ReadError> {
        self.volumes.fetch(self.pool, pack, (&Who::server(), true))
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
            // It has come since the start.
            None => sys::clock::now().0,
        };
        Some(SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).ok()?))
    }
}

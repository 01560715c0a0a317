//! The libraries of a server and their volumes, with their state while the server is running.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use catalog::actor::SERVER;
use catalog::{Catalog, EventRow, VolumeAccess, VolumeRow, Write};
use model::{PackNumber, PoolId};
use pool::Shelf;
use sys::lock::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};
use tape::operator::{Event, Listener};

use super::error::LibraryError;
use super::failures::RecentFailures;
use super::site::{Site, is_same};
use super::stage::Stage;
use super::wait::WaitList;
use crate::error::StoreError;
use crate::folder::error::OpenError;

/// Scheme of a pool's URL before the name of its library.
const SCHEME: &str = "tape:";
/// Folder of the stage, in the server's folder.
const STAGE: &str = "stage";

/// Returns the name of the library of the pool at `url`; `None` for a pool that is not on volumes.
pub(crate) fn library_of(url: &str) -> Option<&str> {
    url.strip_prefix(SCHEME).filter(|name| !name.is_empty())
}

/// All libraries and their volumes. All sessions share this value.
pub struct Volumes {
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) stage: Arc<Stage>,
    sites: RwLock<Vec<Arc<Site>>>,
    /// Rows of all volumes, equal to the rows in the catalogue.
    rows: Mutex<BTreeMap<u64, VolumeRow>>,
    shelves: Mutex<BTreeMap<PoolId, Arc<dyn Shelf>>>,
    /// Lock for labelling a volume.
    labelling: Mutex<()>,
    /// Lock for changing a volume's row.
    changing: Mutex<()>,
    pub(super) failures: RecentFailures,
    /// Packs on the stage with a part that is lost.
    salvaged: Mutex<HashSet<PackNumber>>,
    pub(crate) waits: WaitList,
}

impl Volumes {
    /// Opens the libraries that the catalogue knows. The server starts even if a library cannot be
    /// used.
    pub fn open(
        catalog: Arc<dyn Catalog>,
        folder: &Path,
        stage_bytes: u64,
    ) -> Result<Arc<Self>, OpenError> {
        let stage = Stage::open(folder.join(STAGE), stage_bytes)
            .map_err(|source| OpenError::File { path: folder.to_owned(), source })?;
        let rows = catalog.volumes()?.into_iter().map(|row| (row.id, row)).collect();
        let libraries = catalog.libraries()?;
        let volumes = Arc::new(Self {
            catalog,
            stage: Arc::new(stage),
            sites: RwLock::default(),
            rows: Mutex::new(rows),
            shelves: Mutex::default(),
            labelling: Mutex::default(),
            changing: Mutex::default(),
            failures: RecentFailures::default(),
            salvaged: Mutex::default(),
            waits: WaitList::default(),
        });
        for library in libraries {
            let site = volumes.open_site(library);
            volumes.sites_mut().push(site);
        }
        Ok(volumes)
    }

    pub(crate) fn sites_mut(&self) -> RwLockWriteGuard<'_, Vec<Arc<Site>>> {
        self.sites.write()
    }

    pub(crate) fn sites(&self) -> Vec<Arc<Site>> {
        self.sites.read().clone()
    }

    pub(crate) fn rows(&self) -> MutexGuard<'_, BTreeMap<u64, VolumeRow>> {
        self.rows.lock()
    }

    /// Keeps others from labelling a volume until the guard is dropped.
    pub(crate) fn label_alone(&self) -> MutexGuard<'_, ()> {
        self.labelling.lock()
    }

    /// Returns the shelf of the pool; the first call makes it with `new`.
    pub(crate) fn shelf_or_insert(
        &self,
        pool: PoolId,
        new: impl FnOnce() -> Arc<dyn Shelf>,
    ) -> Arc<dyn Shelf> {
        Arc::clone(self.shelves.lock().entry(pool).or_insert_with(new))
    }

    /// Notes that the pack on the stage lacks a part that is lost.
    pub(crate) fn note_salvaged(&self, pack: PackNumber) {
        self.salvaged.lock().insert(pack);
    }

    /// Drops a salvaged pack from the stage, so that the next reader tries to read it whole.
    pub(crate) fn drop_salvaged(&self, pack: PackNumber) {
        if self.salvaged.lock().remove(&pack) {
            self.stage.forget(pack);
        }
    }

    /// Forgets all failures, and drops all salvaged packs: a volume may have come back.
    pub(crate) fn forget_failures(&self) {
        self.failures.clear();
        self.salvaged.lock().drain().for_each(|pack| self.stage.forget(pack));
    }

    /// The volume's row.
    pub(crate) fn row(&self, volume: u64) -> Option<VolumeRow> {
        self.rows().get(&volume).cloned()
    }

    /// Returns the library `name`.
    pub(crate) fn site(&self, name: &str) -> Result<Arc<Site>, LibraryError> {
        let sites = self.sites();
        let found = sites.into_iter().find(|site| is_same(&site.name, name));
        found.ok_or_else(|| LibraryError::Unknown { library: name.to_owned() })
    }

    /// True for a pack on the stage: nobody has to wait for it.
    pub fn is_staged(&self, pack: PackNumber) -> bool {
        self.stage.has(pack)
    }

    /// Number of volumes that belong to the pool.
    pub fn count_of(&self, pool: PoolId) -> u32 {
        let count = self.rows().values().filter(|row| row.pool == Some(pool)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Writes rows of volumes and of the packs on them.
    pub(crate) fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        let changed: Vec<VolumeRow> = writes
            .iter()
            .filter_map(|write| match write {
                Write::PutVolume(row) => Some(row.clone()),
                _ => None,
            })
            .collect();
        assert!(changed.iter().all(|row| row.id != 0), "a volume has a number before it changes");
        self.catalog.commit(writes)?;
        self.rows().extend(changed.into_iter().map(|row| (row.id, row)));
        Ok(())
    }

    /// Changes the present row of a volume, and writes it with `others` in one batch.
    pub(crate) fn change(
        &self,
        volume: u64,
        others: Vec<Write>,
        change: impl FnOnce(&mut VolumeRow),
    ) -> Result<VolumeRow, StoreError> {
        let _one_at_a_time = self.changing.lock();
        let row = self.row(volume);
        let mut row =
            row.ok_or_else(|| StoreError::not_found("the volume has been removed meanwhile"))?;
        change(&mut row);
        assert_eq!(row.id, volume, "a volume keeps its number");
        let writes = std::iter::once(Write::PutVolume(row.clone())).chain(others);
        self.commit(writes.collect())?;
        Ok(row)
    }

    /// Records a problem with a volume. `access` is the new access to the volume, if it changes.
    pub(crate) fn note_trouble(
        &self,
        volume: u64,
        access: Option<VolumeAccess>,
        reason: &str,
    ) -> Result<(), StoreError> {
        let Some(row) = self.row(volume) else { return Ok(()) };
        tracing::warn!(volume = row.name, reason, "there was a problem with a volume");
        let details = format!("{}: {reason}", row.name);
        let event = self.event(SERVER, "volume trouble", details);
        let changed = self.change(volume, vec![event], |row| {
            row.errors += 1;
            // The access to a volume that cannot be read is not changed.
            let is_usable = matches!(row.access, VolumeAccess::ReadWrite | VolumeAccess::ReadOnly);
            if let Some(access) = access.filter(|_| is_usable) {
                row.access = access;
            }
        });
        changed.map(drop)
    }

    pub(crate) fn event(&self, actor: &str, what: &str, details: String) -> Write {
        let (actor, what) = (actor.to_owned(), what.to_owned());
        Write::AddEvent(EventRow { time: sys::clock::now(), actor, what, details })
    }

    /// Returns a listener for the events of a library.
    pub(crate) fn listener(self: &Arc<Self>, library: &str) -> Listener {
        let (volumes, library) = (Arc::downgrade(self), library.to_owned());
        Box::new(move |event| {
            if let Some(volumes) = volumes.upgrade()
                && let Err(error) = volumes.hear(&library, event)
            {
                let error = model::chain(&error);
                tracing::error!(library, error, "an event of a library cannot be recorded");
            }
        })
    }

    pub(crate) fn hear(&self, library: &str, event: Event) -> Result<(), StoreError> {
        match event {
            Event::Missing { volume, reason } => {
                self.note_trouble(volume.0, Some(VolumeAccess::Unavailable), &reason)
            }
            Event::Damaged { volume, reason } => self.note_trouble(volume.0, None, &reason),
            Event::ChangerFailed { drive, reason } => {
                tracing::error!(library, drive, reason, "the robot did not bring a volume");
                let details = format!("to drive {drive} of {library}: {reason}");
                self.commit(vec![self.event(SERVER, "changer failed", details)])
            }
            Event::DriveFailed { drive, reason } => {
                tracing::error!(library, drive, reason, "a drive has failed");
                let details = format!("drive {drive} of {library}: {reason}");
                self.commit(vec![self.event(SERVER, "drive failed", details)])
            }
            Event::Alert { drive, alert } => {
                tracing::warn!(library, drive, %alert, "a drive has raised an alert");
                let details = format!("drive {drive} of {library}: {alert}");
                self.commit(vec![self.event(SERVER, "drive alert", details)])
            }
        }
    }
}

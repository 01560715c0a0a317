//! Pools whose packs lie on volumes, on tape or in files that stand for tapes.
//!
//! ```text
//!   pools::tend --write--> volumes of the pool          reclaim: what is left of nearly dead ones
//!   restore, recall --ahead, fetch--> stage (whole packs on disk) --shelf--> pool::Pools
//!                          |
//!                     operator of each library: one queue for all, see tape::schedule
//! ```
//!
//! What is read is always a whole pack: beside the seconds that a tape winds, 64 MiB are a fifth of
//! a second, and neighbours that are wanted soon are on disk then. Where packs lie is in the
//! catalogue; volumes tell it too, so that they can be read without one.

mod choose;
mod fetch;
mod import;
mod libraries;
mod listing;
mod plan;
mod reclaim;
mod shelf;
mod site;
mod stage;
mod work;
mod write;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use catalog::{Catalog, EventRow, PoolRow, VolumeAccess, VolumeRow, Write};
use pool::Shelved;
use tape::operator::{Event, Listener};
use tonic::Status;

use crate::refusal;
use crate::run::RunError;

pub(crate) use fetch::{Ahead, Wait, Who};
pub(crate) use import::import;
pub(crate) use plan::stage_copies;
pub(crate) use reclaim::{
    Watching, audit, bring, free, reclaim, staged_max, vacate, worth_rewriting,
};
pub(crate) use write::{Carrying, write};

use shelf::PoolShelf;
use site::{Site, is_same};
use stage::Stage;

/// What stands in front of a library's name in the URL of a pool.
const SCHEME: &str = "tape:";
const STAGE: &str = "stage";
/// Who does what is recorded.
const SERVER: &str = "server";
const ADMINISTRATOR: &str = "administrator";

/// The library of the pool at `url`, if it is on volumes.
pub(crate) fn library_of(url: &str) -> Option<&str> {
    url.strip_prefix(SCHEME).filter(|name| !name.is_empty())
}

/// All libraries and their volumes. Shared by all sessions.
pub(crate) struct Volumes {
    catalog: Arc<dyn Catalog>,
    stage: Arc<Stage>,
    sites: RwLock<Vec<Arc<Site>>>,
    /// As the catalogue has them.
    rows: Mutex<BTreeMap<u64, VolumeRow>>,
    shelves: Mutex<BTreeMap<model::PoolId, Shelved>>,
    /// Held while a volume is labelled.
    labelling: Mutex<()>,
    /// Held while a volume's row is changed.
    changing: Mutex<()>,
    /// Packs that could not be had lately, and why: each of their quanta is asked for.
    failures: Mutex<HashMap<model::PackNumber, (Instant, String)>>,
    /// Packs on the stage of which a part is lost.
    salvaged: Mutex<HashSet<model::PackNumber>>,
    waits: Mutex<BTreeMap<u64, Arc<Wait>>>,
    last_wait: AtomicU64,
}

impl Volumes {
    /// Takes over the libraries that the catalogue knows. One that cannot be used is no reason not
    /// to start.
    pub(crate) fn open(
        catalog: Arc<dyn Catalog>,
        folder: &Path,
        stage_bytes: u64,
    ) -> Result<Arc<Self>, RunError> {
        let stage = Stage::open(folder.join(STAGE), stage_bytes)
            .map_err(|source| RunError::Folder { folder: folder.to_owned(), source })?;
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
            failures: Mutex::default(),
            salvaged: Mutex::default(),
            waits: Mutex::default(),
            last_wait: AtomicU64::new(0),
        });
        for library in libraries {
            let site = volumes.open_site(library);
            volumes.sites_mut().push(site);
        }
        Ok(volumes)
    }

    fn sites_mut(&self) -> std::sync::RwLockWriteGuard<'_, Vec<Arc<Site>>> {
        self.sites.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn sites(&self) -> Vec<Arc<Site>> {
        self.sites.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn rows(&self) -> MutexGuard<'_, BTreeMap<u64, VolumeRow>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The volume's row.
    fn row(&self, volume: u64) -> Option<VolumeRow> {
        self.rows().get(&volume).cloned()
    }

    /// The library called `name`.
    pub(crate) fn site(&self, name: &str) -> Result<Arc<Site>, String> {
        let sites = self.sites();
        let found = sites.into_iter().find(|site| is_same(&site.name, name));
        found.ok_or_else(|| format!("there is no library {name}"))
    }

    /// What has the packs of the pool, if they lie on volumes: always the same.
    pub(crate) fn shelf(self: &Arc<Self>, pool: &PoolRow) -> Option<Shelved> {
        library_of(&pool.url)?;
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Shelved(Arc::new(PoolShelf::new(Arc::clone(self), pool.id)));
        Some(shelves.entry(pool.id).or_insert_with(new).clone())
    }

    /// Whether the pack need not be waited for.
    fn is_staged(&self, pack: model::PackNumber) -> bool {
        self.stage.has(pack)
    }

    /// Volumes that belong to the pool.
    pub(crate) fn count_of(&self, pool: model::PoolId) -> u32 {
        let count = self.rows().values().filter(|row| row.pool == Some(pool)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Writes rows of volumes and of what lies on them.
    fn commit(&self, writes: Vec<Write>) -> Result<(), Status> {
        let changed: Vec<VolumeRow> = writes
            .iter()
            .filter_map(|write| match write {
                Write::PutVolume(row) => Some(row.clone()),
                _ => None,
            })
            .collect();
        self.catalog.commit(writes).map_err(|error| refusal::catalog(&error))?;
        self.rows().extend(changed.into_iter().map(|row| (row.id, row)));
        Ok(())
    }

    /// Changes a volume's row, as it is by then, and writes it with `others`.
    fn change(
        &self,
        volume: u64,
        others: Vec<Write>,
        change: impl FnOnce(&mut VolumeRow),
    ) -> Result<VolumeRow, Status> {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let row = self.row(volume);
        let mut row = row.ok_or_else(|| Status::not_found("the volume is not known any more"))?;
        change(&mut row);
        let writes = std::iter::once(Write::PutVolume(row.clone())).chain(others);
        self.commit(writes.collect())?;
        Ok(row)
    }

    /// Notes that a volume has given trouble, and what may be done with it from now on.
    fn note_trouble(
        &self,
        volume: u64,
        access: Option<VolumeAccess>,
        reason: &str,
    ) -> Result<(), Status> {
        let Some(row) = self.row(volume) else { return Ok(()) };
        tracing::warn!(volume = row.name, reason, "a volume gives trouble");
        let details = format!("{}: {reason}", row.name);
        let event = self.event(SERVER, "volume trouble", details);
        let changed = self.change(volume, vec![event], |row| {
            row.errors += 1;
            // What is worse already stays.
            let is_usable = matches!(row.access, VolumeAccess::ReadWrite | VolumeAccess::ReadOnly);
            if let Some(access) = access.filter(|_| is_usable) {
                row.access = access;
            }
        });
        changed.map(drop)
    }

    fn event(&self, actor: &str, what: &str, details: String) -> Write {
        let (actor, what) = (actor.to_owned(), what.to_owned());
        Write::AddEvent(EventRow { time: sys::clock::now(), actor, what, details })
    }

    /// Hears what happens in a library.
    fn listener(self: &Arc<Self>, library: &str) -> Listener {
        let (volumes, library) = (Arc::downgrade(self), library.to_owned());
        Box::new(move |event| {
            if let Some(volumes) = volumes.upgrade()
                && let Err(status) = volumes.hear(&library, event)
            {
                tracing::error!(library, error = status.message(), "an event is not recorded");
            }
        })
    }

    fn hear(&self, library: &str, event: Event) -> Result<(), Status> {
        match event {
            Event::Missing { volume, reason } => {
                self.note_trouble(volume.0, Some(VolumeAccess::Unavailable), &reason)
            }
            Event::Damaged { volume, reason } => self.note_trouble(volume.0, None, &reason),
            Event::RobotFailed { drive, reason } => {
                tracing::error!(library, drive, reason, "the robot did not bring a volume");
                let details = format!("to drive {drive} of {library}: {reason}");
                self.commit(vec![self.event(SERVER, "robot failed", details)])
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

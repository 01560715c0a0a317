//! Place of the server's catalogue, and the processes that may use it.
//!
//! A catalogue in a file belongs to the process that has the lock on the server's folder. A
//! catalogue in a database belongs to all servers of a fleet, see [`crate::fleet`]. While a process
//! moves such a catalogue, it belongs to that process alone.

use std::path::Path;
use std::sync::Arc;

use catalog::postgres::{Postgres, is_postgres};
use catalog::sqlite::Sqlite;
use catalog::{Catalog, CatalogError, Location, MoveState};

use crate::fleet::Fleet;
use crate::folder::OpenError;
use crate::folder::config::{self, CATALOG_FILE, Config};
use crate::folder::hold;
use crate::ownership::Ownership;

/// An open catalogue.
#[derive(Clone)]
pub enum Database {
    File(Arc<Sqlite>),
    Shared(Arc<Postgres>),
}

/// Place of the catalogue of the server in `folder`.
pub(crate) fn place(config: &Config, folder: &Path) -> Location {
    if is_postgres(&config.catalog) {
        Location::Database(config.catalog.clone())
    } else {
        Location::File(folder.join(CATALOG_FILE))
    }
}

impl Database {
    /// Opens the catalogue of the server in `folder`, without entering a fleet.
    pub fn open(config: &Config, folder: &Path) -> Result<Self, CatalogError> {
        Ok(match place(config, folder) {
            Location::File(path) => Self::File(Arc::new(Sqlite::open(&path)?)),
            Location::Database(url) => Self::Shared(Arc::new(Postgres::open(&url)?)),
        })
    }

    pub fn catalog(&self) -> Arc<dyn Catalog> {
        match self {
            Self::File(sqlite) => Arc::clone(sqlite) as Arc<dyn Catalog>,
            Self::Shared(postgres) => Arc::clone(postgres) as Arc<dyn Catalog>,
        }
    }

    /// Adds this server to the servers that use the catalogue. Returns `None` while another process
    /// has the catalogue for itself.
    pub fn try_enter(&self, folder: &Path, listen: &str) -> Result<Option<Membership>, OpenError> {
        match self {
            Self::File(sqlite) => {
                sqlite.standing()?.check()?;
                Ok(Some(Membership::Alone))
            }
            Self::Shared(postgres) => {
                Ok(Fleet::enter(postgres, folder, listen)?.map(Membership::Among))
            }
        }
    }

    /// Takes the catalogue for this process alone, for as long as this value lives. Returns false
    /// if another process uses the catalogue.
    pub fn try_alone(&self) -> Result<bool, CatalogError> {
        match self {
            Self::File(_) => Ok(true),
            Self::Shared(postgres) => postgres.try_alone(),
        }
    }

    /// Records whether the hold after a recovery lasts. A catalogue in a database records it for
    /// all its servers. For a catalogue in a file, the beginning of the hold is recorded in
    /// `folder`.
    pub fn hold(&self, folder: &Path, is_held: bool) -> Result<(), OpenError> {
        match self {
            Self::File(_) if is_held => hold::hold(folder)
                .map_err(|source| OpenError::File { path: folder.to_owned(), source }),
            Self::File(_) => Ok(()),
            Self::Shared(postgres) => Ok(postgres.hold(is_held)?),
        }
    }

    /// Returns true while the hold after a recovery lasts.
    fn is_held(&self, folder: &Path) -> Result<bool, CatalogError> {
        match self {
            Self::File(_) => Ok(hold::is_held(folder)),
            Self::Shared(postgres) => Ok(postgres.roll()?.is_held),
        }
    }
}

/// Relation of a server to other servers of its catalogue.
pub enum Membership {
    Alone,
    Among(Fleet),
}

/// Moves the catalogue of the server in `folder` to `url`. The server must not be running. `tell`
/// is called with the present table and the number of its rows that have been copied. Returns the
/// number of rows written.
///
/// The server uses its old catalogue until the new catalogue is complete. A move that was
/// interrupted begins again. If all rows had been written, only its last steps are repeated.
pub fn move_catalog(
    folder: &Path,
    url: &str,
    tell: &mut dyn FnMut(&'static str, u64),
) -> Result<u64, OpenError> {
    let failed = |source| OpenError::File { path: folder.to_owned(), source };
    let config = Config::load(folder)?;
    let _ownership = Ownership::take(folder)?;
    let moved = Config { catalog: url.to_owned(), ..config.clone() };
    moved.check_catalog()?;
    let (from, to) = (place(&config, folder), place(&moved, folder));
    if let MoveState::Arriving(_) = catalog::standing(&from)? {
        // An earlier move was interrupted just before this step.
        catalog::arrive(&from)?;
    }
    if from == to {
        return Ok(0);
    }
    let rows = match (catalog::standing(&from)?, catalog::standing(&to)?) {
        (MoveState::Left(number), MoveState::Arriving(same)) if number == same => {
            catalog::leave(&from, number)?;
            0
        }
        (left @ MoveState::Left(_), _) => {
            return Err(left.check().expect_err("the catalogue has left").into());
        }
        _ => move_rows(&config, &moved, folder, tell)?,
    };
    moved.store(folder).map_err(failed)?;
    catalog::arrive(&to)?;
    Ok(rows)
}

/// Copies all rows from the catalogue of `config` to the catalogue of `moved`, and marks both
/// catalogues.
fn move_rows(
    config: &Config,
    moved: &Config,
    folder: &Path,
    tell: &mut dyn FnMut(&'static str, u64),
) -> Result<u64, OpenError> {
    check_catalog(config, folder)?;
    let (from, to) = (place(config, folder), place(moved, folder));
    let claimed = Database::open(config, folder)?;
    if !claimed.try_alone()? {
        return Err(OpenError::catalog_in_use());
    }
    let number = i64::from_le_bytes(sys::entropy::bytes()) & i64::MAX;
    let rows = catalog::relocate(&from, &to, number, &mut |table, rows| {
        tell(table, rows);
        Ok(())
    })?;
    Database::open(moved, folder)?.hold(folder, claimed.is_held(folder)?)?;
    match claimed {
        // This fails if the connection was lost: another server may have entered meanwhile, and
        // written rows that were not copied.
        Database::Shared(postgres) => postgres.leave_alone(number)?,
        Database::File(sqlite) => {
            drop(sqlite);
            catalog::leave(&from, number)?;
        }
    }
    Ok(rows)
}

/// Fails if the server's catalogue is missing, because opening it would create a new one.
pub fn check_catalog(config: &Config, folder: &Path) -> Result<(), CatalogError> {
    if let Location::Database(_) = place(config, folder) {
        return Ok(());
    }
    let path = folder.join(CATALOG_FILE);
    if catalog::has_left(&path)? {
        return catalog::standing(&Location::File(path))?.check();
    }
    let bytes = std::fs::metadata(path).map_or(0, |found| found.len());
    let has_had_one = folder.join(config::POOLS_FILE).try_exists().unwrap_or(false);
    if bytes == 0 && has_had_one {
        return Err(CatalogError::Damaged("its file is missing or empty".to_owned()));
    }
    Ok(())
}

//! Where the server's catalogue is, and who has it.
//!
//! A catalogue in a file has a lock on the server's folder. One in a database may be several
//! servers', see [`crate::fleet`], or be had by somebody alone, who moves it.

use std::path::Path;
use std::sync::Arc;

use catalog::postgres::{Postgres, is_postgres};
use catalog::sqlite::Sqlite;
use catalog::{Catalog, CatalogError, Location, Standing};

use crate::config::{CATALOG_FILE, CONFIG_FILE, Config};
use crate::fleet::Fleet;
use crate::recovery;
use crate::run::RunError;

/// An open catalogue.
#[derive(Clone)]
pub(crate) enum Database {
    File(Arc<Sqlite>),
    Shared(Arc<Postgres>),
}

/// Where the catalogue of the server in `folder` is.
pub(crate) fn place(config: &Config, folder: &Path) -> Location {
    if is_postgres(&config.catalog) {
        Location::Database(config.catalog.clone())
    } else {
        Location::File(folder.join(CATALOG_FILE))
    }
}

impl Database {
    /// Opens the catalogue of the server in `folder`, claimed by nobody yet.
    pub(crate) fn open(config: &Config, folder: &Path) -> Result<Self, CatalogError> {
        Ok(match place(config, folder) {
            Location::File(path) => Self::File(Arc::new(Sqlite::open(&path)?)),
            Location::Database(url) => Self::Shared(Arc::new(Postgres::open(&url)?)),
        })
    }

    pub(crate) fn catalog(&self) -> Arc<dyn Catalog> {
        match self {
            Self::File(sqlite) => Arc::clone(sqlite) as Arc<dyn Catalog>,
            Self::Shared(postgres) => Arc::clone(postgres) as Arc<dyn Catalog>,
        }
    }

    /// Has this server be one of those that have the catalogue; `None` while somebody has it alone.
    pub(crate) fn try_enter(
        &self,
        folder: &Path,
        listen: &str,
    ) -> Result<Option<Entered>, RunError> {
        match self {
            Self::File(sqlite) => {
                sqlite.standing()?.check()?;
                Ok(Some(Entered::Alone))
            }
            Self::Shared(postgres) => {
                Ok(Fleet::enter(postgres, folder, listen)?.map(Entered::Among))
            }
        }
    }

    /// Has nobody else use the catalogue for as long as this value lives; `false` where somebody
    /// does.
    pub(crate) fn try_alone(&self) -> Result<bool, CatalogError> {
        match self {
            Self::File(_) => Ok(true),
            Self::Shared(postgres) => postgres.try_alone(),
        }
    }

    /// Says to all servers of the catalogue, or to the one in `folder`, whether nothing is to be
    /// taken for unneeded.
    pub(crate) fn hold(&self, folder: &Path, is_held: bool) -> Result<(), RunError> {
        match self {
            Self::File(_) if is_held => recovery::hold(folder)
                .map_err(|source| RunError::Folder { folder: folder.to_owned(), source }),
            Self::File(_) => Ok(()),
            Self::Shared(postgres) => Ok(postgres.hold(is_held)?),
        }
    }

    /// Whether that is so.
    fn is_held(&self, folder: &Path) -> Result<bool, CatalogError> {
        match self {
            Self::File(_) => Ok(recovery::is_held(folder)),
            Self::Shared(postgres) => Ok(postgres.roll()?.is_held),
        }
    }
}

/// How a server has its catalogue.
pub(crate) enum Entered {
    Alone,
    Among(Fleet),
}

/// Takes the catalogue of the server in `folder`, which must not run, to `url`, and has the server
/// use it there. `tell` hears which table it is at, and how many rows are done. One that was cut
/// off is begun again, or goes on where all rows were there; the server has its old catalogue until
/// then. Returns the rows that were written.
pub fn move_catalog(
    folder: &Path,
    url: &str,
    tell: &mut dyn FnMut(&'static str, u64),
) -> Result<u64, RunError> {
    let failed = |source| RunError::Folder { folder: folder.to_owned(), source };
    let config = Config::load(folder)?;
    let lock = sys::durable::Lock::try_exclusive(&folder.join(CONFIG_FILE)).map_err(failed)?;
    let Some(_lock) = lock else { return Err(RunError::Locked { folder: folder.to_owned() }) };
    let moved = Config { catalog: url.to_owned(), ..config.clone() };
    moved.check_catalog()?;
    let (from, to) = (place(&config, folder), place(&moved, folder));
    if let Standing::Arriving(_) = catalog::standing(&from)? {
        // The last try did all but this.
        catalog::arrive(&from)?;
    }
    if from == to {
        return Ok(0);
    }
    let rows = match (catalog::standing(&from)?, catalog::standing(&to)?) {
        (Standing::Left(number), Standing::Arriving(same)) if number == same => {
            catalog::leave(&from, number)?;
            0
        }
        (left @ Standing::Left(_), _) => return Err(left.check().expect_err("it has left").into()),
        _ => move_rows((&config, &moved), folder, tell)?,
    };
    moved.store(folder).map_err(failed)?;
    catalog::arrive(&to)?;
    Ok(rows)
}

/// Writes all rows, and marks both places.
fn move_rows(
    (config, moved): (&Config, &Config),
    folder: &Path,
    tell: &mut dyn FnMut(&'static str, u64),
) -> Result<u64, RunError> {
    recovery::check_catalog(config, folder)?;
    let (from, to) = (place(config, folder), place(moved, folder));
    let claimed = Database::open(config, folder)?;
    if !claimed.try_alone()? {
        return Err(RunError::Claimed);
    }
    let number = i64::from_le_bytes(sys::entropy::bytes()) & i64::MAX;
    let rows = catalog::relocate((&from, &to), number, &mut |table, rows| {
        tell(table, rows);
        Ok(())
    })?;
    Database::open(moved, folder)?.hold(folder, claimed.is_held(folder)?)?;
    match claimed {
        // Where its connection was lost somebody may have entered, and what he wrote is not there.
        Database::Shared(postgres) => postgres.leave_alone(number)?,
        Database::File(sqlite) => {
            drop(sqlite);
            catalog::leave(&from, number)?;
        }
    }
    Ok(rows)
}

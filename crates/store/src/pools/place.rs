//! Places of a server's pools, according to its catalogue and its configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::{Catalog, PoolRow};
use data_encoding::HEXLOWER;
use pool::{Mark, PoolSpec, Role, Storage};

use super::buckets::{self, Buckets, is_bucket};
use super::first::first_row;
use super::list_file::keep_pools;
use crate::folder::config::{self, Config, ConfigError, pool_folder};
use crate::folder::error::OpenError;
use crate::volumes::holdings::{Volumes, library_of};

/// Folder for the state files of pools on volumes, in the server's folder.
const SHELVES: &str = "shelves";

/// File in the server's folder with the mark that its first pool has, or will have.
const FIRST_MARK: &str = "pool.mark";

/// The storages of pools whose packs do not lie in folders.
#[derive(Clone, Copy)]
pub(crate) struct Stores<'a> {
    /// Libraries and volumes. With `None`, pools on volumes count as empty folders.
    pub(crate) volumes: Option<&'a Arc<Volumes>>,
    pub(crate) buckets: &'a Buckets,
}

impl<'a> Stores<'a> {
    pub(crate) fn without_volumes(buckets: &'a Buckets) -> Self {
        Self { volumes: None, buckets }
    }
}

/// Returns the pools that the catalogue knows. The place of the first pool is taken from `config`.
/// If the catalogue has no pool yet, the first pool is created.
pub(crate) fn begin(
    catalog: &dyn Catalog,
    folder: &Path,
    config: &Config,
    has_packs: bool,
    stores: Stores<'_>,
) -> Result<Vec<PoolSpec>, OpenError> {
    let mut rows = catalog.pools()?;
    match rows.first() {
        None => {
            catalog.add_pool(&begin_first(folder, config, has_packs, stores.buckets)?)?;
            rows = catalog.pools()?;
        }
        Some(first) if first.url != config.pool => {
            catalog.change_pool(&PoolRow { url: config.pool.clone(), ..first.clone() })?;
            rows = catalog.pools()?;
        }
        Some(_) => {}
    }
    if let Err(error) = keep_pools(folder, &rows, &catalog.libraries()?) {
        tracing::warn!(%error, "the list of pools in the server's folder cannot be written");
    }
    let specs = specs(&rows, folder, stores)?;
    assert_eq!(rows.len(), specs.len(), "each pool has a place");
    for spec in &specs {
        // A missing folder is no loss: its files can be made again from the volumes.
        if matches!(spec.storage, Storage::Shelf(_)) && !pool::is_marked(spec) {
            let unusable = |source| OpenError::Pool { place: spec.place(), source };
            std::fs::create_dir_all(&spec.folder).map_err(unusable)?;
            pool::mark(&spec.folder, spec.mark).map_err(unusable)?;
        }
    }
    Ok(specs)
}

/// Marks the place that `server.toml` gives for the first pool of a new catalogue.
fn begin_first(
    folder: &Path,
    config: &Config,
    has_packs: bool,
    buckets: &Buckets,
) -> Result<PoolRow, OpenError> {
    let mut first = first_row(config);
    if is_bucket(&first.url) {
        // A bucket cannot be locked. So an empty bucket with a mark may belong to another server.
        // Only the mark in the server's folder shows that the bucket belongs to this server.
        let unusable = |source| OpenError::File { path: folder.to_owned(), source };
        first.mark = config::identity(folder, FIRST_MARK).map_err(unusable)?;
    }
    let spec = spec(&first, folder, Stores::without_volumes(buckets))?;
    let unusable = |source| OpenError::Pool { place: spec.place(), source };
    if spec.storage == Storage::Folder {
        let is_empty = std::fs::read_dir(&spec.folder).map_err(unusable)?.next().is_none();
        if has_packs && is_empty {
            return Err(unusable(std::io::Error::other(
                "the folder is empty; is its disk mounted?",
            )));
        }
        // An earlier start that was interrupted here has left an empty pool with a mark.
        if let Some(mark) = spec.read_mark().map_err(unusable)?
            && spec.is_empty().map_err(unusable)?
        {
            return Ok(PoolRow { mark: mark.0, ..first });
        }
    }
    spec.put_mark().map_err(unusable)?;
    Ok(first)
}

/// Returns the pool's local folder. A pool in an object store or on volumes keeps only its state
/// files there. Its packs are in the bucket or on the volumes.
pub(crate) fn folder_of(row: &PoolRow, folder: &Path) -> Result<PathBuf, ConfigError> {
    if is_bucket(&row.url) {
        return Ok(buckets::folder_of(row, folder));
    }
    match library_of(&row.url) {
        Some(_) => Ok(folder.join(SHELVES).join(HEXLOWER.encode(&row.mark))),
        None => pool_folder(&row.url, folder),
    }
}

/// Returns the specification of a pool of the server in `folder`.
pub(crate) fn spec(
    row: &PoolRow,
    folder: &Path,
    stores: Stores<'_>,
) -> Result<PoolSpec, ConfigError> {
    let shelf = stores.volumes.and_then(|volumes| volumes.shelf(row)).map(Storage::Shelf);
    let bucket = || Ok(stores.buckets.of(row)?.map(Storage::Bucket));
    Ok(PoolSpec {
        id: row.id,
        folder: folder_of(row, folder)?,
        storage: shelf.map_or_else(bucket, |shelf| Ok(Some(shelf)))?.unwrap_or(Storage::Folder),
        role: if row.is_copy { Role::Copy } else { Role::Primary },
        mark: Mark(row.mark),
        capacity_bytes: row.capacity_bytes,
        next: row.next,
    })
}

pub(crate) fn specs(
    rows: &[PoolRow],
    folder: &Path,
    stores: Stores<'_>,
) -> Result<Vec<PoolSpec>, ConfigError> {
    rows.iter().map(|row| spec(row, folder, stores)).collect()
}

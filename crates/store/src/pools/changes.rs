//! Listing, adding, changing and removing pools for an administrator.

use std::path::Path;

use catalog::{CatalogError, Collocation, PoolRow};
use model::{NodeId, PoolId};
use pool::{Filler, Mark, PoolSpec, Storage, Usage};

use super::buckets::{self, is_bucket};
use super::first::{FIRST, first_row};
use super::list_file::keep_pools;
use super::lookup::{find, only};
use super::place::{folder_of, spec, specs};
use super::tend::{missing, refresh};
use crate::domains;
use crate::error::StoreError;
use crate::folder::config::{ConfigError, pool_folder};
use crate::store::{DOMAIN, Store};
use crate::volumes::holdings::library_of;

/// A pool and its usage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSummary {
    pub row: PoolRow,
    /// Name of the next pool.
    pub next: Option<String>,
    pub usage: Usage,
    /// Number of sealed packs that a copy pool lacks.
    pub missing_packs: u64,
    /// Size of the packs that a copy pool lacks.
    pub missing_bytes: u64,
    /// Name of the library of a pool on volumes.
    pub library: Option<String>,
    /// Number of volumes that belong to the pool.
    pub volumes: u32,
    /// Number of errors of the pool's disk since the server began.
    pub disk_errors: u64,
}

/// Description of a new pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NewPool {
    pub name: String,
    pub url: String,
    pub is_copy: bool,
    pub settings: PoolSettings,
}

/// A change of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolChange {
    pub name: String,
    /// True if the pool's disk is lost and an empty folder takes its place.
    pub is_replaced: bool,
    pub settings: PoolSettings,
}

/// Settings of a pool; `None` leaves a setting as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolSettings {
    /// Name of the next pool; `Some(None)` for no next pool.
    pub next: Option<Option<String>>,
    /// Capacity in bytes; `Some(None)` for no limit.
    pub capacity: Option<Option<u64>>,
    pub high_percent: Option<u8>,
    pub low_percent: Option<u8>,
    pub delay_days: Option<u16>,
    pub collocation: Option<Collocation>,
    pub reclaim_percent: Option<u8>,
    pub reuse_delay_days: Option<u16>,
}

/// Maximum number of days for the delay of packs in a pool, and for the delay of emptied volumes.
const DAYS_MAX: u16 = 9999;

fn unusable(error: ConfigError) -> StoreError {
    StoreError::usage(model::chain(&error))
}

/// Returns the filler of a node's packs. A node has packs of its own if a pool keeps the data of
/// nodes apart.
pub fn filler(store: &Store, node: NodeId) -> Result<Filler, StoreError> {
    let rows = store.catalog.pools()?;
    let is_apart = rows.iter().any(|row| row.collocation != Collocation::No);
    Ok(Filler { domain: DOMAIN, node: is_apart.then_some(node) })
}

/// Opens the pools that the catalogue names, and closes all others.
pub fn reload(store: &Store) -> Result<(), StoreError> {
    let rows = store.catalog.pools()?;
    if let Err(error) = keep_pools(&store.folder, &rows, &store.catalog.libraries()?) {
        tracing::warn!(%error, "the list of pools in the server's folder cannot be written");
    }
    let specs = specs(&rows, &store.folder, store.stores()).map_err(unusable)?;
    store.pools.set(&specs).map_err(|error| StoreError::away(error.to_string()))
}

/// Logs each pool that is not there, as an error: a server that serves needs its pools.
pub fn report_missing(store: &Store) -> Result<(), StoreError> {
    for pool in list(store, None)?.iter().filter(|pool| !pool.usage.is_there) {
        let place = &pool.row.url;
        tracing::error!(%place, "pool {} is missing; is its disk mounted?", pool.row.name);
    }
    Ok(())
}

/// Lists the pool `name`, or all pools.
pub fn list(store: &Store, name: Option<&str>) -> Result<Vec<PoolSummary>, StoreError> {
    let rows = match name {
        Some(name) => vec![find(store, name)?],
        None => store.catalog.pools()?,
    };
    rows.into_iter().map(|row| describe(store, row)).collect()
}

fn describe(store: &Store, row: PoolRow) -> Result<PoolSummary, StoreError> {
    let rows = store.catalog.pools()?;
    let next = rows.into_iter().find(|other| Some(other.id) == row.next);
    let missing = if row.is_copy { missing(store, row.id)? } else { Vec::new() };
    Ok(PoolSummary {
        next: next.map(|next| next.name),
        usage: store.pools.usage(row.id),
        missing_packs: missing.len() as u64,
        missing_bytes: missing.iter().map(|(_, bytes)| bytes).sum(),
        library: library_of(&row.url).map(str::to_owned),
        volumes: store.volumes.count_of(row.id),
        disk_errors: store.pools.disk_errors(row.id),
        row,
    })
}

/// Adds a pool.
pub fn add(store: &Store, new: &NewPool) -> Result<PoolSummary, StoreError> {
    let _only = only(store)?;
    let row = change_row(store, new_row(store, new), &new.settings)?;
    crate::names::check_name(&row.name, "a pool")?;
    check_site(store, &row)?;
    let spec = spec(&row, &store.folder, store.stores()).map_err(unusable)?;
    begin_site(&spec)?;
    store.catalog.add_pool(&row).map_err(|error| {
        // The place was empty before. Without the mark it is empty again.
        drop(spec.remove_mark());
        StoreError::from(error)
    })?;
    finish(store, "pool added", &row.name)
}

/// Changes a pool.
pub fn change(store: &Store, change: &PoolChange) -> Result<PoolSummary, StoreError> {
    let _only = only(store)?;
    let mut row = change_row(store, find(store, &change.name)?, &change.settings)?;
    if change.is_replaced {
        row.mark = replace(store, &row)?;
    }
    store.catalog.change_pool(&row)?;
    finish(store, "pool changed", &row.name)
}

/// Takes over the pools as they are in the catalogue now, and adds the change to the audit trail.
/// Returns the pool `name`.
fn finish(store: &Store, what: &str, name: &str) -> Result<PoolSummary, StoreError> {
    reload(store)?;
    domains::note(store, sys::clock::now(), what, name)?;
    describe(store, find(store, name)?)
}

/// Fails if the URL is not suitable for a new pool.
fn check_site(store: &Store, row: &PoolRow) -> Result<(), StoreError> {
    if let Some(library) = library_of(&row.url) {
        let site = store.volumes.site(library).map_err(|_| {
            let message =
                format!("there is no library {library}; 'holdfast admin library add' adds one");
            StoreError::not_found(message)
        });
        return site.map(drop);
    }
    if is_bucket(&row.url) {
        return check_bucket_apart(store, row);
    }
    if row.url.starts_with("file:") && !row.url.starts_with("file:///") {
        return Err(StoreError::usage("give the whole path, as in file:///FOLDER"));
    }
    check_apart(store, &pool_folder(&row.url, &store.folder).map_err(unusable)?)
}

/// Fails if the pool's bucket and prefix overlap the bucket and prefix of another pool.
fn check_bucket_apart(store: &Store, row: &PoolRow) -> Result<(), StoreError> {
    let place = |row: &PoolRow| buckets::parse(&row.url).map_err(unusable);
    let url = place(row)?;
    let rows = store.catalog.pools()?;
    for other in rows.iter().filter(|other| is_bucket(&other.url)) {
        if url.overlaps(&place(other)?) {
            let text = format!("{url} overlaps the bucket of pool {}", other.name);
            return Err(StoreError::usage(text));
        }
    }
    Ok(())
}

/// Marks the place of a new pool: an empty bucket or an empty folder, which is created if needed.
fn begin_site(spec: &PoolSpec) -> Result<(), StoreError> {
    if !matches!(spec.storage, Storage::Bucket(_)) {
        return begin_folder(&spec.folder, spec.mark);
    }
    let place = spec.place();
    let unusable = |error: std::io::Error| {
        StoreError::usage(format!("cannot use {}: {error}", place.display()))
    };
    if spec.read_mark().map_err(unusable)?.is_some() || !spec.is_empty().map_err(unusable)? {
        return Err(StoreError::usage(format!(
            "{} already has a pool or other objects; choose another prefix",
            place.display()
        )));
    }
    spec.put_mark().map_err(unusable)
}

/// Fails if the folder overlaps the folder of another pool.
fn check_apart(store: &Store, folder: &Path) -> Result<(), StoreError> {
    let rows = store.catalog.pools()?;
    for row in &rows {
        let Ok(other) = folder_of(row, &store.folder) else { continue };
        if folder.starts_with(&other) || other.starts_with(folder) {
            let message = format!("{} overlaps the folder of pool {}", folder.display(), row.name);
            return Err(StoreError::usage(message));
        }
    }
    Ok(())
}

/// Marks the empty folder on the new disk of a pool, and returns the mark. The old disk has another
/// mark, so that the old disk no longer counts as this pool, even if it is mounted again.
fn replace(store: &Store, row: &PoolRow) -> Result<[u8; 16], StoreError> {
    refresh(store);
    if store.pools.usage(row.id).is_there {
        let message = format!("pool {} is available; only a lost pool can be replaced", row.name);
        return Err(StoreError::conflict(message));
    }
    let new = PoolRow { mark: sys::entropy::bytes(), ..row.clone() };
    assert_ne!(new.mark, row.mark, "the old disk is not this pool any more");
    begin_site(&spec(&new, &store.folder, store.stores()).map_err(unusable)?)?;
    Ok(new.mark)
}

/// Creates and marks the folder of a new pool.
fn begin_folder(folder: &Path, mark: Mark) -> Result<(), StoreError> {
    let unusable = |error: std::io::Error| {
        StoreError::usage(format!("cannot use {}: {error}", folder.display()))
    };
    sys::durable::create_dir_all(folder, 0o700).map_err(unusable)?;
    // The root of a file system has this folder.
    let is_own = |entry: &std::fs::DirEntry| entry.file_name() != "lost+found";
    let mut entries = std::fs::read_dir(folder).map_err(unusable)?.filter_map(Result::ok);
    if entries.any(|entry| is_own(&entry)) {
        return Err(StoreError::usage(format!(
            "{} is not empty; choose an empty folder for the pool",
            folder.display()
        )));
    }
    pool::mark(folder, mark).map_err(unusable)
}

fn new_row(store: &Store, new: &NewPool) -> PoolRow {
    let is_on_volumes = library_of(&new.url).is_some();
    PoolRow {
        name: new.name.clone(),
        url: new.url.clone(),
        id: PoolId(0),
        is_copy: new.is_copy,
        // With this delay, a volume is written again only when no copy of the catalogue names its
        // old data any more.
        reuse_delay_days: if is_on_volumes { store.config.catalog_copies_kept } else { 0 },
        ..first_row(&store.config)
    }
}

/// Applies the settings to the row. Fails if they do not fit the pool.
fn change_row(
    store: &Store,
    mut row: PoolRow,
    settings: &PoolSettings,
) -> Result<PoolRow, StoreError> {
    let percents = [settings.high_percent, settings.low_percent];
    if percents.into_iter().flatten().any(|percent| percent > 100) {
        return Err(StoreError::usage("a mark must be from 0 to 100 per cent"));
    }
    row.high_percent = settings.high_percent.unwrap_or(row.high_percent);
    row.low_percent = settings.low_percent.unwrap_or(row.low_percent);
    if row.low_percent > row.high_percent {
        return Err(StoreError::usage(format!(
            "the low mark, {} %, must not be above the high mark, {} %",
            row.low_percent, row.high_percent
        )));
    }
    let days = [settings.delay_days, settings.reuse_delay_days];
    if days.into_iter().flatten().any(|days| days > DAYS_MAX) {
        return Err(StoreError::usage(format!("a delay must be at most {DAYS_MAX} days")));
    }
    row.delay_days = settings.delay_days.unwrap_or(row.delay_days);
    row.reuse_delay_days = settings.reuse_delay_days.unwrap_or(row.reuse_delay_days);
    if settings.reclaim_percent.is_some_and(|percent| !(1..=100).contains(&percent)) {
        return Err(StoreError::usage(
            "the share for the reclamation of volumes must be from 1 to 100 per cent",
        ));
    }
    row.reclaim_percent = settings.reclaim_percent.unwrap_or(row.reclaim_percent);
    row.capacity_bytes = settings.capacity.unwrap_or(row.capacity_bytes);
    row.collocation = settings.collocation.unwrap_or(row.collocation);
    let is_on_volumes = library_of(&row.url).is_some();
    if !is_on_volumes && row.collocation != Collocation::No {
        return Err(StoreError::usage("only a pool on volumes can keep the data of nodes apart"));
    }
    if is_on_volumes && row.capacity_bytes.is_some() {
        return Err(StoreError::usage(
            "a pool on volumes must not have a capacity: it has the capacity of its volumes",
        ));
    }
    if let Some(next) = &settings.next {
        row.next = next.as_ref().map(|name| next_of(store, &row, name)).transpose()?;
    }
    if row.is_copy && (row.next.is_some() || row.capacity_bytes.is_some()) {
        let message = "a copy pool must have no next pool and no capacity: it holds every pack";
        return Err(StoreError::usage(message));
    }
    assert!(row.low_percent <= row.high_percent, "the low mark is not above the high mark");
    Ok(row)
}

/// Finds the pool `name`. Fails if the pool of `row` may not drain to it.
fn next_of(store: &Store, row: &PoolRow, name: &str) -> Result<PoolId, StoreError> {
    let next = find(store, name)?;
    if next.is_copy {
        let message = format!("pool {name} is a copy pool; no pool can drain to it");
        return Err(StoreError::usage(message));
    }
    let rows = store.catalog.pools()?;
    let mut at = Some(next.id);
    let mut steps = 0;
    while let Some(pool) = at {
        steps += 1;
        if pool == row.id || steps > rows.len() {
            let message = format!(
                "pool {} cannot drain to {name}, because its packs would come back to it",
                row.name
            );
            return Err(StoreError::usage(message));
        }
        at = rows.iter().find(|row| row.id == pool).and_then(|row| row.next);
    }
    assert_ne!(next.id, row.id, "no pool drains to itself");
    Ok(next.id)
}

/// Removes a pool, which must be a copy pool or have no packs.
pub fn remove(store: &Store, name: &str) -> Result<PoolSummary, StoreError> {
    let _only = only(store)?;
    let row = find(store, name)?;
    let info = describe(store, row.clone())?;
    let refuse = |message: String| Err(StoreError::conflict(message));
    if row.id == FIRST {
        return refuse(format!("pool {name} cannot be removed, because server.toml names it"));
    }
    if !row.is_copy && (info.usage.packs > 0 || !info.usage.is_there) {
        return refuse(format!(
            "pool {name} holds packs or is not available; 'holdfast admin pool drain {name} --all' \
             moves its packs to its next pool"
        ));
    }
    let rows = store.catalog.pools()?;
    if let Some(other) = rows.iter().find(|other| other.next == Some(row.id)) {
        return refuse(format!(
            "pool {} drains to {name}; give it another next pool first",
            other.name
        ));
    }
    assert_ne!(row.id, FIRST, "the pool of server.toml is never removed");
    store.catalog.remove_pool(row.id)?;
    reload(store)?;
    if let Ok(spec) = spec(&row, &store.folder, store.stores())
        && let Err(error) = spec.remove_mark()
    {
        let place = spec.place();
        tracing::warn!(%error, place = %place.display(), "a removed pool still has its mark");
    }
    domains::note(store, sys::clock::now(), "pool removed", &row.name)?;
    Ok(info)
}

/// Takes over the pools as they are in the catalogue, after another server has changed them.
pub fn follow(store: &Store) -> Result<(), CatalogError> {
    let Some(fleet) = &store.fleet else { return Ok(()) };
    let rows = store.catalog.pools()?;
    if fleet.state().pools == rows {
        return Ok(());
    }
    match reload(store) {
        Ok(()) => fleet.state().pools = rows,
        Err(error) => {
            let error = model::chain(&error);
            tracing::warn!(error, "changes of pools by another server cannot be taken over now");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

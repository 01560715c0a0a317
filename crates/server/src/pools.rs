//! Pools: made and changed by an administrator; their packs copied, passed on and repaired.
//!
//! ```text
//!   new packs -> first pool --(high mark, delay)--> next pool -> ...    primary: each pack in one
//!                    \_____________ copied ______________/
//!                                     v
//!                               copy pools                              second copies of all
//! ```
//!
//! A pack keeps its number wherever it goes, and what names its chunks names no pool: nothing of
//! the catalogue changes when packs move. One run of [`tend`], [`copy`], [`drain`] or [`repair`]
//! goes on at a time. Each is over before it can be half done: a pack is written under another
//! name, made durable, and only then put in place.

mod plan;
mod tend;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;

use catalog::{Catalog, CatalogError, Collocation, PoolRow};
use model::{NodeId, PoolId};
use pool::{Filler, Mark, PoolSpec, Role, Storage};
use tonic::Status;
use wire::proto;

use crate::buckets::{self, Buckets, is_bucket};
use crate::config::{self, Config, ConfigError, pool_folder};
use crate::core::{Core, DOMAIN};
use crate::domains;
use crate::recovery;
use crate::refusal;
use crate::run::RunError;
use crate::volumes::{self, Volumes};

pub(crate) use tend::{
    Listener, Outcome, VolumeWork, copy, drain, refresh, repair, tend, tend_volumes,
};
use tend::{missing, only};

/// The pool that `server.toml` names.
pub(crate) const FIRST: PoolId = PoolId(1);
const FIRST_NAME: &str = "PRIMARY";
const HIGH_PERCENT: u8 = 90;
const LOW_PERCENT: u8 = 70;
const RECLAIM_PERCENT: u8 = 60;

fn failed(error: CatalogError) -> Status {
    refusal::catalog(&error)
}

fn unusable(error: ConfigError) -> Status {
    Status::invalid_argument(model::chain(&error))
}

/// The pools as the catalogue knows them, the first one from `config`; it is made where there is
/// none yet.
pub(crate) fn begin(
    catalog: &dyn Catalog,
    folder: &Path,
    config: &Config,
    (has_packs, volumes, buckets): (bool, &Arc<Volumes>, &Buckets),
) -> Result<Vec<PoolSpec>, RunError> {
    let mut rows = catalog.pools()?;
    match rows.first() {
        None => {
            catalog.add_pool(&begin_first(folder, config, has_packs, buckets)?)?;
            rows = catalog.pools()?;
        }
        Some(first) if first.url != config.pool => {
            catalog.change_pool(&PoolRow { url: config.pool.clone(), ..first.clone() })?;
            rows = catalog.pools()?;
        }
        Some(_) => {}
    }
    if let Err(error) = recovery::keep_pools(folder, &rows) {
        tracing::warn!(%error, "the list of pools is not kept beside the catalogue");
    }
    let specs = specs(&rows, folder, (Some(volumes), buckets))?;
    for spec in &specs {
        // What is in there can be had again.
        if matches!(spec.storage, Storage::Shelf(_)) && !pool::is_marked(spec) {
            let unusable = |source| RunError::Pool { place: spec.place(), source };
            std::fs::create_dir_all(&spec.folder).map_err(unusable)?;
            pool::mark(&spec.folder, spec.mark).map_err(unusable)?;
        }
    }
    for (row, spec) in rows.iter().zip(&specs) {
        if !pool::is_marked(spec) {
            let place = spec.place();
            let place = place.display();
            tracing::error!(%place, "pool {} is not there; is its disk mounted?", row.name);
        }
    }
    Ok(specs)
}

/// Marks where `server.toml` says that the first pool of a new catalogue is.
fn begin_first(
    folder: &Path,
    config: &Config,
    has_packs: bool,
    buckets: &Buckets,
) -> Result<PoolRow, RunError> {
    let mut first = first_row(config);
    if is_bucket(&first.url) {
        // Nobody can keep a bucket for himself, and so an empty one with a mark is not just taken
        // for what this server has left.
        let unusable = |source| RunError::Folder { folder: folder.to_owned(), source };
        first.mark = config::identity(folder, FIRST_MARK).map_err(unusable)?;
    }
    let spec = spec(&first, folder, (None, buckets))?;
    let unusable = |source| RunError::Pool { place: spec.place(), source };
    if spec.storage == Storage::Folder {
        let is_empty = std::fs::read_dir(&spec.folder).map_err(unusable)?.next().is_none();
        if has_packs && is_empty {
            return Err(unusable(std::io::Error::other("it is empty; is its disk mounted?")));
        }
        // An empty pool with a mark is what a start that was cut off here has left.
        if let Some(mark) = spec.read_mark().map_err(unusable)?
            && spec.is_empty().map_err(unusable)?
        {
            return Ok(PoolRow { mark: mark.0, ..first });
        }
    }
    spec.put_mark().map_err(unusable)?;
    Ok(first)
}

/// The first pool of a new server.
pub(crate) fn first_row(config: &Config) -> PoolRow {
    PoolRow {
        id: FIRST,
        name: FIRST_NAME.to_owned(),
        url: config.pool.clone(),
        is_copy: false,
        mark: sys::entropy::bytes(),
        next: None,
        capacity_bytes: None,
        high_percent: HIGH_PERCENT,
        low_percent: LOW_PERCENT,
        delay_days: 0,
        collocation: Collocation::No,
        reclaim_percent: RECLAIM_PERCENT,
        reuse_delay_days: 0,
    }
}

/// What pools on volumes have beside their packs, in the server's folder.
const SHELVES: &str = "shelves";

/// In the server's folder: the mark that its first pool has or will have.
const FIRST_MARK: &str = "pool.mark";

/// The folder of the pool; of one elsewhere that for what it has beside its packs.
fn folder_of(row: &PoolRow, folder: &Path) -> Result<PathBuf, ConfigError> {
    if is_bucket(&row.url) {
        return Ok(buckets::folder_of(row, folder));
    }
    match volumes::library_of(&row.url) {
        Some(_) => Ok(folder.join(SHELVES).join(HEXLOWER.encode(&row.mark))),
        None => pool_folder(&row.url, folder),
    }
}

/// What has packs that do not lie in folders. Without volumes the pools on them have none.
pub(crate) type Stores<'a> = (Option<&'a Arc<Volumes>>, &'a Buckets);

/// Where the pool is of the server in `folder`.
pub(crate) fn spec(
    row: &PoolRow,
    folder: &Path,
    (volumes, buckets): Stores<'_>,
) -> Result<PoolSpec, ConfigError> {
    let shelf = volumes.and_then(|volumes| volumes.shelf(row)).map(Storage::Shelf);
    let bucket = || Ok(buckets.of(row)?.map(Storage::Bucket));
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

/// Into which packs a node's data goes: those of its own where it is to lie apart on volumes.
pub(crate) fn filler(core: &Core, node: NodeId) -> Result<Filler, Status> {
    let rows = core.catalog.pools().map_err(failed)?;
    let is_apart = rows.iter().any(|row| row.collocation != Collocation::No);
    Ok(Filler { domain: DOMAIN, node: is_apart.then_some(node) })
}

/// Has no other server use the primary pools that are there, for as long as this one runs. Fails
/// where one does. Nothing is kept open in a copy pool, whose disk may be taken away.
pub(crate) fn lock(core: &Core) -> Result<(), RunError> {
    let rows = core.catalog.pools()?;
    let mut specs = specs(&rows, &core.folder, core.stores())?;
    // What is in a bucket is nobody's who has not its mark.
    let is_locked = |spec: &PoolSpec| !matches!(spec.storage, Storage::Bucket(_));
    specs.retain(|spec| spec.role == Role::Primary && is_locked(spec));
    let mut locks = core.locks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // A disk that is away is let go of: it may be another's turn.
    locks.retain(|folder, _| specs.iter().any(|s| s.folder == *folder && pool::is_marked(s)));
    for spec in specs.into_iter().filter(pool::is_marked) {
        if locks.contains_key(&spec.folder) {
            continue;
        }
        let failed = |source| RunError::Pool { place: spec.place(), source };
        match pool::lock(&spec.folder) {
            // Nobody writes there.
            Err(error) if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem => {}
            Err(error) => return Err(failed(error)),
            Ok(Some(lock)) => drop(locks.insert(spec.folder, lock)),
            Ok(None) => {
                let source = std::io::Error::other("another server is using it");
                return Err(RunError::Pool { place: spec.folder, source });
            }
        }
    }
    Ok(())
}

/// Has the pools be those of the catalogue.
pub(crate) fn reload(core: &Core) -> Result<(), Status> {
    let rows = core.catalog.pools().map_err(failed)?;
    if let Err(error) = recovery::keep_pools(&core.folder, &rows) {
        tracing::warn!(%error, "the list of pools is not kept beside the catalogue");
    }
    let specs = specs(&rows, &core.folder, core.stores()).map_err(unusable)?;
    core.pools.set(&specs).map_err(|error| Status::unavailable(error.to_string()))
}

fn find(core: &Core, name: &str) -> Result<PoolRow, Status> {
    let rows = core.catalog.pools().map_err(failed)?;
    let found = rows.into_iter().find(|row| row.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        Status::not_found(format!("there is no pool {name}; 'holdfast admin pool list' shows all"))
    })
}

/// One pool, or all.
pub(crate) fn list(core: &Core, name: &str) -> Result<proto::PoolsReply, Status> {
    let rows = if name.is_empty() {
        core.catalog.pools().map_err(failed)?
    } else {
        vec![find(core, name)?]
    };
    let pools = rows.iter().map(|row| describe(core, row)).collect::<Result<_, _>>()?;
    Ok(proto::PoolsReply { pools })
}

fn describe(core: &Core, row: &PoolRow) -> Result<proto::PoolInfo, Status> {
    let usage = core.pools.usage(row.id);
    let rows = core.catalog.pools().map_err(failed)?;
    let next = rows.iter().find(|other| Some(other.id) == row.next);
    let missing = if row.is_copy { missing(core, row.id)? } else { Vec::new() };
    Ok(proto::PoolInfo {
        name: row.name.clone(),
        url: row.url.clone(),
        is_copy: row.is_copy,
        next: next.map(|next| next.name.clone()).unwrap_or_default(),
        capacity_bytes: row.capacity_bytes,
        high_percent: row.high_percent.into(),
        low_percent: row.low_percent.into(),
        delay_days: row.delay_days.into(),
        is_there: usage.is_there,
        packs: usage.packs,
        bytes: usage.bytes,
        bytes_max: usage.bytes_max,
        missing_packs: missing.len() as u64,
        missing_bytes: missing.iter().map(|(_, bytes)| bytes).sum(),
        library: volumes::library_of(&row.url).unwrap_or_default().to_owned(),
        collocation: collocation_word(row.collocation).to_owned(),
        reclaim_percent: row.reclaim_percent.into(),
        reuse_delay_days: row.reuse_delay_days.into(),
        volumes: core.volumes.count_of(row.id),
    })
}

fn collocation_word(collocation: Collocation) -> &'static str {
    match collocation {
        Collocation::No => "no",
        Collocation::Group => "group",
        Collocation::Node => "node",
    }
}

fn collocation_of(word: &str) -> Result<Collocation, Status> {
    match word {
        "no" => Ok(Collocation::No),
        "group" => Ok(Collocation::Group),
        "node" => Ok(Collocation::Node),
        _ => Err(Status::invalid_argument(format!("{word}: collocate by no, group or node"))),
    }
}

/// Makes a pool, or changes one.
pub(crate) fn put(core: &Core, request: &proto::PutPoolRequest) -> Result<proto::PoolInfo, Status> {
    let _only = only(core)?;
    let row = if request.is_new { None } else { Some(find(core, &request.name)?) };
    let is_new = row.is_none();
    let mut row = changed(core, row.unwrap_or_else(|| new_row(core, request)), request)?;
    if is_new {
        domains::check_name(&row.name, "a pool")?;
        match volumes::library_of(&row.url) {
            Some(library) => drop(core.volumes.site(library).map_err(|problem| {
                Status::not_found(format!("{problem}; 'holdfast admin library add' makes one"))
            })?),
            None if is_bucket(&row.url) => check_bucket_apart(core, &row)?,
            None if row.url.starts_with("file:") && !row.url.starts_with("file:///") => {
                return Err(Status::invalid_argument("give the whole path, as file:///FOLDER"));
            }
            None => check_apart(core, &pool_folder(&row.url, &core.folder).map_err(unusable)?)?,
        }
        let spec = spec(&row, &core.folder, core.stores()).map_err(unusable)?;
        begin_site(&spec)?;
        core.catalog.add_pool(&row).map_err(|error| {
            // It was empty: without the mark it is as it was.
            drop(spec.remove_mark());
            failed(error)
        })?;
    } else {
        if request.is_replaced {
            row.mark = replace(core, &row)?;
        }
        core.catalog.change_pool(&row).map_err(failed)?;
    }
    reload(core)?;
    let what = if is_new { "pool added" } else { "pool changed" };
    domains::note(core, sys::clock::now(), what, &row.name)?;
    describe(core, &find(core, &row.name)?)
}

/// Fails where the pool's objects are among another pool's, or the other way round.
fn check_bucket_apart(core: &Core, row: &PoolRow) -> Result<(), Status> {
    let place = |row: &PoolRow| buckets::parse(&row.url).map_err(unusable);
    let url = place(row)?;
    let rows = core.catalog.pools().map_err(failed)?;
    for other in rows.iter().filter(|other| is_bucket(&other.url)) {
        if url.overlaps(&place(other)?) {
            let text = format!("{url} is, or holds, or lies in the bucket of pool {}", other.name);
            return Err(Status::invalid_argument(text));
        }
    }
    Ok(())
}

/// Marks where a new pool is: an empty folder, which is made, or a bucket with nothing of a pool.
fn begin_site(spec: &PoolSpec) -> Result<(), Status> {
    if !matches!(spec.storage, Storage::Bucket(_)) {
        return begin_folder(&spec.folder, spec.mark);
    }
    let place = spec.place();
    let unusable = |error: std::io::Error| {
        Status::invalid_argument(format!("cannot use {}: {error}", place.display()))
    };
    if spec.read_mark().map_err(unusable)?.is_some() || !spec.is_empty().map_err(unusable)? {
        return Err(Status::invalid_argument(format!(
            "{} is a pool already, of this server or of another; choose another prefix",
            place.display()
        )));
    }
    spec.put_mark().map_err(unusable)
}

/// Fails where the folder lies in another pool's, or the other way round.
fn check_apart(core: &Core, folder: &Path) -> Result<(), Status> {
    let rows = core.catalog.pools().map_err(failed)?;
    for row in &rows {
        let Ok(other) = folder_of(row, &core.folder) else { continue };
        if folder.starts_with(&other) || other.starts_with(folder) {
            let message =
                format!("{} is, or holds, the folder of pool {}", folder.display(), row.name);
            return Err(Status::invalid_argument(message));
        }
    }
    Ok(())
}

/// Marks the empty folder of a pool whose disk is a new one, and returns the mark: the old disk is
/// not this pool any more, should it come back.
fn replace(core: &Core, row: &PoolRow) -> Result<[u8; 16], Status> {
    core.pools.refresh();
    if core.pools.usage(row.id).is_there {
        let message = format!("pool {} is there; only one that is lost is replaced", row.name);
        return Err(Status::failed_precondition(message));
    }
    let new = PoolRow { mark: sys::entropy::bytes(), ..row.clone() };
    begin_site(&spec(&new, &core.folder, core.stores()).map_err(unusable)?)?;
    Ok(new.mark)
}

/// Makes and marks the folder of a new pool.
fn begin_folder(folder: &Path, mark: Mark) -> Result<(), Status> {
    use std::os::unix::fs::DirBuilderExt as _;
    let unusable = |error: std::io::Error| {
        Status::invalid_argument(format!("cannot use {}: {error}", folder.display()))
    };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder).map_err(unusable)?;
    // A disk of its own has this in its root.
    let is_own = |entry: &std::fs::DirEntry| entry.file_name() != "lost+found";
    let mut entries = std::fs::read_dir(folder).map_err(unusable)?.filter_map(Result::ok);
    if entries.any(|entry| is_own(&entry)) {
        return Err(Status::invalid_argument(format!(
            "{} is not empty; a pool begins with an empty folder",
            folder.display()
        )));
    }
    pool::mark(folder, mark).map_err(unusable)
}

fn new_row(core: &Core, request: &proto::PutPoolRequest) -> PoolRow {
    let is_on_volumes = volumes::library_of(&request.url).is_some();
    PoolRow {
        name: request.name.clone(),
        url: request.url.clone(),
        id: PoolId(0),
        is_copy: request.is_copy,
        // A volume is written again once no copy of the catalogue is kept that names what it had.
        reuse_delay_days: if is_on_volumes { core.config.catalog_copies_kept } else { 0 },
        ..first_row(&core.config)
    }
}

/// The row with what the request says.
fn changed(
    core: &Core,
    mut row: PoolRow,
    request: &proto::PutPoolRequest,
) -> Result<PoolRow, Status> {
    let percent = |percent: u32| u8::try_from(percent).ok().filter(|percent| *percent <= 100);
    let range = || Status::invalid_argument("a mark is from 0 to 100 per cent");
    if let Some(high) = request.high_percent {
        row.high_percent = percent(high).ok_or_else(range)?;
    }
    if let Some(low) = request.low_percent {
        row.low_percent = percent(low).ok_or_else(range)?;
    }
    if row.low_percent > row.high_percent {
        return Err(Status::invalid_argument(format!(
            "the low mark, {} %, is above the high one, {} %",
            row.low_percent, row.high_percent
        )));
    }
    if let Some(days) = request.delay_days {
        let days = u16::try_from(days).ok().filter(|days| *days <= 9999);
        row.delay_days = days.ok_or_else(|| Status::invalid_argument("at most 9999 days"))?;
    }
    match request.capacity_bytes {
        Some(0) => row.capacity_bytes = None,
        Some(bytes) => row.capacity_bytes = Some(bytes),
        None => {}
    }
    if let Some(word) = &request.collocation {
        row.collocation = collocation_of(word)?;
    }
    if let Some(percent) = request.reclaim_percent {
        let percent = u8::try_from(percent).ok().filter(|percent| (1..=100).contains(percent));
        row.reclaim_percent = percent.ok_or_else(|| {
            Status::invalid_argument("volumes are reclaimed at 1 to 100 per cent")
        })?;
    }
    if let Some(days) = request.reuse_delay_days {
        let days = u16::try_from(days).ok().filter(|days| *days <= 9999);
        row.reuse_delay_days = days.ok_or_else(|| Status::invalid_argument("at most 9999 days"))?;
    }
    let is_on_volumes = volumes::library_of(&row.url).is_some();
    if !is_on_volumes && row.collocation != Collocation::No {
        return Err(Status::invalid_argument("only a pool on volumes keeps data apart on them"));
    }
    if is_on_volumes && row.capacity_bytes.is_some() {
        return Err(Status::invalid_argument("a pool on volumes holds what its volumes take"));
    }
    if let Some(name) = &request.next {
        row.next = if name.is_empty() { None } else { Some(next_of(core, &row, name)?) };
    }
    if row.is_copy && (row.next.is_some() || row.capacity_bytes.is_some()) {
        let message = "a copy pool has no next pool and no capacity: it holds all there is";
        return Err(Status::invalid_argument(message));
    }
    Ok(row)
}

/// The pool called `name`, if `row` may hand on to it.
fn next_of(core: &Core, row: &PoolRow, name: &str) -> Result<PoolId, Status> {
    let next = find(core, name)?;
    if next.is_copy {
        let message = format!("pool {name} holds second copies; packs cannot go on to it");
        return Err(Status::invalid_argument(message));
    }
    let rows = core.catalog.pools().map_err(failed)?;
    let mut at = Some(next.id);
    let mut steps = 0;
    while let Some(pool) = at {
        steps += 1;
        if pool == row.id || steps > rows.len() {
            let message = format!("pool {name} hands on to {} itself", row.name);
            return Err(Status::invalid_argument(message));
        }
        at = rows.iter().find(|row| row.id == pool).and_then(|row| row.next);
    }
    Ok(next.id)
}

/// Removes a pool: one that holds no pack, or a copy pool.
pub(crate) fn remove(core: &Core, name: &str) -> Result<proto::PoolInfo, Status> {
    let _only = only(core)?;
    let row = find(core, name)?;
    let described = describe(core, &row)?;
    let refuse = |message: String| Err(Status::failed_precondition(message));
    if row.id == FIRST {
        return refuse(format!("pool {name} stays: server.toml names it"));
    }
    if !row.is_copy && (described.packs > 0 || !described.is_there) {
        return refuse(format!(
            "pool {name} holds packs, or is not there to be asked; 'holdfast admin pool drain \
             {name} --all' moves them to its next pool"
        ));
    }
    let rows = core.catalog.pools().map_err(failed)?;
    if let Some(other) = rows.iter().find(|other| other.next == Some(row.id)) {
        return refuse(format!("pool {} hands on to {name}; change that first", other.name));
    }
    core.catalog.remove_pool(row.id).map_err(failed)?;
    reload(core)?;
    if let Ok(spec) = spec(&row, &core.folder, core.stores())
        && let Err(error) = spec.remove_mark()
    {
        let place = spec.place();
        tracing::warn!(%error, place = %place.display(), "it is still marked as a pool");
    }
    domains::note(core, sys::clock::now(), "pool removed", &row.name)?;
    Ok(described)
}

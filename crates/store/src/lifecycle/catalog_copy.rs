//! Copies of the catalogue in the pools, so that a server can be made again from them.
//!
//! ```text
//!   catalogue --(at one moment)--> file --(blocks of 16 KiB)--> blocks that the last copy lacks
//!                                                                            |
//!   pool:  catalogue/0000000007.copy  <-- places of all blocks <-- packs of domain 0
//! ```
//!
//! 1. A copy shows the catalogue at one moment. Backups go on while it is made.
//! 2. Blocks are durable before the list that names them. A copy pool gets lists after all packs.
//! 3. An unchanged block keeps its place from the last copy. The copy uses no other places: packs
//!    that a kept copy names stay, but other packs may be removed at any time.
//! 4. Reclamation removes no pack that a kept copy names, and no pack at all before there is a
//!    newer copy without it. So a server that is made again from the newest copy finds all its
//!    packs.
//! 5. Packs of blocks that are partly dead are not written again. When most of their blocks are
//!    dead, the next copy has new blocks only. The old packs are removed after the copies that name
//!    them.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::sync::Arc;

use catalog::Write;
use chunk::{Compression, Compressor, Decompressor, RawQuantum};
use format::catalog_copy::{BLOCK_BYTES, CatalogCopy};
use model::{ChunkDigest, FilespaceId, PackNumber, Place, PoolId, ServerTime};
use pool::{Filler, Pools};
use serde_json::{Value, json};

use crate::error::StoreError;
use crate::folder::config::CATALOG_FILE;
use crate::folder::hold::Hold;
use crate::lifecycle::amounts;
use crate::lifecycle::catalog_check::{self, CatalogCheck};
use crate::lifecycle::copy_retention::{self, DatedCopy, Retention};
use crate::lifecycle::tasks::{self, OpenRun, Task};
use crate::pools::FIRST;
use crate::store::known_copies::{
    self, EXTENSION, NUMBER_MAX, last_number, number, set_last_number,
};
use crate::store::{CATALOG_DOMAIN, Store};

/// Name of the file with the catalogue of one moment. The file exists while a copy is made.
const TEMPORARY: &str = "catalog.copying";
/// Name of the file with the catalogue of one moment, while an audit checks it.
const CHECKED: &str = "catalog.checking";
/// Maximum ratio of the blocks in the packs of the last copy to the blocks of that copy. Above this
/// ratio the next copy has new blocks only.
const SURPLUS_MAX: u64 = 4;
/// Number of blocks that are not counted as surplus.
const SURPLUS_FREE: u64 = 256;
/// Number of numbers that the copies of a recovered catalogue skip.
const NUMBERS_LEFT_OUT: u64 = 10_000;
const HOUR_MICROS: i64 = 3_600_000_000;

/// A copy of the catalogue, with the names of the pools that have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopySummary {
    pub number: u64,
    pub taken: ServerTime,
    /// Size of the catalogue.
    pub bytes: u64,
    pub pools: Vec<String>,
    /// True if the copy was made of a catalogue that was damaged or had shrunk oddly.
    pub is_doubtful: bool,
}

/// Order for a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Order {
    /// True to let the copy replace others although the catalogue has shrunk: an administrator
    /// knows why.
    pub accepts_shrinking: bool,
}

/// Progress and result of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Number of the copy.
    pub number: u64,
    /// Size of the catalogue.
    pub bytes: u64,
    pub bytes_done: u64,
    /// Size of the blocks that the last copy lacks, before compression.
    pub bytes_new: u64,
    /// Reason why the copy replaces no other one; `None` if it may.
    pub doubt: Option<String>,
}

impl Outcome {
    /// Returns the numbers for programs.
    pub(crate) fn numbers(&self) -> Value {
        json!({ "done": self.bytes_done, "total": self.bytes, "bytes_new": self.bytes_new })
    }
}

/// Function that a run calls with its progress. It returns false to cancel the run.
pub type Listener<'a> = &'a mut dyn FnMut(&Outcome) -> bool;

pub fn name(number: u64) -> String {
    format!("{number:010}{EXTENSION}")
}

fn disk(error: &io::Error) -> StoreError {
    StoreError::away(format!("the catalogue could not be copied: {error}"))
}

/// Returns the numbers of all copies with the pools that have them, the newest last. A pool that
/// has just become unavailable counts as a pool without copies.
pub fn numbers(pools: &Pools) -> Vec<(u64, Vec<PoolId>)> {
    let listed = pools.present().into_iter().map(|pool| {
        let files = pools.files(pool).unwrap_or_else(|error| {
            tracing::warn!(%pool, %error, "the copies of the catalogue in a pool cannot be listed");
            Vec::new()
        });
        (pool, files)
    });
    by_number(listed.collect())
}

/// The numbers of all copies, as [`numbers`] returns them.
struct Listing {
    numbers: Vec<(u64, Vec<PoolId>)>,
    /// False if a pool is away, which may have more copies.
    is_complete: bool,
}

/// Lists the numbers of all copies. Fails if a pool that is there cannot list its copies, because a
/// new copy must not get the number of one of them.
fn all_numbers(pools: &Pools) -> Result<Listing, StoreError> {
    let mut is_complete = !pools.is_any_away();
    let mut listed = Vec::new();
    for pool in pools.present() {
        match pools.files(pool) {
            Ok(files) => listed.push((pool, files)),
            // The pool has gone away since it was found.
            Err(error) if error.kind() == io::ErrorKind::NotFound => is_complete = false,
            Err(error) => return Err(unread(&format!("a pool lists none: {error}"))),
        }
    }
    Ok(Listing { numbers: by_number(listed), is_complete })
}

/// True if the list of a copy is damaged, or was removed meanwhile.
fn is_lost(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound)
}

fn unread(reason: &str) -> StoreError {
    StoreError::away(format!("the copies of the catalogue cannot be read: {reason}"))
}

/// Orders the names of files of each pool by the number of the copy.
fn by_number(listed: Vec<(PoolId, Vec<String>)>) -> Vec<(u64, Vec<PoolId>)> {
    let mut copies: Vec<(u64, Vec<PoolId>)> = Vec::new();
    for (pool, files) in listed {
        for number in files.iter().filter_map(|name| number(name)) {
            match copies.iter_mut().find(|(other, _)| *other == number) {
                Some((_, pools)) => pools.push(pool),
                None => copies.push((number, vec![pool])),
            }
        }
    }
    copies.sort_unstable();
    copies
}

/// Reads the list of copy `number` from the first pool that has it undamaged.
pub fn load(pools: &Pools, number: u64) -> io::Result<CatalogCopy> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for pool in pools.present() {
        match read_list(pools, pool, number) {
            Ok(Ok(copy)) => return Ok(copy),
            Ok(Err(damage)) => {
                failure = io::Error::new(io::ErrorKind::InvalidData, damage.to_string());
                // If the object store locks lists, the undamaged list may be an older version of
                // the object.
                let mut older = None;
                pools.bring_back_file(pool, &name(number), &mut || {
                    older = read_list(pools, pool, number).ok().and_then(Result::ok);
                    older.is_some()
                })?;
                if let Some(copy) = older {
                    return Ok(copy);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn read_list(
    pools: &Pools,
    pool: PoolId,
    number: u64,
) -> io::Result<Result<CatalogCopy, format::DamageError>> {
    Ok(CatalogCopy::decode(&pools.read_file(pool, &name(number))?))
}

/// Returns all copies whose lists can be read, the newest last. The blocks of a copy with a damaged
/// list cannot be found any more.
pub fn all(store: &Store) -> Vec<CatalogCopy> {
    let mut copies = Vec::new();
    for (number, _) in numbers(&store.pools) {
        match load(&store.pools, number) {
            Ok(copy) => copies.push(copy),
            Err(error) => tracing::warn!(number, %error, "a copy of the catalogue cannot be read"),
        }
    }
    copies
}

/// Returns all copies as [`all`] does, for a caller that removes data that no copy names. Fails if
/// a list cannot be read at present, because the copy may be whole.
pub(crate) fn all_whole(store: &Store) -> Result<Vec<CatalogCopy>, StoreError> {
    let mut copies = Vec::new();
    for (number, _) in all_numbers(&store.pools)?.numbers {
        match load(&store.pools, number) {
            Ok(copy) => copies.push(copy),
            Err(error) if is_lost(&error) => {
                tracing::warn!(number, %error, "a copy of the catalogue cannot be read");
            }
            Err(error) => {
                let file = name(number);
                return Err(unread(&format!(
                    "{file}: {error}; if this stays so, remove that file from the pools"
                )));
            }
        }
    }
    Ok(copies)
}

/// Lists the copies that can be read, the newest first.
pub fn list(store: &Store) -> Result<Vec<CopySummary>, StoreError> {
    let rows = store.catalog.pools()?;
    let name = |pool: &PoolId| {
        let row = rows.iter().find(|row| row.id == *pool);
        row.map(|row| row.name.clone()).unwrap_or_default()
    };
    let mut copies = Vec::new();
    for (number, pools) in numbers(&store.pools).iter().rev() {
        if let Ok(copy) = load(&store.pools, *number) {
            let CatalogCopy { number, taken, bytes, is_doubtful, .. } = copy;
            let pools = pools.iter().map(name).collect();
            copies.push(CopySummary { number, taken, bytes, pools, is_doubtful });
        }
    }
    Ok(copies)
}

/// Makes a copy and checks it. Removes old copies that are not to be kept, unless the new copy is
/// doubtful: a damaged catalogue must not push out its own sound copies.
pub fn run(
    store: &Arc<Store>,
    order: Order,
    listener: Listener<'_>,
) -> Result<Outcome, StoreError> {
    let Some(_only) = store.try_copy() else {
        return Err(StoreError::busy("the catalogue is already being copied"));
    };
    // Reclamation removes no new packs while this guard lives, although no list names them yet.
    let filling = store.use_packs(true);
    let before = all(store);
    let number = next_number(store)?;
    check_room(store, before.last().map_or(0, |copy| copy.bytes))?;
    let path = store.folder.join(TEMPORARY);
    remove_file(&path).map_err(|error| disk(&error))?;
    let taken = sys::clock::now();
    let copied = store.catalog.copy_to(&path).map_err(StoreError::from);
    let stored = copied.and_then(|()| {
        let check = catalog_check::check(&path, None)?;
        let places = reusable(store, before.last());
        Ok((check, BlockWriter::new(store, places, number, listener)?.store(&path)?))
    });
    remove_file(&path).map_err(|error| disk(&error))?;
    let (check, StoredFile { mut outcome, digest, places }) = stored?;
    let sound = before.iter().rev().find(|copy| !copy.is_doubtful);
    let last = sound.filter(|_| !order.accepts_shrinking).map(|copy| copy.census);
    let loss = || check.loss().filter(|_| !order.accepts_shrinking);
    outcome.doubt = check.doubt(last).or_else(loss);
    store.check_filled(&filling)?;
    assert_eq!(places.len() as u64, outcome.bytes.div_ceil(BLOCK_BYTES), "each block has a place");
    let (census, is_doubtful) = (check.census, outcome.doubt.is_some());
    let bytes = outcome.bytes;
    let places = places.into_iter().collect();
    let copy = CatalogCopy { number, taken, bytes, digest, census, is_doubtful, places };
    let first = store.pools.present().first().copied();
    let pool = first.ok_or_else(|| StoreError::away("no pool is available"))?;
    store.pools.put_file(pool, &name(number), &copy.encode())?;
    prune(store)?;
    if order.accepts_shrinking && !is_doubtful {
        accept_loss(store, &check)?;
    }
    let Outcome { number, bytes, bytes_new, doubt, .. } = &outcome;
    let details = format!("copy {number}, {bytes} bytes, {bytes_new} of them new");
    match doubt {
        Some(doubt) => {
            tracing::error!(number, doubt, "a copy of the catalogue is doubtful");
            store.record("catalogue doubted", format!("{details}: {doubt}"))?;
        }
        None => store.record("catalogue copied", details)?,
    }
    Ok(outcome)
}

/// Counts the filespaces again that lack objects, because an administrator knows that the objects
/// are gone. Otherwise each later copy would be doubtful.
fn accept_loss(store: &Store, check: &CatalogCheck) -> Result<(), StoreError> {
    let wrong: BTreeSet<FilespaceId> =
        check.missing.iter().map(|missing| missing.filespace).collect();
    if !amounts::count_again(store, &wrong)? {
        tracing::warn!("filespaces in use were not counted again: the next copy may be doubtful");
    }
    Ok(())
}

/// Returns a number that no copy has had, and takes note of it: a pool that is away may have copies
/// that cannot be listed. Fails if a copy knows what the catalogue lacks, which it would hide.
fn next_number(store: &Store) -> Result<u64, StoreError> {
    let listed = all_numbers(&store.pools)?.numbers.last().map(|(number, _)| *number);
    notice(store, listed)?;
    if let Some(hold) = known_copies::noticed(&*store.catalog)? {
        return Err(StoreError::conflict(hold.to_string()));
    }
    let last = listed.max(last_number(&*store.catalog)?).unwrap_or(0);
    if last >= NUMBER_MAX {
        let text = format!("copy {last} of the catalogue has the highest number that there is");
        return Err(StoreError::conflict(text));
    }
    store.catalog.commit(vec![set_last_number(last + 1)])?;
    Ok(last + 1)
}

/// Begins the hold if `newest`, the highest number of a copy in the pools, is that of a newer copy,
/// or if two pools have different copies with one number.
fn notice(store: &Store, newest: Option<u64>) -> Result<(), StoreError> {
    let noticed = store.notice_newer_copy(newest).and_then(|_| store.notice_parted_copies());
    noticed.map_err(|error| StoreError::away(model::chain(&error)))
}

/// Begins the hold if a copy in the pools is newer than the catalogue, or if two pools have
/// different copies with one number. A pool that was away may have such a copy.
pub(crate) fn notice_strange(store: &Store) -> Result<(), StoreError> {
    let newest = numbers(&store.pools).last().map(|(number, _)| *number);
    notice(store, newest)
}

/// Result of a comparison of the copies in the pools.
pub(crate) struct Comparison {
    /// The highest number with which two pools have different copies.
    pub parted: Option<u64>,
    /// The highest number of a copy, if all pools are there, all lists were read, and no number has
    /// different copies.
    pub equal: Option<u64>,
}

/// Compares the copies with numbers above `accepted`.
pub(crate) fn compare(pools: &Pools, accepted: u64) -> Comparison {
    let (numbers, mut is_complete) = match all_numbers(pools) {
        Ok(listing) => (listing.numbers, listing.is_complete),
        Err(_) => (numbers(pools), false),
    };
    let mut silent = BTreeSet::new();
    for (number, homes) in numbers.iter().rev().take_while(|(number, _)| *number > accepted) {
        let mut digests = BTreeSet::new();
        for pool in homes.iter().filter(|_| homes.len() > 1) {
            if silent.contains(pool) {
                continue;
            }
            match read_list(pools, *pool, *number) {
                // A damaged list shows nothing.
                Ok(list) => digests.extend(list.ok().map(|copy| copy.digest)),
                Err(error) => {
                    is_complete = false;
                    // A pool that does not answer is not asked for every copy.
                    if !is_lost(&error) {
                        silent.insert(*pool);
                    }
                }
            }
        }
        if digests.len() > 1 {
            return Comparison { parted: Some(*number), equal: None };
        }
    }
    let last = numbers.last().map(|(number, _)| *number);
    Comparison { parted: None, equal: last.filter(|_| is_complete) }
}

/// Returns the writes after which no copy counts as newer than the catalogue, and the next copy is
/// the newest. If a pool is away, the next copies skip some numbers: the pool may have copies that
/// the catalogue does not know.
pub(crate) fn pass_newer(store: &Store) -> Result<Vec<Write>, StoreError> {
    let noticed = known_copies::noticed(&*store.catalog)?;
    let known = last_number(&*store.catalog)?;
    // A pool that cannot be listed counts as away.
    let is_complete = all_numbers(&store.pools).is_ok_and(|listing| listing.is_complete);
    let listed = numbers(&store.pools).last().map(|(number, _)| *number);
    if is_complete && noticed.is_none() && listed <= known {
        return Ok(Vec::new());
    }
    let last = listed.max(noticed.and_then(Hold::copy)).max(known).unwrap_or(0);
    let last = if is_complete { last } else { last + NUMBERS_LEFT_OUT };
    let mut writes = vec![set_last_number(last)];
    writes.extend(known_copies::forget_noticed(last));
    Ok(writes)
}

/// Result of a check of the catalogue, with the copy to which it was compared.
pub(crate) struct ComparedCheck {
    pub check: CatalogCheck,
    /// The newest copy that is not doubtful.
    pub sound: Option<CatalogCopy>,
}

/// Checks the catalogue as it is now, by a copy that is not stored, and counts the versions that
/// the newest sound copy lacks.
pub(crate) fn check_now(store: &Store) -> Result<ComparedCheck, StoreError> {
    let copies = all(store);
    check_room(store, copies.last().map_or(0, |copy| copy.bytes))?;
    let sound = copies.into_iter().rev().find(|copy| !copy.is_doubtful);
    let since = sound.as_ref().map(|copy| copy.taken);
    let path = store.folder.join(CHECKED);
    remove_file(&path).map_err(|error| disk(&error))?;
    let copied = store.catalog.copy_to(&path).map_err(StoreError::from);
    let checked = copied.and_then(|()| catalog_check::check(&path, since));
    remove_file(&path).map_err(|error| disk(&error))?;
    Ok(ComparedCheck { check: checked?, sound })
}

/// Fails if the server's folder has no room for a second catalogue. The size of a catalogue in a
/// database is assumed to be the size of its last copy, `last_bytes`.
fn check_room(store: &Store, last_bytes: u64) -> Result<(), StoreError> {
    let path = store.folder.join(CATALOG_FILE);
    let bytes = std::fs::metadata(path).map_or(last_bytes, |metadata| metadata.len());
    let room = store.folder_room();
    if bytes <= room {
        return Ok(());
    }
    Err(StoreError::no_space(format!(
        "a copy of the catalogue needs {bytes} bytes in {}; there is room for {room} bytes",
        store.folder.display()
    )))
}

fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the places of the last copy's blocks. Returns no places if the next copy is to have new
/// blocks only.
fn reusable(store: &Store, last: Option<&CatalogCopy>) -> HashMap<ChunkDigest, Place> {
    let Some(last) = last else { return HashMap::new() };
    let packs: BTreeSet<PackNumber> = last.places.iter().map(|place| place.pack()).collect();
    let tables = packs.iter().filter_map(|pack| store.pools.table(*pack).ok());
    let blocks: u64 = tables.map(|table| u64::from(table.chunk_count())).sum();
    if blocks > last.places.count() * SURPLUS_MAX + SURPLUS_FREE {
        return HashMap::new();
    }
    let condemned = store.condemned();
    let whole = last.places.iter().filter(|place| !condemned.holds(place.pack()));
    let offered = whole.filter_map(|place| Some((store.pools.offered(place)?.1, place)));
    offered.collect()
}

/// Removes the lists of all copies that are not to be kept from the available pools. A list that
/// cannot be read stays: it may be readable in a pool that is away.
fn prune(store: &Store) -> Result<(), StoreError> {
    if store.check_released().is_err() {
        return Ok(());
    }
    let dated = |copy: &CatalogCopy| {
        let CatalogCopy { number, taken, is_doubtful, .. } = *copy;
        DatedCopy { number, taken, is_doubtful }
    };
    let readable: Vec<DatedCopy> = all(store).iter().map(dated).collect();
    let config = &store.config;
    let retention = Retention {
        newest: config.catalog_copies_kept.into(),
        hours: config.catalog_copies_hourly.into(),
        days: config.catalog_copies_daily.into(),
        weeks: config.catalog_copies_weekly.into(),
    };
    let kept = copy_retention::kept(&readable, retention);
    let is_surplus =
        |number: u64| readable.iter().any(|copy| copy.number == number) && !kept.contains(&number);
    let numbers = numbers(&store.pools);
    for (number, pools) in numbers.iter().filter(|(number, _)| is_surplus(*number)) {
        for pool in pools {
            remove_list(store, *pool, *number)?;
        }
    }
    Ok(())
}

/// Removes a copy's list. A list that an object store locks stays until its lock ends.
fn remove_list(store: &Store, pool: PoolId, number: u64) -> Result<(), StoreError> {
    match store.pools.remove_file(pool, &name(number)) {
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied && store.pools.has_locks() =>
        {
            tracing::debug!(number, %error, "the list of a catalogue copy is still locked");
            Ok(())
        }
        other => other.map_err(|error| disk(&error)),
    }
}

/// Returns true if the newest copy is at least `hours` old, or has a date in the future: then the
/// clock was wrong when it was made, or is wrong now. With 0 hours no copy is ever due.
fn is_due(newest: Option<ServerTime>, now: ServerTime, hours: u32) -> bool {
    let age = newest.map(|newest| now.0.saturating_sub(newest.0));
    let is_old = |age: i64| age < 0 || age >= i64::from(hours) * HOUR_MICROS;
    hours > 0 && age.is_none_or(is_old)
}

/// Returns true if a run that copies packs copies the catalogue first. It copies no catalogue that
/// is older than a copy in the pools.
pub fn goes_with_packs(store: &Store) -> Result<bool, StoreError> {
    let is_wanted = store.config.catalog_copy_hours > 0 && store.pools.usage(FIRST).is_there;
    Ok(is_wanted && known_copies::noticed(&*store.catalog)?.is_none())
}

/// Makes a copy if a copy is due, unless the catalogue is older than a copy in the pools.
pub fn run_due(store: &Arc<Store>) -> Result<Option<Outcome>, StoreError> {
    if known_copies::noticed(&*store.catalog)?.is_some() {
        return Ok(None);
    }
    let newest = all(store).last().map(|copy| copy.taken);
    let (now, hours) = (sys::clock::now(), store.config.catalog_copy_hours);
    if !is_due(newest, now, hours) {
        return Ok(None);
    }
    let due = newest.map_or(now, |newest| ServerTime(newest.0 + i64::from(hours) * HOUR_MICROS));
    let stopping = &store.stopping;
    let work = |open: &mut OpenRun<'_>| {
        run(store, Order::default(), &mut |now: &Outcome| {
            let is_stopping = stopping.load(std::sync::atomic::Ordering::Relaxed);
            open.goes_on(|| now.numbers()) && !is_stopping
        })
    };
    let (task, doubt) = ((Task::CopyCatalog, due), |done: &Outcome| done.doubt.clone());
    tasks::run(&*store.catalog, &store.tasks, task, work, doubt).map(Some)
}

/// Makes a new copy if there may be an older copy. Reclamation calls this before it removes a pack.
pub fn renew(store: &Arc<Store>) -> Result<(), StoreError> {
    // A copy in a pool that is away names packs too.
    let Listing { numbers, is_complete } = all_numbers(&store.pools)?;
    let may_have_copies = !is_complete && last_number(&*store.catalog)?.is_some();
    if numbers.is_empty() && !may_have_copies {
        return Ok(());
    }
    match run(store, Order::default(), &mut |_| true)?.doubt {
        None => Ok(()),
        // A recovery would use the sound copy before, which names packs that are about to go.
        Some(doubt) => Err(StoreError::damaged(format!(
            "no pack is removed while the copy of the catalogue is doubtful: {doubt}"
        ))),
    }
}

/// Writes the lists that a copy pool lacks to the pool, and removes lists that are not to be kept,
/// which the pool may have from a time when it was away. The pool already has its packs.
pub fn spread(store: &Store, pool: PoolId) -> Result<(), StoreError> {
    notice_strange(store)?;
    prune(store)?;
    let here: BTreeSet<u64> = store
        .pools
        .files(pool)
        .map_err(|error| disk(&error))?
        .iter()
        .filter_map(|name| number(name))
        .collect();
    let kept: BTreeSet<u64> = numbers(&store.pools)
        .into_iter()
        .filter(|(_, pools)| pools.iter().any(|other| *other != pool))
        .map(|(number, _)| number)
        .collect();
    let there = store.pools.packs_of(pool);
    // Of two different copies, no further pool gets one: nobody knows yet which one is to stay.
    let hold = known_copies::noticed(&*store.catalog)?;
    // Copies before a newer one are not compared.
    let is_settled = |number: u64| match hold {
        Some(Hold::Parted { copy }) => number > copy,
        Some(Hold::Older { copy }) => number >= copy,
        Some(Hold::Recovered) | None => true,
    };
    for number in kept.difference(&here).filter(|number| is_settled(**number)) {
        let Ok(copy) = load(&store.pools, *number) else { continue };
        if copy.places.iter().all(|place| there.contains_key(&place.pack())) {
            store.pools.put_file(pool, &name(*number), &copy.encode())?;
        }
    }
    Ok(())
}

/// Writer that stores the file of a catalogue in packs.
struct BlockWriter<'a> {
    store: &'a Store,
    /// Places of blocks that are in packs already.
    stored: HashMap<ChunkDigest, Place>,
    compressor: Compressor,
    open: RawQuantum,
    /// Digests of the blocks of the open quantum.
    digests: Vec<ChunkDigest>,
    /// Places of all blocks so far; `None` for a block of the open quantum.
    places: Vec<Option<Place>>,
    outcome: Outcome,
    listener: Listener<'a>,
}

/// The file of a catalogue after all its blocks were stored in packs.
struct StoredFile {
    outcome: Outcome,
    /// BLAKE3 digest of the file.
    digest: [u8; 32],
    /// Places of the file's blocks, in order.
    places: Vec<Place>,
}

impl<'a> BlockWriter<'a> {
    fn new(
        store: &'a Store,
        stored: HashMap<ChunkDigest, Place>,
        number: u64,
        listener: Listener<'a>,
    ) -> Result<Self, StoreError> {
        let compressor = Compressor::new(Compression::Standard);
        Ok(Self {
            store,
            stored,
            compressor: compressor.map_err(|_| StoreError::away("cannot create a zstd context"))?,
            open: RawQuantum::default(),
            digests: Vec::new(),
            places: Vec::new(),
            outcome: Outcome { number, ..Outcome::default() },
            listener,
        })
    }

    /// Stores the whole file. Afterwards it is durable, and its packs are sealed.
    fn store(mut self, path: &Path) -> Result<StoredFile, StoreError> {
        let mut file = File::open(path).map_err(|error| disk(&error))?;
        self.outcome.bytes = file.metadata().map_err(|error| disk(&error))?.len();
        let mut whole = blake3::Hasher::new();
        loop {
            let mut block = Vec::new();
            let read = (&mut file).take(BLOCK_BYTES).read_to_end(&mut block);
            if read.map_err(|error| disk(&error))? == 0 {
                break;
            }
            whole.update(&block);
            self.block(&block)?;
            if !(self.listener)(&self.outcome) {
                return Err(StoreError::cancelled("the copy of the catalogue was cancelled"));
            }
        }
        self.write()?;
        self.store.pools.seal_all()?;
        self.store.commit(Vec::new())?;
        assert!(self.places.iter().all(Option::is_some), "no quantum is open");
        assert!(self.outcome.bytes_new <= self.outcome.bytes_done, "no block is counted twice");
        let places = self.places.into_iter().flatten().collect();
        let digest = *whole.finalize().as_bytes();
        Ok(StoredFile { outcome: self.outcome, digest, places })
    }

    fn block(&mut self, block: &[u8]) -> Result<(), StoreError> {
        self.outcome.bytes_done += block.len() as u64;
        let digest = self.store.pools.digest_of(CATALOG_DOMAIN, block);
        if let Some(place) = self.stored.get(&digest) {
            self.places.push(Some(*place));
            return Ok(());
        }
        self.outcome.bytes_new += block.len() as u64;
        if !self.open.fits(block.len()) {
            self.write()?;
        }
        self.open.push(block);
        self.digests.push(digest);
        self.places.push(None);
        Ok(())
    }

    /// Appends the open quantum.
    fn write(&mut self) -> Result<(), StoreError> {
        if self.digests.is_empty() {
            return Ok(());
        }
        assert_eq!(self.digests.len(), self.open.lengths().len(), "each block has a digest");
        let record = self.compressor.encode(&self.open);
        let first = self.store.pools.append_for_upkeep(
            Filler::any(CATALOG_DOMAIN),
            &record,
            self.open.lengths(),
            &self.digests,
        )?;
        let waiting = self.places.iter_mut().filter(|place| place.is_none());
        for ((place, digest), offset) in waiting.zip(self.digests.drain(..)).zip(0..) {
            let at = Place::new(first.pack(), first.index() + offset);
            *place = Some(at);
            self.stored.insert(digest, at);
        }
        self.open.clear();
        Ok(())
    }
}

fn lost(place: Place, why: &str) -> io::Error {
    io::Error::other(format!("pack {}: {why}", place.pack()))
}

/// Returns true if the quantum that begins at `first` has the chunk at `place`.
fn has(first: Place, raw: &RawQuantum, place: Place) -> bool {
    let at = place.index().checked_sub(first.index());
    first.pack() == place.pack() && at.is_some_and(|at| (at as usize) < raw.chunks().count())
}

/// Reads the quantum of the chunk at `place`. Returns it with the place of its first chunk.
fn quantum_with(
    pools: &Pools,
    place: Place,
    decompressor: &mut Decompressor,
) -> io::Result<(Place, RawQuantum)> {
    let table = pools.table(place.pack()).map_err(|error| lost(place, &model::chain(&error)))?;
    let at = table.quantum_of(place.index()).ok_or_else(|| lost(place, "it is too short"))?;
    let quantum = table.quanta()[at];
    let record = pools.read(place.pack(), &quantum);
    let record = record.map_err(|error| lost(place, &model::chain(&error)))?;
    let raw = decompressor
        .decode(&record)
        .map_err(|damage| lost(place, &damage.to_string()))?;
    Ok((Place::new(place.pack(), quantum.first_index), raw))
}

/// Failure to restore a copy of the catalogue.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The copy is damaged or cannot be read: another copy may be whole.
    #[error(transparent)]
    Copy(#[from] io::Error),
    /// The disk of the new file fails. No other copy can be restored there.
    #[error("cannot write the restored catalogue")]
    File(#[source] io::Error),
}

/// Writes the catalogue of a copy to the new file `path`. Fails if a block is lost.
pub fn restore(pools: &Pools, copy: &CatalogCopy, path: &Path) -> Result<(), RestoreError> {
    let mut file = File::create_new(path).map_err(RestoreError::File)?;
    let mut whole = blake3::Hasher::new();
    let mut decompressor = Decompressor::new()?;
    let mut source: Option<(Place, RawQuantum)> = None;
    for place in copy.places.iter() {
        if !source.as_ref().is_some_and(|(first, raw)| has(*first, raw, place)) {
            source = Some(match quantum_with(pools, place, &mut decompressor) {
                // If the object store locks packs, the undamaged pack may be an older version of
                // the object.
                Err(error) if !pools.bring_back(place.pack())? => return Err(error.into()),
                Err(_) => quantum_with(pools, place, &mut decompressor)?,
                Ok(quantum) => quantum,
            });
        }
        let (first, raw) = source.as_ref().expect("it was read above");
        let chunk = raw.chunks().nth((place.index() - first.index()) as usize);
        let chunk = chunk.ok_or_else(|| lost(place, "it is too short"))?;
        whole.update(chunk);
        file.write_all(chunk).map_err(RestoreError::File)?;
    }
    if *whole.finalize().as_bytes() != copy.digest {
        let text = "the blocks do not make up the catalogue that was copied";
        return Err(io::Error::other(text).into());
    }
    file.sync_all().map_err(RestoreError::File)
}

#[cfg(test)]
mod tests;

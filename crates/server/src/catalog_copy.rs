//! Copies of the catalogue in the pools, so that a server can be made again from them.
//!
//! ```text
//!   catalogue --(as of one moment)--> file --(blocks of 16 KiB)--> what the copy before has not
//!                                                                            |
//!   pool:  catalogue/0000000007.copy  <-- places of all blocks <-- packs of domain 0
//! ```
//!
//! 1. A copy is of one moment, and backups go on meanwhile.
//! 2. Blocks are durable before the list that names them, and lists go to a copy pool behind all
//!    packs.
//! 3. Blocks that have not changed are named where the copy before has them. Nothing else is looked
//!    up: what a kept copy names stays, what none names may be gone tomorrow.
//! 4. Reclamation leaves alone what a kept copy names, and removes no pack without a newer copy,
//!    which does not name it: a server made again from the newest copy finds all it looks for.
//! 5. Packs of blocks are not written again where they are partly dead. Once most of them is dead a
//!    copy is made of new blocks only, and the old packs go with the copies that name them.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::sync::Arc;

use chunk::{Compression, Compressor, Decompressor, RawQuantum};
use format::catalog_copy::{BLOCK_BYTES, CatalogCopy};
use model::{ChunkDigest, PackNumber, Place, PoolId, ServerTime};
use pool::{Filler, Pools};
use tonic::Status;
use wire::proto;

use crate::config::CATALOG_FILE;
use crate::core::{CATALOG_DOMAIN, Core};
use crate::recovery;
use crate::refusal;
use crate::tasks::{self, Task};

/// The catalogue as it was at one moment, for as long as it is being read.
const TEMPORARY: &str = "catalog.copying";
const EXTENSION: &str = ".copy";
/// A copy is made of new blocks when the packs of the one before hold so many times as many blocks
/// as it has.
const SURPLUS_MAX: u64 = 4;
/// And so many more, which are no matter.
const SURPLUS_FREE: u64 = 256;
const HOUR_MICROS: i64 = 3_600_000_000;

/// What a run has come to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) number: u64,
    /// Of the catalogue.
    pub(crate) bytes: u64,
    pub(crate) bytes_done: u64,
    /// Of blocks that the copy before has not, before compression.
    pub(crate) bytes_new: u64,
}

/// Hears how a run goes; `false` ends it.
pub(crate) type Listener<'a> = &'a mut dyn FnMut(&Outcome) -> bool;

pub(crate) fn name(number: u64) -> String {
    format!("{number:010}{EXTENSION}")
}

fn number(name: &str) -> Option<u64> {
    name.strip_suffix(EXTENSION)?.parse().ok()
}

fn disk(error: &io::Error) -> Status {
    Status::unavailable(format!("a copy of the catalogue: {error}"))
}

/// The copies that any pool has, the newest last; with each the pools that have it.
pub(crate) fn numbers(pools: &Pools) -> Vec<(u64, Vec<PoolId>)> {
    let mut found: Vec<(u64, Vec<PoolId>)> = Vec::new();
    for pool in pools.present() {
        // One that is going away just now has none.
        let files = pools.files(pool).unwrap_or_else(|error| {
            tracing::warn!(%pool, %error, "the copies of the catalogue in a pool are not seen");
            Vec::new()
        });
        for number in files.iter().filter_map(|name| number(name)) {
            match found.iter_mut().find(|(known, _)| *known == number) {
                Some((_, pools)) => pools.push(pool),
                None => found.push((number, vec![pool])),
            }
        }
    }
    found.sort_unstable();
    found
}

/// The list of copy `number`, from whichever pool has it whole.
pub(crate) fn load(pools: &Pools, number: u64) -> io::Result<CatalogCopy> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for pool in pools.present() {
        match read_list(pools, pool, number) {
            Ok(Ok(copy)) => return Ok(copy),
            Ok(Err(damage)) => {
                failure = io::Error::other(damage.to_string());
                // Where lists are locked, the right one may lie beneath.
                let mut found = None;
                pools.bring_back_file(pool, &name(number), &mut || {
                    found = read_list(pools, pool, number).ok().and_then(Result::ok);
                    found.is_some()
                })?;
                if let Some(copy) = found {
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
) -> io::Result<Result<CatalogCopy, format::Damaged>> {
    Ok(CatalogCopy::decode(&pools.read_file(pool, &name(number))?))
}

/// All copies whose lists can be read, the newest last. A list that is damaged names nothing that
/// could still be found.
pub(crate) fn all(core: &Core) -> Vec<CatalogCopy> {
    let mut copies = Vec::new();
    for (number, _) in numbers(&core.pools) {
        match load(&core.pools, number) {
            Ok(copy) => copies.push(copy),
            Err(error) => tracing::warn!(number, %error, "a copy of the catalogue is lost"),
        }
    }
    copies
}

/// The copies that can be read, the newest first.
pub(crate) fn list(core: &Core) -> Result<Vec<proto::CatalogCopy>, Status> {
    let rows = core.catalog.pools().map_err(|error| refusal::catalog(&error))?;
    let name = |pool: &PoolId| {
        let row = rows.iter().find(|row| row.id == *pool);
        row.map(|row| row.name.clone()).unwrap_or_default()
    };
    let mut copies = Vec::new();
    for (number, pools) in numbers(&core.pools).iter().rev() {
        if let Ok(copy) = load(&core.pools, *number) {
            let pools = pools.iter().map(name).collect();
            let CatalogCopy { number, taken, bytes, .. } = copy;
            copies.push(proto::CatalogCopy { number, taken: taken.0, bytes, pools });
        }
    }
    Ok(copies)
}

/// Makes a copy, and removes those that are too many.
pub(crate) fn run(core: &Arc<Core>, listener: Listener<'_>) -> Result<Outcome, Status> {
    let Ok(_only) = core.copying.try_lock() else {
        return Err(Status::aborted("the catalogue is being copied already"));
    };
    // What is appended here is not reclaimed before a list names it.
    let filling = core.use_packs(true);
    let before = all(core);
    let highest = numbers(&core.pools);
    let number = highest.last().map_or(0, |(number, _)| *number) + 1;
    check_room(core, before.last().map_or(0, |copy| copy.bytes))?;
    let path = core.folder.join(TEMPORARY);
    remove_file(&path).map_err(|error| disk(&error))?;
    let taken = sys::clock::now();
    let copied = core.catalog.copy_to(&path).map_err(|error| refusal::catalog(&error));
    let stored = copied.and_then(|()| {
        Store::new(core, known(core, before.last()), number, listener)?.store(&path)
    });
    remove_file(&path).map_err(|error| disk(&error))?;
    let (outcome, digest, places) = stored?;
    filling.check()?;
    let copy = CatalogCopy { number, taken, bytes: outcome.bytes, digest, places };
    let first = core.pools.present().first().copied();
    let pool = first.ok_or_else(|| Status::unavailable("no pool is there"))?;
    core.pools
        .put_file(pool, &name(number), &copy.encode())
        .map_err(|error| refusal::append(&error))?;
    prune(core)?;
    let Outcome { number, bytes, bytes_new, .. } = outcome;
    let details = format!("copy {number}, {bytes} bytes, {bytes_new} of them new");
    core.record("catalogue copied", details)?;
    Ok(outcome)
}

/// Whether the server's folder has room for the catalogue once more: one in a database is as large
/// as its last copy was, of `copied` bytes.
fn check_room(core: &Core, copied: u64) -> Result<(), Status> {
    let path = core.folder.join(CATALOG_FILE);
    let bytes = std::fs::metadata(path).map_or(copied, |found| found.len());
    match sys::durable::free_bytes(&core.folder) {
        Ok(free) if free < bytes => Err(Status::resource_exhausted(format!(
            "to copy the catalogue {} needs {bytes} bytes more; it has {free}",
            core.folder.display()
        ))),
        _ => Ok(()),
    }
}

fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Where the blocks of the copy before lie; nothing, where a copy of new blocks is due.
fn known(core: &Core, before: Option<&CatalogCopy>) -> HashMap<ChunkDigest, Place> {
    let Some(before) = before else { return HashMap::new() };
    let packs: BTreeSet<PackNumber> = before.places.iter().map(|place| place.pack()).collect();
    let tables = packs.iter().filter_map(|pack| core.pools.table(*pack).ok());
    let blocks: u64 = tables.map(|table| u64::from(table.chunk_count())).sum();
    if blocks > before.places.len() as u64 * SURPLUS_MAX + SURPLUS_FREE {
        return HashMap::new();
    }
    let condemned = core.condemned();
    let whole = before.places.iter().filter(|place| !condemned.holds(place.pack()));
    let known = whole.filter_map(|place| Some((core.pools.offered(*place)?.1, *place)));
    known.collect()
}

/// Removes all but the newest copies from the pools that are there.
fn prune(core: &Core) -> Result<(), Status> {
    if recovery::check_released(core).is_err() {
        return Ok(());
    }
    let copies = numbers(&core.pools);
    let keep = usize::from(core.config.catalog_copies_kept.max(1));
    let surplus = copies.len().saturating_sub(keep);
    for (number, pools) in &copies[..surplus] {
        for pool in pools {
            let_go(core, *pool, *number)?;
        }
    }
    Ok(())
}

/// Removes a copy's list; one that is locked stays until its day.
fn let_go(core: &Core, pool: PoolId, number: u64) -> Result<(), Status> {
    match core.pools.remove_file(pool, &name(number)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && core.pools.has_locks() => {
            tracing::debug!(number, %error, "a copy of the catalogue stays");
            Ok(())
        }
        other => other.map_err(|error| disk(&error)),
    }
}

/// Whether the newest copy is older than `hours`; 0: never.
fn is_due(newest: Option<ServerTime>, now: ServerTime, hours: u32) -> bool {
    let age = newest.map(|newest| now.0.saturating_sub(newest.0));
    hours > 0 && age.is_none_or(|age| age >= i64::from(hours) * HOUR_MICROS)
}

/// Makes a copy if one is due.
pub(crate) fn run_due(core: &Arc<Core>) -> Result<Option<Outcome>, Status> {
    let newest = all(core).last().map(|copy| copy.taken);
    let (now, hours) = (sys::clock::now(), core.config.catalog_copy_hours);
    if !is_due(newest, now, hours) {
        return Ok(None);
    }
    let due = newest.map_or(now, |newest| ServerTime(newest.0 + i64::from(hours) * HOUR_MICROS));
    let work = || run(core, &mut |_| !core.stopping.load(std::sync::atomic::Ordering::Relaxed));
    tasks::run(&*core.catalog, (Task::CopyCatalog, due), work, |_| None).map(Some)
}

/// For reclamation: whether there is a copy, which must be renewed before a pack goes.
pub(crate) fn renew(core: &Arc<Core>) -> Result<(), Status> {
    if !numbers(&core.pools).is_empty() {
        run(core, &mut |_| true)?;
    }
    Ok(())
}

/// Gives a copy pool the lists that it lacks, and takes those that are kept no more. Its packs come
/// first.
pub(crate) fn spread(core: &Core, pool: PoolId) -> Result<(), Status> {
    let here: BTreeSet<u64> = core
        .pools
        .files(pool)
        .map_err(|error| disk(&error))?
        .iter()
        .filter_map(|name| number(name))
        .collect();
    let kept: BTreeSet<u64> = numbers(&core.pools)
        .into_iter()
        .filter(|(_, pools)| pools.iter().any(|other| *other != pool))
        .map(|(number, _)| number)
        .collect();
    // Those that are too old go; a newer one than all others have is somebody's last hope.
    let oldest = kept.first().copied().unwrap_or(0);
    for number in here.range(..oldest).filter(|_| recovery::check_released(core).is_ok()) {
        let_go(core, pool, *number)?;
    }
    let there = core.pools.packs_of(pool);
    for number in kept.difference(&here) {
        let Ok(copy) = load(&core.pools, *number) else { continue };
        if copy.places.iter().all(|place| there.contains_key(&place.pack())) {
            let put = core.pools.put_file(pool, &name(*number), &copy.encode());
            put.map_err(|error| refusal::append(&error))?;
        }
    }
    Ok(())
}

/// A catalogue's file on its way into packs.
struct Store<'a> {
    core: &'a Core,
    known: HashMap<ChunkDigest, Place>,
    compressor: Compressor,
    open: RawQuantum,
    /// Of the blocks of the open quantum.
    digests: Vec<ChunkDigest>,
    /// Of the blocks so far; `None` for those of the open quantum.
    places: Vec<Option<Place>>,
    outcome: Outcome,
    listener: Listener<'a>,
}

type Stored = (Outcome, [u8; 32], Vec<Place>);

impl<'a> Store<'a> {
    fn new(
        core: &'a Core,
        known: HashMap<ChunkDigest, Place>,
        number: u64,
        listener: Listener<'a>,
    ) -> Result<Self, Status> {
        let compressor = Compressor::new(Compression::Standard);
        Ok(Self {
            core,
            known,
            compressor: compressor.map_err(|_| Status::internal("no zstd context"))?,
            open: RawQuantum::default(),
            digests: Vec::new(),
            places: Vec::new(),
            outcome: Outcome { number, ..Outcome::default() },
            listener,
        })
    }

    /// Stores the file in full; all of it is durable then, and its packs are complete.
    fn store(mut self, path: &Path) -> Result<Stored, Status> {
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
                return Err(Status::cancelled("the copy of the catalogue was cancelled"));
            }
        }
        self.write()?;
        self.core.pools.seal_all().map_err(|error| refusal::append(&error))?;
        self.core.commit(Vec::new())?;
        let places = self.places.into_iter().flatten().collect();
        Ok((self.outcome, *whole.finalize().as_bytes(), places))
    }

    fn block(&mut self, block: &[u8]) -> Result<(), Status> {
        self.outcome.bytes_done += block.len() as u64;
        let digest = self.core.pools.digest_of(CATALOG_DOMAIN, block);
        if let Some(place) = self.known.get(&digest) {
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
    fn write(&mut self) -> Result<(), Status> {
        if self.digests.is_empty() {
            return Ok(());
        }
        let record = self.compressor.encode(&self.open);
        let first = self
            .core
            .pools
            .append(Filler::any(CATALOG_DOMAIN), &record, self.open.lengths(), &self.digests)
            .map_err(|error| refusal::append(&error))?;
        let waiting = self.places.iter_mut().filter(|place| place.is_none());
        for ((place, digest), offset) in waiting.zip(self.digests.drain(..)).zip(0..) {
            let at = Place::new(first.pack(), first.index() + offset);
            *place = Some(at);
            self.known.insert(digest, at);
        }
        self.open.clear();
        Ok(())
    }
}

fn lost(place: Place, why: &str) -> io::Error {
    io::Error::other(format!("pack {}: {why}", place.pack()))
}

/// Whether the quantum that begins at `first` has the chunk at `place`.
fn has(first: Place, raw: &RawQuantum, place: Place) -> bool {
    let at = place.index().checked_sub(first.index());
    first.pack() == place.pack() && at.is_some_and(|at| (at as usize) < raw.chunks().count())
}

/// The quantum that the chunk at `place` is in, and the place of its first one.
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

/// Writes the catalogue that `copy` is of into the new file `path`; fails where a block is lost.
pub(crate) fn restore(pools: &Pools, copy: &CatalogCopy, path: &Path) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    let mut whole = blake3::Hasher::new();
    let mut decompressor = Decompressor::new()?;
    let mut source: Option<(Place, RawQuantum)> = None;
    for place in &copy.places {
        if !source.as_ref().is_some_and(|(first, raw)| has(*first, raw, *place)) {
            let found = quantum_with(pools, *place, &mut decompressor);
            source = Some(match found {
                // Where packs are locked, the right one may lie beneath.
                Err(error) if !pools.bring_back(place.pack())? => return Err(error),
                Err(_) => quantum_with(pools, *place, &mut decompressor)?,
                Ok(found) => found,
            });
        }
        let (first, raw) = source.as_ref().expect("was found");
        let chunk = raw.chunks().nth((place.index() - first.index()) as usize);
        let chunk = chunk.ok_or_else(|| lost(*place, "it is too short"))?;
        whole.update(chunk);
        file.write_all(chunk)?;
    }
    if *whole.finalize().as_bytes() != copy.digest {
        return Err(io::Error::other("it is not what was copied"));
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_due_when_the_newest_is_old() {
        let hours = |hours: i64| ServerTime(hours * HOUR_MICROS);
        assert!(is_due(None, hours(0), 24));
        assert!(!is_due(None, hours(0), 0));
        assert!(!is_due(Some(hours(1)), hours(24), 24));
        assert!(is_due(Some(hours(1)), hours(25), 24));
        assert!(!is_due(Some(hours(1)), hours(0), 24), "a clock that went back");
    }

    #[test]
    fn names_tell_numbers() {
        assert_eq!(number(&name(7)), Some(7));
        assert_eq!(number("0000000007.copy.tmp"), None);
    }
}

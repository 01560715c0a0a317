//! Copying packs to copy pools, passing them on, repairing them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use catalog::{PackRow, PackState, PoolRow, VolumeRow};
use model::{PackNumber, PoolId, ServerTime};
use pool::PutError;
use tonic::Status;

use super::{FIRST, failed, find, plan};
use crate::catalog_copy;
use crate::core::{CATALOG_DOMAIN, Core, Use};
use crate::object_lock;
use crate::recovery;
use crate::refusal;
use crate::volumes::{self, Carrying, Watching};

/// A server with copy pools seals what is open so often, so that it can be copied.
const SEAL_EVERY: Duration = Duration::from_secs(4 * 3600);
/// Packs copied to one pool before the others have their turn: 16 GiB.
const COPIED_MAX: usize = 256;

/// What a run over packs has come to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    /// To do in all.
    pub(crate) packs: u64,
    pub(crate) bytes: u64,
    pub(crate) packs_done: u64,
    pub(crate) bytes_done: u64,
    /// Packs that stay as they are, and why.
    pub(crate) failures: Vec<(PackNumber, String)>,
    /// Volumes of which nothing could be had, and why.
    pub(crate) volumes: Vec<(String, String)>,
}

/// Hears how a run goes; `false` ends it.
pub(crate) type Listener<'a> = &'a mut dyn FnMut(&Outcome) -> bool;

/// Keeps other runs away until what is returned is dropped.
pub(super) fn only(core: &Core) -> Result<MutexGuard<'_, ()>, Status> {
    match core.tending.try_lock() {
        Ok(tending) => Ok(tending),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Status::aborted(
            "packs are being copied, moved or repaired, or pools changed; try again in a while",
        )),
    }
}

/// A run over packs.
struct Run<'a> {
    core: &'a Arc<Core>,
    outcome: Outcome,
    listener: Listener<'a>,
    _reading: Use,
}

impl<'a> Run<'a> {
    fn new(core: &'a Arc<Core>, listener: Listener<'a>) -> Self {
        let outcome = Outcome::default();
        // What is read here must not be removed meanwhile.
        Self { core, outcome, listener, _reading: core.use_packs(false) }
    }

    fn expect(&mut self, packs: &[(PackNumber, u64)]) {
        self.outcome.packs += packs.len() as u64;
        self.outcome.bytes += packs.iter().map(|(_, bytes)| bytes).sum::<u64>();
    }

    /// Does `work` for each pack. One that is damaged is left out; a pool that takes no more ends
    /// it.
    fn each(
        &mut self,
        packs: &[(PackNumber, u64)],
        work: impl Fn(PackNumber) -> Result<(), PutError>,
    ) -> Result<(), Status> {
        for &(pack, bytes) in packs {
            match work(pack) {
                Ok(()) => {
                    self.outcome.packs_done += 1;
                    self.outcome.bytes_done += bytes;
                }
                Err(PutError::Read(error)) => {
                    let reason = model::chain(&error);
                    tracing::error!(%pack, reason, "a pack is damaged wherever it is");
                    self.outcome.failures.push((pack, reason));
                }
                Err(error) => return Err(refusal::put(&error)),
            }
            let goes_on = !self.core.stopping.load(Ordering::Relaxed);
            if !(goes_on && (self.listener)(&self.outcome)) {
                return Err(Status::cancelled("it was cancelled; the next run goes on"));
            }
        }
        Ok(())
    }
}

/// What becomes of a pack once it is where it was to go.
type Then<'a> = &'a dyn Fn(PackNumber) -> Result<(), PutError>;

impl Run<'_> {
    /// Writes the packs to the pool, and has `then` done with each once it is there.
    fn transfer(
        &mut self,
        packs: &[(PackNumber, u64)],
        pool: &PoolRow,
        then: Then<'_>,
    ) -> Result<(), Status> {
        let core = self.core;
        if !core.pools.is_shelf(pool.id) {
            return self.each(packs, |pack| {
                core.pools.put(pack, pool.id)?;
                then(pack)
            });
        }
        let numbers: Vec<PackNumber> = packs.iter().map(|(pack, _)| *pack).collect();
        let lengths = packs.iter().copied().collect();
        let mut transfer = Transfer { run: self, lengths, then };
        volumes::write(core, pool, &numbers, &BTreeSet::new(), &mut transfer)
    }
}

/// A run over packs of volumes.
struct Transfer<'a, 'b> {
    run: &'a mut Run<'b>,
    lengths: BTreeMap<PackNumber, u64>,
    then: Then<'a>,
}

impl Carrying for Transfer<'_, '_> {
    fn stored(&mut self, pack: PackNumber) -> Result<(), Status> {
        (self.then)(pack).map_err(|error| refusal::put(&error))?;
        self.run.outcome.packs_done += 1;
        self.run.outcome.bytes_done += self.lengths.get(&pack).copied().unwrap_or(0);
        Ok(())
    }

    fn failed(&mut self, pack: PackNumber, reason: String) {
        tracing::error!(%pack, reason, "a pack is damaged wherever it is");
        self.run.outcome.failures.push((pack, reason));
    }

    fn goes_on(&mut self) -> bool {
        let goes_on = !self.run.core.stopping.load(Ordering::Relaxed);
        goes_on && (self.run.listener)(&self.run.outcome)
    }
}

impl Watching for Transfer<'_, '_> {
    fn expect(&mut self, packs: &[(PackNumber, u64)]) {
        self.run.expect(packs);
        self.lengths.extend(packs.iter().copied());
    }

    fn volume_failed(&mut self, volume: &str, reason: String) {
        self.run.outcome.volumes.push((volume.to_owned(), reason));
    }
}

/// What is done to volumes.
pub(crate) enum VolumeWork {
    /// Empties those of which so many per cent are dead; 0: as the pools say.
    Reclaim {
        /// Empty: all.
        pool: String,
        dead_percent: u8,
    },
    Move(Vec<VolumeRow>),
    Audit(Vec<VolumeRow>),
    /// Reads what volumes say of themselves.
    Import {
        library: String,
        volumes: Vec<String>,
    },
}

/// Does it, while no pack is copied, moved or repaired otherwise.
pub(crate) fn tend_volumes(
    core: &Arc<Core>,
    work: &VolumeWork,
    listener: Listener<'_>,
) -> Result<Outcome, Status> {
    let _only = only(core)?;
    let mut run = Run::new(core, listener);
    let mut transfer = Transfer { run: &mut run, lengths: BTreeMap::new(), then: &|_| Ok(()) };
    match work {
        VolumeWork::Reclaim { pool, dead_percent } => {
            let pools = if pool.is_empty() {
                core.catalog.pools().map_err(failed)?
            } else {
                vec![find(core, pool)?]
            };
            volumes::reclaim(core, &pools, *dead_percent, &mut transfer)?;
        }
        VolumeWork::Move(rows) => volumes::vacate(core, rows, &mut transfer)?,
        VolumeWork::Audit(rows) => volumes::audit(core, rows, &mut transfer)?,
        VolumeWork::Import { library, volumes } => {
            volumes::import(core, library, volumes, &mut transfer)?;
            return Ok(run.outcome);
        }
    }
    volumes::free(core)?;
    Ok(run.outcome)
}

/// What nothing needs is neither moved nor repaired.
fn is_needed(state: PackState) -> bool {
    matches!(state, PackState::Sealed | PackState::Damaged)
}

/// Sealed packs that the copy pool lacks, with their bytes.
pub(super) fn missing(core: &Core, pool: PoolId) -> Result<Vec<(PackNumber, u64)>, Status> {
    let rows = core.catalog.packs().map_err(failed)?;
    let there = core.pools.packs_of(pool);
    // One of another length is another's. What is condemned may be named by the newest copy of the
    // catalogue.
    let lacks = |row: &PackRow| there.get(&row.number) != Some(&row.bytes);
    let missing = rows.into_iter().filter(|row| row.state.is_sealed() && lacks(row));
    Ok(missing.map(|row| (row.number, row.bytes)).collect())
}

/// Seals what is open, so that it can be copied or moved.
fn seal(core: &Core) -> Result<(), Status> {
    core.pools.seal_all().map_err(|error| refusal::append(&error))?;
    core.commit(Vec::new())
}

/// Gives the copy pool `name`, or all of them, what they lack, up to the last byte that was
/// committed.
pub(crate) fn copy(
    core: &Arc<Core>,
    name: &str,
    listener: Listener<'_>,
) -> Result<Outcome, Status> {
    let _only = only(core)?;
    let pools: Vec<PoolRow> = if name.is_empty() {
        let rows = core.catalog.pools().map_err(failed)?;
        rows.into_iter().filter(|row| row.is_copy).collect()
    } else {
        vec![find(core, name)?]
    };
    if let Some(primary) = pools.iter().find(|row| !row.is_copy) {
        let message = format!("pool {} is no copy pool; 'pool add --copy' makes one", primary.name);
        return Err(Status::invalid_argument(message));
    }
    seal(core)?;
    let (there, away): (Vec<PoolRow>, Vec<PoolRow>) =
        pools.into_iter().partition(|row| core.pools.usage(row.id).is_there);
    let mut run = Run::new(core, listener);
    there.iter().try_for_each(|row| run.fill(row, usize::MAX))?;
    match away.first() {
        None => Ok(run.outcome),
        Some(row) => {
            let message = format!("pool {} is not there; is its disk mounted?", row.name);
            Err(Status::unavailable(message))
        }
    }
}

impl Run<'_> {
    /// Gives a copy pool what it lacks, at most so many packs. Only then it lets go of what was
    /// removed from the primary pools: what came in its place is there by then.
    fn fill(&mut self, row: &PoolRow, packs_max: usize) -> Result<(), Status> {
        let pool = row.id;
        let mut missing = missing(self.core, pool)?;
        let is_all = missing.len() <= packs_max;
        missing.truncate(packs_max);
        self.expect(&missing);
        let core = self.core;
        let failures = self.outcome.failures.len();
        self.transfer(&missing, row, &|_| Ok(()))?;
        if is_all && self.outcome.failures.len() == failures {
            catalog_copy::spread(core, pool)?;
            forget_removed(core, pool)?;
        }
        Ok(())
    }
}

/// Removes from a copy pool what was removed from the primary ones.
fn forget_removed(core: &Core, pool: PoolId) -> Result<(), Status> {
    if recovery::check_released(core).is_err() {
        return Ok(());
    }
    let there = core.pools.packs_of(pool);
    // In this order: what is made between is known.
    let known: BTreeSet<PackNumber> =
        core.catalog.packs().map_err(failed)?.iter().map(|row| row.number).collect();
    for pack in there.keys().filter(|pack| !known.contains(pack)) {
        if locked_until(core, pool, *pack)?.is_some() {
            continue;
        }
        let removed = core.pools.remove_from(pool, *pack);
        removed.map_err(|error| Status::unavailable(format!("pack {pack} stays: {error}")))?;
    }
    Ok(())
}

/// Until when an object store does not let the pack go.
fn locked_until(core: &Core, pool: PoolId, pack: PackNumber) -> Result<Option<ServerTime>, Status> {
    let until = core.pools.locked_until(pack, Some(pool));
    until.map_err(|error| Status::unavailable(format!("pack {pack}: {error}")))
}

/// Moves packs of the pool `name` to its next pool: what its marks say, or `all`.
pub(crate) fn drain(
    core: &Arc<Core>,
    name: &str,
    all: bool,
    listener: Listener<'_>,
) -> Result<Outcome, Status> {
    let _only = only(core)?;
    let row = find(core, name)?;
    let Some(next) = row.next else {
        return Err(Status::failed_precondition(format!(
            "pool {name} has no next pool; 'holdfast admin pool set {name} --next POOL' gives it \
             one"
        )));
    };
    if all {
        seal(core)?;
    }
    let rows = core.catalog.pools().map_err(failed)?;
    let next = rows.iter().find(|other| other.id == next);
    let next = next.ok_or_else(|| Status::internal("the next pool is gone"))?;
    let mut run = Run::new(core, listener);
    move_on(core, &mut run, &row, next, all)?;
    Ok(run.outcome)
}

fn move_on(
    core: &Core,
    run: &mut Run<'_>,
    row: &PoolRow,
    next: &PoolRow,
    all: bool,
) -> Result<(), Status> {
    let mut leaving = leaving(core, row, next, all)?;
    if core.pools.has_locks() {
        let mut may_go = Vec::with_capacity(leaving.len());
        for (pack, bytes) in leaving {
            match locked_until(core, row.id, pack)? {
                None => may_go.push((pack, bytes)),
                Some(until) if all => run.outcome.failures.push((pack, object_lock::told(until))),
                Some(_) => {}
            }
        }
        leaving = may_go;
    }
    if leaving.is_empty() {
        return Ok(());
    }
    run.expect(&leaving);
    let before = run.outcome.packs_done;
    let moved = run.transfer(&leaving, next, &|pack| {
        core.pools
            .remove_from(row.id, pack)
            .map_err(|source| pool::AppendError::Failed { pack, source }.into())
    });
    let packs = run.outcome.packs_done - before;
    if packs > 0 {
        core.record("pool drained", format!("{packs} packs of pool {}", row.name))?;
    }
    moved
}

/// The packs that are to leave the pool.
///
/// What copies of the catalogue are made of does not go to volumes: a server is made again from it,
/// which has no catalogue that says what lies on them.
fn leaving(
    core: &Core,
    row: &PoolRow,
    next: &PoolRow,
    all: bool,
) -> Result<Vec<(PackNumber, u64)>, Status> {
    let to_volumes = core.pools.is_shelf(next.id);
    let marks = plan::Marks {
        high_percent: row.high_percent,
        low_percent: row.low_percent,
        delay_days: row.delay_days,
    };
    let usage = core.pools.usage(row.id);
    let used = (usage.bytes, usage.bytes_max);
    if !all && !marks.is_passed(used) {
        return Ok(Vec::new());
    }
    let packs = core.catalog.packs().map_err(failed)?;
    let there = core.pools.packs_of(row.id);
    let now = sys::clock::now();
    let days = |pack: PackNumber| {
        if row.delay_days == 0 {
            return 0;
        }
        let arrival = core.pools.arrival(row.id, pack).ok();
        let since = arrival.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let secs = since.map_or(now.secs(), |since| since.as_secs().cast_signed());
        u64::try_from(now.secs() - secs).unwrap_or(0) / 86_400
    };
    let residents: Vec<plan::Resident> = packs
        .iter()
        .filter(|pack| is_needed(pack.state))
        .filter(|pack| !(to_volumes && pack.domain == CATALOG_DOMAIN))
        .filter_map(|pack| {
            let bytes = *there.get(&pack.number)?;
            Some(plan::Resident { pack: pack.number, bytes, days: days(pack.number) })
        })
        .collect();
    if all {
        return Ok(residents.iter().map(|resident| (resident.pack, resident.bytes)).collect());
    }
    Ok(plan::leaving(&residents, used, marks))
}

/// Makes every copy of these packs whole again, of what is whole somewhere; `None`: of those that
/// the catalogue says are damaged and of those that a copy had to serve.
pub(crate) fn repair(
    core: &Arc<Core>,
    packs: Option<&BTreeSet<PackNumber>>,
    listener: Listener<'_>,
) -> Result<Outcome, Status> {
    // An audit has read for days by then: it waits.
    let _only = core.tending.lock().unwrap_or_else(PoisonError::into_inner);
    let suspects = match packs {
        Some(packs) => packs.clone(),
        None => {
            let mut suspects = core.pools.take_suspects();
            suspects.extend(&core.condemned().damaged);
            suspects
        }
    };
    let rows = core.catalog.packs().map_err(failed)?;
    let suspects: Vec<(PackNumber, u64)> = rows
        .iter()
        .filter(|row| is_needed(row.state) && suspects.contains(&row.number))
        .map(|row| (row.number, row.bytes))
        .collect();
    let mut run = Run::new(core, listener);
    run.expect(&suspects);
    run.each(&suspects, |pack| mend(core, pack))?;
    if run.outcome.packs_done > 0 {
        let Outcome { packs_done, failures, .. } = &run.outcome;
        let stay = failures.len();
        core.record("packs repaired", format!("{packs_done} packs; {stay} stay damaged"))?;
    }
    Ok(run.outcome)
}

/// Writes the pack anew into each pool that has it damaged; into the first pool that takes packs,
/// if no primary one has it any more.
fn mend(core: &Core, pack: PackNumber) -> Result<(), PutError> {
    let homes = core.pools.homes(pack);
    // What lies on volumes is read as a whole when somebody wants that: see `volumes::audit`.
    let homes = homes.iter().filter(|pool| !core.pools.is_shelf(**pool));
    for pool in homes.filter(|pool| !core.pools.is_whole(**pool, pack)) {
        core.pools.put(pack, *pool)?;
    }
    if !core.pools.has_primary(pack) && core.pools.usage(FIRST).is_there {
        core.pools.put(pack, FIRST)?;
    }
    Ok(())
}

/// Sees which pools have come or gone.
pub(crate) fn refresh(core: &Core) {
    for pool in core.pools.refresh() {
        tracing::info!(%pool, "a pool is back");
    }
}

/// What the server does by itself, now and then: repairs what a copy had to serve, passes on what
/// is above a mark, copies what has no second copy. What one of these meets holds up no other.
pub(crate) fn tend(core: &Arc<Core>, sealed: &mut std::time::Instant) {
    core.volumes.look_after_sites();
    if let Err(error) = super::lock(core) {
        let error = model::chain(&error);
        tracing::error!(error, "two servers use one pool: stop one of them");
    }
    if !core.keeps_house() {
        return;
    }
    told("clear up", core.clear_up().map(|()| Outcome::default()).map_err(failed));
    told("repair", repair_suspects(core));
    let rows = match core.catalog.pools() {
        Ok(rows) => rows,
        Err(error) => return told("pools", Err(failed(error))),
    };
    for row in rows.iter().filter(|row| row.next.is_some()) {
        told(&row.name, drain(core, &row.name, false, &mut |_| true));
    }
    let has_copies = rows.iter().any(|row| row.is_copy);
    if has_copies && sealed.elapsed() > SEAL_EVERY {
        *sealed = sys::clock::monotonic();
        told("seal", seal(core).map(|()| Outcome::default()));
    }
    let reclaim = VolumeWork::Reclaim { pool: String::new(), dead_percent: 0 };
    if rows.iter().any(|row| volumes::library_of(&row.url).is_some()) {
        told("volumes", tend_volumes(core, &reclaim, &mut |_| true));
    }
    for row in rows.iter().filter(|row| row.is_copy) {
        if core.pools.usage(row.id).is_there {
            told(&row.name, copy_some(core, row));
        }
    }
}

fn repair_suspects(core: &Arc<Core>) -> Result<Outcome, Status> {
    let suspects = core.pools.take_suspects();
    if suspects.is_empty() {
        return Ok(Outcome::default());
    }
    repair(core, Some(&suspects), &mut |_| true)
}

fn copy_some(core: &Arc<Core>, row: &PoolRow) -> Result<Outcome, Status> {
    let _only = only(core)?;
    let mut go_on = |_: &Outcome| true;
    let mut run = Run::new(core, &mut go_on);
    run.fill(row, COPIED_MAX)?;
    Ok(run.outcome)
}

fn told(what: &str, outcome: Result<Outcome, Status>) {
    match outcome {
        Ok(Outcome { packs: 0, .. }) => {}
        Ok(Outcome { packs_done, bytes_done, failures, .. }) => {
            let left = failures.len();
            tracing::info!(what, packs_done, bytes_done, left, "packs were looked after");
        }
        Err(status) => {
            tracing::warn!(what, error = status.message(), "packs were not looked after");
        }
    }
}

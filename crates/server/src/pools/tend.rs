//! Copying packs to copy pools, passing them on, repairing them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use catalog::{EventRow, PackState, PoolRow, Write};
use model::{PackNumber, PoolId};
use pool::PutError;
use tonic::Status;

use super::{FIRST, failed, find, plan};
use crate::catalog_copy;
use crate::core::{Core, Use};
use crate::refusal;

/// A server with copy pools seals what is open so often, so that it can be copied.
const SEAL_EVERY: Duration = Duration::from_secs(4 * 3600);

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
}

/// Hears how a run goes; `false` ends it.
pub(crate) type Listener<'a> = &'a mut dyn FnMut(&Outcome) -> bool;

/// Keeps other runs away, and the packs where they can be read.
pub(super) struct Only<'a> {
    _tending: std::sync::MutexGuard<'a, ()>,
}

pub(super) fn only(core: &Core) -> Result<Only<'_>, Status> {
    match core.tending.try_lock() {
        Ok(tending) => Ok(Only { _tending: tending }),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => {
            Ok(Only { _tending: poisoned.into_inner() })
        }
        Err(std::sync::TryLockError::WouldBlock) => Err(Status::aborted(
            "packs are being copied, moved or repaired, or pools changed; try again in a while",
        )),
    }
}

/// A run over packs.
struct Run<'a> {
    core: &'a Core,
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
                    let reason = refusal::chain(&error);
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

/// What nothing needs is neither copied nor moved.
fn is_needed(state: PackState) -> bool {
    matches!(state, PackState::Sealed | PackState::Damaged)
}

/// Sealed packs that the copy pool lacks, with their bytes.
pub(super) fn missing(core: &Core, pool: PoolId) -> Result<Vec<(PackNumber, u64)>, Status> {
    let rows = core.catalog.packs().map_err(failed)?;
    let there = core.pools.packs_of(pool);
    let lacks = |pack: PackNumber| !there.contains_key(&pack);
    let missing = rows.into_iter().filter(|row| is_needed(row.state) && lacks(row.number));
    Ok(missing.map(|row| (row.number, row.bytes)).collect())
}

/// Seals what is open, so that it can be copied or moved.
fn seal(core: &Core) -> Result<(), Status> {
    core.pools.seal_all().map_err(|error| refusal::append(&error))?;
    core.commit(Vec::new())
}

/// Gives the copy pool `name`, or all of them, what they lack; all there is, if `seals`.
pub(crate) fn copy(
    core: &Arc<Core>,
    name: &str,
    seals: bool,
    listener: Listener<'_>,
) -> Result<Outcome, Status> {
    let _only = only(core)?;
    if seals {
        seal(core)?;
    }
    let rows = core.catalog.pools().map_err(failed)?;
    let pools: Vec<PoolRow> = if name.is_empty() {
        rows.into_iter().filter(|row| row.is_copy).collect()
    } else {
        vec![find(core, name)?]
    };
    if let Some(primary) = pools.iter().find(|row| !row.is_copy) {
        let message = format!("pool {} is no copy pool; 'pool add --copy' makes one", primary.name);
        return Err(Status::invalid_argument(message));
    }
    let mut run = Run::new(core, listener);
    for row in pools {
        if !core.pools.usage(row.id).is_there {
            if name.is_empty() {
                continue;
            }
            let message = format!("pool {} is not there; is its disk mounted?", row.name);
            return Err(Status::unavailable(message));
        }
        forget_removed(core, row.id)?;
        let missing = missing(core, row.id)?;
        run.expect(&missing);
        run.each(&missing, |pack| core.pools.put(pack, row.id).map(drop))?;
        catalog_copy::spread(core, row.id)?;
    }
    Ok(run.outcome)
}

/// Removes from a copy pool what was removed from the primary ones while it was away.
fn forget_removed(core: &Core, pool: PoolId) -> Result<(), Status> {
    let there = core.pools.packs_of(pool);
    // In this order: what is made between is known.
    let known: BTreeSet<PackNumber> =
        core.catalog.packs().map_err(failed)?.iter().map(|row| row.number).collect();
    for pack in there.keys().filter(|pack| !known.contains(pack)) {
        let removed = core.pools.remove_from(pool, *pack);
        removed.map_err(|error| Status::unavailable(format!("pack {pack} stays: {error}")))?;
    }
    Ok(())
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
    let mut run = Run::new(core, listener);
    move_on(core, &mut run, &row, next, all)?;
    Ok(run.outcome)
}

fn move_on(
    core: &Core,
    run: &mut Run<'_>,
    row: &PoolRow,
    next: PoolId,
    all: bool,
) -> Result<(), Status> {
    let leaving = leaving(core, row, all)?;
    if leaving.is_empty() {
        return Ok(());
    }
    run.expect(&leaving);
    let before = run.outcome.packs_done;
    let moved = run.each(&leaving, |pack| {
        core.pools.put(pack, next)?;
        core.pools
            .remove_from(row.id, pack)
            .map_err(|source| pool::AppendError::Failed { pack, source }.into())
    });
    let packs = run.outcome.packs_done - before;
    note(core, "pool drained", &format!("{packs} packs of pool {}", row.name))?;
    moved
}

/// The packs that are to leave the pool.
fn leaving(core: &Core, row: &PoolRow, all: bool) -> Result<Vec<(PackNumber, u64)>, Status> {
    let packs = core.catalog.packs().map_err(failed)?;
    let there = core.pools.packs_of(row.id);
    let now = sys::clock::now();
    let days = |pack: PackNumber| {
        let arrival = core.pools.arrival(row.id, pack).ok();
        let since = arrival.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let secs = since.map_or(now.secs(), |since| since.as_secs().cast_signed());
        u64::try_from(now.secs() - secs).unwrap_or(0) / 86_400
    };
    let residents: Vec<plan::Resident> = packs
        .iter()
        .filter(|pack| is_needed(pack.state))
        .filter_map(|pack| {
            let bytes = *there.get(&pack.number)?;
            Some(plan::Resident { pack: pack.number, bytes, days: days(pack.number) })
        })
        .collect();
    if all {
        return Ok(residents.iter().map(|resident| (resident.pack, resident.bytes)).collect());
    }
    let usage = core.pools.usage(row.id);
    let marks = plan::Marks {
        high_percent: row.high_percent,
        low_percent: row.low_percent,
        delay_days: row.delay_days,
    };
    Ok(plan::leaving(&residents, (usage.bytes, usage.bytes_max), marks))
}

/// Makes every copy of these packs whole again, of what is whole somewhere; `None`: of those that
/// the catalogue says are damaged and of those that a copy had to serve.
pub(crate) fn repair(
    core: &Arc<Core>,
    packs: Option<&BTreeSet<PackNumber>>,
    listener: Listener<'_>,
) -> Result<Outcome, Status> {
    let _only = only(core)?;
    let mut suspects = core.pools.take_suspects();
    match packs {
        Some(packs) => suspects.clone_from(packs),
        None => suspects.extend(&core.condemned().damaged),
    }
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
        note(core, "packs repaired", &format!("{packs_done} packs; {stay} stay damaged"))?;
    }
    Ok(run.outcome)
}

/// Writes the pack anew into each pool that has it damaged; into the first pool that takes packs,
/// if no primary one has it any more.
fn mend(core: &Core, pack: PackNumber) -> Result<(), PutError> {
    let homes = core.pools.homes(pack);
    for pool in homes.iter().filter(|pool| !is_whole(core, **pool, pack)) {
        core.pools.put(pack, *pool)?;
    }
    if !core.pools.has_primary(pack) && core.pools.usage(FIRST).is_there {
        core.pools.put(pack, FIRST)?;
    }
    Ok(())
}

/// Whether the pool has all of the pack as it was written.
fn is_whole(core: &Core, pool: PoolId, pack: PackNumber) -> bool {
    let Ok(table) = core.pools.table_at(pool, pack) else { return false };
    let is_good = |quantum| core.pools.read_at(pool, pack, quantum).is_ok();
    table.quanta().iter().all(is_good)
}

fn note(core: &Core, what: &str, details: &str) -> Result<(), Status> {
    let event = EventRow {
        time: sys::clock::now(),
        actor: "server".to_owned(),
        what: what.to_owned(),
        details: details.to_owned(),
    };
    core.catalog.commit(vec![Write::AddEvent(event)]).map_err(failed)
}

/// What the server does by itself, now and then: repairs what a copy had to serve, passes on what
/// is above a mark, copies what has no second copy.
pub(crate) fn tend(core: &Arc<Core>, sealed: &mut std::time::Instant) -> Result<(), Status> {
    let come = core.pools.refresh().map_err(|error| Status::unavailable(error.to_string()))?;
    for pool in come {
        tracing::info!(%pool, "a pool is back");
    }
    let mut go_on = |_: &Outcome| true;
    let suspects = core.pools.take_suspects();
    if !suspects.is_empty() {
        let outcome = repair(core, Some(&suspects), &mut go_on)?;
        tracing::warn!(packs = outcome.packs_done, left = outcome.failures.len(), "repaired");
    }
    let rows = core.catalog.pools().map_err(failed)?;
    for row in rows.iter().filter(|row| row.next.is_some()) {
        let outcome = drain(core, &row.name, false, &mut go_on)?;
        if outcome.packs > 0 {
            tracing::info!(pool = row.name, packs = outcome.packs_done, "drained");
        }
    }
    if rows.iter().any(|row| row.is_copy) {
        let seals = sealed.elapsed() > SEAL_EVERY;
        if seals {
            *sealed = sys::clock::monotonic();
        }
        let outcome = copy(core, "", seals, &mut go_on)?;
        if outcome.packs > 0 {
            tracing::info!(packs = outcome.packs_done, bytes = outcome.bytes_done, "copied");
        }
    }
    Ok(())
}

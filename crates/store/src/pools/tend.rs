//! Runs over packs: copying to copy pools, draining to the next pool, repairing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::StoreError;
use catalog::{PackRow, PackState, PoolRow, VolumeRow};
use model::{PackNumber, PoolId, ServerTime};
use pool::PutError;

use super::first::FIRST;
use super::lookup::{OTHER_RUN, find, only};
use super::lost;
use super::outcome::{Listener, Outcome};
use super::plan;
use crate::counts::counted;
use crate::lifecycle::catalog_copy;
use crate::lifecycle::object_lock;
use crate::lifecycle::tasks::{self, OpenRun, Task};
use crate::shelving::{self, PackListener, VolumeListener};
use crate::store::{CATALOG_DOMAIN, Store, Use, known_copies};
use crate::volumes::holdings::library_of;

/// Interval after which a server with copy pools seals its open packs, so that they can be copied.
const SEAL_EVERY: Duration = Duration::from_secs(4 * 3600);
/// Maximum number of packs (16 GiB) that are copied to one pool before the next pool has its turn.
const COPIED_MAX: usize = 256;

/// A run over packs.
pub(super) struct Run<'a> {
    store: &'a Arc<Store>,
    pub(super) outcome: Outcome,
    listener: Listener<'a>,
    _reading: Use,
}

impl<'a> Run<'a> {
    pub(super) fn new(store: &'a Arc<Store>, listener: Listener<'a>) -> Self {
        let outcome = Outcome::default();
        // The run counts as a reader, so that the packs are not removed meanwhile.
        Self { store, outcome, listener, _reading: store.use_packs(false) }
    }

    fn expect(&mut self, packs: &[(PackNumber, u64)]) {
        self.outcome.packs += packs.len() as u64;
        self.outcome.bytes += packs.iter().map(|(_, bytes)| bytes).sum::<u64>();
    }

    /// Calls `work` for each pack. A pack that is damaged in every pool is skipped. A pool that
    /// takes no more packs ends the run.
    fn each(
        &mut self,
        packs: &[(PackNumber, u64)],
        work: impl Fn(PackNumber) -> Result<(), PutError>,
    ) -> Result<(), StoreError> {
        for &(pack, bytes) in packs {
            match work(pack) {
                Ok(()) => {
                    self.outcome.packs_done += 1;
                    self.outcome.bytes_done += bytes;
                    assert!(self.outcome.packs_done <= self.outcome.packs, "each pack is expected");
                }
                Err(PutError::Read(error)) => {
                    let reason = model::chain(&error);
                    tracing::error!(%pack, reason, "a pack is damaged in every pool");
                    self.outcome.failures.push((pack, reason));
                }
                Err(error) => return Err(StoreError::from(error)),
            }
            let goes_on = !self.store.stopping.load(Ordering::Relaxed);
            if !(goes_on && (self.listener)(&self.outcome)) {
                return Err(StoreError::cancelled(
                    "the run was cancelled; the next run does the rest",
                ));
            }
        }
        Ok(())
    }
}

/// Work on a pack after it has arrived in its new pool.
type FollowUp<'a> = &'a dyn Fn(PackNumber) -> Result<(), PutError>;

impl Run<'_> {
    /// Writes the packs to the pool, and calls `follow_up` for each pack after it has arrived.
    fn transfer(
        &mut self,
        packs: &[(PackNumber, u64)],
        pool: &PoolRow,
        follow_up: FollowUp<'_>,
    ) -> Result<(), StoreError> {
        let store = self.store;
        if !store.pools.is_shelf(pool.id) {
            return self.each(packs, |pack| {
                store.pools.put(pack, pool.id)?;
                follow_up(pack)
            });
        }
        let numbers: Vec<PackNumber> = packs.iter().map(|(pack, _)| *pack).collect();
        let lengths = packs.iter().copied().collect();
        let mut transfer = Transfer { run: self, lengths, follow_up };
        shelving::write(store, pool, &numbers, &BTreeSet::new(), &mut transfer)
    }
}

/// A run over packs that reads or writes volumes.
struct Transfer<'a, 'b> {
    run: &'a mut Run<'b>,
    lengths: BTreeMap<PackNumber, u64>,
    follow_up: FollowUp<'a>,
}

impl PackListener for Transfer<'_, '_> {
    fn stored(&mut self, pack: PackNumber) -> Result<(), StoreError> {
        (self.follow_up)(pack)?;
        self.run.outcome.packs_done += 1;
        self.run.outcome.bytes_done += self.lengths.get(&pack).copied().unwrap_or(0);
        let Outcome { packs, packs_done, .. } = self.run.outcome;
        debug_assert!(packs_done <= packs, "each pack is expected");
        Ok(())
    }

    fn failed(&mut self, pack: PackNumber, reason: String) {
        tracing::error!(%pack, reason, "a pack is damaged in every pool");
        self.run.outcome.failures.push((pack, reason));
    }

    fn goes_on(&mut self) -> bool {
        let goes_on = !self.run.store.stopping.load(Ordering::Relaxed);
        goes_on && (self.run.listener)(&self.run.outcome)
    }
}

impl VolumeListener for Transfer<'_, '_> {
    fn expect(&mut self, packs: &[(PackNumber, u64)]) {
        self.run.expect(packs);
        self.lengths.extend(packs.iter().copied());
    }

    fn volume_failed(&mut self, volume: &str, reason: String) {
        self.run.outcome.volumes.push((volume.to_owned(), reason));
    }
}

/// Work on volumes.
pub enum VolumeWork {
    /// Empties volumes whose data is mostly dead.
    Reclaim {
        /// Name of the pool; empty for all pools.
        pool: String,
        /// The only volumes that are emptied; none stands for all volumes of the pool.
        volumes: Vec<VolumeRow>,
        /// Share of dead data, in per cent, from which a volume is emptied; 0 for the share in the
        /// settings of its pool.
        dead_percent: u8,
    },
    Move(Vec<VolumeRow>),
    Audit(Vec<VolumeRow>),
    /// Imports volumes that the catalogue does not know.
    Import {
        library: String,
        volumes: Vec<String>,
    },
}

/// Performs `work`. Fails while another run over packs is active.
pub fn tend_volumes(
    store: &Arc<Store>,
    work: &VolumeWork,
    listener: Listener<'_>,
) -> Result<Outcome, StoreError> {
    let _only = only(store)?;
    let mut run = Run::new(store, listener);
    let mut transfer = Transfer { run: &mut run, lengths: BTreeMap::new(), follow_up: &|_| Ok(()) };
    match work {
        VolumeWork::Reclaim { pool, volumes, dead_percent } => {
            let pools =
                if pool.is_empty() { store.catalog.pools()? } else { vec![find(store, pool)?] };
            shelving::reclaim(store, &pools, volumes, *dead_percent, &mut transfer)?;
        }
        VolumeWork::Move(rows) => shelving::vacate(store, rows, &mut transfer)?,
        VolumeWork::Audit(rows) => shelving::audit(store, rows, &mut transfer)?,
        VolumeWork::Import { library, volumes } => {
            shelving::import(store, library, volumes, &mut transfer)?;
            return Ok(run.outcome);
        }
    }
    shelving::free(store)?;
    Ok(run.outcome)
}

/// Returns true for a pack that is moved and repaired. A condemned pack is neither moved nor
/// repaired, because nothing needs it. An open pack is not, because it is still being written.
fn is_needed(state: PackState) -> bool {
    matches!(state, PackState::Sealed | PackState::Damaged)
}

/// Returns the sealed packs that the copy pool lacks, each with its size in bytes.
pub(super) fn missing(store: &Store, pool: PoolId) -> Result<Vec<(PackNumber, u64)>, StoreError> {
    let rows = store.catalog.packs()?;
    let there = store.pools.packs_of(pool);
    // A pack with another length was written by another server, so it counts as missing. Condemned
    // packs are copied too, because the newest copy of the catalogue may name them.
    // If a copy of the catalogue is newer, that copy may name the pack with the other length.
    let keeps_others = known_copies::noticed(&*store.catalog)?.is_some();
    let lacks = |row: &PackRow| match there.get(&row.number) {
        Some(bytes) => *bytes != row.bytes && !keeps_others,
        None => true,
    };
    let missing = rows.into_iter().filter(|row| row.state.is_sealed() && lacks(row));
    Ok(missing.map(|row| (row.number, row.bytes)).collect())
}

/// Seals the open packs, so that they can be copied or moved.
pub(super) fn seal(store: &Store) -> Result<(), StoreError> {
    store.pools.seal_all()?;
    store.commit(Vec::new())
}

/// Copies to the copy pool `name` all packs that it lacks, with all data that was committed so far.
/// An empty name stands for all copy pools.
pub fn copy(store: &Arc<Store>, name: &str, listener: Listener<'_>) -> Result<Outcome, StoreError> {
    let _only = only(store)?;
    let pools: Vec<PoolRow> = if name.is_empty() {
        let rows = store.catalog.pools()?;
        rows.into_iter().filter(|row| row.is_copy).collect()
    } else {
        vec![find(store, name)?]
    };
    if let Some(primary) = pools.iter().find(|row| !row.is_copy) {
        let message = format!(
            "pool {} is not a copy pool; 'holdfast admin pool add --copy' makes one",
            primary.name
        );
        return Err(StoreError::usage(message));
    }
    seal(store)?;
    let (present, missing): (Vec<PoolRow>, Vec<PoolRow>) =
        pools.into_iter().partition(|row| store.pools.usage(row.id).is_there);
    let mut run = Run::new(store, listener);
    present.iter().try_for_each(|row| run.fill(row, usize::MAX))?;
    match missing.first() {
        None => Ok(run.outcome),
        Some(row) => {
            let message = format!("pool {} is not available; is its disk mounted?", row.name);
            Err(StoreError::away(message))
        }
    }
}

impl Run<'_> {
    /// Copies the packs that a copy pool lacks, at most `packs_max`. If no missing pack is left
    /// after that, removes the packs that the primary pools no longer have. By then the
    /// replacements of those packs have arrived.
    fn fill(&mut self, row: &PoolRow, packs_max: usize) -> Result<(), StoreError> {
        assert!(row.is_copy, "only a copy pool takes every pack");
        let pool = row.id;
        catalog_copy::notice_strange(self.store)?;
        let mut missing = missing(self.store, pool)?;
        let is_all = missing.len() <= packs_max;
        missing.truncate(packs_max);
        self.expect(&missing);
        let store = self.store;
        let failures = self.outcome.failures.len();
        self.transfer(&missing, row, &|_| Ok(()))?;
        if is_all && self.outcome.failures.len() == failures {
            catalog_copy::spread(store, pool)?;
            forget_removed(store, pool)?;
        }
        Ok(())
    }
}

/// Removes from a copy pool the packs that were removed from the primary pools.
fn forget_removed(store: &Store, pool: PoolId) -> Result<(), StoreError> {
    if store.check_released().is_err() {
        return Ok(());
    }
    let there = store.pools.packs_of(pool);
    // The rows are read after the pool's list. So they include each pack made in between.
    let known: BTreeSet<PackNumber> = store.catalog.packs()?.iter().map(|row| row.number).collect();
    for pack in there.keys().filter(|pack| !known.contains(pack)) {
        if locked_until(store, pool, *pack)?.is_some() {
            continue;
        }
        let removed = store.pools.remove_from(pool, *pack);
        removed
            .map_err(|error| StoreError::away(format!("pack {pack} cannot be removed: {error}")))?;
    }
    Ok(())
}

/// Returns the time until which an object lock keeps the pack in the pool. Returns `None` for a
/// pack without a lock.
fn locked_until(
    store: &Store,
    pool: PoolId,
    pack: PackNumber,
) -> Result<Option<ServerTime>, StoreError> {
    let until = store.pools.locked_until(pack, Some(pool));
    until.map_err(|error| {
        StoreError::away(format!("the object lock of pack {pack} cannot be read: {error}"))
    })
}

/// Moves packs of the pool `name` to its next pool: all packs if `all` is true, otherwise as many
/// as the pool's marks require.
pub fn drain(
    store: &Arc<Store>,
    name: &str,
    all: bool,
    listener: Listener<'_>,
) -> Result<Outcome, StoreError> {
    let _only = only(store)?;
    let (row, next) = ends(store, name)?;
    if all {
        seal(store)?;
    }
    let mut run = Run::new(store, listener);
    let leaving = leaving(store, &row, &next, all)?;
    move_on(store, &mut run, (&row, &next), leaving, all)?;
    Ok(run.outcome)
}

/// Returns the pool `name` and its next pool.
pub(crate) fn ends(store: &Store, name: &str) -> Result<(PoolRow, PoolRow), StoreError> {
    let row = find(store, name)?;
    let Some(next) = row.next else {
        return Err(StoreError::conflict(format!(
            "pool {name} has no next pool; 'holdfast admin pool set {name} --next POOL' gives it \
             one"
        )));
    };
    let next = store.catalog.pools()?.into_iter().find(|other| other.id == next);
    let next = next.ok_or_else(|| {
        StoreError::conflict(format!(
            "the next pool of {name} no longer exists; 'holdfast admin pool set {name} --next \
             POOL' sets another"
        ))
    })?;
    assert_ne!(next.id, row.id, "no pool drains to itself");
    Ok((row, next))
}

/// Moves the packs that are `leaving` from one pool to another. If `all` is true, a pack that is
/// locked counts as a failure.
pub(super) fn move_on(
    store: &Store,
    run: &mut Run<'_>,
    (row, next): (&PoolRow, &PoolRow),
    mut leaving: Vec<(PackNumber, u64)>,
    all: bool,
) -> Result<(), StoreError> {
    if store.pools.has_locks() {
        let mut may_go = Vec::with_capacity(leaving.len());
        for (pack, bytes) in leaving {
            match locked_until(store, row.id, pack)? {
                None => may_go.push((pack, bytes)),
                Some(until) if all => {
                    run.outcome.failures.push((pack, object_lock::reason_to_stay(until)));
                }
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
        store
            .pools
            .remove_from(row.id, pack)
            .map_err(|source| pool::AppendError::Failed { pack, source }.into())
    });
    assert!(before <= run.outcome.packs_done, "the number of packs that are done only grows");
    let packs = run.outcome.packs_done - before;
    if packs > 0 {
        let packs = counted(packs, "pack");
        store.record("pool drained", format!("{packs} of pool {}", row.name))?;
    }
    moved
}

/// Returns the packs that are to leave the pool, each with its size in bytes.
///
/// Packs of catalogue copies do not move to volumes: recovery needs these packs before it has a
/// catalogue, and only the catalogue knows what lies on volumes.
pub(super) fn leaving(
    store: &Store,
    row: &PoolRow,
    next: &PoolRow,
    all: bool,
) -> Result<Vec<(PackNumber, u64)>, StoreError> {
    let to_volumes = store.pools.is_shelf(next.id);
    let marks = plan::Marks {
        high_percent: row.high_percent,
        low_percent: row.low_percent,
        delay_days: row.delay_days,
    };
    let usage = store.pools.usage(row.id);
    let used = plan::Occupancy { used: usage.bytes, max: usage.bytes_max };
    if !all && !marks.is_passed(used) {
        return Ok(Vec::new());
    }
    let packs = store.catalog.packs()?;
    let there = store.pools.packs_of(row.id);
    let now = sys::clock::now();
    let days = |pack: PackNumber| {
        if row.delay_days == 0 {
            return 0;
        }
        let arrival = store.pools.arrival(row.id, pack).ok();
        let since = arrival.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let secs = since.map_or(now.secs(), |since| since.as_secs().cast_signed());
        u64::try_from(now.secs() - secs).unwrap_or(0) / 86_400
    };
    let candidates: Vec<plan::PoolPack> = packs
        .iter()
        .filter(|pack| is_needed(pack.state))
        .filter(|pack| !(to_volumes && pack.domain == CATALOG_DOMAIN))
        .filter_map(|pack| {
            let bytes = *there.get(&pack.number)?;
            Some(plan::PoolPack { pack: pack.number, bytes, days: days(pack.number) })
        })
        .collect();
    let is_sorted = candidates.is_sorted_by(|a, b| a.pack < b.pack);
    debug_assert!(is_sorted, "the catalogue lists each pack once, in order");
    if all {
        return Ok(candidates.iter().map(|candidate| (candidate.pack, candidate.bytes)).collect());
    }
    Ok(plan::leaving(&candidates, used, marks))
}

/// Writes every damaged copy of these packs again from an undamaged copy. `None` stands for the
/// packs that the catalogue marks as damaged, and for the packs of which a read had to use another
/// copy.
pub fn repair(
    store: &Arc<Store>,
    packs: Option<&BTreeSet<PackNumber>>,
    listener: Listener<'_>,
) -> Result<Outcome, StoreError> {
    // The repair waits for other runs instead of failing: the caller may be an audit that has read
    // packs for days.
    let _only = store.tend();
    let suspects = match packs {
        Some(packs) => packs.clone(),
        None => {
            let mut suspects = store.pools.take_suspects();
            suspects.extend(&store.condemned().damaged);
            suspects
        }
    };
    let rows = store.catalog.packs()?;
    let suspects: Vec<(PackNumber, u64)> = rows
        .iter()
        .filter(|row| is_needed(row.state) && suspects.contains(&row.number))
        .map(|row| (row.number, row.bytes))
        .collect();
    let mut run = Run::new(store, listener);
    run.expect(&suspects);
    run.each(&suspects, |pack| mend(store, pack))?;
    if run.outcome.packs_done > 0 {
        let Outcome { packs_done, failures, .. } = &run.outcome;
        let (repaired, stay) = (counted(*packs_done, "pack"), failures.len());
        store.record("packs repaired", format!("{repaired}; {stay} left damaged"))?;
    }
    Ok(run.outcome)
}

/// Writes the pack again to each pool in which it is damaged, and to the first pool if no primary
/// pool has the pack any more.
fn mend(store: &Store, pack: PackNumber) -> Result<(), PutError> {
    let homes = store.pools.homes(pack);
    // Copies on volumes are read only on request: see `shelving::audit`.
    let homes = homes.iter().filter(|pool| !store.pools.is_shelf(**pool));
    for pool in homes.filter(|pool| !store.pools.is_whole(**pool, pack)) {
        store.pools.put(pack, *pool)?;
    }
    if !store.pools.has_primary(pack) && store.pools.usage(FIRST).is_there {
        store.pools.put(pack, FIRST)?;
    }
    Ok(())
}

/// Checks again which pools are available, and closes packs of which a write has failed. A pool
/// that has come back is treated as a start treats it.
pub fn refresh(store: &Store) {
    let mut back = store.pools.back();
    let mut records = BTreeMap::new();
    if !back.is_empty() {
        claim_back(store, &mut back);
    }
    if !back.is_empty() {
        match store.pack_records() {
            Ok(found) => records = found,
            Err(error) => {
                let error = model::chain(&error);
                tracing::error!(error, "a pool is available again, and cannot be used yet");
                back.clear();
            }
        }
    }
    let arrived = store.pools.refresh(&back, &records);
    for pool in &arrived.pools {
        tracing::info!(%pool, "a pool is available again");
    }
    if !arrived.pools.is_empty() {
        let noticed = catalog_copy::notice_strange(store).map(|()| Outcome::default());
        // An older catalogue may know less than the bucket holds.
        if noticed.is_ok() && arrived.pools.iter().any(|pool| store.pools.is_bucket(*pool)) {
            store.has_left_behind.store(true, Ordering::Relaxed);
        }
        log_outcome("copies of the catalogue", noticed);
    }
    let recorded = store.take_back(arrived.found).map(|()| Outcome::default());
    log_outcome("packs that are back", recorded);
    if !arrived.pools.is_empty() {
        let indexed = store.index_unread().map(|()| Outcome::default()).map_err(StoreError::from);
        log_outcome("the chunk index", indexed);
    }
    store.pools.close_failed();
}

/// Claims the pools that are `back`, before anything in them is changed: another server may have
/// one of them. Leaves those in `back` that this server may use.
fn claim_back(store: &Store, back: &mut BTreeSet<PoolId>) {
    let mut specs = store.pools.specs();
    specs.retain(|spec| back.contains(&spec.id));
    let refused = store.claim_each(&specs);
    back.retain(|pool| !refused.contains(pool));
}

/// Does the regular work on all pools: repairs packs, drains pools above their high mark, empties
/// volumes, and fills copy pools. If one step fails, the next steps are still done.
pub fn tend(store: &Arc<Store>, sealed: &mut std::time::Instant) {
    store.volumes.look_after_sites();
    store.claim_pools();
    if !store.keeps_house() {
        let told = store.hand_over_lost().map(|()| Outcome::default()).map_err(StoreError::from);
        return log_outcome("damage", told);
    }
    let cleared = store.clear_up().map(|()| Outcome::default()).map_err(StoreError::from);
    log_outcome("clear up", cleared);
    log_outcome("repair", repair_suspects(store));
    log_outcome("damage", lost::mark(store, refresh).map(|_| Outcome::default()));
    let rows = match store.catalog.pools() {
        Ok(rows) => rows,
        Err(error) => return log_outcome("pools", Err(error.into())),
    };
    let draining: Vec<&PoolRow> = rows.iter().filter(|row| row.next.is_some()).collect();
    regular_at(store, Task::Drain, &draining, |row, listener| {
        drain(store, &row.name, false, listener)
    });
    let has_copies = rows.iter().any(|row| row.is_copy);
    if has_copies && sealed.elapsed() > SEAL_EVERY {
        *sealed = sys::clock::monotonic();
        log_outcome("seal", seal(store).map(|()| Outcome::default()));
    }
    let reclaim = VolumeWork::Reclaim { pool: String::new(), volumes: Vec::new(), dead_percent: 0 };
    if rows.iter().any(|row| library_of(&row.url).is_some()) {
        let emptied = regular(store, Task::ReclaimVolumes, |listener| {
            tend_volumes(store, &reclaim, listener)
        });
        log_outcome("volumes", emptied);
    }
    let takes_copies = |row: &&PoolRow| row.is_copy && store.pools.usage(row.id).is_there;
    let filling: Vec<&PoolRow> = rows.iter().filter(takes_copies).collect();
    regular_at(store, Task::CopyPacks, &filling, |row, listener| copy_some(store, row, listener));
}

fn repair_suspects(store: &Arc<Store>) -> Result<Outcome, StoreError> {
    let suspects = store.pools.take_suspects();
    if suspects.is_empty() {
        return Ok(Outcome::default());
    }
    repair(store, Some(&suspects), &mut |_| true)
}

/// Does a part of the regular work as a task, which people see and can cancel once it lasts.
fn regular(
    store: &Arc<Store>,
    task: Task,
    work: impl FnOnce(Listener<'_>) -> Result<Outcome, StoreError>,
) -> Result<Outcome, StoreError> {
    if !store.tasks.may_begin(task) {
        return Ok(Outcome::default());
    }
    let trouble = |done: &Outcome| {
        let failed = (done.failures.len() + done.volumes.len()) as u64;
        (failed > 0).then(|| format!("{} could not be read or written", counted(failed, "place")))
    };
    let work = |open: &mut OpenRun<'_>| work(&mut |now: &Outcome| open.goes_on(|| now.numbers()));
    tasks::run_often(&*store.catalog, &store.tasks, task, work, trouble)
}

/// Does a part of the regular work at each of these pools, as one run of the task: so the run has
/// failed as long as the work fails at one of them. The others have their turn all the same.
fn regular_at(
    store: &Arc<Store>,
    task: Task,
    pools: &[&PoolRow],
    work: impl Fn(&PoolRow, Listener<'_>) -> Result<Outcome, StoreError>,
) {
    let done = regular(store, task, |listener| {
        let (mut all, mut failed) = (Outcome::default(), None::<StoreError>);
        for row in pools {
            let outcome = work(row, &mut *listener);
            log_outcome(&row.name, outcome.clone());
            match outcome {
                Ok(Outcome { failures, volumes, .. }) => {
                    all.failures.extend(failures);
                    all.volumes.extend(volumes);
                }
                Err(error @ StoreError::Cancelled(_)) => return Err(error),
                Err(error) if failed.as_ref().is_none_or(|first| !is_trouble(first)) => {
                    failed = Some(error);
                }
                Err(_) => {}
            }
        }
        failed.map_or(Ok(all), Err)
    });
    // The outcome of each pool is in the log.
    drop(done);
}

fn copy_some(
    store: &Arc<Store>,
    row: &PoolRow,
    listener: Listener<'_>,
) -> Result<Outcome, StoreError> {
    let _only = only(store)?;
    let mut run = Run::new(store, listener);
    run.fill(row, COPIED_MAX)?;
    Ok(run.outcome)
}

fn log_outcome(what: &str, outcome: Result<Outcome, StoreError>) {
    match outcome {
        Ok(Outcome { packs: 0, .. }) => {}
        Ok(Outcome { packs_done, bytes_done, failures, .. }) => {
            let left = failures.len();
            tracing::info!(what, packs_done, bytes_done, left, "the work on packs is done");
        }
        Err(error) if is_trouble(&error) => {
            tracing::warn!(what, error = model::chain(&error), "the work on packs failed");
        }
        Err(error) => {
            tracing::debug!(what, error = model::chain(&error), "the work on packs waits");
        }
    }
}

/// Returns false for the error of regular work that another run keeps out. Such a run may last for
/// hours, and a later round does what it leaves.
fn is_trouble(error: &StoreError) -> bool {
    !matches!(error, StoreError::Busy(text) if text == OTHER_RUN)
}

#[cfg(test)]
mod tests;

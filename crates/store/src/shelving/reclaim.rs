//! Emptying and checking volumes. The needed packs of a volume whose data is mostly dead move to
//! other volumes. Then the volume becomes scratch again.
//!
//! 1. A volume that is offsite is not read. Its packs are copied once more from other copies.
//! 2. A volume on which nothing is needed waits for its pool's reuse delay. So an older catalogue
//!    still finds the packs that it names.
//! 3. No other thread writes to volumes meanwhile: the caller holds `Store::tend`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::StoreError;
use catalog::{PoolRow, VolumeAccess, VolumePart, VolumeRow, VolumeState};
use model::{PackNumber, PoolId, ServerTime};
use pool::ReadError;

use super::crew::PackListener;
use super::write::write;
use crate::store::Store;
use crate::volumes::error::FetchError;
use crate::volumes::fetch::{EarlyRequests, PUSHED_OUT};
use crate::volumes::holdings::Volumes;
use crate::volumes::listing::access_word;
use crate::volumes::site::absence;
use crate::volumes::wait::Reader;

const DAY_MICROS: i64 = 86_400_000_000;

/// Listener of a run over volumes.
pub(crate) trait VolumeListener: PackListener {
    /// Adds these packs, each with its size in bytes, to the work that is expected.
    fn expect(&mut self, packs: &[(PackNumber, u64)]);

    /// Notes that a whole volume could not be read or imported, or is not emptied.
    fn volume_failed(&mut self, volume: &str, reason: String);
}

/// Makes each volume scratch on which nothing is needed, after the reuse delay of its pool.
pub(crate) fn free(store: &Store) -> Result<(), StoreError> {
    if store.check_released().is_err() {
        return Ok(());
    }
    let volumes = &store.volumes;
    let live = store.catalog.volume_bytes()?;
    let pools = store.catalog.pools()?;
    let delays: BTreeMap<PoolId, i64> =
        pools.iter().map(|pool| (pool.id, i64::from(pool.reuse_delay_days))).collect();
    let now = sys::clock::now();
    let rows: Vec<VolumeRow> = volumes.rows().values().cloned().collect();
    for row in rows.into_iter().filter(|row| !live.contains_key(&row.id)) {
        let delay = row.pool.and_then(|pool| delays.get(&pool)).copied().unwrap_or(0);
        let freed = freed(row.clone(), now, delay);
        if freed.state == row.state {
            continue;
        }
        tracing::info!(
            volume = row.name,
            state = freed.state.name(),
            "a volume holds nothing needed"
        );
        volumes.change(row.id, Vec::new(), |row| {
            (row.state, row.changed, row.pool) = (freed.state, freed.changed, freed.pool);
            (row.written_bytes, row.group) = (freed.written_bytes, freed.group);
            if row.access == VolumeAccess::ReadOnly {
                row.access = freed.access;
            }
        })?;
    }
    Ok(())
}

/// Returns the next row of a volume on which nothing is needed.
///
/// A volume that had errors or was imported is not used again until an administrator allows it.
fn freed(mut row: VolumeRow, now: ServerTime, delay_days: i64) -> VolumeRow {
    if row.errors > 0 {
        return row;
    }
    let is_used = matches!(row.state, VolumeState::Full | VolumeState::Filling);
    if is_used && (row.written_bytes > 0 || row.access != VolumeAccess::ReadWrite) {
        (row.state, row.changed) = (VolumeState::Pending, now);
    }
    let is_over = now.0 - row.changed.0 >= delay_days * DAY_MICROS;
    if row.state == VolumeState::Pending && is_over {
        (row.state, row.pool, row.written_bytes) = (VolumeState::Scratch, None, 0);
        row.group.clear();
        // A volume that was made read-only when it came back from offsite may be written again.
        if row.access == VolumeAccess::ReadOnly {
            row.access = VolumeAccess::ReadWrite;
        }
    }
    row
}

/// Empties the volumes of the pools whose share of dead data is at least `dead_percent`; 0 stands
/// for the share in the settings of each pool. Volumes with the least live data come first.
///
/// If volumes are `named`, no other is emptied. One that holds needed data and is not due is an
/// error if it is the only one; among several it is noted, and the others are emptied. Nothing is
/// done for one that holds none, or is not of these pools.
pub(crate) fn reclaim(
    store: &Arc<Store>,
    pools: &[PoolRow],
    named: &[VolumeRow],
    dead_percent: u8,
    listener: &mut dyn VolumeListener,
) -> Result<(), StoreError> {
    let live = store.catalog.volume_bytes()?;
    let mut chosen = Vec::new();
    for row in store.volumes.rows().values() {
        let is_named = named.iter().any(|volume| volume.id == row.id);
        if !is_named && !named.is_empty() {
            continue;
        }
        let Some(pool) = pools.iter().find(|pool| Some(pool.id) == row.pool) else { continue };
        let percent = if dead_percent == 0 { pool.reclaim_percent } else { dead_percent };
        let alive = live.get(&row.id).copied().unwrap_or(0);
        if alive == 0 {
            continue;
        }
        match reason_to_stay(row, alive, percent) {
            None => chosen.push((alive, row.clone())),
            Some(reason) if is_named && named.len() == 1 => {
                return Err(StoreError::conflict(format!("volume {} {reason}", row.name)));
            }
            Some(reason) if is_named => listener.volume_failed(&row.name, reason),
            Some(_) => {}
        }
    }
    chosen.sort_by_key(|(alive, row)| (*alive, row.id));
    let rows: Vec<VolumeRow> = chosen.into_iter().map(|(_, row)| row).collect();
    vacate(store, &rows, listener)
}

/// Returns the predicate of a sentence that says why a volume with `alive` needed bytes is not
/// emptied; `None` if it is.
fn reason_to_stay(row: &VolumeRow, alive: u64, percent: u8) -> Option<String> {
    // A volume that is being filled is not emptied, because its free space may still be used.
    let is_closed = row.state == VolumeState::Full
        || (row.state == VolumeState::Filling && row.access != VolumeAccess::ReadWrite);
    let move_it = format!("'holdfast admin volume move {}' empties it all the same", row.name);
    if !is_closed {
        return Some(format!("is {}, and takes more; {move_it}", row.state.name()));
    }
    if !is_movable(row.access) {
        return Some(format!("is {}", access_word(row.access)));
    }
    let dead = u128::from(row.written_bytes.saturating_sub(alive));
    let written = u128::from(row.written_bytes);
    let is_due = dead * 100 >= written * u128::from(percent) && percent < 100;
    (!is_due).then(|| {
        let share = dead * 100 / written.max(1);
        let rule = match percent {
            100.. => "a limit of 100 % empties none".to_owned(),
            _ => format!("is emptied from {percent} % on"),
        };
        format!("has {share} % dead data, and {rule}; {move_it}")
    })
}

/// Chooses the packs that are worth writing again. `shelved` has the packs that lie only on
/// volumes, each with the sizes of its live chunks and of all its chunks.
///
/// The chosen packs have dead chunks. They lie on a volume whose share of dead data, with the dead
/// chunks in its packs, reaches the share in the settings of its pool. Returns each pack with the
/// size of its live chunks.
pub(crate) fn worth_rewriting(
    store: &Store,
    shelved: &BTreeMap<PackNumber, (u64, u64)>,
) -> Result<BTreeMap<PackNumber, u64>, StoreError> {
    let pools = store.catalog.pools()?;
    let rows: Vec<VolumeRow> = store.volumes.rows().values().cloned().collect();
    let mut worth = BTreeMap::new();
    for row in rows.iter().filter(|row| absence(row.access).is_none()) {
        let Some(pool) = pools.iter().find(|pool| Some(pool.id) == row.pool) else { continue };
        if row.state != VolumeState::Full || pool.reclaim_percent >= 100 {
            continue;
        }
        let parts = store.catalog.volume_parts(row.id)?;
        let share = |pack: &PackNumber, bytes: u64| match shelved.get(pack) {
            Some((alive, all)) => {
                debug_assert!(alive <= all, "only chunks of the pack are alive");
                u128::from(bytes) * u128::from(*alive) / u128::from((*all).max(1))
            }
            None => u128::from(bytes),
        };
        let alive: u128 = parts.iter().map(|on| share(&on.pack, on.part.bytes)).sum();
        let dead = u128::from(row.written_bytes).saturating_sub(alive);
        if dead * 100 < u128::from(row.written_bytes) * u128::from(pool.reclaim_percent) {
            continue;
        }
        let sparse = parts.iter().filter_map(|on| Some((on.pack, *shelved.get(&on.pack)?)));
        worth.extend(sparse.filter(|(_, (alive, all))| alive < all).map(|(pack, of)| (pack, of.0)));
    }
    Ok(worth)
}

/// Returns the maximum size of the packs that one run may have on the stage at once.
pub(crate) fn staged_max(store: &Store) -> u64 {
    store.volumes.stage.bytes_max() / 2
}

/// Returns true if the packs of a volume can be read, from the volume or from another copy.
fn is_movable(access: VolumeAccess) -> bool {
    access != VolumeAccess::Unavailable
}

/// Moves all needed packs from these volumes to other volumes.
pub(crate) fn vacate(
    store: &Arc<Store>,
    rows: &[VolumeRow],
    listener: &mut dyn VolumeListener,
) -> Result<(), StoreError> {
    let avoided: BTreeSet<u64> = rows.iter().map(|row| row.id).collect();
    let pools = store.catalog.pools()?;
    let mut held = Vec::new();
    let mut expected: BTreeMap<PackNumber, u64> = BTreeMap::new();
    for row in rows {
        let Some(pool) = pools.iter().find(|pool| Some(pool.id) == row.pool) else { continue };
        let packs = packs_on(store, row)?;
        expected.extend(packs);
        held.push((row, pool));
    }
    // A pack that spans several volumes is moved once.
    listener.expect(&expected.into_iter().collect::<Vec<_>>());
    for (row, pool) in held {
        // Packs that also lay on an earlier volume have moved already.
        let packs = packs_on(store, row)?;
        let numbers: Vec<PackNumber> = packs.iter().map(|(pack, _)| *pack).collect();
        write(store, pool, &numbers, &avoided, listener)?;
        tracing::info!(volume = row.name, packs = packs.len(), "a volume was emptied");
        free(store)?;
    }
    Ok(())
}

/// Returns the packs on a volume, each with its size in bytes, in the order in which they lie.
fn packs_on(store: &Store, row: &VolumeRow) -> Result<Vec<(PackNumber, u64)>, StoreError> {
    let mut seen = BTreeSet::new();
    let mut packs = Vec::new();
    for VolumePart { pack, .. } in store.catalog.volume_parts(row.id)? {
        if seen.insert(pack) {
            packs.push((pack, store.pools.bytes_of(pack)));
        }
    }
    Ok(packs)
}

/// Reads those packs to the stage that lie only on volumes.
pub(crate) fn bring<'a>(
    store: &Arc<Store>,
    packs: impl IntoIterator<Item = &'a PackNumber>,
) -> Result<(), StoreError> {
    let shelved = packs.into_iter().filter(|pack| store.pools.is_only_shelved(**pack));
    let shelved: Vec<_> = shelved.map(|pack| (*pack, store.pools.bytes_of(*pack))).collect();
    if shelved.is_empty() {
        return Ok(());
    }
    let mut ahead = EarlyRequests::new(&store.volumes, Reader::server(), shelved.clone());
    ahead.advance()?;
    for (pack, bytes) in shelved {
        // The error of a pack that does not arrive is reported when the pack is read.
        ahead.wait_for(pack, bytes, &|| !store.stopping.load(Ordering::Relaxed))?;
    }
    Ok(())
}

/// Reads and checks all packs on the volumes.
pub(crate) fn audit(
    store: &Arc<Store>,
    rows: &[VolumeRow],
    listener: &mut dyn VolumeListener,
) -> Result<(), StoreError> {
    let mut held = Vec::new();
    for row in rows {
        if absence(row.access).is_some() {
            let reason = format!("the volume is {}", access_word(row.access));
            listener.volume_failed(&row.name, reason);
            continue;
        }
        let packs = packs_on(store, row)?;
        listener.expect(&packs);
        held.push((row, packs));
    }
    for (row, packs) in held {
        for (pack, _) in packs {
            if !listener.goes_on() {
                return Err(StoreError::cancelled("the audit was cancelled"));
            }
            let pool = row.pool.unwrap_or(PoolId(0));
            let Err(error) = store.volumes.check(store, pool, pack) else {
                listener.stored(pack)?;
                continue;
            };
            let reason = format!("on volume {}: {}", row.name, model::chain(&error));
            let again = rewrite(store, row, pack)?;
            listener.failed(pack, if again { format!("{reason}; {REPAIRED}") } else { reason });
        }
    }
    Ok(())
}

/// Fault of one copy of a pack on volumes. In both cases the pack is written again from an
/// undamaged copy, if there is one.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    /// The copy could not be read. It may be undamaged.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The copy was read and differs from the pack that was written. No reader may get it.
    #[error(transparent)]
    Content(#[from] ReadError),
}

/// Remark on a damaged pack that was repaired.
const REPAIRED: &str = "the pack was written again from an undamaged copy";

/// Writes a pack that is damaged on a volume to another volume, if a pool has the pack undamaged.
/// Returns true if the pack was written.
fn rewrite(store: &Arc<Store>, row: &VolumeRow, pack: PackNumber) -> Result<bool, StoreError> {
    let pools = store.catalog.pools()?;
    let Some(pool) = pools.iter().find(|pool| Some(pool.id) == row.pool) else { return Ok(false) };
    let mut repair = Repair::default();
    write(store, pool, &[pack], &BTreeSet::from([row.id]), &mut repair)?;
    Ok(repair.is_stored)
}

/// Outcome of writing a damaged pack again.
#[derive(Default)]
struct Repair {
    is_stored: bool,
}

impl PackListener for Repair {
    fn stored(&mut self, _: PackNumber) -> Result<(), StoreError> {
        self.is_stored = true;
        Ok(())
    }

    fn failed(&mut self, pack: PackNumber, reason: String) {
        tracing::error!(%pack, reason, "a pack is damaged in every pool");
    }

    fn goes_on(&mut self) -> bool {
        true
    }
}

impl Volumes {
    /// Reads the copy of a pack in this pool from its volumes, and checks the copy.
    fn check(
        self: &Arc<Self>,
        store: &Store,
        pool: PoolId,
        pack: PackNumber,
    ) -> Result<(), CheckError> {
        self.stage.forget(pack);
        self.fetch_own(pool, pack)?;
        let file = self.stage.open_pack(pack).ok_or(FetchError::Retry(PUSHED_OUT))?;
        let checked = store.pools.check_file(file, pack);
        if checked.is_err() {
            // The damaged copy must not serve any reader.
            self.stage.forget(pack);
        }
        Ok(checked?)
    }
}

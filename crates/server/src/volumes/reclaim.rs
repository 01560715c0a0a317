//! Volumes emptied and checked: what is needed of one that is nearly dead goes to others, and then
//! it is scratch again.
//!
//! 1. Of a volume that is offsite nothing is read: what it holds is copied once more from what is
//!    here.
//! 2. A volume of which nothing is needed waits for its pool's reuse delay, so that a catalogue
//!    from before still finds what it names.
//! 3. Nobody writes meanwhile: whoever calls holds `Core::tending`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use catalog::{PoolRow, VolumeAccess, VolumeRow, VolumeState};
use model::{PackNumber, PoolId, ServerTime};
use tonic::Status;

use super::Volumes;
use super::fetch::{Ahead, Who};
use super::listing::access_word;
use super::site::absence;
use super::write::{Carrying, write};
use crate::core::Core;
use crate::recovery;
use crate::refusal;

const DAY_MICROS: i64 = 86_400_000_000;

fn failed(error: catalog::CatalogError) -> Status {
    refusal::catalog(&error)
}

/// What a run over packs of volumes tells.
pub(crate) trait Watching: Carrying {
    /// There is so much to do.
    fn expect(&mut self, packs: &[(PackNumber, u64)]);

    /// Something is wrong with a whole volume.
    fn volume_failed(&mut self, volume: &str, reason: String);
}

/// Has volumes of which nothing is needed be scratch again, once their pool's delay is over.
pub(crate) fn free(core: &Core) -> Result<(), Status> {
    if recovery::check_released(core).is_err() {
        return Ok(());
    }
    let volumes = &core.volumes;
    let live = core.catalog.volume_bytes().map_err(failed)?;
    let pools = core.catalog.pools().map_err(failed)?;
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
        tracing::info!(volume = row.name, state = ?freed.state, "nothing on a volume is needed");
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

/// What becomes of a volume on which nothing is needed.
///
/// One that has given trouble, or was taken in, is not used again before an administrator says so.
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
        // What was closed because it had come back from offsite may be written again.
        if row.access == VolumeAccess::ReadOnly {
            row.access = VolumeAccess::ReadWrite;
        }
    }
    row
}

/// Empties the volumes of the pools of which so many per cent are dead, the deadest first;
/// `dead_percent` 0: as each pool says.
pub(crate) fn reclaim(
    core: &Arc<Core>,
    pools: &[PoolRow],
    dead_percent: u8,
    watching: &mut dyn Watching,
) -> Result<(), Status> {
    let live = core.catalog.volume_bytes().map_err(failed)?;
    let mut chosen = Vec::new();
    for row in core.volumes.rows().values() {
        let Some(pool) = pools.iter().find(|pool| Some(pool.id) == row.pool) else { continue };
        let percent = if dead_percent == 0 { pool.reclaim_percent } else { dead_percent };
        let alive = live.get(&row.id).copied().unwrap_or(0);
        let dead = row.written_bytes.saturating_sub(alive);
        let is_due = u128::from(dead) * 100 >= u128::from(row.written_bytes) * u128::from(percent);
        // Of one that is being filled the rest may still come to be used.
        let is_closed = row.state == VolumeState::Full
            || (row.state == VolumeState::Filling && row.access != VolumeAccess::ReadWrite);
        if is_closed && alive > 0 && is_due && percent < 100 && is_movable(row.access) {
            chosen.push((alive, row.clone()));
        }
    }
    chosen.sort_by_key(|(alive, row)| (*alive, row.id));
    let rows: Vec<VolumeRow> = chosen.into_iter().map(|(_, row)| row).collect();
    vacate(core, &rows, watching)
}

/// Packs of which something is dead, of `shelved`, those that lie on volumes alone with their bytes
/// that are alive and all: where so much of a volume is dead as its pool says, within packs too.
/// With each its bytes that are alive.
pub(crate) fn worth_rewriting(
    core: &Core,
    shelved: &BTreeMap<PackNumber, (u64, u64)>,
) -> Result<BTreeMap<PackNumber, u64>, Status> {
    let pools = core.catalog.pools().map_err(failed)?;
    let rows: Vec<VolumeRow> = core.volumes.rows().values().cloned().collect();
    let mut worth = BTreeMap::new();
    for row in rows.iter().filter(|row| absence(row.access).is_none()) {
        let Some(pool) = pools.iter().find(|pool| Some(pool.id) == row.pool) else { continue };
        if row.state != VolumeState::Full || pool.reclaim_percent >= 100 {
            continue;
        }
        let parts = core.catalog.volume_parts(row.id).map_err(failed)?;
        let share = |pack: &PackNumber, bytes: u64| match shelved.get(pack) {
            Some((alive, all)) => {
                u128::from(bytes) * u128::from(*alive) / u128::from((*all).max(1))
            }
            None => u128::from(bytes),
        };
        let alive: u128 = parts.iter().map(|(_, pack, part)| share(pack, part.bytes)).sum();
        let dead = u128::from(row.written_bytes).saturating_sub(alive);
        if dead * 100 < u128::from(row.written_bytes) * u128::from(pool.reclaim_percent) {
            continue;
        }
        let sparse = parts.iter().filter_map(|(_, pack, _)| Some((*pack, *shelved.get(pack)?)));
        worth.extend(sparse.filter(|(_, (alive, all))| alive < all).map(|(pack, of)| (pack, of.0)));
    }
    Ok(worth)
}

/// As many bytes of packs as may be on the disk at once for one purpose.
pub(crate) fn staged_max(core: &Core) -> u64 {
    core.volumes.stage.bytes_max() / 2
}

/// Whether packs of such a volume can be had, from it or from elsewhere.
fn is_movable(access: VolumeAccess) -> bool {
    access != VolumeAccess::Unavailable
}

/// Moves all that is needed off the volumes.
pub(crate) fn vacate(
    core: &Arc<Core>,
    rows: &[VolumeRow],
    watching: &mut dyn Watching,
) -> Result<(), Status> {
    let avoided: BTreeSet<u64> = rows.iter().map(|row| row.id).collect();
    let pools = core.catalog.pools().map_err(failed)?;
    let mut held = Vec::new();
    let mut expected: BTreeMap<PackNumber, u64> = BTreeMap::new();
    for row in rows {
        let Some(pool) = pools.iter().find(|pool| Some(pool.id) == row.pool) else { continue };
        let packs = packs_on(core, row)?;
        expected.extend(packs);
        held.push((row, pool));
    }
    // One that spans several volumes is moved once.
    watching.expect(&expected.into_iter().collect::<Vec<_>>());
    for (row, pool) in held {
        // What went with a volume before it is not here any more.
        let packs = packs_on(core, row)?;
        let numbers: Vec<PackNumber> = packs.iter().map(|(pack, _)| *pack).collect();
        write(core, pool, &numbers, &avoided, watching)?;
        tracing::info!(volume = row.name, packs = packs.len(), "a volume was emptied");
        free(core)?;
    }
    Ok(())
}

/// The packs on a volume with their bytes, in the order in which they lie.
fn packs_on(core: &Core, row: &VolumeRow) -> Result<Vec<(PackNumber, u64)>, Status> {
    let mut seen = BTreeSet::new();
    let mut packs = Vec::new();
    for (_, pack, _) in core.catalog.volume_parts(row.id).map_err(failed)? {
        if seen.insert(pack) {
            packs.push((pack, core.pools.bytes_of(pack)));
        }
    }
    Ok(packs)
}

/// Has the packs on the disk, those that are only on volumes.
pub(crate) fn bring<'a>(
    core: &Arc<Core>,
    packs: impl IntoIterator<Item = &'a PackNumber>,
) -> Result<(), Status> {
    let shelved = packs.into_iter().filter(|pack| core.pools.is_only_shelved(**pack));
    let shelved: Vec<_> = shelved.map(|pack| (*pack, core.pools.bytes_of(*pack))).collect();
    if shelved.is_empty() {
        return Ok(());
    }
    let mut ahead = Ahead::new(&core.volumes, Who::server(), shelved.clone());
    ahead.advance().map_err(Status::unavailable)?;
    for (pack, bytes) in shelved {
        // One that does not come is said when it is read.
        ahead
            .wait_for(pack, bytes, &|| !core.stopping.load(Ordering::Relaxed))
            .map_err(Status::unavailable)?;
    }
    Ok(())
}

/// Reads everything on the volumes and checks it.
pub(crate) fn audit(
    core: &Arc<Core>,
    rows: &[VolumeRow],
    watching: &mut dyn Watching,
) -> Result<(), Status> {
    let mut held = Vec::new();
    for row in rows {
        if absence(row.access).is_some() {
            watching.volume_failed(&row.name, format!("it is {}", access_word(row.access)));
            continue;
        }
        let packs = packs_on(core, row)?;
        watching.expect(&packs);
        held.push((row, packs));
    }
    for (row, packs) in held {
        for (pack, _) in packs {
            if !watching.goes_on() {
                return Err(Status::cancelled("the audit was cancelled"));
            }
            let pool = row.pool.unwrap_or(PoolId(0));
            let Err(reason) = core.volumes.check(core, pool, pack) else {
                watching.stored(pack)?;
                continue;
            };
            let reason = format!("on volume {}: {reason}", row.name);
            let again = rewrite(core, row, pack)?;
            watching.failed(pack, if again { format!("{reason}; {REPAIRED}") } else { reason });
        }
    }
    Ok(())
}

const REPAIRED: &str = "it was written again from what is whole elsewhere";

/// Writes a pack that is damaged on a volume anew, if any pool has it whole; whether it has.
fn rewrite(core: &Arc<Core>, row: &VolumeRow, pack: PackNumber) -> Result<bool, Status> {
    let pools = core.catalog.pools().map_err(failed)?;
    let Some(pool) = pools.iter().find(|pool| Some(pool.id) == row.pool) else { return Ok(false) };
    let mut again = Again::default();
    write(core, pool, &[pack], &BTreeSet::from([row.id]), &mut again)?;
    Ok(again.is_stored)
}

#[derive(Default)]
struct Again {
    is_stored: bool,
}

impl Carrying for Again {
    fn stored(&mut self, _: PackNumber) -> Result<(), Status> {
        self.is_stored = true;
        Ok(())
    }

    fn failed(&mut self, pack: PackNumber, reason: String) {
        tracing::error!(%pack, reason, "a pack is damaged wherever it is");
    }

    fn goes_on(&mut self) -> bool {
        true
    }
}

impl Volumes {
    /// Reads the pool's copy of a pack from its volumes, whatever is elsewhere.
    fn check(self: &Arc<Self>, core: &Core, pool: PoolId, pack: PackNumber) -> Result<(), String> {
        self.stage.forget(pack);
        self.fetch_own(pool, pack)?;
        let file = self.stage.open_pack(pack).ok_or("it was pushed out of the stage")?;
        let checked = core.pools.check_file(file, pack);
        if checked.is_err() {
            // Nobody is to be served what is wrong.
            self.stage.forget(pack);
        }
        checked.map_err(|error| model::chain(&error))
    }
}

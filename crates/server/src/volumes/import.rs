//! Volumes that the catalogue does not know, or not all of: what they say of themselves is taken
//! in. After a loss the catalogue comes from a copy, which does not know what went to volumes
//! since.
//!
//! 1. A pack is taken in whole: where it goes on on another volume, both are read in one run.
//! 2. What the catalogue knows already stays as it is.
//! 3. A volume that is taken in is not added to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use catalog::{
    PackRow, PackState, PartRow, PoolRow, StoredPack, VolumeAccess, VolumeRow, VolumeState, Write,
};
use format::volume::{Label, Part, VolumeName};
use model::PackNumber;
use tape::operator::Known;
use tape::schedule::VolumeId;
use tape::volume::{self, VolumeError, VolumeReader};
use tonic::Status;

use super::choose::{BLOCK_BYTES, next_identity};
use super::reclaim::Watching;
use super::site::{self, Site};
use super::write::{object_of, pack_of, row_of};
use crate::core::Core;
use crate::refusal;

fn failed(error: catalog::CatalogError) -> Status {
    refusal::catalog(&error)
}

/// Takes in what lies on the volumes of the library.
pub(crate) fn import(
    core: &Arc<Core>,
    library: &str,
    names: &[String],
    watching: &mut dyn Watching,
) -> Result<(), Status> {
    let site = core.volumes.site(library).map_err(Status::not_found)?;
    let pools = core.catalog.pools().map_err(failed)?;
    let mut found: BTreeMap<(model::PoolId, PackNumber), Vec<PartRow>> = BTreeMap::new();
    for name in names {
        match read(core, &site, name) {
            Ok((label, parts)) => {
                let row = match known(core, &site, &label, &parts, &pools) {
                    Ok(row) => row,
                    Err(status) => {
                        watching.volume_failed(name, status.message().to_owned());
                        continue;
                    }
                };
                for part in &parts {
                    let pack = pack_of(part.object);
                    let is_of = |pool: &&PoolRow| object_of(pool, pack) == part.object;
                    if let Some(pool) = pools.iter().find(is_of) {
                        found.entry((pool.id, pack)).or_default().push(row_of(row.id, part));
                    }
                }
            }
            Err(reason) => watching.volume_failed(name, reason),
        }
    }
    for ((pool, pack), parts) in found {
        take_in(core, (pool, pack), parts, watching)?;
    }
    Ok(())
}

/// What the volume says of itself.
fn read(core: &Core, site: &Site, name: &str) -> Result<(Label, Vec<Part>), String> {
    let name = VolumeName::new(name).map_err(|error| error.to_string())?;
    let operator = site.operator()?;
    let row = core.volumes.find_row(Some(&site.name), name.as_str());
    let lent = match row.as_ref().map(site::known) {
        Some(known) => operator.borrow(&known?).ok(),
        None => None,
    };
    // One that is not known, or is another than the catalogue thinks.
    let id = VolumeId(u64::MAX - core.volumes.last_wait.fetch_add(1, Ordering::Relaxed));
    let known = Known { id, name, label: None, block_bytes: BLOCK_BYTES };
    let mut lent = match lent {
        Some(lent) => lent,
        None => operator.borrow(&known).map_err(|error| model::chain(&error))?,
    };
    let told = |error: VolumeError| model::chain(&error);
    let label = volume::read_label(lent.medium()).map_err(told)?;
    if label.name != known.name {
        return Err(format!("its label says that it is {}", label.name));
    }
    let mut reader = VolumeReader::resume(lent.medium(), label.clone());
    let listing = reader.list().map_err(told)?;
    Ok((label, listing.parts))
}

/// The catalogue's volume of this name has another label: what it says of it is no longer so, if
/// the label is one that the volume has got since; else it is another volume.
fn renew(core: &Core, row: &VolumeRow, label: &Label) -> Result<(), Status> {
    let later = std::iter::successors(Some(row.label), |label| Some(next_identity(*label)));
    if !later.take(IDENTITIES_MAX).any(|later| later == label.volume.0) {
        let name = &row.name;
        let message = format!(
            "it is not the {name} that the catalogue knows; 'holdfast admin volume remove {name}' \
             forgets that one, if nothing on it is needed"
        );
        return Err(Status::failed_precondition(message));
    }
    let parts = core.catalog.volume_parts(row.id).map_err(failed)?;
    for (pool, pack, _) in parts {
        core.pools
            .remove_from(pool, pack)
            .map_err(|error| Status::unavailable(error.to_string()))?;
    }
    core.volumes
        .change(row.id, Vec::new(), |row| row.state = VolumeState::Scratch)
        .map(drop)
}

/// So often a volume may have been used again since the catalogue was copied.
const IDENTITIES_MAX: usize = 1024;

/// The volume's row, made if the catalogue has none of it as it is now.
fn known(
    core: &Core,
    site: &Site,
    label: &Label,
    parts: &[Part],
    pools: &[PoolRow],
) -> Result<VolumeRow, Status> {
    let known = core.volumes.find_row(Some(&site.name), label.name.as_str());
    if let Some(row) = known {
        if row.label == label.volume.0 {
            return match row.state {
                VolumeState::Scratch | VolumeState::Pending => {
                    Err(Status::failed_precondition("it is scratch: nothing on it is needed"))
                }
                // What it holds beyond what the catalogue knows is not to be written over.
                _ => core.volumes.change(row.id, Vec::new(), |row| {
                    row.access = VolumeAccess::ReadOnly;
                    row.errors = row.errors.max(1);
                }),
            };
        }
        renew(core, &row, label)?;
    }
    let row = core.volumes.add(site, label)?;
    let pool = pools.iter().find(|pool| pool.name == label.pool).map(|pool| pool.id);
    core.volumes.change(row.id, Vec::new(), |row| {
        row.pool = pool;
        row.written_bytes = parts.iter().map(|part| part.bytes).sum();
        if !parts.is_empty() {
            (row.state, row.access) = (VolumeState::Full, VolumeAccess::ReadOnly);
            // It may hold more than is taken in: an administrator says when it is used again.
            row.errors = 1;
        }
    })
}

/// Has the catalogue know the pack, if all of it is there and it is not known yet.
fn take_in(
    core: &Core,
    (pool, pack): (model::PoolId, PackNumber),
    parts: Vec<PartRow>,
    watching: &mut dyn Watching,
) -> Result<(), Status> {
    let rows = core.catalog.packs().map_err(failed)?;
    let row = rows.into_iter().find(|row| row.number == pack);
    let is_sealed = row.as_ref().is_some_and(|row| row.state.is_sealed());
    if is_sealed && !core.catalog.parts(pool, pack).map_err(failed)?.is_empty() {
        return Ok(());
    }
    if core.condemned().holds(pack) {
        // Nothing needs it, and nothing new may name it.
        return Ok(());
    }
    let Some(parts) = whole(&parts) else {
        watching.failed(pack, "a part of it is on a volume that was not named".to_owned());
        return Ok(());
    };
    let bytes = parts.iter().map(|part| part.bytes).sum();
    watching.expect(&[(pack, bytes)]);
    let stored = StoredPack { pack, bytes, stored: sys::clock::now() };
    let put = Write::PutParts { pool, stored, parts };
    core.catalog.commit(vec![put]).map_err(failed)?;
    core.pools.admit_shelved(pack, pool, bytes);
    match core.pools.closed(pack) {
        Ok((table, _)) if is_sealed && row.as_ref().is_some_and(|row| row.bytes != bytes) => {
            drop(table);
            forget(core, (pool, pack))?;
            watching.failed(pack, "the catalogue knows another pack of this number".to_owned());
            Ok(())
        }
        Ok((table, bytes)) => {
            if !is_sealed {
                // One that was open when the catalogue was copied is closed by now.
                let (number, domain, state) = (pack, table.domain, PackState::Sealed);
                let row = PackRow { number, domain, state, bytes, node: None };
                core.catalog.commit(vec![Write::PutPack(row)]).map_err(failed)?;
            }
            watching.stored(pack)
        }
        Err(error) => {
            forget(core, (pool, pack))?;
            watching.failed(pack, model::chain(&error));
            Ok(())
        }
    }
}

/// The pack is not taken in after all: the next run tries again.
fn forget(core: &Core, (pool, pack): (model::PoolId, PackNumber)) -> Result<(), Status> {
    let removed = core.pools.remove_from(pool, pack);
    removed.map_err(|error| Status::unavailable(error.to_string()))
}

/// The parts that make up the whole, in order; of several that begin at one place the last.
fn whole(parts: &[PartRow]) -> Option<Vec<PartRow>> {
    let mut wanted = 0;
    let mut chosen = Vec::new();
    loop {
        let next = parts.iter().rev().find(|part| part.offset == wanted && part.bytes > 0)?;
        wanted += next.bytes;
        chosen.push(*next);
        if next.is_last {
            return Some(chosen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(volume: u64, offset: u64, bytes: u64, is_last: bool) -> PartRow {
        PartRow {
            volume,
            object: [0; 16],
            object_sequence: 1,
            position: 2,
            block_count: 1,
            first_sequence: 0,
            offset,
            bytes,
            is_last,
        }
    }

    #[track_caller]
    fn check(parts: Vec<PartRow>, expected: Option<&[u64]>) {
        let found = whole(&parts);
        let volumes = found.map(|parts| parts.iter().map(|part| part.volume).collect::<Vec<_>>());
        assert_eq!(volumes.as_deref(), expected);
    }

    #[test]
    fn a_pack_is_whole_where_its_parts_meet() {
        check(vec![part(1, 0, 10, true)], Some(&[1]));
        check(vec![part(2, 4, 6, true), part(1, 0, 4, false)], Some(&[1, 2]));
        check(vec![part(2, 4, 6, true)], None);
        check(vec![part(1, 0, 4, false)], None);
        check(vec![part(1, 0, 4, false), part(3, 0, 10, true)], Some(&[3]));
    }
}

//! Volumes that the catalogue does not know, or not all of: what they say of themselves is taken
//! in. After a loss the catalogue comes from a copy, which does not know what went to volumes
//! since.
//!
//! 1. A pack is taken in whole: where it goes on on another volume, both are read in one run.
//! 2. What the catalogue knows already stays as it is.
//! 3. A volume that is taken in is not added to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catalog::{
    PackRow, PackState, PartRow, PoolRow, StoredPack, VolumeAccess, VolumeRow, VolumeState, Write,
};
use format::volume::{Label, Part, VolumeName};
use model::PackNumber;
use tape::operator::Known;
use tape::schedule::VolumeId;
use tape::volume::{self, VolumeError, VolumeReader};
use tonic::Status;

use super::choose::BLOCK_BYTES;
use super::reclaim::Watching;
use super::site::Site;
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
                let row = known(core, &site, &label, &parts, &pools)?;
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
    let id = core.volumes.find_row(Some(&site.name), name.as_str()).map(|row| row.id);
    // A number that no volume has, for one that is not known.
    let id = VolumeId(id.unwrap_or(u64::MAX));
    let known = Known { id, name, label: None, block_bytes: BLOCK_BYTES };
    let mut lent = site.operator()?.borrow(&known).map_err(|error| refusal::chain(&error))?;
    let told = |error: VolumeError| refusal::chain(&error);
    let label = volume::read_label(lent.medium()).map_err(told)?;
    if label.name != known.name {
        return Err(format!("its label says that it is {}", label.name));
    }
    let mut reader = VolumeReader::resume(lent.medium(), label.clone());
    let listing = reader.list().map_err(told)?;
    Ok((label, listing.parts))
}

/// The volume's row, made if the catalogue has none of it as it is now.
fn known(
    core: &Core,
    site: &Site,
    label: &Label,
    parts: &[Part],
    pools: &[PoolRow],
) -> Result<VolumeRow, Status> {
    let known = core.volumes.find_row(Some(&site.name), label.name.as_str());
    if let Some(row) = known.filter(|row| row.label == label.volume.0) {
        return Ok(row);
    }
    let row = core.volumes.add(site, label)?;
    let pool = pools.iter().find(|pool| pool.name == label.pool).map(|pool| pool.id);
    core.volumes.change(row.id, Vec::new(), |row| {
        row.pool = pool;
        row.written_bytes = parts.iter().map(|part| part.bytes).sum();
        if !parts.is_empty() {
            (row.state, row.access) = (VolumeState::Full, VolumeAccess::ReadOnly);
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
    if !core.catalog.parts(pool, pack).map_err(failed)?.is_empty() {
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
        Ok((table, bytes)) => {
            let rows = core.catalog.packs().map_err(failed)?;
            // One that was open when the catalogue was copied is closed by now.
            let is_known = |row: &PackRow| row.number == pack && row.state.is_sealed();
            if !rows.iter().any(is_known) {
                let (number, domain, state) = (pack, table.domain, PackState::Sealed);
                let row = PackRow { number, domain, state, bytes, node: None };
                core.catalog.commit(vec![Write::PutPack(row)]).map_err(failed)?;
            }
            core.index_again(&BTreeSet::from([pack]));
            watching.stored(pack)
        }
        Err(error) => {
            watching.failed(pack, refusal::chain(&error));
            Ok(())
        }
    }
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

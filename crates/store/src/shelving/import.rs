//! Import of volumes that the catalogue does not know, or knows only in part. After a loss the
//! catalogue is made again from a copy, which lacks the packs that went to volumes since then.
//!
//! 1. A pack is imported as a whole. If it continues on another volume, one run must read both.
//! 2. Packs that the catalogue already knows are not changed.
//! 3. Nothing is added to an imported volume.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::StoreError;
use catalog::{
    PackRow, PackState, PartRow, PoolRow, StoredPack, VolumeAccess, VolumePart, VolumeRow,
    VolumeState, Write,
};
use format::volume::{Label, Part, VolumeName, VolumeNameError};
use model::PackNumber;
use tape::operator::{LoanError, VolumeRef};
use tape::schedule::VolumeId;
use tape::volume::{self, VolumeError, VolumeReader};

use super::reclaim::VolumeListener;
use super::write::{object_of, pack_of, row_of};
use crate::store::Store;
use crate::volumes::choose::{BLOCK_BYTES, next_identity};
use crate::volumes::error::LibraryError;
use crate::volumes::site::{self, Site};

/// Imports the packs on the volumes `names` of the library.
pub(crate) fn import(
    store: &Arc<Store>,
    library: &str,
    names: &[String],
    listener: &mut dyn VolumeListener,
) -> Result<(), StoreError> {
    let site = store.volumes.site(library)?;
    let pools = store.catalog.pools()?;
    let mut found: BTreeMap<(model::PoolId, PackNumber), Vec<PartRow>> = BTreeMap::new();
    for name in names {
        match read(store, &site, name) {
            Ok((label, parts)) => {
                let row = match known(store, &site, &label, &parts, &pools) {
                    Ok(row) => row,
                    Err(error) => {
                        listener.volume_failed(name, error.to_string());
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
            Err(error) => listener.volume_failed(name, model::chain(&error)),
        }
    }
    for ((pool, pack), parts) in found {
        take_in(store, (pool, pack), parts, listener)?;
    }
    Ok(())
}

/// Failure to list the packs of a volume. The run goes on with the next volume.
#[derive(Debug, thiserror::Error)]
enum ListError {
    /// The author of the request corrects the name.
    #[error(transparent)]
    Name(#[from] VolumeNameError),
    /// The administrator repairs the library.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The administrator brings the volume, or checks the drives.
    #[error(transparent)]
    Loan(#[from] LoanError),
    /// The administrator puts the right volume in place, or corrects its bar code.
    #[error("the label names the volume {found}; give this name, or bring the right volume")]
    OtherLabel { found: VolumeName },
    /// The volume is damaged, or it is not a volume of a Holdfast server.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

/// Reads the volume's label and the list of its parts.
fn read(store: &Store, site: &Site, name: &str) -> Result<(Label, Vec<Part>), ListError> {
    let name = VolumeName::new(name)?;
    let operator = site.operator()?;
    let row = store.volumes.find_row(Some(&site.name), name.as_str());
    // A row with an invalid name is of no use here.
    let known = row.and_then(|row| site::known(&row).ok());
    let lent = known.and_then(|known| operator.borrow(&known).ok());
    // This reference is for a volume that the catalogue does not know, or knows with another label.
    let id = VolumeId(u64::MAX - store.volumes.waits.next_number());
    let known = VolumeRef { id, name, label: None, block_bytes: BLOCK_BYTES };
    let mut lent = match lent {
        Some(lent) => lent,
        None => operator.borrow(&known)?,
    };
    let label = volume::read_label(lent.medium())?;
    if label.name != known.name {
        return Err(ListError::OtherLabel { found: label.name });
    }
    let mut reader = VolumeReader::resume(lent.medium(), label.clone());
    let listing = reader.list()?;
    Ok((label, listing.parts))
}

/// Forgets the old parts of a volume that was used again after the catalogue was copied. The label
/// of such a volume has one of the identities that follow the known identity. Fails for any other
/// label, because it belongs to another volume.
fn renew(store: &Store, row: &VolumeRow, label: &Label) -> Result<(), StoreError> {
    let later = std::iter::successors(Some(row.label), |label| Some(next_identity(*label)));
    if !later.take(IDENTITIES_MAX).any(|later| later == label.volume.0) {
        let name = &row.name;
        let message = format!(
            "the volume is not the {name} that the catalogue knows; if nothing on the known volume \
             is needed, remove it with 'holdfast admin volume remove {name}'"
        );
        return Err(StoreError::conflict(message));
    }
    let parts = store.catalog.volume_parts(row.id)?;
    for VolumePart { pool, pack, .. } in parts {
        store
            .pools
            .remove_from(pool, pack)
            .map_err(|error| StoreError::away(error.to_string()))?;
    }
    store
        .volumes
        .change(row.id, Vec::new(), |row| row.state = VolumeState::Scratch)
        .map(drop)
}

/// Maximum number of times that a volume may have been used again since the catalogue was copied.
const IDENTITIES_MAX: usize = 1024;

/// Returns the volume's row. Adds a row if the catalogue does not know a volume with this label.
fn known(
    store: &Store,
    site: &Site,
    label: &Label,
    parts: &[Part],
    pools: &[PoolRow],
) -> Result<VolumeRow, StoreError> {
    let known = store.volumes.find_row(Some(&site.name), label.name.as_str());
    if let Some(row) = known {
        if row.label == label.volume.0 {
            return match row.state {
                VolumeState::Scratch | VolumeState::Pending => {
                    Err(StoreError::conflict("the volume is scratch: nothing on it is needed"))
                }
                // The volume may hold packs that the catalogue does not know. They must not be
                // overwritten.
                _ => store.volumes.change(row.id, Vec::new(), |row| {
                    row.access = VolumeAccess::ReadOnly;
                    row.errors = row.errors.max(1);
                }),
            };
        }
        renew(store, &row, label)?;
    }
    let row = store.volumes.add(site, label)?;
    let pool = pools.iter().find(|pool| pool.name == label.pool).map(|pool| pool.id);
    store.volumes.change(row.id, Vec::new(), |row| {
        row.pool = pool;
        row.written_bytes = parts.iter().map(|part| part.bytes).sum();
        if !parts.is_empty() {
            (row.state, row.access) = (VolumeState::Full, VolumeAccess::ReadOnly);
            // The volume may hold more than is imported. So an administrator decides when the
            // volume is used again.
            row.errors = 1;
        }
    })
}

/// Adds the pack to the catalogue, if all its parts were read and the pack is not known yet.
fn take_in(
    store: &Store,
    (pool, pack): (model::PoolId, PackNumber),
    parts: Vec<PartRow>,
    listener: &mut dyn VolumeListener,
) -> Result<(), StoreError> {
    let rows = store.catalog.packs()?;
    let row = rows.into_iter().find(|row| row.number == pack);
    let is_sealed = row.as_ref().is_some_and(|row| row.state.is_sealed());
    if is_sealed && !store.catalog.parts(pool, pack)?.is_empty() {
        return Ok(());
    }
    if store.condemned().holds(pack) {
        // No new page may name the pack.
        return Ok(());
    }
    let Some(parts) = whole(&parts) else {
        let reason = "a part of the pack is on another volume; import its volumes together";
        listener.failed(pack, reason.to_owned());
        return Ok(());
    };
    let bytes = parts.iter().map(|part| part.bytes).sum();
    listener.expect(&[(pack, bytes)]);
    let stored = StoredPack { pack, bytes, stored: sys::clock::now() };
    let put = Write::PutParts { pool, stored, parts };
    store.catalog.commit(vec![put])?;
    store.pools.admit_shelved(pack, pool, bytes);
    match store.pools.closed(pack) {
        Ok((table, _)) if is_sealed && row.as_ref().is_some_and(|row| row.bytes != bytes) => {
            drop(table);
            forget(store, (pool, pack))?;
            listener.failed(pack, "the catalogue has another pack with this number".to_owned());
            Ok(())
        }
        Ok((table, bytes)) => {
            if !is_sealed {
                // A pack that was open when the catalogue was copied is sealed by now.
                let (number, domain, state) = (pack, table.domain, PackState::Sealed);
                let row = PackRow { number, domain, state, bytes, node: None };
                store.catalog.commit(vec![Write::PutPack(row)])?;
            }
            listener.stored(pack)
        }
        Err(error) => {
            forget(store, (pool, pack))?;
            listener.failed(pack, model::chain(&error));
            Ok(())
        }
    }
}

/// Undoes the import of a pack. The next run tries again.
fn forget(store: &Store, (pool, pack): (model::PoolId, PackNumber)) -> Result<(), StoreError> {
    let removed = store.pools.remove_from(pool, pack);
    removed.map_err(|error| StoreError::away(error.to_string()))
}

/// Returns the parts that make up a whole pack, in order; `None` if a part is missing. Of several
/// parts with the same offset the last one counts.
fn whole(parts: &[PartRow]) -> Option<Vec<PartRow>> {
    let mut end = 0;
    let mut chosen = Vec::new();
    loop {
        let next = parts.iter().rev().find(|part| part.offset == end && part.bytes > 0)?;
        end += next.bytes;
        chosen.push(*next);
        if next.is_last {
            let bytes: u64 = chosen.iter().map(|part| part.bytes).sum();
            debug_assert_eq!(bytes, end, "the parts meet");
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

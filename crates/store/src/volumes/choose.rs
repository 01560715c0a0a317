//! Choice of the volume that is written next, and labels of new volumes.

use std::collections::BTreeSet;

use crate::error::StoreError;
use catalog::{PoolRow, VolumeAccess, VolumeRow, VolumeState, Write};
use format::volume::{BLOCK_BYTES_MAX, Label, VolumeId as LabelId, VolumeName};
use tape::library::Labelling;
use tape::operator::{Loan, Stock};
use tape::volume::{self, Overwrite, VolumeError};

use super::holdings::Volumes;
use super::site::{Site, is_same};
use super::trouble::Trouble;

/// Default size of a block. With blocks of this size, drives write without stopping.
pub(crate) const BLOCK_BYTES: u32 = 512 << 10;
/// First character in the names of volumes that the server makes in a folder.
const FILE_PREFIX: char = 'F';
/// Number of digits after [`FILE_PREFIX`].
const FILE_DIGITS: usize = 5;

/// Picks the volume that takes further packs of `group`: the fullest volume of the group, otherwise
/// a scratch volume, otherwise the fullest volume of another group.
fn pick<'a>(rows: &[&'a VolumeRow], pool: &PoolRow, group: &str) -> Option<&'a VolumeRow> {
    let is_filling =
        |row: &&&VolumeRow| row.pool == Some(pool.id) && row.state == VolumeState::Filling;
    let filling = |of_group: bool| {
        let wanted = rows.iter().filter(is_filling).filter(|row| (row.group == group) == of_group);
        wanted.max_by_key(|row| (row.written_bytes, std::cmp::Reverse(row.id))).copied()
    };
    let is_scratch = |row: &&&VolumeRow| row.state == VolumeState::Scratch;
    let scratch = || rows.iter().filter(is_scratch).min_by_key(|row| row.id).copied();
    filling(true).or_else(scratch).or_else(|| filling(false))
}

impl Volumes {
    /// Chooses the volume to write next. A scratch volume gets the pool and the group.
    pub(crate) fn choose(
        &self,
        site: &Site,
        pool: &PoolRow,
        group: &str,
        avoided: &BTreeSet<u64>,
    ) -> Result<VolumeRow, StoreError> {
        let rows: Vec<VolumeRow> = self.rows().values().cloned().collect();
        let live = self.catalog.volume_bytes()?;
        let is_usable = |row: &&VolumeRow| {
            // A scratch volume with a needed pack is a fault of the catalogue. Such a volume is not
            // written.
            let is_needed = row.state == VolumeState::Scratch && live.contains_key(&row.id);
            !is_needed
                && is_same(&row.library, &site.name)
                && row.access == VolumeAccess::ReadWrite
                && !avoided.contains(&row.id)
        };
        let usable: Vec<&VolumeRow> = rows.iter().filter(is_usable).collect();
        let picked = pick(&usable, pool, group).cloned();
        let is_own = |row: &VolumeRow| row.group == group || row.state == VolumeState::Scratch;
        let mut row = match picked {
            Some(row) if is_own(&row) => row,
            // In a folder the server makes as many volumes as it needs.
            _ if site.is_folder() => self.make_file(site, &pool.name)?,
            Some(row) => row,
            None => return Err(nothing_left(site, pool)),
        };
        if row.state == VolumeState::Scratch {
            // `relabel_scratch` writes the new pool and group to the catalogue.
            row = VolumeRow { pool: Some(pool.id), group: group.to_owned(), ..row };
        }
        let takes_more = matches!(row.state, VolumeState::Filling | VolumeState::Scratch);
        assert!(takes_more && row.pool == Some(pool.id), "the volume takes packs of the pool");
        Ok(row)
    }

    /// Creates a new volume in a folder.
    fn make_file(&self, site: &Site, pool_name: &str) -> Result<VolumeRow, StoreError> {
        let room = site.check_room(2 * pool::PACK_BYTES);
        room.map_err(|error| StoreError::no_space(error.to_string()))?;
        let number = |name: &str| name.strip_prefix(FILE_PREFIX)?.parse::<u64>().ok();
        let operator = site.operator()?;
        // The catalogue does not know a volume whose creation was interrupted.
        let there = operator.with_stock(|stock| match stock {
            Stock::Folder { volumes, .. } => volumes.names(),
            Stock::Library(_) => Ok(Vec::new()),
        });
        let there = there.map_err(|error| StoreError::away(error.to_string()))?;
        let there = there.iter().filter_map(|name| number(name.as_str())).max();
        let known = self.rows().values().filter_map(|row| number(&row.name)).max();
        let last = there.max(known).unwrap_or(0);
        let name = format!("{FILE_PREFIX}{:0FILE_DIGITS$}", last + 1);
        let name = VolumeName::new(&name).map_err(|error| StoreError::away(error.to_string()))?;
        let known = self.find_row(Some(&site.name), name.as_str());
        assert!(known.is_none(), "a new volume has a new name");
        self.label(site, &name, (pool_name, BLOCK_BYTES), Overwrite::Nothing)
    }

    /// Labels a volume, which becomes a scratch volume.
    pub(crate) fn label(
        &self,
        site: &Site,
        name: &VolumeName,
        (pool, block_bytes): (&str, u32),
        overwrite: Overwrite,
    ) -> Result<VolumeRow, StoreError> {
        let failed = |error: &dyn std::error::Error| {
            StoreError::conflict(format!("{name}: {}", model::chain(error)))
        };
        let _one_at_a_time = self.label_alone();
        let operator = site.operator()?;
        let labelling =
            Labelling { pool: pool.to_owned(), sequence: self.sequence(), block_bytes, overwrite };
        let row = self.find_row(Some(&site.name), name.as_str());
        let number = u64::MAX - self.waits.next_number();
        let known = tape::operator::VolumeRef {
            id: tape::schedule::VolumeId(row.as_ref().map_or(number, |row| row.id)),
            name: name.clone(),
            label: None,
            block_bytes,
        };
        if site.is_folder() && row.is_none() {
            let label = labelling.label(name, BLOCK_BYTES_MAX);
            let made = operator.with_stock(|stock| match stock {
                Stock::Folder { volumes, .. } => volumes.label(&label, overwrite),
                Stock::Library(_) => Ok(()),
            });
            made.map_err(|error| failed(&error))?;
            return self.add(site, &label);
        }
        let mut lent = operator.borrow(&known).map_err(|error| failed(&error))?;
        // Another thread may have begun to use the volume while this thread waited for a drive.
        if let Some(row) = self.find_row(Some(&site.name), name.as_str()) {
            self.check_unneeded(&row)?;
        }
        let label = labelling.label(name, lent.medium().block_bytes_max());
        volume::label(lent.medium(), &label, overwrite).map_err(|error| failed(&error))?;
        self.add(site, &label)
    }

    /// Fails unless the volume is scratch and nothing on it is needed.
    fn check_unneeded(&self, row: &VolumeRow) -> Result<(), StoreError> {
        let parts = self.catalog.volume_parts(row.id)?;
        if row.state == VolumeState::Scratch && parts.is_empty() {
            return Ok(());
        }
        let name = &row.name;
        Err(StoreError::conflict(format!(
            "volume {name} is in use, see 'holdfast admin volume list {name}'"
        )))
    }

    fn sequence(&self) -> u64 {
        self.rows().len() as u64 + 1
    }

    /// Adds the volume to the catalogue as a scratch volume. If the volume has a row already, the
    /// row becomes the row of a scratch volume.
    pub(crate) fn add(&self, site: &Site, label: &Label) -> Result<VolumeRow, StoreError> {
        let row = VolumeRow {
            id: 0,
            library: site.name.clone(),
            name: label.name.to_string(),
            label: label.volume.0,
            block_bytes: label.block_bytes,
            pool: None,
            group: String::new(),
            state: VolumeState::Scratch,
            access: VolumeAccess::ReadWrite,
            location: String::new(),
            written_bytes: 0,
            errors: 0,
            changed: sys::clock::now(),
        };
        match self.find_row(Some(&site.name), &row.name) {
            Some(known) => {
                self.check_unneeded(&known)?;
                let row = VolumeRow { id: known.id, ..row };
                self.commit(vec![Write::PutVolume(row.clone())])?;
                Ok(row)
            }
            None => {
                let id = self.catalog.add_volume(&row)?;
                let row = VolumeRow { id, ..row };
                self.rows().insert(id, row.clone());
                Ok(row)
            }
        }
    }

    /// Gives a scratch volume a new identity, so that nobody mistakes old positions for present
    /// positions. The volume is being filled from then on.
    ///
    /// The new identity is derived from the old one. If a volume already has the new identity and
    /// nothing is written on it, an earlier relabelling was interrupted.
    pub(crate) fn relabel_scratch(
        &self,
        lent: &mut Loan,
        row: &mut VolumeRow,
        pool: &PoolRow,
    ) -> Result<(), Trouble> {
        if row.state != VolumeState::Scratch {
            return Ok(());
        }
        self.check_unneeded(row)?;
        let before = volume::read_label(lent.medium())?;
        let next = next_identity(row.label);
        let is_known = before.volume.0 == row.label;
        // If this catalogue is an older copy, the server may already have written on a volume with
        // the next identity.
        let mut is_interrupted =
            || Ok::<_, Trouble>(before.volume.0 == next && volume::is_unwritten(lent.medium())?);
        if before.name.as_str() != row.name || !(is_known || is_interrupted()?) {
            return Err(VolumeError::Another { found: before.name }.into());
        }
        let label = Label {
            volume: LabelId(next),
            pool: pool.name.clone(),
            labelled: sys::clock::now(),
            ..before
        };
        volume::label(lent.medium(), &label, Overwrite::Ours)?;
        lent.relabelled(label);
        let (of_pool, group) = (row.pool, row.group.clone());
        *row = self.change(row.id, Vec::new(), |row| {
            (row.label, row.state, row.written_bytes) = (next, VolumeState::Filling, 0);
            (row.pool, row.group) = (of_pool, group);
        })?;
        Ok(())
    }
}

/// Returns the identity that a volume gets when it is used again.
pub(crate) fn next_identity(identity: [u8; 16]) -> [u8; 16] {
    let mut next = [0; 16];
    next.copy_from_slice(&blake3::hash(&identity).as_bytes()[..16]);
    assert_ne!(next, identity, "a volume that is used again gets another identity");
    next
}

fn nothing_left(site: &Site, pool: &PoolRow) -> StoreError {
    let name = &site.name;
    StoreError::no_space(format!(
        "pool {} has no volume left to write, and library {name} has no scratch volume; 'holdfast \
         admin volume label {name}' labels blank volumes",
        pool.name
    ))
}

#[cfg(test)]
mod tests {
    use model::{PoolId, ServerTime};

    use super::*;

    fn row(id: u64, pool: Option<u32>, group: &str, written_bytes: u64) -> VolumeRow {
        let state = if pool.is_some() { VolumeState::Filling } else { VolumeState::Scratch };
        VolumeRow {
            id,
            library: "vault".to_owned(),
            name: format!("A{id:05}"),
            label: [0; 16],
            block_bytes: BLOCK_BYTES,
            pool: pool.map(PoolId),
            group: group.to_owned(),
            state,
            access: VolumeAccess::ReadWrite,
            location: String::new(),
            written_bytes,
            errors: 0,
            changed: ServerTime(0),
        }
    }

    fn pool() -> PoolRow {
        PoolRow {
            id: PoolId(2),
            name: "TAPE".to_owned(),
            url: "tape:vault".to_owned(),
            is_copy: false,
            mark: [2; 16],
            next: None,
            capacity_bytes: None,
            high_percent: 90,
            low_percent: 70,
            delay_days: 0,
            collocation: catalog::Collocation::Group,
            reclaim_percent: 60,
            reuse_delay_days: 0,
        }
    }

    #[track_caller]
    fn check(rows: &[VolumeRow], group: &str, expected: Option<u64>) {
        let rows: Vec<&VolumeRow> = rows.iter().collect();
        assert_eq!(pick(&rows, &pool(), group).map(|row| row.id), expected);
    }

    #[test]
    fn a_group_fills_its_own_volume_then_an_empty_one_then_anothers() {
        let own = row(1, Some(2), "a", 10);
        let fuller = row(5, Some(2), "a", 20);
        let scratch = row(3, None, "", 0);
        let other = row(4, Some(2), "b", 99);
        let foreign = row(6, Some(9), "a", 500);
        let full = VolumeRow { state: VolumeState::Full, ..row(7, Some(2), "a", 900) };
        let all = [own, fuller, scratch.clone(), other.clone(), foreign.clone(), full];
        check(&all, "a", Some(5));
        check(&all, "c", Some(3));
        check(&[other, foreign.clone()], "c", Some(4));
        check(&[foreign, scratch], "a", Some(3));
        check(&[], "a", None);
    }
}

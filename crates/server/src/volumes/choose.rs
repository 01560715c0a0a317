//! Which volume is written next.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use catalog::{PoolRow, VolumeAccess, VolumeRow, VolumeState, Write};
use format::volume::{BLOCK_BYTES_MAX, Label, VolumeId as LabelId, VolumeName};
use tape::library::Labelling;
use tape::operator::{Lent, Stock};
use tape::volume::{self, Overwrite, VolumeError};
use tonic::Status;

use super::Volumes;
use super::site::{Site, is_same};
use super::write::Trouble;
use crate::refusal;

/// Blocks are so large unless somebody says otherwise: drives stream with them.
pub(super) const BLOCK_BYTES: u32 = 512 << 10;
/// Of the volumes that a folder gets by itself.
const FILE_PREFIX: char = 'F';
const FILE_DIGITS: usize = 5;

/// The volume that takes more of the `group`: one that has begun, the fullest first, else an empty
/// one, else one of another group.
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
    /// The volume to write next, which belongs to the pool from now on.
    pub(super) fn choose(
        &self,
        site: &Site,
        pool: &PoolRow,
        group: &str,
        avoided: &BTreeSet<u64>,
    ) -> Result<VolumeRow, Status> {
        let rows: Vec<VolumeRow> = self.rows().values().cloned().collect();
        let live = self.catalog.volume_bytes().map_err(|error| refusal::catalog(&error))?;
        let is_usable = |row: &&VolumeRow| {
            // Whatever says that it is scratch: something on it is needed.
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
            // A folder makes as many as are needed.
            _ if site.is_folder() => self.make_file(site, &pool.name)?,
            Some(row) => row,
            None => return Err(nothing_left(site, pool)),
        };
        if row.state == VolumeState::Scratch {
            // The catalogue learns of it with the new label.
            row = VolumeRow { pool: Some(pool.id), group: group.to_owned(), ..row };
        }
        Ok(row)
    }

    /// Makes a new volume in a folder.
    fn make_file(&self, site: &Site, pool_name: &str) -> Result<VolumeRow, Status> {
        let room = site.check_room(2 * pool::PACK_BYTES);
        room.map_err(|why| Status::resource_exhausted(format!("library {}: {why}", site.name)))?;
        let number = |name: &str| name.strip_prefix(FILE_PREFIX)?.parse::<u64>().ok();
        let operator = site.operator().map_err(Status::failed_precondition)?;
        // One that was being made when its server died is there, and not known.
        let there = operator.with_stock(|stock| match stock {
            Stock::Folder { volumes, .. } => volumes.names(),
            Stock::Library(_) => Ok(Vec::new()),
        });
        let there = there.map_err(|error| Status::unavailable(error.to_string()))?;
        let there = there.iter().filter_map(|name| number(name.as_str())).max();
        let known = self.rows().values().filter_map(|row| number(&row.name)).max();
        let last = there.max(known).unwrap_or(0);
        let name = format!("{FILE_PREFIX}{:0FILE_DIGITS$}", last + 1);
        let name = VolumeName::new(&name).map_err(|error| Status::internal(error.to_string()))?;
        self.label(site, &name, (pool_name, BLOCK_BYTES), Overwrite::Nothing)
    }

    /// Labels a volume, which is scratch then.
    pub(super) fn label(
        &self,
        site: &Site,
        name: &VolumeName,
        (pool, block_bytes): (&str, u32),
        overwrite: Overwrite,
    ) -> Result<VolumeRow, Status> {
        let failed = |error: &dyn std::error::Error| {
            Status::failed_precondition(format!("{name}: {}", model::chain(error)))
        };
        let _one_at_a_time = self.labelling.lock().unwrap_or_else(PoisonError::into_inner);
        let operator = site.operator().map_err(Status::failed_precondition)?;
        let labelling =
            Labelling { pool: pool.to_owned(), sequence: self.sequence(), block_bytes, overwrite };
        let row = self.find_row(Some(&site.name), name.as_str());
        let number = u64::MAX - self.last_wait.fetch_add(1, Ordering::Relaxed);
        let known = tape::operator::Known {
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
        // It may have been taken while a drive was waited for.
        if let Some(row) = self.find_row(Some(&site.name), name.as_str()) {
            self.check_unneeded(&row)?;
        }
        let label = labelling.label(name, lent.medium().block_bytes_max());
        volume::label(lent.medium(), &label, overwrite).map_err(|error| failed(&error))?;
        self.add(site, &label)
    }

    /// Fails where something on the volume is needed, whatever its row says.
    fn check_unneeded(&self, row: &VolumeRow) -> Result<(), Status> {
        let parts = self.catalog.volume_parts(row.id).map_err(|error| refusal::catalog(&error))?;
        if row.state == VolumeState::Scratch && parts.is_empty() {
            return Ok(());
        }
        let name = &row.name;
        Err(Status::failed_precondition(format!(
            "{name}: it is in use, see 'holdfast admin volume list {name}'"
        )))
    }

    fn sequence(&self) -> u64 {
        self.rows().len() as u64 + 1
    }

    /// Has the catalogue know the volume, or know that it begins anew.
    pub(super) fn add(&self, site: &Site, label: &Label) -> Result<VolumeRow, Status> {
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
                let id = self.catalog.add_volume(&row).map_err(|error| refusal::catalog(&error))?;
                let row = VolumeRow { id, ..row };
                self.rows().insert(id, row.clone());
                Ok(row)
            }
        }
    }

    /// Gives a volume that was scratch a new identity, so that nothing that was on it is taken for
    /// something that is; from then on it is being filled. What a crash has left of an earlier try
    /// is told by the identity, which follows from the one before.
    pub(super) fn relabel_scratch(
        &self,
        lent: &mut Lent,
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
        // With the next identity it may have been written by a server whose catalogue is lost.
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

/// What a volume is known by once it is used again.
pub(super) fn next_identity(identity: [u8; 16]) -> [u8; 16] {
    let mut next = [0; 16];
    next.copy_from_slice(&blake3::hash(&identity).as_bytes()[..16]);
    next
}

fn nothing_left(site: &Site, pool: &PoolRow) -> Status {
    let name = &site.name;
    Status::resource_exhausted(format!(
        "pool {} has no volume left to write, and library {name} no scratch one; 'holdfast admin \
         volume label {name}' labels blank ones",
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

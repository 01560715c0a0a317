//! Audit of the pools: reading back every pack, repairing damaged packs, and naming the versions
//! that are lost.
//!
//! The audit reads every copy of a pack, and repairs a damaged copy from another pool. Without
//! `data` it compares the stored checksum of every quantum, which finds faults of the disks. With
//! `data` it decompresses every quantum and compares every chunk with its digest, as a restore
//! does; see [`opening`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::error::StoreError;
use catalog::{PackRow, PackState, Write};
use format::pack::{QuantumEntry, Table};
use model::{PackNumber, Place, PoolId, ServerTime};
use pool::ReadError;

use self::opening::Opening;
use crate::lifecycle::catalog_check::{CatalogCheck, DamagedDirectory};
use crate::lifecycle::catalog_copy::{self, ComparedCheck};
use crate::lifecycle::victims::{self, Victims};
use crate::pools;
use crate::store::Store;

mod opening;

/// Maximum number of backups of a node that the audit counts.
const BACKUPS_MAX: usize = 1000;

/// An order for an audit.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// True to compare every chunk with its digest.
    pub data: bool,
    /// Maximum number of bytes read in a second.
    pub rate: Option<u64>,
}

impl Order {
    /// Returns true if quanta are opened many at once. An audit with a limit reads little at once,
    /// so that it stays below its limit.
    fn opens_together(&self) -> bool {
        self.data && self.rate.is_none_or(|rate| rate == 0)
    }
}

/// A damaged quantum, or a damaged table of a pack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    pub pack: PackNumber,
    /// Pool with the damaged copy.
    pub pool: PoolId,
    /// Index of the first damaged chunk, and the index after the last damaged chunk. `None` if the
    /// pack's table is lost, so that the damaged chunks are not known.
    pub chunks: Option<(u32, u32)>,
    pub reason: String,
    /// True after the copy was repaired from another pool.
    pub is_repaired: bool,
}

/// Progress of an audit, and its outcome at the end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    pub packs: u64,
    pub packs_done: u64,
    pub quanta: u64,
    pub bytes: u64,
    pub damages: Vec<Damage>,
    pub victims: Victims,
    /// Names of all pools.
    pub pools: BTreeMap<PoolId, String>,
    /// Names of the pools that are not available, so that the audit could not read them.
    pub away: Vec<String>,
    /// Names of the pools on volumes. This audit does not read them.
    pub on_volumes: Vec<String>,
    pub catalog: CatalogFindings,
}

/// Damage of the catalogue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CatalogFindings {
    /// Faults of the database, in its own words.
    pub faults: Vec<String>,
    /// The first directories with pages or versions that cannot be decoded.
    pub directories: Vec<NamedDirectory>,
    /// Number of pages and versions that cannot be decoded.
    pub damaged_rows: u64,
    /// Loss if the newest sound copy replaces the damaged catalogue. `None` if nothing is damaged,
    /// or if no available pool has a sound copy.
    pub loss: Option<CatalogLoss>,
}

impl CatalogFindings {
    fn is_sound(&self) -> bool {
        self.faults.is_empty() && self.damaged_rows == 0
    }
}

/// Part of the catalogue that a copy lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CatalogLoss {
    /// Number of the copy.
    pub copy: u64,
    /// Time at which the copy was made.
    pub taken: ServerTime,
    /// Number of readable versions that were made since then.
    pub versions: u64,
    /// Number of backups that have ended since then.
    pub backups: u64,
}

/// A directory of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedDirectory {
    pub node: String,
    /// Full path on the node.
    pub path: Vec<u8>,
}

/// Fault of one quantum of one copy of a pack.
#[derive(Debug, thiserror::Error)]
enum QuantumError {
    /// The copy could not be read. It may be undamaged, and the next audit reads it again.
    #[error(transparent)]
    Unread(#[from] ReadError),
    /// The bytes are not a quantum. The copy is repaired.
    #[error(transparent)]
    Record(#[from] format::DamageError),
    /// The bytes are another quantum than the quantum that was written. The copy is repaired.
    #[error("a chunk does not match its digest")]
    Digest,
}

/// Function that the audit calls with its progress. It returns false to cancel the audit.
pub type Listener<'a> = &'a mut dyn FnMut(&Outcome) -> bool;

/// Reads all packs, and repairs damaged packs. If data is lost, reads the catalogue for the
/// versions that need this data.
pub fn run(
    store: &Arc<Store>,
    order: Order,
    listener: Listener<'_>,
) -> Result<Outcome, StoreError> {
    // The audit counts as a reader, so that the packs are not removed meanwhile.
    let _reading = store.use_packs(false);
    let mut audit = Audit {
        store,
        order,
        opening: Opening::new(&store.config, order.opens_together()),
        started: sys::clock::monotonic(),
        outcome: begin(store)?,
        read: BTreeSet::new(),
        listener,
    };
    audit.outcome.catalog = catalog_findings(store)?;
    match audit.pools() {
        // The findings about the catalogue say what to do, so they must not be lost.
        Err(StoreError::Damaged(fault)) if !audit.outcome.catalog.is_sound() => {
            let fault = format!("the audit of the pools has ended early: {fault}");
            audit.outcome.catalog.faults.insert(0, fault);
        }
        audited => audited?,
    }
    Ok(audit.outcome)
}

/// Leaves out what is damaged in the catalogue: the audit reports the damage, and goes on.
fn readable<T: Default>(read: Result<T, impl Into<StoreError>>) -> Result<T, StoreError> {
    match read.map_err(Into::<StoreError>::into) {
        Err(StoreError::Damaged(fault)) => {
            tracing::warn!(fault, "the audit leaves out a damaged part of the catalogue");
            Ok(T::default())
        }
        read => read,
    }
}

/// Checks a copy of the catalogue, as it is at one moment.
fn catalog_findings(store: &Store) -> Result<CatalogFindings, StoreError> {
    let ComparedCheck { check, sound } = catalog_copy::check_now(store)?;
    let is_sound = check.is_sound();
    let loss = match sound.filter(|_| !is_sound) {
        Some(copy) => Some(CatalogLoss {
            copy: copy.number,
            taken: copy.taken,
            versions: check.later_versions,
            backups: backups_since(store, copy.taken)?,
        }),
        None => None,
    };
    let CatalogCheck { faults, directories, damaged_rows, .. } = check;
    if !is_sound {
        let details = format!(
            "faults of the database: {}, rows that cannot be read: {damaged_rows}",
            faults.len()
        );
        readable(store.record("catalogue damaged", details))?;
    }
    let mut names = BTreeMap::new();
    for node in readable(store.catalog.nodes())? {
        for filespace in readable(store.catalog.filespaces(node.id))? {
            names.insert(filespace.id, (node.name.to_string(), filespace.name));
        }
    }
    let name = |damaged: DamagedDirectory| {
        let (node, filespace) = names.get(&damaged.filespace).cloned().unwrap_or_default();
        let path = match model::mount_point(&filespace) {
            b"/" => damaged.directory.as_bytes().to_vec(),
            mount_point => [mount_point, damaged.directory.as_bytes()].concat(),
        };
        NamedDirectory { node, path }
    };
    let directories = directories.into_iter().map(name).collect();
    Ok(CatalogFindings { faults, directories, damaged_rows, loss })
}

/// Returns the number of backups that have ended after `time`, of each node at most
/// [`BACKUPS_MAX`]. Leaves out nodes whose backups cannot be read.
fn backups_since(store: &Store, time: ServerTime) -> Result<u64, StoreError> {
    let mut count = 0;
    for node in readable(store.catalog.nodes())? {
        let sessions = readable(store.catalog.sessions(node.id, BACKUPS_MAX))?;
        count += sessions.iter().filter(|session| session.ended > time).count() as u64;
    }
    Ok(count)
}

fn begin(store: &Store) -> Result<Outcome, StoreError> {
    pools::refresh(store);
    let rows = store.catalog.pools()?;
    let away = rows.iter().filter(|row| !store.pools.usage(row.id).is_there);
    let on_volumes = rows.iter().filter(|row| store.pools.is_shelf(row.id));
    Ok(Outcome {
        away: away.map(|row| row.name.clone()).collect(),
        on_volumes: on_volumes.map(|row| row.name.clone()).collect(),
        pools: rows.iter().map(|row| (row.id, row.name.clone())).collect(),
        ..Outcome::default()
    })
}

impl Outcome {
    /// Returns the damaged parts of packs that could not be repaired.
    fn lost(&self) -> impl Iterator<Item = &Damage> {
        self.damages.iter().filter(|damage| !damage.is_repaired)
    }
}

struct Audit<'a> {
    store: &'a Arc<Store>,
    order: Order,
    opening: Opening,
    started: std::time::Instant,
    outcome: Outcome,
    /// Packs that are marked as damaged, and of which a copy was read. A pack that only volumes
    /// have counts as read.
    read: BTreeSet<PackNumber>,
    listener: Listener<'a>,
}

impl Audit<'_> {
    /// Audits all pools, repairs what is damaged, and finds the versions that are lost.
    fn pools(&mut self) -> Result<(), StoreError> {
        self.packs()?;
        self.leave_out_away();
        self.repair()?;
        self.judge()?;
        if self.outcome.lost().next().is_some() {
            self.victims()?;
        }
        if !self.outcome.damages.is_empty() {
            self.note()?;
        }
        self.note_victims()
    }

    fn note_victims(&self) -> Result<(), StoreError> {
        let lost: BTreeSet<PackNumber> = self.outcome.lost().map(|damage| damage.pack).collect();
        let is_lost = |pack| lost.contains(&pack);
        victims::note(self.store, &self.outcome.victims, &is_lost, self.order.data)
    }

    fn packs(&mut self) -> Result<(), StoreError> {
        let rows = self.store.catalog.packs()?;
        self.outcome.packs = rows.len() as u64;
        for row in rows {
            // Nothing needs a condemned pack, and the pack may be removed meanwhile.
            if row.state != PackState::Condemned {
                self.pack(row.number)?;
            }
            self.outcome.packs_done += 1;
        }
        assert_eq!(self.outcome.packs_done, self.outcome.packs, "each pack is counted once");
        Ok(())
    }

    fn pack(&mut self, pack: PackNumber) -> Result<(), StoreError> {
        // The audit has to read the buckets, not their copies on the server's disk.
        self.store.pools.forget_kept(pack);
        self.store.pools.look_for(pack);
        if !self.store.pools.has_primary(pack) {
            let reason = if self.bring_back(pack) {
                "the pack was deleted in the object store, where it is locked"
            } else {
                "no primary pool has the pack"
            };
            self.damaged(pack, pools::FIRST, None, reason.to_owned());
        }
        self.copies(pack)
    }

    /// Audits all copies of `pack`. A drain may move the pack to another pool meanwhile: then the
    /// new copy is audited too, and findings about the copy that was removed do not count.
    fn copies(&mut self, pack: PackNumber) -> Result<(), StoreError> {
        let mut audited = BTreeSet::new();
        let store = self.store;
        // Volumes are audited only on an administrator's request: see `shelving::audit`.
        let next = |audited: &BTreeSet<PoolId>| {
            let homes = store.pools.homes(pack);
            homes
                .into_iter()
                .find(|pool| !audited.contains(pool) && !store.pools.is_shelf(*pool))
        };
        while let Some(pool) = next(&audited) {
            self.copy(pack, pool)?;
            audited.insert(pool);
        }
        let homes = self.store.pools.homes(pack);
        if self.store.pools.has_primary(pack) && !homes.is_empty() {
            let damages = &mut self.outcome.damages;
            damages.retain(|damage| damage.pack != pack || homes.contains(&damage.pool));
        }
        let is_read = !audited.is_empty() || self.store.pools.is_only_shelved(pack);
        if is_read && self.store.condemned().damaged.contains(&pack) {
            self.read.insert(pack);
        }
        Ok(())
    }

    /// Leaves out what was found in pools that have gone away meanwhile: a disk that is not there
    /// has lost nothing. Names these pools.
    fn leave_out_away(&mut self) {
        pools::refresh(self.store);
        let Self { store, outcome, read, .. } = self;
        let is_away = |pool: &PoolId| !store.pools.usage(*pool).is_there;
        let pools = outcome.pools.iter().filter(|(pool, _)| is_away(pool));
        let away: BTreeMap<PoolId, String> =
            pools.map(|(pool, name)| (*pool, name.clone())).collect();
        for damage in outcome.damages.extract_if(.., |damage| away.contains_key(&damage.pool)) {
            read.remove(&damage.pack);
        }
        for name in away.into_values() {
            if !outcome.away.contains(&name) {
                outcome.away.push(name);
            }
        }
    }

    /// Restores the pack's locked object, if somebody has deleted or overwritten it in the bucket.
    /// Returns true if the object was restored.
    fn bring_back(&self, pack: PackNumber) -> bool {
        self.store.pools.bring_back(pack).unwrap_or_else(|error| {
            tracing::warn!(%pack, %error, "older versions of a pack's object cannot be listed");
            false
        })
    }

    fn damaged(
        &mut self,
        pack: PackNumber,
        pool: PoolId,
        chunks: Option<(u32, u32)>,
        reason: String,
    ) {
        debug_assert!(chunks.is_none_or(|(first, end)| first <= end), "a range ascends");
        let damage = Damage { pack, pool, chunks, reason, is_repaired: false };
        self.outcome.damages.push(damage);
    }

    /// Audits the copy of `pack` in `pool`.
    fn copy(&mut self, pack: PackNumber, pool: PoolId) -> Result<(), StoreError> {
        let footer = self.store.pools.table_at(pool, pack);
        // An open pack has no footer yet. A failed pack may have none while its disk takes no
        // writes: then what was durable before is audited, because nothing names the rest.
        let table = self.store.pools.table(pack);
        let is_sealed = !self.store.pools.is_open(pack) && !self.store.pools.has_failed(pack);
        let table = match (footer, table) {
            (Ok(footer), _) => Arc::new(footer),
            (Err(_), Ok(table)) if !is_sealed => table,
            (Err(error), Ok(table)) => {
                // The chunks after the last readable record are not known.
                let chunks = (table.chunk_count(), u32::MAX);
                self.damaged(pack, pool, Some(chunks), model::chain(&error));
                table
            }
            (Err(_), Err(error)) => {
                self.damaged(pack, pool, None, model::chain(&error));
                return Ok(());
            }
        };
        for quanta in table.quanta().chunks(self.batch_quanta()) {
            let outcomes = self.quanta(pool, &table, quanta)?;
            for (quantum, outcome) in quanta.iter().zip(outcomes) {
                if let Err(error) = outcome {
                    let chunks = (quantum.first_index, quantum.first_index + quantum.chunk_count);
                    self.damaged(pack, pool, Some(chunks), model::chain(&error));
                }
                self.outcome.quanta += 1;
                self.outcome.bytes += u64::from(quantum.record_bytes);
                self.pace();
                if !(self.listener)(&self.outcome) {
                    return Err(StoreError::cancelled("the audit was cancelled"));
                }
            }
        }
        Ok(())
    }

    /// Returns the number of quanta that are read before they are opened together.
    fn batch_quanta(&self) -> usize {
        if self.order.opens_together() { self.opening.quanta_max() } else { 1 }
    }

    /// Reads and checks quanta of one copy. Returns the outcome of each.
    fn quanta(
        &self,
        pool: PoolId,
        table: &Table,
        quanta: &[QuantumEntry],
    ) -> Result<Vec<Result<(), QuantumError>>, StoreError> {
        let read = |quantum| self.store.pools.read_at(pool, table.pack, quantum);
        let records: Vec<_> = quanta.iter().map(read).collect();
        if !self.order.data {
            let outcome = |record: Result<Vec<u8>, _>| record.map(drop).map_err(Into::into);
            return Ok(records.into_iter().map(outcome).collect());
        }
        let key = self.store.secrets.domain_key(table.domain);
        let expected = quanta.iter().map(|quantum| {
            let from = quantum.first_index as usize;
            let end = from + quantum.chunk_count as usize;
            assert!(end <= table.digests().len(), "a table has a digest for each chunk");
            &table.digests()[from..end]
        });
        self.opening.check(&key, records, &expected.collect::<Vec<_>>())
    }

    /// Repairs the damaged packs from other pools.
    fn repair(&mut self) -> Result<(), StoreError> {
        let packs: BTreeSet<PackNumber> =
            self.outcome.damages.iter().map(|damage| damage.pack).collect();
        if packs.is_empty() {
            return Ok(());
        }
        if self.store.pools.has_locks() {
            for pack in &packs {
                self.bring_back(*pack);
            }
        }
        let repaired = pools::repair(self.store, Some(&packs), &mut |_| true);
        let failed: BTreeSet<PackNumber> = match repaired {
            Ok(repaired) => repaired.failures.iter().map(|(pack, _)| *pack).collect(),
            Err(error) => {
                // The audit continues: `is_whole` finds the packs that were repaired.
                tracing::error!(error = model::chain(&error), "not all packs could be repaired");
                BTreeSet::new()
            }
        };
        let mended = packs.difference(&failed).copied().collect::<Vec<_>>();
        for pack in mended {
            if self.is_whole(pack) {
                let of_pack = self.outcome.damages.iter_mut();
                of_pack
                    .filter(|damage| damage.pack == pack)
                    .for_each(|damage| damage.is_repaired = true);
            }
        }
        Ok(())
    }

    /// Returns true if every copy of the pack is undamaged and a primary pool has a copy.
    fn is_whole(&self, pack: PackNumber) -> bool {
        let homes = self.store.pools.homes(pack);
        let is_primary = self.store.pools.has_primary(pack);
        is_primary
            && !homes.is_empty()
            && homes.into_iter().all(|pool| {
                let table = self.store.pools.table_at(pool, pack);
                table.is_ok_and(|table| {
                    table.quanta().chunks(self.batch_quanta()).all(|quanta| {
                        let outcomes = self.quanta(pool, &table, quanta);
                        outcomes.is_ok_and(|outcomes| outcomes.iter().all(Result::is_ok))
                    })
                })
            })
    }

    fn pace(&self) {
        let Some(rate) = self.order.rate.filter(|rate| *rate > 0) else { return };
        let due = Duration::from_micros(self.outcome.bytes.saturating_mul(1_000_000) / rate);
        let early = due.saturating_sub(self.started.elapsed());
        if !early.is_zero() {
            sys::clock::sleep(early);
        }
    }

    /// Marks packs as damaged, so that no new page names them. Takes damaged packs back into
    /// service that were read, if every chunk was found undamaged, because somebody has restored
    /// them.
    fn judge(&self) -> Result<(), StoreError> {
        let damaged: BTreeSet<PackNumber> = self.outcome.lost().map(|damage| damage.pack).collect();
        // The guard waits for the commits under way, and blocks new commits.
        let mut condemned = self.store.condemned_mut();
        let (mut writes, mut out, mut back) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for row in self.store.catalog.packs()? {
            let is_damaged = damaged.contains(&row.number);
            let state = match row.state {
                PackState::Sealed if is_damaged => {
                    out.insert(row.number);
                    PackState::Damaged
                }
                PackState::Damaged
                    if !is_damaged && self.order.data && self.read.contains(&row.number) =>
                {
                    back.insert(row.number);
                    PackState::Sealed
                }
                // The next audit judges packs that are still open.
                _ => continue,
            };
            writes.push(Write::PutPack(PackRow { state, ..row }));
        }
        if !writes.is_empty() {
            condemned.advance(self.store.catalog.condemn(writes)?);
        }
        assert!(out.is_disjoint(&back), "a pack is damaged or undamaged");
        condemned.damaged.extend(&out);
        condemned.damaged.retain(|pack| !back.contains(pack));
        drop(condemned);
        self.store.index_again(&back);
        if !out.is_empty() {
            self.store.forget_packs(&out);
        }
        Ok(())
    }

    /// Finds the versions that need lost chunks.
    fn victims(&mut self) -> Result<(), StoreError> {
        let mut lost: BTreeMap<PackNumber, Vec<Option<(u32, u32)>>> = BTreeMap::new();
        for damage in self.outcome.lost() {
            lost.entry(damage.pack).or_default().push(damage.chunks);
        }
        let is_lost = |place: Place| {
            let of_pack = lost.get(&place.pack()).map_or(&[][..], Vec::as_slice);
            of_pack
                .iter()
                .any(|chunks| chunks.is_none_or(|(from, to)| (from..to).contains(&place.index())))
        };
        let Self { store, outcome, listener, .. } = self;
        outcome.victims = victims::find(store, &is_lost, &mut || {
            let cancelled = || StoreError::cancelled("the audit was cancelled");
            listener(outcome).then_some(()).ok_or_else(cancelled)
        })?;
        Ok(())
    }

    fn note(&self) -> Result<(), StoreError> {
        let packs: BTreeSet<PackNumber> =
            self.outcome.damages.iter().map(|damage| damage.pack).collect();
        let details = format!(
            "damaged parts: {}, in packs: {}, repaired from another pool: {}, versions that need \
             lost data: {}",
            self.outcome.damages.len(),
            packs.len(),
            self.outcome.damages.iter().filter(|damage| damage.is_repaired).count(),
            self.outcome.victims.count
        );
        self.store.record("damage found", details)
    }
}

#[cfg(test)]
mod tests;

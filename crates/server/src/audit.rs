//! Audit of the pool: whether what it holds is what was stored, and what is lost where it is not.
//!
//! Every copy of a pack is looked at, and what is damaged in one pool is made whole from another.
//! Without `data` the stored checksum of every quantum is compared, which finds what the disk has
//! done. With it every quantum is decompressed and every chunk compared with its digest, which is
//! all that a restore would do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use catalog::{PackRow, PackState, Write};
use chunk::{Decompressor, RawQuantum};
use format::pack::{QuantumEntry, Table};
use model::{PackNumber, Place, PoolId};
use tonic::Status;

use crate::core::Core;
use crate::pools;
use crate::refusal;
use crate::victims::{self, Victims};

/// What to look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// Compare every chunk with its digest.
    pub(crate) data: bool,
    /// Bytes read in a second at most.
    pub(crate) rate: Option<u64>,
}

/// Something that is damaged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Damage {
    pub(crate) pack: PackNumber,
    /// Where.
    pub(crate) pool: PoolId,
    /// The indexes of its chunks: the first, and one behind the last. None are known of a pack
    /// whose table is lost.
    pub(crate) chunks: Option<(u32, u32)>,
    pub(crate) reason: String,
    /// Whether it was made whole again from what another pool has.
    pub(crate) is_repaired: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) packs: u64,
    pub(crate) packs_done: u64,
    pub(crate) quanta: u64,
    pub(crate) bytes: u64,
    pub(crate) damages: Vec<Damage>,
    pub(crate) victims: Victims,
    /// The names of the pools.
    pub(crate) pools: BTreeMap<PoolId, String>,
    /// Of those that are not there, so that they were not looked at.
    pub(crate) away: Vec<String>,
    /// Of those whose packs lie on volumes, which are left alone here.
    pub(crate) on_volumes: Vec<String>,
}

pub(crate) type Listener<'a> = &'a mut dyn FnMut(&Outcome) -> bool;

/// Reads all packs; then, if anything is damaged, the catalogue for what that costs.
pub(crate) fn run(
    core: &Arc<Core>,
    order: Order,
    listener: Listener<'_>,
) -> Result<Outcome, Status> {
    // What is read here must not be removed meanwhile.
    let _reading = core.use_packs(false);
    let none = |_| Status::internal("no zstd context");
    let mut audit = Audit {
        core,
        order,
        decompressor: Decompressor::new().map_err(none)?,
        raw: RawQuantum::default(),
        started: sys::clock::monotonic(),
        outcome: begin(core)?,
        listener,
    };
    audit.packs()?;
    audit.repair()?;
    audit.judge()?;
    if audit.outcome.lost().next().is_some() {
        audit.victims()?;
    }
    if !audit.outcome.damages.is_empty() {
        audit.note()?;
    }
    Ok(audit.outcome)
}

fn begin(core: &Core) -> Result<Outcome, Status> {
    core.pools.refresh();
    let rows = core.catalog.pools().map_err(|error| refusal::catalog(&error))?;
    let away = rows.iter().filter(|row| !core.pools.usage(row.id).is_there);
    let on_volumes = rows.iter().filter(|row| core.pools.is_shelf(row.id));
    Ok(Outcome {
        away: away.map(|row| row.name.clone()).collect(),
        on_volumes: on_volumes.map(|row| row.name.clone()).collect(),
        pools: rows.iter().map(|row| (row.id, row.name.clone())).collect(),
        ..Outcome::default()
    })
}

impl Outcome {
    /// What no pool has whole.
    fn lost(&self) -> impl Iterator<Item = &Damage> {
        self.damages.iter().filter(|damage| !damage.is_repaired)
    }
}

struct Audit<'a> {
    core: &'a Arc<Core>,
    order: Order,
    decompressor: Decompressor,
    raw: RawQuantum,
    started: std::time::Instant,
    outcome: Outcome,
    listener: Listener<'a>,
}

impl Audit<'_> {
    fn packs(&mut self) -> Result<(), Status> {
        let rows = self.core.catalog.packs().map_err(|error| refusal::catalog(&error))?;
        self.outcome.packs = rows.len() as u64;
        for row in rows {
            // One that was condemned before this began may go; nothing needs it.
            if row.state != PackState::Condemned {
                self.pack(row.number)?;
            }
            self.outcome.packs_done += 1;
        }
        Ok(())
    }

    fn pack(&mut self, pack: PackNumber) -> Result<(), Status> {
        // What the stores have is asked for, and not what is kept of it here.
        self.core.pools.forget_kept(pack);
        self.core.pools.look_for(pack);
        if !self.core.pools.has_primary(pack) {
            let reason = if self.bring_back(pack) {
                "it was deleted in the object store, which has it locked"
            } else {
                "no primary pool has it"
            };
            self.damaged(pack, pools::FIRST, None, reason.to_owned());
        }
        let homes = self.core.pools.homes(pack);
        // Volumes are read as a whole, when somebody wants that: see `volumes::audit`.
        let mut homes = homes.into_iter().filter(|pool| !self.core.pools.is_shelf(*pool));
        homes.try_for_each(|pool| self.copy(pack, pool))
    }

    /// Brings back what somebody has deleted or overwritten where objects are locked; whether there
    /// was anything.
    fn bring_back(&self, pack: PackNumber) -> bool {
        self.core.pools.bring_back(pack).unwrap_or_else(|error| {
            tracing::warn!(%pack, %error, "what lies beneath a pack's object is not known");
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
        let damage = Damage { pack, pool, chunks, reason, is_repaired: false };
        self.outcome.damages.push(damage);
    }

    /// What `pool` has of `pack`.
    fn copy(&mut self, pack: PackNumber, pool: PoolId) -> Result<(), Status> {
        let footer = self.core.pools.table_at(pool, pack);
        // Of an open pack there is no footer yet.
        let table = self.core.pools.table(pack);
        let is_sealed = !self.core.pools.is_open(pack);
        let table = match (footer, table) {
            (Ok(footer), _) => Arc::new(footer),
            (Err(_), Ok(table)) if !is_sealed => table,
            (Err(error), Ok(table)) => {
                // What may lie behind the last record that can be read is not known.
                let chunks = (table.chunk_count(), u32::MAX);
                self.damaged(pack, pool, Some(chunks), model::chain(&error));
                table
            }
            (Err(_), Err(error)) => {
                self.damaged(pack, pool, None, model::chain(&error));
                return Ok(());
            }
        };
        for quantum in table.quanta() {
            if let Err(reason) = self.quantum(pool, &table, quantum) {
                let chunks = (quantum.first_index, quantum.first_index + quantum.chunk_count);
                self.damaged(pack, pool, Some(chunks), reason);
            }
            self.outcome.quanta += 1;
            self.outcome.bytes += u64::from(quantum.record_bytes);
            self.pace();
            if !(self.listener)(&self.outcome) {
                return Err(Status::cancelled("the audit was cancelled"));
            }
        }
        Ok(())
    }

    fn quantum(
        &mut self,
        pool: PoolId,
        table: &Table,
        quantum: &QuantumEntry,
    ) -> Result<(), String> {
        let record = self.core.pools.read_at(pool, table.pack, quantum);
        let record = record.map_err(|error| model::chain(&error))?;
        if !self.order.data {
            return Ok(());
        }
        self.decompressor
            .decode_into(&record, &mut self.raw)
            .map_err(|damage| damage.to_string())?;
        let from = quantum.first_index as usize;
        let digests = &table.digests()[from..from + quantum.chunk_count as usize];
        let is_right =
            self.raw.chunks().count() == digests.len()
                && self.raw.chunks().zip(digests).all(|(chunk, digest)| {
                    self.core.pools.digest_of(table.domain, chunk) == *digest
                });
        if is_right { Ok(()) } else { Err("a chunk is not what its digest says".to_owned()) }
    }

    /// Makes whole again what another pool has whole.
    fn repair(&mut self) -> Result<(), Status> {
        let packs: BTreeSet<PackNumber> =
            self.outcome.damages.iter().map(|damage| damage.pack).collect();
        if packs.is_empty() {
            return Ok(());
        }
        if self.core.pools.has_locks() {
            for pack in &packs {
                self.bring_back(*pack);
            }
        }
        let repaired = pools::repair(self.core, Some(&packs), &mut |_| true);
        let failed: BTreeSet<PackNumber> = match repaired {
            Ok(repaired) => repaired.failures.iter().map(|(pack, _)| *pack).collect(),
            Err(status) => {
                // What was found counts all the same.
                tracing::error!(error = status.message(), "not all could be repaired");
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

    /// Whether every copy of the pack is whole, and a primary pool has one.
    fn is_whole(&mut self, pack: PackNumber) -> bool {
        let homes = self.core.pools.homes(pack);
        let is_primary = self.core.pools.has_primary(pack);
        is_primary
            && !homes.is_empty()
            && homes.into_iter().all(|pool| {
                let table = self.core.pools.table_at(pool, pack);
                table.is_ok_and(|table| {
                    let quanta = table.quanta();
                    quanta.iter().all(|quantum| self.quantum(pool, &table, quantum).is_ok())
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

    /// Has nothing new lean on packs that are damaged, and lets those be used again that every
    /// chunk was found whole of: somebody has put them back.
    fn judge(&self) -> Result<(), Status> {
        let failed = |error| refusal::catalog(&error);
        let damaged: BTreeSet<PackNumber> = self.outcome.lost().map(|damage| damage.pack).collect();
        let lock = &self.core.condemned;
        // Waits for the commits that go on, and stops the next ones.
        let mut condemned = lock.write().unwrap_or_else(PoisonError::into_inner);
        let (mut writes, mut out, mut back) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for row in self.core.catalog.packs().map_err(failed)? {
            let is_damaged = damaged.contains(&row.number);
            let state = match row.state {
                PackState::Sealed if is_damaged => {
                    out.insert(row.number);
                    PackState::Damaged
                }
                PackState::Damaged if !is_damaged && self.order.data => {
                    back.insert(row.number);
                    PackState::Sealed
                }
                // What is still written is judged by the next audit.
                _ => continue,
            };
            writes.push(Write::PutPack(PackRow { state, ..row }));
        }
        if !writes.is_empty() {
            condemned.generation = self.core.catalog.condemn(writes).map_err(failed)?;
        }
        condemned.damaged.extend(&out);
        condemned.damaged.retain(|pack| !back.contains(pack));
        drop(condemned);
        self.core.index_again(&back);
        if out.is_empty() { Ok(()) } else { self.core.forget_packs(&out) }
    }

    /// Which versions need what is damaged.
    fn victims(&mut self) -> Result<(), Status> {
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
        let Self { core, outcome, listener, .. } = self;
        outcome.victims = victims::find(core, &is_lost, &mut || {
            let cancelled = || Status::cancelled("the audit was cancelled");
            listener(outcome).then_some(()).ok_or_else(cancelled)
        })?;
        Ok(())
    }

    fn note(&self) -> Result<(), Status> {
        let packs: BTreeSet<PackNumber> =
            self.outcome.damages.iter().map(|damage| damage.pack).collect();
        let details = format!(
            "{} quanta of {} packs, {} made whole from another pool; {} versions need the rest",
            self.outcome.damages.len(),
            packs.len(),
            self.outcome.damages.iter().filter(|damage| damage.is_repaired).count(),
            self.outcome.victims.count
        );
        self.core.record("damage found", details)
    }
}

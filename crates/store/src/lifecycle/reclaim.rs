//! Reclamation: freeing the space of chunks that nothing names any more.
//!
//! ```text
//!   mark        read the whole catalogue: which chunks of which pack are named
//!   judge       packs with nothing alive -> condemned
//!               packs with little alive  -> chunks that are alive are written again in the order
//!                                           of filespaces, pages are rewritten -> condemned
//!   look again  read the whole catalogue once more:
//!               condemned packs that something names -> reinstated
//!               the other condemned packs            -> removed
//! ```
//!
//! 1. A condemned pack is offered to nobody. The chunk index does not return it, and grants for its
//!    chunks are not valid. A commit that would name it is refused (`resolve`), and the client
//!    sends the data again. So no new page names the pack after the condemnation. The second look
//!    reads everything that was committed before, so it misses nothing.
//! 2. Packs that backups are appending to are not judged, because no page names their data yet.
//!    Open packs are not judged either. A run seals them first where a pool is nearly full.
//! 3. A pack is removed only after all readers have ended that began before the second look ended.
//!    Between the first look and the condemnation a page may have named the pack for a while.
//! 4. The catalogue forgets a pack before its file is removed. A crash between the two steps leaves
//!    a file that the catalogue does not know, and the next run finds it.
//! 5. If copies of the catalogue are kept, a new copy is made before packs are removed, so that a
//!    server recovered from it finds all packs that it names. If there is no room for the copy, it
//!    is made after the removal.
//! 6. A page is rewritten only if the catalogue still has it as it was read. If a backup has
//!    changed the page meanwhile, the page names the old place. The second look finds this, and the
//!    pack is reinstated.
//! 7. On a full disk, a run writes no more than half of the reserve holds, and packs without live
//!    data are removed even if nothing can be written again.

mod press;
mod rewrite;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::named_chunks::{Bits, NamedChunks};
use crate::error::StoreError;
use catalog::{PackRow, PackState, Write};
use chunk::Recompression;
use model::{Extent, FilespaceId, Object, PackNumber, Payload, Place, PlaceCode as _};
use serde_json::{Value, json};

use self::rewrite::Rewrite;
use crate::counts::counted;
use crate::folder::Config;
use crate::lifecycle::catalog_copy;
use crate::lifecycle::records::{self, Record, VisitEvent};
use crate::lifecycle::tasks::{self, OpenRun, Task};
use crate::places::places;
use crate::places::push_chunk;
use crate::shelving;
use crate::store::{DOMAIN, LookEnd, Store};

/// Number of rows that are rewritten in one batch.
const BATCH: usize = 256;
/// Maximum number of bytes that one run writes again. The next run does the rest.
const REWRITE_BYTES_MAX: u64 = 8 << 30;

/// Size below which a pack in an object store is small: a quarter of a full pack.
const SMALL_BYTES: u64 = pool::PACK_BYTES / 4;
/// Minimum number of small packs that a run joins to larger packs.
const SMALL_MIN: usize = 16;

/// An order for a reclamation.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// True to only count the packs, and to change nothing.
    pub is_dry: bool,
    /// Share of dead data, in per cent, from which a pack is written again.
    pub dead_percent: u8,
    /// Effort with which data is compressed anew when it is written again. `None` stands for the
    /// standard effort for all data, even if data was smaller before.
    pub recompress: Option<Recompression>,
}

/// Effect of a recompression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecompressionEffect {
    pub effort: Recompression,
    /// Size of the records that were written again, before the run. Of a record with dead chunks,
    /// only the share of the live chunks counts.
    pub before_bytes: u64,
    /// Size of the records after the run.
    pub after_bytes: u64,
    /// Bytes that a GPU has compressed, before compression.
    pub gpu_bytes: u64,
}

impl RecompressionEffect {
    pub(crate) fn new(effort: Recompression) -> Self {
        Self { effort, before_bytes: 0, after_bytes: 0, gpu_bytes: 0 }
    }
}

/// Progress of a reclamation, and its outcome at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Number of pages and versions read, in all passes over the catalogue together.
    pub examined: u64,
    pub packs: u64,
    pub pack_bytes: u64,
    /// Size, before compression, of the packs' chunks that nothing names.
    pub dead_bytes: u64,
    pub packs_removed: u64,
    pub bytes_removed: u64,
    pub packs_rewritten: u64,
    pub bytes_rewritten: u64,
    /// Number of condemned packs that stay for now because a reader may still need them.
    pub packs_waiting: u64,
    /// Number of packs that stay because of an object lock.
    pub packs_locked: u64,
    pub bytes_locked: u64,
    /// Number of packs that stay because they cannot be read.
    pub packs_unread: u64,
    /// Number of packs that nothing names and whose files could not be removed.
    pub packs_stuck: u64,
    /// Effect of the recompression, if the order asks for one.
    pub recompression: Option<RecompressionEffect>,
}

impl Outcome {
    /// Returns the numbers for programs.
    pub(crate) fn numbers(&self) -> Value {
        json!({
            "examined": self.examined, "packs": self.packs, "dead_bytes": self.dead_bytes,
            "packs_removed": self.packs_removed, "bytes_removed": self.bytes_removed,
            "packs_rewritten": self.packs_rewritten, "bytes_rewritten": self.bytes_rewritten,
        })
    }
}

/// Function that the run calls with its progress. It returns false to cancel the run.
pub type Listener<'a> = &'a mut dyn FnMut(&Outcome) -> bool;

/// Runs one reclamation, as the drawing of the module shows.
pub fn run(
    store: &Arc<Store>,
    order: Order,
    listener: Listener<'_>,
) -> Result<Outcome, StoreError> {
    let _only = store.pause_reclamation()?;
    if !order.is_dry {
        store.check_released()?;
        seal_where_short(store);
    }
    // This commit records the packs that were sealed meanwhile. So no later commit overwrites the
    // state of these packs.
    store.commit(Vec::new())?;
    let recompression = order.recompress.filter(|_| !order.is_dry).map(RecompressionEffect::new);
    let (outcome, locked) = (Outcome { recompression, ..Outcome::default() }, BTreeSet::new());
    let made = BTreeSet::new();
    let mut round = Round { store, order, outcome, locked, made, listener };
    round.run()?;
    record_event(store, &round.outcome)?;
    Ok(round.outcome)
}

/// Seals the open packs if room is short, so that the run sees what is dead in them.
fn seal_where_short(store: &Store) {
    if let Err(error) = store.pools.seal_where_short() {
        let error = model::chain(&error);
        tracing::warn!(error, "open packs cannot be sealed, so their dead data stays for now");
    }
}

/// Records what was removed and written again, if anything was.
fn record_event(store: &Store, outcome: &Outcome) -> Result<(), StoreError> {
    let Outcome { packs_removed, bytes_removed, packs_rewritten, .. } = *outcome;
    if packs_removed + packs_rewritten == 0 {
        return Ok(());
    }
    let recompressed = outcome.recompression.map(|effect| {
        let (before, after) = (effect.before_bytes, counted(effect.after_bytes, "byte"));
        let by_gpu = match effect.gpu_bytes {
            0 => String::new(),
            bytes => format!(", {} of data by a GPU", counted(bytes, "byte")),
        };
        format!("; recompression ({}): {before} to {after}{by_gpu}", effect.effort)
    });
    let details = format!(
        "{} of {} removed, {} written again{}",
        counted(packs_removed, "pack"),
        counted(bytes_removed, "byte"),
        counted(packs_rewritten, "pack"),
        recompressed.unwrap_or_default(),
    );
    store.record("space reclaimed", details)
}

/// Packs that were replaced, and the packs that have their live data.
pub(crate) struct Replacement {
    /// Packs that nothing needs any more, also those that had no live data before.
    pub(crate) replaced: BTreeSet<PackNumber>,
    pub(crate) made: BTreeSet<PackNumber>,
    pub(crate) effect: RecompressionEffect,
}

/// Writes the live data of `packs` to new packs, compressed with `effort`, and removes `packs`, as
/// a run does with sparse packs. The caller holds the claim of [`Store::pause_reclamation`].
///
/// A call replaces as many packs as there is room for. Packs without live data need no room. It
/// leaves packs alone to which a backup under way may append, which have data of the catalogue's
/// copies, which cannot be read, and which an object lock keeps.
pub(crate) fn replace(
    store: &Arc<Store>,
    packs: &BTreeSet<PackNumber>,
    effort: Recompression,
    listener: Listener<'_>,
) -> Result<Replacement, StoreError> {
    store.check_released()?;
    store.commit(Vec::new())?;
    let order = Order { is_dry: false, dead_percent: 1, recompress: Some(effort) };
    let effect = RecompressionEffect::new(effort);
    let outcome = Outcome { recompression: Some(effect), ..Outcome::default() };
    let (locked, made) = (BTreeSet::new(), BTreeSet::new());
    let mut round = Round { store, order, outcome, locked, made, listener };
    let replaced = round.replace(packs)?;
    let Round { made, outcome, .. } = round;
    record_event(store, &outcome)?;
    assert!(made.is_disjoint(packs), "a new pack has a new number");
    Ok(Replacement { replaced, made, effect: outcome.recompression.unwrap_or(effect) })
}

fn commit(store: &Store, writes: Vec<Write>) -> Result<(), StoreError> {
    Ok(store.catalog.commit(writes)?)
}

struct Round<'a> {
    store: &'a Arc<Store>,
    order: Order,
    outcome: Outcome,
    /// Packs that an object lock keeps.
    locked: BTreeSet<PackNumber>,
    /// Packs to which live data was written.
    made: BTreeSet<PackNumber>,
    listener: Listener<'a>,
}

impl Round<'_> {
    fn run(&mut self) -> Result<(), StoreError> {
        let packs = self.packs()?;
        let named = self.mark()?;
        let before: BTreeSet<PackNumber> = self.store.condemned().packs.keys().copied().collect();
        self.outcome.packs = packs.len() as u64;
        self.outcome.pack_bytes = packs.values().sum();
        let mut dead = BTreeSet::new();
        let mut sparse = BTreeMap::new();
        let mut shelved = BTreeMap::new();
        for &pack in packs.keys().filter(|pack| !before.contains(pack)) {
            let Ok(table) = self.store.pools.table(pack) else {
                if named.contains_key(&pack) {
                    self.outcome.packs_unread += 1;
                } else {
                    dead.insert(pack);
                }
                continue;
            };
            let (alive, all) = weigh(&table, named.get(&pack));
            assert!(alive <= all, "only chunks of the pack are alive");
            self.outcome.dead_bytes += all - alive;
            if alive == 0 {
                dead.insert(pack);
            } else if self.store.pools.is_only_shelved(pack) {
                shelved.insert(pack, (alive, all));
            } else if table.domain == DOMAIN
                && (all - alive) * 100 >= all * u64::from(self.order.dead_percent.max(1))
            {
                sparse.insert(pack, alive);
            }
        }
        if self.order.is_dry {
            return Ok(());
        }
        sparse.extend(shelving::worth_rewriting(self.store, &shelved)?);
        let mut small = self.small(&packs, &dead, &named);
        let candidates = dead.iter().chain(sparse.keys()).chain(small.keys());
        self.note_locked(candidates.copied(), &packs);
        dead.retain(|pack| !self.locked.contains(pack));
        sparse.retain(|pack, _| !self.locked.contains(pack));
        small.retain(|pack, _| !self.locked.contains(pack));
        // With fewer small packs, each run would join the same packs again.
        if small.len() >= SMALL_MIN {
            sparse.extend(small);
        }
        assert!(
            !dead.iter().any(|pack| sparse.contains_key(pack)),
            "no dead pack is written again"
        );
        let rewritten = self.rewrite(&named, &sparse);
        let (rewritten, refusal) = match rewritten {
            // Packs without live data need no room. Their removal makes room for the next run.
            Err(StoreError::NoSpace(error)) => (BTreeSet::new(), Some(error)),
            other => (other?, None),
        };
        dead.extend(rewritten);
        self.condemn(&dead)?;
        self.look_again(&packs)?;
        match refusal {
            Some(error) if self.outcome.packs_removed + self.outcome.packs_waiting == 0 => {
                Err(StoreError::NoSpace(error))
            }
            Some(error) => {
                tracing::warn!(error, "no room: only packs without live data were removed");
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Replaces `packs`, as [`replace`] says. Returns the packs that were replaced, without those
    /// that a page named again meanwhile: they are back in service.
    fn replace(
        &mut self,
        packs: &BTreeSet<PackNumber>,
    ) -> Result<BTreeSet<PackNumber>, StoreError> {
        let all = self.packs()?;
        let named = self.mark()?;
        let condemned: BTreeSet<PackNumber> =
            self.store.condemned().packs.keys().copied().collect();
        let (mut dead, mut chosen) = (BTreeSet::new(), BTreeMap::new());
        for pack in packs.difference(&condemned).filter(|pack| all.contains_key(pack)) {
            if let Ok(table) = self.store.pools.table(*pack)
                && table.domain == DOMAIN
            {
                match weigh(&table, named.get(pack)).0 {
                    0 => _ = dead.insert(*pack),
                    alive => _ = chosen.insert(*pack, alive),
                }
            }
        }
        self.note_locked(dead.iter().chain(chosen.keys()).copied(), &all);
        dead.retain(|pack| !self.locked.contains(pack));
        chosen.retain(|pack, _| !self.locked.contains(pack));
        let mut replaced = match self.rewrite(&named, &chosen) {
            // The caller has another use for the packs: it moves them as they are.
            Err(StoreError::NoSpace(error)) => {
                tracing::warn!(error, "no room: packs are not compressed anew");
                BTreeSet::new()
            }
            other => other?,
        };
        replaced.extend(dead);
        self.condemn(&replaced)?;
        let back = self.look_again(&all)?;
        replaced.retain(|pack| !back.contains(pack));
        Ok(replaced)
    }

    /// Adds the candidates that an object lock keeps to `locked`, and counts them.
    fn note_locked(
        &mut self,
        candidates: impl Iterator<Item = PackNumber>,
        packs: &BTreeMap<PackNumber, u64>,
    ) {
        for pack in candidates {
            if !self.locked.contains(&pack) && is_locked(self.store, pack) {
                self.locked.insert(pack);
                self.outcome.packs_locked += 1;
                self.outcome.bytes_locked += packs.get(&pack).copied().unwrap_or(0);
            }
        }
    }

    /// Returns the small packs in object stores, each with the size of its live chunks. Small packs
    /// are frequent there, because each commit ends the open packs.
    fn small(
        &self,
        packs: &BTreeMap<PackNumber, u64>,
        dead: &BTreeSet<PackNumber>,
        named: &NamedChunks,
    ) -> BTreeMap<PackNumber, u64> {
        let pools = &self.store.pools;
        let mut small = BTreeMap::new();
        for (&pack, &bytes) in packs {
            if bytes >= SMALL_BYTES || dead.contains(&pack) || !pools.is_object(pack) {
                continue;
            }
            if let Ok(table) = pools.table(pack)
                && table.domain == DOMAIN
            {
                small.insert(pack, weigh(&table, named.get(&pack)).0);
            }
        }
        small
    }

    /// Returns the sealed packs below the horizon, each with its size in bytes. No backup under way
    /// has appended to these packs. Packs that are filled from now on are not judged.
    fn packs(&self) -> Result<BTreeMap<PackNumber, u64>, StoreError> {
        let rows = self.store.catalog.packs()?;
        let known: BTreeMap<PackNumber, u64> =
            rows.into_iter().map(|row| (row.number, row.bytes)).collect();
        let all = self.store.pools.sealed();
        let bytes = |pack: &PackNumber| known.get(pack).copied().unwrap_or(0);
        // The horizon is read after the list. A backup that begins between the two reads appends to
        // a pack that is not in the list.
        let horizon = self.store.horizon()?;
        Ok(all
            .into_iter()
            .filter(|pack| *pack < horizon)
            .map(|pack| (pack, bytes(&pack)))
            .collect())
    }

    fn tell(&mut self) -> Result<(), StoreError> {
        let goes_on = (self.listener)(&self.outcome);
        if goes_on { Ok(()) } else { Err(StoreError::cancelled("the reclamation was cancelled")) }
    }

    /// Reads the whole catalogue, and returns the chunks that a record names.
    fn mark(&mut self) -> Result<NamedChunks, StoreError> {
        let mut named = NamedChunks::new();
        self.records(&mut |_, _, record| {
            for object in record.objects()? {
                for place in places(&object) {
                    named.entry(place.pack()).or_default().set(place.index());
                }
            }
            Ok(())
        })?;
        for copy in catalog_copy::all_whole(self.store)? {
            for place in copy.places.iter() {
                named.entry(place.pack()).or_default().set(place.index());
            }
        }
        Ok(named)
    }

    /// Calls `visit` with all records that name chunks.
    fn records(
        &mut self,
        visit: &mut dyn FnMut(&mut Self, FilespaceId, Record) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let store = self.store;
        records::visit(store, &mut |event| match event {
            VisitEvent::Record(owner, record) => visit(self, owner.filespace, record),
            VisitEvent::Batch(count) => {
                self.outcome.examined += count as u64;
                self.tell()
            }
        })
    }

    /// Writes the live chunks of `sparse` packs again, and rewrites the pages that name them. Packs
    /// with the least live data come first. Returns the packs of which nothing is needed any more.
    fn rewrite(
        &mut self,
        named: &NamedChunks,
        sparse: &BTreeMap<PackNumber, u64>,
    ) -> Result<BTreeSet<PackNumber>, StoreError> {
        let mut by_life: Vec<(u64, PackNumber)> =
            sparse.iter().map(|(pack, alive)| (*alive, *pack)).collect();
        by_life.sort_unstable();
        // The packs with the least live data come first, so that a run on a full disk frees much
        // more than it writes.
        let room_bytes = self.store.pools.room_for_upkeep();
        let bytes_max = room_bytes.min(REWRITE_BYTES_MAX);
        let mut chosen = BTreeSet::new();
        let mut bytes = 0;
        let mut staged_bytes = 0;
        for &(alive, pack) in &by_life {
            bytes += alive;
            if self.store.pools.is_only_shelved(pack) {
                staged_bytes += self.store.pools.bytes_of(pack);
            }
            if bytes > bytes_max || staged_bytes > shelving::staged_max(self.store) {
                break;
            }
            chosen.insert(pack);
        }
        if chosen.is_empty() {
            let least = by_life.first().map(|(alive, _)| *alive);
            return least.filter(|least| *least > room_bytes).map_or(Ok(chosen), no_room);
        }
        shelving::bring(self.store, &chosen)?;
        let mut copy = Rewrite::new(self.store, named, self.order.recompress)?;
        let bytes_before = self.outcome.bytes_rewritten;
        self.records(&mut |round, _, record| {
            for object in record.objects()? {
                for place in places(&object).filter(|place| chosen.contains(&place.pack())) {
                    if copy.take(place)? {
                        round.outcome.bytes_rewritten = bytes_before + copy.bytes;
                        round.tell()?;
                    }
                }
            }
            Ok(())
        })?;
        let sizes = copy.finish()?;
        let Rewrite { moved, lost, bytes, .. } = copy;
        if let Some(recompression) = &mut self.outcome.recompression {
            recompression.before_bytes += sizes.before_bytes;
            recompression.after_bytes += sizes.after_bytes;
            recompression.gpu_bytes += sizes.gpu_bytes;
        }
        self.made.extend(moved.values().map(|place| place.pack()));
        // A pack with an unreadable chunk stays, because another copy of it may be undamaged.
        chosen.retain(|pack| !lost.contains(pack));
        self.outcome.packs_unread += lost.len() as u64;
        let store = self.store;
        let mut writes = Vec::new();
        self.records(&mut |_, filespace, record| {
            let mut objects = record.objects()?;
            let mut has_moved = false;
            for object in &mut objects {
                has_moved |= redirect(object, &moved);
            }
            if has_moved {
                writes.push(record.rewrite(filespace, &objects));
            }
            if writes.len() >= BATCH {
                commit(store, std::mem::take(&mut writes))?;
            }
            Ok(())
        })?;
        commit(store, writes)?;
        self.outcome.packs_rewritten += chosen.len() as u64;
        self.outcome.bytes_rewritten = bytes_before + bytes;
        Ok(chosen)
    }

    /// Condemns the packs, so that no new page names them.
    fn condemn(&self, packs: &BTreeSet<PackNumber>) -> Result<(), StoreError> {
        if packs.is_empty() {
            return Ok(());
        }
        let rows = self.rows(packs, PackState::Condemned)?;
        {
            // The guard waits for the commits under way, and blocks new commits.
            let mut condemned = self.store.condemned_mut();
            condemned.advance(self.store.catalog.condemn(rows)?);
            condemned.packs.extend(packs.iter().map(|pack| (*pack, None)));
        }
        self.store.forget_packs(packs);
        Ok(())
    }

    /// Returns the writes that put the packs into `state`.
    fn rows(
        &self,
        packs: &BTreeSet<PackNumber>,
        state: PackState,
    ) -> Result<Vec<Write>, StoreError> {
        let rows = self.store.catalog.packs()?;
        let known: BTreeMap<PackNumber, PackRow> =
            rows.into_iter().map(|row| (row.number, row)).collect();
        let row = |pack: &PackNumber| {
            let unknown = PackRow { number: *pack, domain: DOMAIN, state, bytes: 0, node: None };
            let row = known.get(pack).cloned().unwrap_or(unknown);
            Write::PutPack(PackRow { state, ..row })
        };
        Ok(packs.iter().map(row).collect())
    }

    /// Reads the catalogue once more. Reinstates the condemned packs that something names, and
    /// removes the others. Returns the packs that were reinstated.
    fn look_again(
        &mut self,
        packs: &BTreeMap<PackNumber, u64>,
    ) -> Result<BTreeSet<PackNumber>, StoreError> {
        let mut condemned = self.store.condemned().packs.clone();
        self.note_locked(condemned.keys().copied(), packs);
        condemned.retain(|pack, _| !self.locked.contains(pack));
        if condemned.is_empty() {
            return Ok(BTreeSet::new());
        }
        let named = self.mark()?;
        let back: BTreeSet<PackNumber> =
            condemned.keys().filter(|pack| named.contains_key(pack)).copied().collect();
        self.reinstate(&back)?;
        // A reader that began before the look ended may have found a page that the look did not
        // find.
        let now = self.look_end()?;
        let mut waits = true;
        let removes_any = condemned.len() > back.len();
        let has_room = !removes_any || self.renew_copy()?;
        for (pack, look_end) in condemned.into_iter().filter(|(pack, _)| !back.contains(pack)) {
            let look_end = look_end.unwrap_or(now);
            let mut condemned = self.store.condemned_mut();
            condemned.packs.insert(pack, Some(look_end));
            drop(condemned);
            let is_read = self.store.users.has_older_reader(look_end.here);
            let is_known = !is_read && self.store.all_know(look_end.generation, waits)?;
            waits &= is_known || is_read;
            if !is_known {
                self.outcome.packs_waiting += 1;
                continue;
            }
            if self.remove(pack)? {
                self.outcome.packs_removed += 1;
                self.outcome.bytes_removed += packs.get(&pack).copied().unwrap_or(0);
            } else {
                self.outcome.packs_stuck += 1;
            }
            self.tell()?;
        }
        if !has_room {
            self.renew_copy()?;
        }
        Ok(back)
    }

    /// Returns the present moment as the end of a look, for readers on this and on other servers.
    fn look_end(&self) -> Result<LookEnd, StoreError> {
        let mut condemned = self.store.condemned_mut();
        condemned.advance(self.store.catalog.condemn(Vec::new())?);
        Ok(LookEnd { here: self.store.users.now(), generation: condemned.generation })
    }

    /// If copies of the catalogue are kept, makes a copy that does not name the packs that are
    /// about to be removed. Returns false if there is no room for the copy, which is then made
    /// after the removal.
    fn renew_copy(&self) -> Result<bool, StoreError> {
        match catalog_copy::renew(self.store) {
            // A pool that is away has room again when it is back.
            Err(StoreError::NoSpace(error)) if !self.store.pools.is_any_away() => {
                tracing::warn!(error, "no room: the catalogue is copied after packs were removed");
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }

    /// Takes condemned packs back into service.
    fn reinstate(&self, packs: &BTreeSet<PackNumber>) -> Result<(), StoreError> {
        if packs.is_empty() {
            return Ok(());
        }
        let damaged = self.store.condemned().damaged.clone();
        let (damaged, whole) = packs.iter().partition(|pack| damaged.contains(pack));
        let writes =
            [self.rows(&damaged, PackState::Damaged)?, self.rows(&whole, PackState::Sealed)?];
        commit(self.store, writes.concat())?;
        let mut condemned = self.store.condemned_mut();
        condemned.packs.retain(|pack, _| !packs.contains(pack));
        drop(condemned);
        self.store.index_again(&whole);
        Ok(())
    }

    /// Removes a condemned pack, first from the catalogue and then from the pools. Returns false if
    /// its file could not be removed. The pack stays condemned then, so that the next run tries
    /// again.
    fn remove(&self, pack: PackNumber) -> Result<bool, StoreError> {
        let mut condemned = self.store.condemned_mut();
        debug_assert!(condemned.packs.contains_key(&pack), "only a condemned pack is removed");
        condemned.gone.insert(pack);
        drop(condemned);
        if let Err(error) = commit(self.store, vec![Write::RemovePack(pack)]) {
            // The removal failed, so the pack still exists. A later look may find that something
            // names it.
            self.store.condemned_mut().gone.remove(&pack);
            return Err(error);
        }
        if let Err(error) = self.store.pools.remove(pack) {
            tracing::error!(%pack, %error, "a pack that nothing names cannot be removed");
            return Ok(false);
        }
        let mut condemned = self.store.condemned_mut();
        condemned.packs.remove(&pack);
        condemned.damaged.remove(&pack);
        Ok(true)
    }
}

/// Fails because no pool has room for the live data of any pack, of which the smallest part has
/// `bytes` before compression.
fn no_room(bytes: u64) -> Result<BTreeSet<PackNumber>, StoreError> {
    Err(StoreError::no_space(format!(
        "no pool has room to write live data again (at least {} before compression), so packs \
         with dead data stay; make room on the disk of a pool, or give it a next pool for a while",
        counted(bytes, "byte")
    )))
}

/// Returns true for a pack that an object lock keeps, and for a pack whose lock cannot be read.
fn is_locked(store: &Store, pack: PackNumber) -> bool {
    let until = store.pools.locked_until(pack, None).unwrap_or_else(|error| {
        tracing::warn!(%pack, %error, "a pack is not reclaimed, because its lock cannot be read");
        Some(model::ServerTime::MAX)
    });
    until.is_some()
}

/// Returns the bytes of a pack's named chunks, and the bytes of all its chunks.
fn weigh(table: &format::pack::Table, named: Option<&Bits>) -> (u64, u64) {
    let (mut alive, mut all) = (0, 0);
    for index in 0..table.chunk_count() {
        let bytes = table.chunk(index).map_or(0, |(bytes, _)| u64::from(bytes));
        all += bytes;
        alive += if named.is_some_and(|named| named.has(index)) { bytes } else { 0 };
    }
    (alive, all)
}

/// Puts the new places into the object's extents. Returns true if a chunk of the object has moved.
fn redirect(object: &mut Object, moved: &HashMap<Place, Place>) -> bool {
    if !places(object).any(|place| moved.contains_key(&place)) {
        return false;
    }
    let count = places(object).count();
    let Payload::Extents(extents) = &object.payload else { return false };
    let mut new: Vec<Extent> = Vec::with_capacity(extents.len());
    for extent in extents {
        let range = match extent {
            Extent::Chunks(range) => range,
            Extent::Sealed { place, bytes } => {
                let place = moved.get(place).copied().unwrap_or(*place);
                new.push(Extent::Sealed { place, bytes: *bytes });
                continue;
            }
            Extent::Hole { .. } => {
                new.push(*extent);
                continue;
            }
        };
        let first = range.first.code();
        for offset in 0..u64::from(range.count) {
            let Some(place) = Place::from_code(first + offset) else { continue };
            push_chunk(&mut new, moved.get(&place).copied().unwrap_or(place));
        }
    }
    object.payload = Payload::Extents(new);
    assert_eq!(places(object).count(), count, "a moved object keeps its chunks");
    true
}

/// Reclaims as a task, after each expiration. Returns `None` while the task rests.
pub fn run_due(store: &Arc<Store>) -> Result<Option<Outcome>, StoreError> {
    if !store.tasks.may_begin(Task::Reclaim) {
        return Ok(None);
    }
    let Config { reclaim_dead_percent: dead_percent, reclaim_recompress: recompress, .. } =
        store.config;
    let order = Order { is_dry: false, dead_percent, recompress };
    let work = |open: &mut OpenRun<'_>| {
        run(store, order, &mut |now: &Outcome| {
            open.goes_on(|| now.numbers()) && !store.stopping.load(Ordering::Relaxed)
        })
    };
    let task = (Task::Reclaim, sys::clock::now());
    tasks::run(&*store.catalog, &store.tasks, task, work, |_| None).map(Some)
}

#[cfg(test)]
mod tests;

//! Reclamation: the space of chunks that nothing names any more.
//!
//! ```text
//!   mark      read the whole catalogue: which chunks of which pack are named
//!   judge     packs that were condemned before: named again -> back in service, else -> removed
//!             packs with nothing alive -> condemned
//!             packs with little alive  -> what is alive is written again, by filespace order,
//!                                         pages are rewritten to name it there -> condemned
//!   look again                         -> what is still not named is removed
//! ```
//!
//! 1. A condemned pack is offered to nobody: the chunk index does not answer it, grants to it do
//!    not hold, and a commit that would name it is refused its data (`resolve`), which the client
//!    then sends. So nothing that begins to name it after the condemnation can be missed by the
//!    second look, which reads everything that was committed before.
//! 2. What backups that go on now have appended is left alone: their pages do not name it yet.
//! 3. A pack is removed only when nobody reads who began before that second look ended: between the
//!    first look and the condemnation something may have come to name it, for a while.
//! 4. The catalogue lets go of a pack before its file goes: a crash between leaves a file that
//!    nothing knows, which the next run finds.
//! 5. Where copies of the catalogue are kept, one is made before a pack is removed, which does not
//!    name it: a server made again from it finds what it looks for. Only where there is no room
//!    for it, it is made behind.
//! 6. A page is rewritten only if it is still what was read. A backup that wins the race names the
//!    old place; the second look sees that, and the pack goes back in service.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use catalog::{PackRow, PackState, Write};
use chunk::{Compression, Compressor, Decompressor, RawQuantum};
use model::{
    ChunkDigest, Extent, FilespaceId, NodeId, Object, PackNumber, Payload, Place, PlaceCode as _,
};
use pool::Filler;
use tonic::Status;

use crate::catalog_copy;
use crate::core::{Clean, Core, DOMAIN};
use crate::fleet::Having;
use crate::records::{self, Record, Seen};
use crate::recovery;
use crate::refusal;
use crate::resolve::push_chunk;
use crate::restore::places;
use crate::tasks::{self, Task};
use crate::volumes;

/// Rows rewritten in one batch.
const BATCH: usize = 256;
/// Bytes written again in one run at most: a run after it goes on.
const REWRITE_BYTES_MAX: u64 = 8 << 30;

/// A pack in an object store is small below this, a quarter of a whole one;
const SMALL_BYTES: u64 = pool::PACK_BYTES / 4;
/// and so many of them are put together.
const SMALL_MIN: usize = 16;

/// What a run is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// Only tell what there is to win.
    pub(crate) is_dry: bool,
    /// A pack is written again when so many per cent of it are dead.
    pub(crate) dead_percent: u8,
}

/// What has come of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    /// Pages and versions read, in all looks together.
    pub(crate) examined: u64,
    pub(crate) packs: u64,
    pub(crate) pack_bytes: u64,
    /// Of those, bytes of chunks that nothing names, as they were before compression.
    pub(crate) dead_bytes: u64,
    pub(crate) packs_removed: u64,
    pub(crate) bytes_removed: u64,
    pub(crate) packs_rewritten: u64,
    pub(crate) bytes_rewritten: u64,
    /// Condemned, and not yet removed: somebody still reads.
    pub(crate) packs_waiting: u64,
    /// An object store keeps them until a day, whatever is dead of them.
    pub(crate) packs_locked: u64,
    pub(crate) bytes_locked: u64,
}

/// Whoever ordered a run hears how it goes; `false` ends it.
pub(crate) type Listener<'a> = &'a mut dyn FnMut(&Outcome) -> bool;

/// Reclaims once; see the drawing above.
pub(crate) fn run(
    core: &Arc<Core>,
    order: Order,
    listener: Listener<'_>,
) -> Result<Outcome, Status> {
    let _only = pause(core)?;
    if !order.is_dry {
        recovery::check_released(core)?;
    }
    // Packs that were sealed meanwhile are told of, so that nothing overwrites their state later.
    core.commit(Vec::new())?;
    let (outcome, locked) = (Outcome::default(), BTreeSet::new());
    let mut round = Round { core, order, outcome, locked, listener };
    round.run()?;
    let Outcome { packs_removed, bytes_removed, packs_rewritten, .. } = round.outcome;
    if packs_removed + packs_rewritten > 0 {
        let details = format!(
            "{packs_removed} packs of {bytes_removed} bytes removed, {packs_rewritten} packs \
             written again"
        );
        core.record("space reclaimed", details)?;
    }
    Ok(round.outcome)
}

/// Keeps reclamation from running, at any server, until what is returned is dropped.
pub(crate) fn pause(core: &Arc<Core>) -> Result<Having, Status> {
    let refused = || Status::aborted("a reclamation is running; try again in a while");
    core.try_have("reclamation")?.ok_or_else(refused)
}

fn failed(error: catalog::CatalogError) -> Status {
    refusal::catalog(&error)
}

fn commit(core: &Core, writes: Vec<Write>) -> Result<(), Status> {
    core.catalog.commit(writes).map_err(failed)
}

/// Which chunks of a pack are named, by index.
#[derive(Clone, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn set(&mut self, index: u32) {
        let at = index as usize / 64;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] |= 1 << (index % 64);
    }

    fn has(&self, index: u32) -> bool {
        let word = self.0.get(index as usize / 64);
        word.is_some_and(|word| word >> (index % 64) & 1 == 1)
    }
}

type Named = BTreeMap<PackNumber, Bits>;

struct Round<'a> {
    core: &'a Arc<Core>,
    order: Order,
    outcome: Outcome,
    /// Packs that an object store does not let go.
    locked: BTreeSet<PackNumber>,
    listener: Listener<'a>,
}

impl Round<'_> {
    fn run(&mut self) -> Result<(), Status> {
        let packs = self.packs()?;
        let named = self.mark()?;
        let before: BTreeSet<PackNumber> = self.core.condemned().packs.keys().copied().collect();
        self.outcome.packs = packs.len() as u64;
        self.outcome.pack_bytes = packs.values().sum();
        let mut dead = BTreeSet::new();
        let mut sparse = BTreeMap::new();
        let mut shelved = BTreeMap::new();
        for &pack in packs.keys().filter(|pack| !before.contains(pack)) {
            let Ok(table) = self.core.pools.table(pack) else { continue };
            let (alive, all) = weigh(&table, named.get(&pack));
            self.outcome.dead_bytes += all - alive;
            if alive == 0 {
                dead.insert(pack);
            } else if self.core.pools.is_only_shelved(pack) {
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
        sparse.extend(volumes::worth_rewriting(self.core, &shelved)?);
        let mut small = self.small(&packs, &dead, &named);
        dead.retain(|pack| !self.is_locked(*pack, &packs));
        sparse.retain(|pack, _| !self.is_locked(*pack, &packs));
        small.retain(|pack, _| !self.is_locked(*pack, &packs));
        // Each run would else put the same few together.
        if small.len() >= SMALL_MIN {
            sparse.extend(small);
        }
        let rewritten = self.rewrite(&named, &sparse)?;
        dead.extend(rewritten);
        self.condemn(&dead)?;
        self.look_again(&packs)
    }

    /// Whether an object store would not let the pack go.
    fn is_locked(&mut self, pack: PackNumber, packs: &BTreeMap<PackNumber, u64>) -> bool {
        if self.locked.contains(&pack) {
            return true;
        }
        let until = self.core.pools.locked_until(pack, None).unwrap_or_else(|error| {
            tracing::warn!(%pack, %error, "whether a pack is locked is not known: it stays");
            Some(model::ServerTime::MAX)
        });
        if until.is_some() {
            self.locked.insert(pack);
            self.outcome.packs_locked += 1;
            self.outcome.bytes_locked += packs.get(&pack).copied().unwrap_or(0);
        }
        until.is_some()
    }

    /// Packs in object stores that are small: each commit ends one there. With each, what is alive
    /// of it.
    fn small(
        &self,
        packs: &BTreeMap<PackNumber, u64>,
        dead: &BTreeSet<PackNumber>,
        named: &Named,
    ) -> BTreeMap<PackNumber, u64> {
        let pools = &self.core.pools;
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

    /// The sealed packs that nothing is appended to which no page names yet, with their bytes. What
    /// is appended from now on is not judged.
    fn packs(&self) -> Result<BTreeMap<PackNumber, u64>, Status> {
        let rows = self.core.catalog.packs().map_err(failed)?;
        let known: BTreeMap<PackNumber, u64> =
            rows.into_iter().map(|row| (row.number, row.bytes)).collect();
        let all = self.core.pools.sealed();
        let bytes = |pack: &PackNumber| known.get(pack).copied().unwrap_or(0);
        // In this order: a backup that begins between appends to a pack that is not listed.
        let horizon = self.core.horizon().map_err(failed)?;
        Ok(all
            .into_iter()
            .filter(|pack| *pack < horizon)
            .map(|pack| (pack, bytes(&pack)))
            .collect())
    }

    fn tell(&mut self) -> Result<(), Status> {
        let goes_on = (self.listener)(&self.outcome);
        if goes_on { Ok(()) } else { Err(Status::cancelled("the reclamation was cancelled")) }
    }

    /// Which chunks anything in the catalogue names.
    fn mark(&mut self) -> Result<Named, Status> {
        let mut named = Named::new();
        self.records(&mut |_, record| {
            for object in record.objects()? {
                for place in places(&object) {
                    named.entry(place.pack()).or_default().set(place.index());
                }
            }
            Ok(())
        })?;
        for copy in catalog_copy::all(self.core) {
            for place in copy.places {
                named.entry(place.pack()).or_default().set(place.index());
            }
        }
        Ok(named)
    }

    /// Calls `visit` with all that names chunks.
    fn records(
        &mut self,
        visit: &mut dyn FnMut(FilespaceId, Record) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let core = self.core;
        records::visit(core, &mut |event| match event {
            Seen::Record(owner, record) => visit(owner.filespace, record),
            Seen::Batch(count) => {
                self.outcome.examined += count as u64;
                self.tell()
            }
        })
    }

    /// Writes what is alive of `sparse` packs again, the deadest first, and has the catalogue name
    /// it there. Returns the packs that were dealt with.
    fn rewrite(
        &mut self,
        named: &Named,
        sparse: &BTreeMap<PackNumber, u64>,
    ) -> Result<BTreeSet<PackNumber>, Status> {
        let mut by_life: Vec<(u64, PackNumber)> =
            sparse.iter().map(|(pack, alive)| (*alive, *pack)).collect();
        by_life.sort_unstable();
        let mut chosen = BTreeSet::new();
        let mut bytes = 0;
        let mut staged_bytes = 0;
        for (alive, pack) in by_life {
            bytes += alive;
            if self.core.pools.is_only_shelved(pack) {
                staged_bytes += self.core.pools.bytes_of(pack);
            }
            if bytes > REWRITE_BYTES_MAX || staged_bytes > volumes::staged_max(self.core) {
                break;
            }
            chosen.insert(pack);
        }
        if chosen.is_empty() {
            return Ok(chosen);
        }
        volumes::bring(self.core, &chosen)?;
        let mut copy = Copy::new(self.core, named)?;
        self.records(&mut |_, record| {
            for object in record.objects()? {
                for place in places(&object).filter(|place| chosen.contains(&place.pack())) {
                    copy.take(place)?;
                }
            }
            Ok(())
        })?;
        copy.finish()?;
        let Copy { moved, lost, bytes, .. } = copy;
        // A pack of which something cannot be read stays as it is: a copy may have it.
        chosen.retain(|pack| !lost.contains(pack));
        let core = self.core;
        let mut writes = Vec::new();
        self.records(&mut |filespace, record| {
            let mut objects = record.objects()?;
            let mut has_moved = false;
            for object in &mut objects {
                has_moved |= redirect(object, &moved);
            }
            if has_moved {
                writes.push(record.rewrite(filespace, &objects));
            }
            if writes.len() >= BATCH {
                commit(core, std::mem::take(&mut writes))?;
            }
            Ok(())
        })?;
        commit(core, writes)?;
        self.outcome.packs_rewritten += chosen.len() as u64;
        self.outcome.bytes_rewritten += bytes;
        Ok(chosen)
    }

    /// Has nobody begin to use the packs.
    fn condemn(&self, packs: &BTreeSet<PackNumber>) -> Result<(), Status> {
        if packs.is_empty() {
            return Ok(());
        }
        let rows = self.rows(packs, PackState::Condemned)?;
        {
            // Waits for the commits that go on, and stops the next ones.
            let lock = &self.core.condemned;
            let mut condemned = lock.write().unwrap_or_else(PoisonError::into_inner);
            condemned.generation = self.core.catalog.condemn(rows).map_err(failed)?;
            condemned.packs.extend(packs.iter().map(|pack| (*pack, None)));
        }
        self.core.forget_packs(packs)
    }

    fn rows(&self, packs: &BTreeSet<PackNumber>, state: PackState) -> Result<Vec<Write>, Status> {
        let rows = self.core.catalog.packs().map_err(failed)?;
        let known: BTreeMap<PackNumber, PackRow> =
            rows.into_iter().map(|row| (row.number, row)).collect();
        let row = |pack: &PackNumber| {
            let unknown = PackRow { number: *pack, domain: DOMAIN, state, bytes: 0, node: None };
            let row = known.get(pack).cloned().unwrap_or(unknown);
            Write::PutPack(PackRow { state, ..row })
        };
        Ok(packs.iter().map(row).collect())
    }

    /// Looks at the catalogue once more: condemned packs that something names go back in service,
    /// the others go for good.
    fn look_again(&mut self, packs: &BTreeMap<PackNumber, u64>) -> Result<(), Status> {
        let mut condemned = self.core.condemned().packs.clone();
        condemned.retain(|pack, _| !self.is_locked(*pack, packs));
        if condemned.is_empty() {
            return Ok(());
        }
        let named = self.mark()?;
        let back: BTreeSet<PackNumber> =
            condemned.keys().filter(|pack| named.contains_key(pack)).copied().collect();
        self.reinstate(&back)?;
        // Who began to read before the look ended may have found what it did not.
        let looked = self.looked()?;
        let mut waits = true;
        let goes = condemned.len() > back.len();
        let has_room = !goes || self.renew_copy()?;
        for (pack, clean) in condemned.into_iter().filter(|(pack, _)| !back.contains(pack)) {
            let clean = clean.unwrap_or(looked);
            let lock = &self.core.condemned;
            let mut condemned = lock.write().unwrap_or_else(PoisonError::into_inner);
            condemned.packs.insert(pack, Some(clean));
            drop(condemned);
            let is_read = self.core.users.has_older_reader(clean.here);
            let is_known = !is_read && self.core.all_know(clean.generation, waits)?;
            waits &= is_known || is_read;
            if !is_known {
                self.outcome.packs_waiting += 1;
                continue;
            }
            self.remove(pack)?;
            self.outcome.packs_removed += 1;
            self.outcome.bytes_removed += packs.get(&pack).copied().unwrap_or(0);
            self.tell()?;
        }
        if !has_room {
            self.renew_copy()?;
        }
        Ok(())
    }

    /// Now, for those who read here and at other servers.
    fn looked(&self) -> Result<Clean, Status> {
        let lock = &self.core.condemned;
        let mut condemned = lock.write().unwrap_or_else(PoisonError::into_inner);
        condemned.generation = self.core.catalog.condemn(Vec::new()).map_err(failed)?;
        Ok(Clean { here: self.core.users.now(), generation: condemned.generation })
    }

    /// Makes a copy of the catalogue that does not name what is about to go, where copies are kept;
    /// `false` where there is no room for it. Then space comes first, and the copy behind it.
    fn renew_copy(&self) -> Result<bool, Status> {
        match catalog_copy::renew(self.core) {
            Err(status) if status.code() == tonic::Code::ResourceExhausted => {
                let error = status.message();
                tracing::warn!(error, "no room to copy the catalogue before packs are removed");
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }

    fn reinstate(&self, packs: &BTreeSet<PackNumber>) -> Result<(), Status> {
        if packs.is_empty() {
            return Ok(());
        }
        let damaged = self.core.condemned().damaged.clone();
        let (damaged, whole) = packs.iter().partition(|pack| damaged.contains(pack));
        let writes =
            [self.rows(&damaged, PackState::Damaged)?, self.rows(&whole, PackState::Sealed)?];
        commit(self.core, writes.concat())?;
        let lock = &self.core.condemned;
        let mut condemned = lock.write().unwrap_or_else(PoisonError::into_inner);
        condemned.packs.retain(|pack, _| !packs.contains(pack));
        drop(condemned);
        self.core.index_again(&whole);
        Ok(())
    }

    fn remove(&self, pack: PackNumber) -> Result<(), Status> {
        let lock = &self.core.condemned;
        lock.write().unwrap_or_else(PoisonError::into_inner).gone.insert(pack);
        commit(self.core, vec![Write::RemovePack(pack)])?;
        self.core
            .pools
            .remove(pack)
            .map_err(|error| Status::unavailable(format!("pack {pack} stays: {error}")))?;
        let mut condemned = lock.write().unwrap_or_else(PoisonError::into_inner);
        condemned.packs.remove(&pack);
        condemned.damaged.remove(&pack);
        Ok(())
    }
}

/// Bytes of a pack's chunks that are named, and of all of them.
fn weigh(table: &format::pack::Table, named: Option<&Bits>) -> (u64, u64) {
    let (mut alive, mut all) = (0, 0);
    for index in 0..table.chunk_count() {
        let bytes = table.chunk(index).map_or(0, |(bytes, _)| u64::from(bytes));
        all += bytes;
        alive += if named.is_some_and(|named| named.has(index)) { bytes } else { 0 };
    }
    (alive, all)
}

/// Puts the new places into the object's extents; whether any was moved.
fn redirect(object: &mut Object, moved: &HashMap<Place, Place>) -> bool {
    if !places(object).any(|place| moved.contains_key(&place)) {
        return false;
    }
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
    true
}

/// Chunks on their way to a new place, in the order in which they are taken.
struct Copy<'a> {
    core: &'a Core,
    named: &'a Named,
    decompressor: Decompressor,
    compressor: Compressor,
    /// The quantum read last: its pack, first index, and chunks.
    source: Option<(PackNumber, u32, RawQuantum)>,
    open: RawQuantum,
    /// Where the chunks of the open quantum come from, with their digests.
    origins: Vec<(Place, ChunkDigest)>,
    pending: HashSet<Place>,
    moved: HashMap<Place, Place>,
    /// Packs of which a chunk could not be read.
    lost: BTreeSet<PackNumber>,
    bytes: u64,
    /// The only node that a pack has data of, where it is known.
    nodes: HashMap<PackNumber, NodeId>,
    /// Whose chunks are in the open quantum: what lies apart stays so.
    filler: Filler,
    /// Packs that had failed before the first was appended to.
    failures: usize,
}

impl<'a> Copy<'a> {
    fn new(core: &'a Core, named: &'a Named) -> Result<Self, Status> {
        let none = |_| Status::internal("no zstd context");
        let rows = core.catalog.packs().map_err(failed)?;
        Ok(Self {
            core,
            named,
            decompressor: Decompressor::new().map_err(none)?,
            compressor: Compressor::new(Compression::Standard).map_err(none)?,
            source: None,
            open: RawQuantum::default(),
            origins: Vec::new(),
            pending: HashSet::new(),
            moved: HashMap::new(),
            lost: BTreeSet::new(),
            bytes: 0,
            nodes: rows.iter().filter_map(|row| Some((row.number, row.node?))).collect(),
            filler: Filler::any(DOMAIN),
            failures: core.pools.failures(),
        })
    }

    fn take(&mut self, place: Place) -> Result<(), Status> {
        let is_known = self.moved.contains_key(&place) || self.pending.contains(&place);
        let is_named = self.named.get(&place.pack()).is_some_and(|bits| bits.has(place.index()));
        if is_known || !is_named || self.lost.contains(&place.pack()) {
            return Ok(());
        }
        let Some((chunk, digest)) = self.read(place) else {
            tracing::error!(pack = %place.pack(), "a pack cannot be read: it is not reclaimed");
            self.lost.insert(place.pack());
            return Ok(());
        };
        let filler = Filler { domain: DOMAIN, node: self.nodes.get(&place.pack()).copied() };
        if filler != self.filler {
            self.write()?;
            self.filler = filler;
        }
        if !self.open.fits(chunk.len()) {
            self.write()?;
        }
        self.open.push(&chunk);
        self.origins.push((place, digest));
        self.pending.insert(place);
        self.bytes += chunk.len() as u64;
        Ok(())
    }

    /// The chunk at `place`, if it is what its pack says.
    fn read(&mut self, place: Place) -> Option<(Vec<u8>, ChunkDigest)> {
        let table = self.core.pools.table(place.pack()).ok()?;
        let (_, digest) = table.chunk(place.index())?;
        let quantum = table.quanta()[table.quantum_of(place.index())?];
        let wanted = (place.pack(), quantum.first_index);
        if self.source.as_ref().is_none_or(|(pack, first, _)| (*pack, *first) != wanted) {
            let record = self.core.pools.read(place.pack(), &quantum).ok()?;
            let raw = self.decompressor.decode(&record).ok()?;
            self.source = Some((place.pack(), quantum.first_index, raw));
        }
        let (_, first, raw) = self.source.as_ref()?;
        let chunk = raw.chunks().nth((place.index() - first) as usize)?;
        (self.core.pools.digest_of(DOMAIN, chunk) == digest).then(|| (chunk.to_vec(), digest))
    }

    fn write(&mut self) -> Result<(), Status> {
        if self.origins.is_empty() {
            return Ok(());
        }
        let record = self.compressor.encode(&self.open);
        let digests: Vec<ChunkDigest> = self.origins.iter().map(|(_, digest)| *digest).collect();
        let first = self
            .core
            .pools
            .append(self.filler, &record, self.open.lengths(), &digests)
            .map_err(|error| refusal::append(&error))?;
        let mut entries = Vec::with_capacity(digests.len());
        for (offset, (origin, digest)) in (0..).zip(self.origins.drain(..)) {
            let place = Place::new(first.pack(), first.index() + offset);
            self.moved.insert(origin, place);
            entries.push((digest, place));
        }
        self.core.note(&entries);
        self.pending.clear();
        self.open.clear();
        Ok(())
    }

    /// Writes what is left, and has all of it survive a power cut before anything names it.
    fn finish(&mut self) -> Result<(), Status> {
        self.write()?;
        self.core.commit(Vec::new())?;
        if self.core.pools.failures() == self.failures {
            return Ok(());
        }
        Err(Status::unavailable("a pack could not be written; the next run tries again"))
    }
}

/// Reclaims as the server does by itself, behind each expiration.
pub(crate) fn run_due(core: &Arc<Core>, dead_percent: u8) -> Result<Outcome, Status> {
    let order = Order { is_dry: false, dead_percent };
    let work = || run(core, order, &mut |_| !core.stopping.load(Ordering::Relaxed));
    tasks::run(&*core.catalog, (Task::Reclaim, sys::clock::now()), work, |_| None)
}

#[cfg(test)]
mod tests;

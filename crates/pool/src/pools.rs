//! All pools of a server.
//!
//! [`Pools`] keep packs, each in one or several pools. Quanta are appended to the one open pack of
//! their filler, made durable by [`Pools::sync`], and read back by place. A pack that has reached
//! its size is sealed: its footer is written, and it never changes again. A sealed pack may move to
//! another pool, or lie in several: a place names a pack, not a pool. Only the storages know the
//! packs that they have; no second record exists that could contradict them.
//!
//! Invariants:
//! 1. Everything that was appended before `sync` was called survives a power cut once `sync` has
//!    returned.
//! 2. A sealed pack is never written to; a damaged pack is replaced as a whole.
//! 3. No place is ever given twice, not even after a crash: the quanta that an open pack lost in a
//!    crash were never synced.
//! 4. A pack that failed to sync takes no more quanta, and none of its unsynced places is served.
//! 5. A pack leaves a pool only once it is whole and durable in another, or nothing names it.
//! 6. A primary pool in a folder or a bucket that is there at the start, or comes back, takes part
//!    in reads and writes only after its packs have been examined: none waits for the end of a dead
//!    server's work, and none in a folder is known to have the number of another pack.
//!
//! Locks: `refreshing` and `syncing` are taken before `state`. While `state` is held, only those
//! methods of a storage are called whose comments allow it.

mod append;
mod failed;
mod files;
pub(crate) mod fleet;
mod locks;
pub(crate) mod presence;
mod put;
mod read;
mod sync;
pub(crate) mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use model::{ChunkDigest, DomainId, PackNumber, PoolId};
use sys::lock::{Mutex, MutexGuard};

use crate::disk;
use crate::error::{AppendError, ReadError};
use crate::member::{Member, Usage};
use crate::namesakes;
use crate::numbers::Numbers;
use crate::pack::{PackNews, PackRecord, SealedPack};
use crate::reserve::{Purpose, Reserve};
use crate::spec::PoolSpec;
use crate::state::State;
use crate::storage::{Distance, PackStorage, Recovery};
use crate::table::DigestOf;

/// Packs that were found in pools when these were opened.
#[derive(Debug, Default)]
pub struct Inventory {
    /// Sealed packs in ascending order. Their tables are read on demand.
    pub sealed: Vec<PackNumber>,
    /// Packs that were open when their server died. They are sealed now.
    pub recovered: Vec<SealedPack>,
    /// Packs that cannot be used, with the reason.
    pub damaged: Vec<(PackNumber, ReadError)>,
    /// The greatest number of a pack in any pool.
    pub last: Option<PackNumber>,
}

/// All pools of a server. All methods may be called from any thread; they block.
pub struct Pools {
    digest_of: DigestOf,
    state: Mutex<State>,
    /// Lock of the running sync. A caller that waits for it may find its quanta synced already.
    syncing: Mutex<()>,
    /// Lock for taking in pools that are defined anew or have come back. Without it, one thread
    /// would examine packs that another has begun to fill.
    refreshing: Mutex<()>,
}

impl Pools {
    /// Opens the pools of `specs`; the first primary pool takes new packs. New packs get their
    /// numbers from `numbers`; the numbers of a server that is alone begin after the numbers of all
    /// existing packs. `records` has the catalogue's records of packs. `digest_of` computes a
    /// chunk's digest in a domain. It is needed for packs that were open when their server died.
    pub fn open(
        specs: &[PoolSpec],
        numbers: Numbers,
        records: &BTreeMap<PackNumber, PackRecord>,
        digest_of: impl Fn(DomainId, &[u8]) -> ChunkDigest + Send + Sync + 'static,
    ) -> io::Result<(Self, Inventory)> {
        let digest_of: DigestOf = Box::new(digest_of);
        let mut inventory = Inventory::default();
        let mut members: BTreeMap<PoolId, Member> = BTreeMap::new();
        for spec in specs {
            let mut member = match open_member(spec, records) {
                Ok(member) => member,
                Err(error) if members.is_empty() => return Err(error),
                Err(error) => {
                    disk::note_folder(&spec.folder, &error);
                    let place = spec.folder.display();
                    tracing::error!(%error, %place, "a pool cannot be opened");
                    Member::away(spec.clone())
                }
            };
            let found = namesakes::list(&member, members.values());
            for (pool, pack) in namesakes::settle(&mut member, &found, records, &digest_of) {
                members.get_mut(&pool).expect("it was opened before").remove(pack);
            }
            assert!(members.insert(spec.id, member).is_none(), "two pools have one id");
        }
        for member in members.values_mut().filter(|member| member.is_primary()) {
            inventory.examine(member, records, &digest_of, &BTreeMap::new());
        }
        inventory.sealed.sort_unstable();
        inventory.sealed.dedup();
        let packs = members.values().flat_map(|member| member.packs().keys());
        inventory.last = packs.max().copied();
        let state = Mutex::new(State::new(numbers, members));
        let pools = Self { digest_of, state, syncing: Mutex::new(()), refreshing: Mutex::new(()) };
        Ok((pools, inventory))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Keeps `reserve` free on the file systems of all pools. Without this call nothing is kept
    /// free.
    pub fn keep_reserve(&self, reserve: Reserve) {
        self.state().reserve = reserve;
    }

    /// Computes the digest of `chunk` in `domain`.
    pub fn digest_of(&self, domain: DomainId, chunk: &[u8]) -> ChunkDigest {
        (self.digest_of)(domain, chunk)
    }

    /// Returns the changes of packs since the last call.
    pub fn take_news(&self) -> Vec<PackNews> {
        std::mem::take(&mut self.state().news)
    }

    /// Gives back news that were not recorded: the next [`Pools::take_news`] returns them again.
    pub fn give_back_news(&self, mut news: Vec<PackNews>) {
        let mut state = self.state();
        news.append(&mut state.news);
        state.news = news;
    }

    fn storage_of(&self, pool: PoolId) -> Option<Arc<dyn PackStorage>> {
        self.state().members.get(&pool).map(|member| Arc::clone(&member.storage))
    }

    /// Returns the storage of `pool`, if it is available.
    fn storage_there(&self, pool: PoolId) -> Result<Arc<dyn PackStorage>, AppendError> {
        let found = {
            let state = self.state();
            let member = state.members.get(&pool);
            member.map(|m| (Arc::clone(&m.storage), m.mark(), m.is_there))
        };
        let Some((storage, mark, was_there)) = found else {
            return Err(AppendError::Away { folder: Default::default() });
        };
        // A pool that is back is claimed and examined before anybody changes anything in it.
        let is_there = was_there
            && match storage.intake() {
                Some(intake) => intake.is_ready(mark),
                None => storage.files().is_marked(mark),
            };
        if is_there {
            Ok(storage)
        } else {
            Err(AppendError::Away { folder: storage.files().place() })
        }
    }

    /// Lists the sealed packs of primary pools, in ascending order.
    pub fn sealed(&self) -> Vec<PackNumber> {
        let state = self.state();
        let packs = state.primaries().flat_map(|member| member.packs().keys().copied());
        let all: BTreeSet<_> = packs.collect();
        all.into_iter().filter(|pack| state.open_pack(*pack).is_none()).collect()
    }

    /// Lists all packs of primary pools, open packs included.
    pub fn primary_packs(&self) -> BTreeSet<PackNumber> {
        let state = self.state();
        state.primaries().flat_map(|member| member.packs().keys().copied()).collect()
    }

    /// Returns the size of all packs of primary pools, in bytes.
    pub fn primary_bytes(&self) -> u64 {
        self.state().primaries().map(|member| member.usage().bytes).sum()
    }

    /// True if `pack` still takes quanta or waits for its footer.
    pub fn is_open(&self, pack: PackNumber) -> bool {
        let state = self.state();
        state.open_pack(pack).is_some() || state.being_sealed.contains_key(&pack)
    }

    /// True if a primary pool has `pack`, or may have it because that pool is unavailable.
    pub fn has_primary(&self, pack: PackNumber) -> bool {
        self.state().primaries().any(|member| !member.is_there || member.has(pack))
    }

    /// Lists the pools that have `pack`, in the order in which readers try them.
    pub fn homes(&self, pack: PackNumber) -> Vec<PoolId> {
        self.state().homes(pack)
    }

    /// Lists the packs of a pool with their sizes in bytes, open packs included.
    pub fn packs_of(&self, pool: PoolId) -> BTreeMap<PackNumber, u64> {
        let state = self.state();
        state
            .members
            .get(&pool)
            .map_or_else(BTreeMap::new, |member| member.packs().clone())
    }

    /// Returns the size of a pack in bytes; 0 if it is unknown.
    pub fn bytes_of(&self, pack: PackNumber) -> u64 {
        self.state().bytes_of(pack).unwrap_or(0)
    }

    /// Returns the time at which `pack` arrived in `pool`, by the clock of the machine that wrote
    /// it.
    pub fn arrival(&self, pool: PoolId, pack: PackNumber) -> io::Result<std::time::SystemTime> {
        self.storage_of(pool).ok_or(io::ErrorKind::NotFound)?.arrival(pack)
    }

    /// Tells how full a pool is.
    pub fn usage(&self, pool: PoolId) -> Usage {
        let state = self.state();
        let Some(member) = state.members.get(&pool) else { return Usage::default() };
        let (usage, storage) = (member.usage(), Arc::clone(&member.storage));
        let reserve = state.reserve;
        drop(state);
        // The state is not locked here, so that a disk that does not answer blocks nobody else.
        usage.with_free_space(&*storage, reserve)
    }

    /// Number of errors at the local files of a pool, since the process began.
    pub fn disk_errors(&self, pool: PoolId) -> u64 {
        let storage = self.storage_of(pool);
        storage.map_or(0, |storage| sys::disk_error::count_in(&storage.files().place()))
    }

    /// Returns the number of bytes that packs may take that are written again before other packs
    /// are removed: the room in the pool that has most room.
    pub fn room_for_upkeep(&self) -> u64 {
        self.rooms(Purpose::Upkeep, State::chain).into_iter().max().unwrap_or(0)
    }

    /// Returns the room for `purpose`, in bytes, of each pool that `choose` lists. Nothing is known
    /// of the room in an object store.
    fn rooms(&self, purpose: Purpose, choose: impl FnOnce(&State) -> Vec<PoolId>) -> Vec<u64> {
        let state = self.state();
        let reserve = state.reserve;
        let pools = choose(&state);
        let members = pools.iter().filter_map(|pool| state.members.get(pool));
        let rooms = members.map(|member| (member.room_bytes(), Arc::clone(&member.storage)));
        let rooms: Vec<_> = rooms.collect();
        // The state is not locked here, so that a disk that does not answer blocks nobody else.
        drop(state);
        let of_disk = |storage: &dyn PackStorage| storage.room(reserve, purpose);
        rooms
            .iter()
            .map(|(capacity, storage)| of_disk(&**storage).unwrap_or(u64::MAX).min(*capacity))
            .collect()
    }

    /// Lists the available pools, primary pools first.
    pub fn present(&self) -> Vec<PoolId> {
        let state = self.state();
        let mut present: Vec<_> = state.members.values().filter(|member| member.is_there).collect();
        present.sort_by_key(|member| (!member.is_primary(), member.id()));
        present.into_iter().map(Member::id).collect()
    }

    /// True if any pool is not available.
    pub fn is_any_away(&self) -> bool {
        self.state().members.values().any(|member| !member.is_there)
    }

    /// True if the packs of `pool` lie on volumes.
    pub fn is_shelf(&self, pool: PoolId) -> bool {
        self.is_at(pool, Distance::Volume)
    }

    /// True if the packs of `pool` lie in an object store.
    pub fn is_bucket(&self, pool: PoolId) -> bool {
        self.is_at(pool, Distance::Network)
    }

    fn is_at(&self, pool: PoolId, distance: Distance) -> bool {
        self.storage_of(pool).is_some_and(|storage| storage.distance() == distance)
    }

    /// True if the packs of any pool lie on volumes.
    pub fn has_shelves(&self) -> bool {
        self.has_at(Distance::Volume)
    }

    /// True if the packs of any pool lie in an object store.
    pub fn has_buckets(&self) -> bool {
        self.has_at(Distance::Network)
    }

    fn has_at(&self, distance: Distance) -> bool {
        let state = self.state();
        state.members.values().any(|member| member.storage.distance() == distance)
    }
}

/// Opens one pool. The catalogue knows the sizes of packs in a primary pool. The packs of a copy
/// pool are measured, because the pool may have been unavailable.
pub(crate) fn open_member(
    spec: &PoolSpec,
    records: &BTreeMap<PackNumber, PackRecord>,
) -> io::Result<Member> {
    let is_primary = spec.role == crate::spec::Role::Primary;
    let recorded = |pack| {
        let record = records.get(&pack).filter(|_| is_primary);
        record.map(|record| record.bytes)
    };
    Member::open(spec.clone(), &recorded)
}

impl Inventory {
    /// Examines the packs of a primary pool, and recovers the packs that their server left open.
    /// The packs of `own` are left: this process has not finished them itself.
    fn examine(
        &mut self,
        member: &mut Member,
        records: &BTreeMap<PackNumber, PackRecord>,
        digest_of: &DigestOf,
        own: &BTreeMap<PackNumber, PoolId>,
    ) {
        assert!(member.is_primary(), "a copy pool has no open packs");
        let packs = member.packs().keys().copied();
        let packs: Vec<PackNumber> = packs.filter(|pack| !own.contains_key(pack)).collect();
        for pack in packs {
            let record = records.get(&pack).copied().unwrap_or_default();
            match member.storage.recover(pack, record, digest_of) {
                Ok(Recovery::Sealed) => self.sealed.push(pack),
                Ok(Recovery::Recovered(found)) => {
                    assert_eq!(found.table.pack, pack, "another pack was recovered");
                    member.put(pack, found.bytes);
                    self.recovered.push(found);
                }
                Ok(Recovery::Empty) => member.remove(pack),
                Err(error) => {
                    disk::note_read(&*member.storage, &error);
                    self.damaged.push((pack, error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

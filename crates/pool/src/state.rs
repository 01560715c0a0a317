//! The state of a running server's pools and packs.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use format::pack::Table;
use lru::LruCache;
use model::{NodeId, PackNumber, PoolId};

use crate::disk;
use crate::error::{AppendError, ReadError, unnumbered};
use crate::member::Member;
use crate::numbers::{Numbers, Stock};
use crate::open::{NewPackId, OpenPack, SyncPoint};
use crate::pack::{Filler, PackNews, SealedPack};
use crate::reserve::{Margin, Purpose, Reserve};
use crate::storage::PackStorage;

/// Maximum number of tables of sealed packs in memory.
const TABLES_MAX: NonZeroUsize = NonZeroUsize::new(512).expect("it is not zero");

/// Identity of an open pack: the filler whose data it takes, and its pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    pub(crate) filler: Filler,
    pub(crate) pool: PoolId,
}

/// A pack whose footer is being written.
pub(crate) struct ClosingPack {
    /// Number of its chunks that were durable before the seal began.
    pub(crate) durable_chunks: u32,
    pub(crate) file: Arc<File>,
    pub(crate) pool: PoolId,
    pub(crate) table: Arc<Table>,
}

/// A pack of which a write has failed, and which has no footer yet.
#[derive(Clone)]
pub(crate) struct FailedPack {
    pub(crate) pool: PoolId,
    /// Table of what was durable before.
    pub(crate) durable: Arc<Table>,
}

/// Reason why the last pack failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteFailure {
    pub reason: String,
    /// True if there was no space for the quantum.
    pub is_full: bool,
}

/// The pools and packs as this server knows them. See the module.
pub(crate) struct State {
    pub(crate) numbers: Stock,
    pub(crate) reserve: Reserve,
    pub(crate) members: BTreeMap<PoolId, Member>,
    pub(crate) open: BTreeMap<Slot, OpenPack>,
    /// Full packs, which the next sync seals.
    pub(crate) sealing: Vec<OpenPack>,
    /// Packs that the running sync seals.
    pub(crate) being_sealed: BTreeMap<PackNumber, ClosingPack>,
    /// The node of each unsealed pack that takes the data of one node only.
    pub(crate) nodes: BTreeMap<PackNumber, NodeId>,
    pub(crate) tables: LruCache<PackNumber, Arc<Table>>,
    pub(crate) news: Vec<PackNews>,
    /// Packs that one pool could not read and another could.
    pub(crate) suspects: BTreeSet<PackNumber>,
    /// Packs of which a reader needed data that no pool could read.
    pub(crate) lost: BTreeSet<PackNumber>,
    /// Packs of other servers that were found before their servers reported them.
    pub(crate) early: BTreeSet<PackNumber>,
    /// Packs that failed, with the number of chunks that were durable by then.
    pub(crate) given_up: BTreeMap<PackNumber, u32>,
    /// Packs that failed and are not closed yet.
    pub(crate) failed: BTreeMap<PackNumber, FailedPack>,
    pub(crate) last_failure: WriteFailure,
    /// Size in bytes of the largest record of new data that was refused because no pool had room;
    /// `None` while new data is taken.
    pub(crate) refused_bytes: Option<u64>,
}

impl State {
    pub(crate) fn new(numbers: Numbers, members: BTreeMap<PoolId, Member>) -> Self {
        let last = members.values().filter_map(|member| member.packs().keys().last()).max();
        Self {
            numbers: Stock::new(numbers, last.copied()),
            reserve: Reserve::default(),
            members,
            open: BTreeMap::new(),
            sealing: Vec::new(),
            being_sealed: BTreeMap::new(),
            nodes: BTreeMap::new(),
            tables: LruCache::new(TABLES_MAX),
            news: Vec::new(),
            suspects: BTreeSet::new(),
            lost: BTreeSet::new(),
            early: BTreeSet::new(),
            given_up: BTreeMap::new(),
            failed: BTreeMap::new(),
            last_failure: WriteFailure {
                reason: "the storage of a pool is not available any more".to_owned(),
                is_full: false,
            },
            refused_bytes: None,
        }
    }

    /// Returns the pack, if it is open or waits for its seal.
    pub(crate) fn open_pack(&self, pack: PackNumber) -> Option<&OpenPack> {
        self.open.values().chain(&self.sealing).find(|open| open.number() == pack)
    }

    /// Returns the file of a pack that is not sealed yet.
    pub(crate) fn open_file(&self, pack: PackNumber) -> Option<Arc<File>> {
        let open = self.open_pack(pack).map(OpenPack::file);
        open.or_else(|| self.being_sealed.get(&pack).map(|closing| Arc::clone(&closing.file)))
    }

    /// Returns the size of the pack in bytes: the largest size in any pool.
    pub(crate) fn bytes_of(&self, pack: PackNumber) -> Option<u64> {
        let members = self.members.values();
        members.filter_map(|member| member.packs().get(&pack)).max().copied()
    }

    /// Returns the pools that have the pack, in the order in which readers try them.
    pub(crate) fn homes(&self, pack: PackNumber) -> Vec<PoolId> {
        let mut homes: Vec<&Member> =
            self.members.values().filter(|member| member.has(pack)).collect();
        homes.sort_by_key(|member| member.reading_order());
        homes.into_iter().map(Member::id).collect()
    }

    pub(crate) fn primaries(&self) -> impl Iterator<Item = &Member> {
        self.members.values().filter(|member| member.is_primary())
    }

    /// Returns the storages of the available pools that `choose` selects.
    pub(crate) fn storages_there(
        &self,
        choose: impl Fn(&Member) -> bool,
    ) -> Vec<(PoolId, Arc<dyn PackStorage>)> {
        let there = self.members.values().filter(|member| member.is_there && choose(member));
        there.map(|member| (member.id(), Arc::clone(&member.storage))).collect()
    }

    /// Creates the next pack of a slot. Fails with `Away` if the pool's disk is not available.
    pub(crate) fn create(&mut self, slot: Slot, purpose: Purpose) -> Result<OpenPack, AppendError> {
        let margin = Margin { reserve: self.reserve, purpose };
        let member = &self.members[&slot.pool];
        let folder = &member.spec.folder;
        assert!(member.is_there, "new packs are made in available pools only");
        let intake = member.storage.intake();
        let ready = intake.filter(|intake| intake.is_ready(member.mark()));
        let Some(intake) = ready else {
            return Err(AppendError::Away { folder: folder.clone() });
        };
        loop {
            let taken = self.numbers.take();
            let pack = taken.map_err(|source| AppendError::Numbers { source })?;
            assert!(!self.is_used(pack), "a number is given to one pack only");
            let id = NewPackId { pool: slot.pool, pack, domain: slot.filler.domain };
            match intake.create(id, margin) {
                // Somebody else has put a file with this name there, so the next number is tried.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    disk::note_pack(&*member.storage, pack, "create", &error);
                    self.numbers.put_back(pack);
                    return Err(AppendError::of_write(pack, folder, error));
                }
                Ok(made) => {
                    self.nodes.extend(slot.filler.node.map(|node| (pack, node)));
                    return Ok(made);
                }
            }
        }
    }

    /// Returns true if a pack that this server has made has the number.
    fn is_used(&self, pack: PackNumber) -> bool {
        self.open_pack(pack).is_some()
            || self.being_sealed.contains_key(&pack)
            || self.given_up.contains_key(&pack)
    }

    /// Returns the packs that this process has made and that have no footer yet, with their pools.
    pub(crate) fn unfinished(&self) -> BTreeMap<PackNumber, PoolId> {
        let open = self.open.values().chain(&self.sealing);
        let open = open.map(|open| (open.number(), open.pool()));
        let closing = self.being_sealed.iter().map(|(pack, closing)| (*pack, closing.pool));
        let failed = self.failed.iter().map(|(pack, failed)| (*pack, failed.pool));
        open.chain(closing).chain(failed).collect()
    }

    /// Gives up the pack: nothing is appended to it any more. Everything in it that was not durable
    /// is lost and is not served.
    pub(crate) fn give_up(&mut self, pack: PackNumber) {
        let failed = self.failure_of(pack);
        let durable = failed.as_ref().map_or(0, |failed| failed.durable.chunk_count());
        if let Entry::Vacant(entry) = self.given_up.entry(pack) {
            entry.insert(durable);
            self.failed.extend(failed.map(|failed| (pack, failed)));
        }
        self.open.retain(|_, open| open.number() != pack);
        self.sealing.retain(|open| open.number() != pack);
        self.tables.pop(&pack);
        assert!(self.open_pack(pack).is_none(), "a pack that was given up takes no more");
    }

    /// Returns what is durable of a pack that has no footer yet.
    fn failure_of(&self, pack: PackNumber) -> Option<FailedPack> {
        if let Some(open) = self.open_pack(pack) {
            let durable = Arc::new(open.table().until(open.durable_chunks()));
            return Some(FailedPack { pool: open.pool(), durable });
        }
        let closing = self.being_sealed.get(&pack)?;
        let durable = Arc::new(closing.table.until(closing.durable_chunks));
        Some(FailedPack { pool: closing.pool, durable })
    }

    /// Gives up the open packs of `pool`, because its storage was replaced or is unavailable.
    pub(crate) fn let_go(&mut self, pool: PoolId) {
        let open = self.open.values().chain(&self.sealing);
        let packs: Vec<PackNumber> =
            open.filter(|open| open.pool() == pool).map(OpenPack::number).collect();
        packs.into_iter().for_each(|pack| self.give_up(pack));
        let mut left = self.open.values().chain(&self.sealing);
        assert!(!left.any(|open| open.pool() == pool), "no open pack stays in the pool");
    }

    /// Replaces the member with the same id. The numbers of the new member's packs are not given
    /// again.
    pub(crate) fn admit(&mut self, member: Member) {
        self.let_go(member.id());
        if let Some((last, _)) = member.packs().last_key_value() {
            self.numbers.pass(*last);
        }
        for pack in member.packs().keys() {
            self.tables.pop(pack);
        }
        self.members.insert(member.id(), member);
    }

    /// Takes note that `pack` is in `pool`, or that it has another size there.
    pub(crate) fn set_bytes(&mut self, pool: PoolId, pack: PackNumber, bytes: u64) {
        if let Some(member) = self.members.get_mut(&pool) {
            member.put(pack, bytes);
        }
    }

    /// Drops everything that is held in memory of a pack whose bytes in `pool` have changed.
    pub(crate) fn forget(&mut self, pool: PoolId, pack: PackNumber) {
        self.tables.pop(&pack);
        if let Some(member) = self.members.get(&pool) {
            member.storage.forget(pack);
        }
    }

    /// Returns true if an available primary pool has `pack`.
    pub(crate) fn is_offered(&self, pack: PackNumber) -> bool {
        self.primaries().any(|member| member.has(pack))
    }

    /// Returns the reason why no pool has `pack`.
    pub(crate) fn absence(&self, pack: PackNumber) -> ReadError {
        if self.members.values().all(|member| member.is_there) {
            ReadError::Missing { pack, index: 0 }
        } else {
            ReadError::Away { pack }
        }
    }

    /// Returns the pools for new packs, in the order in which they are tried.
    pub(crate) fn chain(&self) -> Vec<PoolId> {
        let mut chain = Vec::new();
        let mut at = self.primaries().next().map(Member::id);
        while let Some(pool) = at.filter(|pool| !chain.contains(pool)) {
            chain.push(pool);
            assert!(chain.len() <= self.members.len() + 1, "each pool is in the chain once");
            at = self.members.get(&pool).and_then(|member| member.spec.next);
        }
        chain.retain(|pool| self.members.get(pool).is_some_and(Member::takes_packs));
        chain
    }

    /// Returns the error of an append while no pool takes packs.
    pub(crate) fn nowhere(&self) -> AppendError {
        AppendError::Away { folder: place_of(self.primaries().next()) }
    }

    /// Turns an I/O error of a pack into the error for the caller, and records it as the last
    /// failure.
    pub(crate) fn failure(&mut self, pack: PackNumber, error: io::Error) -> AppendError {
        let pool = self.open_pack(pack).map(OpenPack::pool);
        let member = self.members.values().find(|member| member.has(pack));
        let member = member.or_else(|| self.members.get(&pool?));
        if let Some(member) = member {
            disk::note_pack(&*member.storage, pack, "write", &error);
        }
        let place = place_of(member);
        tracing::error!(%pack, %error, "a pack cannot be written");
        // The reason goes to the nodes that store data.
        let text = unnumbered(pack, &error.to_string());
        let reason = format!("a pack in {}: {text}", place.display());
        let error = AppendError::of_write(pack, &place, error);
        let is_full = matches!(error, AppendError::Full { .. });
        self.last_failure = WriteFailure { reason, is_full };
        error
    }

    /// Takes note that a pack is complete and durable.
    pub(crate) fn note_sealed(&mut self, pool: PoolId, sealed: &SealedPack) {
        let Table { pack, domain, .. } = *sealed.table;
        assert!(self.open_pack(pack).is_none(), "a sealed pack takes no more");
        assert!(sealed.bytes > sealed.table.end(), "a sealed pack has a footer");
        self.tables.put(pack, Arc::clone(&sealed.table));
        self.set_bytes(pool, pack, sealed.bytes);
        let node = self.nodes.remove(&pack);
        self.news
            .push(PackNews { pack, domain, node, bytes: sealed.bytes, sealed: true });
    }

    /// Takes note that an open pack is durable up to a point.
    pub(crate) fn note_synced(&mut self, point: &SyncPoint) {
        let SyncPoint { pack, domain, bytes, .. } = *point;
        if let Some(open) = self.open.values_mut().find(|open| open.number() == pack) {
            open.note_synced(point);
        }
        let node = self.nodes.get(&pack).copied();
        self.news.push(PackNews { pack, domain, node, bytes, sealed: false });
    }

    /// Returns the lowest pack of which the catalogue does not know everything yet.
    pub(crate) fn first_untold(&self) -> Option<PackNumber> {
        let open = self.open.values().chain(&self.sealing).map(OpenPack::number);
        let sealing = self.being_sealed.keys().copied();
        open.chain(sealing).chain(self.news.iter().map(|news| news.pack)).min()
    }
}

fn place_of(member: Option<&Member>) -> PathBuf {
    member.map(|member| member.spec.place()).unwrap_or_default()
}

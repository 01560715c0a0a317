//! What a server knows of its pools and packs while it runs.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::hash::Hash;
use std::io;
use std::path::Path;
use std::sync::Arc;

use format::pack::Table;
use model::{NodeId, PackNumber, PoolId};

use crate::member::{Member, is_marked};
use crate::open::{self, OpenPack};
use crate::shared::Stock;
use crate::{AppendError, Filler, Found, PackNews, Pools, ReadError};

pub(crate) struct State {
    pub(crate) numbers: Stock,
    /// Packs of other servers that were found before anybody told of them.
    pub(crate) found: BTreeSet<PackNumber>,
    pub(crate) members: BTreeMap<PoolId, Member>,
    pub(crate) open: BTreeMap<(Filler, PoolId), OpenPack>,
    /// Of packs that are filled by one node and not sealed yet.
    pub(crate) nodes: BTreeMap<PackNumber, NodeId>,
    /// Packs that were sealed, or given up, since the last sync of the folder.
    pub(crate) sealing: Vec<OpenPack>,
    /// Those that are being sealed just now, with the count of their chunks that were durable
    /// before.
    pub(crate) being_sealed: BTreeMap<PackNumber, u32>,
    pub(crate) tables: Recent<PackNumber, Arc<Table>>,
    pub(crate) files: Recent<(PoolId, PackNumber), Arc<File>>,
    pub(crate) news: Vec<PackNews>,
    /// Packs that one pool could not give and another did.
    pub(crate) suspects: BTreeSet<PackNumber>,
    /// Packs that failed, with the count of their chunks that were durable by then.
    pub(crate) given_up: BTreeMap<PackNumber, u32>,
    /// Why the last of them failed, and whether for want of space.
    pub(crate) last_failure: (String, bool),
}

/// The few things used last.
pub(crate) struct Recent<K, T> {
    items: HashMap<K, T>,
    order: VecDeque<K>,
    limit: usize,
}

impl<K: Copy + Eq + Hash, T: Clone> Recent<K, T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { items: HashMap::new(), order: VecDeque::new(), limit }
    }

    pub(crate) fn get(&self, key: K) -> Option<T> {
        self.items.get(&key).cloned()
    }

    pub(crate) fn forget(&mut self, key: K) {
        self.items.remove(&key);
        self.order.retain(|known| *known != key);
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.items.retain(|key, _| keep(key));
        self.order.retain(keep);
    }

    pub(crate) fn put(&mut self, key: K, item: T) {
        if self.items.insert(key, item).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.items.remove(&oldest);
        }
    }
}

impl State {
    /// The pack if it is open or waits for its seal.
    pub(crate) fn open_pack(&self, pack: PackNumber) -> Option<&OpenPack> {
        self.open.values().chain(&self.sealing).find(|open| open.number() == pack)
    }

    /// As the catalogue said, or as long as the longest is.
    pub(crate) fn bytes_of(&self, pack: PackNumber) -> Option<u64> {
        let members = self.members.values();
        members.filter_map(|member| member.packs.get(&pack)).max().copied()
    }

    pub(crate) fn homes(&self, pack: PackNumber) -> Vec<PoolId> {
        let having = self.members.values().filter(|member| member.packs.contains_key(&pack));
        let mut homes: Vec<&Member> = having.collect();
        homes.sort_by_key(|member| {
            (member.spec.storage.distance(), !member.is_primary(), member.spec.id)
        });
        homes.into_iter().map(|member| member.spec.id).collect()
    }

    /// Makes the next pack in `folder`, of `pool`. A disk that is not there shows here.
    pub(crate) fn create(
        &mut self,
        folder: &Path,
        pool: PoolId,
        filler: Filler,
    ) -> Result<OpenPack, AppendError> {
        let member = self.members.get(&pool);
        let bucket = member.and_then(|member| member.spec.bucket()).cloned();
        // A store is asked by who sends: nobody waits for it here.
        let is_there = |member: &Member| bucket.is_some() || is_marked(&member.spec);
        if !member.is_some_and(is_there) {
            return Err(AppendError::Away { folder: folder.to_owned() });
        }
        loop {
            let taken = self.numbers.take();
            let pack = taken.map_err(|source| AppendError::Numbers { source })?;
            match OpenPack::create((folder, bucket.as_ref()), pool, pack, filler.domain) {
                // Somebody has put a pack there that nobody told of.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    // It was not given to anybody.
                    self.numbers.next = pack;
                    return Err(Pools::append_error(pack, folder, error));
                }
                Ok(made) => {
                    self.nodes.extend(filler.node.map(|node| (pack, node)));
                    return Ok(made);
                }
            }
        }
    }

    /// Takes no more into the pack: what of it was not durable is lost, and is served to nobody.
    pub(crate) fn give_up(&mut self, pack: PackNumber) {
        let open = self.open_pack(pack).map(OpenPack::durable_chunks);
        let durable = open.or_else(|| self.being_sealed.get(&pack).copied()).unwrap_or(0);
        self.given_up.entry(pack).or_insert(durable);
        self.open.retain(|_, open| open.number() != pack);
        self.sealing.retain(|open| open.number() != pack);
        self.tables.forget(pack);
    }

    /// The folder of `pool` is another one now, or gone: nothing of the one before is used.
    pub(crate) fn let_go(&mut self, pool: PoolId) {
        let open = self.open.values().chain(&self.sealing);
        let packs: Vec<PackNumber> =
            open.filter(|open| open.pool() == pool).map(OpenPack::number).collect();
        packs.into_iter().for_each(|pack| self.give_up(pack));
        self.files.retain(|(of, _)| *of != pool);
    }

    /// Has the member in the place of the one with its number. What it holds has had its numbers.
    pub(crate) fn admit(&mut self, member: Member) {
        self.let_go(member.spec.id);
        if let Some((last, _)) = member.packs.last_key_value() {
            self.numbers.pass(*last);
        }
        member.packs.keys().for_each(|pack| self.tables.forget(*pack));
        self.members.insert(member.spec.id, member);
    }

    /// Whether a primary pool that is there has `pack`.
    pub(crate) fn is_offered(&self, pack: PackNumber) -> bool {
        let mut primaries = self.members.values().filter(|member| member.is_primary());
        primaries.any(|member| member.packs.contains_key(&pack))
    }

    /// Why nobody has `pack`.
    pub(crate) fn absence(&self, pack: PackNumber) -> ReadError {
        if self.members.values().all(|member| member.is_there) {
            ReadError::Missing { pack, index: 0 }
        } else {
            ReadError::Away { pack }
        }
    }

    /// The pools that new packs go to, in the order in which they are tried.
    pub(crate) fn chain(&self) -> Vec<PoolId> {
        let first = self.members.values().find(|member| member.is_primary());
        let mut chain = Vec::new();
        let mut at = first.map(|member| member.spec.id);
        while let Some(pool) = at.filter(|pool| !chain.contains(pool)) {
            chain.push(pool);
            at = self.members.get(&pool).and_then(|member| member.spec.next);
        }
        let takes = |member: &Member| member.is_there && member.spec.shelf().is_none();
        chain.retain(|pool| self.members.get(pool).is_some_and(takes));
        chain
    }

    /// Why there is no pool to append to.
    pub(crate) fn nowhere(&self) -> AppendError {
        let first = self.members.values().find(|member| member.is_primary());
        let folder = first.map(|member| member.spec.place()).unwrap_or_default();
        AppendError::Away { folder }
    }

    pub(crate) fn failure(&mut self, pack: PackNumber, error: io::Error) -> AppendError {
        let member = self.members.values().find(|member| member.packs.contains_key(&pack));
        let folder = member.map(|member| member.spec.place()).unwrap_or_default();
        let text = format!("pack {pack} in {}: {error}", folder.display());
        let error = Pools::append_error(pack, &folder, error);
        self.last_failure = (text, matches!(error, AppendError::Full { .. }));
        error
    }

    pub(crate) fn set_bytes(&mut self, pool: PoolId, pack: PackNumber, bytes: u64) {
        if let Some(member) = self.members.get_mut(&pool) {
            member.put(pack, bytes);
        }
    }

    pub(crate) fn sealed(&mut self, pool: PoolId, found: &Found) {
        let Table { pack, domain, .. } = *found.table;
        self.tables.put(pack, Arc::clone(&found.table));
        self.set_bytes(pool, pack, found.bytes);
        if self.members.get(&pool).is_some_and(|member| member.spec.bucket().is_some()) {
            // The store has it now: the file may go from the folder.
            self.files.forget((pool, pack));
        }
        let node = self.nodes.remove(&pack);
        self.news
            .push(PackNews { pack, domain, node, bytes: found.bytes, sealed: true });
    }

    pub(crate) fn synced(&mut self, synced: &open::Synced) {
        let open::Synced { pack, domain, bytes, .. } = *synced;
        if let Some(open) = self.open.values_mut().find(|open| open.number() == pack) {
            open.note_synced(synced);
        }
        let node = self.nodes.get(&pack).copied();
        self.news.push(PackNews { pack, domain, node, bytes, sealed: false });
    }
}

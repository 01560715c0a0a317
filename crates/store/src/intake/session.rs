//! A backup session of one filespace: the quanta that its changes may refer to, and its
//! transactions.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use catalog::{Filespace, Node, SessionRow, Write};
use format::Budget;
use model::{ClassId, DirPath, FILESPACE_BYTES_MAX, ServerTime, SessionId, image_name};
use pool::Filler;
use sys::lock::Mutex;

use super::archived;
use super::change::{PageChange, Rejection, Remnant};
use super::prepare::{CommitPoint, Preparation};
use super::quantum::{Origin, StoredQuantum};
use super::resolve::{Quanta, ResolvedChange, Resolver};
use crate::error::StoreError;
use crate::lifecycle::{archive, clock, images, object_lock};
use crate::pools;
use crate::store::Claim;
use crate::store::kept_chunks::KeptShare;
use crate::store::{CommitFailure, Store, Use};

/// Maximum number of the latest transactions whose quanta a change may refer to. A large file has
/// few chunks but many transactions, and a client without grants cannot name its chunks otherwise.
const TRANSACTIONS_KEPT: usize = 4096;
/// Maximum number of chunks to which a change may refer, in 12 MiB of memory. The quanta of the
/// last transaction are kept even if they have more chunks.
const CHUNKS_KEPT: usize = 1 << 18;
/// Maximum number of chunks to which the changes of all backups of a node may refer, in 180 MiB of
/// memory. If a node has more, each of its backups keeps [`CHUNKS_KEPT_OF_MANY`]; a client without
/// grants can then store no file of more chunks.
const CHUNKS_OF_NODE_KEPT: usize = 1 << 22;
const CHUNKS_KEPT_OF_MANY: usize = 1 << 14;
/// Maximum memory, in bytes, that the changes of one transaction take after they are decoded and
/// resolved. The changes of a client need about 1 KiB for each object.
const TRANSACTION_MEMORY_MAX: usize = 256 << 20;

/// A backup session of one filespace.
pub struct Intake {
    pub(super) store: Arc<Store>,
    id: SessionId,
    node: Node,
    pub(super) filespace: Filespace,
    /// Number of the archive to which the filespace belongs; `None` in a backup.
    pub(super) archive: Option<u64>,
    /// Locked classes of the node's policy domain.
    pub(super) locked: BTreeSet<ClassId>,
    /// Rules for object locks on the packs that pages name; `None` if nothing is locked.
    pub(super) holding: Option<object_lock::HoldRules>,
    started: ServerTime,
    /// Time after which the next change of a filespace of images counts as made; `None` elsewhere.
    last_change: Option<Mutex<ServerTime>>,
    filler: Filler,
    quanta: Quanta,
    /// Numbers of the quanta of the last transactions, oldest first.
    kept: VecDeque<Vec<u64>>,
    /// Chunks of the quanta in `kept`.
    kept_chunks: KeptShare,
    /// Directories with a rejected object. Their pages get no digest in this session, not even by a
    /// later change (invariant 3).
    pub(super) lacking: BTreeSet<DirPath>,
    _claim: Claim,
    filling: Use,
}

/// Outcome of a transaction that is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommitReceipt {
    /// Grants for the chunks of the transaction's quanta.
    pub grants: Vec<QuantumGrants>,
    pub rejected: Vec<Rejection>,
    pub remnants: Vec<Remnant>,
    pub expired_objects: u64,
}

/// Grants for the chunks of one quantum: 16 bytes of proof for each chunk, in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuantumGrants {
    pub number: u64,
    pub bytes: Vec<u8>,
}

impl Intake {
    /// Opens a session of `node` for its filespace `name`. Fails while the filespace has another
    /// session.
    pub fn open(store: &Arc<Store>, node: Node, name: &[u8]) -> Result<Self, StoreError> {
        if name.len() > FILESPACE_BYTES_MAX {
            let text = format!(
                "the name of a filespace has {} bytes, but may have at most {FILESPACE_BYTES_MAX}; \
                 mount the file system at a shorter path",
                name.len()
            );
            return Err(StoreError::usage(text));
        }
        let now = clock::time_of_change(store)?;
        // The server first takes in the packs of other servers. So the client need not send quanta
        // again that it has sent to another server.
        store.catch_up()?;
        let archive = archive::open_for_filespace(store, &node, name)?;
        let filespace = store.catalog.open_filespace(node.id, name, now)?;
        let claim = store.claim(filespace.id)?;
        let last_change = match image_name(&filespace.name) {
            Some(_) => Some(Mutex::new(images::time_of_change(store, &filespace, now)?)),
            None => None,
        };
        let filler = pools::filler(store, node.id)?;
        let filling = store.use_packs(true);
        let kept_chunks = store.kept_chunks.share(node.id);
        let domains = store.catalog.domains()?;
        let domain = domains.iter().find(|domain| domain.id == node.domain);
        let classes = domain.map_or(&[][..], |domain| &domain.active.classes);
        let locked = classes.iter().filter(|class| class.is_locked(now)).map(|class| class.id);
        let locked = locked.collect();
        let made = archive.map(|_| now);
        let holding =
            domain.and_then(|domain| object_lock::HoldRules::new(store, &domain.active, made));
        Ok(Self {
            store: Arc::clone(store),
            id: SessionId(u64::from_le_bytes(sys::entropy::bytes())),
            node,
            filespace,
            archive,
            locked,
            holding,
            started: sys::clock::now(),
            last_change,
            filler,
            quanta: Quanta::new(),
            kept: VecDeque::new(),
            kept_chunks,
            lacking: BTreeSet::new(),
            _claim: claim,
            filling,
        })
    }

    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Returns the origin of this session's quanta.
    pub fn origin(&self) -> Origin {
        Origin { node: self.node.id, filler: self.filler }
    }

    /// Commits a transaction: `quanta`, each with its number, and the changes that `parse` returns.
    /// `parse` takes the memory of the changes from its argument before it decodes them.
    ///
    /// Each attempt to commit calls `parse` anew, because applying the changes consumes them.
    pub fn commit(
        &mut self,
        quanta: Vec<(u64, StoredQuantum)>,
        parse: &dyn Fn(&Budget) -> Result<Vec<PageChange>, StoreError>,
    ) -> Result<CommitReceipt, StoreError> {
        let numbers: Vec<u64> = quanta.iter().map(|(number, _)| *number).collect();
        for (number, quantum) in quanta {
            if self.quanta.insert(number, quantum).is_some() {
                return Err(StoreError::malformed("two quanta of a session have one number"));
            }
        }
        assert!(
            numbers.iter().all(|number| self.quanta.contains_key(number)),
            "all quanta are kept"
        );
        let Preparation { rejected, remnants, mut lacking, expired_objects, .. } =
            self.commit_changes(parse)?;
        self.lacking.append(&mut lacking);
        let grants = numbers.iter().map(|&number| self.grants(number)).collect();
        self.forget_old_quanta(numbers);
        Ok(CommitReceipt { grants, rejected, remnants, expired_objects })
    }

    fn commit_changes(
        &self,
        parse: &dyn Fn(&Budget) -> Result<Vec<PageChange>, StoreError>,
    ) -> Result<Preparation, StoreError> {
        self.store.until_current(|| {
            let budget = Budget::new(TRANSACTION_MEMORY_MAX);
            match self.try_commit(parse(&budget)?, &budget) {
                // Another server has condemned packs. The changes are resolved anew.
                Err(CommitFailure::Stale) => Ok(None),
                Err(CommitFailure::Failed(error)) => Err(error),
                Ok(prepared) => Ok(Some(prepared)),
            }
        })
    }

    fn try_commit(
        &self,
        changes: Vec<PageChange>,
        budget: &Budget,
    ) -> Result<Preparation, CommitFailure> {
        let now = self.time_of_change();
        // The lock is held until the commit, so that no pack is condemned meanwhile (invariant 9).
        let condemned = self.store.condemned();
        let resolver = Resolver::new(&self.store, &self.node, &self.quanta, &condemned, budget);
        let resolved: Vec<ResolvedChange> = changes
            .into_iter()
            .map(|change| resolver.resolve(change))
            .collect::<Result<_, _>>()?;
        let at = CommitPoint { now, generation: condemned.generation };
        let mut prepared = self.prepare(resolved, at)?;
        if let Some(number) = self.archive {
            let change = std::mem::take(&mut prepared.archived);
            prepared.writes.push(Write::SetArchive { number, change });
        }
        let growth = prepared.growth;
        let (catalog, filespace) = (&*self.store.catalog, self.filespace.id);
        let renewed = prepared.renewed_directories;
        let admission = self.store.quotas.admit(catalog, &self.node, growth, renewed)?;
        if !growth.is_nothing() {
            prepared.writes.push(Write::Grow { filespace, growth });
        }
        let writes = std::mem::take(&mut prepared.writes);
        object_lock::apply(&self.store, &prepared.holds)?;
        self.store.commit_filled(&self.filling, condemned.generation, writes)?;
        admission.keep();
        Ok(prepared)
    }

    /// Returns the time at which a change counts as made. In a filespace of images it never goes
    /// back.
    fn time_of_change(&self) -> ServerTime {
        let now = self.store.time_of_change();
        let Some(last) = &self.last_change else { return now };
        let mut last = last.lock();
        *last = now.max(images::next(*last));
        *last
    }

    fn forget_old_quanta(&mut self, numbers: Vec<u64>) {
        let chunks =
            |number: &u64| self.quanta.get(number).map_or(0, |quantum| quantum.places.len());
        self.kept_chunks.add(numbers.iter().map(chunks).sum());
        self.kept.push_back(numbers);
        while self.keeps_too_much()
            && let Some(old) = self.kept.pop_front()
        {
            for number in old {
                let chunks = self.quanta.remove(&number).map_or(0, |old| old.places.len());
                self.kept_chunks.remove(chunks);
            }
        }
    }

    fn keeps_too_much(&self) -> bool {
        let (own, is_long) = (self.kept_chunks.own(), self.kept.len() > TRANSACTIONS_KEPT);
        if self.kept_chunks.of_node() > CHUNKS_OF_NODE_KEPT {
            return own > CHUNKS_KEPT_OF_MANY || is_long;
        }
        (own > CHUNKS_KEPT || is_long) && self.kept.len() > 1
    }

    /// Returns the grants with which the node may name the chunks of the quantum from now on.
    fn grants(&self, number: u64) -> QuantumGrants {
        let stored = &self.quanta[&number];
        assert_eq!(stored.digests.len(), stored.places.len(), "each chunk has a digest");
        let mut bytes = Vec::with_capacity(stored.places.len() * 16);
        for (digest, place) in stored.digests.iter().zip(&stored.places) {
            bytes.extend_from_slice(&self.store.secrets.grant(self.node.id, digest, *place).0);
        }
        QuantumGrants { number, bytes }
    }

    /// Records the end of the session. `report` is the report of the client, in JSON.
    pub fn close(&self, is_complete: bool, report: &str) -> Result<(), StoreError> {
        if self.archive.is_some() {
            self.store.commit(Vec::new())?;
            archived::note(&self.store, &self.filespace, self.started, report);
            return Ok(());
        }
        self.store.tallies.add(is_complete, report);
        let session = SessionRow {
            node: self.node.id,
            filespace: self.filespace.id,
            started: self.started,
            ended: self.store.time_of_change(),
            complete: is_complete,
            report: report.to_owned(),
        };
        self.store.commit(vec![Write::AddSession(session)])
    }
}

#[cfg(test)]
mod tests;

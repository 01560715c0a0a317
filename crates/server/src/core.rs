//! What all sessions share.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use catalog::index::ChunkIndex;
use catalog::{Catalog, CatalogError, EventRow, Node, PackRow, PackState, Write};
use model::{ChunkDigest, DomainId, FilespaceId, PackNumber, Place, ServerTime, SessionId};
use pool::{Known, Numbers, Pools};
use tokio::sync::Semaphore;
use tonic::{Request, Status};

use crate::authority::Authority;
use crate::buckets::Buckets;
use crate::config::{Config, MASTER_KEY};
use crate::database::Database;
use crate::fleet::{Fleet, Having};
use crate::index_share;
use crate::pools;
use crate::recovery;
use crate::refusal;
use crate::run::RunError;
use crate::secrets::Secrets;
use crate::store::Opener;
use crate::tls::Peer;
use crate::volumes::Volumes;

/// The chunk index is made durable each time so many packs have been sealed.
const PACKS_PER_FLUSH: u64 = 32;

/// Catalogue, pool, index and keys. Shared by all sessions.
pub(crate) struct Core {
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) pools: Pools,
    /// What pools on volumes have.
    pub(crate) volumes: Arc<Volumes>,
    /// What pools in object stores have.
    pub(crate) buckets: Buckets,
    /// When the server began to serve.
    pub(crate) began: ServerTime,
    /// The server's folder.
    pub(crate) folder: PathBuf,
    pub(crate) config: Config,
    pub(crate) secrets: Secrets,
    pub(crate) authority: Authority,
    /// Taken while a quantum is stored: each keeps a processor busy, and room for a whole quantum.
    pub(crate) storing: Arc<Semaphore>,
    /// As many as were in use at once.
    openers: Mutex<Vec<Opener>>,
    index: ChunkIndex,
    sealed_since_flush: AtomicU64,
    /// What nobody else may have meanwhile, such as filespaces that are backed up.
    having: Mutex<BTreeSet<String>>,
    sessions: AtomicU64,
    /// Packs that nothing new may name. Whoever commits places holds it from the look at them to
    /// the commit, so that none can be condemned between.
    pub(crate) condemned: RwLock<Condemned>,
    /// The other servers of the catalogue, where there can be any.
    pub(crate) fleet: Option<Fleet>,
    /// Who reads or fills packs, since when.
    pub(crate) users: Users,
    /// Keep other servers from the folders of the pools.
    pub(crate) locks: Mutex<BTreeMap<PathBuf, sys::durable::Lock>>,
    /// Held while packs are copied, moved or repaired, and while pools change.
    pub(crate) tending: Mutex<()>,
    /// Held while the catalogue is copied to the pools.
    pub(crate) copying: Mutex<()>,
    /// Whether the server was made again, and nothing is to be taken for unneeded before somebody
    /// has said that it is as it should be.
    pub(crate) recovered: AtomicBool,
    /// Whether a run of expiration drops versions.
    pub(crate) expiring: AtomicBool,
    /// Whether the server is about to end.
    pub(crate) stopping: AtomicBool,
}

/// Why something was not committed.
pub(crate) enum Uncommitted {
    /// Packs were condemned that the caller does not know of: it looks again.
    Stale,
    Failed(Status),
}

impl Uncommitted {
    fn of(error: CatalogError) -> Self {
        match error {
            CatalogError::Stale => Self::Stale,
            error => Self::Failed(refusal::catalog(&error)),
        }
    }

    /// For who does not look again.
    pub(crate) fn told(self) -> Status {
        match self {
            Self::Stale => refusal::catalog(&CatalogError::Stale),
            Self::Failed(status) => status,
        }
    }
}

impl From<Status> for Uncommitted {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

/// Packs that nothing new may name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condemned {
    /// With each, once a look at the whole catalogue has found nothing that names it, when that
    /// was: who begins to read behind it does not need the pack.
    pub(crate) packs: BTreeMap<PackNumber, Option<Clean>>,
    /// Removed since the process began. A backup may still hold places in them.
    pub(crate) gone: BTreeSet<PackNumber>,
    /// What an audit has found damaged, in part at least. What names them goes on to.
    pub(crate) damaged: BTreeSet<PackNumber>,
    /// How often packs were condemned by then, by any server.
    pub(crate) generation: u64,
}

/// A moment, as those tell it who use packs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clean {
    /// A number of [`Users`].
    pub(crate) here: u64,
    /// For other servers: how often packs were condemned.
    pub(crate) generation: u64,
}

impl Condemned {
    pub(crate) fn holds(&self, pack: PackNumber) -> bool {
        self.packs.contains_key(&pack) || self.gone.contains(&pack) || self.damaged.contains(&pack)
    }
}

/// The chunk index, in the server's folder.
pub(crate) const INDEX: &str = "index";
/// An index that is not larger is stored when the server ends.
const INDEX_SENT_BYTES_MAX: u64 = 64 << 20;

/// Quanta stored at once at most, for each processor: one may wait for the disk meanwhile.
const STORING_PER_PROCESSOR: usize = 2;

/// Backups at once at most: each keeps a thread that may block.
const BACKUPS_MAX: u64 = 1000;
/// Before a filespace in the name of what a backup has for itself.
const FILESPACE: &str = "filespace ";

/// Deduplication spans the one domain that nodes are in.
pub(crate) const DOMAIN: DomainId = DomainId(1);
/// What copies of the catalogue are made of is a domain of its own.
pub(crate) const CATALOG_DOMAIN: DomainId = DomainId(0);

impl Core {
    /// As [`Self::open`], with the catalogue that the configuration says.
    #[cfg(test)]
    pub(crate) fn open_alone(folder: &Path, config: &Config) -> Result<Self, RunError> {
        Self::open(folder, config, &Database::open(config, folder)?, None)
    }

    /// Opens everything in `folder`, recovering what a dead process left. The server is one of
    /// `fleet`, or alone.
    pub(crate) fn open(
        folder: &Path,
        config: &Config,
        database: &Database,
        fleet: Option<Fleet>,
    ) -> Result<Self, RunError> {
        let catalog = database.catalog();
        let volumes = Volumes::open(Arc::clone(&catalog), folder, config.stage_bytes)?;
        let secrets = Secrets::load(&folder.join(MASTER_KEY)).map_err(RunError::MasterKey)?;
        let catalog_packs = catalog.packs()?;
        let known = known_packs(&catalog_packs);
        let has_packs = !catalog_packs.is_empty();
        let buckets = Buckets::new(folder, config.bucket_bytes);
        let specs = pools::begin(&*catalog, folder, config, (has_packs, &volumes, &buckets))?;
        let own = || Ok::<_, RunError>(Numbers::Own(catalog.next_pack()?));
        let numbers = fleet.as_ref().map_or_else(own, |fleet| Ok(fleet.numbers()))?;
        let keys = [secrets.domain_key(CATALOG_DOMAIN), secrets.domain_key(DOMAIN)];
        let (pools, mut opened) = Pools::open(&specs, numbers, &known, move |domain, chunk| {
            keys[usize::from(domain != CATALOG_DOMAIN)].digest(chunk)
        })
        .map_err(|source| RunError::Pool { place: specs[0].place(), source })?;
        for (pack, error) in &opened.damaged {
            tracing::error!(%pack, error = model::chain(error), "a pack is damaged");
        }
        if fleet.is_some() {
            fetch_index(&pools, folder);
        }
        let (index, recovered) = ChunkIndex::open(&folder.join(INDEX), Default::default())?;
        let core = Self {
            catalog,
            pools,
            volumes,
            buckets,
            began: sys::clock::now(),
            folder: folder.to_owned(),
            config: config.clone(),
            secrets,
            authority: Authority::load(folder, config.certificate_days)?,
            storing: Arc::new(Semaphore::new(STORING_PER_PROCESSOR * sys::process::processors())),
            openers: Mutex::default(),
            index,
            sealed_since_flush: AtomicU64::new(0),
            having: Mutex::default(),
            sessions: AtomicU64::new(0),
            condemned: RwLock::new(condemned_packs(&catalog_packs)),
            fleet,
            users: Users::default(),
            locks: Mutex::default(),
            tending: Mutex::default(),
            copying: Mutex::default(),
            recovered: AtomicBool::new(recovery::is_held(folder)),
            expiring: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        };
        if let Some(fleet) = &core.fleet {
            fleet.pass(PackNumber(opened.last))?;
            core.leave_unknown(&mut opened, &catalog_packs);
        } else {
            // Nobody else sends to the pools of this server.
            core.pools.end_orphans(None);
            let objects = opened.sealed.iter().filter(|pack| core.pools.is_object(**pack));
            core.condemn_unknown(objects.map(|pack| (*pack, 0)))?;
        }
        core.complete_index(&opened, recovered.complete_to)?;
        core.record_packs(&opened, &catalog_packs)?;
        Ok(core)
    }

    /// What has packs that do not lie in folders.
    pub(crate) fn stores(&self) -> pools::Stores<'_> {
        (Some(&self.volumes), &self.buckets)
    }

    /// Has nobody use packs, with their bytes, that the catalogue does not know: whoever sent them
    /// was not told that they are there, and may be about to remove them. They go with the next
    /// reclamation. A server that was made again knows less than there is, and needs them.
    pub(crate) fn condemn_unknown(
        &self,
        there: impl Iterator<Item = (PackNumber, u64)>,
    ) -> Result<(), CatalogError> {
        if self.recovered.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Behind the list of what is there.
        let rows = self.catalog.packs()?;
        let known: BTreeSet<PackNumber> = rows.iter().map(|row| row.number).collect();
        let unknown: Vec<_> = there.filter(|(pack, _)| !known.contains(pack)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let state = PackState::Condemned;
        let row = |(number, bytes)| PackRow { number, domain: DOMAIN, state, bytes, node: None };
        let writes = unknown.iter().map(|found| Write::PutPack(row(*found))).collect();
        let mut condemned = self.condemned.write().unwrap_or_else(PoisonError::into_inner);
        condemned.generation = self.catalog.condemn(writes)?;
        for (pack, bytes) in unknown {
            condemned.packs.insert(pack, None);
            self.pools.learn(pack, bytes);
        }
        Ok(())
    }

    /// Leaves packs in object stores alone that the catalogue does not know: other servers may be
    /// about to tell of them.
    fn leave_unknown(&self, opened: &mut pool::Opened, rows: &[PackRow]) {
        let known: BTreeSet<PackNumber> = rows.iter().map(|row| row.number).collect();
        let is_known = |pack: &PackNumber| {
            let is_known = known.contains(pack) || !self.pools.is_object(*pack);
            if !is_known && !self.recovered.load(Ordering::Relaxed) {
                self.pools.forget(*pack);
                return false;
            }
            true
        };
        opened.sealed.retain(is_known);
    }

    /// Adds to the index what it had not written when its process ended.
    fn complete_index(&self, opened: &pool::Opened, complete: PackNumber) -> Result<(), RunError> {
        let sealed = opened.sealed.iter().copied();
        let recovered = opened.recovered.iter().map(|found| found.table.pack);
        let mut last = complete;
        let condemned = self.condemned();
        for pack in sealed.chain(recovered).filter(|pack| *pack > complete) {
            last = last.max(pack);
            if condemned.holds(pack) {
                continue;
            }
            match self.pools.table(pack) {
                Ok(table) => self.index_table(&table)?,
                Err(error) => tracing::error!(error = model::chain(&error), "not indexed"),
            }
        }
        if last > complete {
            self.index.flush(self.index_limit(last))?;
        }
        Ok(())
    }

    fn index_table(&self, table: &format::pack::Table) -> Result<(), RunError> {
        let place = |index| Place::new(table.pack, index);
        let digests = table.digests().iter().copied();
        let entries: Vec<_> =
            (0..).zip(digests).map(|(index, digest)| (digest, place(index))).collect();
        Ok(self.index.insert(&entries)?)
    }

    /// Has the index answer packs that serve again.
    pub(crate) fn index_again(&self, packs: &BTreeSet<PackNumber>) {
        for pack in packs {
            // An index that lacks them costs duplicates.
            if let Ok(table) = self.pools.table(*pack)
                && let Err(error) = self.index_table(&table)
            {
                tracing::warn!(error = model::chain(&error), "a pack was not indexed again");
            }
        }
    }

    /// Has the catalogue know all packs that there are, and that none is open any more.
    fn record_packs(&self, opened: &pool::Opened, rows: &[PackRow]) -> Result<(), RunError> {
        let row = |table: &format::pack::Table, bytes| {
            Write::PutPack(PackRow {
                number: table.pack,
                domain: table.domain,
                state: PackState::Sealed,
                bytes,
                node: None,
            })
        };
        let recovered = opened.recovered.iter();
        let mut writes: Vec<Write> =
            recovered.map(|found| row(&found.table, found.bytes)).collect();
        // Sealed by a process that could not say so any more.
        let known: BTreeSet<PackNumber> = rows.iter().map(|row| row.number).collect();
        let is_condemned = |pack: &PackNumber| self.condemned().packs.contains_key(pack);
        let unknown = opened.sealed.iter().copied();
        let unknown = unknown.filter(|pack| !known.contains(pack) && !is_condemned(pack));
        let open = rows.iter().filter(|row| row.state == PackState::Open).map(|row| row.number);
        for pack in open.chain(unknown) {
            if let Ok((table, bytes)) = self.pools.closed(pack) {
                writes.push(row(&table, bytes));
            }
        }
        Ok(self.catalog.commit(writes)?)
    }

    /// Makes all appended quanta durable and performs `writes`.
    ///
    /// Pool before catalogue: a page must never name bytes that a crash can take back (invariant 1
    /// of the design). A crash between the two leaves chunks that nothing names.
    pub(crate) fn commit(&self, writes: Vec<Write>) -> Result<(), Status> {
        self.commit_if(writes, None, &|| Ok(())).map_err(Uncommitted::told)
    }

    /// The same for who has appended since `filling` began, and knows what was condemned up to
    /// `generation`: fails where something of that may be lost, whoever's sync it was that failed.
    pub(crate) fn commit_filled(
        &self,
        filling: &Use,
        generation: u64,
        writes: Vec<Write>,
    ) -> Result<(), Uncommitted> {
        self.commit_if(writes, Some(generation), &|| filling.check())
    }

    /// Performs `writes` for who knows what was condemned up to `generation`, and has appended
    /// nothing.
    pub(crate) fn commit_known(
        &self,
        generation: u64,
        writes: Vec<Write>,
    ) -> Result<(), Uncommitted> {
        self.catalog.commit_at(generation, writes).map_err(Uncommitted::of)
    }

    fn commit_if(
        &self,
        mut writes: Vec<Write>,
        generation: Option<u64>,
        check: &dyn Fn() -> Result<(), Status>,
    ) -> Result<(), Uncommitted> {
        self.pools.sync().map_err(|error| refusal::append(&error))?;
        check()?;
        // While nobody was told of them, others see that they are being filled.
        let _telling = self.users.fill_from(self.pools.standing(false).horizon);
        let news = self.pools.take_news();
        let sealed = news.iter().filter(|news| news.sealed).map(|news| news.pack).max();
        writes.extend(news.iter().map(|news| {
            let state = if news.sealed { PackState::Sealed } else { PackState::Open };
            let pool::PackNews { pack, domain, node, bytes, .. } = *news;
            Write::PutPack(PackRow { number: pack, domain, state, bytes, node })
        }));
        let committed = match generation {
            Some(generation) => self.catalog.commit_at(generation, writes),
            None => self.catalog.commit(writes),
        };
        committed.map_err(|error| {
            self.pools.give_back_news(news);
            Uncommitted::of(error)
        })?;
        if let Some(pack) = sealed {
            self.flush_index_sometimes(pack);
        }
        Ok(())
    }

    /// Writes down what the server has done by itself.
    pub(crate) fn record(&self, what: &str, details: String) -> Result<(), Status> {
        let (actor, what) = ("server".to_owned(), what.to_owned());
        let event = EventRow { time: sys::clock::now(), actor, what, details };
        let written = self.catalog.commit(vec![Write::AddEvent(event)]);
        written.map_err(|error| refusal::catalog(&error))
    }

    fn flush_index_sometimes(&self, sealed: PackNumber) {
        if self.sealed_since_flush.fetch_add(1, Ordering::Relaxed) % PACKS_PER_FLUSH
            == PACKS_PER_FLUSH - 1
            && let Err(error) = self.index.flush(self.index_limit(PackNumber(sealed.0 - 1)))
        {
            // What is not written is added again at the next start.
            tracing::warn!(error = model::chain(&error), "the chunk index was not written");
        }
    }

    /// For an orderly stop: seals packs and writes the index.
    pub(crate) fn close(&self) -> Result<(), Status> {
        if let Err(error) = self.pools.seal_all() {
            // A pack without its footer is recovered at the next start.
            tracing::warn!(error = model::chain(&error), "not all packs were sealed");
            return Ok(());
        }
        if let Err(status) = self.commit(Vec::new()) {
            tracing::warn!(error = status.message(), "the packs' seals were not recorded");
            return Ok(());
        }
        let last = self.catalog.packs().map_err(|error| refusal::catalog(&error))?;
        if let Some(last) = last.last()
            && let Err(error) = self.index.flush(self.index_limit(last.number))
        {
            tracing::warn!(error = model::chain(&error), "the chunk index was not written");
        }
        self.send_small_index();
        Ok(())
    }

    /// Stores the chunk index for other servers where it has grown since that was done last.
    pub(crate) fn send_index(&self) -> io::Result<()> {
        let Some(bucket) = self.pools.first_bucket().filter(|_| self.fleet.is_some()) else {
            return Ok(());
        };
        let limit = self.index_limit(PackNumber(u64::MAX));
        if limit > index_share::complete_to(&bucket)? {
            self.index.flush(limit).map_err(io::Error::other)?;
            let complete_to = index_share::send(&bucket, &self.index, &self.folder)?;
            tracing::info!(%complete_to, "the chunk index was stored");
        }
        Ok(())
    }

    /// The same for a server that ends, if it takes no time.
    fn send_small_index(&self) {
        if self.fleet.is_none()
            || !self.keeps_house()
            || self.config.index_share_minutes == 0
            || self.index.statistics().disk_bytes > INDEX_SENT_BYTES_MAX
        {
            return;
        }
        // The first hears what all have told of, the second that this has been taken in.
        let heard = self.beat().and_then(|()| self.beat());
        let sent = heard.map_err(io::Error::other).and_then(|()| self.send_index());
        if let Err(error) = sent {
            tracing::warn!(%error, "the chunk index was not stored");
        }
    }

    /// Where chunks of these digests lie, verified against the tables of their packs. A failing
    /// index costs a duplicate, never an error.
    pub(crate) fn lookup(&self, digests: &[ChunkDigest]) -> Vec<Option<Place>> {
        let found = self.index.lookup(digests).unwrap_or_else(|error| {
            tracing::warn!(error = model::chain(&error), "the chunk index cannot be read");
            vec![None; digests.len()]
        });
        let holds = |place: Place, digest: &ChunkDigest| {
            self.pools.offered(place).is_some_and(|(_, found)| found == *digest)
        };
        let verified = found.into_iter().zip(digests);
        verified
            .map(|(place, digest)| place.filter(|place| holds(*place, digest)))
            .collect()
    }

    pub(crate) fn take_opener(&self) -> Option<Opener> {
        self.openers.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    pub(crate) fn keep_opener(&self, opener: Opener) {
        self.openers.lock().unwrap_or_else(PoisonError::into_inner).push(opener);
    }

    /// Tells the index of chunks that were appended.
    pub(crate) fn note(&self, entries: &[(ChunkDigest, Place)]) {
        if let Err(error) = self.index.insert(entries) {
            tracing::warn!(error = model::chain(&error), "the chunk index cannot be written");
        }
    }

    /// The packs that nothing new may name; see the field.
    pub(crate) fn condemned(&self) -> RwLockReadGuard<'_, Condemned> {
        self.condemned.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the index answer none of the packs any more.
    pub(crate) fn forget_packs(&self, packs: &BTreeSet<PackNumber>) -> Result<(), Status> {
        let removed = self.index.remove_packs(packs);
        removed.map_err(|error| Status::internal(model::chain(&error)))
    }

    /// The node whose certificate the request came with.
    pub(crate) fn authenticate<T>(&self, request: &Request<T>) -> Result<Node, Status> {
        let peer = request.extensions().get::<Peer>();
        let Some(serial) = peer.and_then(|peer| peer.serial.as_deref()) else {
            let help = "no certificate; enrol this node with 'holdfast enroll'";
            return Err(Status::unauthenticated(help));
        };
        match self.catalog.certificate_node(serial) {
            Ok(node) if node.locked => Err(Status::permission_denied(format!(
                "node {} is locked; ask the administrator to unlock it",
                node.name
            ))),
            Ok(node) => Ok(node),
            Err(CatalogError::NotFound { .. }) => Err(Status::unauthenticated(
                "the certificate was revoked or its node removed; enrol again with a new token",
            )),
            Err(error) => Err(refusal::catalog(&error)),
        }
    }

    /// What somebody here has for himself.
    pub(crate) fn having(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.having.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Backups that go on here.
    pub(crate) fn backups(&self) -> u64 {
        let having = self.having();
        having.iter().filter(|what| what.starts_with(FILESPACE)).count() as u64
    }

    /// Claims a filespace for one backup; fails while another has it.
    pub(crate) fn claim(self: &Arc<Self>, filespace: FilespaceId) -> Result<Having, Status> {
        if self.backups() >= BACKUPS_MAX {
            return Err(Status::aborted("the server has as many backups as it takes at once"));
        }
        let claimed = self.try_have(&format!("{FILESPACE}{filespace}"))?;
        claimed.ok_or_else(|| Status::aborted("another backup of this filespace is running"))
    }

    pub(crate) fn next_session(&self) -> SessionId {
        SessionId(self.sessions.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Takes the chunk index that another server has stored, where this one lacks much of it.
fn fetch_index(pools: &Pools, folder: &Path) {
    let Some(bucket) = pools.first_bucket() else { return };
    match index_share::fetch(&bucket, &folder.join(INDEX), folder) {
        Ok(None) => {}
        Ok(Some(complete_to)) => tracing::info!(%complete_to, "the chunk index was fetched"),
        // It is made again from the packs.
        Err(error) => tracing::warn!(%error, "the chunk index cannot be fetched"),
    }
}

fn known_packs(rows: &[PackRow]) -> BTreeMap<PackNumber, Known> {
    let known =
        |row: &PackRow| (row.number, Known { sealed: row.state.is_sealed(), bytes: row.bytes });
    rows.iter().map(known).collect()
}

fn condemned_packs(rows: &[PackRow]) -> Condemned {
    let of = |state| rows.iter().filter(move |row| row.state == state).map(|row| row.number);
    Condemned {
        packs: of(PackState::Condemned).map(|pack| (pack, None)).collect(),
        gone: BTreeSet::new(),
        damaged: of(PackState::Damaged).collect(),
        // Until the first look at what others have done, nothing is committed that depends on it.
        generation: 0,
    }
}

/// Those who use packs: backups from when they open, restores from when they begin to select.
#[derive(Default)]
pub(crate) struct Users {
    state: Mutex<UsersState>,
}

#[derive(Default)]
struct UsersState {
    next: u64,
    /// By their number.
    active: BTreeMap<u64, User>,
    /// How often packs were condemned, as far as this server knows.
    generation: u64,
}

struct User {
    /// The first pack that a backup may append to; none for who only reads.
    fills: Option<PackNumber>,
    /// How often packs had been condemned when it began.
    generation: u64,
}

impl UsersState {
    fn add(&mut self, fills: Option<PackNumber>) -> u64 {
        self.next += 1;
        self.active.insert(self.next, User { fills, generation: self.generation });
        self.next
    }
}

/// See [`Users`]; ends the use when it is dropped.
pub(crate) struct Use {
    core: Arc<Core>,
    number: u64,
    /// Packs that had failed by then.
    failures: usize,
}

impl Use {
    /// Whether all that was appended since is durable once it was synced.
    pub(crate) fn check(&self) -> Result<(), Status> {
        if self.core.pools.failures() == self.failures {
            return Ok(());
        }
        let (why, is_full) = self.core.pools.last_failure();
        let text = format!("not all that was sent could be stored, run it again: {why}");
        Err(if is_full { Status::resource_exhausted(text) } else { Status::unavailable(text) })
    }
}

impl Users {
    fn state(&self) -> MutexGuard<'_, UsersState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that all who begin later are above.
    pub(crate) fn now(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.next
    }

    /// Whether somebody reads who began before `number`.
    pub(crate) fn has_older_reader(&self, number: u64) -> bool {
        let state = self.state();
        state.active.range(..number).any(|(_, user)| user.fills.is_none())
    }

    /// The first pack that an active backup may have appended to.
    pub(crate) fn first_filled(&self) -> Option<PackNumber> {
        self.state().active.values().filter_map(|user| user.fills).min()
    }

    /// Packs were condemned so often: who begins from now on sees what has come of that.
    pub(crate) fn know(&self, generation: u64) {
        self.state().generation = generation;
    }

    /// How often packs had been condemned when the first of those began who read, or by now.
    pub(crate) fn oldest_generation(&self) -> u64 {
        let state = self.state();
        let readers = state.active.values().filter(|user| user.fills.is_none());
        readers.map(|user| user.generation).min().unwrap_or(state.generation)
    }

    /// Says that packs from `first` on are being filled, if any, until what is returned is dropped.
    fn fill_from(&self, first: Option<PackNumber>) -> Option<Filling<'_>> {
        let first = first?;
        Some(Filling { users: self, number: self.state().add(Some(first)) })
    }
}

/// See [`Users::fill_from`].
struct Filling<'a> {
    users: &'a Users,
    number: u64,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.users.state().active.remove(&self.number);
    }
}

impl Core {
    /// Says that packs are used until what is returned is dropped; `fills` that they are appended
    /// to as well.
    pub(crate) fn use_packs(self: &Arc<Self>, fills: bool) -> Use {
        let failures = self.pools.failures();
        if fills && let Err(error) = self.pools.stock_up() {
            // It is tried again when a pack is made; others see an older horizon until then.
            tracing::warn!(%error, "no numbers for packs");
        }
        let first = fills.then(|| self.pools.horizon());
        let number = self.users.state().add(first);
        Use { core: Arc::clone(self), number, failures }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.core.users.state().active.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;

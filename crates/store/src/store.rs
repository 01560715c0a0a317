//! The state that all sessions and processes of a server share.

mod claims;
mod commit_failure;
mod condemned_packs;
mod derived_index;
pub(crate) mod drills;
mod following;
pub(crate) mod kept_chunks;
pub(crate) mod known_copies;
mod node_clocks;
mod presence;
mod rebuild;
mod returned;
mod room;
pub(crate) mod trusted_time;
mod users;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use catalog::actor::SERVER;
use catalog::{Catalog, CatalogError, CommitError, EventRow, PackRow, PackState, Write};
use model::{ChunkDigest, DomainId, FilespaceId, PackNumber, Place, PoolId, ServerTime};
use pool::{Numbers, PackRecord, Pools, SealedPack};
use sys::lock::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::claims::Claims;
use self::condemned_packs::condemned_packs;
use self::derived_index::DerivedIndex;
use self::drills::Drills;
use self::kept_chunks::KeptChunks;
use self::node_clocks::NodeClocks;
use self::presence::Presence;
use self::trusted_time::TrustedTime;
use self::users::Users;
use crate::contacts::Contacts;
use crate::error::StoreError;
use crate::fleet::Fleet;
use crate::fleet::index_share;
use crate::folder::config::{Config, MASTER_KEY};
use crate::folder::database::Database;
use crate::folder::error::OpenError;
use crate::folder::hold;
use crate::folder::secrets::Secrets;
use crate::intake::opener::Opener;
use crate::lifecycle::tasks::Tasks;
use crate::ownership::{LostOwnership, Ownership};
use crate::pools::buckets::Buckets;
use crate::pools::place::{self, Stores};
use crate::quotas::Quotas;
use crate::tallies::Tallies;
use crate::volumes::holdings::Volumes;

/// Maximum number of attempts to commit while other servers condemn packs.
const ATTEMPTS_MAX: u32 = 100;
/// Number of sealed packs after which the chunk index is made durable again.
const PACKS_PER_FLUSH: u64 = 32;

pub use self::claims::Claim;
pub use self::commit_failure::CommitFailure;
pub use self::condemned_packs::CondemnedPacks;
pub(crate) use self::condemned_packs::LookEnd;
pub use self::users::Use;

/// Catalogue, pools, index and keys. All sessions share one store.
pub struct Store {
    pub catalog: Arc<dyn Catalog>,
    pub pools: Pools,
    /// Libraries and volumes of the pools on volumes.
    pub volumes: Arc<Volumes>,
    /// Buckets of the pools in object stores.
    pub(crate) buckets: Buckets,
    /// Time at which the server began to serve.
    pub(crate) began: ServerTime,
    /// The server's folder.
    pub folder: PathBuf,
    pub config: Config,
    pub secrets: Secrets,
    /// Openers that no thread uses at present.
    openers: Mutex<Vec<Opener>>,
    index: DerivedIndex,
    /// Packs that the index lacks because nobody could read them. The index is not complete up to
    /// the first of them.
    unread: Mutex<BTreeSet<PackNumber>>,
    /// True from the end of another server, or the return of a bucket, until unfinished packs and
    /// uploads of dead servers are cleared up.
    pub(crate) has_left_behind: AtomicBool,
    /// Packs of pools that have come back and could not be recorded yet.
    returned: Mutex<pool::Inventory>,
    /// Pools that this server may not use at present, with the reason.
    refused: Mutex<BTreeMap<PoolId, String>>,
    sealed_since_flush: AtomicU64,
    claims: Arc<Claims>,
    /// Packs that this server could not recover when it opened. The next start tries again.
    pub(crate) unrecovered: BTreeSet<PackNumber>,
    pub(crate) kept_chunks: KeptChunks,
    /// Packs that no new page may name. A commit holds the lock from the check of its places to its
    /// end, so that no pack is condemned in between.
    condemned: RwLock<CondemnedPacks>,
    /// The fleet of this server; `None` if its catalogue is for one server only.
    pub(crate) fleet: Option<Arc<Fleet>>,
    /// Users of packs on this server.
    pub(crate) users: Arc<Users>,
    pub(crate) ownership: Ownership,
    /// Restore drills that are under way.
    pub(crate) drills: Drills,
    /// Agents that are, or were, connected to this server.
    pub(crate) presence: Presence,
    /// Lock for copying, moving and repairing packs, and for changing pools.
    tending: Mutex<()>,
    /// Lock for copying the catalogue to the pools.
    copying: Mutex<()>,
    /// True from the recovery of the server, or from the moment at which the server notices that a
    /// copy is newer than its catalogue, until an administrator releases it. Meanwhile the server
    /// removes no data that its catalogue does not name.
    pub(crate) recovered: AtomicBool,
    /// Clocks of nodes, with which the server's clock is compared.
    pub(crate) node_clocks: NodeClocks,
    /// Time before which no change counts as made.
    pub(crate) trusted_time: TrustedTime,
    /// True while a run of expiration drops versions.
    pub(crate) expiring: AtomicBool,
    /// Amounts that domains store, and may store.
    pub quotas: Quotas,
    pub contacts: Contacts,
    /// True from the moment at which the server begins to stop.
    pub stopping: AtomicBool,
    /// Sums over the backups that have ended at this server.
    pub tallies: Tallies,
    /// Tasks that this server begins by itself.
    pub tasks: Tasks,
}

/// A chunk, and the key under which the index has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyedChunk {
    pub(crate) key: ChunkDigest,
    pub(crate) digest: ChunkDigest,
}

/// Folder of the chunk index, in the server's folder.
pub(crate) const INDEX: &str = "index";
/// Maximum size of a chunk index that the server stores in a bucket when it stops.
const INDEX_SENT_BYTES_MAX: u64 = 64 << 20;

/// Maximum number of backups at once: each has a thread that may block.
const BACKUPS_MAX: u64 = 1000;
/// Mark of the catalogue that tells the right master key.
const KEY_CHECK: &str = "master key";
/// Prefix of the names of claims on filespaces.
const FILESPACE: &str = "filespace ";

/// The deduplication domain of all nodes.
pub const DOMAIN: DomainId = DomainId(1);
/// The deduplication domain of the copies of the catalogue.
pub(crate) const CATALOG_DOMAIN: DomainId = DomainId(0);

impl Store {
    /// Returns the time at which a change of stored data counts as made.
    pub(crate) fn time_of_change(&self) -> ServerTime {
        let (trusted, clock) = (self.trusted_time.at(sys::clock::uptime()), sys::clock::now());
        trusted.map_or(clock, |trusted| clock.max(trusted))
    }

    /// Returns true if the clock is behind the trusted time.
    pub(crate) fn is_clock_behind(&self) -> bool {
        let (trusted, clock) = (self.trusted_time.at(sys::clock::uptime()), sys::clock::now());
        trusted.is_some_and(|trusted| clock < trusted)
    }
}

impl Store {
    /// Opens `folder` without a fleet, with the catalogue that the configuration names.
    #[cfg(test)]
    pub(crate) fn open_alone(folder: &Path, config: &Config) -> Result<Self, OpenError> {
        let ownership = Ownership::take(folder)?;
        Self::open(folder, config, &Database::open(config, folder)?, None, ownership)
    }

    /// Opens the server in `folder`. Recovers the packs and the index that an earlier process left
    /// unfinished when it died. The server is a member of `fleet`, if there is one.
    pub fn open(
        folder: &Path,
        config: &Config,
        database: &Database,
        fleet: Option<Fleet>,
        ownership: Ownership,
    ) -> Result<Self, OpenError> {
        let fleet = fleet.map(Arc::new);
        let catalog = database.catalog();
        let volumes = Volumes::open(Arc::clone(&catalog), folder, config.stage_bytes)?;
        let secrets = Secrets::load(&folder.join(MASTER_KEY))
            .map_err(|source| OpenError::File { path: folder.join(MASTER_KEY), source })?;
        check_master_key(&*catalog, &secrets, folder)?;
        let catalog_packs = catalog.packs()?;
        let known = known_packs(&catalog_packs);
        let buckets = Buckets::new(folder, config.bucket_bytes);
        let stores = Stores { volumes: Some(&volumes), buckets: &buckets };
        let specs = place::begin(&*catalog, folder, config, !catalog_packs.is_empty(), stores)?;
        // The pools are claimed before any pack is opened, because opening the pools seals the
        // packs that were left open.
        match fleet {
            None => ownership.claim(&specs)?,
            Some(_) => ownership.lock(&specs)?,
        }
        let own = || Ok::<_, OpenError>(Numbers::Own(catalog.next_pack()?));
        let numbers = fleet.as_ref().map_or_else(own, |fleet| Ok(fleet.numbers()))?;
        let keys = [secrets.domain_key(CATALOG_DOMAIN), secrets.domain_key(DOMAIN)];
        let (pools, mut opened) = Pools::open(&specs, numbers, &known, move |domain, chunk| {
            keys[usize::from(domain != CATALOG_DOMAIN)].digest(chunk)
        })
        .map_err(|source| OpenError::Pool { place: specs[0].place(), source })?;
        pools.keep_reserve(config.reserve());
        log_damage(&opened);
        let (index, complete_to) = open_index(&pools, folder, fleet.is_some());
        let trusted_time = TrustedTime::read(&*catalog)?;
        let store = Self {
            catalog,
            pools,
            volumes,
            buckets,
            began: sys::clock::now(),
            folder: folder.to_owned(),
            config: config.clone(),
            secrets,
            openers: Mutex::default(),
            index,
            unread: Mutex::default(),
            has_left_behind: AtomicBool::new(false),
            returned: Mutex::default(),
            refused: Mutex::default(),
            sealed_since_flush: AtomicU64::new(0),
            claims: Arc::new(Claims::new(fleet.clone())),
            unrecovered: opened.damaged.iter().map(|(pack, _)| *pack).collect(),
            kept_chunks: KeptChunks::default(),
            condemned: RwLock::new(condemned_packs(&catalog_packs)),
            fleet,
            users: Arc::default(),
            ownership,
            tending: Mutex::default(),
            copying: Mutex::default(),
            recovered: AtomicBool::new(hold::is_held(folder)),
            node_clocks: NodeClocks::default(),
            trusted_time,
            drills: Drills::default(),
            presence: Presence::default(),
            expiring: AtomicBool::new(false),
            quotas: Quotas::default(),
            contacts: Contacts::default(),
            stopping: AtomicBool::new(false),
            tallies: Tallies::default(),
            tasks: Tasks::default(),
        };
        store.settle_unknown(&mut opened, &catalog_packs)?;
        store.complete_index(&opened, &catalog_packs, complete_to);
        store.record_packs(&opened, &catalog_packs)?;
        store.leave_out_numbers()?;
        Ok(store)
    }

    /// The storages of pools whose packs do not lie in folders.
    pub(crate) fn stores(&self) -> Stores<'_> {
        Stores { volumes: Some(&self.volumes), buckets: &self.buckets }
    }

    /// Decides about the packs that the catalogue does not know. Nothing happens to them if the
    /// catalogue is older than a copy in the pools.
    fn settle_unknown(
        &self,
        opened: &mut pool::Inventory,
        rows: &[PackRow],
    ) -> Result<(), OpenError> {
        self.hold_if_older()?;
        let Some(fleet) = &self.fleet else { return Ok(self.condemn_orphans(opened)?) };
        if let Some(last) = opened.last {
            fleet.pass(last)?;
        }
        self.leave_unknown(opened, rows);
        Ok(())
    }

    /// Condemns each pack of `present` that the catalogue does not know. `present` has the number
    /// and the size in bytes of each pack.
    ///
    /// The server that sent such a pack got no answer, and may still remove the pack. So nobody may
    /// use the pack, and the next reclamation removes it. A recovered server condemns none of them,
    /// because its catalogue may know less than the pools hold.
    pub(crate) fn condemn_unknown(
        &self,
        present: impl Iterator<Item = (PackNumber, u64)>,
    ) -> Result<(), CatalogError> {
        if self.recovered.load(Ordering::Relaxed) {
            return Ok(());
        }
        // These rows are read after the packs were listed. So they include each pack that was
        // committed in between.
        let rows = self.catalog.packs()?;
        let known: BTreeSet<PackNumber> = rows.iter().map(|row| row.number).collect();
        let unknown: Vec<_> = present.filter(|(pack, _)| !known.contains(pack)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let state = PackState::Condemned;
        let row = |(number, bytes)| PackRow { number, domain: DOMAIN, state, bytes, node: None };
        let writes = unknown.iter().map(|found| Write::PutPack(row(*found))).collect();
        let mut condemned = self.condemned_mut();
        condemned.advance(self.catalog.condemn(writes)?);
        for (pack, bytes) in unknown {
            condemned.packs.insert(pack, None);
            self.pools.learn(pack, bytes);
        }
        Ok(())
    }

    /// Ends uploads, and condemns the packs in object stores that the catalogue does not know: no
    /// other server sends packs to these pools.
    fn condemn_orphans(&self, opened: &pool::Inventory) -> Result<(), CatalogError> {
        self.pools.end_orphans(None);
        let objects = opened.sealed.iter().filter(|pack| self.pools.is_object(**pack));
        self.condemn_unknown(objects.map(|pack| (*pack, 0)))
    }

    /// Leaves out the packs in object stores that the catalogue does not know, unless the server is
    /// held. A server of a fleet forgets them, because other servers may be about to commit them.
    fn leave_unknown(&self, found: &mut pool::Inventory, rows: &[PackRow]) {
        if self.recovered.load(Ordering::Relaxed) {
            return;
        }
        let known: BTreeSet<PackNumber> = rows.iter().map(|row| row.number).collect();
        let is_left =
            |pack: &mut PackNumber| !known.contains(&*pack) && self.pools.is_object(*pack);
        for pack in found.sealed.extract_if(.., is_left) {
            if self.fleet.is_some() {
                self.pools.forget(pack);
            }
        }
    }

    /// Adds the chunks of the packs after `complete` to the index, which lacks them after a crash.
    /// Removes the packs that no new page may name, because an earlier removal may have failed.
    fn complete_index(&self, opened: &pool::Inventory, rows: &[PackRow], complete: PackNumber) {
        if self.index.is_absent() {
            return;
        }
        let mut packs = self.in_primaries(rows, complete);
        let recovered = opened.recovered.iter().map(|found| found.table.pack);
        packs.extend(opened.sealed.iter().copied().chain(recovered));
        let mut last = complete;
        let condemned = self.condemned();
        for pack in packs.into_iter().filter(|pack| *pack > complete) {
            last = last.max(pack);
            if !condemned.holds(pack) {
                self.index_or_note(pack);
            }
        }
        if last > complete {
            self.index.flush(self.index_limit(last));
        }
        let withheld: BTreeSet<PackNumber> =
            condemned.packs.keys().chain(&condemned.damaged).copied().collect();
        if !withheld.is_empty() {
            self.index.remove_packs(&withheld);
        }
    }

    fn index_table(&self, table: &format::pack::Table) {
        let place = |index| Place::new(table.pack, index);
        let digests = table.digests().iter().copied();
        let entries: Vec<_> =
            (0..).zip(digests).map(|(index, digest)| (digest, place(index))).collect();
        assert_eq!(entries.len(), table.chunk_count() as usize, "each chunk has a digest");
        self.index.insert(&entries);
    }

    /// Adds the chunks of `packs`, which nodes may refer to from now on, to the index.
    pub(crate) fn index_again(&self, packs: &BTreeSet<PackNumber>) {
        for pack in packs {
            // If the index lacks a pack, its chunks may be stored twice. No data is lost.
            if let Ok(table) = self.pools.table(*pack) {
                self.index_table(&table);
                self.unread.lock().remove(pack);
            }
        }
    }

    /// Adds the packs that the catalogue does not know to the catalogue. Records its open packs as
    /// sealed.
    fn record_packs(&self, opened: &pool::Inventory, rows: &[PackRow]) -> Result<(), OpenError> {
        let open = rows.iter().filter(|row| row.state == PackState::Open).map(|row| row.number);
        let sealed = opened.sealed.iter().copied().chain(open);
        let news = self.news_of(&opened.recovered, sealed, rows, &self.condemned());
        Ok(self.catalog.commit(news.into_values().collect())?)
    }

    /// Returns the writes that record packs as sealed that the catalogue does not know, or
    /// has as open, because an earlier process ended before it could record that. `rows` are the
    /// packs of the catalogue.
    fn news_of(
        &self,
        recovered: &[SealedPack],
        sealed: impl Iterator<Item = PackNumber>,
        rows: &[PackRow],
        condemned: &CondemnedPacks,
    ) -> BTreeMap<PackNumber, Write> {
        let known = rows.iter().filter(|row| row.state != PackState::Open);
        let known: BTreeSet<PackNumber> = known.map(|row| row.number).collect();
        let is_news = |pack: &PackNumber| !known.contains(pack) && !condemned.holds(*pack);
        let recovered = recovered.iter().filter(|found| is_news(&found.table.pack));
        let mut news: BTreeMap<PackNumber, Write> = recovered
            .map(|found| (found.table.pack, sealed_row(&found.table, found.bytes)))
            .collect();
        for pack in sealed.filter(is_news) {
            let Entry::Vacant(place) = news.entry(pack) else { continue };
            if let Ok((table, bytes)) = self.pools.closed(pack) {
                place.insert(sealed_row(&table, bytes));
            }
        }
        news
    }

    /// Makes all appended quanta durable and performs `writes`.
    ///
    /// The pools are synced before the catalogue is written: a page must never name bytes that a
    /// crash can take back (invariant 1 of `ARCHITECTURE.md`). A crash between the two steps leaves
    /// chunks that nothing names.
    pub fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        self.commit_if(writes, None, &|| Ok(())).map_err(CommitFailure::into_error)
    }

    /// Commits as [`Self::commit`] for a session that has appended since `filling` began, and that
    /// knows all condemned packs up to `generation`.
    ///
    /// Fails if quanta that were appended since then may be lost, even if it was the sync of
    /// another session that failed.
    pub(crate) fn commit_filled(
        &self,
        filling: &Use,
        generation: u64,
        writes: Vec<Write>,
    ) -> Result<(), CommitFailure> {
        self.check_commit_room()?;
        self.commit_if(writes, Some(generation), &|| self.check_filled(filling))
    }

    /// Performs `writes` for a caller that knows all condemned packs up to `generation`, and that
    /// has appended nothing.
    pub(crate) fn commit_known(
        &self,
        generation: u64,
        writes: Vec<Write>,
    ) -> Result<(), CommitFailure> {
        self.catalog.commit_at(generation, writes).map_err(CommitFailure::from)
    }

    fn commit_if(
        &self,
        mut writes: Vec<Write>,
        generation: Option<u64>,
        check: &dyn Fn() -> Result<(), StoreError>,
    ) -> Result<(), CommitFailure> {
        let rows = writes.len();
        let _span = tracing::info_span!(target: model::TRACE, "commit", rows).entered();
        self.pools.sync().map_err(StoreError::from)?;
        check()?;
        // Other servers see that these packs are being filled, until the commit records the packs.
        let _filling = self.users.fill_from(self.pools.standing(false).horizon);
        let news = self.pools.take_news();
        let sealed = news.iter().filter(|news| news.sealed).map(|news| news.pack).max();
        writes.extend(news.iter().map(|news| {
            let state = if news.sealed { PackState::Sealed } else { PackState::Open };
            let pool::PackNews { pack, domain, node, bytes, .. } = *news;
            Write::PutPack(PackRow { number: pack, domain, state, bytes, node })
        }));
        let committed = match generation {
            Some(generation) => self.catalog.commit_at(generation, writes),
            None => self.catalog.commit(writes).map_err(CommitError::from),
        };
        committed.map_err(|error| {
            self.pools.give_back_news(news);
            CommitFailure::from(error)
        })?;
        if let Some(pack) = sealed {
            self.flush_index_sometimes(pack);
        }
        Ok(())
    }

    /// Calls `attempt` until it returns a value. It returns `None` where other servers have
    /// condemned packs that this server does not know; then this server first learns of them. Fails
    /// with `Busy` after many attempts.
    pub(crate) fn until_current<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<T>, StoreError>,
    ) -> Result<T, StoreError> {
        for _ in 0..ATTEMPTS_MAX {
            if let Some(value) = attempt()? {
                return Ok(value);
            }
            self.catch_up()?;
        }
        Err(StoreError::busy("other servers keep condemning packs; try again later"))
    }

    /// Adds an action of the server itself to the audit trail.
    pub fn record(&self, what: &str, details: String) -> Result<(), StoreError> {
        let (actor, what) = (SERVER.to_owned(), what.to_owned());
        let event = EventRow { time: sys::clock::now(), actor, what, details };
        let written = self.catalog.commit(vec![Write::AddEvent(event)]);
        written.map_err(StoreError::from)
    }

    fn flush_index_sometimes(&self, sealed: PackNumber) {
        if self.sealed_since_flush.fetch_add(1, Ordering::Relaxed) % PACKS_PER_FLUSH
            == PACKS_PER_FLUSH - 1
        {
            self.index.flush(self.index_limit(PackNumber(sealed.0 - 1)));
        }
    }

    /// Seals all packs and writes the index, for an orderly stop.
    pub fn close(&self) -> Result<(), StoreError> {
        if let Err(error) = self.pools.seal_all() {
            // The next start recovers a pack without a footer.
            tracing::warn!(error = model::chain(&error), "not all packs were sealed");
            return Ok(());
        }
        if let Err(error) = self.commit(Vec::new()) {
            tracing::warn!(error = model::chain(&error), "the packs' seals were not recorded");
            return Ok(());
        }
        if let Some(last) = self.catalog.packs()?.last() {
            self.index.flush(self.index_limit(last.number));
        }
        self.send_small_index();
        Ok(())
    }

    /// Stores the chunk index in the first bucket, for other servers, if it has grown since the
    /// last time.
    pub fn send_index(&self) -> io::Result<()> {
        let Some(bucket) = self.pools.first_bucket().filter(|_| self.fleet.is_some()) else {
            return Ok(());
        };
        let limit = self.index_limit(PackNumber(u64::MAX));
        if Some(limit) > index_share::complete_to(&bucket)? {
            let snapshot = |links: &Path| self.index.snapshot(limit, links);
            if let Some(complete_to) = index_share::send(&bucket, &self.folder, snapshot)? {
                tracing::info!(%complete_to, "the chunk index was stored");
            }
        }
        Ok(())
    }

    /// Stores the chunk index as [`Self::send_index`] does, when the server stops. Does nothing if
    /// the index is large.
    fn send_small_index(&self) {
        if self.fleet.is_none()
            || !self.keeps_house()
            || self.config.index_share_minutes == 0
            || self.index.disk_bytes() > INDEX_SENT_BYTES_MAX
        {
            return;
        }
        // The first report takes in the packs of the other servers. The second report says that
        // this server knows those packs.
        let heard = self.beat().and_then(|()| self.beat());
        let sent = heard.map_err(io::Error::other).and_then(|()| self.send_index());
        if let Err(error) = sent {
            tracing::warn!(%error, "the chunk index was not stored");
        }
    }

    /// Returns the places of the chunks, verified against the tables of their packs. An index that
    /// fails costs duplicates, never an error.
    pub(crate) fn lookup(&self, chunks: &[KeyedChunk]) -> Vec<Option<Place>> {
        let keys: Vec<ChunkDigest> = chunks.iter().map(|chunk| chunk.key).collect();
        let found = self.index.lookup(&keys);
        let holds = |place: Place, digest: &ChunkDigest| {
            self.pools.offered(place).is_some_and(|(_, found)| found == *digest)
        };
        assert_eq!(found.len(), chunks.len(), "the index answers each key");
        let verified = found.into_iter().zip(chunks);
        verified
            .map(|(place, chunk)| place.filter(|place| holds(*place, &chunk.digest)))
            .collect()
    }

    pub(crate) fn take_opener(&self) -> Option<Opener> {
        self.openers.lock().pop()
    }

    pub(crate) fn keep_opener(&self, opener: Opener) {
        self.openers.lock().push(opener);
    }

    /// Adds appended chunks to the index, by their keys.
    pub(crate) fn note(&self, entries: &[(ChunkDigest, Place)]) {
        self.index.insert(entries);
    }

    /// True while the server runs without a chunk index.
    pub fn lacks_index(&self) -> bool {
        self.index.is_absent()
    }

    /// Returns the packs that no new page may name. No pack is condemned until the guard is
    /// dropped.
    pub fn condemned(&self) -> RwLockReadGuard<'_, CondemnedPacks> {
        self.condemned.read()
    }

    /// Removes the packs from the index.
    pub(crate) fn forget_packs(&self, packs: &BTreeSet<PackNumber>) {
        self.unread.lock().retain(|pack| !packs.contains(pack));
        self.index.remove_packs(packs);
    }

    /// Number of backups that this server serves now.
    pub(crate) fn backups(&self) -> u64 {
        self.claims.count(FILESPACE)
    }

    /// Claims a filespace for one backup. Fails while another backup has it.
    pub(crate) fn claim(&self, filespace: FilespaceId) -> Result<Claim, StoreError> {
        if self.backups() >= BACKUPS_MAX {
            return Err(StoreError::busy(format!(
                "the server is running {BACKUPS_MAX} backups, which is its maximum; try again later"
            )));
        }
        let claim = self.claims.take(&format!("{FILESPACE}{filespace}"))?;
        claim.ok_or_else(|| StoreError::busy("another backup of this filespace is running"))
    }

    /// Prevents reclamation until the claim is dropped. Fails while a reclamation is running.
    pub(crate) fn pause_reclamation(&self) -> Result<Claim, StoreError> {
        let busy = || StoreError::busy("a reclamation is running; try again later");
        self.claims.take("reclamation")?.ok_or_else(busy)
    }

    /// Locks out other runs over packs, and changes of pools, until the guard is dropped. Returns
    /// `None` while another thread has this lock.
    pub(crate) fn try_tend(&self) -> Option<MutexGuard<'_, ()>> {
        self.tending.try_lock()
    }

    /// Takes the same lock as [`Self::try_tend`]. Waits while another thread has it.
    pub(crate) fn tend(&self) -> MutexGuard<'_, ()> {
        self.tending.lock()
    }

    /// Locks out other copies of the catalogue until the guard is dropped. Returns `None` while
    /// another thread makes a copy.
    pub(crate) fn try_copy(&self) -> Option<MutexGuard<'_, ()>> {
        self.copying.try_lock()
    }

    /// Fails if another server has taken the folder or a pool of this server.
    pub fn check_ownership(&self) -> Result<(), LostOwnership> {
        let specs = if self.fleet.is_none() { self.pools.specs() } else { Vec::new() };
        self.ownership.check(&specs)
    }

    /// Returns the packs that no new page may name, so that the caller can change them. Waits for
    /// the commits under way, and blocks new commits until the guard is dropped.
    pub(crate) fn condemned_mut(&self) -> RwLockWriteGuard<'_, CondemnedPacks> {
        self.condemned.write()
    }

    /// Fails unless everything that was appended during `filling` is durable.
    pub(crate) fn check_filled(&self, filling: &Use) -> Result<(), StoreError> {
        let failures = self.pools.failures();
        assert!(filling.failures <= failures, "failures are only added");
        if failures == filling.failures {
            return Ok(());
        }
        let pool::WriteFailure { reason, is_full } = self.pools.last_failure();
        if is_full {
            let text = format!("the pool is full, and not all data could be stored: {reason}");
            return Err(StoreError::no_space(text));
        }
        let text = format!("not all data could be stored; run the command again: {reason}");
        Err(StoreError::away(text))
    }
}

/// Opens the chunk index in the server's folder. Returns it with the last pack up to which it is
/// complete.
fn open_index(pools: &Pools, folder: &Path, is_in_fleet: bool) -> (DerivedIndex, PackNumber) {
    if is_in_fleet {
        fetch_index(pools, folder);
    }
    DerivedIndex::open(&folder.join(INDEX))
}

/// Fetches the chunk index that another server has stored, if this server's own index lacks many
/// packs.
fn fetch_index(pools: &Pools, folder: &Path) {
    let Some(bucket) = pools.first_bucket() else { return };
    match index_share::fetch(&bucket, &folder.join(INDEX), folder) {
        Ok(None) => {}
        Ok(Some(complete_to)) => tracing::info!(%complete_to, "the chunk index was fetched"),
        // The server reads the tables of the packs instead.
        Err(error) => tracing::warn!(%error, "the chunk index cannot be fetched"),
    }
}

/// Returns the write that records a sealed pack.
fn sealed_row(table: &format::pack::Table, bytes: u64) -> Write {
    let (number, domain, state) = (table.pack, table.domain, PackState::Sealed);
    Write::PutPack(PackRow { number, domain, state, bytes, node: None })
}

fn log_damage(opened: &pool::Inventory) {
    for (pack, error) in &opened.damaged {
        tracing::error!(%pack, error = model::chain(error), "a pack is damaged");
    }
}

/// Returns true if the catalogue belongs to the master key; `None` if it does not say.
pub(crate) fn is_key_of(
    catalog: &dyn Catalog,
    secrets: &Secrets,
) -> Result<Option<bool>, CatalogError> {
    Ok(catalog.mark(KEY_CHECK)?.map(|found| found == secrets.check_value()))
}

/// The error for a folder with the master key of another server.
pub(crate) fn wrong_key(folder: &Path) -> OpenError {
    let reason = "it is the key of another server; put the right one back, which is in the \
                  recovery file too";
    let source = io::Error::new(io::ErrorKind::InvalidData, reason);
    OpenError::File { path: folder.join(MASTER_KEY), source }
}

/// Fails if the master key is not the one that made what the catalogue names: with another key the
/// server would acknowledge data that the right key cannot read. A catalogue without a check value
/// gets that of this key.
pub(crate) fn check_master_key(
    catalog: &dyn Catalog,
    secrets: &Secrets,
    folder: &Path,
) -> Result<(), OpenError> {
    match is_key_of(catalog, secrets)? {
        Some(true) => Ok(()),
        Some(false) => Err(wrong_key(folder)),
        None => {
            let value = secrets.check_value();
            Ok(catalog.commit(vec![Write::SetMark { name: KEY_CHECK, value }])?)
        }
    }
}

fn known_packs(rows: &[PackRow]) -> BTreeMap<PackNumber, PackRecord> {
    let known = |row: &PackRow| {
        (row.number, PackRecord { sealed: row.state.is_sealed(), bytes: row.bytes })
    };
    rows.iter().map(known).collect()
}

impl Store {
    /// Begins a use of packs. No pack that the user may have found is removed until the result is
    /// dropped. `fills` is true for a user that also appends to packs.
    pub fn use_packs(&self, fills: bool) -> Use {
        let failures = self.pools.failures();
        if fills && let Err(error) = self.pools.stock_up() {
            // Opening the next pack asks for numbers again. Until then other servers see an older
            // horizon.
            tracing::warn!(%error, "the database gave no numbers for packs");
        }
        let first = fills.then(|| self.pools.horizon());
        self.users.begin(first, failures)
    }
}

#[cfg(test)]
mod tests;

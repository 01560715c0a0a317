//! This server among others that serve the same catalogue.
//!
//! ```text
//!                   +--> backups, restores: any server
//!   nodes --> all --+
//!                   +--> what has to happen once: the server that keeps house
//! ```
//!
//! About once a second a server says that it is there, from a thread that waits for nothing else;
//! and, from another one, what it fills and reads, and hears of the others and of their packs. What
//! it does not know yet costs a duplicate, or is asked for when it is needed; nothing that is kept
//! depends on it:
//!
//! 1. A commit names no pack that another server has condemned: the database compares how often
//!    that was done with what this server knew when it looked ([`catalog::Catalog::commit_at`]).
//! 2. A condemned pack is removed once every server has heard that nothing names it any more, and
//!    who reads there began behind that (`Users::oldest_generation`).
//! 3. What nobody told of is left alone while a server could still tell of it ([`Roll::horizon`]).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use catalog::postgres::{Beat, Postgres, Roll, SILENCE, ServerRow};
use catalog::{CatalogError, PackRow, PackState, PoolRow};
use model::PackNumber;
use pool::{Numbers, TakeNumbers};
use tonic::Status;
use wire::proto;

use crate::config;
use crate::core::{Condemned, Core};
use crate::pools;
use crate::recovery;
use crate::refusal;
use crate::run::RunError;

/// In the server's folder: what it is known by among others.
const PLACE_FILE: &str = "server.id";
/// Numbers of packs that are taken at once.
const NUMBERS_TAKEN: u32 = 256;
/// A server says so often that it is there.
const PULSE_PAUSE: Duration = Duration::from_secs(1);
/// Old changes of packs are forgotten so often.
const PURGE_PAUSE: Duration = Duration::from_secs(3600);
/// A server that was silent for so long may be dead: what it has is waited for.
const QUIET: Duration = Duration::from_millis(2500);
/// Who waits looks again so often,
const PAUSE: Duration = Duration::from_millis(250);
/// and for so long that a dead server has been taken off the list.
const PATIENCE: Duration = Duration::from_secs(20);

/// See the module.
pub(crate) struct Fleet {
    postgres: Arc<Postgres>,
    /// This server's number.
    id: u64,
    state: Mutex<State>,
    /// Held while changes of packs are taken in: up to where that was done.
    position: Mutex<u64>,
    /// Packs of others that the chunk index lacks.
    unindexed: Mutex<BTreeSet<PackNumber>>,
    /// Packs below it are all in the index.
    indexed: AtomicU64,
    /// Whether a server has ended since it was looked what they have left.
    has_left_behind: AtomicBool,
    pulse: Arc<Pulse>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.pulse.is_over.store(true, Ordering::Relaxed);
    }
}

struct State {
    roll: Roll,
    /// The pools as this server uses them.
    pools: Vec<PoolRow>,
    /// Servers that were silent when they were looked at last.
    silent: Vec<u64>,
    /// When old changes of packs were forgotten last.
    purged: Instant,
}

/// What the thread that says that this server is there has come to.
struct Pulse {
    is_over: AtomicBool,
    is_fenced: AtomicBool,
    /// Since when it was heard without a gap, and when last.
    heard: Mutex<(Instant, Instant)>,
}

impl Pulse {
    /// The server was heard, and had begun to say so at `began`.
    fn heard(&self, began: Instant) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let now = sys::clock::monotonic();
        if now.duration_since(heard.1) > SILENCE / 3 || now.duration_since(began) > SILENCE / 3 {
            heard.0 = now;
        }
        heard.1 = now;
    }

    /// For how long the server was heard without a gap.
    fn steady(&self) -> Duration {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.1.duration_since(heard.0)
    }
}

/// Where nodes reach a server that listens at `listen`, as far as it can say.
fn shown(listen: &str) -> String {
    let everywhere = ["0.0.0.0:", "[::]:"].iter().find_map(|all| listen.strip_prefix(all));
    everywhere.map_or_else(|| listen.to_owned(), |port| format!("{}:{port}", sys::net::host_name()))
}

impl Fleet {
    /// Enters this server, in `folder`; `None` while somebody has the catalogue alone.
    pub(crate) fn enter(
        postgres: &Arc<Postgres>,
        folder: &Path,
        listen: &str,
    ) -> Result<Option<Self>, RunError> {
        let unusable = |source| RunError::Folder { folder: folder.to_owned(), source };
        let place = config::identity(folder, PLACE_FILE).map_err(unusable)?;
        let version = env!("CARGO_PKG_VERSION");
        let Some(id) = postgres.enter(&place, (&shown(listen), version))? else { return Ok(None) };
        // Before the packs are asked for: what changes meanwhile is told again.
        let position = Mutex::new(postgres.pack_position()?);
        let now = sys::clock::monotonic();
        let pulse = Arc::new(Pulse {
            is_over: AtomicBool::new(false),
            is_fenced: AtomicBool::new(false),
            heard: Mutex::new((now, now)),
        });
        // From here on: what a server does before it serves may take long.
        let (of_thread, by) = (Arc::clone(&pulse), Arc::clone(postgres));
        std::thread::Builder::new()
            .name("pulse".to_owned())
            .spawn(move || Self::say_alive(&by, &of_thread))
            .map_err(unusable)?;
        let (pools, silent) = (Vec::new(), Vec::new());
        let state = State { roll: Roll::empty(), pools, silent, purged: now };
        Ok(Some(Self {
            postgres: Arc::clone(postgres),
            id,
            state: Mutex::new(state),
            pulse,
            position,
            unindexed: Mutex::default(),
            indexed: AtomicU64::new(0),
            has_left_behind: AtomicBool::new(false),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unindexed(&self) -> MutexGuard<'_, BTreeSet<PackNumber>> {
        self.unindexed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers for packs that no other server gets.
    pub(crate) fn numbers(&self) -> Numbers {
        let postgres = Arc::clone(&self.postgres);
        let take: TakeNumbers = Arc::new(move || {
            postgres.take_pack_numbers(NUMBERS_TAKEN).map_err(std::io::Error::other)
        });
        Numbers::Shared(take)
    }

    /// Has numbers go on behind those of packs that are there: an older database that was put back
    /// has given some of them already.
    pub(crate) fn pass(&self, last: PackNumber) -> Result<(), CatalogError> {
        self.postgres.pass_pack_number(last)
    }

    /// All servers, as they were heard of last.
    fn roll(&self) -> Roll {
        self.state().roll.clone()
    }

    fn keeps_house(&self) -> bool {
        self.state().roll.keeper().is_some_and(|keeper| keeper.id == self.id)
    }

    /// Says that this server is there, again and again, whatever else it waits for.
    fn say_alive(postgres: &Postgres, pulse: &Pulse) {
        while !pulse.is_over.load(Ordering::Relaxed) {
            let began = sys::clock::monotonic();
            match postgres.say_alive() {
                Ok(()) => pulse.heard(began),
                Err(CatalogError::Fenced) => return pulse.is_fenced.store(true, Ordering::Relaxed),
                Err(error) => tracing::warn!(error = model::chain(&error), "nobody hears this"),
            }
            sys::clock::sleep(PULSE_PAUSE);
        }
    }

    /// Says what this server fills and reads. Takes dead ones off the list.
    fn beat(&self, beat: &Beat) -> Result<(), CatalogError> {
        if self.pulse.is_fenced.load(Ordering::Relaxed) {
            return Err(CatalogError::Fenced);
        }
        let mut roll = self.postgres.beat(beat)?;
        let silent = roll.servers.iter().filter(|server| server.silent > SILENCE);
        let silent: Vec<u64> = silent.map(|server| server.id).collect();
        // Whoever was not heard himself does not judge others by what he did not hear, nor by one
        // look alone.
        let dead: Vec<u64> = {
            let mut state = self.state();
            let was_silent = std::mem::replace(&mut state.silent, silent.clone());
            let is_dead = |id: &u64| self.pulse.steady() >= SILENCE && was_silent.contains(id);
            silent.into_iter().filter(is_dead).collect()
        };
        if roll.keeper().is_none() || !dead.is_empty() {
            match self.postgres.tidy(&dead) {
                Ok(0) => {}
                Ok(gone) => tracing::warn!(gone, "servers were not heard of any more"),
                // Tried again with the next beat.
                Err(CatalogError::Fenced) => return Err(CatalogError::Fenced),
                Err(error) => tracing::warn!(error = model::chain(&error), "nobody was buried"),
            }
            roll = self.postgres.roll()?;
        }
        self.state().roll = roll;
        Ok(())
    }

    /// Has this server have `what` for itself until it lets go of it; `false` while another one
    /// has. One that may be dead is waited for.
    fn try_have(&self, what: &str) -> Result<bool, CatalogError> {
        let began = sys::clock::monotonic();
        loop {
            let has = self.postgres.try_have(what)?;
            let is_quiet = {
                let servers = &self.state().roll.servers;
                let other = servers.iter().find(|server| server.id == has);
                other.is_none_or(|other| other.silent > QUIET)
            };
            if has == self.id || !is_quiet || began.elapsed() > PATIENCE {
                return Ok(has == self.id);
            }
            sys::clock::sleep(PAUSE);
        }
    }

    fn let_go(&self, what: &str) {
        // What stays is let go of by `Core::release_forgotten`.
        if let Err(error) = self.postgres.let_go(what) {
            tracing::warn!(what, error = model::chain(&error), "it is let go of later");
        }
    }
}

fn describe(server: ServerRow, own: u64) -> proto::Server {
    proto::Server {
        is_this: server.id == own,
        address: server.address,
        version: server.version,
        started: server.started.0,
        silent_millis: u64::try_from(server.silent.as_millis()).unwrap_or(u64::MAX),
        keeps_house: server.keeps_house,
        backups: server.sessions,
    }
}

impl Core {
    /// All servers of the catalogue.
    pub(crate) fn servers(&self) -> Vec<proto::Server> {
        let Some(fleet) = &self.fleet else {
            return vec![proto::Server {
                address: shown(&self.config.listen),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                started: self.began.0,
                silent_millis: 0,
                keeps_house: true,
                is_this: true,
                backups: self.backups(),
            }];
        };
        fleet
            .roll()
            .servers
            .into_iter()
            .map(|server| describe(server, fleet.id))
            .collect()
    }

    /// Whether what has to happen once happens at this server.
    pub(crate) fn keeps_house(&self) -> bool {
        self.fleet.as_ref().is_none_or(Fleet::keeps_house)
    }

    /// Fails unless this server keeps house.
    pub(crate) fn check_keeps_house(&self) -> Result<(), Status> {
        if self.keeps_house() {
            return Ok(());
        }
        let roll = self.fleet.as_ref().map_or_else(Roll::empty, Fleet::roll);
        let keeper = roll.keeper().map_or("another server", |keeper| &keeper.address);
        Err(Status::failed_precondition(format!(
            "{keeper} keeps house for all servers; give this command there"
        )))
    }

    /// Has nobody else have `what` until what is returned is dropped; `None` while somebody has.
    pub(crate) fn try_have(self: &Arc<Self>, what: &str) -> Result<Option<Having>, Status> {
        if !self.having().insert(what.to_owned()) {
            return Ok(None);
        }
        // From here on it is let go of.
        let having = Having { core: Arc::clone(self), what: what.to_owned() };
        let has = self.fleet.as_ref().map_or(Ok(true), |fleet| fleet.try_have(what));
        let has = has.map_err(|error| refusal::catalog(&error))?;
        Ok(has.then_some(having))
    }

    /// Lets go of it.
    pub(crate) fn let_go(&self, what: &str) {
        if let Some(fleet) = &self.fleet {
            fleet.let_go(what);
        }
        // Last: who has it next here must not lose it again.
        self.having().remove(what);
    }

    /// Lets go of what nobody here has any more: the database did not answer when it should have
    /// heard.
    fn release_forgotten(&self, fleet: &Fleet) -> Result<(), CatalogError> {
        for what in fleet.postgres.had()? {
            // Nobody takes it between.
            let having = self.having();
            if !having.contains(&what) {
                fleet.postgres.let_go(&what)?;
            }
        }
        Ok(())
    }

    /// Says to all servers that what nothing names may go.
    pub(crate) fn release(&self) -> Result<(), CatalogError> {
        self.fleet.as_ref().map_or(Ok(()), |fleet| fleet.postgres.hold(false))
    }

    /// Says what this server fills and reads, and takes in what others have done. Fails with
    /// `Fenced` where they take it for dead. A server does so before it serves, and then again and
    /// again.
    pub(crate) fn beat(&self) -> Result<(), CatalogError> {
        let Some(fleet) = &self.fleet else { return Ok(()) };
        let before = fleet.roll();
        self.catch_up()?;
        self.note_indexed(fleet, &before);
        let is_idle = self.users.first_filled().is_none();
        let standing = self.pools.standing(is_idle);
        // In this order: who fills from now on takes numbers anew.
        let filled = self.users.first_filled();
        let beat = Beat {
            horizon: standing.horizon.into_iter().chain(filled).min(),
            numbers_end: standing.numbers_end,
            generation: self.users.oldest_generation(),
            sessions: self.backups(),
        };
        fleet.beat(&beat)?;
        let now = fleet.roll();
        if self.recovered.swap(now.is_held, Ordering::Relaxed) && !now.is_held {
            recovery::forget_hold(&self.folder);
        }
        let is_new =
            before.keeper().is_none_or(|keeper| keeper.id != fleet.id) && fleet.keeps_house();
        if is_new {
            tracing::info!("this server keeps house now");
        }
        let is_gone = |id: u64| now.servers.iter().all(|server| server.id != id);
        if is_new || before.servers.iter().any(|server| is_gone(server.id)) {
            fleet.has_left_behind.store(true, Ordering::Relaxed);
        }
        self.release_forgotten(fleet)?;
        self.follow_pools(fleet)
    }

    /// Has the pools be those of the catalogue, whichever server has changed them.
    fn follow_pools(&self, fleet: &Fleet) -> Result<(), CatalogError> {
        let rows = self.catalog.pools()?;
        if fleet.state().pools == rows {
            return Ok(());
        }
        match pools::reload(self) {
            Ok(()) => fleet.state().pools = rows,
            Err(status) => tracing::warn!(error = status.message(), "pools are as they were"),
        }
        Ok(())
    }

    /// Takes in what has become of packs.
    pub(crate) fn catch_up(&self) -> Result<(), CatalogError> {
        let Some(fleet) = &self.fleet else { return Ok(()) };
        let mut position = fleet.position.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = fleet.postgres.pack_changes(*position)?;
        let is_news = |condemned: &Condemned| {
            changes.generation != condemned.generation
                || changes.packs.iter().any(|(pack, row)| !condemned.agrees(*pack, row.as_ref()))
        };
        let has_news = is_news(&self.condemned());
        let mut gone = BTreeSet::new();
        if has_news {
            // Waits for the commits that go on. Asked again: this server may have condemned some.
            let lock = &self.condemned;
            let mut condemned = lock.write().unwrap_or_else(PoisonError::into_inner);
            changes = fleet.postgres.pack_changes(*position)?;
            for (pack, row) in &changes.packs {
                if condemned.take_in(*pack, row.as_ref()) {
                    gone.insert(*pack);
                }
            }
            condemned.generation = changes.generation;
        }
        self.users.know(changes.generation);
        *position = changes.position;
        drop(position);
        for (pack, row) in &changes.packs {
            match row {
                None => self.pools.forget(*pack),
                Some(row) if row.state == PackState::Sealed => self.meet(fleet, row),
                Some(_) => {}
            }
        }
        // An index that answers what is gone costs a look.
        if let Err(status) = self.forget_packs(&gone) {
            tracing::warn!(error = status.message(), "the chunk index cannot be written");
        }
        Ok(())
    }

    /// Has a pack of another server be one that can be read and named.
    fn meet(&self, fleet: &Fleet, row: &PackRow) {
        let is_usable = !self.condemned().holds(row.number);
        if is_usable && self.pools.learn(row.number, row.bytes) {
            fleet.unindexed().insert(row.number);
        }
    }

    /// Has the index answer what others have written; returns whether there was anything.
    pub(crate) fn index_others(&self) -> bool {
        let Some(fleet) = &self.fleet else { return false };
        let Some(pack) = fleet.unindexed().first().copied() else { return false };
        if !self.condemned().holds(pack) {
            self.index_again(&BTreeSet::from([pack]));
        }
        fleet.unindexed().remove(&pack);
        true
    }

    /// What all had told of when `roll` was heard has been taken in since.
    fn note_indexed(&self, fleet: &Fleet, roll: &Roll) {
        let first = fleet.unindexed().first().copied();
        let below = roll.horizon().min(first.unwrap_or(PackNumber(u64::MAX)));
        fleet.indexed.fetch_max(below.0, Ordering::Relaxed);
    }

    /// Up to where the index may say that it is complete.
    pub(crate) fn index_limit(&self, last: PackNumber) -> PackNumber {
        let fleet = self.fleet.as_ref();
        let limit = fleet.map(|fleet| fleet.indexed.load(Ordering::Relaxed).saturating_sub(1));
        limit.map_or(last, |limit| last.min(PackNumber(limit)))
    }

    /// The first pack that a server, this one or another, may still fill. Asked for behind the list
    /// of packs that it is held against.
    pub(crate) fn horizon(&self) -> Result<PackNumber, CatalogError> {
        let Some(fleet) = &self.fleet else {
            let (open, filled) = (self.pools.horizon(), self.users.first_filled());
            return Ok(filled.map_or(open, |filled| filled.min(open)));
        };
        // In this order: who fills from now on fills behind what was taken by then.
        let roll = fleet.postgres.roll()?;
        let others = roll.servers.iter().filter(|server| server.id != fleet.id);
        let theirs = others.filter_map(|server| server.horizon);
        let own = self.pools.standing(false).horizon.into_iter().chain(self.users.first_filled());
        Ok(theirs.chain(own).min().unwrap_or(roll.numbers_end))
    }

    /// Whether every other server has heard of all that was condemned up to `generation`, and none
    /// of them reads what it looked for before. Waits a little for that, where it `waits`.
    pub(crate) fn all_know(&self, generation: u64, waits: bool) -> Result<bool, Status> {
        let Some(fleet) = &self.fleet else { return Ok(true) };
        let began = sys::clock::monotonic();
        loop {
            let roll = fleet.postgres.roll().map_err(|error| refusal::catalog(&error))?;
            let mut others = roll.servers.iter().filter(|server| server.id != fleet.id);
            if others.all(|server| server.generation >= generation) {
                return Ok(true);
            }
            let is_over = began.elapsed() > PATIENCE || self.stopping.load(Ordering::Relaxed);
            if is_over || !waits {
                return Ok(false);
            }
            sys::clock::sleep(PAUSE);
        }
    }

    /// Where servers have ended, what they have left goes: uploads, and packs that nobody was told
    /// of.
    pub(crate) fn clear_up(&self) -> Result<(), CatalogError> {
        let Some(fleet) = &self.fleet else { return Ok(()) };
        let purged = fleet.state().purged;
        if purged.elapsed() > PURGE_PAUSE {
            fleet.postgres.forget_pack_changes()?;
            fleet.state().purged = sys::clock::monotonic();
        }
        if !fleet.has_left_behind.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        // Until it is done, whatever keeps it from that.
        let again = || fleet.has_left_behind.store(true, Ordering::Relaxed);
        let Ok(_tending) = self.tending.try_lock() else {
            again();
            return Ok(());
        };
        let listed = match self.pools.list_objects() {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(%error, "what dead servers have left stays for now");
                again();
                return Ok(());
            }
        };
        let horizon = fleet.postgres.roll().inspect_err(|_| again())?.horizon();
        self.pools.end_orphans(Some(horizon));
        self.condemn_unknown(listed.into_iter().filter(|(pack, _)| *pack < horizon))
            .inspect_err(|_| again())
    }

    /// Says that this server serves no more.
    pub(crate) fn leave(&self) {
        let Some(fleet) = &self.fleet else { return };
        fleet.pulse.is_over.store(true, Ordering::Relaxed);
        if let Err(error) = fleet.postgres.leave() {
            tracing::warn!(error = model::chain(&error), "others find out by themselves");
        }
    }
}

impl Condemned {
    /// Whether it says of the pack what its row does.
    fn agrees(&self, pack: PackNumber, row: Option<&PackRow>) -> bool {
        match row.map(|row| row.state) {
            None => self.gone.contains(&pack),
            Some(PackState::Condemned) => self.packs.contains_key(&pack),
            Some(PackState::Damaged) => {
                self.damaged.contains(&pack) && !self.packs.contains_key(&pack)
            }
            Some(PackState::Open | PackState::Sealed) => !self.holds(pack),
        }
    }

    /// Takes in how the pack is now; whether nothing new may name it, and that is news.
    fn take_in(&mut self, pack: PackNumber, row: Option<&PackRow>) -> bool {
        let was_held = self.holds(pack);
        match row.map(|row| row.state) {
            None => {
                self.packs.remove(&pack);
                self.damaged.remove(&pack);
                self.gone.insert(pack);
            }
            Some(PackState::Condemned) => {
                self.packs.entry(pack).or_insert(None);
            }
            Some(PackState::Damaged) => {
                self.packs.remove(&pack);
                self.damaged.insert(pack);
            }
            Some(PackState::Open | PackState::Sealed) => {
                self.packs.remove(&pack);
                self.damaged.remove(&pack);
            }
        }
        !was_held && self.holds(pack)
    }
}

/// Something that nobody else has until this is dropped.
pub(crate) struct Having {
    core: Arc<Core>,
    what: String,
}

impl Drop for Having {
    fn drop(&mut self) {
        self.core.let_go(&self.what);
    }
}

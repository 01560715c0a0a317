//! The fleet: this server and the others that serve the same catalogue.
//!
//! ```text
//!                   +--> backups, restores: any server
//!   nodes --> all --+
//!                   +--> work that is done once: the server that keeps house
//! ```
//!
//! About once a second each server tells the database that it is alive, from a thread that waits
//! for nothing else. From another thread it tells which packs it fills and reads, and hears of the
//! other servers and of their packs. A pack that a server does not know yet costs a duplicate, or
//! the server asks for it when it needs it. Stored data does not depend on what servers hear:
//!
//! 1. A commit names no pack that another server has condemned: the database compares the
//!    generation of condemned packs with the one that this server knew when it resolved the places
//!    ([`catalog::Batches::commit_at`]).
//! 2. A condemned pack is removed after every server has heard that nothing names it any more, and
//!    after every reader there has ended that began before (`Users::oldest_generation`).
//! 3. A pack that the catalogue does not name is left alone while a server could still commit it
//!    ([`Roll::horizon`]).

pub(crate) mod index_share;
mod server;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use catalog::CatalogError;
use catalog::PoolRow;
use catalog::postgres::{Beat, Postgres, Roll, SILENCE};
use model::PackNumber;
use pool::{NumberSource, Numbers};
use sys::fault::EndsProcess;
use sys::lock::{Mutex, MutexGuard};

use crate::folder::config;
use crate::folder::error::OpenError;

pub use self::server::ServerSummary;

/// File in the server's folder with the identity by which the fleet knows it.
const PLACE_FILE: &str = "server.id";
/// Number of pack numbers that are taken from the database at once.
const NUMBERS_TAKEN: u32 = 256;
/// Interval between two heartbeats.
const PULSE_PAUSE: Duration = Duration::from_secs(1);
/// Interval after which old changes of packs are removed from the database.
pub(crate) const PURGE_PAUSE: Duration = Duration::from_secs(3600);
/// Silence after which a server may be dead: others wait for its claims.
const QUIET: Duration = Duration::from_millis(2500);
/// Interval between two looks of a thread that waits for other servers.
pub(crate) const PAUSE: Duration = Duration::from_millis(250);
/// Maximum time that a thread waits for other servers. By then a dead server is off the list.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The fleet as one of its servers sees it.
pub struct Fleet {
    pub(crate) postgres: Arc<Postgres>,
    /// This server's number.
    pub(crate) id: u64,
    state: Mutex<State>,
    /// Position in the list of changes of packs up to which this server has taken them in. Locked
    /// while it takes in more.
    position: Mutex<u64>,
    /// Packs of other servers that the chunk index lacks.
    unindexed: Mutex<BTreeSet<PackNumber>>,
    /// Number below which the index has all packs.
    pub(crate) indexed: AtomicU64,
    /// True from the end of a server until its unfinished packs and uploads are cleared up.
    pub(crate) has_left_behind: AtomicBool,
    pub(crate) pulse: Arc<Pulse>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.pulse.is_over.store(true, Ordering::Relaxed);
    }
}

pub(crate) struct State {
    pub(crate) roll: Roll,
    /// The pools as this server uses them.
    pub(crate) pools: Vec<PoolRow>,
    /// Numbers of the servers that were silent at the last beat.
    pub(crate) silent: Vec<u64>,
    /// Time of the last removal of old changes of packs.
    pub(crate) purged: Instant,
}

/// Result of the heartbeat thread.
pub(crate) struct Pulse {
    /// True once the server leaves the fleet: the thread ends.
    pub(crate) is_over: AtomicBool,
    /// True once the database has taken this server off the list.
    pub(crate) is_fenced: AtomicBool,
    heard: Mutex<Hearing>,
}

/// The time for which the database has heard this server without a gap.
struct Hearing {
    since: Instant,
    last: Instant,
}

impl Pulse {
    fn new() -> Self {
        let now = sys::clock::monotonic();
        Self {
            is_over: AtomicBool::new(false),
            is_fenced: AtomicBool::new(false),
            heard: Mutex::new(Hearing { since: now, last: now }),
        }
    }

    /// Notes a heartbeat that was begun at `began` and has arrived.
    fn note_heard(&self, began: Instant) {
        let mut heard = self.heard.lock();
        let now = sys::clock::monotonic();
        let has_gap = now.duration_since(heard.last) > SILENCE / 3;
        if has_gap || now.duration_since(began) > SILENCE / 3 {
            heard.since = now;
        }
        heard.last = now;
        debug_assert!(heard.since <= heard.last, "a gap ends before the last heartbeat");
    }

    /// Time for which the server was heard without a gap.
    fn steady(&self) -> Duration {
        let heard = self.heard.lock();
        heard.last.duration_since(heard.since)
    }
}

/// Address at which nodes reach a server that listens at `listen`, as far as the server can tell.
pub(crate) fn shown(listen: &str) -> String {
    let everywhere = ["0.0.0.0:", "[::]:"].iter().find_map(|all| listen.strip_prefix(all));
    everywhere.map_or_else(|| listen.to_owned(), |port| format!("{}:{port}", sys::net::host_name()))
}

impl Fleet {
    /// Enters the server in `folder` into the fleet. Returns `None` while somebody has the
    /// catalogue alone.
    pub fn enter(
        postgres: &Arc<Postgres>,
        folder: &Path,
        listen: &str,
    ) -> Result<Option<Self>, OpenError> {
        let unusable = |source| OpenError::File { path: folder.to_owned(), source };
        let place = config::identity(folder, PLACE_FILE).map_err(unusable)?;
        let version = env!("CARGO_PKG_VERSION");
        let Some(id) = postgres.enter(&place, &shown(listen), version)? else { return Ok(None) };
        // Read before the packs: changes that come meanwhile are taken in again.
        let position = Mutex::new(postgres.pack_position()?);
        let pulse = Arc::new(Pulse::new());
        // Started now, because opening the server may take long.
        let (thread_pulse, thread_postgres) = (Arc::clone(&pulse), Arc::clone(postgres));
        std::thread::Builder::new()
            .name("pulse".to_owned())
            .spawn(move || {
                let _guard = EndsProcess;
                Self::beat_on(&thread_postgres, &thread_pulse);
            })
            .map_err(unusable)?;
        let state = State {
            roll: Roll::empty(),
            pools: Vec::new(),
            silent: Vec::new(),
            purged: sys::clock::monotonic(),
        };
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

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Position in the list of changes of packs. The guard keeps other threads from taking in more.
    pub(crate) fn position(&self) -> MutexGuard<'_, u64> {
        self.position.lock()
    }

    pub(crate) fn unindexed(&self) -> MutexGuard<'_, BTreeSet<PackNumber>> {
        self.unindexed.lock()
    }

    /// A source of pack numbers that no other server gets.
    pub fn numbers(&self) -> Numbers {
        let postgres = Arc::clone(&self.postgres);
        let take: NumberSource = Arc::new(move || {
            postgres.take_pack_numbers(NUMBERS_TAKEN).map_err(std::io::Error::other)
        });
        Numbers::Shared(take)
    }

    /// Makes the next pack number follow `last`. A database that was restored from a backup would
    /// otherwise give numbers again that packs have already.
    pub fn pass(&self, last: PackNumber) -> Result<(), CatalogError> {
        self.postgres.pass_pack_number(last)
    }

    /// All servers, as this one heard of them last.
    pub(crate) fn roll(&self) -> Roll {
        self.state().roll.clone()
    }

    /// True while this server keeps house.
    pub(crate) fn keeps_house(&self) -> bool {
        self.state().roll.keeper().is_some_and(|keeper| keeper.id == self.id)
    }

    /// Sends heartbeats until the server leaves the fleet or is taken off the list.
    fn beat_on(postgres: &Postgres, pulse: &Pulse) {
        while !pulse.is_over.load(Ordering::Relaxed) {
            let began = sys::clock::monotonic();
            match postgres.say_alive() {
                Ok(()) => pulse.note_heard(began),
                Err(CatalogError::Fenced) => return pulse.is_fenced.store(true, Ordering::Relaxed),
                Err(error) => {
                    let error = model::chain(&error);
                    tracing::warn!(error, "a heartbeat did not reach the database");
                }
            }
            sys::clock::sleep(PULSE_PAUSE);
        }
    }

    /// Tells what this server fills and reads, and takes dead servers off the list.
    pub(crate) fn beat(&self, beat: &Beat) -> Result<(), CatalogError> {
        if self.pulse.is_fenced.load(Ordering::Relaxed) {
            return Err(CatalogError::Fenced);
        }
        let mut roll = self.postgres.beat(beat)?;
        let silent = roll.servers.iter().filter(|server| server.silent > SILENCE);
        let silent: Vec<u64> = silent.map(|server| server.id).collect();
        // A server counts as dead after two looks at which it was silent, and only for a server
        // that was heard itself all the time between them: otherwise the database was away.
        let dead: Vec<u64> = {
            let mut state = self.state();
            let was_silent = std::mem::replace(&mut state.silent, silent.clone());
            let is_dead = |id: &u64| self.pulse.steady() >= SILENCE && was_silent.contains(id);
            silent.into_iter().filter(is_dead).collect()
        };
        debug_assert!(!dead.contains(&self.id), "this server has just beaten");
        if roll.keeper().is_none() || !dead.is_empty() {
            match self.postgres.tidy(&dead) {
                Ok(0) => {}
                Ok(gone) => tracing::warn!(gone, "silent servers were taken off the list"),
                Err(CatalogError::Fenced) => return Err(CatalogError::Fenced),
                // The next beat tries again.
                Err(error) => {
                    let error = model::chain(&error);
                    tracing::warn!(error, "dead servers stay on the list for now");
                }
            }
            roll = self.postgres.roll()?;
        }
        self.state().roll = roll;
        Ok(())
    }

    /// Claims `name` for this server; returns false while another server has it. Waits for a holder
    /// that may be dead.
    pub(crate) fn try_claim(&self, name: &str) -> Result<bool, CatalogError> {
        let began = sys::clock::monotonic();
        loop {
            let holder = self.postgres.try_reserve(name)?;
            let is_quiet = {
                let servers = &self.state().roll.servers;
                let other = servers.iter().find(|server| server.id == holder);
                other.is_none_or(|other| other.silent > QUIET)
            };
            if holder == self.id || !is_quiet || began.elapsed() > PATIENCE {
                return Ok(holder == self.id);
            }
            sys::clock::sleep(PAUSE);
        }
    }

    pub(crate) fn release_claim(&self, name: &str) {
        // On a failure `Claims::release_forgotten` releases it later.
        if let Err(error) = self.postgres.release(name) {
            tracing::warn!(name, error = model::chain(&error), "a claim is released later");
        }
    }
}

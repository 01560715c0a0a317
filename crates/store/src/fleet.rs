//! The fleet: this server and the others that serve the same catalogue.
//!
//! ```text
//!                   +--> backups, restores: any server
//!   nodes --> all --+
//!                   +--> work that is done once: the server that keeps house
//! ```
//!
//! About once a second each server tells the database that it is alive. The thread that does so
//! waits for nothing else. Another thread reports which packs the server fills and reads, and takes
//! in the reports of the other servers. If a server does not know a pack yet, it may store a chunk
//! twice, or it looks the pack up when it needs it. Late reports do not endanger stored data:
//!
//! 1. A commit names no pack that another server has condemned: the database compares the
//!    generation of condemned packs with the generation that this server knew when it resolved the
//!    places ([`catalog::Batches::commit_at`]).
//! 2. A condemned pack is removed only after every server knows that nothing names it any more, and
//!    has no reader left that began before it knew this (`Users::oldest_generation`).
//! 3. A pack that the catalogue does not name is not touched while a server could still commit it
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
use sys::fault::ProcessEnd;
use sys::lock::{Mutex, MutexGuard};

use crate::folder::config;
use crate::folder::error::OpenError;

pub use self::server::ServerSummary;

/// File in the server's folder that has the identity of the server in the fleet.
const PLACE_FILE: &str = "server.id";
/// Number of pack numbers that are taken from the database at once.
const NUMBERS_TAKEN: u32 = 256;
/// Interval between two heartbeats.
const PULSE_PAUSE: Duration = Duration::from_secs(1);
/// Interval after which old changes of packs are removed from the database.
pub(crate) const PURGE_PAUSE: Duration = Duration::from_secs(3600);
/// Duration of silence after which a server may be dead. Other servers then wait for its claims.
const QUIET: Duration = Duration::from_millis(2500);
/// Interval between two checks by a thread that waits for other servers.
pub(crate) const PAUSE: Duration = Duration::from_millis(250);
/// Maximum time that a thread waits for other servers. A dead server is off the list by then.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The fleet as one of its servers sees it.
pub struct Fleet {
    pub(crate) postgres: Arc<Postgres>,
    /// This server's number.
    pub(crate) id: u64,
    state: Mutex<State>,
    /// Position in the list of pack changes up to which this server has taken in the changes. The
    /// position is locked while the server takes in further changes.
    position: Mutex<u64>,
    /// Packs of other servers that the chunk index lacks.
    unindexed: Mutex<BTreeSet<PackNumber>>,
    /// Pack number below which the index has all packs.
    pub(crate) indexed: AtomicU64,
    pub(crate) pulse: Arc<Pulse>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.pulse.is_over.store(true, Ordering::Relaxed);
    }
}

pub(crate) struct State {
    pub(crate) roll: Roll,
    /// Rows of the pools as this server uses them.
    pub(crate) pools: Vec<PoolRow>,
    /// Numbers of the servers that were silent at the last report of this server.
    pub(crate) silent: Vec<u64>,
    /// Time of the last removal of old changes of packs.
    pub(crate) purged: Instant,
}

/// Result of the heartbeat thread.
pub(crate) struct Pulse {
    /// True once the server leaves the fleet. The heartbeat thread then ends.
    pub(crate) is_over: AtomicBool,
    /// True once the database has taken this server off the list.
    pub(crate) is_fenced: AtomicBool,
    heard: Mutex<ContactTime>,
}

/// Period in which the heartbeats of this server reached the database without a gap.
struct ContactTime {
    since: Instant,
    last: Instant,
}

impl Pulse {
    fn new() -> Self {
        let now = sys::clock::monotonic();
        Self {
            is_over: AtomicBool::new(false),
            is_fenced: AtomicBool::new(false),
            heard: Mutex::new(ContactTime { since: now, last: now }),
        }
    }

    /// Notes that a heartbeat, which was begun at `began`, has reached the database.
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

    /// Returns the time for which heartbeats have reached the database without a gap.
    fn steady(&self) -> Duration {
        let heard = self.heard.lock();
        heard.last.duration_since(heard.since)
    }
}

/// Returns the address at which nodes reach a server that listens at `listen`, as far as the server
/// can tell.
pub(crate) fn shown(listen: &str) -> String {
    let everywhere = ["0.0.0.0:", "[::]:"].iter().find_map(|all| listen.strip_prefix(all));
    everywhere.map_or_else(|| listen.to_owned(), |port| format!("{}:{port}", sys::net::host_name()))
}

impl Fleet {
    /// Enters the server in `folder` into the fleet. Returns `None` while another process has the
    /// catalogue for itself.
    pub fn enter(
        postgres: &Arc<Postgres>,
        folder: &Path,
        listen: &str,
    ) -> Result<Option<Self>, OpenError> {
        let unusable = |source| OpenError::File { path: folder.to_owned(), source };
        let place = config::identity(folder, PLACE_FILE).map_err(unusable)?;
        let version = env!("CARGO_PKG_VERSION");
        let Some(id) = postgres.enter(&place, &shown(listen), version)? else { return Ok(None) };
        // The position is read before the packs, so that no change in between is missed.
        let position = Mutex::new(postgres.pack_position()?);
        let pulse = Arc::new(Pulse::new());
        // The heartbeats start now, because opening the server may take long.
        let (thread_pulse, thread_postgres) = (Arc::clone(&pulse), Arc::clone(postgres));
        std::thread::Builder::new()
            .name("pulse".to_owned())
            .spawn(move || {
                let _guard = ProcessEnd;
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

    /// Returns a source of pack numbers that no other server gets.
    pub fn numbers(&self) -> Numbers {
        let postgres = Arc::clone(&self.postgres);
        let take: NumberSource = Arc::new(move || {
            postgres.take_pack_numbers(NUMBERS_TAKEN).map_err(std::io::Error::other)
        });
        Numbers::Shared(take)
    }

    /// Makes the next pack number higher than `last`. Otherwise a database that was restored from a
    /// backup would give numbers that packs already have.
    pub fn pass(&self, last: PackNumber) -> Result<(), CatalogError> {
        self.postgres.pass_pack_number(last)
    }

    /// Returns the list of all servers, as this server read it last.
    pub(crate) fn roll(&self) -> Roll {
        self.state().roll.clone()
    }

    /// Returns true while this server keeps house.
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

    /// Reports the packs that this server fills and reads, and takes dead servers off the list.
    pub(crate) fn beat(&self, beat: &Beat) -> Result<(), CatalogError> {
        if self.pulse.is_fenced.load(Ordering::Relaxed) {
            return Err(CatalogError::Fenced);
        }
        let mut roll = self.postgres.beat(beat)?;
        let silent = roll.servers.iter().filter(|server| server.silent > SILENCE);
        let silent: Vec<u64> = silent.map(|server| server.id).collect();
        // A server counts as dead if it was silent at two reports in a row, and if the database
        // heard this server all the time in between. Otherwise the database may have been
        // unavailable.
        let dead: Vec<u64> = {
            let mut state = self.state();
            let was_silent = std::mem::replace(&mut state.silent, silent.clone());
            let is_dead = |id: &u64| self.pulse.steady() >= SILENCE && was_silent.contains(id);
            silent.into_iter().filter(is_dead).collect()
        };
        debug_assert!(!dead.contains(&self.id), "this server has just reported to the database");
        if roll.keeper().is_none() || !dead.is_empty() {
            match self.postgres.tidy(&dead) {
                Ok(0) => {}
                Ok(gone) => tracing::warn!(gone, "silent servers were taken off the list"),
                Err(CatalogError::Fenced) => return Err(CatalogError::Fenced),
                // The next report tries again.
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

    /// Claims `name` for this server. Returns false if another server has it. Waits while the other
    /// server may be dead, at most `PATIENCE`.
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
        // After a failure, `Claims::release_forgotten` releases the claim later.
        if let Err(error) = self.postgres.release(name) {
            let error = model::chain(&error);
            tracing::warn!(name, error, "a claim cannot be released now; it is released later");
        }
    }
}

//! The engine: transactions over the free list of connections.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use model::{FilespaceId, ServerTime};
use sys::lock::{Mutex, MutexGuard};

use super::connect::Connector;
use super::connections::{Connections, PATIENCE};
use super::membership::{NO_SERVER, Terms};
use super::session::{Abort, Attempt, Session, TransactionId, WriterLock};
use super::{batch, pages, schema};
use crate::commit_times::CommitMeter;
use crate::move_state::mark_left;
use crate::sql::{Engine, Sql, params};
use crate::{CatalogError, CommitError, CommitTimes, MoveState, PageKey, PageRow, Write};

/// Maximum number of attempts at a transaction that the database aborts.
const TRIES_MAX: usize = 20;

/// A catalogue in a PostgreSQL database; see `fleet` for servers that share it.
pub struct Postgres {
    pub(super) connections: Connections,
    /// Connection that holds the lock of the catalogue's users.
    claim: Mutex<Option<Session>>,
    /// This server's number in the list, or [`NO_SERVER`], or [`super::membership::GONE`].
    pub(super) server: AtomicI64,
    meter: CommitMeter,
}

impl Postgres {
    /// The connection that holds the lock of the catalogue's users. Others wait until the guard is
    /// dropped.
    pub(super) fn claim(&self) -> MutexGuard<'_, Option<Session>> {
        self.claim.lock()
    }

    /// Opens the catalogue at `url`, `postgres://USER@HOST/DATABASE?...`; an empty database becomes
    /// a new catalogue. Fails with `Unusable` for a URL that names no database.
    pub fn open(url: &str) -> Result<Self, CatalogError> {
        let connector = Connector::new(url).map_err(|error| {
            CatalogError::Unusable(format!(
                "its URL names no usable database: {}",
                model::chain(&error)
            ))
        })?;
        let postgres = Self {
            connections: Connections::new(connector),
            claim: Mutex::default(),
            server: AtomicI64::new(NO_SERVER),
            meter: CommitMeter::default(),
        };
        postgres.transact(WriterLock::Exclusive, &mut |session| schema::migrate(session))?;
        Ok(postgres)
    }

    /// Marks the catalogue as moved away by the move `number`. Fails with `Fenced` if a server is
    /// in the list.
    pub fn leave_alone(&self, number: i64) -> Result<(), CatalogError> {
        self.transact(WriterLock::Exclusive, &mut |session| {
            if (session as &dyn Sql).exists("SELECT 1 FROM server", &[])? {
                return Err(CatalogError::Fenced);
            }
            mark_left(session, number)
        })
    }

    /// Returns the state of the catalogue in a move.
    pub fn standing(&self) -> Result<MoveState, CatalogError> {
        self.retry(MoveState::read)
    }

    /// Runs `query` on the catalogue, as it is at one moment.
    pub(crate) fn look_at<T>(
        &self,
        query: &mut dyn FnMut(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.connections.with(PATIENCE, |session| {
            session.command("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")?;
            let answer = query(session);
            // The transaction has written nothing: its end makes no difference.
            drop(session.command("ROLLBACK"));
            answer
        })?
    }

    /// Performs `work` while nobody else writes.
    pub(crate) fn write_into<T>(
        &self,
        work: &mut dyn FnMut(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.transact(WriterLock::Exclusive, &mut |session| {
            // The connection may be idle while the work reads from another place. This blocks no
            // other writer, because there is none.
            session.command("SET LOCAL idle_in_transaction_session_timeout = 0")?;
            work(session)
        })
    }

    /// Returns this server's number in the list of servers.
    pub(super) fn server_id(&self) -> i64 {
        self.server.load(Ordering::SeqCst)
    }

    /// Performs `work` as one transaction of this server. Fails with `Fenced` if the server is not
    /// in the list.
    pub(super) fn transact<T>(
        &self,
        locking: WriterLock,
        work: &mut dyn FnMut(&Session) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.begin_until_ended(&mut |session| {
            let mut value = None;
            let server = self.server_id();
            let terms = (server != NO_SERVER).then_some(Terms { server, generation: None });
            let ended = session.transact(locking, terms, &mut |session| {
                value = Some(work(session)?);
                Ok(())
            });
            Attempt { value, ended }
        })
    }

    /// Performs a batch as one transaction of this server. Returns false, and writes nothing, if
    /// there are condemnations after `generation`.
    fn transact_batch(
        &self,
        generation: Option<u64>,
        writes: &[Write],
    ) -> Result<bool, CatalogError> {
        if writes.is_empty() {
            return Ok(true);
        }
        self.begin_until_ended(&mut |session| {
            let terms = Terms { server: self.server_id(), generation };
            batch::perform(session, terms, writes)
        })
    }

    /// Makes attempts at a transaction until the database does not abort it, and counts the time.
    fn begin_until_ended<T>(
        &self,
        attempt: &mut dyn FnMut(&Session) -> Attempt<T>,
    ) -> Result<T, CatalogError> {
        let began = sys::clock::monotonic();
        let performed = self.until_ended(attempt);
        self.meter.count(began, &performed);
        performed
    }

    /// Makes attempts at a transaction until the database does not abort it.
    fn until_ended<T>(
        &self,
        attempt: &mut dyn FnMut(&Session) -> Attempt<T>,
    ) -> Result<T, CatalogError> {
        let lost = || CatalogError::Away("its last answer was lost".to_owned());
        let mut tries = 0;
        loop {
            tries += 1;
            assert!(tries <= TRIES_MAX, "the last try returns");
            let Attempt { value, ended } =
                self.connections.with(PATIENCE, |session| attempt(session))?;
            match ended {
                Ok(()) => return value.ok_or_else(lost),
                Err(Abort::Failed(error)) => return Err(error),
                Err(Abort::Again(error)) if tries >= TRIES_MAX => return Err(error),
                Err(Abort::Again(_)) => {}
                Err(Abort::Unknown(transaction)) => {
                    if self.has_committed(transaction)? {
                        return value.ok_or_else(lost);
                    }
                    if tries >= TRIES_MAX {
                        return Err(lost());
                    }
                }
            }
        }
    }

    /// Returns true if the transaction is durable. Waits for the end of a transaction that is still
    /// running.
    fn has_committed(&self, transaction: TransactionId) -> Result<bool, CatalogError> {
        let ask = "INSERT INTO settled VALUES(?, 0, ?)
                   ON CONFLICT(slot) DO UPDATE SET value = settled.value RETURNING value";
        // The connection that asks may be lost too.
        self.retry(|sql| {
            let values = params![transaction.slot, sys::clock::system().0];
            let last: i64 = sql.one(ask, values, |row| row.get(0))?;
            Ok(last >= transaction.number)
        })
    }

    /// Performs `work`, each statement of which is a transaction of its own and may be performed
    /// twice. Waits a bounded time for a database that does not answer.
    pub(super) fn retry<T>(
        &self,
        mut work: impl FnMut(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.retry_on(|session| work(session))
    }

    /// Does the same as [`Self::retry`] for work with a connection.
    fn retry_on<T>(
        &self,
        mut work: impl FnMut(&Session) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let began = sys::clock::monotonic();
        loop {
            let done = self.connections.with(PATIENCE, &mut work)?;
            if !matches!(done, Err(CatalogError::Away(_))) || began.elapsed() >= PATIENCE {
                return done;
            }
        }
    }
}

impl Engine for Postgres {
    fn pages_at(
        &self,
        filespace: FilespaceId,
        keys: &[PageKey],
    ) -> Result<Vec<PageRow>, CatalogError> {
        self.retry_on(|session| pages::pages_at(session, filespace, keys))
    }

    fn read<T>(
        &self,
        query: impl FnMut(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.retry(query)
    }

    fn write<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&dyn Sql) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        self.transact(WriterLock::Exclusive, &mut |session| work(session))
    }

    fn commit(&self, writes: Vec<Write>) -> Result<(), CatalogError> {
        let is_current = self.transact_batch(None, &writes)?;
        assert!(is_current, "the batch does not depend on condemnations");
        Ok(())
    }

    fn commit_at(&self, generation: u64, writes: Vec<Write>) -> Result<(), CommitError> {
        let is_current = self.transact_batch(Some(generation), &writes)?;
        if is_current { Ok(()) } else { Err(CommitError::Stale) }
    }

    /// Writes the copy as an SQLite file: a restored server needs nothing else.
    fn copy_to(&self, path: &Path) -> Result<(), CatalogError> {
        self.look_at(&mut |session| crate::sqlite::write_copy(path, session))
    }

    /// A database on this machine, at this machine's address or at a socket, has the same clock.
    fn database_time(&self) -> Result<Option<ServerTime>, CatalogError> {
        let select = "SELECT CASE WHEN inet_server_addr() IS DISTINCT FROM inet_client_addr()
                        THEN CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT) END";
        let time: Option<i64> = self.read(|sql| sql.one(select, params![], |row| row.get(0)))?;
        Ok(time.map(ServerTime))
    }

    fn commit_times(&self) -> CommitTimes {
        self.meter.times()
    }
}

//! PostgreSQL, or a database that speaks its protocol: for several servers over one catalogue.
//!
//! Whoever reads or writes takes a connection from a free list. The connections are driven by
//! threads of their own; callers wait for their answers as they would for a disk.
//!
//! 1. What [`Engine::write`] does is done by one at a time, and while no batch is being committed:
//!    it looks before it writes, and what it has seen must hold until it is done. Batches go on
//!    side by side. Both is an advisory lock of the transaction, taken alone or shared.
//! 2. A transaction that the database gives up, for a deadlock or because a connection is gone, is
//!    begun again from its beginning, by another connection. Each leaves a number in a row of its
//!    connection's: so whether one whose last answer was lost has become durable is asked there.
//!    (Numbers of the database's own do not do: one that was killed gives some of them again.)
//! 3. A database that does not answer is waited for, for a while; then callers are told.

mod batch;
mod block;
mod connect;
mod fleet;
mod pages;
mod schema;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_executor::block_on;
use futures_util::TryStreamExt as _;
use model::FilespaceId;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Statement};

use crate::relocate::{Standing, mark_left};
use crate::sql::{Columns, Engine, Row, Sql, ToValue, Value, Visit, params};
use crate::{CatalogError, PageKey, PageRow, Write};

use connect::Connector;
pub use connect::is_postgres;
pub use fleet::{Beat, PackChanges, Roll, SILENCE, ServerRow};

/// Connections at once at most.
const CONNECTIONS_MAX: usize = 32;
/// Of these, those that wait for whoever is told what they read: others must have some, or nobody
/// goes on where all listeners wait for something else first.
const TELLING_MAX: usize = CONNECTIONS_MAX / 2;
/// A transaction that the database gives up is begun again so often.
const TRIES: usize = 20;
/// A database that does not answer is asked again for so long, so often.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(250);
/// The advisory lock of the catalogue's writers: "holdfast" in ASCII.
const LOCK: i64 = i64::from_be_bytes(*b"holdfast");
/// The one that servers share for as long as they run.
const CLAIM: i64 = LOCK + 1;

/// A catalogue in a PostgreSQL database; see `fleet` for servers that have it in common.
pub struct Postgres {
    connector: Connector,
    pool: Mutex<Pool>,
    has_given: Condvar,
    /// Holds the lock that says that the catalogue is used.
    stay: Mutex<Option<Session>>,
    /// This server's number on the list; 0 of who is no server.
    server: AtomicI64,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Session>,
    /// Idle ones and those that somebody has.
    open: usize,
    /// Those that somebody has who tells what he reads while he reads it.
    telling: usize,
}

/// Ends the telling when it is dropped.
struct Telling<'a>(&'a Postgres);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.0.pool().telling -= 1;
        self.0.has_given.notify_all();
    }
}

/// What became of a statement that failed, as far as its caller may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failure {
    /// Others were before it: it may be begun again.
    Conflict,
    /// The connection is gone.
    Closed,
    /// It has waited for as long as it was to.
    Busy,
}

/// One connection.
struct Session {
    client: Client,
    statements: RefCell<HashMap<String, Statement>>,
    failure: Cell<Option<Failure>>,
    /// The row that says which of its transactions was the last to become durable.
    slot: [u8; 16],
    transactions: Cell<i64>,
}

/// Who else may write meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alone {
    Yes,
    /// Only if the others let go soon.
    Soon,
    No,
}

/// Why a transaction did not become durable.
enum Ended {
    /// It has done nothing, and may be begun again.
    Again(CatalogError),
    Failed(CatalogError),
    /// The transaction of this number, of the connection with this slot, has been told to commit,
    /// and nobody knows.
    Unknown([u8; 16], i64),
}

impl Postgres {
    /// Opens the catalogue at `url`, `postgres://USER@HOST/DATABASE?...`; an empty database becomes
    /// a new catalogue.
    pub fn open(url: &str) -> Result<Self, CatalogError> {
        let postgres = Self {
            connector: Connector::new(url)?,
            pool: Mutex::default(),
            has_given: Condvar::new(),
            stay: Mutex::default(),
            server: AtomicI64::new(0),
        };
        postgres.transact((Alone::Yes, None), &mut |session| schema::migrate(session))?;
        Ok(postgres)
    }

    /// Has `query` look at the catalogue as it is at one moment.
    pub(crate) fn look_at<T>(
        &self,
        query: &mut dyn FnMut(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.with(|session| {
            session.command("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")?;
            let answer = query(session);
            // It has written nothing: how it ends makes no difference.
            drop(session.command("ROLLBACK"));
            answer
        })?
    }

    /// Has `work` write while nobody else does.
    pub(crate) fn write_into<T>(
        &self,
        work: &mut dyn FnMut(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.transact((Alone::Yes, None), &mut |session| {
            // It waits for what it reads elsewhere, and holds up nobody: it is alone.
            session.command("SET LOCAL idle_in_transaction_session_timeout = 0")?;
            work(session)
        })
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that was not gone a moment ago; waits for one.
    fn take(&self, patience: Duration) -> Result<Session, CatalogError> {
        {
            let mut pool = self.pool();
            loop {
                while let Some(session) = pool.idle.pop() {
                    if !session.client.is_closed() {
                        return Ok(session);
                    }
                    pool.open -= 1;
                }
                if pool.open < CONNECTIONS_MAX {
                    pool.open += 1;
                    break;
                }
                pool = self.has_given.wait(pool).unwrap_or_else(PoisonError::into_inner);
            }
        }
        let made = self.connect(patience);
        if made.is_err() {
            self.pool().open -= 1;
            self.has_given.notify_all();
        }
        made
    }

    fn connect(&self, patience: Duration) -> Result<Session, CatalogError> {
        let began = sys::clock::monotonic();
        let mut is_told = false;
        loop {
            match self.connector.connect() {
                Ok(client) => return Ok(Session::new(client)),
                Err(error) if error.is_passing && began.elapsed() < patience => {
                    if !std::mem::replace(&mut is_told, true) {
                        let error = error.text;
                        tracing::warn!(error, "the catalogue's database does not answer");
                    }
                    sys::clock::sleep(PAUSE);
                }
                Err(error) => return Err(CatalogError::Away(error.text)),
            }
        }
    }

    /// Waits until one more may tell what he reads while he reads it.
    fn begin_telling(&self) -> Telling<'_> {
        let mut pool = self.pool();
        while pool.telling >= TELLING_MAX {
            pool = self.has_given.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
        pool.telling += 1;
        Telling(self)
    }

    fn give(&self, session: Session) {
        let mut pool = self.pool();
        if session.client.is_closed() {
            pool.open -= 1;
        } else {
            pool.idle.push(session);
        }
        drop(pool);
        self.has_given.notify_all();
    }

    /// Has a connection for `work`.
    fn with<T>(&self, work: impl FnOnce(&Session) -> T) -> Result<T, CatalogError> {
        self.with_within(PATIENCE, work)
    }

    /// The same, waiting no longer for a database that is away.
    fn with_within<T>(
        &self,
        patience: Duration,
        work: impl FnOnce(&Session) -> T,
    ) -> Result<T, CatalogError> {
        let session = self.take(patience)?;
        session.failure.set(None);
        let done = work(&session);
        self.give(session);
        Ok(done)
    }

    /// Performs `work` for this server; fails where packs were condemned since the generation that
    /// is given.
    fn transact<T>(
        &self,
        (alone, generation): (Alone, Option<u64>),
        work: &mut dyn FnMut(&Session) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut value = None;
            let ended = self.with(|session| {
                session.transact(alone, &mut |session| {
                    session.check(self.server.load(Ordering::SeqCst), generation)?;
                    value = Some(work(session)?);
                    Ok(())
                })
            })?;
            let unknown = || CatalogError::Away("its last answer was lost".to_owned());
            match ended {
                Ok(()) => return value.ok_or_else(unknown),
                Err(Ended::Failed(error)) => return Err(error),
                Err(Ended::Again(error)) if tries >= TRIES => return Err(error),
                Err(Ended::Again(_)) => {}
                Err(Ended::Unknown(slot, number)) => {
                    if self.has_committed(&slot, number)? {
                        return value.ok_or_else(unknown);
                    }
                    if tries >= TRIES {
                        return Err(unknown());
                    }
                }
            }
        }
    }

    /// Marks it as left by the move of this number. Fails with `Fenced` where somebody has entered.
    pub fn leave_alone(&self, number: i64) -> Result<(), CatalogError> {
        self.transact((Alone::Yes, None), &mut |session| {
            if (session as &dyn Sql).exists("SELECT 1 FROM server", &[])? {
                return Err(CatalogError::Fenced);
            }
            mark_left(session, number)
        })
    }

    /// What may be done with it.
    pub fn standing(&self) -> Result<Standing, CatalogError> {
        self.retried(Standing::read)
    }

    /// Whether the transaction of this number, of the connection with this slot, has become
    /// durable. Waits for one that still goes on.
    fn has_committed(&self, slot: &[u8; 16], number: i64) -> Result<bool, CatalogError> {
        let ask = "INSERT INTO settled VALUES(?, 0, ?)
                   ON CONFLICT(slot) DO UPDATE SET value = settled.value RETURNING value";
        // This connection may have been cut off too.
        self.retried(|sql| {
            let now = sys::clock::system().0;
            let last: i64 = sql.one(ask, params![slot, now], |row| row.get(0))?;
            Ok(last >= number)
        })
    }

    /// Performs statements of which each is whole by itself and may be performed twice; waits where
    /// the database is away.
    fn retried<T>(
        &self,
        mut work: impl FnMut(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let began = sys::clock::monotonic();
        loop {
            let done = self.with(|session| work(session))?;
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
        self.read(|sql| pages::pages_at(sql, filespace, keys))
    }

    fn read<T>(
        &self,
        query: impl FnMut(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.retried(query)
    }

    fn read_once<T>(
        &self,
        query: impl FnOnce(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let _telling = self.begin_telling();
        self.with(|session| query(session))?
    }

    fn write<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&dyn Sql) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        self.transact((Alone::Yes, None), &mut |session| work(session))
    }

    fn commit(&self, writes: Vec<Write>) -> Result<(), CatalogError> {
        if writes.is_empty() {
            return Ok(());
        }
        self.transact((Alone::No, None), &mut |session| batch::perform(session, &writes))
    }

    fn commit_at(&self, generation: u64, writes: Vec<Write>) -> Result<(), CatalogError> {
        if writes.is_empty() {
            return Ok(());
        }
        let expected = (Alone::No, Some(generation));
        self.transact(expected, &mut |session| batch::perform(session, &writes))
    }

    /// As SQLite's file: whoever makes a server again needs nothing else.
    fn copy_to(&self, path: &Path) -> Result<(), CatalogError> {
        self.look_at(&mut |session| crate::sqlite::write_copy(path, session))
    }
}

impl Session {
    fn new(client: Client) -> Self {
        Self {
            client,
            statements: RefCell::default(),
            failure: Cell::new(None),
            slot: sys::entropy::bytes(),
            transactions: Cell::new(0),
        }
    }

    /// Sorts an error by what the caller can do about it.
    fn failed(&self, error: &tokio_postgres::Error) -> CatalogError {
        let state = error.code();
        let text = error.as_db_error().map_or_else(|| model::chain(error), ToString::to_string);
        let is_shut = [
            &SqlState::ADMIN_SHUTDOWN,
            &SqlState::CRASH_SHUTDOWN,
            &SqlState::CANNOT_CONNECT_NOW,
            &SqlState::READ_ONLY_SQL_TRANSACTION,
        ];
        let is_conflict = [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED];
        let full = [&SqlState::DISK_FULL, &SqlState::OUT_OF_MEMORY];
        match state {
            None => {
                self.failure.set(Some(Failure::Closed));
                CatalogError::Away(text)
            }
            Some(state) if is_shut.contains(&state) || self.client.is_closed() => {
                self.failure.set(Some(Failure::Closed));
                CatalogError::Away(text)
            }
            Some(state) if is_conflict.contains(&state) => {
                self.failure.set(Some(Failure::Conflict));
                CatalogError::Database(text.into())
            }
            Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                self.failure.set(Some(Failure::Busy));
                CatalogError::Database(text.into())
            }
            Some(state) if full.contains(&state) => CatalogError::NoSpace,
            Some(&SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED) => {
                CatalogError::Damaged(text)
            }
            Some(_) => CatalogError::Database(text.into()),
        }
    }

    /// Has the transaction leave its number.
    fn settle(&self, number: i64) -> Result<(), CatalogError> {
        let put = "INSERT INTO settled VALUES(?, ?, ?)
                   ON CONFLICT(slot) DO UPDATE SET value = excluded.value,
                     changed = excluded.changed";
        let sql: &dyn Sql = self;
        sql.execute(put, params![self.slot, number, sys::clock::system().0]).map(drop)
    }

    /// Performs statements without parameters.
    fn command(&self, statements: &str) -> Result<(), CatalogError> {
        block_on(self.client.batch_execute(statements)).map_err(|error| self.failed(&error))
    }

    fn prepare(&self, statement: &str) -> Result<Statement, CatalogError> {
        if let Some(known) = self.statements.borrow().get(statement) {
            return Ok(known.clone());
        }
        let prepared = block_on(self.client.prepare(&numbered(statement)));
        let prepared = prepared.map_err(|error| self.failed(&error))?;
        self.statements.borrow_mut().insert(statement.to_owned(), prepared.clone());
        Ok(prepared)
    }

    fn transact(
        &self,
        alone: Alone,
        work: &mut dyn FnMut(&Self) -> Result<(), CatalogError>,
    ) -> Result<(), Ended> {
        let ended = |error| match self.failure.get() {
            Some(Failure::Closed | Failure::Conflict) => Ended::Again(error),
            Some(Failure::Busy) if alone == Alone::Yes => Ended::Again(error),
            Some(Failure::Busy) | None => Ended::Failed(error),
        };
        let (patience, shared) = match alone {
            Alone::Yes => ("0", ""),
            Alone::Soon => ("2s", ""),
            Alone::No => ("0", "_shared"),
        };
        // A server that stands still in the middle holds up all others: it is cut off.
        let begin = format!(
            "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '15s';
             SET LOCAL lock_timeout = '{patience}'; SELECT pg_advisory_xact_lock{shared}({LOCK})"
        );
        self.command(&begin).map_err(ended)?;
        let number = self.transactions.get() + 1;
        self.transactions.set(number);
        let worked = work(self).and_then(|()| self.settle(number));
        match worked {
            Err(error) => {
                let ended = ended(error);
                // One that cannot be rolled back ends with its connection.
                drop(self.command("ROLLBACK"));
                Err(ended)
            }
            Ok(()) => self.command("COMMIT").map_err(|error| match self.failure.get() {
                Some(Failure::Closed) => Ended::Unknown(self.slot, number),
                Some(Failure::Conflict) => Ended::Again(error),
                Some(Failure::Busy) | None => Ended::Failed(error),
            }),
        }
    }
}

/// The statement with parameters as PostgreSQL has them: `$1` and so on.
fn numbered(statement: &str) -> String {
    let mut text = String::with_capacity(statement.len() + 16);
    let mut last = 0;
    let mut letters = statement.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '?' {
            text.push(letter);
            continue;
        }
        text.push('$');
        if !letters.peek().is_some_and(char::is_ascii_digit) {
            last += 1;
            text.push_str(&last.to_string());
        }
    }
    text
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match (self, kind) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Integer(number), &Type::INT4) => i32::try_from(*number)?.to_sql(kind, out),
            (Value::Integer(number), &Type::INT8) => number.to_sql(kind, out),
            (Value::Bytes(bytes), &Type::BYTEA) => bytes.to_sql(kind, out),
            (Value::Text(text), &Type::TEXT) => text.to_sql(kind, out),
            (Value::TooLarge, _) => Err("a number is too large for the catalogue".into()),
            (value, kind) => Err(format!("{value:?} is no {kind}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl Columns for tokio_postgres::Row {
    fn value(&self, column: usize) -> Result<Value<'_>, CatalogError> {
        let kind = self.columns().get(column).map(tokio_postgres::Column::type_);
        let unfit = |error: tokio_postgres::Error| CatalogError::Damaged(model::chain(&error));
        Ok(match kind {
            Some(&Type::INT8) => self
                .try_get::<_, Option<i64>>(column)
                .map_err(unfit)?
                .map_or(Value::Null, Value::Integer),
            Some(&Type::BYTEA) => self
                .try_get::<_, Option<&[u8]>>(column)
                .map_err(unfit)?
                .map_or(Value::Null, Value::Bytes),
            Some(&Type::TEXT) => self
                .try_get::<_, Option<&str>>(column)
                .map_err(unfit)?
                .map_or(Value::Null, Value::Text),
            other => {
                return Err(CatalogError::Damaged(format!("column {column} is of {other:?}")));
            }
        })
    }
}

impl Sql for Session {
    fn execute(&self, statement: &str, values: &[&dyn ToValue]) -> Result<usize, CatalogError> {
        let statement = self.prepare(statement)?;
        let values: Vec<Value<'_>> = values.iter().map(|value| value.to_value()).collect();
        let parameters = values.iter().map(|value| value as &(dyn ToSql + Sync));
        let done = block_on(self.client.execute_raw(&statement, parameters));
        let rows = done.map_err(|error| self.failed(&error))?;
        Ok(usize::try_from(rows).unwrap_or(usize::MAX))
    }

    fn each(
        &self,
        statement: &str,
        values: &[&dyn ToValue],
        visit: Visit<'_>,
    ) -> Result<(), CatalogError> {
        let statement = self.prepare(statement)?;
        let values: Vec<Value<'_>> = values.iter().map(|value| value.to_value()).collect();
        let parameters = values.iter().map(|value| value as &(dyn ToSql + Sync));
        let rows = block_on(self.client.query_raw(&statement, parameters));
        let mut rows = Box::pin(rows.map_err(|error| self.failed(&error))?);
        while let Some(row) = block_on(rows.try_next()).map_err(|error| self.failed(&error))? {
            if !visit(&Row(&row))? {
                break;
            }
        }
        Ok(())
    }

    fn last_number(&self, table: &str, column: &str) -> Result<i64, CatalogError> {
        let select = format!(
            "SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END
             FROM {table}_{column}_seq"
        );
        (self as &dyn Sql).one(&select, &[], |row| row.get(0))
    }

    fn count_from(&self, table: &str, column: &str, last: i64) -> Result<(), CatalogError> {
        // Bulk rows come behind their filespaces, and find their partitions there.
        let last = if table == "filespace" { block::make_for_rows(self, last)? } else { last };
        // The first number is 1: told as if it had not been given yet.
        let (value, is_called) = if last > 0 { (last, "true") } else { (1, "false") };
        let select = format!("SELECT setval('{table}_{column}_seq', ?, {is_called})");
        (self as &dyn Sql).exists(&select, &[&value]).map(drop)
    }

    fn next_filespace(&self, domain: i64) -> Result<Option<i64>, CatalogError> {
        block::next_filespace(self, domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered() {
        assert_eq!(numbered("a = ? AND b = ?"), "a = $1 AND b = $2");
        assert_eq!(numbered("a = ?2 AND b = ?1 OR c = ?12"), "a = $2 AND b = $1 OR c = $12");
        assert_eq!(numbered("nothing"), "nothing");
    }
}

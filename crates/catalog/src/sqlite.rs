//! The embedded engine: one SQLite file in WAL mode with `synchronous=FULL`.
//!
//! One thread owns the writing connection. It takes all work that waits, performs each piece in a
//! savepoint unless it is the only one, and commits once: sessions share the cost of making a
//! commit durable. Readers take a connection from a free list and never wait for the writer.
//!
//! Bulk layout: page bodies are rows of a table by number, appended in the order of a first backup
//! and therefore dense; a narrow clustered table finds them by path; digests lie beside, by the
//! same number, so that reading all digests of a filespace reads nothing else.

mod schema;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql};

use crate::relocate::Standing;
use crate::sql::{Columns, Engine, Row, Sql, ToValue, Value, Visit, tables, write};
use crate::{CatalogError, Write};

/// Pieces of work that share one commit at most.
const GROUP_MAX: usize = 256;
/// Free reading connections kept at most.
const READERS_MAX: usize = 16;
/// Memory for database pages of the writing connection, in KiB.
const WRITER_CACHE_KIB: i64 = 64 << 10;
/// Memory for database pages of each reading connection, in KiB.
const READER_CACHE_KIB: i64 = 8 << 10;

/// A catalogue in one SQLite file.
pub struct Sqlite {
    path: PathBuf,
    work: Option<Sender<Piece>>,
    writer: Option<JoinHandle<()>>,
    readers: Mutex<Vec<Connection>>,
}

type Work = Box<dyn FnMut(&Connection) -> Result<(), CatalogError> + Send>;

struct Piece {
    work: Work,
    done: SyncSender<Result<(), CatalogError>>,
}

impl Sqlite {
    /// Opens the catalogue in the file `path`; an absent or empty file becomes a new catalogue.
    pub fn open(path: &Path) -> Result<Self, CatalogError> {
        let connection = Connection::open(path).map_err(database)?;
        prepare(&connection, WRITER_CACHE_KIB)?;
        schema::migrate(&connection)?;
        let (sender, receiver) = channel();
        let writer = std::thread::Builder::new()
            .name("catalogue".to_owned())
            .spawn(move || write_all(&connection, &receiver))
            .map_err(|error| CatalogError::Database(Box::new(error)))?;
        Ok(Self {
            path: path.to_owned(),
            work: Some(sender),
            writer: Some(writer),
            readers: Mutex::new(Vec::new()),
        })
    }

    /// What may be done with it.
    pub fn standing(&self) -> Result<Standing, CatalogError> {
        self.read(Standing::read)
    }

    /// Has the writer perform `work` and waits until it is durable.
    fn perform<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Connection) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        let (value_sender, value) = sync_channel(1);
        let (done_sender, done) = sync_channel(1);
        let work: Work = Box::new(move |connection| {
            let value = work(connection)?;
            // The receiver waits below: a failure means that its thread is gone with its answer.
            value_sender.send(value).map_err(|_| stopped())
        });
        let queue = self.work.as_ref().ok_or_else(stopped)?;
        queue.send(Piece { work, done: done_sender }).map_err(|_| stopped())?;
        done.recv().map_err(|_| stopped())??;
        value.recv().map_err(|_| stopped())
    }

    /// Runs `query` on a reading connection.
    fn look<T>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let free = self.free_readers().pop();
        let connection = match free {
            Some(connection) => connection,
            None => self.open_reader()?,
        };
        let answer = query(&connection)?;
        let mut readers = self.free_readers();
        if readers.len() < READERS_MAX {
            readers.push(connection);
        }
        Ok(answer)
    }

    fn free_readers(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.readers.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn open_reader(&self) -> Result<Connection, CatalogError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(database)?;
        prepare(&connection, READER_CACHE_KIB)?;
        Ok(connection)
    }
}

impl Engine for Sqlite {
    fn write<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&dyn Sql) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        self.perform(move |connection| work(connection))
    }

    fn commit(&self, writes: Vec<Write>) -> Result<(), CatalogError> {
        self.perform(move |connection| write::perform(connection, &writes))
    }

    fn read<T>(
        &self,
        mut query: impl FnMut(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.look(|connection| query(connection))
    }

    fn read_once<T>(
        &self,
        query: impl FnOnce(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.look(|connection| query(connection))
    }

    /// Page by page, so that what has not changed lies where it lay in the copy before.
    fn copy_to(&self, path: &Path) -> Result<(), CatalogError> {
        // It says what every node has.
        sys::durable::write(path, b"", 0o600)
            .map_err(|error| CatalogError::Database(Box::new(error)))?;
        let mut target = Connection::open(path).map_err(database)?;
        // Nobody needs a copy that a power cut has left.
        target.execute_batch("PRAGMA synchronous=OFF").map_err(database)?;
        self.look(|connection| {
            let copy = Backup::new(connection, &mut target).map_err(database)?;
            // One step: the copy is of the moment at which it begins, and writers go on meanwhile.
            match copy.step(-1).map_err(database)? {
                StepResult::Done => Ok(()),
                _ => Err(failed("the catalogue could not be copied; try again")),
            }
        })
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::TooLarge => {
                let reason = "a number is too large for the catalogue";
                return Err(rusqlite::Error::ToSqlConversionFailure(reason.into()));
            }
        }))
    }
}

impl Columns for rusqlite::Row<'_> {
    fn value(&self, column: usize) -> Result<Value<'_>, CatalogError> {
        Ok(match self.get_ref(column).map_err(database)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Blob(bytes) => Value::Bytes(bytes),
            ValueRef::Text(text) => Value::Text(std::str::from_utf8(text).map_err(|_| {
                CatalogError::Damaged(format!("column {column} of a row is no text"))
            })?),
            ValueRef::Real(_) => {
                return Err(CatalogError::Damaged(format!("column {column} is no number of ours")));
            }
        })
    }
}

impl Sql for Connection {
    fn execute(&self, statement: &str, values: &[&dyn ToValue]) -> Result<usize, CatalogError> {
        let values = values.iter().map(|value| value.to_value());
        let mut statement = self.prepare_cached(statement).map_err(database)?;
        statement.execute(rusqlite::params_from_iter(values)).map_err(database)
    }

    fn each(
        &self,
        statement: &str,
        values: &[&dyn ToValue],
        visit: Visit<'_>,
    ) -> Result<(), CatalogError> {
        let values = values.iter().map(|value| value.to_value());
        let mut statement = self.prepare_cached(statement).map_err(database)?;
        let mut rows = statement.query(rusqlite::params_from_iter(values)).map_err(database)?;
        while let Some(row) = rows.next().map_err(database)? {
            if !visit(&Row(row))? {
                break;
            }
        }
        Ok(())
    }

    fn last_number(&self, table: &str, _: &str) -> Result<i64, CatalogError> {
        let select = "SELECT seq FROM sqlite_sequence WHERE name = ?";
        let found = (self as &dyn Sql).first(select, &[&table], |row| row.get(0))?;
        Ok(found.unwrap_or(0))
    }

    fn count_from(&self, table: &str, _: &str, last: i64) -> Result<(), CatalogError> {
        let sql: &dyn Sql = self;
        sql.execute("DELETE FROM sqlite_sequence WHERE name = ?", &[&table])?;
        let insert = "INSERT INTO sqlite_sequence(name, seq) VALUES(?, ?)";
        sql.execute(insert, &[&table, &last]).map(drop)
    }

    fn next_filespace(&self, _: i64) -> Result<Option<i64>, CatalogError> {
        Ok(None)
    }
}

/// Writes all that `from` has into the new file `path`.
pub(crate) fn write_copy(path: &Path, from: &dyn Sql) -> Result<(), CatalogError> {
    // It says what every node has.
    sys::durable::write(path, b"", 0o600)
        .map_err(|error| CatalogError::Database(Box::new(error)))?;
    let target = Connection::open(path).map_err(database)?;
    // Nobody needs a copy that a power cut has left; and what is in order there, is here.
    target
        .execute_batch("PRAGMA synchronous=OFF; PRAGMA foreign_keys=OFF")
        .map_err(database)?;
    schema::migrate(&target)?;
    execute(&target, "BEGIN")?;
    tables::copy(from, &target, &mut |_, _| Ok(()))?;
    execute(&target, "COMMIT")
}

/// Has `query` look at the catalogue in the file `path` as it is at one moment.
pub(crate) fn look_at<T>(
    path: &Path,
    query: &mut dyn FnMut(&dyn Sql) -> Result<T, CatalogError>,
) -> Result<T, CatalogError> {
    let connection = Connection::open(path).map_err(database)?;
    prepare(&connection, WRITER_CACHE_KIB)?;
    schema::migrate(&connection)?;
    execute(&connection, "BEGIN")?;
    let answer = query(&connection)?;
    execute(&connection, "ROLLBACK")?;
    Ok(answer)
}

/// Has `work` write into the catalogue in the file `path`, as a whole or not at all, and whatever
/// order it has.
pub(crate) fn write_into<T>(
    path: &Path,
    work: &mut dyn FnMut(&dyn Sql) -> Result<T, CatalogError>,
) -> Result<T, CatalogError> {
    let connection = Connection::open(path).map_err(database)?;
    prepare(&connection, WRITER_CACHE_KIB)?;
    schema::migrate(&connection)?;
    execute(&connection, "PRAGMA foreign_keys=OFF; BEGIN IMMEDIATE")?;
    let answer = work(&connection)?;
    execute(&connection, "COMMIT")?;
    Ok(answer)
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // The last connection to close moves the log into the file, which a reader cannot do.
        self.free_readers().clear();
        drop(self.work.take());
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has failed its callers; there is nobody left to tell.
            drop(writer.join());
        }
    }
}

fn prepare(connection: &Connection, cache_kib: i64) -> Result<(), CatalogError> {
    connection.busy_timeout(std::time::Duration::from_secs(30)).map_err(database)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Else SQLite prepares a statement again for each value that a range begins with.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(database)?;
    let pragmas = format!(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;
         PRAGMA wal_autocheckpoint=4000; PRAGMA cache_size=-{cache_kib};"
    );
    connection.execute_batch(&pragmas).map_err(database)
}

/// The writing thread: until all senders are gone, commits what waits, group by group.
fn write_all(connection: &Connection, queue: &Receiver<Piece>) {
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        group.extend(queue.try_iter().take(GROUP_MAX - 1));
        write_group(connection, group);
    }
}

fn write_group(connection: &Connection, group: Vec<Piece>) {
    let is_alone = group.len() == 1;
    let mut waiting = group.into_iter();
    let mut performed = Vec::new();
    let mut committed = execute(connection, "BEGIN IMMEDIATE");
    while committed.is_ok()
        && let Some(mut piece) = waiting.next()
    {
        // In a savepoint SQLite writes down every page before it changes.
        let outcome =
            if is_alone { (piece.work)(connection) } else { in_savepoint(connection, piece.work) };
        if connection.is_autocommit() || (is_alone && outcome.is_err()) {
            // The transaction is gone or goes, and with it what the pieces before this one did.
            committed = Err(outcome.as_ref().err().map_or_else(stopped, same));
        }
        performed.push((piece.done, outcome));
    }
    if committed.is_ok() {
        committed = execute(connection, "COMMIT");
    }
    if !connection.is_autocommit() {
        // Nothing to do about a rollback that fails: the next BEGIN will say so.
        drop(execute(connection, "ROLLBACK"));
    }
    let untried = waiting.map(|piece| (piece.done, Ok(())));
    for (done, outcome) in performed.into_iter().chain(untried) {
        answer(&done, outcome.and_then(|()| committed.as_ref().copied().map_err(same)));
    }
}

/// Performs `work`, or nothing. When not even nothing can be had, the transaction is rolled back.
fn in_savepoint(connection: &Connection, mut work: Work) -> Result<(), CatalogError> {
    execute(connection, "SAVEPOINT piece")?;
    let outcome = work(connection).and_then(|()| execute(connection, "RELEASE piece"));
    if outcome.is_err() && execute(connection, "ROLLBACK TO piece; RELEASE piece").is_err() {
        // This fails too where SQLite has rolled back by itself, as it does without space.
        drop(execute(connection, "ROLLBACK"));
    }
    outcome
}

fn execute(connection: &Connection, sql: &str) -> Result<(), CatalogError> {
    connection.execute_batch(sql).map_err(database)
}

/// The same error for another caller.
fn same(error: &CatalogError) -> CatalogError {
    match error {
        CatalogError::NoSpace => CatalogError::NoSpace,
        CatalogError::Damaged(what) => CatalogError::Damaged(what.clone()),
        CatalogError::Database(source) => failed(&source.to_string()),
        error => failed(&error.to_string()),
    }
}

fn answer(done: &SyncSender<Result<(), CatalogError>>, outcome: Result<(), CatalogError>) {
    // A caller that no longer waits has no use for the outcome.
    drop(done.send(outcome));
}

fn stopped() -> CatalogError {
    failed("the catalogue's writer has stopped")
}

fn failed(reason: &str) -> CatalogError {
    CatalogError::Database(reason.into())
}

/// Sorts the database's errors by what the caller can do about them.
fn database(error: rusqlite::Error) -> CatalogError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            CatalogError::Damaged(error.to_string())
        }
        Some(ErrorCode::DiskFull) => CatalogError::NoSpace,
        _ => match error {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => {
                CatalogError::Damaged(error.to_string())
            }
            error => CatalogError::Database(Box::new(error)),
        },
    }
}

#[cfg(test)]
mod tests;

//! The embedded engine: one SQLite file in WAL mode with `synchronous=FULL`.
//!
//! One thread owns the writing connection. It takes all waiting pieces of work, performs each in a
//! savepoint (unless there is only one piece), and commits once: sessions share the cost of making
//! a commit durable. Readers take a connection from a free list and never wait for the writer.
//!
//! Bulk layout: page bodies are rows of a table by number, appended in the order of a first backup
//! and therefore dense. A narrow clustered table finds them by path. Digests are in a table of
//! their own, by the same number, so that reading all digests of a filespace reads nothing else.

mod database_error;
mod disk;
pub mod inspection;
mod schema;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use model::{FilespaceId, ServerTime};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, ToSql};
use sys::fault::ProcessEnd;
use sys::lock::{Mutex, MutexGuard};

use crate::commit_times::CommitMeter;
use crate::sql::{Columns, Engine, Row, RowVisitor, Sql, ToValue, Value, batches, pages, tables};
use crate::{
    CatalogError, CommitError, CommitTimes, MoveState, PageKey, PageRow, Write, statements,
};

use database_error::database;

/// Maximum number of pieces of work that share one commit.
const GROUP_MAX: usize = 256;
/// Maximum number of free reading connections.
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
    meter: CommitMeter,
}

/// The work of a piece, on the writing connection.
type Work = Box<dyn FnMut(&Connection) -> Result<(), CatalogError> + Send>;

/// The outcome of a piece, and the channel to its caller.
type Outcome = (SyncSender<Result<(), CatalogError>>, Result<(), CatalogError>);

/// A piece of work for the writing thread.
struct Piece {
    work: Work,
    /// Channel for the outcome, once it is durable.
    done: SyncSender<Result<(), CatalogError>>,
}

impl Sqlite {
    /// Opens the catalogue in the file `path`; an absent or empty file becomes a new catalogue.
    pub fn open(path: &Path) -> Result<Self, CatalogError> {
        let connection = Connection::open(path).map_err(database)?;
        prepare(&connection, WRITER_CACHE_KIB)?;
        schema::migrate(&connection)?;
        check_writable(&connection)?;
        let place = Place::of(path)?;
        let (sender, receiver) = channel();
        let writer = std::thread::Builder::new()
            .name("catalogue".to_owned())
            .spawn(move || {
                // If the writer panics, the process ends: without its writer the catalogue would
                // refuse every write until a restart.
                let _guard = ProcessEnd;
                write_all(&connection, &place, &receiver);
            })
            .map_err(CatalogError::failed)?;
        Ok(Self {
            path: path.to_owned(),
            work: Some(sender),
            writer: Some(writer),
            readers: Mutex::new(Vec::new()),
            meter: CommitMeter::default(),
        })
    }

    /// Closes the catalogue so that its file has everything, and may be renamed. Fails if the log
    /// beside the file is still needed, because the disk has failed or another process uses the
    /// catalogue.
    pub fn close_whole(self) -> Result<(), CatalogError> {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        // The last connection to close moves the log into the file, and then removes the log.
        drop(self);
        match std::fs::symlink_metadata(&log) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(CatalogError::failed(error)),
            Ok(_) => {
                let log = Path::new(&log).display();
                Err(CatalogError::failed(format!("the log {log} was not moved into its catalogue")))
            }
        }
    }

    /// Returns the state of the catalogue in a move.
    pub fn standing(&self) -> Result<MoveState, CatalogError> {
        self.read(MoveState::read)
    }

    /// Lets the writer perform `work`, waits until it is durable, and counts the time.
    fn perform<T: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        let began = sys::clock::monotonic();
        let performed = self.perform_uncounted(work);
        self.meter.count(began, &performed);
        performed
    }

    fn perform_uncounted<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&Connection) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        statements::count();
        let (value_sender, value) = sync_channel(1);
        let (done_sender, done) = sync_channel(1);
        let work: Work = Box::new(move |connection| {
            let value = work(connection)?;
            // The receiver waits below, so sending fails only if its thread has panicked.
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
            None => {
                let opened = self.open_reader();
                opened.inspect_err(|error| disk::note(&self.path, "open", error))?
            }
        };
        let answer =
            query(&connection).inspect_err(|error| disk::note(&self.path, "read", error))?;
        let mut readers = self.free_readers();
        assert!(readers.len() <= READERS_MAX, "at most READERS_MAX connections are free");
        if readers.len() < READERS_MAX {
            readers.push(connection);
        }
        Ok(answer)
    }

    fn free_readers(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.readers.lock()
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
        self.perform(move |connection| batches::perform(connection, &writes))
    }

    /// Ignores the generation: a catalogue in a file has one server, which knows all condemned
    /// packs.
    fn commit_at(&self, _generation: u64, writes: Vec<Write>) -> Result<(), CommitError> {
        Ok(Engine::commit(self, writes)?)
    }

    /// Looks up one page after the other, because there is no network in between.
    fn pages_at(
        &self,
        filespace: FilespaceId,
        keys: &[PageKey],
    ) -> Result<Vec<PageRow>, CatalogError> {
        let page = |key| self.read(|sql| pages::page(sql, filespace, key));
        keys.iter().map(page).filter_map(Result::transpose).collect()
    }

    fn read<T>(
        &self,
        mut query: impl FnMut(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.look(|connection| query(connection))
    }

    /// Copies database page by database page, so that unchanged pages are at the same places as in
    /// the previous copy.
    fn copy_to(&self, path: &Path) -> Result<(), CatalogError> {
        let mut target = create_private(path)?;
        // A copy that a power cut has interrupted is useless, so it need not be durable.
        target.execute_batch("PRAGMA synchronous=OFF").map_err(database)?;
        self.look(|connection| {
            let copy = Backup::new(connection, &mut target).map_err(database)?;
            // The copy is one step: the copy has the state at the beginning of the step, and
            // writers go on meanwhile.
            match copy.step(-1).map_err(database)? {
                StepResult::Done => Ok(()),
                _ => Err(CatalogError::failed("the catalogue could not be copied; try again")),
            }
        })
    }

    /// The database is in this process.
    fn database_time(&self) -> Result<Option<ServerTime>, CatalogError> {
        Ok(None)
    }

    fn commit_times(&self) -> CommitTimes {
        self.meter.times()
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
                CatalogError::Damaged(format!("column {column} of a row is not valid text"))
            })?),
            ValueRef::Real(_) => {
                return Err(CatalogError::Damaged(format!("column {column} is not an integer")));
            }
        })
    }
}

impl Sql for Connection {
    fn execute(&self, statement: &str, values: &[&dyn ToValue]) -> Result<usize, CatalogError> {
        statements::count();
        let values = values.iter().map(|value| value.to_value());
        let mut statement = self.prepare_cached(statement).map_err(database)?;
        assert_eq!(statement.parameter_count(), values.len(), "one value for each parameter");
        statement.execute(rusqlite::params_from_iter(values)).map_err(database)
    }

    fn each(
        &self,
        statement: &str,
        values: &[&dyn ToValue],
        visit: RowVisitor<'_>,
    ) -> Result<(), CatalogError> {
        statements::count();
        let values = values.iter().map(|value| value.to_value());
        let mut statement = self.prepare_cached(statement).map_err(database)?;
        assert_eq!(statement.parameter_count(), values.len(), "one value for each parameter");
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

/// Fails unless the connection can write. If a file cannot be opened for writing, be it because of
/// one error of the disk, SQLite opens it only for reading, and all later writes would fail.
fn check_writable(connection: &Connection) -> Result<(), CatalogError> {
    if connection.is_readonly("main").map_err(database)? {
        return Err(CatalogError::failed("the file of the catalogue cannot be opened for writing"));
    }
    execute(connection, "BEGIN IMMEDIATE")?;
    execute(connection, "ROLLBACK")
}

/// Creates a database in the new file `path`, which no other user can read: a catalogue has the
/// names of all files of every node.
fn create_private(path: &Path) -> Result<Connection, CatalogError> {
    sys::durable::write(path, b"", 0o600).map_err(CatalogError::failed)?;
    Connection::open(path).map_err(database)
}

/// Writes all rows of `from` into the new file `path`.
pub(crate) fn write_copy(path: &Path, from: &dyn Sql) -> Result<(), CatalogError> {
    let target = create_private(path)?;
    // A copy that a power cut has interrupted is useless, so it need not be durable. The database
    // of `from` has already checked the foreign keys.
    target
        .execute_batch("PRAGMA synchronous=OFF; PRAGMA foreign_keys=OFF")
        .map_err(database)?;
    schema::migrate(&target)?;
    execute(&target, "BEGIN")?;
    tables::copy(from, &target, &mut |_, _| Ok(()))?;
    execute(&target, "COMMIT")
}

/// Runs `query` on the catalogue in the file `path`, as it is at one moment.
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

/// Performs `work` on the catalogue in the file `path`, as a whole or not at all. `work` may write
/// rows in any order: foreign keys are not checked.
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
            // If the writer has panicked, its callers have failed and nobody else waits for it.
            drop(writer.join());
        }
    }
}

fn prepare(connection: &Connection, cache_kib: i64) -> Result<(), CatalogError> {
    assert!(cache_kib > 0, "the size of the cache must be positive");
    connection.busy_timeout(std::time::Duration::from_secs(30)).map_err(database)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Without this setting, SQLite prepares a statement again for each value at which a range
    // begins.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(database)?;
    let pragmas = format!(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;
         PRAGMA wal_autocheckpoint=4000; PRAGMA cache_size=-{cache_kib};"
    );
    connection.execute_batch(&pragmas).map_err(database)
}

/// The open file of the catalogue.
struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Place {
    /// Returns the file at `path`, which has just been opened.
    fn of(path: &Path) -> Result<Self, CatalogError> {
        let found = std::fs::metadata(path).map_err(CatalogError::failed)?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    /// Fails if another file is now at the path: nobody would find the data written to the open
    /// file.
    fn check(&self) -> Result<(), CatalogError> {
        let is_there = std::fs::metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode));
        if is_there {
            return Ok(());
        }
        Err(CatalogError::Unusable(format!(
            "somebody has moved or replaced {} while the server has it open; stop the server, put \
             the right file there, and start the server again",
            self.path.display()
        )))
    }
}

/// Commits the waiting pieces of work, group by group, until all senders are gone. This is the
/// writing thread.
fn write_all(connection: &Connection, place: &Place, queue: &Receiver<Piece>) {
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        group.extend(queue.try_iter().take(GROUP_MAX - 1));
        write_group(connection, place, group);
    }
}

fn write_group(connection: &Connection, place: &Place, group: Vec<Piece>) {
    assert!((1..=GROUP_MAX).contains(&group.len()), "a group has at least one piece");
    let piece_count = group.len();
    let is_alone = group.len() == 1;
    let mut waiting = group.into_iter();
    let mut performed: Vec<Outcome> = Vec::new();
    let mut committed = execute(connection, "BEGIN IMMEDIATE");
    while committed.is_ok()
        && let Some(mut piece) = waiting.next()
    {
        // A savepoint has a cost: SQLite saves every page that changes in it.
        let outcome =
            if is_alone { (piece.work)(connection) } else { in_savepoint(connection, piece.work) };
        if connection.is_autocommit() || (is_alone && outcome.is_err()) {
            // The transaction has ended or will be rolled back, and the earlier pieces with it.
            committed = Err(outcome.as_ref().err().map_or_else(stopped, same));
        }
        performed.push((piece.done, outcome));
    }
    let checked = committed.and_then(|()| place.check());
    committed = checked.and_then(|()| execute(connection, "COMMIT"));
    note_errors(place, &committed, &performed);
    if !connection.is_autocommit() {
        // If ROLLBACK fails, the next group's BEGIN fails too.
        drop(execute(connection, "ROLLBACK"));
    }
    assert_eq!(performed.len() + waiting.len(), piece_count, "every caller gets an answer");
    let untried = waiting.map(|piece| (piece.done, Ok(())));
    for (done, outcome) in performed.into_iter().chain(untried) {
        answer(&done, outcome.and_then(|()| committed.as_ref().copied().map_err(same)));
    }
}

/// Notes the errors of a group: of the commit, otherwise of the pieces.
fn note_errors(place: &Place, committed: &Result<(), CatalogError>, performed: &[Outcome]) {
    let of_pieces = performed.iter().filter_map(|(_, outcome)| outcome.as_ref().err());
    let of_commit = committed.as_ref().err();
    if let Some(error) = of_pieces.chain(of_commit).find(|error| disk::is_of_disk(error)) {
        disk::note(&place.path, "write", error);
    }
}

/// Performs `work` as a whole or not at all. If its writes cannot be undone alone, rolls back the
/// transaction.
fn in_savepoint(connection: &Connection, mut work: Work) -> Result<(), CatalogError> {
    execute(connection, "SAVEPOINT piece")?;
    let outcome = work(connection).and_then(|()| execute(connection, "RELEASE piece"));
    if outcome.is_err() && execute(connection, "ROLLBACK TO piece; RELEASE piece").is_err() {
        // ROLLBACK fails if SQLite has rolled back by itself, as it does when space runs out.
        drop(execute(connection, "ROLLBACK"));
    }
    outcome
}

fn execute(connection: &Connection, sql: &str) -> Result<(), CatalogError> {
    connection.execute_batch(sql).map_err(database)
}

/// Returns the same error for another caller.
fn same(error: &CatalogError) -> CatalogError {
    match error {
        CatalogError::NoSpace => CatalogError::NoSpace,
        CatalogError::Damaged(what) => CatalogError::Damaged(what.clone()),
        CatalogError::Unusable(what) => CatalogError::Unusable(what.clone()),
        CatalogError::Database(source) => CatalogError::failed(source.to_string()),
        error => CatalogError::failed(error.to_string()),
    }
}

fn answer(done: &SyncSender<Result<(), CatalogError>>, outcome: Result<(), CatalogError>) {
    // A caller that no longer waits has no use for the outcome.
    drop(done.send(outcome));
}

fn stopped() -> CatalogError {
    CatalogError::failed("the catalogue's writer has stopped")
}

#[cfg(test)]
mod tests;

//! The embedded engine: one SQLite file in WAL mode with `synchronous=FULL`.
//!
//! One thread owns the writing connection. It takes all work that waits, performs each piece in a
//! savepoint, and commits once: sessions share the cost of making a commit durable. Readers take a
//! connection from a free list and never wait for the writer.
//!
//! Bulk layout: page bodies are rows of a table by number, appended in the order of a first backup
//! and therefore dense; a narrow clustered table finds them by path; digests lie beside, by the
//! same number, so that reading all digests of a filespace reads nothing else.

mod archive;
mod expiry;
mod identity;
mod policy;
mod pools;
mod read;
mod schema;
mod tape;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use model::{
    ClassId, DirPath, DomainId, FilespaceId, NodeId, NodeName, PackNumber, PoolId, ServerTime,
};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use ::policy::{PolicyDomain, PolicySet};

use crate::{
    ArchiveRow, Catalog, CatalogError, Certificate, Day, DeletionRow, EventRow, ExpiryState,
    Filespace, LibraryRow, Node, NodeChange, OptionSet, PackRow, PageDigest, PageKey, PageRow,
    PageSpan, PartRow, PoolRow, SessionRow, StoredPack, TokenRow, VersionRow, VolumeRow, Write,
};

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

type Work = Box<dyn FnOnce(&Connection) -> Result<(), CatalogError> + Send>;

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

    /// Has the writer perform `work` and waits until it is durable.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, CatalogError> + Send + 'static,
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
    fn read<T>(
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
    let mut waiting = group.into_iter();
    let mut performed = Vec::new();
    let mut committed = execute(connection, "BEGIN IMMEDIATE");
    while committed.is_ok()
        && let Some(piece) = waiting.next()
    {
        let outcome = in_savepoint(connection, piece.work);
        if connection.is_autocommit() {
            // The transaction is gone, and with it what the pieces before this one did.
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
fn in_savepoint(connection: &Connection, work: Work) -> Result<(), CatalogError> {
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

/// What stands for `value` in a column: its place among `all`, which every value has.
fn code<T: PartialEq>(value: T, all: &[T]) -> Option<usize> {
    all.iter().position(|other| *other == value)
}

/// The one of `all` that the column's number stands for.
fn coded<T: Copy>(row: &rusqlite::Row<'_>, column: usize, all: &[T]) -> rusqlite::Result<T> {
    let number: i64 = row.get(column)?;
    let place = usize::try_from(number).ok();
    let found = place.and_then(|place| all.get(place)).copied();
    found.ok_or(rusqlite::Error::IntegralValueOutOfRange(column, number))
}

impl Catalog for Sqlite {
    fn add_node(
        &self,
        name: &NodeName,
        domain: &str,
        now: ServerTime,
    ) -> Result<Node, CatalogError> {
        let (name, domain) = (name.clone(), domain.to_owned());
        self.write(move |connection| identity::add_node(connection, &name, &domain, now))
    }

    fn nodes(&self) -> Result<Vec<Node>, CatalogError> {
        self.read(identity::nodes)
    }

    fn node(&self, name: &NodeName) -> Result<Node, CatalogError> {
        self.read(|connection| identity::node(connection, name))
    }

    fn lock_node(&self, node: NodeId, locked: bool) -> Result<(), CatalogError> {
        self.write(move |connection| identity::lock_node(connection, node, locked))
    }

    fn rename_node(&self, node: NodeId, name: &NodeName) -> Result<(), CatalogError> {
        let name = name.clone();
        self.write(move |connection| identity::rename_node(connection, node, &name))
    }

    fn remove_node(&self, node: NodeId) -> Result<(), CatalogError> {
        self.write(move |connection| identity::remove_node(connection, node))
    }

    fn add_token(&self, token: &TokenRow) -> Result<(), CatalogError> {
        let token = token.clone();
        self.write(move |connection| identity::add_token(connection, &token))
    }

    fn redeem_token(
        &self,
        hash: &[u8; 32],
        serial: &[u8],
        expires: ServerTime,
        now: ServerTime,
    ) -> Result<Node, CatalogError> {
        let (hash, serial) = (*hash, serial.to_vec());
        self.write(move |connection| {
            let node = identity::token_node(connection, &hash, now)?;
            identity::use_token(connection, &hash)?;
            let certificate = Certificate { serial, node: node.id, expires };
            identity::add_certificate(connection, &certificate)?;
            Ok(node)
        })
    }

    fn token_node(&self, hash: &[u8; 32], now: ServerTime) -> Result<Node, CatalogError> {
        self.read(|connection| identity::token_node(connection, hash, now))
    }

    fn add_certificate(&self, certificate: &Certificate) -> Result<(), CatalogError> {
        let certificate = certificate.clone();
        self.write(move |connection| identity::add_certificate(connection, &certificate))
    }

    fn certificate_node(&self, serial: &[u8]) -> Result<Node, CatalogError> {
        self.read(|connection| identity::certificate_node(connection, serial))
    }

    fn is_enrolled(&self, node: NodeId) -> Result<bool, CatalogError> {
        self.read(|connection| identity::is_enrolled(connection, node))
    }

    fn filespaces(&self, node: NodeId) -> Result<Vec<Filespace>, CatalogError> {
        self.read(|connection| identity::filespaces(connection, node))
    }

    fn open_filespace(
        &self,
        node: NodeId,
        name: &[u8],
        now: ServerTime,
    ) -> Result<Filespace, CatalogError> {
        let name = name.to_vec();
        self.write(move |connection| identity::open_filespace(connection, node, &name, now))
    }

    fn digests(
        &self,
        filespace: FilespaceId,
        within: &DirPath,
        visit: &mut dyn FnMut(&PageDigest) -> bool,
    ) -> Result<(), CatalogError> {
        self.read(|connection| read::digests(connection, filespace, within, visit))
    }

    fn page(&self, filespace: FilespaceId, key: &PageKey) -> Result<Option<PageRow>, CatalogError> {
        self.read(|connection| read::page(connection, filespace, key))
    }

    fn page_holding(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
        name: &[u8],
    ) -> Result<Option<PageRow>, CatalogError> {
        self.read(|connection| read::page_holding(connection, filespace, directory, name))
    }

    fn pages(
        &self,
        filespace: FilespaceId,
        span: &PageSpan,
        after: Option<&PageKey>,
        limit: usize,
    ) -> Result<Vec<PageRow>, CatalogError> {
        self.read(|connection| read::pages(connection, filespace, span, after, limit))
    }

    fn version_directories(
        &self,
        filespace: FilespaceId,
        span: &PageSpan,
        after: Option<&DirPath>,
        limit: usize,
    ) -> Result<Vec<DirPath>, CatalogError> {
        self.read(|connection| read::version_directories(connection, filespace, span, after, limit))
    }

    fn versions(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
    ) -> Result<Vec<VersionRow>, CatalogError> {
        self.read(|connection| read::versions(connection, filespace, directory))
    }

    fn count_objects(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
    ) -> Result<u64, CatalogError> {
        self.read(|connection| read::count_objects(connection, filespace, directory))
    }

    fn packs(&self) -> Result<Vec<PackRow>, CatalogError> {
        self.read(read::packs)
    }

    fn next_pack(&self) -> Result<PackNumber, CatalogError> {
        self.read(read::next_pack)
    }

    fn pools(&self) -> Result<Vec<PoolRow>, CatalogError> {
        self.read(pools::all)
    }

    fn add_pool(&self, pool: &PoolRow) -> Result<PoolId, CatalogError> {
        let pool = pool.clone();
        self.write(move |connection| pools::add(connection, &pool))
    }

    fn change_pool(&self, pool: &PoolRow) -> Result<(), CatalogError> {
        let pool = pool.clone();
        self.write(move |connection| pools::change(connection, &pool))
    }

    fn remove_pool(&self, pool: PoolId) -> Result<(), CatalogError> {
        self.write(move |connection| pools::remove(connection, pool))
    }

    fn libraries(&self) -> Result<Vec<LibraryRow>, CatalogError> {
        self.read(tape::libraries)
    }

    fn put_library(&self, library: &LibraryRow) -> Result<(), CatalogError> {
        let library = library.clone();
        self.write(move |connection| tape::put_library(connection, &library))
    }

    fn remove_library(&self, name: &str) -> Result<(), CatalogError> {
        let name = name.to_owned();
        self.write(move |connection| tape::remove_library(connection, &name))
    }

    fn volumes(&self) -> Result<Vec<VolumeRow>, CatalogError> {
        self.read(tape::volumes)
    }

    fn add_volume(&self, volume: &VolumeRow) -> Result<u64, CatalogError> {
        let volume = volume.clone();
        self.write(move |connection| tape::add_volume(connection, &volume))
    }

    fn remove_volume(&self, volume: u64) -> Result<(), CatalogError> {
        self.write(move |connection| tape::remove_volume(connection, volume))
    }

    fn stored_packs(&self, pool: PoolId) -> Result<Vec<StoredPack>, CatalogError> {
        self.read(|connection| tape::stored_packs(connection, pool))
    }

    fn parts(&self, pool: PoolId, pack: PackNumber) -> Result<Vec<PartRow>, CatalogError> {
        self.read(|connection| tape::parts(connection, pool, pack))
    }

    fn volume_parts(
        &self,
        volume: u64,
    ) -> Result<Vec<(PoolId, PackNumber, PartRow)>, CatalogError> {
        self.read(|connection| tape::volume_parts(connection, volume))
    }

    fn volume_bytes(&self) -> Result<BTreeMap<u64, u64>, CatalogError> {
        self.read(tape::volume_bytes)
    }

    fn copy_to(&self, path: &Path) -> Result<(), CatalogError> {
        self.read(|connection| pools::copy_to(connection, path))
    }

    fn domains(&self) -> Result<Vec<PolicyDomain>, CatalogError> {
        self.read(policy::domains)
    }

    fn add_domain(&self, name: &str, now: ServerTime) -> Result<PolicyDomain, CatalogError> {
        let name = name.to_owned();
        self.write(move |connection| policy::add_domain(connection, &name, now))
    }

    fn remove_domain(&self, domain: DomainId) -> Result<(), CatalogError> {
        self.write(move |connection| policy::remove_domain(connection, domain))
    }

    fn class_number(&self, domain: DomainId, name: &str) -> Result<ClassId, CatalogError> {
        let name = name.to_owned();
        self.write(move |connection| policy::class_number(connection, domain, &name))
    }

    fn put_draft(
        &self,
        domain: DomainId,
        draft: Option<&PolicySet>,
        now: ServerTime,
    ) -> Result<(), CatalogError> {
        let draft = draft.cloned();
        self.write(move |connection| policy::put_draft(connection, domain, draft.as_ref(), now))
    }

    fn activate(
        &self,
        domain: DomainId,
        set: &PolicySet,
        event: &EventRow,
    ) -> Result<(), CatalogError> {
        let (set, event) = (set.clone(), event.clone());
        self.write(move |connection| policy::activate(connection, domain, &set, &event))
    }

    fn option_sets(&self) -> Result<Vec<OptionSet>, CatalogError> {
        self.read(policy::option_sets)
    }

    fn put_option_set(&self, set: &OptionSet) -> Result<(), CatalogError> {
        let set = set.clone();
        self.write(move |connection| policy::put_option_set(connection, &set))
    }

    fn remove_option_set(&self, name: &str) -> Result<(), CatalogError> {
        let name = name.to_owned();
        self.write(move |connection| policy::remove_option_set(connection, &name))
    }

    fn change_node(&self, node: NodeId, change: &NodeChange) -> Result<(), CatalogError> {
        let change = change.clone();
        self.write(move |connection| identity::change_node(connection, node, &change))
    }

    fn events(
        &self,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<(i64, EventRow)>, CatalogError> {
        self.read(|connection| policy::events(connection, before, limit))
    }

    fn add_archive(
        &self,
        node: NodeId,
        description: &str,
        now: ServerTime,
    ) -> Result<ArchiveRow, CatalogError> {
        let description = description.to_owned();
        self.write(move |connection| archive::add(connection, node, &description, now))
    }

    fn archives(&self, node: NodeId) -> Result<Vec<ArchiveRow>, CatalogError> {
        self.read(|connection| archive::of_node(connection, node))
    }

    fn remove_archive(&self, node: NodeId, number: u64) -> Result<(), CatalogError> {
        self.write(move |connection| archive::remove(connection, node, number))
    }

    fn add_deletion(
        &self,
        node: NodeId,
        details: &str,
        now: ServerTime,
    ) -> Result<u64, CatalogError> {
        let details = details.to_owned();
        self.write(move |connection| archive::add_deletion(connection, node, &details, now))
    }

    fn deletions(&self, node: Option<NodeId>) -> Result<Vec<DeletionRow>, CatalogError> {
        self.read(|connection| archive::deletions(connection, node))
    }

    fn trash(
        &self,
        deletion: u64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<(FilespaceId, VersionRow)>, CatalogError> {
        self.read(|connection| archive::trash(connection, deletion, skip, limit))
    }

    fn expiry(&self, filespace: FilespaceId) -> Result<ExpiryState, CatalogError> {
        self.read(|connection| expiry::get(connection, filespace))
    }

    fn endings(
        &self,
        filespace: FilespaceId,
        days: (Day, Day),
        after: Option<&(Day, DirPath)>,
        limit: usize,
    ) -> Result<Vec<(Day, DirPath)>, CatalogError> {
        self.read(|connection| expiry::endings(connection, filespace, days, after, limit))
    }

    fn sessions(&self, node: NodeId, limit: usize) -> Result<Vec<SessionRow>, CatalogError> {
        self.read(|connection| read::sessions(connection, node, limit))
    }

    fn commit(&self, writes: Vec<Write>) -> Result<(), CatalogError> {
        self.write(move |connection| write::perform(connection, &writes))
    }
}

#[cfg(test)]
mod tests;

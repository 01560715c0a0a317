//! A connection to the database, and its transactions.
//!
//! The database performs the requests of a connection in their order, and does not wait for the
//! reader of its answers. So requests whose answers are not needed one by one are sent at once
//! ([`Session::send`]), and take one round trip together.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::task::Poll;

use futures_executor::block_on;
use futures_util::TryStreamExt as _;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Statement};

use super::block;
use super::membership::Terms;
use crate::sql::{Columns, Performer, Row, RowVisitor, Sql, ToValue, Value, params};
use crate::{CatalogError, statements};

/// Key of the advisory lock of the catalogue's writers: "holdfast" in ASCII.
const WRITERS_LOCK: i64 = i64::from_be_bytes(*b"holdfast");
/// Key of the advisory lock of the catalogue's users: servers share it for as long as they run.
const USERS_LOCK: i64 = WRITERS_LOCK + 1;

/// Kind of a statement's failure, which decides how the transaction reacts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failure {
    /// Another transaction was first: the transaction may be begun again.
    Conflict,
    /// The connection is gone.
    Closed,
    /// The statement has waited for a lock as long as it may.
    Busy,
}

/// The lock that a transaction takes against other writers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WriterLock {
    /// The transaction waits until it is the only transaction.
    Exclusive,
    /// The transaction is the only transaction, or fails if the others do not end soon.
    ExclusiveSoon,
    /// The transaction shares the lock with other batches.
    Shared,
}

/// Identity of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TransactionId {
    /// Key of the connection's row in the table `settled`.
    pub(super) slot: [u8; 16],
    /// Number of the transaction on its connection, from 1.
    pub(super) number: i64,
}

/// Outcome of a transaction whose commit was not confirmed.
pub(super) enum Abort {
    /// The transaction has written nothing and may be begun again.
    Again(CatalogError),
    Failed(CatalogError),
    /// The answer to the commit was lost: the transaction may be durable or not.
    Unknown(TransactionId),
}

/// An attempt at a transaction.
pub(super) struct Attempt<T> {
    /// Result of the work; `None` if it has failed.
    pub(super) value: Option<T>,
    pub(super) ended: Result<(), Abort>,
}

/// Values of the parameters of a request.
pub(super) type Values<'a> = Vec<Box<dyn ToSql + Sync + 'a>>;

/// One of several requests that are sent at once.
pub(super) enum Request<'a> {
    /// Statements without parameters.
    Command(String),
    Statement {
        text: &'a str,
        values: Values<'a>,
    },
}

impl<'a> Request<'a> {
    /// Returns the statement with copies of `values`. Fails for a number that is too large for any
    /// column.
    pub(super) fn of(text: &'a str, values: &[&dyn ToValue]) -> Result<Self, CatalogError> {
        let mut copies = Values::with_capacity(values.len());
        for value in values {
            copies.push(match value.to_value() {
                Value::Null => Box::new(Value::Null),
                Value::Integer(number) => Box::new(Value::Integer(number)),
                Value::Bytes(bytes) => Box::new(bytes.to_vec()),
                Value::Text(letters) => Box::new(letters.to_owned()),
                Value::TooLarge => return Err(CatalogError::failed(TOO_LARGE)),
            });
        }
        Ok(Self::Statement { text, values: copies })
    }
}

/// A request whose statement is prepared.
enum PreparedRequest<'r, 'a> {
    Command(&'r str),
    Statement(Statement, &'r [Box<dyn ToSql + Sync + 'a>]),
}

const TOO_LARGE: &str = "a number is too large for the catalogue";

/// One connection.
pub(super) struct Session {
    pub(super) client: Client,
    statements: RefCell<HashMap<String, Statement>>,
    /// Kind of the last failure since [`Session::begin_use`].
    failure: Cell<Option<Failure>>,
    /// Identity of the last transaction that this connection has begun.
    transaction: Cell<TransactionId>,
}

impl Session {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            statements: RefCell::default(),
            failure: Cell::new(None),
            transaction: Cell::new(TransactionId { slot: sys::entropy::bytes(), number: 0 }),
        }
    }

    /// Prepares the connection for another user.
    pub(super) fn begin_use(&self) {
        self.failure.set(None);
    }

    /// Translates an error by what the caller can do about it, and notes its kind.
    pub(super) fn failed(&self, error: &tokio_postgres::Error) -> CatalogError {
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
                CatalogError::failed(text)
            }
            Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                self.failure.set(Some(Failure::Busy));
                CatalogError::failed(text)
            }
            Some(state) if full.contains(&state) => CatalogError::NoSpace,
            Some(&SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED) => {
                CatalogError::Damaged(text)
            }
            Some(_) => CatalogError::failed(text),
        }
    }

    /// Takes the lock of the catalogue's users, shared, for as long as the connection lasts.
    /// Returns false if another process has it alone.
    pub(super) fn try_lock_shared(&self) -> Result<bool, CatalogError> {
        let select = format!("SELECT 1 WHERE pg_try_advisory_lock_shared({USERS_LOCK})");
        (self as &dyn Sql).exists(&select, &[])
    }

    /// Takes the lock of the catalogue's users alone, for as long as the connection lasts. Returns
    /// false if another process has it.
    pub(super) fn try_lock(&self) -> Result<bool, CatalogError> {
        let select = format!("SELECT 1 WHERE pg_try_advisory_lock({USERS_LOCK})");
        (self as &dyn Sql).exists(&select, &[])
    }

    /// Returns the identity of the next transaction of the connection.
    pub(super) fn next_transaction(&self) -> TransactionId {
        let TransactionId { slot, number } = self.transaction.get();
        let transaction = TransactionId { slot, number: number + 1 };
        self.transaction.set(transaction);
        transaction
    }

    /// Performs statements without parameters.
    pub(super) fn command(&self, statements: &str) -> Result<(), CatalogError> {
        block_on(self.client.batch_execute(statements)).map_err(|error| self.failed(&error))
    }

    /// Prepares a statement; each connection prepares it once.
    pub(super) fn prepare(&self, statement: &str) -> Result<Statement, CatalogError> {
        if let Some(known) = self.statements.borrow().get(statement) {
            return Ok(known.clone());
        }
        let prepared = block_on(self.client.prepare(&numbered(statement)));
        let prepared = prepared.map_err(|error| self.failed(&error))?;
        self.statements.borrow_mut().insert(statement.to_owned(), prepared.clone());
        Ok(prepared)
    }

    /// Sends all requests before it waits for the first answer. Returns the rows of each request.
    /// Fails with the first failure. Then an open transaction has no effect, unless the commit was
    /// among the requests and the connection was lost.
    pub(super) fn send(
        &self,
        requests: &[Request<'_>],
    ) -> Result<Vec<Vec<tokio_postgres::Row>>, CatalogError> {
        let mut prepared = Vec::with_capacity(requests.len());
        for request in requests {
            prepared.push(match request {
                Request::Command(command) => PreparedRequest::Command(command),
                Request::Statement { text, values } => {
                    statements::count();
                    let statement = self.prepare(text)?;
                    let parameters = statement.params().len();
                    assert_eq!(parameters, values.len(), "one value for each parameter");
                    PreparedRequest::Statement(statement, values)
                }
            });
        }
        let answers = prepared.iter().map(|request| self.answer(request));
        let answered = block_on(all_at_once(answers));
        answered.map_err(|error| self.failed(&error))
    }

    async fn answer(
        &self,
        request: &PreparedRequest<'_, '_>,
    ) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
        match request {
            PreparedRequest::Command(command) => {
                self.client.batch_execute(command).await?;
                Ok(Vec::new())
            }
            PreparedRequest::Statement(statement, values) => {
                let values = values.iter().map(|value| &**value as &(dyn ToSql + Sync));
                self.client.query_raw(statement, values).await?.try_collect().await
            }
        }
    }

    /// Performs `work` as one transaction, if `terms` hold. After every error except `Unknown`, the
    /// transaction has been rolled back.
    pub(super) fn transact(
        &self,
        locking: WriterLock,
        terms: Option<Terms>,
        work: &mut dyn FnMut(&Self) -> Result<(), CatalogError>,
    ) -> Result<(), Abort> {
        let transaction = self.next_transaction();
        let worked = match terms {
            Some(terms) => self.open(locking, transaction, terms).and_then(|()| work(self)),
            // The work may make the tables, so the transaction is settled after it.
            None => self.command(&begin(locking)).and_then(|()| work(self)).and_then(|()| {
                let sql: &dyn Sql = self;
                settle(transaction, &mut |put, values| sql.execute(put, values).map(drop))
            }),
        };
        match worked {
            Err(error) => {
                let abort = self.abort(locking, error);
                self.roll_back();
                Err(abort)
            }
            Ok(()) => {
                self.command(COMMIT).map_err(|error| self.abort_of_commit(transaction, error))
            }
        }
    }

    /// Begins and settles a transaction, in one round trip. Fails with `Fenced` if the server of
    /// `terms` is not in the list.
    fn open(
        &self,
        locking: WriterLock,
        transaction: TransactionId,
        terms: Terms,
    ) -> Result<(), CatalogError> {
        assert!(terms.generation.is_none(), "the work does not depend on condemnations");
        let answers = self.send(&opening(locking, transaction, terms)?)?;
        terms.hold(answers.last().map(Vec::as_slice).unwrap_or_default()).map(drop)
    }

    /// Returns what becomes of a transaction that has failed before its commit was sent.
    pub(super) fn abort(&self, locking: WriterLock, error: CatalogError) -> Abort {
        match self.failure.get() {
            Some(Failure::Closed | Failure::Conflict) => Abort::Again(error),
            Some(Failure::Busy) if locking == WriterLock::Exclusive => Abort::Again(error),
            Some(Failure::Busy) | None => Abort::Failed(error),
        }
    }

    /// Returns what becomes of a transaction that has failed when its commit may have been sent.
    pub(super) fn abort_of_commit(&self, transaction: TransactionId, error: CatalogError) -> Abort {
        match self.failure.get() {
            Some(Failure::Closed) => Abort::Unknown(transaction),
            Some(Failure::Conflict) => Abort::Again(error),
            Some(Failure::Busy) | None => Abort::Failed(error),
        }
    }

    /// Ends a transaction without an effect. A transaction that cannot be rolled back ends with its
    /// connection.
    pub(super) fn roll_back(&self) {
        drop(self.command("ROLLBACK"));
    }
}

/// Command that makes a transaction durable.
pub(super) const COMMIT: &str = "COMMIT";

/// Returns the requests that begin and settle a transaction. The last of them is the question of
/// `terms`.
pub(super) fn opening<'a>(
    locking: WriterLock,
    transaction: TransactionId,
    terms: Terms,
) -> Result<Vec<Request<'a>>, CatalogError> {
    let mut requests = vec![Request::Command(begin(locking))];
    settle(transaction, &mut |put, values| {
        requests.push(Request::of(put, values)?);
        Ok(())
    })?;
    requests.push(terms.question()?);
    Ok(requests)
}

/// Returns the commands that begin a transaction.
fn begin(locking: WriterLock) -> String {
    let (patience, shared) = match locking {
        WriterLock::Exclusive => ("0", ""),
        WriterLock::ExclusiveSoon => ("2s", ""),
        WriterLock::Shared => ("0", "_shared"),
    };
    // A server that hangs in a transaction would block all others: the database ends the
    // transaction.
    format!(
        "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '15s';
         SET LOCAL lock_timeout = '{patience}';
         SELECT pg_advisory_xact_lock{shared}({WRITERS_LOCK})"
    )
}

/// Writes the number of the transaction into the row of its connection, with `perform`.
fn settle(
    TransactionId { slot, number }: TransactionId,
    perform: Performer<'_>,
) -> Result<(), CatalogError> {
    assert!(number > 0, "only a transaction that has begun is settled");
    let put = "INSERT INTO settled VALUES(?, ?, ?)
               ON CONFLICT(slot) DO UPDATE SET value = excluded.value, changed = excluded.changed";
    perform(put, params![slot, number, sys::clock::system().0])
}

/// Begins each of `requests` in its order, and then waits for their answers in the same order. The
/// first poll of a request sends it. Begins none after a request that could not be sent.
async fn all_at_once<T>(
    requests: impl Iterator<Item = impl Future<Output = Result<T, tokio_postgres::Error>>>,
) -> Result<Vec<T>, tokio_postgres::Error> {
    let mut begun = Vec::new();
    for request in requests {
        let mut request = Box::pin(request);
        let polled = poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await;
        let has_failed = matches!(polled, Poll::Ready(Err(_)));
        begun.push((request, polled));
        if has_failed {
            break;
        }
    }
    let mut answers = Vec::with_capacity(begun.len());
    for (request, polled) in begun {
        let answer = match polled {
            Poll::Ready(answer) => answer,
            Poll::Pending => request.await,
        };
        answers.push(answer?);
    }
    Ok(answers)
}

/// Rewrites the parameters of a statement in PostgreSQL's form: `$1` and so on.
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
    debug_assert!(!text.contains('?'), "a statement has no other question mark");
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
            (Value::TooLarge, _) => Err(TOO_LARGE.into()),
            (value, kind) => Err(format!("{value:?} is not of the type {kind}").into()),
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
        let damaged = |error: tokio_postgres::Error| CatalogError::Damaged(model::chain(&error));
        Ok(match kind {
            Some(&Type::INT8) => self
                .try_get::<_, Option<i64>>(column)
                .map_err(damaged)?
                .map_or(Value::Null, Value::Integer),
            Some(&Type::BYTEA) => self
                .try_get::<_, Option<&[u8]>>(column)
                .map_err(damaged)?
                .map_or(Value::Null, Value::Bytes),
            Some(&Type::TEXT) => self
                .try_get::<_, Option<&str>>(column)
                .map_err(damaged)?
                .map_or(Value::Null, Value::Text),
            other => {
                return Err(CatalogError::Damaged(format!(
                    "column {column} has the type {other:?}"
                )));
            }
        })
    }
}

impl Sql for Session {
    fn execute(&self, statement: &str, values: &[&dyn ToValue]) -> Result<usize, CatalogError> {
        statements::count();
        let statement = self.prepare(statement)?;
        let values: Vec<Value<'_>> = values.iter().map(|value| value.to_value()).collect();
        assert_eq!(statement.params().len(), values.len(), "one value for each parameter");
        let parameters = values.iter().map(|value| value as &(dyn ToSql + Sync));
        let done = block_on(self.client.execute_raw(&statement, parameters));
        let rows = done.map_err(|error| self.failed(&error))?;
        Ok(usize::try_from(rows).unwrap_or(usize::MAX))
    }

    fn each(
        &self,
        statement: &str,
        values: &[&dyn ToValue],
        visit: RowVisitor<'_>,
    ) -> Result<(), CatalogError> {
        statements::count();
        let statement = self.prepare(statement)?;
        let values: Vec<Value<'_>> = values.iter().map(|value| value.to_value()).collect();
        assert_eq!(statement.params().len(), values.len(), "one value for each parameter");
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
        // The bulk tables come after `filespace` and need the partitions of its rows.
        let last = if table == "filespace" { block::make_for_rows(self, last)? } else { last };
        // If no number was given before, the next number is 1.
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
    fn all_requests_are_sent_before_the_first_answer_is_awaited() {
        let log = RefCell::new(Vec::new());
        let request = |number: u32| {
            let (log, mut is_sent) = (&log, false);
            poll_fn(move |context| {
                log.borrow_mut().push((number, is_sent));
                if std::mem::replace(&mut is_sent, true) {
                    return Poll::Ready(Ok(number));
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
        };
        let answers = block_on(all_at_once((1..=3).map(request)));
        assert_eq!(answers.expect("are answered"), [1, 2, 3]);
        let sent = [(1, false), (2, false), (3, false)];
        let answered = [(1, true), (2, true), (3, true)];
        assert_eq!(*log.borrow(), [sent, answered].concat());
    }

    #[test]
    fn parameters_are_numbered() {
        assert_eq!(numbered("a = ? AND b = ?"), "a = $1 AND b = $2");
        assert_eq!(numbered("a = ?2 AND b = ?1 OR c = ?12"), "a = $2 AND b = $1 OR c = $12");
        assert_eq!(numbered("nothing"), "nothing");
    }
}

//! The statements of the catalogue, the same for every engine.
//!
//! An engine is an [`Engine`], which begins and ends transactions, and a [`Sql`], which is a
//! connection in a transaction. The statements use only the SQL that all engines have in common:
//!
//! 1. Numbers have 64 bits, also those that are only 0 or 1; names and bodies are bytes; text is
//!    ordered by its bytes.
//! 2. Parameters are `?` in their order, or `?1` and so on; no statement has another question mark.
//! 3. An ON CONFLICT clause names its columns; names that differ only in case are equal and are
//!    looked up by `lower(name)`.
//!
//! There is a module for each noun, with the implementation of its trait for every engine.
//! `batches` is above the others: it gives each write of a batch to the statements of its noun.

mod alerts;
pub(crate) mod amounts;
mod answers;
mod api_keys;
mod approvals;
mod archives;
pub(crate) mod baselines;
pub(crate) mod batches;
mod contacts;
mod credentials;
mod deletions;
mod details;
pub(crate) mod digest_sums;
mod drills;
mod enrolment_keys;
pub(crate) mod events;
mod expiry;
mod filespaces;
mod identities;
mod marks;
pub(crate) mod nodes;
mod numbers;
mod option_sets;
mod overview;
pub(crate) mod packs;
pub(crate) mod pages;
mod people;
pub(crate) mod policies;
pub(crate) mod pools;
mod read_rules;
mod registrations;
mod restores;
mod scheduled_events;
mod schedules;
pub(crate) mod sessions;
mod sign_ins;
pub(crate) mod tables;
mod tasks;
mod transfers;
mod usage_days;
pub(crate) mod versions;
pub(crate) mod volumes;

use std::collections::BTreeSet;
use std::path::Path;

use model::{DomainId, FilespaceId, PersonId, ServerTime};

use crate::{CatalogError, CommitError, CommitTimes, NodeSight, PageKey, PageRow, Write};

/// Transactions of a database.
pub(crate) trait Engine: Send + Sync {
    /// Runs `query`, which writes nothing; each of its statements sees all batches that were
    /// committed before it. `query` may be called more than once.
    fn read<T>(
        &self,
        query: impl FnMut(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError>;

    /// Performs `work` as a whole or not at all, and waits until it is durable. `work` may be
    /// called more than once.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&dyn Sql) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError>;

    /// Performs a batch as a whole or not at all. Several batches may run at once: their callers
    /// ensure that no two of them write the same rows.
    fn commit(&self, writes: Vec<Write>) -> Result<(), CatalogError>;

    /// See [`crate::Batches::commit_at`].
    fn commit_at(&self, generation: u64, writes: Vec<Write>) -> Result<(), CommitError>;

    /// See [`crate::Pages::pages_at`].
    fn pages_at(
        &self,
        filespace: FilespaceId,
        keys: &[PageKey],
    ) -> Result<Vec<PageRow>, CatalogError>;

    /// See [`crate::Catalog::copy_to`].
    fn copy_to(&self, path: &Path) -> Result<(), CatalogError>;

    /// See [`crate::Catalog::database_time`].
    fn database_time(&self) -> Result<Option<ServerTime>, CatalogError>;

    /// See [`crate::Catalog::commit_times`].
    fn commit_times(&self) -> CommitTimes;
}

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Bytes(&'a [u8]),
    Text(&'a str),
    /// A number that is too large for any column.
    TooLarge,
}

/// A type whose values can be parameters.
pub(crate) trait ToValue {
    fn to_value(&self) -> Value<'_>;
}

macro_rules! integers {
    ($($kind:ty),+) => {$(
        impl ToValue for $kind {
            fn to_value(&self) -> Value<'_> {
                i64::try_from(*self).map_or(Value::TooLarge, Value::Integer)
            }
        }

        impl FromColumn for $kind {
            fn from_column(value: Value<'_>) -> Option<Self> {
                let Value::Integer(number) = value else { return None };
                number.try_into().ok()
            }
        }
    )+};
}

impl ToValue for bool {
    fn to_value(&self) -> Value<'_> {
        Value::Integer((*self).into())
    }
}

impl ToValue for [u8] {
    fn to_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl<const N: usize> ToValue for [u8; N] {
    fn to_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl ToValue for Vec<u8> {
    fn to_value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl ToValue for str {
    fn to_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl ToValue for String {
    fn to_value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value<'_> {
        (**self).to_value()
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, ToValue::to_value)
    }
}

/// Parameters of different types.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::sql::ToValue),*] as &[&dyn $crate::sql::ToValue]
    };
}
pub(crate) use params;

/// A type whose values can be read from a column.
pub(crate) trait FromColumn: Sized {
    /// Returns `None` if `value` is of another type.
    fn from_column(value: Value<'_>) -> Option<Self>;
}

integers!(i64, u64, u32, u16, u8, usize);

impl FromColumn for bool {
    fn from_column(value: Value<'_>) -> Option<Self> {
        let Value::Integer(number) = value else { return None };
        Some(number != 0)
    }
}

impl FromColumn for Vec<u8> {
    fn from_column(value: Value<'_>) -> Option<Self> {
        let Value::Bytes(bytes) = value else { return None };
        Some(bytes.to_vec())
    }
}

impl<const N: usize> FromColumn for [u8; N] {
    fn from_column(value: Value<'_>) -> Option<Self> {
        let Value::Bytes(bytes) = value else { return None };
        bytes.try_into().ok()
    }
}

impl FromColumn for String {
    fn from_column(value: Value<'_>) -> Option<Self> {
        let Value::Text(text) = value else { return None };
        Some(text.to_owned())
    }
}

impl<T: FromColumn> FromColumn for Option<T> {
    fn from_column(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_column(value).map(Some),
        }
    }
}

/// Access to the columns of a row.
pub(crate) trait Columns {
    fn value(&self, column: usize) -> Result<Value<'_>, CatalogError>;
}

/// A row of an answer, with typed access to its columns.
pub(crate) struct Row<'a>(pub(crate) &'a dyn Columns);

impl Row<'_> {
    /// Returns the value of a column. Fails with `Damaged` if it is of another type.
    pub(crate) fn get<T: FromColumn>(&self, column: usize) -> Result<T, CatalogError> {
        let value = self.0.value(column)?;
        T::from_column(value).ok_or_else(|| {
            let kind = std::any::type_name::<T>();
            CatalogError::Damaged(format!("column {column} of a row is not a {kind}: {value:?}"))
        })
    }

    /// Returns the value in `all` whose code is in the column; see [`code`].
    pub(crate) fn coded<T: Copy>(&self, column: usize, all: &[T]) -> Result<T, CatalogError> {
        let code: usize = self.get(column)?;
        let unknown =
            || CatalogError::Damaged(format!("column {column} has the unknown code {code}"));
        all.get(code).copied().ok_or_else(unknown)
    }
}

/// Returns the code of `value` in a column: its index in `all`, which must have every value.
pub(crate) fn code<T: PartialEq>(value: T, all: &[T]) -> usize {
    let code = all.iter().position(|other| *other == value);
    code.expect("the list has every value of its type")
}

/// Numbers that no domain and no person has.
const NO_DOMAIN: DomainId = DomainId(u32::MAX);
const NOBODY: PersonId = PersonId(u32::MAX);

/// Values of the parameters of a statement.
type Values = Vec<Box<dyn ToValue>>;

/// Returns the places of these domains in a list of a statement, and their values.
///
/// Each number of places makes another statement, which a connection keeps prepared. So the number
/// is a power of two, and the last domain fills the places that are left.
fn domain_places(domains: &BTreeSet<DomainId>) -> (String, Values) {
    let places = domains.len().max(1).next_power_of_two();
    let padding = domains.last().copied().unwrap_or(NO_DOMAIN);
    let filled = domains.iter().copied().chain(std::iter::repeat(padding)).take(places);
    let mut values = Values::new();
    for domain in filled {
        values.push(Box::new(domain.0));
    }
    (vec!["?"; places].join(", "), values)
}

/// Returns the selection of the nodes that a caller sees, and the values of its parameters. A
/// statement that finds these nodes first takes a time that does not depend on the others.
fn nodes_of(NodeSight { domains, owner }: &NodeSight) -> (String, Values) {
    let (places, mut values) = domain_places(domains);
    values.push(Box::new(owner.unwrap_or(NOBODY).0));
    let select = format!(
        "SELECT id FROM node WHERE domain IN ({places})
         UNION SELECT node FROM node_detail WHERE owner = ?"
    );
    (select, values)
}

/// Converts a count to the value of a LIMIT or OFFSET.
fn row_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the largest row number of a descending list: `from`, or the largest number of all.
fn row_number(from: Option<u64>) -> i64 {
    from.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX)
}

/// Fails with `NotFound` of `what` if a statement found or changed no row.
fn require(count: usize, what: &'static str) -> Result<(), CatalogError> {
    if count == 0 { Err(CatalogError::NotFound { what }) } else { Ok(()) }
}

/// Fails with `Exists` of `what` if an insert added no row because its key is taken.
fn require_new(count: usize, what: &'static str) -> Result<(), CatalogError> {
    if count == 0 { Err(CatalogError::Exists { what }) } else { Ok(()) }
}

/// Performer of statements whose answers nobody needs.
pub(crate) type Performer<'a> =
    &'a mut dyn FnMut(&'static str, &[&dyn ToValue]) -> Result<(), CatalogError>;

/// Visitor of rows; it returns false to end the query.
pub(crate) type RowVisitor<'a> = &'a mut dyn FnMut(&Row<'_>) -> Result<bool, CatalogError>;

/// A connection in a transaction.
pub(crate) trait Sql {
    /// Performs a statement and returns the number of rows that it changed.
    fn execute(&self, statement: &str, values: &[&dyn ToValue]) -> Result<usize, CatalogError>;

    /// Performs a query and calls `visit` with each row.
    fn each(
        &self,
        statement: &str,
        values: &[&dyn ToValue],
        visit: RowVisitor<'_>,
    ) -> Result<(), CatalogError>;

    /// The last number that the database has given to a row of the table.
    fn last_number(&self, table: &str, column: &str) -> Result<i64, CatalogError>;

    /// Makes the database continue to count after `last`. The table must already have all its rows.
    fn count_from(&self, table: &str, column: &str, last: i64) -> Result<(), CatalogError>;

    /// The number of a new filespace of the policy domain; `None` if the database counts it.
    fn next_filespace(&self, domain: i64) -> Result<Option<i64>, CatalogError>;
}

impl dyn Sql + '_ {
    /// Returns the first row of the answer, as `columns` reads it.
    pub(crate) fn first<T>(
        &self,
        statement: &str,
        values: &[&dyn ToValue],
        mut columns: impl FnMut(&Row<'_>) -> Result<T, CatalogError>,
    ) -> Result<Option<T>, CatalogError> {
        let mut found = None;
        self.each(statement, values, &mut |row| {
            found = Some(columns(row)?);
            Ok(false)
        })?;
        Ok(found)
    }

    /// Returns the first row of an answer that always has a row, as `columns` reads it.
    pub(crate) fn one<T>(
        &self,
        statement: &str,
        values: &[&dyn ToValue],
        columns: impl FnMut(&Row<'_>) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let found = self.first(statement, values, columns)?;
        found.ok_or_else(|| CatalogError::Damaged("a row that must exist is missing".to_owned()))
    }

    /// Returns true if the answer has a row.
    pub(crate) fn exists(
        &self,
        statement: &str,
        values: &[&dyn ToValue],
    ) -> Result<bool, CatalogError> {
        Ok(self.first(statement, values, |_| Ok(()))?.is_some())
    }

    /// Returns all rows of the answer, as `columns` reads them.
    pub(crate) fn all<T, C: Default + Extend<T>>(
        &self,
        statement: &str,
        values: &[&dyn ToValue],
        mut columns: impl FnMut(&Row<'_>) -> Result<T, CatalogError>,
    ) -> Result<C, CatalogError> {
        let mut all = C::default();
        self.each(statement, values, &mut |row| {
            all.extend([columns(row)?]);
            Ok(true)
        })?;
        Ok(all)
    }
}

//! The statements of the catalogue, the same for every engine.
//!
//! An engine is a [`Sql`], a connection in a transaction, and whatever begins and ends
//! transactions: see [`Engine`]. What is written here goes to all of them, so it keeps to what they
//! have in common:
//!
//! 1. Numbers are of 64 bits, also those that are only 0 or 1; names and bodies are bytes; text has
//!    no order but that of its bytes.
//! 2. Parameters are `?` in their order, or `?1` and so on; no statement has another question mark.
//! 3. A conflict names its columns; names that are equal in whatever case are looked up by
//!    `lower(name)`.

mod archive;
mod catalog;
pub(crate) mod expiry;
pub(crate) mod identity;
pub(crate) mod policy;
pub(crate) mod pools;
pub(crate) mod read;
pub(crate) mod tables;
pub(crate) mod tape;
pub(crate) mod tasks;
pub(crate) mod write;

use std::path::Path;

use model::FilespaceId;

use crate::{CatalogError, PageKey, PageRow};

/// What an engine does with the statements.
pub(crate) trait Engine: Send + Sync {
    /// Runs `query`, which writes nothing; each of its statements sees all that was committed
    /// before. It may be begun more than once.
    fn read<T>(
        &self,
        query: impl FnMut(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError>;

    /// The same for a query that tells somebody what it finds, and is not begun again.
    fn read_once<T>(
        &self,
        query: impl FnOnce(&dyn Sql) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError>;

    /// Performs `work` as a whole or not at all, and waits until it is durable. It may be begun
    /// more than once.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&dyn Sql) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError>;

    /// The same for batches, of which several may go on at once: what of them touches the same rows
    /// is for callers to keep apart.
    fn commit(&self, writes: Vec<crate::Write>) -> Result<(), CatalogError>;

    /// See [`crate::Catalog::commit_at`]. An engine that has one server need not look.
    fn commit_at(&self, _: u64, writes: Vec<crate::Write>) -> Result<(), CatalogError> {
        self.commit(writes)
    }

    /// See [`crate::Catalog::pages_at`]. An engine without a network asks for one after the other.
    fn pages_at(
        &self,
        filespace: FilespaceId,
        keys: &[PageKey],
    ) -> Result<Vec<PageRow>, CatalogError> {
        let page = |key| self.read(|sql| read::page(sql, filespace, key));
        keys.iter().map(page).filter_map(Result::transpose).collect()
    }

    /// See [`crate::Catalog::copy_to`].
    fn copy_to(&self, path: &Path) -> Result<(), CatalogError>;
}

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Bytes(&'a [u8]),
    Text(&'a str),
    /// A number that no column takes.
    TooLarge,
}

/// What can be a parameter.
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

/// Parameters of any kinds.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::sql::ToValue),*] as &[&dyn $crate::sql::ToValue]
    };
}
pub(crate) use params;

/// What can be read off a column.
pub(crate) trait FromColumn: Sized {
    /// `None` where the column has something else.
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

/// A row of an answer.
pub(crate) trait Columns {
    fn value(&self, column: usize) -> Result<Value<'_>, CatalogError>;
}

/// The same with types.
pub(crate) struct Row<'a>(pub(crate) &'a dyn Columns);

impl Row<'_> {
    /// Fails with `Damaged` where the column has something else.
    pub(crate) fn get<T: FromColumn>(&self, column: usize) -> Result<T, CatalogError> {
        let value = self.0.value(column)?;
        T::from_column(value).ok_or_else(|| {
            let kind = std::any::type_name::<T>();
            CatalogError::Damaged(format!("column {column} of a row is no {kind}: {value:?}"))
        })
    }

    /// The one of `all` that the column's number stands for.
    pub(crate) fn coded<T: Copy>(&self, column: usize, all: &[T]) -> Result<T, CatalogError> {
        let place: usize = self.get(column)?;
        let unknown = || CatalogError::Damaged(format!("column {column} has no meaning: {place}"));
        all.get(place).copied().ok_or_else(unknown)
    }
}

/// What stands for `value` in a column: its place among `all`, which every value has.
pub(crate) fn code<T: PartialEq>(value: T, all: &[T]) -> Option<usize> {
    all.iter().position(|other| *other == value)
}

/// Rows go to a visitor, until it says `false`.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&Row<'_>) -> Result<bool, CatalogError>;

/// A connection in a transaction.
pub(crate) trait Sql {
    /// Returns how many rows it has changed.
    fn execute(&self, statement: &str, values: &[&dyn ToValue]) -> Result<usize, CatalogError>;

    fn each(
        &self,
        statement: &str,
        values: &[&dyn ToValue],
        visit: Visit<'_>,
    ) -> Result<(), CatalogError>;

    /// The last number that the database has given a row of the table.
    fn last_number(&self, table: &str, column: &str) -> Result<i64, CatalogError>;

    /// Has the database count on from `last`; all rows of the table are there.
    fn count_from(&self, table: &str, column: &str, last: i64) -> Result<(), CatalogError>;

    /// The number of a new filespace of the policy domain; `None` where the database counts it.
    fn next_filespace(&self, domain: i64) -> Result<Option<i64>, CatalogError>;
}

impl dyn Sql + '_ {
    /// The first row of the answer.
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

    /// The one row of the answer.
    pub(crate) fn one<T>(
        &self,
        statement: &str,
        values: &[&dyn ToValue],
        columns: impl FnMut(&Row<'_>) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let found = self.first(statement, values, columns)?;
        found.ok_or_else(|| CatalogError::Damaged("a row is gone that was there".to_owned()))
    }

    pub(crate) fn exists(
        &self,
        statement: &str,
        values: &[&dyn ToValue],
    ) -> Result<bool, CatalogError> {
        Ok(self.first(statement, values, |_| Ok(()))?.is_some())
    }

    /// All rows, each read by `columns`.
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

fn failed(reason: &str) -> CatalogError {
    CatalogError::Database(reason.into())
}

//! Statements about marks, which share a table with the counters.

use std::collections::BTreeMap;

use super::{Engine, Row, Sql, params};
use crate::{CatalogError, Marks};

/// Prefix that keeps the names of marks apart from those of counters.
const PREFIX: &str = "mark ";

impl<E: Engine> Marks for E {
    fn mark(&self, name: &str) -> Result<Option<i64>, CatalogError> {
        let name = format!("{PREFIX}{name}");
        let select = "SELECT value FROM counter WHERE name = ?";
        self.read(|sql| sql.first(select, params![name.as_str()], |row| row.get(0)))
    }

    fn marks_of(&self, prefix: &str) -> Result<BTreeMap<String, i64>, CatalogError> {
        assert!(!prefix.contains(['%', '_']), "these mean something in a pattern");
        let pattern = format!("{PREFIX}{prefix}%");
        let select = "SELECT name, value FROM counter WHERE name LIKE ?";
        self.read(|sql| sql.all(select, params![pattern.as_str()], named))
    }

    fn set_marks(&self, marks: &BTreeMap<String, i64>) -> Result<(), CatalogError> {
        let marks = marks.clone();
        self.write(move |sql| marks.iter().try_for_each(|(name, value)| set(sql, name, *value)))
    }
}

/// Returns a mark with its name.
fn named(row: &Row<'_>) -> Result<(String, i64), CatalogError> {
    let name: String = row.get(0)?;
    Ok((name[PREFIX.len()..].to_owned(), row.get(1)?))
}

pub(super) fn set(sql: &dyn Sql, name: &str, value: i64) -> Result<(), CatalogError> {
    let name = format!("{PREFIX}{name}");
    let insert = "INSERT INTO counter(name, value) VALUES(?, ?)
                  ON CONFLICT(name) DO UPDATE SET value = excluded.value";
    sql.execute(insert, params![name.as_str(), value]).map(drop)
}

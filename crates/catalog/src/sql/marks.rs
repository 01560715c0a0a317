//! Statements about marks, which share a table with the counters.

use super::{Engine, Sql, params};
use crate::{CatalogError, Marks};

/// Prefix that keeps the names of marks apart from those of counters.
const PREFIX: &str = "mark ";

impl<E: Engine> Marks for E {
    fn mark(&self, name: &str) -> Result<Option<i64>, CatalogError> {
        let name = format!("{PREFIX}{name}");
        let select = "SELECT value FROM counter WHERE name = ?";
        self.read(|sql| sql.first(select, params![name.as_str()], |row| row.get(0)))
    }
}

pub(super) fn set(sql: &dyn Sql, name: &str, value: i64) -> Result<(), CatalogError> {
    let name = format!("{PREFIX}{name}");
    let insert = "INSERT INTO counter(name, value) VALUES(?, ?)
                  ON CONFLICT(name) DO UPDATE SET value = excluded.value";
    sql.execute(insert, params![name.as_str(), value]).map(drop)
}

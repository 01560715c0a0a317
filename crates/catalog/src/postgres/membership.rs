//! Membership of a server in the list of the catalogue's servers, as its transactions check it.

use crate::CatalogError;
use crate::sql::{Row, Sql};

/// Number of a process that is not a server.
pub(super) const NO_SERVER: i64 = 0;
/// Number of a server that has left the list; no row has it.
pub(super) const GONE: i64 = -1;

/// Fails with `Fenced` unless `server` is in the list or is [`NO_SERVER`]. Returns the number of
/// condemnations so far.
pub(super) fn check(sql: &dyn Sql, server: i64) -> Result<u64, CatalogError> {
    let select = "SELECT coalesce((SELECT value FROM counter WHERE name = 'generation'), 0),
                    (SELECT id FROM server WHERE id = ?)";
    let columns = |row: &Row<'_>| Ok((row.get::<u64>(0)?, row.get::<Option<i64>>(1)?));
    let (generation, member) = sql.one(select, &[&server], columns)?;
    if server != NO_SERVER && member.is_none() {
        return Err(CatalogError::Fenced);
    }
    Ok(generation)
}

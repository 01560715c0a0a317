//! The tables in PostgreSQL, by version of the schema. A migration is never edited: a change of the
//! tables is a new migration.
//!
//! A migration removes nothing that the previous version uses, because several servers are upgraded
//! one after the other and servers of the previous version keep running. They wait while a
//! migration runs.

use super::session::Session;
use crate::CatalogError;
use crate::sql::{Row, Sql};

/// Time in microseconds for which the last transaction of each connection is known: two days.
const SETTLED_MICROS: i64 = 2 * 86_400_000_000;

const MIGRATIONS: [&str; 25] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
    include_str!("schema/7.sql"),
    include_str!("schema/8.sql"),
    include_str!("schema/9.sql"),
    include_str!("schema/10.sql"),
    include_str!("schema/11.sql"),
    include_str!("schema/12.sql"),
    include_str!("schema/13.sql"),
    include_str!("schema/14.sql"),
    include_str!("schema/15.sql"),
    include_str!("schema/16.sql"),
    include_str!("schema/17.sql"),
    include_str!("schema/18.sql"),
    include_str!("schema/19.sql"),
    include_str!("schema/20.sql"),
    include_str!("schema/21.sql"),
    include_str!("schema/22.sql"),
    include_str!("schema/23.sql"),
    include_str!("schema/24.sql"),
    include_str!("schema/25.sql"),
];

/// Brings the schema to the newest version that this program knows; a newer schema is left as it
/// is.
pub(super) fn migrate(session: &Session) -> Result<(), CatalogError> {
    session.command(
        "CREATE TABLE IF NOT EXISTS holdfast_schema(
             version BIGINT NOT NULL, needs BIGINT NOT NULL)",
    )?;
    let sql: &dyn Sql = session;
    let select = "SELECT version, needs FROM holdfast_schema";
    let columns = |row: &Row<'_>| Ok((row.get::<usize>(0)?, row.get::<usize>(1)?));
    let (version, needs) = sql.first(select, &[], columns)?.unwrap_or((0, 0));
    if needs > MIGRATIONS.len() {
        return Err(CatalogError::Damaged(format!(
            "its schema needs programs of version {needs}, but this program knows versions up to \
             {}; upgrade the program",
            MIGRATIONS.len()
        )));
    }
    if version > 0 && version < MIGRATIONS.len() {
        // A reader may wait for a transaction that waits for this transaction. The timeout ends
        // such a deadlock: this transaction is begun again.
        session.command("SET LOCAL lock_timeout = '5s'")?;
    }
    for migration in MIGRATIONS.iter().skip(version) {
        session.command(migration)?;
    }
    if version == 0 {
        let standard = ::policy::PolicySet::standard(model::ClassId(1));
        let body = serde_json::to_string(&standard).map_err(CatalogError::failed)?;
        let insert = "INSERT INTO policy_set VALUES(1, 'active', 0, ?)";
        sql.execute(insert, &[&body])?;
        let insert = "INSERT INTO holdfast_schema VALUES(?, 1)";
        sql.execute(insert, &[&MIGRATIONS.len()])?;
    } else {
        // Nothing asks for the last transaction of an old connection.
        let delete = "DELETE FROM settled WHERE changed < ?";
        sql.execute(delete, &[&(sys::clock::system().0 - SETTLED_MICROS)])?;
    }
    if version > 0 && version < MIGRATIONS.len() {
        sql.execute("UPDATE holdfast_schema SET version = ?", &[&MIGRATIONS.len()])?;
    }
    Ok(())
}

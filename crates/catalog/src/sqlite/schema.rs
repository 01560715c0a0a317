//! Tables, by version of the schema. A migration is never edited: a later one is added behind it.

use rusqlite::Connection;

use super::{CatalogError, database};

/// What makes each version of the schema from the one before.
const MIGRATIONS: [&str; 1] = [VERSION_1];

const VERSION_1: &str = "
CREATE TABLE domain(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE class(
    id INTEGER PRIMARY KEY, domain INTEGER NOT NULL REFERENCES domain, name TEXT NOT NULL,
    is_default INTEGER NOT NULL, versions_existing INTEGER, versions_deleted INTEGER,
    extra_days INTEGER, only_days INTEGER, UNIQUE(domain, name)) STRICT;
INSERT INTO domain VALUES(1, 'STANDARD');
INSERT INTO class VALUES(1, 1, 'STANDARD', 1, NULL, NULL, 30, 60);

CREATE TABLE node(
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
    domain INTEGER NOT NULL REFERENCES domain, locked INTEGER NOT NULL,
    registered INTEGER NOT NULL) STRICT;
CREATE TABLE token(
    hash BLOB PRIMARY KEY, node INTEGER NOT NULL, expires INTEGER NOT NULL,
    state TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE certificate(
    serial BLOB PRIMARY KEY, node INTEGER NOT NULL, expires INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE filespace(
    id INTEGER PRIMARY KEY AUTOINCREMENT, node INTEGER NOT NULL, name BLOB NOT NULL,
    registered INTEGER NOT NULL, last_backup INTEGER, UNIQUE(node, name)) STRICT;
CREATE TABLE session(
    id INTEGER PRIMARY KEY AUTOINCREMENT, node INTEGER NOT NULL, filespace INTEGER NOT NULL,
    started INTEGER NOT NULL, ended INTEGER NOT NULL, complete INTEGER NOT NULL,
    report TEXT NOT NULL) STRICT;
CREATE INDEX session_by_node ON session(node, id);

-- A page's number is its filespace shifted left by 36, plus a count.
CREATE TABLE directory(
    filespace INTEGER NOT NULL, path BLOB NOT NULL, first BLOB NOT NULL, page INTEGER NOT NULL,
    objects INTEGER NOT NULL, PRIMARY KEY(filespace, path, first)) STRICT, WITHOUT ROWID;
CREATE TABLE page(id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE digest(
    id INTEGER PRIMARY KEY, hash BLOB NOT NULL, digest BLOB, first BLOB) STRICT;

CREATE TABLE version(
    filespace INTEGER NOT NULL, directory BLOB NOT NULL, name BLOB NOT NULL,
    deactivated INTEGER NOT NULL, inserted INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY(filespace, directory, name, deactivated, inserted)) STRICT, WITHOUT ROWID;

CREATE TABLE pack(
    number INTEGER PRIMARY KEY AUTOINCREMENT, domain INTEGER NOT NULL, sealed INTEGER NOT NULL,
    bytes INTEGER NOT NULL) STRICT;
";

/// Brings the schema to the newest version, each step as a whole.
pub(super) fn migrate(connection: &Connection) -> Result<(), CatalogError> {
    let version: usize = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(database)?;
    if version > MIGRATIONS.len() {
        return Err(CatalogError::Damaged(format!(
            "its schema has version {version}; this program knows up to {}",
            MIGRATIONS.len()
        )));
    }
    for (step, migration) in MIGRATIONS.iter().enumerate().skip(version) {
        let batch = format!("BEGIN; {migration} PRAGMA user_version={}; COMMIT;", step + 1);
        connection.execute_batch(&batch).map_err(database)?;
    }
    Ok(())
}

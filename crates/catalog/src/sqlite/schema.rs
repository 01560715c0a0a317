//! Tables, by version of the schema. A migration is never edited: a later one is added behind it.

use model::{ClassId, DomainId};
use policy::{BackupCopyGroup, Limit, PolicyDomain};
use rusqlite::{Connection, params};

use super::{CatalogError, database};

/// What makes each version of the schema from the one before.
const MIGRATIONS: [&str; 1] = [VERSION_1];

const VERSION_1: &str = "
CREATE TABLE domain(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE class(
    id INTEGER PRIMARY KEY, domain INTEGER NOT NULL REFERENCES domain, name TEXT NOT NULL,
    is_default INTEGER NOT NULL, versions_existing INTEGER, versions_deleted INTEGER,
    extra_days INTEGER, only_days INTEGER, UNIQUE(domain, name)) STRICT;

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
        let transaction = connection.unchecked_transaction().map_err(database)?;
        transaction.execute_batch(migration).map_err(database)?;
        if step == 0 {
            add_domain(&transaction, &PolicyDomain::standard(DomainId(1), ClassId(1)))?;
        }
        transaction.pragma_update(None, "user_version", step + 1).map_err(database)?;
        transaction.commit().map_err(database)?;
    }
    Ok(())
}

/// Stores the domain with its classes; NULL stands for no limit.
fn add_domain(connection: &Connection, domain: &PolicyDomain) -> Result<(), CatalogError> {
    let insert = "INSERT INTO domain VALUES(?, ?)";
    connection
        .execute(insert, params![domain.id.0, domain.name])
        .map_err(database)?;
    for class in &domain.classes {
        let insert = "INSERT INTO class VALUES(?, ?, ?, ?, ?, ?, ?, ?)";
        let BackupCopyGroup { versions_existing_max, versions_deleted_max, extra_days, only_days } =
            class.backup;
        let [existing, deleted, extra, only] =
            [versions_existing_max, versions_deleted_max, extra_days, only_days].map(number);
        let is_default = class.id == domain.default_class;
        let values = params![
            class.id.0,
            domain.id.0,
            class.name,
            is_default,
            existing,
            deleted,
            extra,
            only
        ];
        connection.execute(insert, values).map_err(database)?;
    }
    Ok(())
}

fn number(limit: Limit) -> Option<u16> {
    match limit {
        Limit::Unlimited => None,
        Limit::AtMost(number) => Some(number),
    }
}

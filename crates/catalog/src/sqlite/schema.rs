//! Tables, by version of the schema. A migration is never edited: a later one is added behind it.

use rusqlite::Connection;

use super::{CatalogError, database};

/// What makes each version of the schema from the one before.
const MIGRATIONS: [&str; 4] = [VERSION_1, VERSION_2, VERSION_3, VERSION_4];

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

INSERT INTO domain VALUES(1, 'STANDARD');
INSERT INTO class VALUES(1, 1, 'STANDARD', 1, NULL, NULL, 30, 60);
";

/// Policy sets with drafts, option sets, rights of nodes, events, and what expiration goes by.
const VERSION_2: &str = "
CREATE TABLE policy_set(
    domain INTEGER NOT NULL REFERENCES domain, state TEXT NOT NULL, changed INTEGER NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY(domain, state)) STRICT, WITHOUT ROWID;
INSERT INTO policy_set SELECT id, 'active', 0, json_object(
    'classes', json((SELECT json_group_array(json_object(
        'id', class.id, 'name', class.name,
        'backup', json_object(
            'versions_existing_max', coalesce(CAST(versions_existing AS TEXT), 'NOLIMIT'),
            'versions_deleted_max', coalesce(CAST(versions_deleted AS TEXT), 'NOLIMIT'),
            'extra_days', coalesce(CAST(extra_days AS TEXT), 'NOLIMIT'),
            'only_days', coalesce(CAST(only_days AS TEXT), 'NOLIMIT')),
        'archive', json_object('keep_days', '365')) ORDER BY class.name)
        FROM class WHERE class.domain = domain.id)),
    'default_class', (SELECT id FROM class WHERE class.domain = domain.id AND is_default),
    'backup_grace_days', 30, 'archive_grace_days', 365) FROM domain;
-- A class keeps its number for ever, also while no policy set has it.
CREATE TABLE class_number(
    id INTEGER PRIMARY KEY AUTOINCREMENT, domain INTEGER NOT NULL REFERENCES domain,
    name TEXT NOT NULL COLLATE NOCASE, UNIQUE(domain, name)) STRICT;
INSERT INTO class_number SELECT id, domain, name FROM class;
DROP TABLE class;

CREATE TABLE option_set(
    name TEXT NOT NULL PRIMARY KEY COLLATE NOCASE, body BLOB NOT NULL) STRICT, WITHOUT ROWID;
ALTER TABLE node ADD COLUMN option_set TEXT COLLATE NOCASE;
ALTER TABLE node ADD COLUMN deletes_backups INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN deletes_archives INTEGER NOT NULL DEFAULT 1;

CREATE TABLE event(
    id INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, actor TEXT NOT NULL,
    what TEXT NOT NULL, details TEXT NOT NULL) STRICT;

-- In which directories versions have ended, by day; what else makes expiration look at a directory
-- counts as an end today.
CREATE TABLE ending(
    filespace INTEGER NOT NULL, day INTEGER NOT NULL, directory BLOB NOT NULL,
    PRIMARY KEY(filespace, day, directory)) STRICT, WITHOUT ROWID;
INSERT INTO ending SELECT DISTINCT filespace, deactivated / 86400000000, directory FROM version;
-- NULL: every version is to be looked at.
ALTER TABLE filespace ADD COLUMN expired_to INTEGER;
";

/// Archives, and what was deleted and can be had back.
const VERSION_3: &str = "
CREATE TABLE archive(
    number INTEGER PRIMARY KEY AUTOINCREMENT, node INTEGER NOT NULL, description TEXT NOT NULL,
    created INTEGER NOT NULL, event INTEGER, held INTEGER NOT NULL, complete INTEGER NOT NULL,
    objects INTEGER NOT NULL, bytes INTEGER NOT NULL, due INTEGER) STRICT;
CREATE INDEX archive_by_node ON archive(node, number);
CREATE TABLE deletion(
    number INTEGER PRIMARY KEY AUTOINCREMENT, node INTEGER NOT NULL, time INTEGER NOT NULL,
    details TEXT NOT NULL) STRICT;
CREATE TABLE trash(
    deletion INTEGER NOT NULL, filespace INTEGER NOT NULL, directory BLOB NOT NULL,
    name BLOB NOT NULL, deactivated INTEGER NOT NULL, inserted INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY(deletion, filespace, directory, name, deactivated, inserted))
    STRICT, WITHOUT ROWID;
";

/// Pools.
const VERSION_4: &str = "
CREATE TABLE pool(
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    url TEXT NOT NULL, is_copy INTEGER NOT NULL, mark BLOB NOT NULL,
    next INTEGER REFERENCES pool, capacity INTEGER, high INTEGER NOT NULL, low INTEGER NOT NULL,
    delay INTEGER NOT NULL) STRICT;
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
        transaction.pragma_update(None, "user_version", step + 1).map_err(database)?;
        transaction.commit().map_err(database)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A catalogue as the first version made it, with a version in it.
    fn first_version() -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute_batch(VERSION_1).expect("the first schema");
        let rows = "UPDATE class SET versions_existing = 5, extra_days = NULL;
                    INSERT INTO node(name, domain, locked, registered) VALUES('a', 1, 0, 7);
                    INSERT INTO filespace(node, name, registered) VALUES(1, x'2f', 7);
                    INSERT INTO version VALUES(1, x'2f', x'61', 86400000001, 5, x'00');
                    INSERT INTO version VALUES(1, x'2f', x'62', 86400000002, 5, x'00');
                    PRAGMA user_version = 1;";
        connection.execute_batch(rows).expect("rows");
        connection
    }

    #[test]
    fn the_classes_of_the_first_version_become_a_policy_set() {
        let connection = first_version();
        migrate(&connection).expect("is brought up to date");
        let domains = super::super::policy::domains(&connection).expect("are listed");
        let mut expected = policy::PolicySet::standard(model::ClassId(1));
        let group = expected.classes[0].backup.as_mut().expect("a group");
        group.versions_existing_max = policy::Limit::AtMost(5);
        group.extra_days = policy::Limit::Unlimited;
        assert_eq!(domains[0].active, expected);
        let endings: i64 = connection
            .query_row("SELECT count(*) FROM ending WHERE day = 1", [], |row| row.get(0))
            .expect("a count");
        assert_eq!(endings, 1);
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let connection = first_version();
        connection.pragma_update(None, "user_version", 99).expect("is set");
        assert!(matches!(migrate(&connection), Err(CatalogError::Damaged(_))));
    }
}

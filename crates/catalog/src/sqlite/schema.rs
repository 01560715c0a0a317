//! The tables in SQLite, by version of the schema. A migration is never edited: a change of the
//! tables is a new migration.

use rusqlite::Connection;

use super::database_error::database;
use crate::CatalogError;

/// Migrations, each from one version to the next.
const MIGRATIONS: [&str; 28] = [
    VERSION_1,
    VERSION_2,
    VERSION_3,
    VERSION_4,
    VERSION_5,
    VERSION_6,
    VERSION_7,
    VERSION_8,
    VERSION_9,
    VERSION_10,
    VERSION_11,
    RESTORE_DRILLS,
    ENROLMENT_KEYS,
    EVENT_PROGRESS,
    OPTION_SET_VERSIONS,
    FOLLOWING_TIMES,
    EVENT_PAUSES,
    PEOPLE,
    AMOUNTS,
    ALERTS,
    RESTORES,
    READ_RULES,
    IDENTITIES,
    EVENTS_BY_SCHEDULE,
    CONTACTS,
    DIGEST_SUMS,
    ARCHIVED,
    POLLS,
];

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

/// Policy sets with drafts, option sets, rights of nodes, events, and days on which versions ended.
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

-- Directories in which versions have ended, by day. Any other reason for expiration to examine a
-- directory counts as an end today.
CREATE TABLE ending(
    filespace INTEGER NOT NULL, day INTEGER NOT NULL, directory BLOB NOT NULL,
    PRIMARY KEY(filespace, day, directory)) STRICT, WITHOUT ROWID;
INSERT INTO ending SELECT DISTINCT filespace, deactivated / 86400000000, directory FROM version;
-- NULL if expiration has to examine every version.
ALTER TABLE filespace ADD COLUMN expired_to INTEGER;
";

/// Archives; deletions that can be undone.
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

/// Libraries, volumes and the parts of packs on them; collocation.
const VERSION_5: &str = "
CREATE TABLE library(
    name TEXT NOT NULL PRIMARY KEY COLLATE NOCASE, changer TEXT, drives TEXT NOT NULL, folder TEXT,
    capacity INTEGER, drives_max INTEGER NOT NULL, retain INTEGER NOT NULL,
    optimised_only INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE volume(
    id INTEGER PRIMARY KEY AUTOINCREMENT, library TEXT NOT NULL COLLATE NOCASE REFERENCES library,
    name TEXT NOT NULL, label BLOB NOT NULL, block_bytes INTEGER NOT NULL, pool INTEGER,
    collocation TEXT NOT NULL, state INTEGER NOT NULL, access INTEGER NOT NULL,
    location TEXT NOT NULL, written INTEGER NOT NULL, errors INTEGER NOT NULL,
    changed INTEGER NOT NULL, UNIQUE(library, name)) STRICT;
CREATE TABLE stored(
    pool INTEGER NOT NULL REFERENCES pool, pack INTEGER NOT NULL, bytes INTEGER NOT NULL,
    stored INTEGER NOT NULL, PRIMARY KEY(pool, pack)) STRICT, WITHOUT ROWID;
-- A volume may end before it has a byte of the pack: the offset alone does not name a part.
CREATE TABLE part(
    pool INTEGER NOT NULL REFERENCES pool, pack INTEGER NOT NULL, offset INTEGER NOT NULL,
    first_sequence INTEGER NOT NULL, volume INTEGER NOT NULL REFERENCES volume,
    object BLOB NOT NULL, object_sequence INTEGER NOT NULL, position INTEGER NOT NULL,
    blocks INTEGER NOT NULL, bytes INTEGER NOT NULL, is_last INTEGER NOT NULL,
    PRIMARY KEY(pool, pack, offset, first_sequence, volume, position)) STRICT, WITHOUT ROWID;
CREATE INDEX part_by_volume ON part(volume, position, bytes);

ALTER TABLE pool ADD COLUMN collocation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pool ADD COLUMN reclaim INTEGER NOT NULL DEFAULT 60;
ALTER TABLE pool ADD COLUMN reuse_delay INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN collocation_group TEXT;
ALTER TABLE pack ADD COLUMN node INTEGER;
";

/// Counters, and views with the names of TSM's tables.
const VERSION_6: &str = "
CREATE TABLE counter(name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO counter VALUES(
    'pack', coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'pack'), 0));

CREATE VIEW nodes AS SELECT
    node.name AS node_name, domain.name AS domain_name, locked AS locked,
    datetime(registered / 1000000, 'unixepoch') AS reg_time, option_set AS cloptset,
    deletes_backups AS backdelete, deletes_archives AS archdelete,
    collocation_group AS collocgroup_name
    FROM node JOIN domain ON domain.id = node.domain;
CREATE VIEW filespaces AS SELECT
    node.name AS node_name, filespace.id AS filespace_id, filespace.name AS filespace_name,
    datetime(last_backup / 1000000, 'unixepoch') AS backup_start
    FROM filespace JOIN node ON node.id = filespace.node;
CREATE VIEW occupancy AS SELECT
    node.name AS node_name, 'Bkup' AS type, filespace.id AS filespace_id,
    filespace.name AS filespace_name,
    coalesce((SELECT sum(objects) FROM directory WHERE directory.filespace = filespace.id), 0)
        AS num_files,
    (SELECT count(*) FROM version WHERE version.filespace = filespace.id) AS num_inactive
    FROM filespace JOIN node ON node.id = filespace.node;
CREATE VIEW summary AS SELECT
    datetime(started / 1000000, 'unixepoch') AS start_time,
    datetime(ended / 1000000, 'unixepoch') AS end_time, 'BACKUP' AS activity, session.id AS number,
    node.name AS entity, filespace AS filespace_id, complete AS successful, report AS report
    FROM session JOIN node ON node.id = session.node;
CREATE VIEW actlog AS SELECT
    datetime(time / 1000000, 'unixepoch') AS date_time, id AS msgno, actor AS originator,
    what AS message, details AS details FROM event;
";

/// The view of occupancy tells archives and space management from backups.
const VERSION_7: &str = "
DROP VIEW occupancy;
CREATE VIEW occupancy AS SELECT
    node.name AS node_name,
    CASE WHEN substr(filespace.name, 1, 7) = x'00737061636500' THEN 'SpMg'
         WHEN substr(filespace.name, 1, 1) = x'00' THEN 'Arch' ELSE 'Bkup' END AS type,
    filespace.id AS filespace_id, filespace.name AS filespace_name,
    coalesce((SELECT sum(objects) FROM directory WHERE directory.filespace = filespace.id), 0)
        AS num_files,
    (SELECT count(*) FROM version WHERE version.filespace = filespace.id) AS num_inactive
    FROM filespace JOIN node ON node.id = filespace.node;
";

/// Runs of the server's own tasks.
const VERSION_8: &str = "
CREATE TABLE task_run(
    id INTEGER PRIMARY KEY AUTOINCREMENT, task TEXT NOT NULL, due INTEGER NOT NULL,
    started INTEGER NOT NULL, ended INTEGER, code INTEGER, reason TEXT) STRICT;
CREATE VIEW events AS SELECT
    datetime(due / 1000000, 'unixepoch') AS scheduled_start,
    datetime(started / 1000000, 'unixepoch') AS actual_start,
    datetime(ended / 1000000, 'unixepoch') AS completed, NULL AS domain_name,
    task AS schedule_name, NULL AS node_name,
    CASE WHEN ended IS NULL THEN 'Started' WHEN code < 12 THEN 'Completed' ELSE 'Failed' END
        AS status,
    code AS result, reason AS reason FROM task_run;
";

/// Numbers of drives that write at once.
const VERSION_9: &str = "
ALTER TABLE library ADD COLUMN writers INTEGER NOT NULL DEFAULT 0;
";

/// Kept baselines of nodes.
const VERSION_10: &str = "
CREATE TABLE baseline(
    number INTEGER PRIMARY KEY AUTOINCREMENT, node INTEGER NOT NULL, made INTEGER NOT NULL,
    document BLOB NOT NULL) STRICT;
CREATE INDEX baseline_by_node ON baseline(node, number);
";

/// Schedules, labels of nodes, and events of schedules.
const VERSION_11: &str = "
CREATE TABLE schedule(
    name TEXT NOT NULL PRIMARY KEY, body TEXT NOT NULL, since INTEGER NOT NULL,
    changed INTEGER NOT NULL, changed_by TEXT NOT NULL) STRICT;
CREATE TABLE association(
    schedule TEXT NOT NULL, kind INTEGER NOT NULL, target TEXT NOT NULL, since INTEGER NOT NULL,
    PRIMARY KEY(schedule, kind, target)) STRICT, WITHOUT ROWID;
CREATE TABLE node_label(
    node INTEGER NOT NULL, label TEXT NOT NULL, PRIMARY KEY(node, label)) STRICT, WITHOUT ROWID;
CREATE TABLE scheduled_event(
    id INTEGER PRIMARY KEY AUTOINCREMENT, schedule TEXT NOT NULL, planned INTEGER NOT NULL,
    node INTEGER NOT NULL, opens INTEGER NOT NULL, closes INTEGER NOT NULL,
    state INTEGER NOT NULL, attempt INTEGER NOT NULL, started INTEGER, ended INTEGER,
    code INTEGER, reason TEXT NOT NULL, report TEXT NOT NULL, log BLOB NOT NULL,
    changed INTEGER NOT NULL, control INTEGER NOT NULL DEFAULT 0,
    UNIQUE(schedule, planned, node)) STRICT;
CREATE INDEX scheduled_event_by_state ON scheduled_event(state, closes);
CREATE INDEX scheduled_event_by_node ON scheduled_event(node, planned);
DROP VIEW events;
CREATE VIEW events AS SELECT
    datetime(due / 1000000, 'unixepoch') AS scheduled_start,
    datetime(started / 1000000, 'unixepoch') AS actual_start,
    datetime(ended / 1000000, 'unixepoch') AS completed, NULL AS domain_name,
    task AS schedule_name, NULL AS node_name,
    CASE WHEN ended IS NULL THEN 'Started' WHEN code < 12 THEN 'Completed' ELSE 'Failed' END
        AS status,
    code AS result, reason AS reason FROM task_run
  UNION ALL SELECT
    datetime(planned / 1000000, 'unixepoch'), datetime(started / 1000000, 'unixepoch'),
    datetime(ended / 1000000, 'unixepoch'), domain.name, schedule, node.name,
    CASE state WHEN 1 THEN 'Pending' WHEN 2 THEN 'Started' WHEN 3 THEN 'In Progress'
        WHEN 4 THEN 'Completed' WHEN 5 THEN 'Missed' WHEN 6 THEN 'Failed' WHEN 7 THEN 'Restarted'
        WHEN 8 THEN 'Severed' ELSE 'Uncertain' END,
    code, reason FROM scheduled_event
    LEFT JOIN node ON node.id = scheduled_event.node
    LEFT JOIN domain ON domain.id = node.domain;
";

/// The last restore drills of each node.
const RESTORE_DRILLS: &str = "
CREATE TABLE drill(
    node INTEGER NOT NULL, is_good INTEGER NOT NULL, ended INTEGER NOT NULL,
    objects INTEGER NOT NULL, bytes INTEGER NOT NULL, damaged INTEGER NOT NULL,
    reason TEXT NOT NULL, PRIMARY KEY(node, is_good)) STRICT, WITHOUT ROWID;
";

/// Keys that enrol many nodes.
const ENROLMENT_KEYS: &str = "
CREATE TABLE enrolment_key(
    hash BLOB PRIMARY KEY, name TEXT NOT NULL, nodes_max INTEGER NOT NULL, nodes INTEGER NOT NULL,
    made INTEGER NOT NULL, made_by TEXT NOT NULL, expires INTEGER NOT NULL, revoked INTEGER,
    domain TEXT NOT NULL, option_set TEXT, names TEXT NOT NULL, labels TEXT NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX enrolment_key_by_name ON enrolment_key(lower(name));
";

/// Progress of events, and the time until which somebody looks at them.
const EVENT_PROGRESS: &str = "
ALTER TABLE scheduled_event ADD COLUMN watched INTEGER NOT NULL DEFAULT 0;
ALTER TABLE scheduled_event ADD COLUMN progress TEXT NOT NULL DEFAULT '';
";

/// Versions of option sets. The statements of the version in force are also in `option_set`.
const OPTION_SET_VERSIONS: &str = "
ALTER TABLE option_set ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE option_set ADD COLUMN stage TEXT;
CREATE TABLE option_set_version(
    name TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL, options TEXT NOT NULL,
    changed INTEGER NOT NULL, changed_by TEXT NOT NULL, comment TEXT NOT NULL, in_force INTEGER,
    PRIMARY KEY(name, version)) STRICT, WITHOUT ROWID;
INSERT INTO option_set_version SELECT lower(name), 1, body, '[]', 0, '', '', 0 FROM option_set;
";

/// Times since which nodes have their labels and domains. A schedule counts for them from then on.
const FOLLOWING_TIMES: &str = "
ALTER TABLE node_label ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE node ADD COLUMN domain_since INTEGER NOT NULL DEFAULT 0;
";

/// Time since which the attempt of an event pauses, as its node has confirmed it.
const EVENT_PAUSES: &str = "ALTER TABLE scheduled_event ADD COLUMN paused INTEGER;";

/// People, their keys and sign-ins; details of nodes and domains; kept answers; approvals.
const PEOPLE: &str = "
DROP VIEW nodes;
CREATE VIEW nodes AS SELECT
    node.name AS node_name, domain.name AS domain_name, locked <> 0 AS locked,
    datetime(registered / 1000000, 'unixepoch') AS reg_time, option_set AS cloptset,
    deletes_backups AS backdelete, deletes_archives AS archdelete,
    collocation_group AS collocgroup_name
    FROM node JOIN domain ON domain.id = node.domain;
CREATE TABLE person(
    id INTEGER PRIMARY KEY AUTOINCREMENT, login TEXT NOT NULL,
    name TEXT NOT NULL, mail TEXT NOT NULL, cost_centres TEXT NOT NULL, password TEXT,
    second_factor BLOB, code_step INTEGER NOT NULL, locked INTEGER NOT NULL, made INTEGER NOT NULL,
    made_by TEXT NOT NULL) STRICT;
CREATE UNIQUE INDEX person_by_login ON person(lower(login));
CREATE TABLE person_role(
    person INTEGER NOT NULL, role TEXT NOT NULL, domain INTEGER NOT NULL,
    PRIMARY KEY(person, role, domain))
    STRICT, WITHOUT ROWID;
CREATE TABLE api_key(
    id TEXT PRIMARY KEY, hash BLOB NOT NULL, person INTEGER NOT NULL,
    kind TEXT NOT NULL, description TEXT NOT NULL, uses_max INTEGER, uses INTEGER NOT NULL,
    made INTEGER NOT NULL, made_by TEXT NOT NULL, expires INTEGER, revoked INTEGER)
    STRICT, WITHOUT ROWID;
CREATE INDEX api_key_by_person ON api_key(person);
CREATE TABLE sign_in(
    hash BLOB PRIMARY KEY, person INTEGER NOT NULL, guard BLOB NOT NULL, made INTEGER NOT NULL,
    used INTEGER NOT NULL, expires INTEGER NOT NULL, origin TEXT NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_by_person ON sign_in(person);
CREATE TABLE node_detail(
    node INTEGER PRIMARY KEY, owner INTEGER, hostname TEXT NOT NULL, mail TEXT NOT NULL,
    description TEXT NOT NULL, platform TEXT NOT NULL, application TEXT NOT NULL,
    cost_centre TEXT NOT NULL) STRICT;
CREATE INDEX node_detail_by_owner ON node_detail(owner);
CREATE TABLE domain_detail(
    domain INTEGER PRIMARY KEY, tag TEXT NOT NULL, description TEXT NOT NULL, nodes_max INTEGER,
    warning_percent INTEGER NOT NULL) STRICT;
CREATE TABLE answer(
    caller TEXT NOT NULL, name TEXT NOT NULL, request BLOB NOT NULL,
    made INTEGER NOT NULL, status INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY(caller, name))
    STRICT, WITHOUT ROWID;
CREATE INDEX answer_by_time ON answer(made);
CREATE TABLE approval(
    number INTEGER PRIMARY KEY AUTOINCREMENT, operation TEXT NOT NULL,
    request TEXT NOT NULL, summary TEXT NOT NULL, asked_by TEXT NOT NULL, asked INTEGER NOT NULL,
    decided_by TEXT NOT NULL, decided INTEGER, state INTEGER NOT NULL, reason TEXT NOT NULL) STRICT;
";

/// Amounts of what filespaces hold, and the limits of domains on them.
const AMOUNTS: &str = "
CREATE TABLE amount(
    filespace INTEGER PRIMARY KEY, objects INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;
ALTER TABLE domain_detail ADD COLUMN objects_max INTEGER;
ALTER TABLE domain_detail ADD COLUMN bytes_max INTEGER;
";

/// Alerts and their notices; the space of each day.
const ALERTS: &str = "
CREATE TABLE alert(
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, object TEXT NOT NULL,
    domain INTEGER, node INTEGER, is_urgent INTEGER NOT NULL, text TEXT NOT NULL,
    opened INTEGER NOT NULL, ended INTEGER, told INTEGER, end_told INTEGER, acknowledged INTEGER,
    acknowledged_by TEXT NOT NULL, note TEXT NOT NULL) STRICT;
CREATE INDEX alert_by_end ON alert(ended);
CREATE TABLE notice(
    number INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, address TEXT NOT NULL,
    subject TEXT NOT NULL, body TEXT NOT NULL, made INTEGER NOT NULL, due INTEGER NOT NULL,
    attempts INTEGER NOT NULL, error TEXT NOT NULL, sent INTEGER) STRICT;
CREATE INDEX notice_by_sending ON notice(sent, due);
CREATE TABLE usage_day(
    kind INTEGER NOT NULL, subject INTEGER NOT NULL, day INTEGER NOT NULL, bytes INTEGER NOT NULL,
    bytes_max INTEGER NOT NULL, PRIMARY KEY(kind, subject, day)) STRICT, WITHOUT ROWID;
CREATE INDEX scheduled_event_by_time ON scheduled_event(planned);
";

/// Restores of nodes.
const RESTORES: &str = "
CREATE TABLE restored(
    number INTEGER PRIMARY KEY AUTOINCREMENT, node INTEGER NOT NULL, filespace INTEGER NOT NULL,
    started INTEGER NOT NULL, ended INTEGER NOT NULL, objects INTEGER NOT NULL,
    bytes INTEGER NOT NULL) STRICT;
CREATE INDEX restored_by_end ON restored(ended);
";

/// Rules by which a node lets another node read.
const READ_RULES: &str = "
CREATE TABLE read_rule(
    node INTEGER NOT NULL, reader TEXT NOT NULL, archives INTEGER NOT NULL, path BLOB NOT NULL,
    since INTEGER NOT NULL, PRIMARY KEY(node, reader, archives, path)) STRICT, WITHOUT ROWID;
";

/// Identities of people at providers of OpenID Connect.
const IDENTITIES: &str = "
CREATE TABLE identity(
    issuer TEXT NOT NULL, subject TEXT NOT NULL, person INTEGER NOT NULL, made INTEGER NOT NULL,
    PRIMARY KEY(issuer, subject)) STRICT, WITHOUT ROWID;
CREATE INDEX identity_by_person ON identity(person);
";

/// Events of a schedule are found without reading those of others.
const EVENTS_BY_SCHEDULE: &str = "
CREATE INDEX scheduled_event_by_schedule ON scheduled_event(lower(schedule));
";

/// Last contacts of nodes.
const CONTACTS: &str = "
CREATE TABLE node_contact(
    node INTEGER PRIMARY KEY, seen INTEGER NOT NULL, address TEXT NOT NULL, host TEXT NOT NULL)
    STRICT;
";

/// Sums of the digests of filespaces. Pages without a digest are found without reading the others.
const DIGEST_SUMS: &str = "
CREATE TABLE digest_sum(filespace INTEGER PRIMARY KEY, sum BLOB NOT NULL) STRICT;
CREATE INDEX undigested ON digest(id) WHERE digest IS NULL;
";

/// Finished sessions of archives.
const ARCHIVED: &str = "
CREATE TABLE archived(
    number INTEGER PRIMARY KEY AUTOINCREMENT, node INTEGER NOT NULL, filespace BLOB NOT NULL,
    started INTEGER NOT NULL, ended INTEGER NOT NULL, examined INTEGER NOT NULL,
    objects INTEGER NOT NULL, failed INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;
CREATE INDEX archived_by_end ON archived(ended);
";

/// Last calls of agents. An agent that polls is away only after it has missed several.
const POLLS: &str = "
CREATE TABLE node_poll(
    node INTEGER PRIMARY KEY, polled INTEGER NOT NULL, minutes INTEGER NOT NULL) STRICT;
";

/// Brings the schema to the newest version. Each step is done as a whole or not at all.
pub(super) fn migrate(connection: &Connection) -> Result<(), CatalogError> {
    let version: usize = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(database)?;
    if version > MIGRATIONS.len() {
        return Err(CatalogError::Damaged(format!(
            "its schema has version {version}, but this program knows versions up to {}; upgrade \
             the program",
            MIGRATIONS.len()
        )));
    }
    assert!(version <= MIGRATIONS.len(), "a newer schema is refused above");
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
    use model::{DomainId, PackNumber, PoolId, ServerTime};

    use super::*;
    use crate::sql::{baselines, nodes, packs, policies, pools, volumes};
    use crate::{Collocation, PackRow, PackState, PoolRow};

    /// Makes a catalogue as the first version of the schema has it, with inactive versions in it.
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

    /// Makes a catalogue as the fourth version of the schema has it, with a node, a pack and a pool
    /// in it.
    fn fourth_version() -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        for migration in [VERSION_1, VERSION_2, VERSION_3, VERSION_4] {
            connection.execute_batch(migration).expect("a schema");
        }
        let rows = "INSERT INTO node VALUES(1, 'a', 1, 1, 7, NULL, 1, 0);
                    INSERT INTO pack VALUES(8, 1, 2, 900);
                    INSERT INTO pool VALUES(3, 'A', 'file:///a', 1,
                        x'07070707070707070707070707070707', NULL, 100, 80, 20, 5);
                    PRAGMA user_version = 4;";
        connection.execute_batch(rows).expect("rows");
        connection
    }

    #[test]
    fn the_classes_of_the_first_version_become_a_policy_set() {
        let connection = first_version();
        migrate(&connection).expect("is brought up to date");
        let domains = policies::domains(&connection).expect("are listed");
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
    fn rows_of_the_fourth_version_keep_their_values() {
        let connection = fourth_version();
        migrate(&connection).expect("is brought up to date");
        let pool = PoolRow {
            id: PoolId(3),
            name: "A".to_owned(),
            url: "file:///a".to_owned(),
            is_copy: true,
            mark: [7; 16],
            next: None,
            capacity_bytes: Some(100),
            high_percent: 80,
            low_percent: 20,
            delay_days: 5,
            collocation: Collocation::No,
            reclaim_percent: 60,
            reuse_delay_days: 0,
        };
        assert_eq!(pools::all(&connection).expect("are listed"), [pool]);
        let (number, domain, state) = (PackNumber(8), DomainId(1), PackState::Condemned);
        let pack = PackRow { number, domain, state, bytes: 900, node: None };
        assert_eq!(packs::packs(&connection).expect("are listed"), [pack]);
        let nodes = nodes::nodes(&connection).expect("are listed");
        let node = &nodes[0];
        assert_eq!((node.name.as_str(), node.domain, node.locks.any()), ("a", DomainId(1), true));
        assert_eq!((node.registered, &node.collocation_group), (ServerTime(7), &None));
        assert_eq!((node.deletes_backups, node.deletes_archives), (true, false));
        assert_eq!(baselines::of_node(&connection, node.id, None, 9).expect("are listed"), []);
        assert_eq!(volumes::libraries(&connection).expect("are listed"), []);
        assert_eq!(volumes::volumes(&connection).expect("are listed"), []);
        assert_eq!(volumes::stored_packs(&connection, PoolId(3)).expect("are listed"), []);
    }

    #[test]
    fn the_views_say_what_the_tables_hold() {
        let connection = first_version();
        migrate(&connection).expect("is brought up to date");
        let rows = "INSERT INTO session VALUES(NULL, 1, 1, 0, 1000000, 1, '{}');
                    INSERT INTO event VALUES(NULL, 1000000, 'server', 'expired', '');
                    INSERT INTO task_run VALUES(NULL, 'expire', 0, 1000000, 2000000, 0, '');
                    INSERT INTO task_run VALUES(NULL, 'expire', 0, 1000000, 2000000, 12, 'no');
                    INSERT INTO task_run VALUES(NULL, 'expire', 0, 1000000, NULL, NULL, NULL);";
        connection.execute_batch(rows).expect("rows");
        let ask = |select: &str| -> Vec<String> {
            let mut statement = connection.prepare(select).expect("a statement");
            let rows = statement.query_map([], |row| row.get(0)).expect("runs");
            rows.collect::<Result<_, _>>().expect("text")
        };
        assert_eq!(ask("SELECT node_name || domain_name FROM nodes"), ["aSTANDARD"]);
        assert_eq!(ask("SELECT node_name || hex(filespace_name) FROM filespaces"), ["a2F"]);
        let occupancy = "SELECT type || num_files || ',' || num_inactive FROM occupancy";
        assert_eq!(ask(occupancy), ["Bkup0,2"]);
        assert_eq!(ask("SELECT entity || end_time FROM summary"), ["a1970-01-01 00:00:01"]);
        assert_eq!(
            ask("SELECT originator || date_time FROM actlog"),
            ["server1970-01-01 00:00:01"]
        );
        let events = "SELECT status || ',' || coalesce(result, '') || ',' || actual_start || ','
                      || coalesce(reason, '') FROM events";
        let started = "1970-01-01 00:00:01";
        let expected = [
            format!("Completed,0,{started},"),
            format!("Failed,12,{started},no"),
            format!("Started,,{started},"),
        ];
        assert_eq!(ask(events), expected);
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let connection = first_version();
        connection.pragma_update(None, "user_version", 99).expect("is set");
        assert!(matches!(migrate(&connection), Err(CatalogError::Damaged(_))));
    }
}

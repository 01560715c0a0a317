//! All tables of the catalogue, and the copy of their rows from one engine to another.

use xxhash_rust::xxh3::Xxh3;

use super::{Row, Sql, ToValue, Value};
use crate::CatalogError;

/// A table as every engine has it.
struct Table {
    name: &'static str,
    columns: &'static [&'static str],
    /// ORDER BY clause that puts the rows into the same order in every engine.
    key: &'static str,
    /// True if the database gives the numbers in the first column.
    is_counted: bool,
}

const fn table(
    name: &'static str,
    columns: &'static [&'static str],
    key: &'static str,
    is_counted: bool,
) -> Table {
    Table { name, columns, key, is_counted }
}

/// All tables except `part`. A table that names rows of another table comes after that table.
const TABLES: [Table; 52] = [
    table("counter", &["name", "value"], "name", false),
    table("domain", &["id", "name"], "id", false),
    table("policy_set", &["domain", "state", "changed", "body"], "domain, state", false),
    table("class_number", &["id", "domain", "name"], "id", true),
    table("option_set", &["name", "body", "version", "stage"], "lower(name)", false),
    table(
        "option_set_version",
        &["name", "version", "body", "options", "changed", "changed_by", "comment", "in_force"],
        "name, version",
        false,
    ),
    table(
        "node",
        &[
            "id",
            "name",
            "domain",
            "locked",
            "registered",
            "option_set",
            "deletes_backups",
            "deletes_archives",
            "collocation_group",
            "domain_since",
        ],
        "id",
        true,
    ),
    table("token", &["hash", "node", "expires", "state"], "hash", false),
    table("certificate", &["serial", "node", "expires"], "serial", false),
    table(
        "filespace",
        &["id", "node", "name", "registered", "last_backup", "expired_to"],
        "id",
        true,
    ),
    table("amount", &["filespace", "objects", "bytes"], "filespace", false),
    table(
        "session",
        &["id", "node", "filespace", "started", "ended", "complete", "report"],
        "id",
        true,
    ),
    table("baseline", &["number", "node", "made", "document"], "number", true),
    table(
        "drill",
        &["node", "is_good", "ended", "objects", "bytes", "damaged", "reason"],
        "node, is_good",
        false,
    ),
    table(
        "enrolment_key",
        &[
            "hash",
            "name",
            "nodes_max",
            "nodes",
            "made",
            "made_by",
            "expires",
            "revoked",
            "domain",
            "option_set",
            "names",
            "labels",
        ],
        "hash",
        false,
    ),
    table(
        "person",
        &[
            "id",
            "login",
            "name",
            "mail",
            "cost_centres",
            "password",
            "second_factor",
            "code_step",
            "locked",
            "made",
            "made_by",
        ],
        "id",
        true,
    ),
    table("person_role", &["person", "role", "domain"], "person, role, domain", false),
    table(
        "api_key",
        &[
            "id",
            "hash",
            "person",
            "kind",
            "description",
            "uses_max",
            "uses",
            "made",
            "made_by",
            "expires",
            "revoked",
        ],
        "id",
        false,
    ),
    table(
        "sign_in",
        &["hash", "person", "guard", "made", "used", "expires", "origin"],
        "hash",
        false,
    ),
    table("identity", &["issuer", "subject", "person", "made"], "issuer, subject", false),
    table("node_contact", &["node", "seen", "address", "host"], "node", false),
    table("node_poll", &["node", "polled", "minutes"], "node", false),
    table(
        "node_detail",
        &[
            "node",
            "owner",
            "hostname",
            "mail",
            "description",
            "platform",
            "application",
            "cost_centre",
        ],
        "node",
        false,
    ),
    table(
        "domain_detail",
        &[
            "domain",
            "tag",
            "description",
            "nodes_max",
            "warning_percent",
            "objects_max",
            "bytes_max",
        ],
        "domain",
        false,
    ),
    table(
        "answer",
        &["caller", "name", "request", "made", "status", "body"],
        "caller, name",
        false,
    ),
    table(
        "approval",
        &[
            "number",
            "operation",
            "request",
            "summary",
            "asked_by",
            "asked",
            "decided_by",
            "decided",
            "state",
            "reason",
        ],
        "number",
        true,
    ),
    table(
        "alert",
        &[
            "number",
            "kind",
            "object",
            "domain",
            "node",
            "is_urgent",
            "text",
            "opened",
            "ended",
            "told",
            "end_told",
            "acknowledged",
            "acknowledged_by",
            "note",
        ],
        "number",
        true,
    ),
    table(
        "notice",
        &[
            "number", "channel", "address", "subject", "body", "made", "due", "attempts", "error",
            "sent",
        ],
        "number",
        true,
    ),
    table(
        "restored",
        &["number", "node", "filespace", "started", "ended", "objects", "bytes"],
        "number",
        true,
    ),
    table(
        "archived",
        &[
            "number",
            "node",
            "filespace",
            "started",
            "ended",
            "examined",
            "objects",
            "failed",
            "bytes",
        ],
        "number",
        true,
    ),
    table(
        "usage_day",
        &["kind", "subject", "day", "bytes", "bytes_max"],
        "kind, subject, day",
        false,
    ),
    table("event", &["id", "time", "actor", "what", "details"], "id", true),
    table("schedule", &["name", "body", "since", "changed", "changed_by"], "lower(name)", false),
    table("association", &["schedule", "kind", "target", "since"], "schedule, kind, target", false),
    table("node_label", &["node", "label", "since"], "node, label", false),
    table(
        "read_rule",
        &["node", "reader", "archives", "path", "since"],
        "node, reader, archives, path",
        false,
    ),
    table(
        "scheduled_event",
        &[
            "id", "schedule", "planned", "node", "opens", "closes", "state", "attempt", "started",
            "ended", "code", "reason", "report", "log", "changed", "control", "watched",
            "progress", "paused",
        ],
        "id",
        true,
    ),
    table("task_run", &["id", "task", "due", "started", "ended", "code", "reason"], "id", true),
    table(
        "directory",
        &["filespace", "path", "first", "page", "objects"],
        "filespace, path, first",
        false,
    ),
    table("page", &["id", "body"], "id", false),
    table("digest", &["id", "hash", "digest", "first"], "id", false),
    table("digest_sum", &["filespace", "sum"], "filespace", false),
    table(
        "version",
        &["filespace", "directory", "name", "deactivated", "inserted", "body"],
        "filespace, directory, name, deactivated, inserted",
        false,
    ),
    table("ending", &["filespace", "day", "directory"], "filespace, day, directory", false),
    table(
        "archive",
        &[
            "number",
            "node",
            "description",
            "created",
            "event",
            "held",
            "complete",
            "objects",
            "bytes",
            "due",
        ],
        "number",
        true,
    ),
    table("deletion", &["number", "node", "time", "details"], "number", true),
    table(
        "trash",
        &["deletion", "filespace", "directory", "name", "deactivated", "inserted", "body"],
        "deletion, filespace, directory, name, deactivated, inserted",
        false,
    ),
    table("pack", &["number", "domain", "sealed", "bytes", "node"], "number", false),
    table(
        "pool",
        &[
            "id",
            "name",
            "url",
            "is_copy",
            "mark",
            "next",
            "capacity",
            "high",
            "low",
            "delay",
            "collocation",
            "reclaim",
            "reuse_delay",
        ],
        "id",
        true,
    ),
    table(
        "library",
        &[
            "name",
            "changer",
            "drives",
            "folder",
            "capacity",
            "drives_max",
            "retain",
            "optimised_only",
            "writers",
        ],
        "lower(name)",
        false,
    ),
    table(
        "volume",
        &[
            "id",
            "library",
            "name",
            "label",
            "block_bytes",
            "pool",
            "collocation",
            "state",
            "access",
            "location",
            "written",
            "errors",
            "changed",
        ],
        "id",
        true,
    ),
    table("stored", &["pool", "pack", "bytes", "stored"], "pool, pack", false),
];

/// The table `part`. It comes after all others, because it names pools and volumes.
const PARTS: Table = table(
    "part",
    &[
        "pool",
        "pack",
        "\"offset\"",
        "first_sequence",
        "volume",
        "object",
        "object_sequence",
        "position",
        "blocks",
        "bytes",
        "is_last",
    ],
    "pool, pack, \"offset\", first_sequence, volume, position",
    false,
);

/// All tables, each after the tables whose rows it names.
fn all() -> impl DoubleEndedIterator<Item = &'static Table> {
    TABLES.iter().chain([&PARTS])
}

impl Table {
    /// Returns the column whose numbers the database gives, if the table has one.
    fn counted(&self) -> Option<&'static str> {
        assert!(!self.columns.is_empty(), "every table has a column");
        self.is_counted.then(|| self.columns[0])
    }

    fn select(&self) -> String {
        format!("SELECT {} FROM {} ORDER BY {}", self.columns.join(", "), self.name, self.key)
    }

    fn insert(&self) -> String {
        let places = vec!["?"; self.columns.len()].join(", ");
        format!("INSERT INTO {}({}) VALUES({places})", self.name, self.columns.join(", "))
    }

    /// Computes the checksum of all rows.
    fn checksum(&self, sql: &dyn Sql) -> Result<Checksum, CatalogError> {
        let mut sum = Checksum::default();
        sql.each(&self.select(), &[], &mut |row| {
            sum.add(&self.values(row)?);
            Ok(true)
        })?;
        Ok(sum)
    }

    fn values<'a>(&self, row: &'a Row<'_>) -> Result<Vec<Value<'a>>, CatalogError> {
        (0..self.columns.len()).map(|column| row.0.value(column)).collect()
    }
}

/// Number and hash of the rows of a table, in their order.
#[derive(Default)]
struct Checksum {
    rows: u64,
    hash: Xxh3,
}

impl Checksum {
    /// Adds a row, which has one value for each column of the table.
    fn add(&mut self, values: &[Value<'_>]) {
        self.rows += 1;
        for value in values {
            let (kind, bytes): (u8, &[u8]) = match value {
                Value::Null | Value::TooLarge => (0, &[]),
                Value::Integer(number) => (1, &number.to_le_bytes()),
                Value::Bytes(bytes) => (2, bytes),
                Value::Text(text) => (3, text.as_bytes()),
            };
            self.hash.update(&[kind]);
            self.hash.update(&(bytes.len() as u64).to_le_bytes());
            self.hash.update(bytes);
        }
    }

    fn value(&self) -> (u64, u128) {
        (self.rows, self.hash.digest128())
    }
}

impl ToValue for Value<'_> {
    fn to_value(&self) -> Value<'_> {
        *self
    }
}

/// Fails with `Damaged` if a table or a column is missing.
pub(crate) fn check(sql: &dyn Sql) -> Result<(), CatalogError> {
    for table in all() {
        let select = format!("SELECT {} FROM {} LIMIT 1", table.columns.join(", "), table.name);
        sql.each(&select, &[], &mut |_| Ok(true))?;
    }
    Ok(())
}

/// Replaces all rows of the catalogue `to` with the rows of `from`, and compares the checksums of
/// each table. Returns the number of rows.
pub(crate) fn copy(
    from: &dyn Sql,
    to: &dyn Sql,
    tell: &mut dyn FnMut(&'static str, u64) -> Result<(), CatalogError>,
) -> Result<u64, CatalogError> {
    for table in all().rev() {
        to.execute(&format!("DELETE FROM {}", table.name), &[])?;
    }
    let mut rows = 0;
    for table in all() {
        let insert = table.insert();
        let mut sum = Checksum::default();
        from.each(&table.select(), &[], &mut |row| {
            let values = table.values(row)?;
            assert_eq!(values.len(), table.columns.len(), "one value for each column");
            sum.add(&values);
            let parameters: Vec<&dyn ToValue> =
                values.iter().map(|value| value as &dyn ToValue).collect();
            to.execute(&insert, &parameters)?;
            tell(table.name, rows + sum.rows)?;
            Ok(true)
        })?;
        rows += sum.rows;
        if let Some(column) = table.counted() {
            to.count_from(table.name, column, from.last_number(table.name, column)?)?;
        }
        if table.checksum(to)?.value() != sum.value() {
            let text =
                format!("the copied rows of the table {} differ from the originals", table.name);
            return Err(CatalogError::Damaged(text));
        }
    }
    Ok(rows)
}

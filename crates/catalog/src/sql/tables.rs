//! All tables, for who takes a catalogue from one engine to another.

use xxhash_rust::xxh3::Xxh3;

use super::{Row, Sql, ToValue, Value};
use crate::CatalogError;

/// A table as every engine has it.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
    /// What puts its rows into one order, the same for every engine.
    key: &'static str,
    /// Whether the database counts its first column on.
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

/// Whatever names rows of another table comes behind it.
pub(crate) const TABLES: [Table; 25] = [
    table("counter", &["name", "value"], "name", false),
    table("domain", &["id", "name"], "id", false),
    table("policy_set", &["domain", "state", "changed", "body"], "domain, state", false),
    table("class_number", &["id", "domain", "name"], "id", true),
    table("option_set", &["name", "body"], "lower(name)", false),
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
    table(
        "session",
        &["id", "node", "filespace", "started", "ended", "complete", "report"],
        "id",
        true,
    ),
    table("event", &["id", "time", "actor", "what", "details"], "id", true),
    table("task_run", &["id", "task", "due", "started", "ended", "code", "reason"], "id", true),
    table(
        "directory",
        &["filespace", "path", "first", "page", "objects"],
        "filespace, path, first",
        false,
    ),
    table("page", &["id", "body"], "id", false),
    table("digest", &["id", "hash", "digest", "first"], "id", false),
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

/// Behind the others: its columns are not named as those of a table of its own would be.
pub(crate) const PARTS: Table = table(
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

pub(crate) fn all() -> impl DoubleEndedIterator<Item = &'static Table> {
    TABLES.iter().chain([&PARTS])
}

impl Table {
    /// The column that the database counts on, if it does.
    pub(crate) fn counted(&self) -> Option<&'static str> {
        self.is_counted.then(|| self.columns[0])
    }

    fn select(&self) -> String {
        format!("SELECT {} FROM {} ORDER BY {}", self.columns.join(", "), self.name, self.key)
    }

    fn insert(&self) -> String {
        let places = vec!["?"; self.columns.len()].join(", ");
        format!("INSERT INTO {}({}) VALUES({places})", self.name, self.columns.join(", "))
    }

    /// What all rows come to.
    fn sum(&self, sql: &dyn Sql) -> Result<Sum, CatalogError> {
        let mut sum = Sum::default();
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

/// What rows, in their order, come to.
#[derive(Default)]
struct Sum {
    rows: u64,
    hash: Xxh3,
}

impl Sum {
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

    fn told(&self) -> (u64, u128) {
        (self.rows, self.hash.digest128())
    }
}

impl ToValue for Value<'_> {
    fn to_value(&self) -> Value<'_> {
        *self
    }
}

/// Puts all rows of one catalogue in the place of all that there are in the other, and looks
/// whether they are the same there; returns how many there are.
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
        let mut sum = Sum::default();
        from.each(&table.select(), &[], &mut |row| {
            let values = table.values(row)?;
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
        if table.sum(to)?.told() != sum.told() {
            let text = format!("the rows of {} are not what they were", table.name);
            return Err(CatalogError::Damaged(text));
        }
    }
    Ok(rows)
}

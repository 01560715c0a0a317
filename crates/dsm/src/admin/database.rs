//! SELECT over views: a database in memory, which only reads.
//!
//! 1. The authorizer of SQLite allows reading and the functions of this module and of SQLite, and
//!    nothing else. The database has no file and no way to one.
//! 2. A statement ends in time: a handler of SQLite asks `may_go_on` every few thousand steps.
//! 3. A result has at most [`ROWS_MAX`] rows, and a value at most [`VALUE_BYTES_MAX`] bytes.

mod format;
mod functions;

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Statement};

use super::command::{Action, Command, all};
use super::dialect::Translation;
use super::message::{Message, ReturnCode};
use super::table::{Heading, Listing};
use super::view::{Kind, Records, Table, VIEWS, Value};

/// Maximum number of rows of a result.
pub const ROWS_MAX: usize = 100_000;
/// Maximum length of a value, in bytes.
const VALUE_BYTES_MAX: i32 = 1 << 20;
/// Number of SQLite's steps between two questions of whether the statement may go on.
const STEPS: i32 = 5_000;
/// Maximum width of a column that a table shows.
const WIDTH_MAX: usize = 60;

/// A result of SELECT.
#[derive(Debug, Default)]
pub struct Answer {
    pub listing: Listing,
    /// The same rows with their values.
    pub records: Records,
    /// True if there are more rows than [`ROWS_MAX`].
    pub is_cut: bool,
}

/// Runs a statement over `tables`, while `may_go_on` returns true.
pub fn select(
    translation: &Translation,
    tables: &[Table],
    may_go_on: impl FnMut() -> bool + Send + 'static,
) -> Result<Answer, Message> {
    let mut connection = filled(tables).map_err(|error| failure(&error))?;
    restrict(&mut connection, may_go_on).map_err(|error| failure(&error))?;
    let mut statement = connection.prepare(&translation.sql).map_err(|error| failure(&error))?;
    if statement.parameter_count() > 0 {
        return Err(refusal(ReturnCode::Syntax, "it has a parameter"));
    }
    read(&mut statement, translation).map_err(|error| failure(&error))
}

/// Makes the database.
fn filled(tables: &[Table]) -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    functions::add(&connection)?;
    for table in tables {
        let columns = table.view.columns().map(|column| {
            let collation = if column.kind == Kind::Name { " COLLATE NOCASE" } else { "" };
            format!("\"{}\"{collation}", column.name)
        });
        let columns: Vec<String> = columns.collect();
        let create = format!("CREATE TABLE {} ({})", table.view.name, columns.join(","));
        connection.execute_batch(&create)?;
        let marks = vec!["?"; table.view.columns().count()].join(",");
        let insert = format!("INSERT INTO {} VALUES ({marks})", table.view.name);
        let mut statement = connection.prepare(&insert)?;
        for row in &table.rows {
            let values = row.iter().map(|value| match value {
                Value::Missing => rusqlite::types::Value::Null,
                Value::Text(text) => rusqlite::types::Value::Text(text.clone()),
                Value::Integer(number) => rusqlite::types::Value::Integer(*number),
                Value::Real(number) => rusqlite::types::Value::Real(*number),
            });
            statement.execute(rusqlite::params_from_iter(values))?;
        }
    }
    Ok(connection)
}

/// Leaves only reading, for a while.
fn restrict(
    connection: &mut Connection,
    mut may_go_on: impl FnMut() -> bool + Send + 'static,
) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.authorizer(Some(|context: AuthContext<'_>| match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Function { .. } => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }))?;
    connection.progress_handler(STEPS, Some(move || !may_go_on()))
}

fn read(statement: &mut Statement<'_>, translation: &Translation) -> rusqlite::Result<Answer> {
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let kinds: Vec<Option<Kind>> = names.iter().map(|name| kind(name, translation)).collect();
    let mut is_number = vec![true; names.len()];
    let mut answer = Answer::default();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if answer.listing.rows.len() == ROWS_MAX {
            answer.is_cut = true;
            break;
        }
        let mut cells = Vec::with_capacity(names.len());
        let mut values = Vec::with_capacity(names.len());
        for (index, kind) in kinds.iter().enumerate() {
            let value = row.get_ref(index)?;
            is_number[index] &= !matches!(value, ValueRef::Text(_) | ValueRef::Blob(_));
            let given = translation.decimals.get(index).copied().flatten();
            cells.push(cell(value, given, *kind));
            values.push(plain_value(value));
        }
        answer.listing.rows.push(cells);
        answer.records.rows.push(values);
    }
    answer.records.names = Records::new(names.iter().cloned()).names;
    let heading = |(text, is_number)| Heading { text, width_max: WIDTH_MAX, is_number };
    answer.listing.headings = names.into_iter().zip(is_number).map(heading).collect();
    Ok(answer)
}

fn plain_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Missing,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Value::Text(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

/// Returns the kind of the column `name` in the views of the statement.
fn kind(name: &str, translation: &Translation) -> Option<Kind> {
    let views = VIEWS.iter().filter(|view| translation.views.contains(&view.name));
    let mut columns = views.flat_map(|view| view.columns());
    columns.find(|column| column.name == name).map(|column| column.kind)
}

fn cell(value: ValueRef<'_>, decimals: Option<u8>, kind: Option<Kind>) -> String {
    let decimals = decimals.or(match kind {
        Some(Kind::Decimal(decimals)) => Some(decimals),
        _ => None,
    });
    match (value, decimals) {
        (ValueRef::Null, _) => String::new(),
        (ValueRef::Integer(number), Some(decimals @ 1..)) => {
            format!("{number}.{}", "0".repeat(usize::from(decimals)))
        }
        (ValueRef::Integer(number), _) => number.to_string(),
        (ValueRef::Real(number), Some(decimals)) => format!("{number:.*}", usize::from(decimals)),
        (ValueRef::Real(number), None) => plain(number),
        (ValueRef::Text(bytes) | ValueRef::Blob(bytes), _) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
    }
}

/// Returns a number without an exponent.
fn plain(number: f64) -> String {
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn refusal(code: ReturnCode, reason: &str) -> Message {
    let number = if code == ReturnCode::Syntax { "ANR2940E" } else { "ANR2032E" };
    let reason = model::on_one_line(reason);
    Message::refusal(number, code, format!("SELECT: The statement fails: {reason}."))
}

/// Returns the message for an error of SQLite.
fn failure(error: &rusqlite::Error) -> Message {
    let code = error.sqlite_error_code();
    let text = match error {
        rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        _ => error.to_string(),
    };
    if code == Some(ErrorCode::OperationInterrupted) {
        return refusal(ReturnCode::Failure, "it takes too long; add conditions");
    }
    if code == Some(ErrorCode::AuthorizationForStatementDenied) {
        return refusal(ReturnCode::NoAuthority, "only reading is allowed");
    }
    if let Some(table) = text.strip_prefix("no such table: ") {
        return absent_table(table);
    }
    let column = text
        .strip_prefix("no such column: ")
        .map(|rest| rest.split(" - ").next().unwrap_or(rest));
    if let Some(column) = column {
        let text = format!("SELECT: There is no column {}.", model::printable(column));
        return Message::refusal("ANR2940E", ReturnCode::Syntax, text);
    }
    refusal(ReturnCode::Syntax, &model::printable(&text))
}

/// Returns the message about a table that is not here: what shows the same, or the tables.
fn absent_table(table: &str) -> Message {
    let known = || {
        let names: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
        format!("the tables are {}", names.join(", "))
    };
    let instead = instead_of(table).map_or_else(known, str::to_owned);
    let text = format!("SELECT: There is no table {}; {instead}.", model::printable(table));
    Message::refusal("ANR2938E", ReturnCode::Syntax, text)
}

/// Returns what shows the content of a table of TSM that is not here. Mostly the QUERY about the
/// same says it.
fn instead_of(table: &str) -> Option<&'static str> {
    let noun = match table {
        "DBSPACE" => return Some("DB has the space of the catalogue"),
        "SERVERS" => return Some("'query server' lists the servers"),
        "SPACEMGFILES" => return Some("OCCUPANCY counts migrated files, and 'dsmls' lists them"),
        "BACKUPSETS" => "BACKUPSET",
        "CONTAINERS" => "CONTAINER",
        "DAMAGED" => "DAMAGED",
        "DEVCLASSES" => "DEVCLASS",
        "DRMEDIA" => "DRMEDIA",
        "DRMSTATUS" => "DRMSTATUS",
        "LICENSES" | "LICENSE_DETAILS" => "LICENSE",
        "MEDIA" => "MEDIA",
        "NODEGROUPS" => "NODEGROUP",
        "OPTIONS" => "OPTION",
        "REPLICATIONVIEW" => "REPLICATION",
        "REPLRULES" => "REPLRULE",
        "RESTORES" => "RESTORE",
        "RETRULES" => "RETRULE",
        "RETSETS" => "RETSET",
        "SCRIPTS" | "SCRIPT_NAMES" => "SCRIPT",
        "STGPOOL_DIRS" => "STGPOOLDIRECTORY",
        "STGRULES" => "STGRULE",
        "VOLUMEUSAGE" => "NODEDATA",
        _ => return None,
    };
    let is_about = |command: &&'static Command| {
        let is_query = command.verb == "Query" && command.noun.eq_ignore_ascii_case(noun);
        is_query && matches!(command.action, Action::Unsupported)
    };
    let command = all().find(is_about).expect("each of these queries is refused");
    Some(command.becomes)
}

#[cfg(test)]
mod tests;

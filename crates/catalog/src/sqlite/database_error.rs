//! Translation of SQLite's errors into errors of the catalogue.

use rusqlite::ErrorCode;

use crate::CatalogError;

/// Translates an error of SQLite by what the caller can do about it.
pub(super) fn database(error: rusqlite::Error) -> CatalogError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            CatalogError::Damaged(error.to_string())
        }
        Some(ErrorCode::DiskFull) => CatalogError::NoSpace,
        _ => match error {
            // The message about a table has no place in the statement.
            rusqlite::Error::SqlInputError { ref msg, .. }
            | rusqlite::Error::SqliteFailure(_, Some(ref msg))
                if is_missing(msg) =>
            {
                CatalogError::Damaged(format!("its tables are not those of a catalogue: {msg}"))
            }
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => {
                CatalogError::Damaged(error.to_string())
            }
            error => CatalogError::failed(error),
        },
    }
}

/// True for the message about a table or a column that does not exist. The statements name only
/// what the schema has, so it is the schema that is damaged.
fn is_missing(message: &str) -> bool {
    message.starts_with("no such table") || message.starts_with("no such column")
}

//! Translation of SQLite's errors into those of the catalogue.

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

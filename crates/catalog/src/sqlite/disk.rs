//! Errors of the disk under the catalogue, noted with the file.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;
use sys::disk_error::{self, DiskError, FileKind};

use crate::CatalogError;

/// Notes the error, if the disk caused it.
pub(super) fn note(file: &Path, operation: &'static str, error: &CatalogError) {
    if !is_of_disk(error) {
        return;
    }
    let error = io::Error::other(model::chain(error));
    let (kind, folder) = (FileKind::Catalog, file.parent().unwrap_or(file));
    disk_error::note(&DiskError { kind, folder, file, operation, error: &error });
}

/// True for an error of the disk, as SQLite reports it. The damage of a database counts too,
/// because SQLite wrote it undamaged.
pub(super) fn is_of_disk(error: &CatalogError) -> bool {
    match error {
        CatalogError::Damaged(_) => true,
        CatalogError::Database(source) => source
            .downcast_ref::<rusqlite::Error>()
            .and_then(rusqlite::Error::sqlite_error_code)
            .is_some_and(|code| matches!(code, ErrorCode::SystemIoFailure | ErrorCode::CannotOpen)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32) -> CatalogError {
        let code = rusqlite::ffi::Error::new(code);
        CatalogError::failed(rusqlite::Error::SqliteFailure(code, None))
    }

    #[test]
    fn only_errors_of_the_disk_are_noted() {
        let file = Path::new("/folder of this test/catalog.sqlite");
        let folder = Path::new("/folder of this test");
        for error in [failure(rusqlite::ffi::SQLITE_BUSY), CatalogError::NoSpace] {
            note(file, "write", &error);
        }
        assert_eq!(disk_error::count_in(folder), 0);
        note(file, "write", &failure(rusqlite::ffi::SQLITE_IOERR_FSYNC));
        note(file, "read", &CatalogError::Damaged("a page".to_owned()));
        assert_eq!(disk_error::count_in(folder), 2);
    }
}

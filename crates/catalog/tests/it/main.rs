//! The catalogue from outside: what every engine promises.

mod conformance;
mod contents;
mod samples;

use std::path::PathBuf;

use catalog::Catalog;
use catalog::sqlite::Sqlite;
use tempfile::TempDir;

use conformance::{Engine, conformance};

/// SQLite over a file in a folder of its own.
struct SqliteInFolder {
    folder: TempDir,
}

impl SqliteInFolder {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder for the catalogue") }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("catalogue")
    }

    fn open_sqlite(&self) -> Sqlite {
        Sqlite::open(&self.path()).expect("the catalogue opens")
    }
}

impl Engine for SqliteInFolder {
    fn open(&self) -> Box<dyn Catalog> {
        Box::new(self.open_sqlite())
    }
}

conformance!(sqlite, crate::SqliteInFolder::new());

//! The catalogue from outside: what every engine promises, and what SQLite's file does when it is
//! damaged or its process is killed.

mod conformance;
mod contents;
mod damage;
mod kill;
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

    /// In memory where the system has a place for that: when nothing is to survive a power cut.
    fn in_memory() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self { folder: folder.expect("a folder for the catalogue") }
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

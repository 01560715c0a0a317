//! Tests of the catalogue from outside: the promises of every engine, damage of SQLite's file,
//! kills of its process, and failures of PostgreSQL.

mod conformance;
mod contents;
mod damage;
mod faults;
mod fleet;
mod kill;
mod partitions;
mod relocation;
mod samples;

use std::path::PathBuf;

use catalog::Catalog;
use catalog::postgres::Postgres;
use catalog::sqlite::Sqlite;
use e2e::harness::Cluster;
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

    /// Uses a folder in memory, if the system has one: for tests whose files need not be durable.
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

/// PostgreSQL with a database of its own, on a server that all tests share.
struct PostgresInCluster {
    cluster: &'static Cluster,
    database: String,
}

impl PostgresInCluster {
    /// Returns `None` on a machine without PostgreSQL.
    fn new() -> Option<Self> {
        let cluster = Cluster::shared()?;
        Some(Self { cluster, database: cluster.add_database() })
    }

    fn url(&self) -> String {
        self.cluster.url(&self.database)
    }
}

impl Engine for PostgresInCluster {
    fn open(&self) -> Box<dyn Catalog> {
        Box::new(Postgres::open(&self.url()).expect("the catalogue opens"))
    }
}

conformance!(sqlite, Some(crate::SqliteInFolder::new()));
conformance!(postgres, crate::PostgresInCluster::new());

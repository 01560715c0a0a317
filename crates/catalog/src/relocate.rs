//! A whole catalogue taken from one engine to another.

use std::path::PathBuf;

use crate::postgres::Postgres;
use crate::sql::{Sql, tables};
use crate::{CatalogError, sqlite};

/// Where a catalogue is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Location {
    /// A file of SQLite's.
    File(PathBuf),
    /// The URL of a PostgreSQL database.
    Database(String),
}

/// Writes all rows of the catalogue `from` into `to`, which must have no nodes and no packs, and
/// looks whether they are the same there. It is done as a whole or not at all: one that was cut off
/// is begun again. Nobody may write to either. `tell` hears which table it is at and how many rows
/// are there; whatever it fails with ends it. Returns the rows.
pub fn relocate(
    from: &Location,
    to: &Location,
    tell: &mut dyn FnMut(&'static str, u64) -> Result<(), CatalogError>,
) -> Result<u64, CatalogError> {
    look_at(from, &mut |from| {
        write_into(to, &mut |to| {
            for table in ["node", "pack", "pool"] {
                if to.exists(&format!("SELECT 1 FROM {table}"), &[])? {
                    return Err(CatalogError::Exists { what: "a catalogue with rows of its own" });
                }
            }
            tables::copy(from, to, tell)
        })
    })
}

type Rows<'a> = &'a mut dyn FnMut(&dyn Sql) -> Result<u64, CatalogError>;

fn look_at(place: &Location, query: Rows<'_>) -> Result<u64, CatalogError> {
    match place {
        Location::File(path) => sqlite::look_at(path, query),
        Location::Database(url) => Postgres::open(url)?.look_at(query),
    }
}

fn write_into(place: &Location, work: Rows<'_>) -> Result<u64, CatalogError> {
    match place {
        Location::File(path) => sqlite::write_into(path, work),
        Location::Database(url) => Postgres::open(url)?.write_into(work),
    }
}

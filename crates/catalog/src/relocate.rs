//! Move of a whole catalogue from one engine to another.
//!
//! ```text
//!   relocate: all rows, marked as arriving --> leave: the old place is marked --> arrive: no mark
//! ```
//!
//! Nobody uses a marked catalogue. Between the steps the caller writes the new place into the
//! server's configuration. A move that was interrupted anywhere is begun again and continues after
//! the last finished step.

use std::path::{Path, PathBuf};

use crate::move_state::{mark_arriving, mark_left, unmark_arriving};
use crate::postgres::Postgres;
use crate::sql::{Sql, tables};
use crate::{CatalogError, MoveState, sqlite};

/// Place of a catalogue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Location {
    /// An SQLite file.
    File(PathBuf),
    /// The URL of a PostgreSQL database.
    Database(String),
}

/// Returns the name that the file of a catalogue gets when the catalogue has been moved away.
fn left(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".moved");
    PathBuf::from(name)
}

/// Returns true if this file had a catalogue that has been moved away.
pub fn has_left(path: &Path) -> Result<bool, CatalogError> {
    Ok(!exists(path)? && exists(&left(path))?)
}

fn exists(path: &Path) -> Result<bool, CatalogError> {
    path.try_exists().map_err(CatalogError::failed)
}

/// Returns the state in a move of the catalogue at `place`.
pub fn standing(place: &Location) -> Result<MoveState, CatalogError> {
    match place {
        Location::File(path) if has_left(path)? => {
            sqlite::look_at(&left(path), &mut |sql| MoveState::read(sql))
        }
        // Opening the file would create it.
        Location::File(path) if !exists(path)? => Ok(MoveState::Whole),
        Location::File(path) => sqlite::look_at(path, &mut |sql| MoveState::read(sql)),
        Location::Database(url) => Postgres::open(url)?.standing(),
    }
}

/// Marks the catalogue at `place` as moved away by the move `number`. A file is also renamed.
pub fn leave(place: &Location, number: i64) -> Result<(), CatalogError> {
    match place {
        Location::Database(url) => {
            Postgres::open(url)?.write_into(&mut |sql| mark_left(sql, number))
        }
        Location::File(path) if has_left(path)? => Ok(()),
        Location::File(path) => {
            sqlite::write_into(path, &mut |sql| mark_left(sql, number))?;
            std::fs::rename(path, left(path)).map_err(CatalogError::failed)
        }
    }
}

/// Ends a move to `place`: the catalogue may be used there.
pub fn arrive(place: &Location) -> Result<(), CatalogError> {
    match place {
        Location::Database(url) => Postgres::open(url)?.write_into(&mut |sql| unmark_arriving(sql)),
        Location::File(path) => {
            sqlite::write_into(path, &mut |sql| unmark_arriving(sql))?;
            // An older catalogue that was moved away from this place is not needed any more.
            match std::fs::remove_file(left(path)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(CatalogError::failed(error))
                }
                _ => Ok(()),
            }
        }
    }
}

/// Writes all rows of the catalogue `from` into `to` as a whole or not at all, compares them, and
/// marks `to` as arriving in the move `number`. Returns the number of rows.
///
/// `to` must have no nodes, packs or pools, unless it is [`MoveState::Arriving`]; otherwise the
/// call fails with `Exists`. Nobody may write to either catalogue. `tell` gets the name of the
/// current table and the number of rows so far; an error of `tell` ends the move.
pub fn relocate(
    from: &Location,
    to: &Location,
    number: i64,
    tell: &mut dyn FnMut(&'static str, u64) -> Result<(), CatalogError>,
) -> Result<u64, CatalogError> {
    assert!(from != to, "a catalogue is not written over itself");
    look_at(from, &mut |from| {
        write_into(to, &mut |to| {
            let is_unfinished = matches!(MoveState::read(to)?, MoveState::Arriving(_));
            for table in ["node", "pack", "pool"] {
                let has_rows = to.exists(&format!("SELECT 1 FROM {table}"), &[])?;
                if has_rows && !is_unfinished {
                    return Err(CatalogError::Exists { what: "a catalogue with rows of its own" });
                }
            }
            let rows = tables::copy(from, to, tell)?;
            mark_arriving(to, number)?;
            Ok(rows)
        })
    })
}

/// Work on a catalogue; it returns a number of rows.
type RowWork<'a> = &'a mut dyn FnMut(&dyn Sql) -> Result<u64, CatalogError>;

fn look_at(place: &Location, query: RowWork<'_>) -> Result<u64, CatalogError> {
    match place {
        Location::File(path) => sqlite::look_at(path, query),
        Location::Database(url) => Postgres::open(url)?.look_at(query),
    }
}

fn write_into(place: &Location, work: RowWork<'_>) -> Result<u64, CatalogError> {
    match place {
        Location::File(path) => sqlite::write_into(path, work),
        Location::Database(url) => Postgres::open(url)?.write_into(work),
    }
}

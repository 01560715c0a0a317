//! A whole catalogue taken from one engine to another.
//!
//! ```text
//!   relocate: all rows, marked as arriving --> leave: the old place is marked --> arrive: no mark
//! ```
//!
//! Nobody uses a marked catalogue. Between the steps the mover has its configuration say the new
//! place; cut off anywhere, it is begun again, and goes on behind what is done.

use std::path::{Path, PathBuf};

use crate::postgres::Postgres;
use crate::sql::{Sql, tables};
use crate::{CatalogError, sqlite};

/// Counters that are marks; their value is the number of the move.
const ARRIVING: &str = "arriving";
const LEFT: &str = "moved";

/// Where a catalogue is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Location {
    /// A file of SQLite's.
    File(PathBuf),
    /// The URL of a PostgreSQL database.
    Database(String),
}

/// Where a catalogue is in a move of this number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// In none: it may be used.
    Whole,
    /// All rows are there, and those of the place that they come from may have changed since.
    Arriving(i64),
    /// It is somewhere else.
    Left(i64),
}

impl Standing {
    /// Fails unless the catalogue may be used.
    pub fn check(self) -> Result<(), CatalogError> {
        match self {
            Self::Whole => Ok(()),
            Self::Arriving(_) => Err(CatalogError::Moving(
                "it has been moved here, and the move has not ended: 'holdfast admin catalog move' \
                 with the same URL goes on with it",
            )),
            Self::Left(_) => Err(CatalogError::Moving(
                "it was moved elsewhere; if that was cut off, 'holdfast admin catalog move' with \
                 the same URL goes on with it",
            )),
        }
    }

    pub(crate) fn read(sql: &dyn Sql) -> Result<Self, CatalogError> {
        let number = |name: &str| {
            let select = "SELECT value FROM counter WHERE name = ?";
            sql.first(select, &[&name], |row| row.get::<i64>(0))
        };
        if let Some(number) = number(LEFT)? {
            return Ok(Self::Left(number));
        }
        Ok(number(ARRIVING)?.map_or(Self::Whole, Self::Arriving))
    }
}

/// The file that a catalogue has left.
fn left(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".moved");
    PathBuf::from(name)
}

/// Whether there was a catalogue in this file, which has left it.
pub fn has_left(path: &Path) -> Result<bool, CatalogError> {
    Ok(!is_there(path)? && is_there(&left(path))?)
}

fn is_there(path: &Path) -> Result<bool, CatalogError> {
    path.try_exists().map_err(|error| CatalogError::Database(Box::new(error)))
}

/// What may be done with the catalogue at `place`.
pub fn standing(place: &Location) -> Result<Standing, CatalogError> {
    match place {
        Location::File(path) if has_left(path)? => {
            sqlite::look_at(&left(path), &mut |sql| Standing::read(sql))
        }
        // Opening it would make it.
        Location::File(path) if !is_there(path)? => Ok(Standing::Whole),
        Location::File(path) => sqlite::look_at(path, &mut |sql| Standing::read(sql)),
        Location::Database(url) => Postgres::open(url)?.standing(),
    }
}

/// Marks a place as left by the move of this number; a file gets another name.
pub fn leave(place: &Location, number: i64) -> Result<(), CatalogError> {
    match place {
        Location::Database(url) => {
            Postgres::open(url)?.write_into(&mut |sql| mark_left(sql, number))
        }
        Location::File(path) if has_left(path)? => Ok(()),
        Location::File(path) => {
            sqlite::write_into(path, &mut |sql| mark_left(sql, number))?;
            let renamed = std::fs::rename(path, left(path));
            renamed.map_err(|error| CatalogError::Database(Box::new(error)))
        }
    }
}

/// Lets the catalogue be used: all is done that its move was to do.
pub fn arrive(place: &Location) -> Result<(), CatalogError> {
    let unmark =
        |sql: &dyn Sql| sql.execute("DELETE FROM counter WHERE name = ?", &[&ARRIVING]).map(drop);
    match place {
        Location::Database(url) => Postgres::open(url)?.write_into(&mut |sql| unmark(sql)),
        Location::File(path) => {
            sqlite::write_into(path, &mut |sql| unmark(sql))?;
            // One that had left here long ago is nobody's any more.
            match std::fs::remove_file(left(path)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(CatalogError::Database(Box::new(error)))
                }
                _ => Ok(()),
            }
        }
    }
}

pub(crate) fn mark_left(sql: &dyn Sql, number: i64) -> Result<(), CatalogError> {
    put(sql, LEFT, number)
}

fn put(sql: &dyn Sql, name: &str, number: i64) -> Result<(), CatalogError> {
    let insert = "INSERT INTO counter(name, value) VALUES(?, ?)
                  ON CONFLICT(name) DO UPDATE SET value = excluded.value";
    sql.execute(insert, &[&name, &number]).map(drop)
}

/// Writes all rows of the catalogue `from` into `to`, which must have no nodes and no packs unless
/// they are [`Standing::Arriving`], and looks whether they are the same there; marks them by the
/// `number` of the move. It is done as a whole or not at all. Nobody may write to either. `tell`
/// hears which table it is at and how many rows are there; whatever it fails with ends it. Returns
/// the rows.
pub fn relocate(
    (from, to): (&Location, &Location),
    number: i64,
    tell: &mut dyn FnMut(&'static str, u64) -> Result<(), CatalogError>,
) -> Result<u64, CatalogError> {
    look_at(from, &mut |from| {
        write_into(to, &mut |to| {
            let is_unfinished = matches!(Standing::read(to)?, Standing::Arriving(_));
            for table in ["node", "pack", "pool"] {
                let has_rows = to.exists(&format!("SELECT 1 FROM {table}"), &[])?;
                if has_rows && !is_unfinished {
                    return Err(CatalogError::Exists { what: "a catalogue with rows of its own" });
                }
            }
            let rows = tables::copy(from, to, tell)?;
            put(to, ARRIVING, number)?;
            Ok(rows)
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

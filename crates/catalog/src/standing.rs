//! Standing of a catalogue in a move from one database to another.
//!
//! Two rows of the table `counter` are marks. Their value is the number of the move. Nobody uses a
//! marked catalogue.

use crate::CatalogError;
use crate::sql::Sql;

/// Mark of a catalogue that a move is writing, or has written.
const ARRIVING: &str = "arriving";
/// Mark of a catalogue that a move has taken elsewhere.
const LEFT: &str = "moved";

/// Standing of a catalogue in the move of the number given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// No move: the catalogue may be used.
    Whole,
    /// All rows have arrived, and the rows at the place that they come from may have changed since.
    Arriving(i64),
    /// The catalogue is somewhere else.
    Left(i64),
}

impl Standing {
    /// Fails with `Unusable` unless the catalogue may be used.
    pub fn check(self) -> Result<(), CatalogError> {
        let reason = match self {
            Self::Whole => return Ok(()),
            Self::Arriving(_) => {
                "it has been moved here, and the move has not ended: 'holdfast admin catalog move' \
                 with the same URL goes on with it"
            }
            Self::Left(_) => {
                "it was moved elsewhere; if that was cut off, 'holdfast admin catalog move' with \
                 the same URL goes on with it"
            }
        };
        Err(CatalogError::Unusable(reason.to_owned()))
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

/// Marks the catalogue as left by the move of this number.
pub(crate) fn mark_left(sql: &dyn Sql, number: i64) -> Result<(), CatalogError> {
    mark(sql, LEFT, number)
}

/// Marks the catalogue as arriving by the move of this number.
pub(crate) fn mark_arriving(sql: &dyn Sql, number: i64) -> Result<(), CatalogError> {
    mark(sql, ARRIVING, number)
}

/// Removes the mark of a move that has ended here.
pub(crate) fn unmark_arriving(sql: &dyn Sql) -> Result<(), CatalogError> {
    sql.execute("DELETE FROM counter WHERE name = ?", &[&ARRIVING]).map(drop)
}

fn mark(sql: &dyn Sql, name: &str, number: i64) -> Result<(), CatalogError> {
    assert!(number >= 0, "moves are numbered from 0");
    let insert = "INSERT INTO counter(name, value) VALUES(?, ?)
                  ON CONFLICT(name) DO UPDATE SET value = excluded.value";
    sql.execute(insert, &[&name, &number]).map(drop)
}

//! State of a catalogue in a move from one database to another.
//!
//! Two rows of the table `counter` are marks. Their value is the number of the move. Nobody uses a
//! marked catalogue.

use crate::CatalogError;
use crate::sql::Sql;

/// Mark of a catalogue that a move is writing, or has written.
const ARRIVING: &str = "arriving";
/// Mark of a catalogue that has been moved elsewhere.
const LEFT: &str = "moved";

/// State of a catalogue in a move, with the number of the move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveState {
    /// No move: the catalogue may be used.
    Whole,
    /// All rows have arrived, but the rows at the old place may have changed since.
    Arriving(i64),
    /// The catalogue has been moved elsewhere.
    Left(i64),
}

impl MoveState {
    /// Fails with `Unusable` unless the catalogue may be used.
    pub fn check(self) -> Result<(), CatalogError> {
        let reason = match self {
            Self::Whole => return Ok(()),
            Self::Arriving(_) => {
                "it was moved here, but the move is not finished; run 'holdfast admin catalog \
                 move' with the same URL to finish it"
            }
            Self::Left(_) => {
                "it was moved elsewhere; if the move is not finished, run 'holdfast admin catalog \
                 move' with the same URL to finish it"
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

/// Marks the catalogue as moved away by the move `number`.
pub(crate) fn mark_left(sql: &dyn Sql, number: i64) -> Result<(), CatalogError> {
    mark(sql, LEFT, number)
}

/// Marks the catalogue as arriving in the move `number`.
pub(crate) fn mark_arriving(sql: &dyn Sql, number: i64) -> Result<(), CatalogError> {
    mark(sql, ARRIVING, number)
}

/// Removes the mark of an arriving catalogue, because the move has ended.
pub(crate) fn unmark_arriving(sql: &dyn Sql) -> Result<(), CatalogError> {
    sql.execute("DELETE FROM counter WHERE name = ?", &[&ARRIVING]).map(drop)
}

fn mark(sql: &dyn Sql, name: &str, number: i64) -> Result<(), CatalogError> {
    assert!(number >= 0, "moves are numbered from 0");
    let insert = "INSERT INTO counter(name, value) VALUES(?, ?)
                  ON CONFLICT(name) DO UPDATE SET value = excluded.value";
    sql.execute(insert, &[&name, &number]).map(drop)
}

//! Statements about the sign-ins of people.

use model::{PersonId, ServerTime};

use super::{Engine, Row, Sql, params, require};
use crate::{CatalogError, SignInRow, SignIns};

impl<E: Engine> SignIns for E {
    fn add_sign_in(&self, sign_in: &SignInRow) -> Result<(), CatalogError> {
        let sign_in = sign_in.clone();
        self.write(move |sql| add(sql, &sign_in))
    }

    fn sign_in(&self, hash: &[u8; 32], now: ServerTime) -> Result<Option<SignInRow>, CatalogError> {
        let select = format!("{SIGN_IN} WHERE hash = ? AND expires > ?");
        self.read(|sql| sql.first(&select, params![hash, now.0], columns))
    }

    fn sign_ins(&self, person: PersonId) -> Result<Vec<SignInRow>, CatalogError> {
        let select = format!("{SIGN_IN} WHERE person = ? ORDER BY made DESC, hash");
        self.read(|sql| sql.all(&select, params![person.0], columns))
    }

    fn note_use(&self, hash: &[u8; 32], now: ServerTime) -> Result<(), CatalogError> {
        let hash = *hash;
        self.write(move |sql| {
            sql.execute("UPDATE sign_in SET used = ? WHERE hash = ?", params![now.0, hash])
                .map(drop)
        })
    }

    fn end_sign_in(&self, hash: &[u8; 32]) -> Result<(), CatalogError> {
        let hash = *hash;
        self.write(move |sql| {
            sql.execute("DELETE FROM sign_in WHERE hash = ?", params![hash]).map(drop)
        })
    }
}

const SIGN_IN: &str = "SELECT hash, person, guard, made, used, expires, origin FROM sign_in";

fn columns(row: &Row<'_>) -> Result<SignInRow, CatalogError> {
    Ok(SignInRow {
        hash: row.get(0)?,
        person: PersonId(row.get(1)?),
        guard: row.get(2)?,
        made: ServerTime(row.get(3)?),
        used: ServerTime(row.get(4)?),
        expires: ServerTime(row.get(5)?),
        origin: row.get(6)?,
    })
}

fn add(sql: &dyn Sql, sign_in: &SignInRow) -> Result<(), CatalogError> {
    let SignInRow { hash, person, guard, made, used, expires, origin } = sign_in;
    let is_known = sql.exists("SELECT 1 FROM person WHERE id = ?", params![person.0])?;
    require(usize::from(is_known), "the person")?;
    sql.execute("DELETE FROM sign_in WHERE expires <= ?", params![made.0])?;
    let insert = "INSERT INTO sign_in(hash, person, guard, made, used, expires, origin)
                  VALUES(?, ?, ?, ?, ?, ?, ?)";
    let values = params![hash, person.0, guard, made.0, used.0, expires.0, origin];
    sql.execute(insert, values).map(drop)
}

/// Ends all sign-ins of a person.
pub(super) fn end_all(sql: &dyn Sql, person: PersonId) -> Result<(), CatalogError> {
    sql.execute("DELETE FROM sign_in WHERE person = ?", params![person.0]).map(drop)
}

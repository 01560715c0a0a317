//! Statements about the keys of programs.

use model::{PersonId, ServerTime};

use super::{Engine, Row, Sql, params, people, require, require_new};
use crate::{ApiKeyRow, ApiKeys, CatalogError};

impl<E: Engine> ApiKeys for E {
    fn add_api_key(&self, key: &ApiKeyRow) -> Result<(), CatalogError> {
        let key = key.clone();
        self.write(move |sql| add(sql, &key))
    }

    fn api_keys(&self, person: Option<PersonId>) -> Result<Vec<ApiKeyRow>, CatalogError> {
        let (condition, person) = match person {
            Some(person) => ("person = ?", i64::from(person.0)),
            None => ("person > ?", -1),
        };
        let select = format!("{KEY} WHERE {condition} ORDER BY made, id");
        self.read(|sql| sql.all(&select, params![person], columns))
    }

    fn api_key(&self, id: &str) -> Result<ApiKeyRow, CatalogError> {
        self.read(|sql| {
            let found = sql.first(&format!("{KEY} WHERE id = ?"), params![id], columns)?;
            found.ok_or(CatalogError::NotFound { what: "the key" })
        })
    }

    fn count_use(&self, id: &str) -> Result<bool, CatalogError> {
        let id = id.to_owned();
        self.write(move |sql| count_use(sql, &id))
    }

    fn revoke_api_key(&self, id: &str, now: ServerTime) -> Result<(), CatalogError> {
        let id = id.to_owned();
        self.write(move |sql| {
            let update = "UPDATE api_key SET revoked = coalesce(revoked, ?) WHERE id = ?";
            require(sql.execute(update, params![now.0, id])?, "the key")
        })
    }
}

const KEY: &str = "SELECT id, hash, person, kind, description, uses_max, uses, made, made_by,
                     expires, revoked FROM api_key";

fn columns(row: &Row<'_>) -> Result<ApiKeyRow, CatalogError> {
    let (expires, revoked): (Option<i64>, Option<i64>) = (row.get(9)?, row.get(10)?);
    Ok(ApiKeyRow {
        id: row.get(0)?,
        hash: row.get(1)?,
        person: PersonId(row.get(2)?),
        kind: row.get(3)?,
        description: row.get(4)?,
        uses_max: row.get(5)?,
        uses: row.get(6)?,
        made: ServerTime(row.get(7)?),
        made_by: row.get(8)?,
        expires: expires.map(ServerTime),
        revoked: revoked.map(ServerTime),
    })
}

fn add(sql: &dyn Sql, key: &ApiKeyRow) -> Result<(), CatalogError> {
    people::find(sql, key.person)?;
    let insert = "INSERT INTO api_key(id, hash, person, kind, description, uses_max, uses, made,
                    made_by, expires, revoked)
                  VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING";
    let ApiKeyRow { id, hash, person, kind, description, uses_max, uses, .. } = key;
    let ApiKeyRow { made, made_by, expires, revoked, .. } = key;
    let (expires, revoked) = (expires.map(|at| at.0), revoked.map(|at| at.0));
    let values = params![
        id,
        hash,
        person.0,
        kind,
        description,
        uses_max,
        uses,
        made.0,
        made_by,
        expires,
        revoked
    ];
    require_new(sql.execute(insert, values)?, "this key")
}

pub(super) fn count_use(sql: &dyn Sql, id: &str) -> Result<bool, CatalogError> {
    let update = "UPDATE api_key SET uses = uses + 1
                  WHERE id = ? AND (uses_max IS NULL OR uses < uses_max)";
    if sql.execute(update, params![id])? > 0 {
        return Ok(true);
    }
    let is_known = sql.exists("SELECT 1 FROM api_key WHERE id = ?", params![id])?;
    require(usize::from(is_known), "the key")?;
    Ok(false)
}

//! Statements about kept answers.

use model::ServerTime;

use super::{Engine, Row, Sql, params, require};
use crate::{AnswerRow, Answers, CatalogError};

impl<E: Engine> Answers for E {
    fn claim_answer(&self, row: &AnswerRow) -> Result<Option<AnswerRow>, CatalogError> {
        let row = row.clone();
        self.write(move |sql| claim(sql, &row))
    }

    fn put_answer(&self, row: &AnswerRow) -> Result<(), CatalogError> {
        let row = row.clone();
        self.write(move |sql| {
            let update = "UPDATE answer SET status = ?, body = ? WHERE caller = ? AND name = ?";
            let values = params![row.status, row.body, row.caller, row.key];
            require(sql.execute(update, values)?, "the claimed key")
        })
    }

    fn drop_answer(&self, caller: &str, key: &str) -> Result<(), CatalogError> {
        let (caller, key) = (caller.to_owned(), key.to_owned());
        self.write(move |sql| {
            let delete = "DELETE FROM answer WHERE caller = ? AND name = ?";
            sql.execute(delete, params![caller, key]).map(drop)
        })
    }

    fn forget_answers(&self, before: ServerTime) -> Result<(), CatalogError> {
        self.write(move |sql| {
            sql.execute("DELETE FROM answer WHERE made < ?", params![before.0]).map(drop)
        })
    }
}

fn claim(sql: &dyn Sql, row: &AnswerRow) -> Result<Option<AnswerRow>, CatalogError> {
    let insert = "INSERT INTO answer(caller, name, request, made, status, body)
                  VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT(caller, name) DO NOTHING";
    let AnswerRow { caller, key, request, made, status, body } = row;
    if sql.execute(insert, params![caller, key, request, made.0, status, body])? > 0 {
        return Ok(None);
    }
    let select = "SELECT caller, name, request, made, status, body FROM answer
                  WHERE caller = ? AND name = ?";
    sql.first(select, params![caller, key], columns)
}

fn columns(row: &Row<'_>) -> Result<AnswerRow, CatalogError> {
    Ok(AnswerRow {
        caller: row.get(0)?,
        key: row.get(1)?,
        request: row.get(2)?,
        made: ServerTime(row.get(3)?),
        status: row.get(4)?,
        body: row.get(5)?,
    })
}

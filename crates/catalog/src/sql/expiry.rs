//! Statements about expiration: the days on which versions ended, by directory.

use std::ops::RangeInclusive;

use model::{DirPath, FilespaceId, ServerTime};

use super::{Engine, Sql, params, row_count};
use crate::{CatalogError, Day, Ending, Expiry, ExpiryState};

impl<E: Engine> Expiry for E {
    fn expiry(&self, filespace: FilespaceId) -> Result<ExpiryState, CatalogError> {
        self.read(|sql| get(sql, filespace))
    }

    fn endings(
        &self,
        filespace: FilespaceId,
        days: RangeInclusive<Day>,
        after: Option<&Ending>,
        limit: usize,
    ) -> Result<Vec<Ending>, CatalogError> {
        self.read(|sql| endings(sql, filespace, &days, after, limit))
    }
}

pub(super) fn add_ending(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
    day: Day,
) -> Result<(), CatalogError> {
    let insert = "INSERT INTO ending VALUES(?, ?, ?)
                  ON CONFLICT(filespace, day, directory) DO NOTHING";
    sql.execute(insert, &[&filespace.0, &day.0, &directory.as_bytes()]).map(drop)
}

pub(super) fn mark(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
    day: Day,
) -> Result<(), CatalogError> {
    let select = "SELECT 1 FROM version WHERE filespace = ? AND directory = ?";
    if sql.exists(select, params![filespace.0, directory.as_bytes()])? {
        add_ending(sql, filespace, directory, day)?;
    }
    Ok(())
}

pub(super) fn unmark(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
    day: Day,
) -> Result<(), CatalogError> {
    let delete = "DELETE FROM ending WHERE filespace = ? AND day = ? AND directory = ?";
    sql.execute(delete, &[&filespace.0, &day.0, &directory.as_bytes()]).map(drop)
}

fn get(sql: &dyn Sql, filespace: FilespaceId) -> Result<ExpiryState, CatalogError> {
    let select = "SELECT expired_to FROM filespace WHERE id = ?";
    let done_to: Option<Option<i64>> = sql.first(select, params![filespace.0], |row| row.get(0))?;
    let done_to = done_to.ok_or(CatalogError::NotFound { what: "the filespace" })?;
    Ok(ExpiryState { done_to: done_to.map(ServerTime) })
}

pub(super) fn set(
    sql: &dyn Sql,
    filespace: FilespaceId,
    state: ExpiryState,
) -> Result<(), CatalogError> {
    let update = "UPDATE filespace SET expired_to = ? WHERE id = ?";
    let done_to = state.done_to.map(|time| time.0);
    sql.execute(update, &[&done_to, &filespace.0]).map(drop)
}

fn endings(
    sql: &dyn Sql,
    filespace: FilespaceId,
    days: &RangeInclusive<Day>,
    after: Option<&Ending>,
    limit: usize,
) -> Result<Vec<Ending>, CatalogError> {
    let select = "SELECT day, directory FROM ending
                  WHERE filespace = ?1 AND (day, directory) >= (?2, ?3) AND day <= ?4
                  ORDER BY day, directory LIMIT ?5";
    // In byte order nothing lies between a path and the same path followed by NUL.
    let next = |ending: &Ending| (ending.day, [ending.directory.as_bytes(), &[0]].concat());
    let low = (*days.start(), Vec::new());
    let (day, path) = after.map_or(low.clone(), |after| next(after).max(low));
    let values = params![filespace.0, day.0, path, days.end().0, row_count(limit)];
    let endings: Vec<Ending> = sql.all(select, values, |row| {
        let directory: Vec<u8> = row.get(1)?;
        let directory = DirPath::new(&directory)
            .map_err(|_| CatalogError::impossible("an ending's directory"))?;
        Ok(Ending { day: Day(row.get(0)?), directory })
    })?;
    assert!(endings.len() <= limit, "the statement limits its rows");
    // The caller asks again with the last ending as `after`: even in a damaged tree the endings
    // must advance.
    let advances = |first: &Ending| (first.day, first.directory.as_bytes()) >= (day, &path[..]);
    if endings.first().is_none_or(advances) && endings.is_sorted_by(|a, b| a < b) {
        Ok(endings)
    } else {
        Err(CatalogError::impossible("the order of endings"))
    }
}

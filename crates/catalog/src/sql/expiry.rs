//! What expiration goes by: the days on which versions have ended, by directory.

use super::{Sql, params};
use crate::CatalogError;
use crate::{Day, ExpiryState, VersionKey};
use model::{DirPath, FilespaceId, ServerTime};

pub(crate) fn add_ending(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
    day: Day,
) -> Result<(), CatalogError> {
    let insert = "INSERT INTO ending VALUES(?, ?, ?)
                  ON CONFLICT(filespace, day, directory) DO NOTHING";
    sql.execute(insert, &[&filespace.0, &day.0, &directory.as_bytes()]).map(drop)
}

pub(crate) fn mark(
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

pub(crate) fn unmark(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
    day: Day,
) -> Result<(), CatalogError> {
    let delete = "DELETE FROM ending WHERE filespace = ? AND day = ? AND directory = ?";
    sql.execute(delete, &[&filespace.0, &day.0, &directory.as_bytes()]).map(drop)
}

pub(crate) fn drop_versions(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
    versions: &[VersionKey],
) -> Result<(), CatalogError> {
    let delete = "DELETE FROM version WHERE filespace = ? AND directory = ? AND name = ?
                  AND deactivated = ? AND inserted = ?";
    let directory = directory.as_bytes();
    for VersionKey { name, inserted, deactivated } in versions {
        let name = name.as_bytes();
        sql.execute(delete, &[&filespace.0, &directory, &name, &deactivated.0, &inserted.0])?;
    }
    Ok(())
}

pub(crate) fn get(sql: &dyn Sql, filespace: FilespaceId) -> Result<ExpiryState, CatalogError> {
    let select = "SELECT expired_to FROM filespace WHERE id = ?";
    let done_to: Option<Option<i64>> = sql.first(select, params![filespace.0], |row| row.get(0))?;
    let done_to = done_to.ok_or(CatalogError::NotFound { what: "the filespace" })?;
    Ok(ExpiryState { done_to: done_to.map(ServerTime) })
}

pub(crate) fn set(
    sql: &dyn Sql,
    filespace: FilespaceId,
    state: ExpiryState,
) -> Result<(), CatalogError> {
    let update = "UPDATE filespace SET expired_to = ? WHERE id = ?";
    let done_to = state.done_to.map(|time| time.0);
    sql.execute(update, &[&done_to, &filespace.0]).map(drop)
}

pub(crate) fn endings(
    sql: &dyn Sql,
    filespace: FilespaceId,
    (from, to): (Day, Day),
    after: Option<&(Day, DirPath)>,
    limit: usize,
) -> Result<Vec<(Day, DirPath)>, CatalogError> {
    let select = "SELECT day, directory FROM ending
                  WHERE filespace = ?1 AND (day, directory) >= (?2, ?3) AND day <= ?4
                  ORDER BY day, directory LIMIT ?5";
    // In byte order nothing lies between a path and the same path with a NUL behind it.
    let behind = |(day, path): &(Day, DirPath)| (*day, [path.as_bytes(), &[0]].concat());
    let low = (from, Vec::new());
    let (day, path) = after.map_or(low.clone(), |after| behind(after).max(low));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let damaged = |_| CatalogError::Damaged("an ending's directory is impossible".to_owned());
    let values = params![filespace.0, day.0, path, to.0, limit];
    let endings: Vec<(Day, DirPath)> = sql.all(select, values, |row| {
        let found: Vec<u8> = row.get(1)?;
        Ok((Day(row.get(0)?), DirPath::new(&found).map_err(damaged)?))
    })?;
    // Whoever asks on behind the last must get further, even in a damaged tree.
    let starts_behind =
        endings.first().is_none_or(|(of, at)| (*of, at.as_bytes()) >= (day, &path[..]));
    if starts_behind && endings.is_sorted_by(|a, b| a < b) {
        Ok(endings)
    } else {
        Err(CatalogError::Damaged("the order of endings is impossible".to_owned()))
    }
}

//! What expiration goes by: the days on which versions have ended, by directory.

use model::{DirPath, FilespaceId, ServerTime};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::write::execute;
use super::{CatalogError, database};
use crate::{Day, ExpiryState, VersionKey};

pub(super) fn add_ending(
    connection: &Connection,
    filespace: FilespaceId,
    directory: &DirPath,
    day: Day,
) -> Result<(), CatalogError> {
    let insert = "INSERT INTO ending VALUES(?, ?, ?) ON CONFLICT DO NOTHING";
    execute(connection, insert, &[&filespace.0, &day.0, &directory.as_bytes()]).map(drop)
}

pub(super) fn mark(
    connection: &Connection,
    filespace: FilespaceId,
    directory: &DirPath,
    day: Day,
) -> Result<(), CatalogError> {
    let select = "SELECT 1 FROM version WHERE filespace = ? AND directory = ?";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let has_versions = statement.exists(params![filespace.0, directory.as_bytes()]);
    if has_versions.map_err(database)? {
        add_ending(connection, filespace, directory, day)?;
    }
    Ok(())
}

pub(super) fn unmark(
    connection: &Connection,
    filespace: FilespaceId,
    directory: &DirPath,
    day: Day,
) -> Result<(), CatalogError> {
    let delete = "DELETE FROM ending WHERE filespace = ? AND day = ? AND directory = ?";
    execute(connection, delete, &[&filespace.0, &day.0, &directory.as_bytes()]).map(drop)
}

pub(super) fn drop_versions(
    connection: &Connection,
    filespace: FilespaceId,
    directory: &DirPath,
    versions: &[VersionKey],
) -> Result<(), CatalogError> {
    let delete = "DELETE FROM version WHERE filespace = ? AND directory = ? AND name = ?
                  AND deactivated = ? AND inserted = ?";
    let directory = directory.as_bytes();
    for VersionKey { name, inserted, deactivated } in versions {
        let name = name.as_bytes();
        execute(
            connection,
            delete,
            &[&filespace.0, &directory, &name, &deactivated.0, &inserted.0],
        )?;
    }
    Ok(())
}

pub(super) fn get(
    connection: &Connection,
    filespace: FilespaceId,
) -> Result<ExpiryState, CatalogError> {
    let select = "SELECT expired_to FROM filespace WHERE id = ?";
    let found = connection.query_row(select, [filespace.0], |row| row.get::<_, Option<i64>>(0));
    let done_to = found.optional().map_err(database)?;
    let done_to = done_to.ok_or(CatalogError::NotFound { what: "the filespace" })?;
    Ok(ExpiryState { done_to: done_to.map(ServerTime) })
}

pub(super) fn set(
    connection: &Connection,
    filespace: FilespaceId,
    state: ExpiryState,
) -> Result<(), CatalogError> {
    let update = "UPDATE filespace SET expired_to = ? WHERE id = ?";
    let done_to = state.done_to.map(|time| time.0);
    execute(connection, update, &[&done_to, &filespace.0]).map(drop)
}

pub(super) fn endings(
    connection: &Connection,
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
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let mut rows = statement
        .query(params![filespace.0, day.0, path, to.0, limit])
        .map_err(database)?;
    let mut endings: Vec<(Day, DirPath)> = Vec::new();
    while let Some(row) = rows.next().map_err(database)? {
        let found: Vec<u8> = row.get(1).map_err(database)?;
        let damaged = |_| CatalogError::Damaged("an ending's directory is impossible".to_owned());
        let directory = DirPath::new(&found).map_err(damaged)?;
        endings.push((Day(row.get(0).map_err(database)?), directory));
    }
    // Whoever asks on behind the last must get further, even in a damaged tree.
    let starts_behind =
        endings.first().is_none_or(|(of, at)| (*of, at.as_bytes()) >= (day, &path[..]));
    if starts_behind && endings.is_sorted_by(|a, b| a < b) {
        Ok(endings)
    } else {
        Err(CatalogError::Damaged("the order of endings is impossible".to_owned()))
    }
}

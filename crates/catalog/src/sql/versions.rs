//! Statements about inactive versions.

use model::{DirPath, FilespaceId, Name, ServerTime};

use super::{Engine, Sql, ToValue, amounts, expiry, params};
use crate::{CatalogError, Day, Growth, PageSpan, VersionKey, VersionRow, Versions};

impl<E: Engine> Versions for E {
    fn version_directories(
        &self,
        filespace: FilespaceId,
        span: &PageSpan,
        after: Option<&DirPath>,
        limit: usize,
    ) -> Result<Vec<DirPath>, CatalogError> {
        self.read(|sql| version_directories(sql, filespace, span, after, limit))
    }

    fn versions(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
    ) -> Result<Vec<VersionRow>, CatalogError> {
        self.read(|sql| versions(sql, filespace, directory))
    }
}

fn version_directories(
    sql: &dyn Sql,
    filespace: FilespaceId,
    span: &PageSpan,
    after: Option<&DirPath>,
    limit: usize,
) -> Result<Vec<DirPath>, CatalogError> {
    // Each directory costs one seek, however many versions it has.
    let select = "SELECT directory FROM version WHERE filespace = ?1 AND directory >= ?2
                    AND (directory < ?3 OR ?3 IS NULL) ORDER BY directory LIMIT 1";
    let (low, high) = span.bounds();
    // In byte order nothing lies between a path and the same path followed by NUL.
    let next = |path: &DirPath| [path.as_bytes(), &[0]].concat();
    let mut from = after.map_or_else(|| low.to_vec(), next).max(low.to_vec());
    let mut directories = Vec::new();
    while directories.len() < limit {
        let found: Option<Vec<u8>> =
            sql.first(select, params![filespace.0, from, high], |row| row.get(0))?;
        let Some(path) = found else { break };
        // A damaged tree may answer with an earlier path: then the loop would never end.
        if path < from {
            return Err(CatalogError::impossible("the order of versions"));
        }
        let path = DirPath::new(&path)
            .map_err(|_| CatalogError::impossible("a version's directory path"))?;
        from = next(&path);
        directories.push(path);
    }
    assert!(directories.len() <= limit, "the loop ends at the limit");
    Ok(directories)
}

fn versions(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
) -> Result<Vec<VersionRow>, CatalogError> {
    let select = "SELECT name, inserted, deactivated, body FROM version
                  WHERE filespace = ? AND directory = ?
                  ORDER BY name, deactivated DESC, inserted DESC";
    sql.all(select, params![filespace.0, directory.as_bytes()], |row| {
        let name: Vec<u8> = row.get(0)?;
        Ok(VersionRow {
            directory: directory.clone(),
            name: Name::new(&name).map_err(|_| CatalogError::impossible("a version's name"))?,
            inserted: ServerTime(row.get(1)?),
            deactivated: ServerTime(row.get(2)?),
            body: row.get(3)?,
        })
    })
}

pub(super) fn add(
    sql: &dyn Sql,
    filespace: FilespaceId,
    version: &VersionRow,
) -> Result<(), CatalogError> {
    // Two deactivations of an object in one microsecond are the same version.
    let insert = "INSERT INTO version VALUES(?, ?, ?, ?, ?, ?)
                  ON CONFLICT(filespace, directory, name, deactivated, inserted)
                  DO UPDATE SET body = excluded.body";
    let VersionRow { directory, name, inserted, deactivated, body } = version;
    let (directory, name) = (directory.as_bytes(), name.as_bytes());
    sql.execute(insert, &[&filespace.0, &directory, &name, &deactivated.0, &inserted.0, body])?;
    expiry::add_ending(sql, filespace, &version.directory, Day::of(*deactivated))
}

pub(super) fn remove(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
    versions: &[VersionKey],
) -> Result<(), CatalogError> {
    versions
        .iter()
        .try_for_each(|key| remove_one(sql, filespace, directory, key).map(drop))
}

/// Removes versions with their sizes in bytes. Those that were there no longer count as stored.
pub(super) fn free(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
    versions: &[(VersionKey, u64)],
) -> Result<(), CatalogError> {
    let mut freed = Growth::default();
    for (key, bytes) in versions {
        if remove_one(sql, filespace, directory, key)? {
            let bytes = i64::try_from(*bytes).unwrap_or(i64::MAX);
            freed = freed.plus(Growth { objects: 1, bytes });
        }
    }
    if freed.is_nothing() { Ok(()) } else { amounts::grow(sql, filespace, freed.undone()) }
}

/// Removes a version. Returns true if it was there.
fn remove_one(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
    VersionKey { name, inserted, deactivated }: &VersionKey,
) -> Result<bool, CatalogError> {
    let delete = "DELETE FROM version WHERE filespace = ? AND directory = ? AND name = ?
                  AND deactivated = ? AND inserted = ?";
    let (directory, name) = (directory.as_bytes(), name.as_bytes());
    let key: [&dyn ToValue; 5] = [&filespace.0, &directory, &name, &deactivated.0, &inserted.0];
    Ok(sql.execute(delete, &key)? > 0)
}

/// Replaces the body of an inactive version, or of a version in the trash of `deletion`.
pub(super) fn rewrite(
    sql: &dyn Sql,
    deletion: Option<u64>,
    filespace: FilespaceId,
    version: &VersionRow,
    new: &[u8],
) -> Result<(), CatalogError> {
    let VersionRow { directory, name, inserted, deactivated, body } = version;
    let (directory, name) = (directory.as_bytes(), name.as_bytes());
    let key = "filespace = ? AND directory = ? AND name = ? AND deactivated = ? AND inserted = ?
               AND body = ?";
    let own: [&dyn ToValue; 7] =
        [&new, &filespace.0, &directory, &name, &deactivated.0, &inserted.0, body];
    match &deletion {
        None => {
            let update = format!("UPDATE version SET body = ? WHERE {key}");
            sql.execute(&update, &own).map(drop)
        }
        Some(deletion) => {
            let update = format!("UPDATE trash SET body = ? WHERE {key} AND deletion = ?");
            let values: Vec<&dyn ToValue> =
                own.into_iter().chain([deletion as &dyn ToValue]).collect();
            sql.execute(&update, &values).map(drop)
        }
    }
}

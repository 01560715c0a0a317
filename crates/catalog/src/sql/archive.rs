//! Archives, and versions that were deleted and can be had back.

use super::{Row, Sql, ToValue, identity, params};
use crate::CatalogError;
use crate::{ArchiveChange, ArchiveRow, DeletionRow, VersionRow};
use model::{DirPath, FilespaceId, Name, NodeId, ServerTime, archive_number};

const ARCHIVE: &str = "SELECT number, node, description, created, event, held, complete, objects,
                         bytes, due FROM archive";

fn columns(row: &Row<'_>) -> Result<ArchiveRow, CatalogError> {
    Ok(ArchiveRow {
        number: row.get(0)?,
        node: NodeId(row.get(1)?),
        description: row.get(2)?,
        created: ServerTime(row.get(3)?),
        event: row.get::<Option<i64>>(4)?.map(ServerTime),
        held: row.get(5)?,
        complete: row.get(6)?,
        objects: row.get(7)?,
        bytes: row.get(8)?,
        due: row.get::<Option<i64>>(9)?.map(ServerTime),
    })
}

pub(crate) fn add(
    sql: &dyn Sql,
    node: NodeId,
    description: &str,
    now: ServerTime,
) -> Result<ArchiveRow, CatalogError> {
    identity::find_node(sql, node)?;
    let insert = "INSERT INTO archive(node, description, created, held, complete, objects, bytes)
                  VALUES(?, ?, ?, 0, 0, 0, 0) RETURNING number";
    let values = params![node.0, description, now.0];
    let number: u64 = sql.one(insert, values, |row| row.get(0))?;
    let select = format!("{ARCHIVE} WHERE number = ?");
    sql.one(&select, params![number], columns)
}

pub(crate) fn of_node(sql: &dyn Sql, node: NodeId) -> Result<Vec<ArchiveRow>, CatalogError> {
    let select = format!("{ARCHIVE} WHERE node = ? ORDER BY number DESC");
    sql.all(&select, params![node.0], columns)
}

pub(crate) fn remove(sql: &dyn Sql, node: NodeId, number: u64) -> Result<(), CatalogError> {
    let delete = "DELETE FROM archive WHERE node = ? AND number = ?";
    if sql.execute(delete, &[&node.0, &number])? == 0 {
        return Err(CatalogError::NotFound { what: "the archive" });
    }
    for filespace in identity::filespaces(sql, node)? {
        if archive_number(&filespace.name) == Some(number) {
            identity::empty_filespace(sql, filespace.id)?;
            let delete = "DELETE FROM filespace WHERE id = ?";
            sql.execute(delete, &[&filespace.id.0])?;
        }
    }
    Ok(())
}

pub(crate) fn set(sql: &dyn Sql, number: u64, change: &ArchiveChange) -> Result<(), CatalogError> {
    let ArchiveChange { event, held, complete, due, objects_added, bytes_added } = change;
    let update = "UPDATE archive SET event = coalesce(?1, event), held = coalesce(?2, held),
                    complete = coalesce(?3, complete),
                    objects = CASE WHEN objects + ?4 > 0 THEN objects + ?4 ELSE 0 END,
                    bytes = CASE WHEN bytes + ?5 > 0 THEN bytes + ?5 ELSE 0 END,
                    due = CASE WHEN ?6 = 1 THEN ?7 ELSE due END
                  WHERE number = ?8";
    let event = event.map(|time| time.0);
    let (sets_due, due) = (due.is_some(), due.flatten().map(|time| time.0));
    let values: [&dyn ToValue; 8] =
        [&event, held, complete, objects_added, bytes_added, &sets_due, &due, &number];
    match sql.execute(update, &values)? {
        0 => Err(CatalogError::NotFound { what: "the archive" }),
        _ => Ok(()),
    }
}

pub(crate) fn add_deletion(
    sql: &dyn Sql,
    node: NodeId,
    details: &str,
    now: ServerTime,
) -> Result<u64, CatalogError> {
    identity::find_node(sql, node)?;
    let insert = "INSERT INTO deletion(node, time, details) VALUES(?, ?, ?) RETURNING number";
    sql.one(insert, params![node.0, now.0, details], |row| row.get(0))
}

pub(crate) fn deletions(
    sql: &dyn Sql,
    node: Option<NodeId>,
) -> Result<Vec<DeletionRow>, CatalogError> {
    let select = "SELECT number, node, time, details,
                    (SELECT count(*) FROM trash WHERE deletion = number)
                  FROM deletion WHERE node = ?1 OR ?1 IS NULL ORDER BY number DESC";
    let columns = |row: &Row<'_>| {
        Ok(DeletionRow {
            number: row.get(0)?,
            node: NodeId(row.get(1)?),
            time: ServerTime(row.get(2)?),
            details: row.get(3)?,
            versions: row.get(4)?,
        })
    };
    sql.all(select, params![node.map(|node| node.0)], columns)
}

pub(crate) fn add_to_trash(
    sql: &dyn Sql,
    deletion: u64,
    filespace: FilespaceId,
    version: &VersionRow,
) -> Result<(), CatalogError> {
    let insert = "INSERT INTO trash VALUES(?, ?, ?, ?, ?, ?, ?)
                  ON CONFLICT(deletion, filespace, directory, name, deactivated, inserted)
                  DO UPDATE SET body = excluded.body";
    let VersionRow { directory, name, inserted, deactivated, body } = version;
    let (directory, name) = (directory.as_bytes(), name.as_bytes());
    let values: [&dyn ToValue; 7] =
        [&deletion, &filespace.0, &directory, &name, &deactivated.0, &inserted.0, body];
    sql.execute(insert, &values).map(drop)
}

pub(crate) fn empty_trash(sql: &dyn Sql, deletion: u64) -> Result<(), CatalogError> {
    sql.execute("DELETE FROM trash WHERE deletion = ?", &[&deletion])?;
    sql.execute("DELETE FROM deletion WHERE number = ?", &[&deletion]).map(drop)
}

pub(crate) fn trash(
    sql: &dyn Sql,
    deletion: u64,
    skip: usize,
    limit: usize,
) -> Result<Vec<(FilespaceId, VersionRow)>, CatalogError> {
    let select = "SELECT filespace, directory, name, inserted, deactivated, body FROM trash
                  WHERE deletion = ? ORDER BY filespace, directory, name, deactivated, inserted
                  LIMIT ? OFFSET ?";
    let wide = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let damaged = |_| CatalogError::Damaged("a deleted version is impossible".to_owned());
    sql.all(select, params![deletion, wide(limit), wide(skip)], |row| {
        let (directory, name): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(2)?);
        let version = VersionRow {
            directory: DirPath::new(&directory).map_err(damaged)?,
            name: Name::new(&name).map_err(damaged)?,
            inserted: ServerTime(row.get(3)?),
            deactivated: ServerTime(row.get(4)?),
            body: row.get(5)?,
        };
        Ok((FilespaceId(row.get(0)?), version))
    })
}

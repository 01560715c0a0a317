//! Archives, and versions that were deleted and can be had back.

use model::{DirPath, FilespaceId, Name, NodeId, ServerTime, archive_number};
use rusqlite::{Connection, Row, params};

use super::write::execute;
use super::{CatalogError, database, identity};
use crate::{ArchiveChange, ArchiveRow, DeletionRow, VersionRow};

const ARCHIVE: &str = "SELECT number, node, description, created, event, held, complete, objects,
                         bytes, due FROM archive";

fn columns(row: &Row<'_>) -> rusqlite::Result<ArchiveRow> {
    Ok(ArchiveRow {
        number: row.get(0)?,
        node: NodeId(row.get(1)?),
        description: row.get(2)?,
        created: ServerTime(row.get(3)?),
        event: row.get::<_, Option<i64>>(4)?.map(ServerTime),
        held: row.get(5)?,
        complete: row.get(6)?,
        objects: row.get(7)?,
        bytes: row.get(8)?,
        due: row.get::<_, Option<i64>>(9)?.map(ServerTime),
    })
}

pub(super) fn add(
    connection: &Connection,
    node: NodeId,
    description: &str,
    now: ServerTime,
) -> Result<ArchiveRow, CatalogError> {
    identity::find_node(connection, node)?;
    let insert = "INSERT INTO archive(node, description, created, held, complete, objects, bytes)
                  VALUES(?, ?, ?, 0, 0, 0, 0)";
    execute(connection, insert, &[&node.0, &description, &now.0])?;
    let select = format!("{ARCHIVE} WHERE number = ?");
    connection
        .query_row(&select, [connection.last_insert_rowid()], columns)
        .map_err(database)
}

pub(super) fn of_node(
    connection: &Connection,
    node: NodeId,
) -> Result<Vec<ArchiveRow>, CatalogError> {
    let select = format!("{ARCHIVE} WHERE node = ? ORDER BY number DESC");
    let mut statement = connection.prepare_cached(&select).map_err(database)?;
    let rows = statement.query_map([node.0], columns).map_err(database)?;
    rows.collect::<Result<_, _>>().map_err(database)
}

pub(super) fn remove(
    connection: &Connection,
    node: NodeId,
    number: u64,
) -> Result<(), CatalogError> {
    let delete = "DELETE FROM archive WHERE node = ? AND number = ?";
    if execute(connection, delete, &[&node.0, &number])? == 0 {
        return Err(CatalogError::NotFound { what: "the archive" });
    }
    for filespace in identity::filespaces(connection, node)? {
        if archive_number(&filespace.name) == Some(number) {
            identity::empty_filespace(connection, filespace.id)?;
            let delete = "DELETE FROM filespace WHERE id = ?";
            execute(connection, delete, &[&filespace.id.0])?;
        }
    }
    Ok(())
}

pub(super) fn set(
    connection: &Connection,
    number: u64,
    change: &ArchiveChange,
) -> Result<(), CatalogError> {
    let ArchiveChange { event, held, complete, due, objects_added, bytes_added } = change;
    let update = "UPDATE archive SET event = coalesce(?, event), held = coalesce(?, held),
                    complete = coalesce(?, complete), objects = max(0, objects + ?),
                    bytes = max(0, bytes + ?), due = CASE WHEN ? THEN ? ELSE due END
                  WHERE number = ?";
    let event = event.map(|time| time.0);
    let (sets_due, due) = (due.is_some(), due.flatten().map(|time| time.0));
    let values: [&dyn rusqlite::ToSql; 8] =
        [&event, held, complete, objects_added, bytes_added, &sets_due, &due, &number];
    match execute(connection, update, &values)? {
        0 => Err(CatalogError::NotFound { what: "the archive" }),
        _ => Ok(()),
    }
}

pub(super) fn add_deletion(
    connection: &Connection,
    node: NodeId,
    details: &str,
    now: ServerTime,
) -> Result<u64, CatalogError> {
    identity::find_node(connection, node)?;
    let insert = "INSERT INTO deletion(node, time, details) VALUES(?, ?, ?)";
    execute(connection, insert, &[&node.0, &now.0, &details])?;
    Ok(connection.last_insert_rowid().unsigned_abs())
}

pub(super) fn deletions(
    connection: &Connection,
    node: Option<NodeId>,
) -> Result<Vec<DeletionRow>, CatalogError> {
    let select = "SELECT number, node, time, details,
                    (SELECT count(*) FROM trash WHERE deletion = number)
                  FROM deletion WHERE ?1 IS NULL OR node = ?1 ORDER BY number DESC";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let columns = |row: &Row<'_>| {
        Ok(DeletionRow {
            number: row.get(0)?,
            node: NodeId(row.get(1)?),
            time: ServerTime(row.get(2)?),
            details: row.get(3)?,
            versions: row.get(4)?,
        })
    };
    let rows = statement.query_map([node.map(|node| node.0)], columns).map_err(database)?;
    rows.collect::<Result<_, _>>().map_err(database)
}

pub(super) fn add_to_trash(
    connection: &Connection,
    deletion: u64,
    filespace: FilespaceId,
    version: &VersionRow,
) -> Result<(), CatalogError> {
    let insert = "INSERT OR REPLACE INTO trash VALUES(?, ?, ?, ?, ?, ?, ?)";
    let VersionRow { directory, name, inserted, deactivated, body } = version;
    let (directory, name) = (directory.as_bytes(), name.as_bytes());
    let values: [&dyn rusqlite::ToSql; 7] =
        [&deletion, &filespace.0, &directory, &name, &deactivated.0, &inserted.0, body];
    execute(connection, insert, &values).map(drop)
}

pub(super) fn empty_trash(connection: &Connection, deletion: u64) -> Result<(), CatalogError> {
    execute(connection, "DELETE FROM trash WHERE deletion = ?", &[&deletion])?;
    execute(connection, "DELETE FROM deletion WHERE number = ?", &[&deletion]).map(drop)
}

pub(super) fn trash(
    connection: &Connection,
    deletion: u64,
    skip: usize,
    limit: usize,
) -> Result<Vec<(FilespaceId, VersionRow)>, CatalogError> {
    let select = "SELECT filespace, directory, name, inserted, deactivated, body FROM trash
                  WHERE deletion = ? ORDER BY filespace, directory, name, deactivated, inserted
                  LIMIT ? OFFSET ?";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let wide = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![deletion, wide(limit), wide(skip)]).map_err(database)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(database)? {
        let directory: Vec<u8> = row.get(1).map_err(database)?;
        let name: Vec<u8> = row.get(2).map_err(database)?;
        let damaged = |_| CatalogError::Damaged("a deleted version is impossible".to_owned());
        let version = VersionRow {
            directory: DirPath::new(&directory).map_err(damaged)?,
            name: Name::new(&name).map_err(damaged)?,
            inserted: ServerTime(row.get(3).map_err(database)?),
            deactivated: ServerTime(row.get(4).map_err(database)?),
            body: row.get(5).map_err(database)?,
        };
        found.push((FilespaceId(row.get(0).map_err(database)?), version));
    }
    Ok(found)
}

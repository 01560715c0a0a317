//! Statements about archives.

use model::{NodeId, ServerTime, archive_number};

use super::{
    Engine, Row, Sql, ToValue, filespaces, nodes, numbers, params, require, row_count, row_number,
};
use crate::{ArchiveChange, ArchiveRow, Archives, CatalogError};

impl<E: Engine> Archives for E {
    fn add_archive(
        &self,
        node: NodeId,
        description: &str,
        now: ServerTime,
    ) -> Result<ArchiveRow, CatalogError> {
        let description = description.to_owned();
        self.write(move |sql| add(sql, node, &description, now))
    }

    fn archives(&self, node: NodeId) -> Result<Vec<ArchiveRow>, CatalogError> {
        self.read(|sql| of_node(sql, node, None, usize::MAX))
    }

    fn archives_from(
        &self,
        node: NodeId,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<ArchiveRow>, CatalogError> {
        self.read(|sql| of_node(sql, node, from, limit))
    }

    fn remove_archive(&self, node: NodeId, number: u64) -> Result<(), CatalogError> {
        self.write(move |sql| remove(sql, node, number))
    }
}

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

fn add(
    sql: &dyn Sql,
    node: NodeId,
    description: &str,
    now: ServerTime,
) -> Result<ArchiveRow, CatalogError> {
    nodes::find_node(sql, node)?;
    let insert = "INSERT INTO archive(number, node, description, created, held, complete, objects,
                    bytes)
                  VALUES(?, ?, ?, ?, 0, 0, 0, 0) ON CONFLICT(number) DO NOTHING";
    let number = numbers::draw(sql, ("archive", node), now, |number| {
        sql.execute(insert, params![number, node.0, description, now.0])
    })?;
    let select = format!("{ARCHIVE} WHERE number = ?");
    sql.one(&select, params![number], columns)
}

fn of_node(
    sql: &dyn Sql,
    node: NodeId,
    from: Option<u64>,
    limit: usize,
) -> Result<Vec<ArchiveRow>, CatalogError> {
    let select = format!("{ARCHIVE} WHERE node = ? AND number <= ? ORDER BY number DESC LIMIT ?");
    let values = params![node.0, row_number(from), row_count(limit)];
    let rows: Vec<ArchiveRow> = sql.all(&select, values, columns)?;
    assert!(rows.len() <= limit, "the statement limits its rows");
    Ok(rows)
}

fn remove(sql: &dyn Sql, node: NodeId, number: u64) -> Result<(), CatalogError> {
    let delete = "DELETE FROM archive WHERE node = ? AND number = ?";
    require(sql.execute(delete, &[&node.0, &number])?, "the archive")?;
    for filespace in filespaces::of_node(sql, node)? {
        if archive_number(&filespace.name) == Some(number) {
            filespaces::remove(sql, filespace.id)?;
        }
    }
    Ok(())
}

pub(super) fn change(
    sql: &dyn Sql,
    number: u64,
    change: &ArchiveChange,
) -> Result<(), CatalogError> {
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
    require(sql.execute(update, &values)?, "the archive")
}

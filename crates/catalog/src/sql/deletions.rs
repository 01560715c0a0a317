//! Statements about deletions and their trash.

use model::{DirPath, FilespaceId, Name, NodeId, ServerTime};

use super::{Engine, Row, Sql, ToValue, nodes, numbers, params, row_count, row_number};
use crate::{CatalogError, DeletionRow, Deletions, TrashedVersion, VersionRow};

impl<E: Engine> Deletions for E {
    fn add_deletion(
        &self,
        node: NodeId,
        details: &str,
        now: ServerTime,
    ) -> Result<u64, CatalogError> {
        let details = details.to_owned();
        self.write(move |sql| add_deletion(sql, node, &details, now))
    }

    fn deletions(&self, node: Option<NodeId>) -> Result<Vec<DeletionRow>, CatalogError> {
        self.read(|sql| deletions(sql, node, None, usize::MAX))
    }

    fn deletions_from(
        &self,
        node: NodeId,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeletionRow>, CatalogError> {
        self.read(|sql| deletions(sql, Some(node), from, limit))
    }

    fn trash(
        &self,
        deletion: u64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<TrashedVersion>, CatalogError> {
        self.read(|sql| trash(sql, deletion, skip, limit))
    }

    fn trashed_versions(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
        name: &Name,
    ) -> Result<Vec<VersionRow>, CatalogError> {
        self.read(|sql| trashed_versions(sql, filespace, directory, name))
    }
}

fn add_deletion(
    sql: &dyn Sql,
    node: NodeId,
    details: &str,
    now: ServerTime,
) -> Result<u64, CatalogError> {
    nodes::find_node(sql, node)?;
    let insert = "INSERT INTO deletion(number, node, time, details) VALUES(?, ?, ?, ?)
                  ON CONFLICT(number) DO NOTHING";
    numbers::draw(sql, ("deletion", node), now, |number| {
        sql.execute(insert, params![number, node.0, now.0, details])
    })
}

fn deletions(
    sql: &dyn Sql,
    node: Option<NodeId>,
    from: Option<u64>,
    limit: usize,
) -> Result<Vec<DeletionRow>, CatalogError> {
    let select = "SELECT number, node, time, details,
                    (SELECT count(*) FROM trash WHERE deletion = number)
                  FROM deletion WHERE (node = ?1 OR ?1 IS NULL) AND number <= ?2
                  ORDER BY number DESC LIMIT ?3";
    let columns = |row: &Row<'_>| {
        Ok(DeletionRow {
            number: row.get(0)?,
            node: NodeId(row.get(1)?),
            time: ServerTime(row.get(2)?),
            details: row.get(3)?,
            versions: row.get(4)?,
        })
    };
    let values = params![node.map(|node| node.0), row_number(from), row_count(limit)];
    let rows: Vec<DeletionRow> = sql.all(select, values, columns)?;
    assert!(rows.len() <= limit, "the statement limits its rows");
    Ok(rows)
}

pub(super) fn add_to_trash(
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

pub(super) fn empty_trash(sql: &dyn Sql, deletion: u64) -> Result<(), CatalogError> {
    sql.execute("DELETE FROM trash WHERE deletion = ?", &[&deletion])?;
    sql.execute("DELETE FROM deletion WHERE number = ?", &[&deletion]).map(drop)
}

fn trash(
    sql: &dyn Sql,
    deletion: u64,
    skip: usize,
    limit: usize,
) -> Result<Vec<TrashedVersion>, CatalogError> {
    let select = "SELECT filespace, directory, name, inserted, deactivated, body FROM trash
                  WHERE deletion = ? ORDER BY filespace, directory, name, deactivated, inserted
                  LIMIT ? OFFSET ?";
    let damaged = |_| CatalogError::impossible("a deleted version");
    sql.all(select, params![deletion, row_count(limit), row_count(skip)], |row| {
        let (directory, name): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(2)?);
        let version = VersionRow {
            directory: DirPath::new(&directory).map_err(damaged)?,
            name: Name::new(&name).map_err(damaged)?,
            inserted: ServerTime(row.get(3)?),
            deactivated: ServerTime(row.get(4)?),
            body: row.get(5)?,
        };
        Ok(TrashedVersion { filespace: FilespaceId(row.get(0)?), version })
    })
}

fn trashed_versions(
    sql: &dyn Sql,
    filespace: FilespaceId,
    directory: &DirPath,
    name: &Name,
) -> Result<Vec<VersionRow>, CatalogError> {
    // The key begins with the deletion, so each deletion costs one seek.
    let select = "SELECT inserted, deactivated, body FROM trash
                  WHERE deletion IN (SELECT number FROM deletion)
                    AND filespace = ? AND directory = ? AND name = ?";
    sql.all(select, params![filespace.0, directory.as_bytes(), name.as_bytes()], |row| {
        Ok(VersionRow {
            directory: directory.clone(),
            name: name.clone(),
            inserted: ServerTime(row.get(0)?),
            deactivated: ServerTime(row.get(1)?),
            body: row.get(2)?,
        })
    })
}

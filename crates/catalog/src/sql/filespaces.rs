//! Statements about filespaces.

use model::{FilespaceId, NodeId, ServerTime, archive_filespaces};

use super::pages::{PageNumbers, page_numbers};
use super::{Engine, Row, Sql, amounts, digest_sums, params, require, row_count};
use crate::{CatalogError, Filespace, Filespaces};

impl<E: Engine> Filespaces for E {
    fn filespaces(&self, node: NodeId) -> Result<Vec<Filespace>, CatalogError> {
        self.read(|sql| of_node(sql, node))
    }

    fn last_backups(&self) -> Result<Vec<(NodeId, ServerTime)>, CatalogError> {
        let select = "SELECT node, max(last_backup) FROM filespace
                      WHERE last_backup IS NOT NULL GROUP BY node ORDER BY node";
        let columns = |row: &Row<'_>| Ok((NodeId(row.get(0)?), ServerTime(row.get(1)?)));
        self.read(|sql| sql.all(select, &[], columns))
    }

    fn filespaces_backed_up_before(
        &self,
        time: ServerTime,
    ) -> Result<Vec<Filespace>, CatalogError> {
        let select = format!("{FILESPACE} WHERE last_backup < ? ORDER BY node, name");
        self.read(|sql| sql.all(&select, &[&time.0], columns))
    }

    fn filespaces_from(
        &self,
        node: NodeId,
        from: &[u8],
        limit: usize,
    ) -> Result<Vec<Filespace>, CatalogError> {
        self.read(|sql| of_node_from(sql, node, from, limit))
    }

    fn archive_filespaces(
        &self,
        node: NodeId,
        archives: &[u64],
    ) -> Result<Vec<Vec<Filespace>>, CatalogError> {
        self.read(|sql| archives.iter().map(|number| of_archive(sql, node, *number)).collect())
    }

    fn remove_filespace(&self, filespace: FilespaceId) -> Result<(), CatalogError> {
        self.write(move |sql| remove_with_deletions(sql, filespace))
    }

    fn open_filespace(
        &self,
        node: NodeId,
        name: &[u8],
        now: ServerTime,
    ) -> Result<Filespace, CatalogError> {
        // A write would wait for all others, and they for it.
        if let Some(known) = self.read(|sql| named(sql, node, name))? {
            return Ok(known);
        }
        let name = name.to_vec();
        self.write(move |sql| open_filespace(sql, node, &name, now))
    }
}

pub(super) const FILESPACE: &str = "SELECT id, node, name, last_backup FROM filespace";

pub(super) fn columns(row: &Row<'_>) -> Result<Filespace, CatalogError> {
    Ok(Filespace {
        id: FilespaceId(row.get(0)?),
        node: NodeId(row.get(1)?),
        name: row.get(2)?,
        last_backup: row.get::<Option<i64>>(3)?.map(ServerTime),
    })
}

pub(super) fn of_node(sql: &dyn Sql, node: NodeId) -> Result<Vec<Filespace>, CatalogError> {
    of_node_from(sql, node, b"", usize::MAX)
}

fn of_node_from(
    sql: &dyn Sql,
    node: NodeId,
    from: &[u8],
    limit: usize,
) -> Result<Vec<Filespace>, CatalogError> {
    let select = format!("{FILESPACE} WHERE node = ? AND name >= ? ORDER BY name LIMIT ?");
    let values = params![node.0, from, row_count(limit)];
    let filespaces: Vec<Filespace> = sql.all(&select, values, columns)?;
    assert!(filespaces.len() <= limit, "the statement limits its rows");
    Ok(filespaces)
}

fn of_archive(sql: &dyn Sql, node: NodeId, archive: u64) -> Result<Vec<Filespace>, CatalogError> {
    let select = format!("{FILESPACE} WHERE node = ? AND name >= ? AND name < ? ORDER BY name");
    let names = archive_filespaces(archive);
    sql.all(&select, params![node.0, names.start, names.end], columns)
}

/// Returns the filespace of the node with this name, if it exists. Then the node exists, too.
fn named(sql: &dyn Sql, node: NodeId, name: &[u8]) -> Result<Option<Filespace>, CatalogError> {
    let select = format!("{FILESPACE} WHERE node = ? AND name = ?");
    sql.first(&select, params![node.0, name], columns)
}

fn open_filespace(
    sql: &dyn Sql,
    node: NodeId,
    name: &[u8],
    now: ServerTime,
) -> Result<Filespace, CatalogError> {
    let domain = "SELECT domain FROM node WHERE id = ?";
    let domain: Option<i64> = sql.first(domain, params![node.0], |row| row.get(0))?;
    let domain = domain.ok_or(CatalogError::NotFound { what: "the node" })?;
    if let Some(known) = named(sql, node, name)? {
        return Ok(known);
    }
    match sql.next_filespace(domain)? {
        None => {
            let insert = "INSERT INTO filespace(node, name, registered) VALUES(?, ?, ?)";
            sql.execute(insert, params![node.0, name, now.0])?;
        }
        Some(number) => {
            assert!(u32::try_from(number).is_ok(), "the last block ends below 2^32");
            let insert = "INSERT INTO filespace(id, node, name, registered) VALUES(?, ?, ?, ?)";
            sql.execute(insert, params![number, node.0, name, now.0])?;
        }
    }
    let made = named(sql, node, name)?;
    let made = made.ok_or_else(|| CatalogError::impossible("the absence of a new filespace"))?;
    amounts::begin(sql, made.id)?;
    digest_sums::begin(sql, made.id)?;
    Ok(made)
}

/// Fails with `NotFound` if the filespace is gone: a row that names it would belong to nobody.
pub(super) fn find(sql: &dyn Sql, filespace: FilespaceId) -> Result<(), CatalogError> {
    let select = "SELECT 1 FROM filespace WHERE id = ?";
    let is_known = sql.exists(select, params![filespace.0])?;
    require(usize::from(is_known), "the filespace")
}

/// Removes all rows of a filespace, except its own.
pub(super) fn empty(sql: &dyn Sql, filespace: FilespaceId) -> Result<(), CatalogError> {
    let PageNumbers { first, end } = page_numbers(filespace);
    for table in ["directory", "version", "ending", "trash", "amount", "digest_sum"] {
        let delete = format!("DELETE FROM {table} WHERE filespace = ?");
        sql.execute(&delete, params![filespace.0])?;
    }
    for table in ["page", "digest"] {
        let delete = format!("DELETE FROM {table} WHERE id >= ? AND id < ?");
        sql.execute(&delete, params![first, end])?;
    }
    Ok(())
}

/// Removes a filespace with all its rows, its reports, and the deletions of nothing else.
fn remove_with_deletions(sql: &dyn Sql, filespace: FilespaceId) -> Result<(), CatalogError> {
    find(sql, filespace)?;
    let select = "SELECT DISTINCT deletion FROM trash WHERE filespace = ?";
    let deletions: Vec<u64> = sql.all(select, params![filespace.0], |row| row.get::<u64>(0))?;
    remove(sql, filespace)?;
    for deletion in deletions {
        if !sql.exists("SELECT 1 FROM trash WHERE deletion = ?", params![deletion])? {
            sql.execute("DELETE FROM deletion WHERE number = ?", params![deletion])?;
        }
    }
    sql.execute("DELETE FROM session WHERE filespace = ?", params![filespace.0])
        .map(drop)
}

/// Removes a filespace with all its rows.
pub(super) fn remove(sql: &dyn Sql, filespace: FilespaceId) -> Result<(), CatalogError> {
    empty(sql, filespace)?;
    sql.execute("DELETE FROM filespace WHERE id = ?", &[&filespace.0]).map(drop)
}

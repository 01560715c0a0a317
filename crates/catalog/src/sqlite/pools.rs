//! Storage pools, and the copy of the catalogue that they keep.

use std::path::Path;

use model::PoolId;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, Row, params};

use super::write::execute;
use super::{CatalogError, PoolRow, code, coded, database};
use crate::Collocation;

const COLUMNS: &str = "id, name, url, is_copy, mark, next, capacity, high, low, delay,
                       collocation, reclaim, reuse_delay";

/// In the order of their codes.
const COLLOCATIONS: [Collocation; 3] = [Collocation::No, Collocation::Group, Collocation::Node];

pub(super) fn all(connection: &Connection) -> Result<Vec<PoolRow>, CatalogError> {
    let select = format!("SELECT {COLUMNS} FROM pool ORDER BY id");
    let mut statement = connection.prepare_cached(&select).map_err(database)?;
    let columns = |row: &Row<'_>| {
        Ok(PoolRow {
            id: PoolId(row.get(0)?),
            name: row.get(1)?,
            url: row.get(2)?,
            is_copy: row.get(3)?,
            mark: row.get(4)?,
            next: row.get::<_, Option<u32>>(5)?.map(PoolId),
            capacity_bytes: row.get(6)?,
            high_percent: row.get(7)?,
            low_percent: row.get(8)?,
            delay_days: row.get(9)?,
            collocation: coded(row, 10, &COLLOCATIONS)?,
            reclaim_percent: row.get(11)?,
            reuse_delay_days: row.get(12)?,
        })
    };
    let rows = statement.query_map([], columns).map_err(database)?;
    rows.collect::<Result<_, _>>().map_err(database)
}

pub(super) fn add(connection: &Connection, pool: &PoolRow) -> Result<PoolId, CatalogError> {
    let known = "SELECT 1 FROM pool WHERE name = ?";
    let mut statement = connection.prepare_cached(known).map_err(database)?;
    if statement.exists([&pool.name]).map_err(database)? {
        return Err(CatalogError::Exists { what: "a pool of this name" });
    }
    let insert = "INSERT INTO pool(name, url, is_copy, mark, next, capacity, high, low, delay,
                    collocation, reclaim, reuse_delay)
                  VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let PoolRow { name, url, is_copy, mark, capacity_bytes, .. } = pool;
    let PoolRow { high_percent, low_percent, delay_days, .. } = pool;
    let PoolRow { reclaim_percent, reuse_delay_days, .. } = pool;
    let (next, collocation) = (pool.next.map(|next| next.0), code(pool.collocation, &COLLOCATIONS));
    let values = params![
        name,
        url,
        is_copy,
        mark,
        next,
        capacity_bytes,
        high_percent,
        low_percent,
        delay_days,
        collocation,
        reclaim_percent,
        reuse_delay_days
    ];
    execute(connection, insert, values)?;
    let id = u32::try_from(connection.last_insert_rowid());
    id.map(PoolId)
        .map_err(|_| CatalogError::Damaged("the count of pools".to_owned()))
}

pub(super) fn change(connection: &Connection, pool: &PoolRow) -> Result<(), CatalogError> {
    let update = "UPDATE pool SET name = ?, url = ?, mark = ?, next = ?, capacity = ?, high = ?,
                  low = ?, delay = ?, collocation = ?, reclaim = ?, reuse_delay = ? WHERE id = ?";
    let PoolRow { id, name, url, mark, capacity_bytes, .. } = pool;
    let PoolRow { high_percent, low_percent, delay_days, .. } = pool;
    let PoolRow { reclaim_percent, reuse_delay_days, .. } = pool;
    let (next, collocation) = (pool.next.map(|next| next.0), code(pool.collocation, &COLLOCATIONS));
    let values = params![
        name,
        url,
        mark,
        next,
        capacity_bytes,
        high_percent,
        low_percent,
        delay_days,
        collocation,
        reclaim_percent,
        reuse_delay_days,
        id.0
    ];
    found(execute(connection, update, values)?)
}

pub(super) fn remove(connection: &Connection, pool: PoolId) -> Result<(), CatalogError> {
    for table in ["part", "stored"] {
        execute(connection, &format!("DELETE FROM {table} WHERE pool = ?"), &[&pool.0])?;
    }
    found(execute(connection, "DELETE FROM pool WHERE id = ?", &[&pool.0])?)
}

fn found(rows: usize) -> Result<(), CatalogError> {
    if rows == 1 { Ok(()) } else { Err(CatalogError::NotFound { what: "the pool" }) }
}

/// Page by page, so that what has not changed lies where it lay in the copy before.
pub(super) fn copy_to(connection: &Connection, path: &Path) -> Result<(), CatalogError> {
    let io = |error: std::io::Error| CatalogError::Database(Box::new(error));
    // It says what every node has.
    sys::durable::write(path, b"", 0o600).map_err(io)?;
    let mut target = Connection::open(path).map_err(database)?;
    // Nobody needs a copy that a power cut has left.
    target.execute_batch("PRAGMA synchronous=OFF").map_err(database)?;
    let copy = Backup::new(connection, &mut target).map_err(database)?;
    // One step: the copy is of the moment at which it begins, and writers go on meanwhile.
    match copy.step(-1).map_err(database)? {
        StepResult::Done => Ok(()),
        _ => Err(super::failed("the catalogue could not be copied; try again")),
    }
}

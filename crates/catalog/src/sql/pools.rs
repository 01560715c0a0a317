//! Statements about storage pools.

use model::PoolId;

use super::{Engine, Row, Sql, code, params, require};
use crate::{CatalogError, Collocation, PoolRow, Pools};

const COLUMNS: &str = "id, name, url, is_copy, mark, next, capacity, high, low, delay,
                       collocation, reclaim, reuse_delay";

/// All collocations, in the order of their codes.
const COLLOCATIONS: [Collocation; 3] = [Collocation::No, Collocation::Group, Collocation::Node];

impl<E: Engine> Pools for E {
    fn pools(&self) -> Result<Vec<PoolRow>, CatalogError> {
        self.read(all)
    }

    fn add_pool(&self, pool: &PoolRow) -> Result<PoolId, CatalogError> {
        let pool = pool.clone();
        self.write(move |sql| add(sql, &pool))
    }

    fn change_pool(&self, pool: &PoolRow) -> Result<(), CatalogError> {
        let pool = pool.clone();
        self.write(move |sql| change(sql, &pool))
    }

    fn remove_pool(&self, pool: PoolId) -> Result<(), CatalogError> {
        self.write(move |sql| remove(sql, pool))
    }
}

pub(crate) fn all(sql: &dyn Sql) -> Result<Vec<PoolRow>, CatalogError> {
    let select = format!("SELECT {COLUMNS} FROM pool ORDER BY id");
    let columns = |row: &Row<'_>| {
        Ok(PoolRow {
            id: PoolId(row.get(0)?),
            name: row.get(1)?,
            url: row.get(2)?,
            is_copy: row.get(3)?,
            mark: row.get(4)?,
            next: row.get::<Option<u32>>(5)?.map(PoolId),
            capacity_bytes: row.get(6)?,
            high_percent: row.get(7)?,
            low_percent: row.get(8)?,
            delay_days: row.get(9)?,
            collocation: row.coded(10, &COLLOCATIONS)?,
            reclaim_percent: row.get(11)?,
            reuse_delay_days: row.get(12)?,
        })
    };
    sql.all(&select, &[], columns)
}

fn add(sql: &dyn Sql, pool: &PoolRow) -> Result<PoolId, CatalogError> {
    let known = "SELECT 1 FROM pool WHERE lower(name) = ?";
    if sql.exists(known, params![pool.name.to_ascii_lowercase()])? {
        return Err(CatalogError::Exists { what: "a pool of this name" });
    }
    let insert = "INSERT INTO pool(name, url, is_copy, mark, next, capacity, high, low, delay,
                    collocation, reclaim, reuse_delay)
                  VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id";
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
    sql.one(insert, values, |row| row.get(0)).map(PoolId)
}

fn change(sql: &dyn Sql, pool: &PoolRow) -> Result<(), CatalogError> {
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
    require(sql.execute(update, values)?, "the pool")
}

fn remove(sql: &dyn Sql, pool: PoolId) -> Result<(), CatalogError> {
    for table in ["part", "stored"] {
        sql.execute(&format!("DELETE FROM {table} WHERE pool = ?"), &[&pool.0])?;
    }
    require(sql.execute("DELETE FROM pool WHERE id = ?", &[&pool.0])?, "the pool")
}

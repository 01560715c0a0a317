//! Statements about packs.

use model::{DomainId, NodeId, PackNumber};

use super::{Engine, Performer, Row, Sql, code, params};
use crate::{CatalogError, PackRow, PackState, Packs};

/// Lowest number that no pack gets: a place has 39 bits for the number of its pack.
const PACK_NUMBER_END: u64 = 1 << 39;

impl<E: Engine> Packs for E {
    fn packs(&self) -> Result<Vec<PackRow>, CatalogError> {
        self.read(packs)
    }

    fn next_pack(&self) -> Result<PackNumber, CatalogError> {
        self.read(next_pack)
    }
}

pub(crate) fn packs(sql: &dyn Sql) -> Result<Vec<PackRow>, CatalogError> {
    let select = "SELECT number, domain, sealed, bytes, node FROM pack ORDER BY number";
    sql.all(select, &[], |row| pack(row, 0))
}

/// Reads a pack from a row, beginning at the column `first`.
pub(crate) fn pack(row: &Row<'_>, first: usize) -> Result<PackRow, CatalogError> {
    Ok(PackRow {
        number: PackNumber(row.get(first)?),
        domain: DomainId(row.get(first + 1)?),
        state: row.coded(first + 2, &PackState::ALL)?,
        bytes: row.get(first + 3)?,
        node: row.get::<Option<u32>>(first + 4)?.map(NodeId),
    })
}

fn next_pack(sql: &dyn Sql) -> Result<PackNumber, CatalogError> {
    let select = "SELECT value + 1 FROM counter WHERE name = 'pack'";
    let next: u64 = sql.one(select, &[], |row| row.get(0))?;
    if next < PACK_NUMBER_END {
        Ok(PackNumber(next))
    } else {
        Err(CatalogError::impossible("the count of packs"))
    }
}

pub(super) fn put(sql: &dyn Sql, pack: &PackRow) -> Result<(), CatalogError> {
    put_by(pack, &mut |statement, values| sql.execute(statement, values).map(drop))
}

/// Makes or replaces the row of a pack, with `perform`.
pub(crate) fn put_by(pack: &PackRow, perform: Performer<'_>) -> Result<(), CatalogError> {
    // Commits may overtake each other: an open row is older than a sealed row.
    let put = "INSERT INTO pack VALUES(?, ?, ?, ?, ?)
               ON CONFLICT(number) DO UPDATE SET sealed = excluded.sealed,
                 bytes = excluded.bytes, node = coalesce(excluded.node, pack.node)
               WHERE pack.sealed = 0 OR excluded.sealed <> 0";
    let count = "UPDATE counter SET value = ?1 WHERE name = 'pack' AND value < ?1";
    assert!(pack.number.0 < PACK_NUMBER_END, "no place names a pack of this number");
    let sealed = code(pack.state, &PackState::ALL);
    let node = pack.node.map(|node| node.0);
    perform(put, params![pack.number.0, pack.domain.0, sealed, pack.bytes, node])?;
    perform(count, params![pack.number.0])
}

pub(super) fn remove(sql: &dyn Sql, pack: PackNumber) -> Result<(), CatalogError> {
    sql.execute("DELETE FROM pack WHERE number = ?", &[&pack.0]).map(drop)
}

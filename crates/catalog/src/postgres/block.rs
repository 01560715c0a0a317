//! Bulk tables by policy domain: what a domain's filespaces have lies in partitions of its own, so
//! that it is vacuumed, and can be moved to other disks, apart from that of others.
//!
//! ```text
//!   number of a filespace:  0 ............ 2^26 ... 2^26 + 2^16 ... 2^26 + 2 * 2^16 ... 2^27
//!   block:                  0: STANDARD    1        2                ...
//! ```
//!
//! A filespace gets a number of a block of its node's domain, and keeps it when the node goes to
//! another domain. The domain STANDARD has the first block, where a site with one domain has all.
//!
//! Invariant: a number that a filespace has lies in a block whose partitions are there. There is no
//! partition for the rest: to add one behind it would wait for whoever reads a large table.

use super::Session;
use crate::CatalogError;
use crate::sql::write::PAGE_COUNT_BITS;
use crate::sql::{Sql, params};

/// Filespaces of the first block: 2^26, with numbers below that.
const FIRST_BITS: u32 = 26;
/// Of each other.
const BITS: u32 = 16;
/// The number of the last block. What is behind it would have page numbers beyond 2^63.
const LAST: i64 = (1 << (FIRST_BITS - BITS)) - 1;
/// The domain that the first block is of.
const STANDARD: i64 = 1;

/// The partitioned tables; whether by the number of a page, else by that of a filespace.
const TABLES: [(&str, bool); 5] =
    [("directory", false), ("page", true), ("digest", true), ("version", false), ("ending", false)];

/// The first filespace of a block that is not the first.
fn begin(block: i64) -> i64 {
    (1 << FIRST_BITS) + ((block - 1) << BITS)
}

/// The block that the filespace is in.
fn block_of(filespace: i64) -> i64 {
    if filespace < begin(1) { 0 } else { ((filespace - begin(1)) >> BITS) + 1 }
}

/// The number of a new filespace of the domain; `None` for one of the first block, which the
/// database counts. The transaction has the catalogue alone.
pub(super) fn next_filespace(session: &Session, domain: i64) -> Result<Option<i64>, CatalogError> {
    if domain == STANDARD {
        return Ok(None);
    }
    let sql: &dyn Sql = session;
    // Of the domain, with a number left; else of one that is gone.
    let find = "SELECT number, next FROM block
                WHERE next < ?1 + (number << ?2)
                  AND (domain = ?3 OR domain NOT IN (SELECT id FROM domain))
                ORDER BY domain = ?3 DESC, number LIMIT 1";
    let ends = begin(1);
    let bits = i64::from(BITS);
    let columns = |row: &crate::sql::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found: Option<(i64, i64)> = sql.first(find, params![ends, bits, domain], columns)?;
    let (block, next) = match found {
        Some(found) => found,
        None => {
            let last = "SELECT coalesce(max(number), 0) FROM block";
            let block = sql.one(last, &[], |row| row.get::<i64>(0))? + 1;
            if block > LAST {
                // More domains than anybody has: what is new lies with the first.
                return Ok(None);
            }
            make(session, block)?;
            (block, begin(block))
        }
    };
    put(sql, block, domain, next + 1)?;
    Ok(Some(next))
}

fn put(sql: &dyn Sql, block: i64, domain: i64, next: i64) -> Result<(), CatalogError> {
    let put = "INSERT INTO block VALUES(?, ?, ?)
               ON CONFLICT(number) DO UPDATE SET domain = excluded.domain, next = excluded.next";
    sql.execute(put, params![block, domain, next]).map(drop)
}

/// Makes the partitions of a block. Waits for nobody who reads or writes the tables.
fn make(session: &Session, block: i64) -> Result<(), CatalogError> {
    for (table, by_page) in TABLES {
        let shift = if by_page { PAGE_COUNT_BITS } else { 0 };
        let (from, to) = (begin(block) << shift, begin(block + 1) << shift);
        session.command(&format!(
            "CREATE TABLE {table}_block{block}(LIKE {table} INCLUDING ALL);
             ALTER TABLE {table} ATTACH PARTITION {table}_block{block}
               FOR VALUES FROM ({from}) TO ({to})"
        ))?;
    }
    Ok(())
}

/// Makes the blocks of filespaces that have come from another catalogue, each for the domain of
/// its first filespace. Returns where the database counts on in the first block: behind the `last`
/// number of that catalogue, if it was of that block.
pub(super) fn make_for_rows(session: &Session, last: i64) -> Result<i64, CatalogError> {
    let sql: &dyn Sql = session;
    let select = "SELECT filespace.id, node.domain FROM filespace
                  JOIN node ON node.id = filespace.node WHERE filespace.id >= ?
                  ORDER BY filespace.id DESC";
    let columns = |row: &crate::sql::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let rows: Vec<(i64, i64)> = sql.all(select, params![begin(1)], columns)?;
    for of_block in rows.chunk_by(|a, b| block_of(a.0) == block_of(b.0)) {
        let (block, highest, domain) =
            (block_of(of_block[0].0), of_block[0].0, of_block[of_block.len() - 1].1);
        if block > LAST {
            let text = format!("a filespace has the number {highest}: there are none so great");
            return Err(CatalogError::Damaged(text));
        }
        if !sql.exists("SELECT 1 FROM block WHERE number = ?", params![block])? {
            make(session, block)?;
        }
        put(sql, block, domain, highest + 1)?;
    }
    if last < begin(1) {
        return Ok(last);
    }
    let highest = "SELECT coalesce(max(id), 0) FROM filespace WHERE id < ?";
    sql.one(highest, params![begin(1)], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_follow_one_another_and_end_before_the_numbers_of_pages_do() {
        assert_eq!((block_of(1), block_of((1 << 26) - 1)), (0, 0));
        for block in [1, 2, 500, LAST] {
            assert_eq!(block_of(begin(block)), block);
            assert_eq!(block_of(begin(block + 1) - 1), block);
        }
        assert!(begin(LAST + 1).checked_mul(1 << PAGE_COUNT_BITS).is_some());
    }
}

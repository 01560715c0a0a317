//! Partitions of the bulk tables by policy domain. The rows of a domain's filespaces lie in
//! partitions of their own, so that each domain is vacuumed, and can be moved to other disks, apart
//! from others.
//!
//! ```text
//!   number of a filespace:  0 ............ 2^26 ... 2^26 + 2^16 ... 2^26 + 2 * 2^16 ... 2^27
//!   block:                  0: STANDARD    1        2                ...
//! ```
//!
//! A filespace gets a number in a block of its node's domain, and keeps it when the node goes to
//! another domain. The domain STANDARD has the first block, so an installation with one domain has
//! one block.
//!
//! Invariant: the partitions of each filespace's block exist. There is no default partition: it
//! would make the addition of a partition wait for every reader of a large table.

use crate::CatalogError;
use crate::sql::pages::PAGE_COUNT_BITS;
use crate::sql::{Row, Sql, params};

/// Binary logarithm of the number of filespaces in the first block.
const FIRST_BITS: u32 = 26;
/// Binary logarithm of the number of filespaces in each other block.
const BITS: u32 = 16;
/// Number of the last block. A later block would have page numbers above 2^63.
const LAST: i64 = (1 << (FIRST_BITS - BITS)) - 1;
/// The domain of the first block.
const STANDARD: i64 = 1;

/// A partitioned table.
struct PartitionedTable {
    name: &'static str,
    /// True if the table is partitioned by the number of a page, false if by the number of a
    /// filespace.
    by_page: bool,
}

const TABLES: [PartitionedTable; 5] = [
    PartitionedTable { name: "directory", by_page: false },
    PartitionedTable { name: "page", by_page: true },
    PartitionedTable { name: "digest", by_page: true },
    PartitionedTable { name: "version", by_page: false },
    PartitionedTable { name: "ending", by_page: false },
];

/// A filespace and its node's domain.
struct Owner {
    filespace: i64,
    domain: i64,
}

/// Returns the number of the first filespace of `block`, which is not the first block.
fn begin(block: i64) -> i64 {
    assert!(block > 0, "the first block begins at 0");
    (1 << FIRST_BITS) + ((block - 1) << BITS)
}

/// Returns the block of the filespace.
fn block_of(filespace: i64) -> i64 {
    assert!(filespace >= 0, "filespaces are numbered from 0");
    if filespace < begin(1) { 0 } else { ((filespace - begin(1)) >> BITS) + 1 }
}

/// Returns the number of a new filespace of the domain; `None` for a filespace of the first block,
/// whose numbers the database counts. The caller's transaction must exclude all other writers.
pub(super) fn next_filespace(sql: &dyn Sql, domain: i64) -> Result<Option<i64>, CatalogError> {
    if domain == STANDARD {
        return Ok(None);
    }
    // Finds a block of the domain with a free number, or otherwise a block of a removed domain.
    let find = "SELECT number, next FROM block
                WHERE next < ?1 + (number << ?2)
                  AND (domain = ?3 OR domain NOT IN (SELECT id FROM domain))
                ORDER BY domain = ?3 DESC, number LIMIT 1";
    let ends = begin(1);
    let bits = i64::from(BITS);
    let columns = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found: Option<(i64, i64)> = sql.first(find, params![ends, bits, domain], columns)?;
    let (block, next) = match found {
        Some(found) => found,
        None => {
            let last = "SELECT coalesce(max(number), 0) FROM block";
            let block = sql.one(last, &[], |row| row.get::<i64>(0))? + 1;
            if block > LAST {
                // There are more domains than blocks: the filespace goes to the first block.
                return Ok(None);
            }
            make(sql, block)?;
            (block, begin(block))
        }
    };
    if block_of(next) != block {
        return Err(CatalogError::impossible("the next number of a block"));
    }
    put(sql, block, domain, next + 1)?;
    Ok(Some(next))
}

fn put(sql: &dyn Sql, block: i64, domain: i64, next: i64) -> Result<(), CatalogError> {
    let put = "INSERT INTO block VALUES(?, ?, ?)
               ON CONFLICT(number) DO UPDATE SET domain = excluded.domain, next = excluded.next";
    sql.execute(put, params![block, domain, next]).map(drop)
}

/// Makes the partitions of a block, without waiting for readers or writers of the tables.
fn make(sql: &dyn Sql, block: i64) -> Result<(), CatalogError> {
    assert!((1..=LAST).contains(&block), "page numbers of a later block do not fit");
    for PartitionedTable { name, by_page } in TABLES {
        let shift = if by_page { PAGE_COUNT_BITS } else { 0 };
        let (from, to) = (begin(block) << shift, begin(block + 1) << shift);
        let create = format!("CREATE TABLE {name}_block{block}(LIKE {name} INCLUDING ALL)");
        sql.execute(&create, &[])?;
        let attach = format!(
            "ALTER TABLE {name} ATTACH PARTITION {name}_block{block}
               FOR VALUES FROM ({from}) TO ({to})"
        );
        sql.execute(&attach, &[])?;
    }
    Ok(())
}

/// Makes the blocks of filespaces that come from another catalogue, each for the domain of its
/// first filespace. Returns the last number of the first block. This is `last`, the last number of
/// the other catalogue, unless `last` is in a later block: then it is the highest number in use in
/// the first block.
pub(super) fn make_for_rows(sql: &dyn Sql, last: i64) -> Result<i64, CatalogError> {
    let select = "SELECT filespace.id, node.domain FROM filespace
                  JOIN node ON node.id = filespace.node WHERE filespace.id >= ?
                  ORDER BY filespace.id DESC";
    let columns = |row: &Row<'_>| Ok(Owner { filespace: row.get(0)?, domain: row.get(1)? });
    let owners: Vec<Owner> = sql.all(select, params![begin(1)], columns)?;
    for in_block in owners.chunk_by(|a, b| block_of(a.filespace) == block_of(b.filespace)) {
        let [last, ..] = in_block else { continue };
        let [.., first] = in_block else { continue };
        let (block, highest) = (block_of(last.filespace), last.filespace);
        if block > LAST {
            let text = format!("the filespace number {highest} is above the last block");
            return Err(CatalogError::Damaged(text));
        }
        if !sql.exists("SELECT 1 FROM block WHERE number = ?", params![block])? {
            make(sql, block)?;
        }
        put(sql, block, first.domain, highest + 1)?;
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

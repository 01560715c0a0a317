//! Sums of the digest rows of filespaces: see [`crate::Pages::digest_sum`].

use std::collections::BTreeMap;

use model::FilespaceId;

use super::pages::{PageNumbers, digest_columns, page_numbers};
use super::{Performer, Row, Sql, params};
use crate::{CatalogError, PageDigest};

/// The changes of sums by a batch.
#[derive(Default)]
pub(crate) struct SumChanges(BTreeMap<FilespaceId, u128>);

impl SumChanges {
    pub(crate) fn add(&mut self, filespace: FilespaceId, row: &PageDigest) {
        let change = self.0.entry(filespace).or_default();
        *change = change.wrapping_add(row.addend());
    }

    pub(crate) fn take(&mut self, filespace: FilespaceId, row: &PageDigest) {
        let change = self.0.entry(filespace).or_default();
        *change = change.wrapping_sub(row.addend());
    }

    /// Changes the sums that are kept.
    pub(crate) fn keep(self, sql: &dyn Sql) -> Result<(), CatalogError> {
        let perform: Performer<'_> = &mut |put, values| sql.execute(put, values).map(drop);
        self.keep_by(|filespace| kept(sql, filespace), perform)
    }

    /// Changes the sums that `kept` returns, with `perform`.
    pub(crate) fn keep_by(
        self,
        kept: impl Fn(FilespaceId) -> Result<Option<u128>, CatalogError>,
        perform: Performer<'_>,
    ) -> Result<(), CatalogError> {
        for (filespace, change) in self.0 {
            if change != 0
                && let Some(sum) = kept(filespace)?
            {
                perform(PUT, params![filespace.0, sum.wrapping_add(change).to_le_bytes()])?;
            }
        }
        Ok(())
    }
}

const PUT: &str = "INSERT INTO digest_sum VALUES(?, ?)
                   ON CONFLICT(filespace) DO UPDATE SET sum = excluded.sum";

/// Begins the sum of a new filespace.
pub(super) fn begin(sql: &dyn Sql, filespace: FilespaceId) -> Result<(), CatalogError> {
    put(sql, filespace, 0)
}

/// Returns the sum of a filespace, if it is kept.
pub(super) fn kept(sql: &dyn Sql, filespace: FilespaceId) -> Result<Option<u128>, CatalogError> {
    let select = "SELECT sum FROM digest_sum WHERE filespace = ?";
    let sum = |row: &Row<'_>| row.get::<[u8; 16]>(0).map(u128::from_le_bytes);
    sql.first(select, params![filespace.0], sum)
}

/// Adds up the digest rows of a filespace, and keeps their sum. Nobody changes the filespace
/// meanwhile.
pub(super) fn count(sql: &dyn Sql, filespace: FilespaceId) -> Result<u128, CatalogError> {
    let PageNumbers { first, end } = page_numbers(filespace);
    let select = "SELECT hash, digest, first FROM digest WHERE id >= ? AND id < ?";
    let mut sum = 0_u128;
    sql.each(select, params![first, end], &mut |row| {
        sum = sum.wrapping_add(digest_columns(row)?.addend());
        Ok(true)
    })?;
    put(sql, filespace, sum)?;
    Ok(sum)
}

/// Returns the first filespace whose sum is kept and is another one than in `sums`.
pub(crate) fn first_wrong(
    sql: &dyn Sql,
    sums: &SumChanges,
) -> Result<Option<FilespaceId>, CatalogError> {
    let mut wrong = None;
    sql.each("SELECT filespace, sum FROM digest_sum ORDER BY filespace", &[], &mut |row| {
        let filespace = FilespaceId(row.get(0)?);
        let of_pages = sums.0.get(&filespace).copied().unwrap_or_default();
        if u128::from_le_bytes(row.get(1)?) != of_pages {
            wrong = Some(filespace);
        }
        Ok(wrong.is_none())
    })?;
    Ok(wrong)
}

fn put(sql: &dyn Sql, filespace: FilespaceId, sum: u128) -> Result<(), CatalogError> {
    sql.execute(PUT, params![filespace.0, sum.to_le_bytes()]).map(drop)
}

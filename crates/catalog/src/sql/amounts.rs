//! Statements about amounts of what is stored.

use std::collections::BTreeMap;

use format::page;
use model::{DomainId, FilespaceId, NodeId, Place};

use super::{Engine, Performer, Row, Sql, filespaces, params, row_count};
use crate::amounts::BYTES_MAX;
use crate::{Amount, Amounts, CatalogError, Filespace, Growth};

/// Maximum change of bytes by one write: twice as many bytes never overflow a column.
const GROWTH_MAX: i64 = BYTES_MAX / 2;

impl<E: Engine> Amounts for E {
    fn amount(&self, domain: DomainId) -> Result<Amount, CatalogError> {
        let select = format!("{AMOUNT} WHERE node.domain = ?");
        let rows: Vec<(DomainId, Amount)> =
            self.read(|sql| sql.all(&select, params![domain.0], columns))?;
        Ok(rows.into_iter().fold(Amount::default(), |sum, (_, amount)| sum.plus(amount)))
    }

    fn amounts(&self) -> Result<Vec<(DomainId, Amount)>, CatalogError> {
        let mut sums: BTreeMap<DomainId, Amount> = BTreeMap::new();
        let rows: Vec<(DomainId, Amount)> = self.read(|sql| sql.all(AMOUNT, &[], columns))?;
        for (domain, amount) in rows {
            let sum = sums.entry(domain).or_default();
            *sum = sum.plus(amount);
        }
        Ok(sums.into_iter().collect())
    }

    fn node_amounts(&self, domain: DomainId) -> Result<Vec<(NodeId, Amount)>, CatalogError> {
        let select = "SELECT filespace.node, amount.objects, amount.bytes FROM amount
                      JOIN filespace ON filespace.id = amount.filespace
                      JOIN node ON node.id = filespace.node WHERE node.domain = ?";
        let columns = |row: &Row<'_>| {
            Ok((NodeId(row.get(0)?), Amount { objects: row.get(1)?, bytes: row.get(2)? }))
        };
        let rows: Vec<(NodeId, Amount)> =
            self.read(|sql| sql.all(select, params![domain.0], columns))?;
        let mut sums: BTreeMap<NodeId, Amount> = BTreeMap::new();
        for (node, amount) in rows {
            let sum = sums.entry(node).or_default();
            *sum = sum.plus(amount);
        }
        Ok(sums.into_iter().collect())
    }

    fn uncounted(&self, limit: usize) -> Result<Vec<Filespace>, CatalogError> {
        let select = format!(
            "{} WHERE NOT EXISTS (SELECT 1 FROM amount WHERE amount.filespace = filespace.id)
             ORDER BY id LIMIT ?",
            filespaces::FILESPACE
        );
        self.read(|sql| sql.all(&select, params![row_count(limit)], filespaces::columns))
    }

    fn count_filespace(&self, filespace: &Filespace, amount: Amount) -> Result<(), CatalogError> {
        let id = filespace.id;
        self.write(move |sql| count(sql, id, amount))
    }
}

/// The sums are computed here: a database would fail where they are too large.
const AMOUNT: &str = "SELECT node.domain, amount.objects, amount.bytes FROM amount
                      JOIN filespace ON filespace.id = amount.filespace
                      JOIN node ON node.id = filespace.node";

fn columns(row: &Row<'_>) -> Result<(DomainId, Amount), CatalogError> {
    Ok((DomainId(row.get(0)?), Amount { objects: row.get(1)?, bytes: row.get(2)? }))
}

fn count(sql: &dyn Sql, filespace: FilespaceId, amount: Amount) -> Result<(), CatalogError> {
    sql.execute("DELETE FROM amount WHERE filespace = ?", params![filespace.0])?;
    let insert = "INSERT INTO amount(filespace, objects, bytes)
                  SELECT id, CAST(?1 AS BIGINT), CAST(?2 AS BIGINT) FROM filespace WHERE id = ?3";
    let bounded = |number: u64| i64::try_from(number).unwrap_or(i64::MAX).min(BYTES_MAX);
    let (objects, bytes) = (bounded(amount.objects), bounded(amount.bytes));
    sql.execute(insert, params![objects, bytes, filespace.0]).map(drop)
}

/// Begins to count a new filespace.
pub(super) fn begin(sql: &dyn Sql, filespace: FilespaceId) -> Result<(), CatalogError> {
    count(sql, filespace, Amount::default())
}

/// Changes the amount of a filespace, if it is counted.
pub(super) fn grow(
    sql: &dyn Sql,
    filespace: FilespaceId,
    growth: Growth,
) -> Result<(), CatalogError> {
    grow_by(filespace, growth, &mut |update, values| sql.execute(update, values).map(drop))
}

/// Changes the amount of a filespace, if it is counted, with `perform`.
pub(crate) fn grow_by(
    filespace: FilespaceId,
    growth: Growth,
    perform: Performer<'_>,
) -> Result<(), CatalogError> {
    let update = "UPDATE amount SET
                    objects = CASE WHEN objects + ?1 < 0 THEN 0
                                   WHEN objects + ?1 > ?4 THEN ?4 ELSE objects + ?1 END,
                    bytes = CASE WHEN bytes + ?2 < 0 THEN 0
                                 WHEN bytes + ?2 > ?4 THEN ?4 ELSE bytes + ?2 END
                  WHERE filespace = ?3";
    let bounded = |number: i64| number.clamp(-GROWTH_MAX, GROWTH_MAX);
    let (objects, bytes) = (bounded(growth.objects), bounded(growth.bytes));
    perform(update, params![objects, bytes, filespace.0, BYTES_MAX])
}

/// Takes the versions in the trash of a deletion from the amounts of their filespaces. A damaged
/// version counts as an object without bytes.
pub(super) fn free_trash(sql: &dyn Sql, deletion: u64) -> Result<(), CatalogError> {
    let mut freed: BTreeMap<FilespaceId, Growth> = BTreeMap::new();
    let select = "SELECT filespace, body FROM trash WHERE deletion = ?";
    sql.each(select, params![deletion], &mut |row| {
        let (filespace, body): (u32, Vec<u8>) = (row.get(0)?, row.get(1)?);
        let objects = page::decode::<Place>(&body).unwrap_or_default();
        let empty = Growth { objects: 1, bytes: 0 };
        let version = objects.first().map_or(empty, Growth::of);
        let sum = freed.entry(FilespaceId(filespace)).or_default();
        *sum = sum.plus(version);
        Ok(true)
    })?;
    freed
        .into_iter()
        .try_for_each(|(filespace, growth)| grow(sql, filespace, growth.undone()))
}

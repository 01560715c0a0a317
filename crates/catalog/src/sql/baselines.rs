//! Statements about kept baselines.

use model::{NodeId, ServerTime};

use super::{Engine, Row, Sql, nodes, numbers, params, row_count, row_number};
use crate::{BASELINES_MAX, BaselineRow, Baselines, CatalogError};

impl<E: Engine> Baselines for E {
    fn add_baseline(
        &self,
        node: NodeId,
        made: ServerTime,
        document: &[u8],
    ) -> Result<(), CatalogError> {
        let document = document.to_owned();
        self.write(move |sql| add(sql, node, made, &document))
    }

    fn baselines(
        &self,
        node: NodeId,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<BaselineRow>, CatalogError> {
        self.read(|sql| of_node(sql, node, from, limit))
    }
}

fn add(sql: &dyn Sql, node: NodeId, made: ServerTime, document: &[u8]) -> Result<(), CatalogError> {
    nodes::find_node(sql, node)?;
    let insert = "INSERT INTO baseline(number, node, made, document) VALUES(?, ?, ?, ?)
                  ON CONFLICT(number) DO NOTHING";
    numbers::draw(sql, ("baseline", node), made, |number| {
        sql.execute(insert, params![number, node.0, made.0, document])
    })?;
    // Without so many baselines the inner query has no row, and nothing is removed.
    let delete = "DELETE FROM baseline WHERE node = ?1 AND number <=
                    (SELECT number FROM baseline WHERE node = ?1
                     ORDER BY number DESC LIMIT 1 OFFSET ?2)";
    sql.execute(delete, params![node.0, row_count(BASELINES_MAX)]).map(drop)
}

pub(crate) fn of_node(
    sql: &dyn Sql,
    node: NodeId,
    from: Option<u64>,
    limit: usize,
) -> Result<Vec<BaselineRow>, CatalogError> {
    let select = "SELECT number, made, document FROM baseline WHERE node = ? AND number >= ?
                  ORDER BY number LIMIT ?";
    let columns = |row: &Row<'_>| {
        let (number, made) = (row.get(0)?, ServerTime(row.get(1)?));
        Ok(BaselineRow { number, made, document: row.get(2)? })
    };
    let from = row_number(from.or(Some(0)));
    let values = params![node.0, from, row_count(limit)];
    let rows: Vec<BaselineRow> = sql.all(select, values, columns)?;
    assert!(rows.len() <= limit, "the statement limits its rows");
    Ok(rows)
}

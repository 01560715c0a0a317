//! Statements about restore drills.

use model::{NodeId, ServerTime};

use super::{Engine, Row, Sql, nodes, params};
use crate::{CatalogError, DrillRow, Drills};

impl<E: Engine> Drills for E {
    fn put_drill(&self, drill: &DrillRow) -> Result<(), CatalogError> {
        let drill = drill.clone();
        self.write(move |sql| put(sql, &drill))
    }

    fn drills(&self, node: Option<NodeId>) -> Result<Vec<DrillRow>, CatalogError> {
        self.read(|sql| all(sql, node))
    }
}

fn put(sql: &dyn Sql, drill: &DrillRow) -> Result<(), CatalogError> {
    let DrillRow { node, is_good, at, objects, bytes, damaged, reason } = drill;
    nodes::find_node(sql, *node)?;
    let delete = "DELETE FROM drill WHERE node = ? AND is_good = ?";
    sql.execute(delete, params![node.0, *is_good])?;
    let insert = "INSERT INTO drill(node, is_good, ended, objects, bytes, damaged, reason)
                  VALUES(?, ?, ?, ?, ?, ?, ?)";
    let values = params![node.0, *is_good, at.0, objects, bytes, damaged, reason];
    sql.execute(insert, values).map(drop)
}

fn all(sql: &dyn Sql, node: Option<NodeId>) -> Result<Vec<DrillRow>, CatalogError> {
    let (condition, node) = match node {
        Some(node) => ("node = ?", i64::from(node.0)),
        None => ("node > ?", -1),
    };
    let select = format!(
        "SELECT node, is_good, ended, objects, bytes, damaged, reason FROM drill
         WHERE {condition} ORDER BY node, is_good"
    );
    sql.all(&select, params![node], |row: &Row<'_>| {
        Ok(DrillRow {
            node: NodeId(row.get(0)?),
            is_good: row.get(1)?,
            at: ServerTime(row.get(2)?),
            objects: row.get(3)?,
            bytes: row.get(4)?,
            damaged: row.get(5)?,
            reason: row.get(6)?,
        })
    })
}

//! Statements about restores.

use model::{FilespaceId, NodeId, ServerTime};

use super::{Engine, Row, params};
use crate::{CatalogError, RestoreRow, Restores};

impl<E: Engine> Restores for E {
    fn add_restore(&self, restore: &RestoreRow) -> Result<(), CatalogError> {
        let RestoreRow { node, filespace, started, ended, objects, bytes } = *restore;
        self.write(move |sql| {
            let insert = "INSERT INTO restored(node, filespace, started, ended, objects, bytes)
                          VALUES(?, ?, ?, ?, ?, ?)";
            let values = params![node.0, filespace.0, started.0, ended.0, objects, bytes];
            sql.execute(insert, values).map(drop)
        })
    }

    fn restores(&self, span: (ServerTime, ServerTime)) -> Result<Vec<RestoreRow>, CatalogError> {
        let select = "SELECT node, filespace, started, ended, objects, bytes FROM restored
                      WHERE ended >= ? AND ended < ? ORDER BY ended, number";
        self.read(|sql| sql.all(select, params![span.0.0, span.1.0], columns))
    }

    fn forget_restores(&self, before: ServerTime) -> Result<(), CatalogError> {
        self.write(move |sql| {
            sql.execute("DELETE FROM restored WHERE ended < ?", params![before.0]).map(drop)
        })
    }
}

fn columns(row: &Row<'_>) -> Result<RestoreRow, CatalogError> {
    Ok(RestoreRow {
        node: NodeId(row.get(0)?),
        filespace: FilespaceId(row.get(1)?),
        started: ServerTime(row.get(2)?),
        ended: ServerTime(row.get(3)?),
        objects: row.get(4)?,
        bytes: row.get(5)?,
    })
}

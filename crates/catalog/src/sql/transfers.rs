//! Statements about finished archives and restores.

use model::ServerTime;

use super::{Engine, Row, Sql, params, row_count, row_number};
use crate::{ArchivedRow, CatalogError, FinishedTransfer, TransferFigures, Transfers};

impl<E: Engine> Transfers for E {
    fn add_archived(&self, archived: &ArchivedRow) -> Result<(), CatalogError> {
        let archived = archived.clone();
        self.write(move |sql| add(sql, &archived))
    }

    fn finished_archives(
        &self,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<FinishedTransfer>, CatalogError> {
        let select = "SELECT archived.number, node.name, archived.filespace, archived.started,
                      archived.ended, archived.examined, archived.objects, archived.failed,
                      archived.bytes
                      FROM archived JOIN node ON node.id = archived.node
                      WHERE archived.number <= ? ORDER BY archived.number DESC LIMIT ?";
        self.read(|sql| sql.all(select, params![row_number(from), row_count(limit)], columns))
    }

    fn finished_restores(
        &self,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<FinishedTransfer>, CatalogError> {
        // Of a restore, only what was sent is known.
        let select = "SELECT restored.number, node.name, filespace.name, restored.started,
                      restored.ended, restored.objects, restored.objects,
                      CAST(0 AS BIGINT), restored.bytes
                      FROM restored JOIN node ON node.id = restored.node
                      LEFT JOIN filespace ON filespace.id = restored.filespace
                      WHERE restored.number <= ? ORDER BY restored.number DESC LIMIT ?";
        self.read(|sql| sql.all(select, params![row_number(from), row_count(limit)], columns))
    }

    fn forget_archived(&self, before: ServerTime) -> Result<(), CatalogError> {
        self.write(move |sql| {
            sql.execute("DELETE FROM archived WHERE ended < ?", params![before.0]).map(drop)
        })
    }
}

fn add(sql: &dyn Sql, archived: &ArchivedRow) -> Result<(), CatalogError> {
    let ArchivedRow { node, filespace, started, ended, figures } = archived;
    let TransferFigures { examined, objects, failed, bytes } = figures;
    let insert = "INSERT INTO archived(node, filespace, started, ended, examined, objects, failed,
                  bytes) VALUES(?, ?, ?, ?, ?, ?, ?, ?)";
    let values = params![node.0, filespace, started.0, ended.0, examined, objects, failed, bytes];
    sql.execute(insert, values).map(drop)
}

fn columns(row: &Row<'_>) -> Result<FinishedTransfer, CatalogError> {
    Ok(FinishedTransfer {
        number: row.get(0)?,
        node: row.get(1)?,
        filespace: row.get::<Option<Vec<u8>>>(2)?.unwrap_or_default(),
        started: ServerTime(row.get(3)?),
        ended: ServerTime(row.get(4)?),
        figures: TransferFigures {
            examined: row.get(5)?,
            objects: row.get(6)?,
            failed: row.get(7)?,
            bytes: row.get(8)?,
        },
    })
}

//! Statements about finished backups.

use model::{FilespaceId, NodeId, ServerTime};

use super::{Engine, Performer, Row, Sql, params, row_count, row_number};
use crate::{CatalogError, SessionRow, Sessions};

impl<E: Engine> Sessions for E {
    fn sessions(&self, node: NodeId, limit: usize) -> Result<Vec<SessionRow>, CatalogError> {
        self.read(|sql| sessions(sql, node, ServerTime(i64::MIN), limit))
    }

    fn sessions_from(
        &self,
        node: NodeId,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, SessionRow)>, CatalogError> {
        let select = format!("{NUMBERED} WHERE node = ? AND id <= ? ORDER BY id DESC LIMIT ?");
        let columns = |row: &Row<'_>| Ok((row.get(6)?, columns(row)?));
        self.read(|sql| {
            sql.all(&select, params![node.0, row_number(from), row_count(limit)], columns)
        })
    }

    fn sessions_since(
        &self,
        node: NodeId,
        since: ServerTime,
        limit: usize,
    ) -> Result<Vec<SessionRow>, CatalogError> {
        self.read(|sql| sessions(sql, node, since, limit))
    }

    fn backup_ends(
        &self,
        node: NodeId,
        limit: usize,
    ) -> Result<Vec<(FilespaceId, ServerTime)>, CatalogError> {
        let select = "SELECT filespace, ended FROM session WHERE node = ? AND complete <> 0
                      ORDER BY id DESC LIMIT ?";
        let columns = |row: &Row<'_>| Ok((FilespaceId(row.get(0)?), ServerTime(row.get(1)?)));
        self.read(|sql| sql.all(select, params![node.0, row_count(limit)], columns))
    }
}

/// A finished backup, and then its number.
pub(super) const NUMBERED: &str =
    "SELECT node, filespace, started, ended, complete, report, id FROM session";

/// Reads a finished backup from a row of [`NUMBERED`].
pub(super) fn columns(row: &Row<'_>) -> Result<SessionRow, CatalogError> {
    Ok(SessionRow {
        node: NodeId(row.get(0)?),
        filespace: FilespaceId(row.get(1)?),
        started: ServerTime(row.get(2)?),
        ended: ServerTime(row.get(3)?),
        complete: row.get(4)?,
        report: row.get(5)?,
    })
}

fn sessions(
    sql: &dyn Sql,
    node: NodeId,
    since: ServerTime,
    limit: usize,
) -> Result<Vec<SessionRow>, CatalogError> {
    let select = format!("{NUMBERED} WHERE node = ? AND started >= ? ORDER BY id DESC LIMIT ?");
    let values = params![node.0, since.0, row_count(limit)];
    let sessions: Vec<SessionRow> = sql.all(&select, values, columns)?;
    assert!(sessions.len() <= limit, "the statement limits its rows");
    Ok(sessions)
}

pub(super) fn add(sql: &dyn Sql, session: &SessionRow) -> Result<(), CatalogError> {
    add_by(session, &mut |statement, values| sql.execute(statement, values).map(drop))
}

/// Records a finished backup, with `perform`.
pub(crate) fn add_by(session: &SessionRow, perform: Performer<'_>) -> Result<(), CatalogError> {
    let insert = "INSERT INTO session(node, filespace, started, ended, complete, report)
                  VALUES(?, ?, ?, ?, ?, ?)";
    let SessionRow { node, filespace, started, ended, complete, report } = session;
    perform(insert, params![node.0, filespace.0, started.0, ended.0, complete, report])?;
    if *complete {
        let update = "UPDATE filespace SET last_backup = ? WHERE id = ?";
        perform(update, params![started.0, filespace.0])?;
    }
    Ok(())
}

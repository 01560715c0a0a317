//! What a server does by itself when it is due.

use super::{Row, Sql, params};
use crate::{CatalogError, TaskEnd, TaskRun};
use model::ServerTime;

/// Runs are known for so long.
const KEPT_MICROS: i64 = 100 * 86_400_000_000;
/// Of a run whose server did not live to say what became of it.
const LOST_REASON: &str = "the server ended before it did";

/// A run has begun: one of the same task that has not ended never will, and those of long ago are
/// forgotten.
pub(crate) fn begin(
    sql: &dyn Sql,
    task: &str,
    due: ServerTime,
    started: ServerTime,
) -> Result<(), CatalogError> {
    let delete = "DELETE FROM task_run WHERE started < ?";
    sql.execute(delete, &[&(started.0 - KEPT_MICROS)])?;
    let lost = TaskEnd { at: started, code: TaskEnd::FAILED, reason: LOST_REASON.to_owned() };
    end(sql, task, &lost)?;
    let insert = "INSERT INTO task_run(task, due, started) VALUES(?, ?, ?)";
    sql.execute(insert, params![task, due.0, started.0]).map(drop)
}

pub(crate) fn end(sql: &dyn Sql, task: &str, end: &TaskEnd) -> Result<(), CatalogError> {
    let update = "UPDATE task_run SET ended = ?, code = ?, reason = ?
                  WHERE task = ? AND ended IS NULL";
    sql.execute(update, params![end.at.0, end.code, end.reason, task]).map(drop)
}

pub(crate) fn runs(sql: &dyn Sql, limit: usize) -> Result<Vec<TaskRun>, CatalogError> {
    let select = "SELECT task, due, started, ended, code, reason FROM task_run
                  ORDER BY id DESC LIMIT ?";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    sql.all(select, &[&limit], run)
}

fn run(row: &Row<'_>) -> Result<TaskRun, CatalogError> {
    let at: Option<i64> = row.get(3)?;
    let ended = at.map(|at| {
        Ok::<_, CatalogError>(TaskEnd {
            at: ServerTime(at),
            code: row.get(4)?,
            reason: row.get(5)?,
        })
    });
    let (due, started) = (ServerTime(row.get(1)?), ServerTime(row.get(2)?));
    Ok(TaskRun { task: row.get(0)?, due, started, ended: ended.transpose()? })
}

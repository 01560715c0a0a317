//! Statements about runs of the server's tasks.

use model::ServerTime;

use super::{Engine, Row, Sql, params, row_count, row_number};
use crate::{CatalogError, LoggedRun, TaskEnd, TaskRun, Tasks};

/// Time in microseconds for which the catalogue keeps runs.
const KEPT_MICROS: i64 = 100 * 86_400_000_000;

/// Reason of a run whose server ended before the run did.
const LOST_REASON: &str = "the server ended before it did";

impl<E: Engine> Tasks for E {
    fn task_runs(&self, from: Option<u64>, limit: usize) -> Result<Vec<LoggedRun>, CatalogError> {
        self.read(|sql| runs(sql, from, limit))
    }

    fn last_task_runs(&self) -> Result<Vec<LoggedRun>, CatalogError> {
        self.read(last_runs)
    }
}

/// Begins a run. An open run of the same task is recorded as failed, because its server has ended.
/// Old runs are removed.
pub(super) fn begin(
    sql: &dyn Sql,
    task: &str,
    due: ServerTime,
    started: ServerTime,
) -> Result<(), CatalogError> {
    assert!(due <= started, "a run begins when it is due");
    let delete = "DELETE FROM task_run WHERE started < ?";
    sql.execute(delete, &[&(started.0 - KEPT_MICROS)])?;
    let lost = TaskEnd { at: started, code: TaskEnd::FAILED, reason: LOST_REASON.to_owned() };
    end(sql, task, &lost)?;
    let insert = "INSERT INTO task_run(task, due, started) VALUES(?, ?, ?)";
    sql.execute(insert, params![task, due.0, started.0]).map(drop)
}

pub(super) fn end(sql: &dyn Sql, task: &str, end: &TaskEnd) -> Result<(), CatalogError> {
    assert!(end.code > 0 || end.reason.is_empty(), "a success needs no reason");
    let update = "UPDATE task_run SET ended = ?, code = ?, reason = ?
                  WHERE task = ? AND ended IS NULL";
    sql.execute(update, params![end.at.0, end.code, end.reason, task]).map(drop)
}

fn runs(sql: &dyn Sql, from: Option<u64>, limit: usize) -> Result<Vec<LoggedRun>, CatalogError> {
    let select = "SELECT task, due, started, ended, code, reason, id FROM task_run
                  WHERE id <= ? ORDER BY id DESC LIMIT ?";
    let values = params![row_number(from), row_count(limit)];
    let runs: Vec<LoggedRun> = sql.all(select, values, logged)?;
    assert!(runs.len() <= limit, "the statement limits its rows");
    Ok(runs)
}

fn last_runs(sql: &dyn Sql) -> Result<Vec<LoggedRun>, CatalogError> {
    let select = "SELECT task, due, started, ended, code, reason, id FROM task_run
                  WHERE ended IS NULL OR id IN (SELECT max(id) FROM task_run
                  WHERE ended IS NOT NULL AND code <> ? GROUP BY task, code >= ?)
                  ORDER BY id DESC";
    sql.all(select, params![TaskEnd::CANCELLED, TaskEnd::FAILED], logged)
}

fn logged(row: &Row<'_>) -> Result<LoggedRun, CatalogError> {
    Ok(LoggedRun { number: row.get(6)?, run: run(row)? })
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

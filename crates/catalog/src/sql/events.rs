//! Statements about events.

use model::ServerTime;

use super::{Engine, Performer, Sql, params, row_count, row_number};
use crate::{CatalogError, EventRow, Events, LoggedEvent};

impl<E: Engine> Events for E {
    fn events(&self, from: Option<u64>, limit: usize) -> Result<Vec<LoggedEvent>, CatalogError> {
        self.read(|sql| events(sql, from, limit))
    }
}

pub(super) fn add(sql: &dyn Sql, event: &EventRow) -> Result<(), CatalogError> {
    add_by(event, &mut |insert, values| sql.execute(insert, values).map(drop))
}

/// Adds an event to the audit trail, with `perform`.
pub(crate) fn add_by(event: &EventRow, perform: Performer<'_>) -> Result<(), CatalogError> {
    let insert = "INSERT INTO event(time, actor, what, details) VALUES(?, ?, ?, ?)";
    let EventRow { time, actor, what, details } = event;
    perform(insert, params![time.0, actor, what, details])
}

fn events(
    sql: &dyn Sql,
    from: Option<u64>,
    limit: usize,
) -> Result<Vec<LoggedEvent>, CatalogError> {
    let select = "SELECT id, time, actor, what, details FROM event WHERE id <= ?
                  ORDER BY id DESC LIMIT ?";
    let values = params![row_number(from), row_count(limit)];
    let events: Vec<LoggedEvent> = sql.all(select, values, |row| {
        let (time, actor) = (ServerTime(row.get(1)?), row.get(2)?);
        let (what, details) = (row.get(3)?, row.get(4)?);
        Ok(LoggedEvent { number: row.get(0)?, event: EventRow { time, actor, what, details } })
    })?;
    assert!(events.len() <= limit, "the statement limits its rows");
    Ok(events)
}

//! Statements about many rows at once.

use model::{DomainId, NodeId, ServerTime};
use policy::schedule::event::EventState;

use super::{Engine, Row, code, params, row_count, row_number, scheduled_events, sessions};
use crate::{
    CatalogError, EventOutcome, FinishedBackup, Overview, PackState, PackUsage, SessionRow,
};

/// States of an event that is over.
const OVER: [EventState; 4] =
    [EventState::Completed, EventState::Missed, EventState::Failed, EventState::Uncertain];

impl<E: Engine> Overview for E {
    fn certificate_ends(&self) -> Result<Vec<(NodeId, ServerTime)>, CatalogError> {
        let select = "SELECT node, max(expires) FROM certificate GROUP BY node ORDER BY node";
        self.read(|sql| sql.all(select, params![], node_time))
    }

    fn event_outcomes(&self, from: ServerTime) -> Result<Vec<EventOutcome>, CatalogError> {
        let states = OVER.map(|state| code(state, &EventState::ALL).to_string()).join(", ");
        let select = format!(
            "SELECT schedule, planned, node, state, reason FROM scheduled_event
             WHERE planned >= ? AND state IN ({states}) ORDER BY planned, id"
        );
        self.read(|sql| sql.all(&select, params![from.0], outcome))
    }

    fn event_counts(&self, from: ServerTime) -> Result<Vec<(EventState, u64)>, CatalogError> {
        let select = "SELECT state, count(*) FROM scheduled_event WHERE planned >= ?
                      GROUP BY state ORDER BY state";
        let columns = |row: &Row<'_>| Ok((row.coded(0, &EventState::ALL)?, row.get(1)?));
        self.read(|sql| sql.all(select, params![from.0], columns))
    }

    fn sessions_after(
        &self,
        number: u64,
        limit: usize,
    ) -> Result<Vec<(u64, SessionRow)>, CatalogError> {
        let select = format!("{} WHERE id > ? ORDER BY id LIMIT ?", sessions::NUMBERED);
        let columns = |row: &Row<'_>| Ok((row.get(6)?, sessions::columns(row)?));
        self.read(|sql| sql.all(&select, params![number, row_count(limit)], columns))
    }

    fn finished_backups(
        &self,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<FinishedBackup>, CatalogError> {
        let select = "SELECT session.id, node.name, filespace.name, session.started,
                      session.ended, session.report
                      FROM session JOIN node ON node.id = session.node
                      JOIN filespace ON filespace.id = session.filespace
                      WHERE session.id <= ? ORDER BY session.id DESC LIMIT ?";
        self.read(|sql| {
            sql.all(select, params![row_number(from), row_count(limit)], finished_backup)
        })
    }

    fn last_session(&self) -> Result<u64, CatalogError> {
        let select = "SELECT coalesce(max(id), 0) FROM session";
        self.read(|sql| sql.one(select, params![], |row| row.get(0)))
    }

    fn domain_sessions(
        &self,
        domain: DomainId,
        (from, to): (ServerTime, ServerTime),
    ) -> Result<Vec<SessionRow>, CatalogError> {
        let select = format!(
            "{} WHERE node IN (SELECT id FROM node WHERE domain = ?) AND ended >= ? AND ended < ?
             ORDER BY id",
            sessions::NUMBERED
        );
        self.read(|sql| sql.all(&select, params![domain.0, from.0, to.0], sessions::columns))
    }

    fn pack_usage(&self) -> Result<Vec<PackUsage>, CatalogError> {
        let select = "SELECT domain, sealed, count(*), CAST(coalesce(sum(bytes), 0) AS BIGINT)
                      FROM pack GROUP BY domain, sealed ORDER BY domain, sealed";
        self.read(|sql| sql.all(select, params![], usage))
    }
}

fn node_time(row: &Row<'_>) -> Result<(NodeId, ServerTime), CatalogError> {
    Ok((NodeId(row.get(0)?), ServerTime(row.get(1)?)))
}

fn finished_backup(row: &Row<'_>) -> Result<FinishedBackup, CatalogError> {
    Ok(FinishedBackup {
        number: row.get(0)?,
        node: row.get(1)?,
        filespace: row.get(2)?,
        started: ServerTime(row.get(3)?),
        ended: ServerTime(row.get(4)?),
        report: row.get(5)?,
    })
}

fn outcome(row: &Row<'_>) -> Result<EventOutcome, CatalogError> {
    Ok(EventOutcome {
        schedule: row.get(0)?,
        planned: ServerTime(row.get(1)?),
        node: scheduled_events::node_of(row.get(2)?),
        state: row.coded(3, &EventState::ALL)?,
        reason: row.get(4)?,
    })
}

fn usage(row: &Row<'_>) -> Result<PackUsage, CatalogError> {
    Ok(PackUsage {
        domain: DomainId(row.get(0)?),
        state: row.coded(1, &PackState::ALL)?,
        packs: row.get(2)?,
        bytes: row.get(3)?,
    })
}

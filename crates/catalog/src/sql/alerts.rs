//! Statements about alerts and their notices.

use model::{DomainId, NodeId, ServerTime};

use super::{
    Engine, Row, Sql, ToValue, Values, domain_places, marks, nodes_of, params, row_count,
    row_number,
};
use crate::{
    AlertChanges, AlertFilter, AlertRow, Alerts, CatalogError, Delivery, NodeSight, NoticeRow,
};

impl<E: Engine> Alerts for E {
    fn alerts(
        &self,
        filter: &AlertFilter,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AlertRow>, CatalogError> {
        self.read(|sql| list(sql, filter, from, limit))
    }

    fn pending_alerts(&self) -> Result<Vec<AlertRow>, CatalogError> {
        let select = format!(
            "{ALERT} WHERE ended IS NULL OR (told IS NOT NULL AND end_told IS NULL)
             ORDER BY number"
        );
        self.read(|sql| sql.all(&select, params![], alert))
    }

    fn alert(&self, number: u64) -> Result<AlertRow, CatalogError> {
        let select = format!("{ALERT} WHERE number = ?");
        let found = self.read(|sql| sql.first(&select, params![number], alert))?;
        found.ok_or(CatalogError::NotFound { what: "the alert" })
    }

    fn change_alerts(&self, changes: &AlertChanges) -> Result<(), CatalogError> {
        let changes = changes.clone();
        self.write(move |sql| change(sql, &changes))
    }

    fn acknowledge_alert(
        &self,
        number: u64,
        by: &str,
        note: &str,
        at: ServerTime,
    ) -> Result<bool, CatalogError> {
        let (by, note) = (by.to_owned(), note.to_owned());
        self.write(move |sql| {
            let update = "UPDATE alert SET acknowledged = ?, acknowledged_by = ?, note = ?
                          WHERE number = ? AND ended IS NULL AND acknowledged IS NULL";
            Ok(sql.execute(update, params![at.0, by, note, number])? > 0)
        })
    }

    fn due_notices(&self, now: ServerTime, limit: usize) -> Result<Vec<NoticeRow>, CatalogError> {
        // All mails have the same way, and each webhook has its own.
        let select = format!(
            "{NOTICE} WHERE number IN (
               SELECT number FROM (
                 SELECT number, ROW_NUMBER() OVER (
                   PARTITION BY CASE channel WHEN 'webhook' THEN address END ORDER BY number
                 ) AS place
                 FROM notice WHERE sent IS NULL AND due <= ?
               ) AS waiting WHERE place <= ?
             ) ORDER BY number"
        );
        self.read(|sql| sql.all(&select, params![now.0, row_count(limit)], notice))
    }

    fn notices(&self, from: Option<u64>, limit: usize) -> Result<Vec<NoticeRow>, CatalogError> {
        let select = format!("{NOTICE} WHERE number <= ? ORDER BY number DESC LIMIT ?");
        self.read(|sql| sql.all(&select, params![row_number(from), row_count(limit)], notice))
    }

    fn note_delivery(
        &self,
        notice: u64,
        delivery: &Delivery,
        at: ServerTime,
    ) -> Result<(), CatalogError> {
        let delivery = delivery.clone();
        self.write(move |sql| {
            match &delivery {
                Delivery::Sent => {
                    let update = "UPDATE notice SET sent = ? WHERE number = ?";
                    sql.execute(update, params![at.0, notice])?;
                }
                Delivery::Failed { error, due } => {
                    let update = "UPDATE notice SET attempts = attempts + 1, error = ?, due = ?
                                  WHERE number = ?";
                    sql.execute(update, params![error, due.0, notice])?;
                }
            }
            Ok(())
        })
    }

    fn waiting_notices(&self) -> Result<(u64, Option<ServerTime>), CatalogError> {
        let select = "SELECT count(*), min(made) FROM notice WHERE sent IS NULL";
        let columns = |row: &Row<'_>| Ok((row.get(0)?, time(row, 1)?));
        self.read(|sql| sql.one(select, params![], columns))
    }

    fn forget_alerts(
        &self,
        ended_before: ServerTime,
        made_before: ServerTime,
    ) -> Result<Vec<NoticeRow>, CatalogError> {
        self.write(move |sql| {
            let old = format!("{NOTICE} WHERE sent IS NULL AND made < ? ORDER BY number");
            let lost = sql.all(&old, params![made_before.0], notice)?;
            sql.execute("DELETE FROM notice WHERE made < ?", params![made_before.0])?;
            sql.execute("DELETE FROM alert WHERE ended < ?", params![ended_before.0])?;
            Ok(lost)
        })
    }
}

const ALERT: &str = "SELECT number, kind, object, domain, node, is_urgent, text, opened, ended,
                       told, end_told, acknowledged, acknowledged_by, note FROM alert";
const NOTICE: &str = "SELECT number, channel, address, subject, body, made, due, attempts, error,
                        sent FROM notice";

/// Leaves the alerts of a domain that is gone to those who run the service: another domain gets its
/// number.
pub(super) fn forget_domain(sql: &dyn Sql, domain: DomainId) -> Result<(), CatalogError> {
    let update = "UPDATE alert SET domain = NULL WHERE domain = ?";
    sql.execute(update, params![domain.0]).map(drop)
}

fn list(
    sql: &dyn Sql,
    filter: &AlertFilter,
    from: Option<u64>,
    limit: usize,
) -> Result<Vec<AlertRow>, CatalogError> {
    let state = match filter.is_open {
        None => "",
        Some(true) => "AND ended IS NULL",
        Some(false) => "AND ended IS NOT NULL",
    };
    let (sight, mut values) = filter.seen.as_ref().map(seen).unwrap_or_default();
    values.push(Box::new(row_number(from)));
    values.push(Box::new(row_count(limit)));
    let select = format!("{ALERT} WHERE {sight} number <= ? {state} ORDER BY number DESC LIMIT ?");
    let values: Vec<&dyn ToValue> = values.iter().map(AsRef::as_ref).collect();
    let alerts: Vec<AlertRow> = sql.all(&select, &values, alert)?;
    assert!(alerts.len() <= limit, "the statement limits its rows");
    Ok(alerts)
}

/// Returns the condition of the alerts that a caller sees, with the word before the next condition,
/// and the values of its parameters.
fn seen(sight: &NodeSight) -> (String, Values) {
    let (nodes, mut values) = nodes_of(sight);
    let (places, domains) = domain_places(&sight.domains);
    let condition = format!(
        "(alert.node IN ({nodes})
          OR (alert.domain IN ({places})
              AND NOT EXISTS (SELECT 1 FROM node WHERE node.id = alert.node))) AND"
    );
    values.extend(domains);
    (condition, values)
}

fn time(row: &Row<'_>, column: usize) -> Result<Option<ServerTime>, CatalogError> {
    Ok(row.get::<Option<i64>>(column)?.map(ServerTime))
}

fn alert(row: &Row<'_>) -> Result<AlertRow, CatalogError> {
    Ok(AlertRow {
        number: row.get(0)?,
        kind: row.get(1)?,
        object: row.get(2)?,
        domain: row.get::<Option<u32>>(3)?.map(DomainId),
        node: row.get::<Option<u32>>(4)?.map(NodeId),
        is_urgent: row.get(5)?,
        text: row.get(6)?,
        opened: ServerTime(row.get(7)?),
        ended: time(row, 8)?,
        told: time(row, 9)?,
        end_told: time(row, 10)?,
        acknowledged: time(row, 11)?,
        acknowledged_by: row.get(12)?,
        note: row.get(13)?,
    })
}

fn notice(row: &Row<'_>) -> Result<NoticeRow, CatalogError> {
    Ok(NoticeRow {
        number: row.get(0)?,
        channel: row.get(1)?,
        address: row.get(2)?,
        subject: row.get(3)?,
        body: row.get(4)?,
        made: ServerTime(row.get(5)?),
        due: ServerTime(row.get(6)?),
        attempts: row.get(7)?,
        error: row.get(8)?,
        sent: time(row, 9)?,
    })
}

fn change(sql: &dyn Sql, changes: &AlertChanges) -> Result<(), CatalogError> {
    changes.opened.iter().try_for_each(|alert| open(sql, alert))?;
    let reword = "UPDATE alert SET text = ? WHERE number = ?";
    for (number, text) in &changes.reworded {
        sql.execute(reword, params![text, number])?;
    }
    let dated =
        [("ended", &changes.ended), ("told", &changes.told), ("end_told", &changes.ends_told)];
    for (column, numbers) in dated {
        let update = format!("UPDATE alert SET {column} = ? WHERE number = ? AND {column} IS NULL");
        for number in numbers {
            sql.execute(&update, params![changes.at.0, number])?;
        }
    }
    changes.notices.iter().try_for_each(|notice| add_notice(sql, notice))?;
    changes.marks.iter().try_for_each(|(name, value)| marks::set(sql, name, *value))
}

fn open(sql: &dyn Sql, alert: &AlertRow) -> Result<(), CatalogError> {
    let insert = "INSERT INTO alert(kind, object, domain, node, is_urgent, text, opened, ended,
                    told, end_told, acknowledged, acknowledged_by, note)
                  VALUES(?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL, NULL, '', '')";
    let AlertRow { kind, object, domain, node, is_urgent, text, opened, .. } = alert;
    let (domain, node) = (domain.map(|domain| domain.0), node.map(|node| node.0));
    let values = params![kind, object, domain, node, is_urgent, text, opened.0];
    sql.execute(insert, values).map(drop)
}

fn add_notice(sql: &dyn Sql, notice: &NoticeRow) -> Result<(), CatalogError> {
    let insert = "INSERT INTO notice(channel, address, subject, body, made, due, attempts, error,
                    sent) VALUES(?, ?, ?, ?, ?, ?, 0, '', NULL)";
    let NoticeRow { channel, address, subject, body, made, due, .. } = notice;
    let values = params![channel, address, subject, body, made.0, due.0];
    sql.execute(insert, values).map(drop)
}

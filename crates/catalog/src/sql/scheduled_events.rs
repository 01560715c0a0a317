//! Statements about the events of schedules. The next state of an event is policy's decision
//! (`policy::schedule::event`). The statements for many events at once follow the same rules.

use model::{NodeId, NodeName, ServerTime};
use policy::schedule::Occurrence;
use policy::schedule::event::{EventState, Phase, Progress};

use super::{Row, Sql, ToValue, Values, code, nodes_of, params, require, row_count, row_number};
use crate::{
    CatalogError, Control, EventFilter, EventKey, EventProgress, EventReport, ScheduledEvent,
};

/// Number of the server itself in the column of nodes. Nodes count from 1.
const SERVER: u32 = 0;

/// States of a node that works.
const RUNNING: [EventState; 3] =
    [EventState::Started, EventState::InProgress, EventState::Restarted];

/// Time in microseconds whose events are few enough to be collected before they are ordered: a
/// month of 10,000 nodes has 300,000.
const SHORT_MICROS: i64 = 31 * 86_400_000_000;

const EVENT: &str = "SELECT scheduled_event.id, schedule, planned, scheduled_event.node,
                       node.name, opens, closes, state, attempt, started, ended, code, reason,
                       report, control, watched, progress, paused, log
                     FROM scheduled_event LEFT JOIN node ON node.id = scheduled_event.node";

/// The column of a state.
fn state_code(state: EventState) -> usize {
    code(state, &EventState::ALL)
}

/// The column of a node.
fn node_number(node: Option<NodeId>) -> u32 {
    node.map_or(SERVER, |node| node.0)
}

/// Returns the node whose number is in the column of nodes; `None` for the server itself.
pub(super) fn node_of(number: u32) -> Option<NodeId> {
    Some(NodeId(number)).filter(|node| node.0 != SERVER)
}

/// Reads an event from a row of [`EVENT`].
fn event_columns(row: &Row<'_>) -> Result<ScheduledEvent, CatalogError> {
    let node: u32 = row.get(3)?;
    let name: Option<String> = row.get(4)?;
    let name = name.map(|name| {
        NodeName::new(&name)
            .map_err(|_| CatalogError::impossible(&format!("the name of node {node}")))
    });
    let key =
        EventKey { schedule: row.get(1)?, planned: ServerTime(row.get(2)?), node: node_of(node) };
    let time = |column| Ok::<_, CatalogError>(row.get::<Option<i64>>(column)?.map(ServerTime));
    Ok(ScheduledEvent {
        number: row.get(0)?,
        key,
        node_name: name.transpose()?,
        opens: ServerTime(row.get(5)?),
        closes: ServerTime(row.get(6)?),
        state: row.coded(7, &EventState::ALL)?,
        attempt: row.get(8)?,
        started: time(9)?,
        ended: time(10)?,
        code: row.get(11)?,
        reason: row.get(12)?,
        report: row.get(13)?,
        control: control_of(row.get(14)?)?,
        watched: ServerTime(row.get(15)?),
        progress: row.get(16)?,
        paused: time(17)?,
    })
}

/// Reads a wish from its column; 0 means none.
fn control_of(number: usize) -> Result<Option<Control>, CatalogError> {
    let Some(index) = number.checked_sub(1) else { return Ok(None) };
    let unknown = || CatalogError::Damaged(format!("an event has the unknown control {number}"));
    Control::ALL.get(index).copied().map(Some).ok_or_else(unknown)
}

pub(super) fn control(sql: &dyn Sql, key: &EventKey, control: Control) -> Result<(), CatalogError> {
    let update = "UPDATE scheduled_event SET control = ?
                  WHERE schedule = ? AND planned = ? AND node = ?";
    let number = code(control, &Control::ALL) + 1;
    let values = params![number, key.schedule, key.planned.0, node_number(key.node)];
    require(sql.execute(update, values)?, "the event")
}

pub(super) fn list(
    sql: &dyn Sql,
    filter: &EventFilter,
    from: Option<u64>,
    limit: usize,
) -> Result<Vec<ScheduledEvent>, CatalogError> {
    let (mut conditions, mut values) = conditions(filter);
    conditions.push("scheduled_event.id <= ?".to_owned());
    values.push(Box::new(row_number(from)));
    values.push(Box::new(row_count(limit)));
    let chosen = format!("SELECT id FROM scheduled_event WHERE {}", conditions.join(" AND "));
    // PostgreSQL does not know that ids grow with the planned time, and would look for the events
    // of a time from the newest one backwards. So they are found by their time before they are
    // ordered.
    let (with, chosen) = match has_short_time(filter) {
        true => (format!("WITH of_time AS MATERIALIZED ({chosen}) "), "SELECT id FROM of_time"),
        false => (String::new(), &chosen[..]),
    };
    // The events are chosen before their reports and the names of their nodes are read.
    let chosen = format!("{chosen} ORDER BY id DESC LIMIT ?");
    let select = format!(
        "{with}{EVENT} WHERE scheduled_event.id IN ({chosen}) ORDER BY scheduled_event.id DESC"
    );
    let values: Vec<&dyn ToValue> = values.iter().map(AsRef::as_ref).collect();
    let events: Vec<ScheduledEvent> = sql.all(&select, &values, event_columns)?;
    assert!(events.len() <= limit, "the statement limits its rows");
    Ok(events)
}

/// Returns the conditions of a selection of events, and the values of their parameters.
fn conditions(filter: &EventFilter) -> (Vec<String>, Values) {
    let (mut conditions, mut values) = (Vec::new(), Values::new());
    let mut add = |condition: &str, value: Box<dyn ToValue>| {
        conditions.push(condition.to_owned());
        values.push(value);
    };
    if let Some(node) = filter.node {
        add("scheduled_event.node = ?", Box::new(node.0));
    }
    if filter.is_of_server {
        add("scheduled_event.node = ?", Box::new(SERVER));
    }
    if filter.is_of_nodes {
        add("scheduled_event.node <> ?", Box::new(SERVER));
    }
    if let Some(schedule) = &filter.schedule {
        add("lower(schedule) = ?", Box::new(schedule.to_ascii_lowercase()));
    }
    if let Some(from) = filter.from {
        add("planned >= ?", Box::new(from.0));
    }
    if let Some(to) = filter.to {
        add("planned <= ?", Box::new(to.0));
    }
    if let Some(control) = filter.control {
        add("control = ?", Box::new(code(control, &Control::ALL) + 1));
    }
    if let Some(after) = filter.closes_after {
        add("closes > ?", Box::new(after.0));
    }
    if let Some(by) = filter.closes_by {
        add("closes <= ?", Box::new(by.0));
    }
    if let Some(label) = &filter.label {
        let condition = "scheduled_event.node IN (SELECT node FROM node_label WHERE label = ?)";
        add(condition, Box::new(label.clone()));
    }
    if let Some(domain) = filter.domain {
        let condition = "scheduled_event.node IN (SELECT id FROM node WHERE domain = ?)";
        add(condition, Box::new(domain.0));
    }
    if !filter.states.is_empty() {
        let codes: Vec<String> =
            filter.states.iter().map(|state| state_code(*state).to_string()).collect();
        conditions.push(format!("state IN ({})", codes.join(", ")));
    }
    if let Some(schedules) = &filter.schedules {
        // Each number of places makes another statement, which a connection keeps prepared.
        let places = schedules.len().next_power_of_two();
        conditions.push(match schedules.is_empty() {
            true => "1 = 0".to_owned(),
            false => format!("schedule IN ({})", vec!["?"; places].join(", ")),
        });
        let padding = schedules.last().into_iter().cycle();
        values.extend(schedules.iter().chain(padding).take(places).map(|name| boxed(name.clone())));
    }
    if let Some(sight) = &filter.seen {
        let (nodes, seen) = nodes_of(sight);
        conditions.push(format!("scheduled_event.node IN ({nodes})"));
        values.extend(seen);
    }
    if let Some(text) = &filter.text {
        let of_node =
            format!("scheduled_event.node IN (SELECT id FROM node WHERE {})", like("name"));
        let (schedule, reason) = (like("schedule"), like("reason"));
        conditions.push(format!("({schedule} OR {reason} OR {of_node})"));
        values.extend((0..3).map(|_| boxed(pattern(text))));
    }
    (conditions, values)
}

fn boxed(value: String) -> Box<dyn ToValue> {
    Box::new(value)
}

/// Returns the condition that a column contains what the [`pattern`] of a text matches.
fn like(column: &str) -> String {
    format!("lower({column}) LIKE ? ESCAPE '!'")
}

/// Returns the pattern of LIKE for everything with this text in it.
fn pattern(text: &str) -> String {
    let mut pattern = String::from("%");
    for letter in text.to_ascii_lowercase().chars() {
        if matches!(letter, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

/// Returns true if the planned times that are asked for span at most [`SHORT_MICROS`].
fn has_short_time(filter: &EventFilter) -> bool {
    let (Some(from), Some(to)) = (filter.from, filter.to) else { return false };
    to.0.saturating_sub(from.0) <= SHORT_MICROS
}

pub(super) fn find(
    sql: &dyn Sql,
    key: &EventKey,
) -> Result<Option<(ScheduledEvent, Vec<u8>)>, CatalogError> {
    let select = format!("{EVENT} WHERE schedule = ? AND planned = ? AND scheduled_event.node = ?");
    let values = params![key.schedule, key.planned.0, node_number(key.node)];
    sql.first(&select, values, |row| Ok((event_columns(row)?, row.get(18)?)))
}

pub(super) fn open(sql: &dyn Sql, events: &[(EventKey, Occurrence)]) -> Result<(), CatalogError> {
    events.iter().try_for_each(|(key, occurrence)| open_one(sql, key, *occurrence))
}

fn open_one(sql: &dyn Sql, key: &EventKey, occurrence: Occurrence) -> Result<(), CatalogError> {
    assert_eq!(key.planned, occurrence.planned, "an event is named by its planned time");
    let select = "SELECT 1 FROM scheduled_event WHERE schedule = ? AND planned = ? AND node = ?";
    // An insert that does nothing would use up a number all the same.
    if sql.exists(select, params![key.schedule, key.planned.0, node_number(key.node)])? {
        return Ok(());
    }
    let insert = "INSERT INTO scheduled_event(schedule, planned, node, opens, closes, state,
                    attempt, changed, reason, report, log)
                  VALUES(?1, ?2, ?3, ?4, ?5, ?6, 0, ?4, '', '', ?7)
                  ON CONFLICT(schedule, planned, node) DO NOTHING";
    let Progress { state, .. } = Progress::PENDING;
    let no_log: &[u8] = &[];
    let values = params![
        key.schedule,
        key.planned.0,
        node_number(key.node),
        occurrence.opens.0,
        occurrence.closes.0,
        state_code(state),
        no_log
    ];
    sql.execute(insert, values).map(drop)
}

pub(super) fn close(sql: &dyn Sql, now: ServerTime) -> Result<usize, CatalogError> {
    let missed = Progress::PENDING.at_close().state;
    let update =
        "UPDATE scheduled_event SET state = ?, changed = ? WHERE state = ? AND closes <= ?";
    let pending = state_code(EventState::Pending);
    sql.execute(update, params![state_code(missed), now.0, pending, now.0])
}

pub(super) fn explain(
    sql: &dyn Sql,
    state: EventState,
    reasons: &[(u64, String)],
) -> Result<(), CatalogError> {
    let update = "UPDATE scheduled_event SET reason = ? WHERE id = ? AND state = ?";
    let state = state_code(state);
    for (number, reason) in reasons {
        sql.execute(update, params![reason, number, state])?;
    }
    Ok(())
}

pub(super) fn report(sql: &dyn Sql, report: &EventReport) -> Result<(), CatalogError> {
    let EventReport { key, occurrence, at, .. } = report;
    if let Some(node) = key.node
        && !sql.exists("SELECT 1 FROM node WHERE id = ?", params![node.0])?
    {
        return Ok(());
    }
    open_one(sql, key, *occurrence)?;
    let known = find(sql, key)?.map(|(event, _)| event);
    let event =
        known.ok_or_else(|| CatalogError::Damaged("an event that was added is missing".into()))?;
    let before = Progress { state: event.state, attempt: event.attempt };
    let after = before.after(report.report);
    if after == before {
        // The time of the report shows that the node still works.
        let update =
            "UPDATE scheduled_event SET changed = ?, paused = ? WHERE id = ? AND changed < ?";
        let is_current = report.report.attempt == event.attempt && event.state.is_running();
        let is_news = is_current && report.is_under_way();
        let paused = if is_news { report.paused } else { event.paused };
        let values = params![at.0, paused.map(|time| time.0), event.number, at.0];
        return sql.execute(update, values).map(drop);
    }
    let is_further = after.attempt > before.attempt && before.attempt > 0;
    let started = match report.report.phase {
        Phase::Began => Some(*at),
        _ => None,
    };
    let started = event.started.or(report.began).or(started);
    let (ended, code) = match report.report.phase {
        Phase::Ended(code) => (Some(*at), Some(code)),
        Phase::Interrupted => (Some(*at), None),
        _ if is_further => (None, None),
        _ => (event.ended, event.code),
    };
    // The progress is of the attempt that works.
    let is_on = report.report.phase == Phase::Working && !is_further;
    let progress = if is_on { event.progress } else { String::new() };
    let paused = report.paused.filter(|_| report.is_under_way());
    let update = "UPDATE scheduled_event SET state = ?, attempt = ?, started = ?, ended = ?,
                    code = ?, reason = ?, report = ?, log = ?, changed = ?, progress = ?,
                    paused = ?
                  WHERE id = ?";
    let values = params![
        state_code(after.state),
        after.attempt,
        started.map(|time| time.0),
        ended.map(|time| time.0),
        code,
        report.reason,
        report.session,
        report.log,
        at.0,
        progress,
        paused.map(|time| time.0),
        event.number
    ];
    sql.execute(update, values).map(drop)
}

pub(super) fn watch(
    sql: &dyn Sql,
    keys: &[EventKey],
    until: ServerTime,
) -> Result<(), CatalogError> {
    for key in keys {
        let update = "UPDATE scheduled_event SET watched = ?
                      WHERE schedule = ? AND planned = ? AND node = ?";
        let node = node_number(key.node);
        sql.execute(update, params![until.0, key.schedule, key.planned.0, node])?;
    }
    Ok(())
}

pub(super) fn watched(sql: &dyn Sql, now: ServerTime) -> Result<Vec<EventKey>, CatalogError> {
    let states = RUNNING.map(|state| state_code(state).to_string()).join(", ");
    let select = format!(
        "SELECT schedule, planned, node FROM scheduled_event
         WHERE state IN ({states}) AND watched > ? AND node <> ?
         ORDER BY schedule, planned, node"
    );
    sql.all(&select, params![now.0, SERVER], |row: &Row<'_>| {
        let (schedule, planned) = (row.get(0)?, ServerTime(row.get(1)?));
        Ok(EventKey { schedule, planned, node: Some(NodeId(row.get(2)?)) })
    })
}

pub(super) fn put_progress(sql: &dyn Sql, all: &[EventProgress]) -> Result<(), CatalogError> {
    let states = RUNNING.map(|state| state_code(state).to_string()).join(", ");
    let update = format!(
        "UPDATE scheduled_event SET progress = ?
         WHERE schedule = ? AND planned = ? AND node = ? AND attempt = ? AND state IN ({states})"
    );
    for EventProgress { key, attempt, document } in all {
        let node = node_number(key.node);
        sql.execute(&update, params![document, key.schedule, key.planned.0, node, attempt])?;
    }
    Ok(())
}

pub(super) fn sever(sql: &dyn Sql, node: NodeId, now: ServerTime) -> Result<(), CatalogError> {
    for state in RUNNING {
        let severed = Progress { state, attempt: 1 }.severed().state;
        let update =
            "UPDATE scheduled_event SET state = ?, changed = ? WHERE node = ? AND state = ?";
        sql.execute(update, params![state_code(severed), now.0, node.0, state_code(state)])?;
    }
    Ok(())
}

pub(super) fn sever_silent(
    sql: &dyn Sql,
    before: ServerTime,
    now: ServerTime,
) -> Result<usize, CatalogError> {
    let mut count = 0;
    for state in RUNNING {
        let severed = Progress { state, attempt: 1 }.severed().state;
        let update = "UPDATE scheduled_event SET state = ?, changed = ?
                      WHERE node <> ? AND state = ? AND changed < ?";
        let values = params![state_code(severed), now.0, SERVER, state_code(state), before.0];
        count += sql.execute(update, values)?;
    }
    Ok(count)
}

pub(super) fn give_up(sql: &dyn Sql, before: ServerTime) -> Result<usize, CatalogError> {
    let severed = EventState::Severed;
    let uncertain = Progress { state: severed, attempt: 1 }.given_up().state;
    let update = "UPDATE scheduled_event SET state = ? WHERE state = ? AND changed < ?";
    sql.execute(update, params![state_code(uncertain), state_code(severed), before.0])
}

pub(super) fn withdraw(sql: &dyn Sql, after: ServerTime) -> Result<usize, CatalogError> {
    let delete = "DELETE FROM scheduled_event WHERE planned > ? AND attempt = 0";
    sql.execute(delete, params![after.0])
}

pub(super) fn forget(
    sql: &dyn Sql,
    before: ServerTime,
    logs_before: ServerTime,
) -> Result<(), CatalogError> {
    sql.execute("DELETE FROM scheduled_event WHERE planned < ?", params![before.0])?;
    let no_log: &[u8] = &[];
    let update = "UPDATE scheduled_event SET log = ?
                  WHERE planned < ? AND state = ? AND length(log) > 0";
    let completed = state_code(EventState::Completed);
    sql.execute(update, params![no_log, logs_before.0, completed]).map(drop)
}

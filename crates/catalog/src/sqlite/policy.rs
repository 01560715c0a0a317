//! Policy domains, option sets and events.

use model::{ClassId, DomainId, ServerTime};
use policy::{PolicyDomain, PolicySet};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::write::execute;
use super::{CatalogError, database};
use crate::{EventRow, OptionSet};

fn parse(body: &str) -> Result<PolicySet, CatalogError> {
    serde_json::from_str(body)
        .map_err(|error| CatalogError::Damaged(format!("a policy set is impossible: {error}")))
}

fn written(set: &PolicySet) -> Result<String, CatalogError> {
    serde_json::to_string(set).map_err(|error| CatalogError::Database(Box::new(error)))
}

const DOMAIN: &str = "SELECT id, name, active.body, draft.body FROM domain
    JOIN policy_set active ON active.domain = id AND active.state = 'active'
    LEFT JOIN policy_set draft ON draft.domain = id AND draft.state = 'draft'";

type DomainColumns = (u32, String, String, Option<String>);

fn domain_columns(row: &Row<'_>) -> rusqlite::Result<DomainColumns> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
}

fn domain((id, name, active, draft): DomainColumns) -> Result<PolicyDomain, CatalogError> {
    let draft = draft.as_deref().map(parse).transpose()?;
    Ok(PolicyDomain { id: DomainId(id), name, active: parse(&active)?, draft })
}

pub(super) fn domains(connection: &Connection) -> Result<Vec<PolicyDomain>, CatalogError> {
    let select = format!("{DOMAIN} ORDER BY name");
    let mut statement = connection.prepare_cached(&select).map_err(database)?;
    let rows = statement.query_map([], domain_columns).map_err(database)?;
    rows.map(|row| domain(row.map_err(database)?)).collect()
}

pub(super) fn add_domain(
    connection: &Connection,
    name: &str,
    now: ServerTime,
) -> Result<PolicyDomain, CatalogError> {
    let known = "SELECT 1 FROM domain WHERE name = ? COLLATE NOCASE";
    let is_known = connection.query_row(known, [name], |_| Ok(())).optional().map_err(database)?;
    if is_known.is_some() {
        return Err(CatalogError::Exists { what: "a domain of this name" });
    }
    let next = "SELECT coalesce(max(id), 0) + 1 FROM domain";
    let id: u32 = connection.query_row(next, [], |row| row.get(0)).map_err(database)?;
    execute(connection, "INSERT INTO domain VALUES(?, ?)", &[&id, &name])?;
    let id = DomainId(id);
    let class = class_number(connection, id, policy::STANDARD)?;
    let active = PolicySet::standard(class);
    put_set(connection, id, "active", &active, now)?;
    Ok(PolicyDomain { id, name: name.to_owned(), active, draft: None })
}

pub(super) fn remove_domain(connection: &Connection, domain: DomainId) -> Result<(), CatalogError> {
    let used = "SELECT 1 FROM node WHERE domain = ?";
    let is_used = connection
        .query_row(used, [domain.0], |_| Ok(()))
        .optional()
        .map_err(database)?;
    if is_used.is_some() {
        return Err(CatalogError::Exists { what: "a node in this domain" });
    }
    execute(connection, "DELETE FROM policy_set WHERE domain = ?", &[&domain.0])?;
    execute(connection, "DELETE FROM class_number WHERE domain = ?", &[&domain.0])?;
    found(execute(connection, "DELETE FROM domain WHERE id = ?", &[&domain.0])?, "the domain")
}

fn found(count: usize, what: &'static str) -> Result<(), CatalogError> {
    if count == 0 { Err(CatalogError::NotFound { what }) } else { Ok(()) }
}

pub(super) fn class_number(
    connection: &Connection,
    domain: DomainId,
    name: &str,
) -> Result<ClassId, CatalogError> {
    let insert = "INSERT INTO class_number(domain, name) VALUES(?, ?) ON CONFLICT DO NOTHING";
    execute(connection, insert, &[&domain.0, &name])?;
    let select = "SELECT id FROM class_number WHERE domain = ? AND name = ?";
    let number = connection.query_row(select, params![domain.0, name], |row| row.get(0));
    number.map(ClassId).map_err(database)
}

fn put_set(
    connection: &Connection,
    domain: DomainId,
    state: &str,
    set: &PolicySet,
    now: ServerTime,
) -> Result<(), CatalogError> {
    let put = "INSERT INTO policy_set VALUES(?, ?, ?, ?)
               ON CONFLICT DO UPDATE SET changed = excluded.changed, body = excluded.body";
    execute(connection, put, &[&domain.0, &state, &now.0, &written(set)?])?;
    Ok(())
}

pub(super) fn put_draft(
    connection: &Connection,
    domain: DomainId,
    draft: Option<&PolicySet>,
    now: ServerTime,
) -> Result<(), CatalogError> {
    match draft {
        Some(draft) => put_set(connection, domain, "draft", draft, now),
        None => {
            let delete = "DELETE FROM policy_set WHERE domain = ? AND state = 'draft'";
            execute(connection, delete, &[&domain.0]).map(drop)
        }
    }
}

pub(super) fn activate(
    connection: &Connection,
    domain: DomainId,
    set: &PolicySet,
    event: &EventRow,
) -> Result<(), CatalogError> {
    put_set(connection, domain, "active", set, event.time)?;
    put_draft(connection, domain, None, event.time)?;
    let all = "UPDATE filespace SET expired_to = NULL
               WHERE node IN (SELECT id FROM node WHERE domain = ?)";
    execute(connection, all, &[&domain.0])?;
    let all = "UPDATE archive SET due = NULL WHERE node IN (SELECT id FROM node WHERE domain = ?)";
    execute(connection, all, &[&domain.0])?;
    add_event(connection, event)
}

pub(super) fn option_sets(connection: &Connection) -> Result<Vec<OptionSet>, CatalogError> {
    let select = "SELECT name, body FROM option_set ORDER BY name";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let columns = |row: &Row<'_>| Ok(OptionSet { name: row.get(0)?, text: row.get(1)? });
    let rows = statement.query_map([], columns).map_err(database)?;
    rows.collect::<Result<_, _>>().map_err(database)
}

pub(super) fn put_option_set(connection: &Connection, set: &OptionSet) -> Result<(), CatalogError> {
    let put = "INSERT INTO option_set VALUES(?, ?)
               ON CONFLICT DO UPDATE SET body = excluded.body";
    execute(connection, put, &[&set.name, &set.text]).map(drop)
}

pub(super) fn remove_option_set(connection: &Connection, name: &str) -> Result<(), CatalogError> {
    execute(connection, "UPDATE node SET option_set = NULL WHERE option_set = ?", &[&name])?;
    let delete = "DELETE FROM option_set WHERE name = ?";
    found(execute(connection, delete, &[&name])?, "the option set")
}

pub(super) fn add_event(connection: &Connection, event: &EventRow) -> Result<(), CatalogError> {
    let insert = "INSERT INTO event(time, actor, what, details) VALUES(?, ?, ?, ?)";
    let EventRow { time, actor, what, details } = event;
    execute(connection, insert, &[&time.0, actor, what, details]).map(drop)
}

pub(super) fn events(
    connection: &Connection,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<(i64, EventRow)>, CatalogError> {
    let select = "SELECT id, time, actor, what, details FROM event WHERE id < ?
                  ORDER BY id DESC LIMIT ?";
    let mut statement = connection.prepare_cached(select).map_err(database)?;
    let columns = |row: &Row<'_>| {
        let (time, actor) = (ServerTime(row.get(1)?), row.get(2)?);
        let (what, details) = (row.get(3)?, row.get(4)?);
        Ok((row.get(0)?, EventRow { time, actor, what, details }))
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![before.unwrap_or(i64::MAX), limit], columns);
    rows.map_err(database)?.collect::<Result<_, _>>().map_err(database)
}

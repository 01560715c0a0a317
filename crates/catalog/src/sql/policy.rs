//! Policy domains, option sets and events.

use model::{ClassId, DomainId, ServerTime};
use policy::{PolicyDomain, PolicySet};

use super::{Row, Sql, params};
use crate::CatalogError;
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

fn domain_columns(row: &Row<'_>) -> Result<DomainColumns, CatalogError> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
}

fn domain((id, name, active, draft): DomainColumns) -> Result<PolicyDomain, CatalogError> {
    let draft = draft.as_deref().map(parse).transpose()?;
    Ok(PolicyDomain { id: DomainId(id), name, active: parse(&active)?, draft })
}

pub(crate) fn domains(sql: &dyn Sql) -> Result<Vec<PolicyDomain>, CatalogError> {
    let select = format!("{DOMAIN} ORDER BY name");
    sql.all(&select, &[], |row| domain(domain_columns(row)?))
}

pub(crate) fn add_domain(
    sql: &dyn Sql,
    name: &str,
    now: ServerTime,
) -> Result<PolicyDomain, CatalogError> {
    let known = "SELECT 1 FROM domain WHERE lower(name) = ?";
    if sql.exists(known, params![name.to_ascii_lowercase()])? {
        return Err(CatalogError::Exists { what: "a domain of this name" });
    }
    let next = "SELECT coalesce(max(id), 0) + 1 FROM domain";
    let id: u32 = sql.one(next, &[], |row| row.get(0))?;
    let insert = "INSERT INTO domain VALUES(?, ?)";
    sql.execute(insert, &[&id, &name])?;
    let id = DomainId(id);
    let class = class_number(sql, id, policy::STANDARD)?;
    let active = PolicySet::standard(class);
    put_set(sql, id, "active", &active, now)?;
    Ok(PolicyDomain { id, name: name.to_owned(), active, draft: None })
}

pub(crate) fn remove_domain(sql: &dyn Sql, domain: DomainId) -> Result<(), CatalogError> {
    let used = "SELECT 1 FROM node WHERE domain = ?";
    if sql.exists(used, params![domain.0])? {
        return Err(CatalogError::Exists { what: "a node in this domain" });
    }
    sql.execute("DELETE FROM policy_set WHERE domain = ?", &[&domain.0])?;
    sql.execute("DELETE FROM class_number WHERE domain = ?", &[&domain.0])?;
    let delete = "DELETE FROM domain WHERE id = ?";
    found(sql.execute(delete, &[&domain.0])?, "the domain")
}

fn found(count: usize, what: &'static str) -> Result<(), CatalogError> {
    if count == 0 { Err(CatalogError::NotFound { what }) } else { Ok(()) }
}

pub(crate) fn class_number(
    sql: &dyn Sql,
    domain: DomainId,
    name: &str,
) -> Result<ClassId, CatalogError> {
    let select = "SELECT id FROM class_number WHERE domain = ? AND lower(name) = ?";
    let lower = name.to_ascii_lowercase();
    if let Some(number) = sql.first(select, params![domain.0, lower], |row| row.get(0))? {
        return Ok(ClassId(number));
    }
    let insert = "INSERT INTO class_number(domain, name) VALUES(?, ?) RETURNING id";
    sql.one(insert, params![domain.0, name], |row| row.get(0)).map(ClassId)
}

fn put_set(
    sql: &dyn Sql,
    domain: DomainId,
    state: &str,
    set: &PolicySet,
    now: ServerTime,
) -> Result<(), CatalogError> {
    let put = "INSERT INTO policy_set VALUES(?, ?, ?, ?)
               ON CONFLICT(domain, state)
               DO UPDATE SET changed = excluded.changed, body = excluded.body";
    sql.execute(put, &[&domain.0, &state, &now.0, &written(set)?])?;
    Ok(())
}

pub(crate) fn put_draft(
    sql: &dyn Sql,
    domain: DomainId,
    draft: Option<&PolicySet>,
    now: ServerTime,
) -> Result<(), CatalogError> {
    match draft {
        Some(draft) => put_set(sql, domain, "draft", draft, now),
        None => {
            let delete = "DELETE FROM policy_set WHERE domain = ? AND state = 'draft'";
            sql.execute(delete, &[&domain.0]).map(drop)
        }
    }
}

pub(crate) fn activate(
    sql: &dyn Sql,
    domain: DomainId,
    set: &PolicySet,
    event: &EventRow,
) -> Result<(), CatalogError> {
    put_set(sql, domain, "active", set, event.time)?;
    put_draft(sql, domain, None, event.time)?;
    let all = "UPDATE filespace SET expired_to = NULL
               WHERE node IN (SELECT id FROM node WHERE domain = ?)";
    sql.execute(all, &[&domain.0])?;
    let all = "UPDATE archive SET due = NULL WHERE node IN (SELECT id FROM node WHERE domain = ?)";
    sql.execute(all, &[&domain.0])?;
    add_event(sql, event)
}

pub(crate) fn option_sets(sql: &dyn Sql) -> Result<Vec<OptionSet>, CatalogError> {
    let select = "SELECT name, body FROM option_set ORDER BY lower(name)";
    sql.all(select, &[], |row| Ok(OptionSet { name: row.get(0)?, text: row.get(1)? }))
}

pub(crate) fn put_option_set(sql: &dyn Sql, set: &OptionSet) -> Result<(), CatalogError> {
    let update = "UPDATE option_set SET body = ? WHERE lower(name) = ?";
    if sql.execute(update, params![set.text, set.name.to_ascii_lowercase()])? > 0 {
        return Ok(());
    }
    let insert = "INSERT INTO option_set VALUES(?, ?)";
    sql.execute(insert, params![set.name, set.text]).map(drop)
}

pub(crate) fn remove_option_set(sql: &dyn Sql, name: &str) -> Result<(), CatalogError> {
    let lower = name.to_ascii_lowercase();
    let update = "UPDATE node SET option_set = NULL WHERE lower(option_set) = ?";
    sql.execute(update, params![lower])?;
    let delete = "DELETE FROM option_set WHERE lower(name) = ?";
    found(sql.execute(delete, params![lower])?, "the option set")
}

pub(crate) fn add_event(sql: &dyn Sql, event: &EventRow) -> Result<(), CatalogError> {
    let insert = "INSERT INTO event(time, actor, what, details) VALUES(?, ?, ?, ?)";
    let EventRow { time, actor, what, details } = event;
    sql.execute(insert, &[&time.0, actor, what, details]).map(drop)
}

pub(crate) fn events(
    sql: &dyn Sql,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<(i64, EventRow)>, CatalogError> {
    let select = "SELECT id, time, actor, what, details FROM event WHERE id < ?
                  ORDER BY id DESC LIMIT ?";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    sql.all(select, params![before.unwrap_or(i64::MAX), limit], |row| {
        let (time, actor) = (ServerTime(row.get(1)?), row.get(2)?);
        let (what, details) = (row.get(3)?, row.get(4)?);
        Ok((row.get(0)?, EventRow { time, actor, what, details }))
    })
}

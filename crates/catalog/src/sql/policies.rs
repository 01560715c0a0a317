//! Statements about policy domains.

use model::{ClassId, DomainId, ServerTime};
use policy::{PolicyDomain, PolicySet};

use super::{Engine, Row, Sql, alerts, approvals, events, params, require, schedules, usage_days};
use crate::{CatalogError, EventRow, Follower, Policies};

/// Number of draws after which all numbers count as taken.
const DRAWS_MAX: u32 = 1_000;

impl<E: Engine> Policies for E {
    fn domains(&self) -> Result<Vec<PolicyDomain>, CatalogError> {
        self.read(domains)
    }

    fn add_domain(&self, name: &str, now: ServerTime) -> Result<PolicyDomain, CatalogError> {
        let name = name.to_owned();
        self.write(move |sql| add_domain(sql, &name, now))
    }

    fn remove_domain(&self, domain: DomainId) -> Result<(), CatalogError> {
        self.write(move |sql| remove_domain(sql, domain))
    }

    fn class_number(&self, domain: DomainId, name: &str) -> Result<ClassId, CatalogError> {
        let name = name.to_owned();
        self.write(move |sql| class_number(sql, domain, &name))
    }

    fn put_draft(
        &self,
        domain: DomainId,
        draft: Option<&PolicySet>,
        now: ServerTime,
    ) -> Result<(), CatalogError> {
        let draft = draft.cloned();
        self.write(move |sql| put_draft(sql, domain, draft.as_ref(), now))
    }

    fn activate(
        &self,
        domain: DomainId,
        set: &PolicySet,
        event: &EventRow,
    ) -> Result<(), CatalogError> {
        let (set, event) = (set.clone(), event.clone());
        self.write(move |sql| activate(sql, domain, &set, &event))
    }
}

const DOMAIN: &str = "SELECT id, name, active.body, draft.body FROM domain
    JOIN policy_set active ON active.domain = id AND active.state = 'active'
    LEFT JOIN policy_set draft ON draft.domain = id AND draft.state = 'draft'";

fn domain_columns(row: &Row<'_>) -> Result<PolicyDomain, CatalogError> {
    let (active, draft): (String, Option<String>) = (row.get(2)?, row.get(3)?);
    Ok(PolicyDomain {
        id: DomainId(row.get(0)?),
        name: row.get(1)?,
        active: parse(&active)?,
        draft: draft.as_deref().map(parse).transpose()?,
    })
}

pub(crate) fn domains(sql: &dyn Sql) -> Result<Vec<PolicyDomain>, CatalogError> {
    let select = format!("{DOMAIN} ORDER BY name");
    sql.all(&select, &[], domain_columns)
}

fn add_domain(sql: &dyn Sql, name: &str, now: ServerTime) -> Result<PolicyDomain, CatalogError> {
    let known = "SELECT 1 FROM domain WHERE lower(name) = ?";
    if sql.exists(known, params![name.to_ascii_lowercase()])? {
        return Err(CatalogError::Exists { what: "a domain of this name" });
    }
    let next = "SELECT coalesce(max(id), 0) + 1 FROM domain";
    let id: u32 = sql.one(next, &[], |row| row.get(0))?;
    // A domain before this one may have had the number.
    schedules::forget_domain(sql, DomainId(id))?;
    alerts::forget_domain(sql, DomainId(id))?;
    approvals::forget_domain(sql, DomainId(id), now)?;
    usage_days::forget_domain(sql, DomainId(id))?;
    let insert = "INSERT INTO domain VALUES(?, ?)";
    sql.execute(insert, &[&id, &name])?;
    let id = DomainId(id);
    let class = class_number(sql, id, policy::STANDARD)?;
    let active = PolicySet::standard(class);
    put_set(sql, id, "active", &active, now)?;
    Ok(PolicyDomain { id, name: name.to_owned(), active, draft: None })
}

fn remove_domain(sql: &dyn Sql, domain: DomainId) -> Result<(), CatalogError> {
    let used = "SELECT 1 FROM node WHERE domain = ?";
    if sql.exists(used, params![domain.0])? {
        return Err(CatalogError::Exists { what: "a node in this domain" });
    }
    schedules::end_associations(sql, &Follower::Domain(domain))?;
    schedules::forget_domain(sql, domain)?;
    approvals::forget_domain(sql, domain, sys::clock::now())?;
    sql.execute("DELETE FROM policy_set WHERE domain = ?", &[&domain.0])?;
    // Versions of nodes that were in the domain may have the numbers of its classes. So no class
    // gets one of these numbers again: the standard domain, which stays, has them under names that
    // no class can have.
    let keep = "UPDATE class_number SET domain = 1, name = '(removed) ' || CAST(id AS TEXT)
                WHERE domain = ?";
    sql.execute(keep, &[&domain.0])?;
    sql.execute("DELETE FROM domain_detail WHERE domain = ?", &[&domain.0])?;
    sql.execute("DELETE FROM person_role WHERE domain = ?", &[&domain.0])?;
    // Another domain may get the number. A key that was made for this one must not reach it: the
    // domains of a key are after its kind, as in `full@2,5`.
    let number = domain.0;
    let forms = [
        format!("%@{number}"),
        format!("%@{number},%"),
        format!("%,{number}"),
        format!("%,{number},%"),
    ];
    for form in forms {
        sql.execute("DELETE FROM api_key WHERE kind LIKE ?", params![form])?;
    }
    let delete = "DELETE FROM domain WHERE id = ?";
    require(sql.execute(delete, &[&domain.0])?, "the domain")
}

/// Returns the number of a class. The program of a node sees the numbers of the classes of its
/// domain. They must not tell how many classes others have, so each is drawn by chance.
fn class_number(sql: &dyn Sql, domain: DomainId, name: &str) -> Result<ClassId, CatalogError> {
    let select = "SELECT id FROM class_number WHERE domain = ? AND lower(name) = ?";
    let lower = name.to_ascii_lowercase();
    if let Some(number) = sql.first(select, params![domain.0, lower], |row| row.get(0))? {
        return Ok(ClassId(number));
    }
    let insert = "INSERT INTO class_number(id, domain, name) VALUES(?, ?, ?)
                  ON CONFLICT(id) DO NOTHING RETURNING id";
    for _ in 0..DRAWS_MAX {
        let drawn = u16::from_le_bytes(sys::entropy::bytes()).max(1);
        if let Some(number) = sql.first(insert, params![drawn, domain.0, name], |row| row.get(0))? {
            return Ok(ClassId(number));
        }
    }
    Err(CatalogError::Limit { what: "another class", limit: u64::from(u16::MAX) })
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
    sql.execute(put, &[&domain.0, &state, &now.0, &encode(set)?])?;
    Ok(())
}

fn put_draft(
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

fn activate(
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
    events::add(sql, event)
}

fn parse(body: &str) -> Result<PolicySet, CatalogError> {
    serde_json::from_str(body)
        .map_err(|error| CatalogError::Damaged(format!("a policy set cannot be parsed: {error}")))
}

fn encode(set: &PolicySet) -> Result<String, CatalogError> {
    serde_json::to_string(set).map_err(CatalogError::failed)
}

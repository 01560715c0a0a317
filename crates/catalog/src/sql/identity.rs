//! Nodes, tokens, certificates and filespaces.

use super::{Row, Sql, ToValue, params};
use crate::CatalogError;
use crate::{Certificate, Filespace, Node, NodeChange, TokenRow};
use model::{DomainId, FilespaceId, NodeId, NodeName, ServerTime};

const NODE: &str = "SELECT node.id, node.name, domain, domain.name, locked, registered,
                      option_set, deletes_backups, deletes_archives, collocation_group
                    FROM node JOIN domain ON domain.id = domain";

/// Reads a node off a row of [`NODE`]; the name is parsed by the caller.
fn node_columns(row: &Row<'_>) -> Result<(Option<NodeName>, Node), CatalogError> {
    let name: String = row.get(1)?;
    let parsed = NodeName::new(&name).ok();
    let placeholder = NodeName::new("unnamed").expect("a plain name");
    let node = Node {
        id: NodeId(row.get(0)?),
        name: parsed.clone().unwrap_or(placeholder),
        domain: DomainId(row.get(2)?),
        domain_name: row.get(3)?,
        locked: row.get(4)?,
        registered: ServerTime(row.get(5)?),
        option_set: row.get(6)?,
        deletes_backups: row.get(7)?,
        deletes_archives: row.get(8)?,
        collocation_group: row.get(9)?,
    };
    Ok((parsed, node))
}

fn parsed((name, node): (Option<NodeName>, Node)) -> Result<Node, CatalogError> {
    let damaged = || CatalogError::Damaged(format!("node {} has an impossible name", node.id));
    name.ok_or_else(damaged)?;
    Ok(node)
}

fn one_node(
    sql: &dyn Sql,
    condition: &str,
    parameter: impl ToValue,
    what: &'static str,
) -> Result<Node, CatalogError> {
    let found =
        sql.first(&format!("{NODE} WHERE {condition}"), params![parameter], node_columns)?;
    parsed(found.ok_or(CatalogError::NotFound { what })?)
}

pub(crate) fn add_node(
    sql: &dyn Sql,
    name: &NodeName,
    domain: &str,
    now: ServerTime,
) -> Result<Node, CatalogError> {
    let known = "SELECT id FROM domain WHERE name = ?";
    let domain: u32 = sql
        .first(known, params![domain], |row| row.get(0))?
        .ok_or(CatalogError::NotFound { what: "the policy domain" })?;
    let insert = "INSERT INTO node(name, domain, locked, registered) VALUES(?, ?, 0, ?)
                  ON CONFLICT(name) DO NOTHING";
    let values = params![name.as_str(), domain, now.0];
    inserted(sql.execute(insert, values)?, "a node of this name")?;
    node(sql, name)
}

pub(crate) fn nodes(sql: &dyn Sql) -> Result<Vec<Node>, CatalogError> {
    let select = format!("{NODE} ORDER BY node.name");
    sql.all(&select, &[], |row| parsed(node_columns(row)?))
}

pub(crate) fn node(sql: &dyn Sql, name: &NodeName) -> Result<Node, CatalogError> {
    one_node(sql, "node.name = ?", name.as_str(), "the node")
}

pub(crate) fn lock_node(sql: &dyn Sql, node: NodeId, locked: bool) -> Result<(), CatalogError> {
    let update = "UPDATE node SET locked = ? WHERE id = ?";
    found(sql.execute(update, params![locked, node.0])?)
}

pub(crate) fn rename_node(
    sql: &dyn Sql,
    node: NodeId,
    name: &NodeName,
) -> Result<(), CatalogError> {
    let taken = "SELECT 1 FROM node WHERE name = ? AND id <> ?";
    if sql.exists(taken, params![name.as_str(), node.0])? {
        return Err(CatalogError::Exists { what: "a node of this name" });
    }
    let update = "UPDATE node SET name = ? WHERE id = ?";
    found(sql.execute(update, params![name.as_str(), node.0])?)
}

pub(crate) fn change_node(
    sql: &dyn Sql,
    node: NodeId,
    change: &NodeChange,
) -> Result<(), CatalogError> {
    find_node(sql, node)?;
    let NodeChange { domain, option_set, deletes_backups, deletes_archives, .. } = change;
    let set = |column: &str, value: &dyn ToValue| {
        let update = format!("UPDATE node SET {column} = ? WHERE id = ?");
        sql.execute(&update, &[value, &node.0]).map(drop)
    };
    if let Some(domain) = domain {
        if !sql.exists("SELECT 1 FROM domain WHERE id = ?", params![domain.0])? {
            return Err(CatalogError::NotFound { what: "the policy domain" });
        }
        set("domain", &domain.0)?;
        let all = "UPDATE filespace SET expired_to = NULL WHERE node = ?";
        sql.execute(all, &[&node.0])?;
        sql.execute("UPDATE archive SET due = NULL WHERE node = ?", &[&node.0])?;
    }
    if let Some(option_set) = option_set {
        if let Some(name) = option_set {
            let known = "SELECT 1 FROM option_set WHERE lower(name) = ?";
            if !sql.exists(known, params![name.to_ascii_lowercase()])? {
                return Err(CatalogError::NotFound { what: "the option set" });
            }
        }
        set("option_set", option_set)?;
    }
    if let Some(deletes) = deletes_backups {
        set("deletes_backups", deletes)?;
    }
    if let Some(deletes) = deletes_archives {
        set("deletes_archives", deletes)?;
    }
    if let Some(group) = &change.collocation_group {
        set("collocation_group", group)?;
    }
    Ok(())
}

/// Fails when the node is gone: what was written for it would belong to nobody.
pub(crate) fn find_node(sql: &dyn Sql, node: NodeId) -> Result<(), CatalogError> {
    found(usize::from(sql.exists("SELECT 1 FROM node WHERE id = ?", params![node.0])?))
}

fn found(count: usize) -> Result<(), CatalogError> {
    if count == 0 { Err(CatalogError::NotFound { what: "the node" }) } else { Ok(()) }
}

/// Removes all that a filespace holds.
pub(crate) fn empty_filespace(sql: &dyn Sql, filespace: FilespaceId) -> Result<(), CatalogError> {
    let (low, high) = super::write::page_numbers(filespace);
    for table in ["directory", "version", "ending", "trash"] {
        let delete = format!("DELETE FROM {table} WHERE filespace = ?");
        sql.execute(&delete, params![filespace.0])?;
    }
    for table in ["page", "digest"] {
        let delete = format!("DELETE FROM {table} WHERE id >= ? AND id < ?");
        sql.execute(&delete, params![low, high])?;
    }
    Ok(())
}

pub(crate) fn remove_node(sql: &dyn Sql, node: NodeId) -> Result<(), CatalogError> {
    for filespace in filespaces(sql, node)? {
        empty_filespace(sql, filespace.id)?;
    }
    for table in ["filespace", "token", "certificate", "session", "archive", "deletion"] {
        let delete = format!("DELETE FROM {table} WHERE node = ?");
        sql.execute(&delete, params![node.0])?;
    }
    found(sql.execute("DELETE FROM node WHERE id = ?", params![node.0])?)
}

pub(crate) fn add_token(sql: &dyn Sql, token: &TokenRow) -> Result<(), CatalogError> {
    find_node(sql, token.node)?;
    let void = "UPDATE token SET state = 'replaced' WHERE node = ? AND state = 'new'";
    sql.execute(void, params![token.node.0])?;
    let insert = "INSERT INTO token VALUES(?, ?, ?, 'new') ON CONFLICT(hash) DO NOTHING";
    let values = params![token.hash.as_slice(), token.node.0, token.expires.0];
    inserted(sql.execute(insert, values)?, "this token")
}

/// Fails when an insert found its key taken.
fn inserted(count: usize, what: &'static str) -> Result<(), CatalogError> {
    if count == 0 { Err(CatalogError::Exists { what }) } else { Ok(()) }
}

pub(crate) fn token_node(
    sql: &dyn Sql,
    hash: &[u8; 32],
    now: ServerTime,
) -> Result<Node, CatalogError> {
    let select = "SELECT node, expires, state FROM token WHERE hash = ?";
    let columns = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let found = sql.first(select, params![hash], columns)?;
    let (node, expires, state): (u32, i64, String) =
        found.ok_or(CatalogError::Token("not one that this server gave"))?;
    match state.as_str() {
        "new" if expires > now.0 => one_node(sql, "node.id = ?", node, "the token's node"),
        "new" => Err(CatalogError::Token("expired")),
        "used" => Err(CatalogError::Token("used already")),
        _ => Err(CatalogError::Token("replaced by a newer one")),
    }
}

pub(crate) fn use_token(sql: &dyn Sql, hash: &[u8; 32]) -> Result<(), CatalogError> {
    let update = "UPDATE token SET state = 'used' WHERE hash = ?";
    sql.execute(update, params![hash.as_slice()])?;
    Ok(())
}

pub(crate) fn add_certificate(
    sql: &dyn Sql,
    certificate: &Certificate,
) -> Result<(), CatalogError> {
    find_node(sql, certificate.node)?;
    let values = params![certificate.serial, certificate.node.0, certificate.expires.0];
    let insert = "INSERT INTO certificate VALUES(?, ?, ?) ON CONFLICT(serial) DO NOTHING";
    inserted(sql.execute(insert, values)?, "this certificate")
}

pub(crate) fn certificate_node(sql: &dyn Sql, serial: &[u8]) -> Result<Node, CatalogError> {
    let condition = "node.id = (SELECT node FROM certificate WHERE serial = ?)";
    one_node(sql, condition, serial, "the node of this certificate")
}

pub(crate) fn is_enrolled(sql: &dyn Sql, node: NodeId) -> Result<bool, CatalogError> {
    let select = "SELECT 1 FROM certificate WHERE node = ?";
    sql.exists(select, params![node.0])
}

const FILESPACE: &str = "SELECT id, node, name, last_backup FROM filespace";

fn filespace_columns(row: &Row<'_>) -> Result<Filespace, CatalogError> {
    Ok(Filespace {
        id: FilespaceId(row.get(0)?),
        node: NodeId(row.get(1)?),
        name: row.get(2)?,
        last_backup: row.get::<Option<i64>>(3)?.map(ServerTime),
    })
}

pub(crate) fn filespaces(sql: &dyn Sql, node: NodeId) -> Result<Vec<Filespace>, CatalogError> {
    let select = format!("{FILESPACE} WHERE node = ? ORDER BY name");
    sql.all(&select, params![node.0], filespace_columns)
}

pub(crate) fn open_filespace(
    sql: &dyn Sql,
    node: NodeId,
    name: &[u8],
    now: ServerTime,
) -> Result<Filespace, CatalogError> {
    let domain = "SELECT domain FROM node WHERE id = ?";
    let domain: Option<i64> = sql.first(domain, params![node.0], |row| row.get(0))?;
    let domain = domain.ok_or(CatalogError::NotFound { what: "the node" })?;
    let select = format!("{FILESPACE} WHERE node = ? AND name = ?");
    if let Some(known) = sql.first(&select, params![node.0, name], filespace_columns)? {
        return Ok(known);
    }
    match sql.next_filespace(domain)? {
        None => {
            let insert = "INSERT INTO filespace(node, name, registered) VALUES(?, ?, ?)";
            sql.execute(insert, params![node.0, name, now.0])?;
        }
        Some(number) => {
            let insert = "INSERT INTO filespace(id, node, name, registered) VALUES(?, ?, ?, ?)";
            sql.execute(insert, params![number, node.0, name, now.0])?;
        }
    }
    sql.one(&select, params![node.0, name], filespace_columns)
}

//! Nodes, tokens, certificates and filespaces.

use model::{DomainId, FilespaceId, NodeId, NodeName, ServerTime};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::write::execute;
use super::{CatalogError, database};
use crate::{Certificate, Filespace, Node, NodeChange, TokenRow};

const NODE: &str = "SELECT node.id, node.name, domain, domain.name, locked, registered,
                      option_set, deletes_backups, deletes_archives, collocation_group
                    FROM node JOIN domain ON domain.id = domain";

/// Reads a node off a row of [`NODE`]; the name is parsed by the caller.
fn node_columns(row: &Row<'_>) -> rusqlite::Result<(Option<NodeName>, Node)> {
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
    connection: &Connection,
    condition: &str,
    parameter: impl rusqlite::ToSql,
    what: &'static str,
) -> Result<Node, CatalogError> {
    let mut statement = connection
        .prepare_cached(&format!("{NODE} WHERE {condition}"))
        .map_err(database)?;
    let found = statement.query_row([parameter], node_columns).optional().map_err(database)?;
    parsed(found.ok_or(CatalogError::NotFound { what })?)
}

pub(super) fn add_node(
    connection: &Connection,
    name: &NodeName,
    domain: &str,
    now: ServerTime,
) -> Result<Node, CatalogError> {
    let domain: u32 = connection
        .query_row("SELECT id FROM domain WHERE name = ?", [domain], |row| row.get(0))
        .optional()
        .map_err(database)?
        .ok_or(CatalogError::NotFound { what: "the policy domain" })?;
    let insert = "INSERT INTO node(name, domain, locked, registered) VALUES(?, ?, 0, ?)
                  ON CONFLICT DO NOTHING";
    let values = params![name.as_str(), domain, now.0];
    inserted(connection.execute(insert, values).map_err(database)?, "a node of this name")?;
    node(connection, name)
}

pub(super) fn nodes(connection: &Connection) -> Result<Vec<Node>, CatalogError> {
    let mut statement = connection
        .prepare_cached(&format!("{NODE} ORDER BY node.name"))
        .map_err(database)?;
    let rows = statement.query_map([], node_columns).map_err(database)?;
    rows.map(|row| parsed(row.map_err(database)?)).collect()
}

pub(super) fn node(connection: &Connection, name: &NodeName) -> Result<Node, CatalogError> {
    one_node(connection, "node.name = ?", name.as_str(), "the node")
}

pub(super) fn lock_node(
    connection: &Connection,
    node: NodeId,
    locked: bool,
) -> Result<(), CatalogError> {
    let update = "UPDATE node SET locked = ? WHERE id = ?";
    found(connection.execute(update, params![locked, node.0]).map_err(database)?)
}

pub(super) fn rename_node(
    connection: &Connection,
    node: NodeId,
    name: &NodeName,
) -> Result<(), CatalogError> {
    let taken = "SELECT 1 FROM node WHERE name = ? AND id <> ?";
    let is_taken = connection
        .query_row(taken, params![name.as_str(), node.0], |_| Ok(()))
        .optional()
        .map_err(database)?;
    if is_taken.is_some() {
        return Err(CatalogError::Exists { what: "a node of this name" });
    }
    let update = "UPDATE node SET name = ? WHERE id = ?";
    found(connection.execute(update, params![name.as_str(), node.0]).map_err(database)?)
}

pub(super) fn change_node(
    connection: &Connection,
    node: NodeId,
    change: &NodeChange,
) -> Result<(), CatalogError> {
    find_node(connection, node)?;
    let NodeChange { domain, option_set, deletes_backups, deletes_archives, .. } = change;
    let set = |column: &str, value: &dyn rusqlite::ToSql| {
        let update = format!("UPDATE node SET {column} = ? WHERE id = ?");
        execute(connection, &update, &[value, &node.0]).map(drop)
    };
    if let Some(domain) = domain {
        let known = "SELECT 1 FROM domain WHERE id = ?";
        let known = connection.query_row(known, [domain.0], |_| Ok(())).optional();
        known
            .map_err(database)?
            .ok_or(CatalogError::NotFound { what: "the policy domain" })?;
        set("domain", &domain.0)?;
        let all = "UPDATE filespace SET expired_to = NULL WHERE node = ?";
        execute(connection, all, &[&node.0])?;
        execute(connection, "UPDATE archive SET due = NULL WHERE node = ?", &[&node.0])?;
    }
    if let Some(option_set) = option_set {
        if let Some(name) = option_set {
            let known = "SELECT 1 FROM option_set WHERE name = ?";
            let known = connection.query_row(known, [name], |_| Ok(())).optional();
            known
                .map_err(database)?
                .ok_or(CatalogError::NotFound { what: "the option set" })?;
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
pub(super) fn find_node(connection: &Connection, node: NodeId) -> Result<(), CatalogError> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM node WHERE id = ?").map_err(database)?;
    found(usize::from(statement.exists([node.0]).map_err(database)?))
}

fn found(count: usize) -> Result<(), CatalogError> {
    if count == 0 { Err(CatalogError::NotFound { what: "the node" }) } else { Ok(()) }
}

/// Removes all that a filespace holds.
pub(super) fn empty_filespace(
    connection: &Connection,
    filespace: FilespaceId,
) -> Result<(), CatalogError> {
    let (low, high) = super::write::page_numbers(filespace);
    for table in ["directory", "version", "ending", "trash"] {
        let delete = format!("DELETE FROM {table} WHERE filespace = ?");
        connection.execute(&delete, [filespace.0]).map_err(database)?;
    }
    for table in ["page", "digest"] {
        let delete = format!("DELETE FROM {table} WHERE id >= ? AND id < ?");
        connection.execute(&delete, [low, high]).map_err(database)?;
    }
    Ok(())
}

pub(super) fn remove_node(connection: &Connection, node: NodeId) -> Result<(), CatalogError> {
    for filespace in filespaces(connection, node)? {
        empty_filespace(connection, filespace.id)?;
    }
    for table in ["filespace", "token", "certificate", "session", "archive", "deletion"] {
        let delete = format!("DELETE FROM {table} WHERE node = ?");
        connection.execute(&delete, [node.0]).map_err(database)?;
    }
    found(
        connection
            .execute("DELETE FROM node WHERE id = ?", [node.0])
            .map_err(database)?,
    )
}

pub(super) fn add_token(connection: &Connection, token: &TokenRow) -> Result<(), CatalogError> {
    find_node(connection, token.node)?;
    let void = "UPDATE token SET state = 'replaced' WHERE node = ? AND state = 'new'";
    connection.execute(void, [token.node.0]).map_err(database)?;
    let insert = "INSERT INTO token VALUES(?, ?, ?, 'new') ON CONFLICT DO NOTHING";
    let values = params![token.hash.as_slice(), token.node.0, token.expires.0];
    inserted(connection.execute(insert, values).map_err(database)?, "this token")
}

/// Fails when an insert found its key taken.
fn inserted(count: usize, what: &'static str) -> Result<(), CatalogError> {
    if count == 0 { Err(CatalogError::Exists { what }) } else { Ok(()) }
}

pub(super) fn token_node(
    connection: &Connection,
    hash: &[u8; 32],
    now: ServerTime,
) -> Result<Node, CatalogError> {
    let select = "SELECT node, expires, state FROM token WHERE hash = ?";
    let columns = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let found = connection.query_row(select, [hash.as_slice()], columns).optional();
    let (node, expires, state): (u32, i64, String) = found
        .map_err(database)?
        .ok_or(CatalogError::Token("not one that this server gave"))?;
    match state.as_str() {
        "new" if expires > now.0 => one_node(connection, "node.id = ?", node, "the token's node"),
        "new" => Err(CatalogError::Token("expired")),
        "used" => Err(CatalogError::Token("used already")),
        _ => Err(CatalogError::Token("replaced by a newer one")),
    }
}

pub(super) fn use_token(connection: &Connection, hash: &[u8; 32]) -> Result<(), CatalogError> {
    let update = "UPDATE token SET state = 'used' WHERE hash = ?";
    connection.execute(update, [hash.as_slice()]).map_err(database)?;
    Ok(())
}

pub(super) fn add_certificate(
    connection: &Connection,
    certificate: &Certificate,
) -> Result<(), CatalogError> {
    find_node(connection, certificate.node)?;
    let values = params![certificate.serial, certificate.node.0, certificate.expires.0];
    let insert = "INSERT INTO certificate VALUES(?, ?, ?) ON CONFLICT DO NOTHING";
    inserted(connection.execute(insert, values).map_err(database)?, "this certificate")
}

pub(super) fn certificate_node(
    connection: &Connection,
    serial: &[u8],
) -> Result<Node, CatalogError> {
    let condition = "node.id = (SELECT node FROM certificate WHERE serial = ?)";
    one_node(connection, condition, serial, "the node of this certificate")
}

pub(super) fn is_enrolled(connection: &Connection, node: NodeId) -> Result<bool, CatalogError> {
    let select = "SELECT 1 FROM certificate WHERE node = ?";
    let found = connection.query_row(select, [node.0], |_| Ok(())).optional();
    Ok(found.map_err(database)?.is_some())
}

const FILESPACE: &str = "SELECT id, node, name, last_backup FROM filespace";

fn filespace_columns(row: &Row<'_>) -> rusqlite::Result<Filespace> {
    Ok(Filespace {
        id: FilespaceId(row.get(0)?),
        node: NodeId(row.get(1)?),
        name: row.get(2)?,
        last_backup: row.get::<_, Option<i64>>(3)?.map(ServerTime),
    })
}

pub(super) fn filespaces(
    connection: &Connection,
    node: NodeId,
) -> Result<Vec<Filespace>, CatalogError> {
    let select = format!("{FILESPACE} WHERE node = ? ORDER BY name");
    let mut statement = connection.prepare_cached(&select).map_err(database)?;
    let rows = statement.query_map([node.0], filespace_columns).map_err(database)?;
    rows.collect::<Result<_, _>>().map_err(database)
}

pub(super) fn open_filespace(
    connection: &Connection,
    node: NodeId,
    name: &[u8],
    now: ServerTime,
) -> Result<Filespace, CatalogError> {
    find_node(connection, node)?;
    let insert = "INSERT INTO filespace(node, name, registered) VALUES(?, ?, ?)
                  ON CONFLICT DO NOTHING";
    connection.execute(insert, params![node.0, name, now.0]).map_err(database)?;
    let select = format!("{FILESPACE} WHERE node = ? AND name = ?");
    connection
        .query_row(&select, params![node.0, name], filespace_columns)
        .map_err(database)
}

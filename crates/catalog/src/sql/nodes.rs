//! Statements about nodes.

use model::{DomainId, NodeId, NodeName, ServerTime};

use super::{
    Engine, Row, Sql, ToValue, filespaces, params, require, require_new, row_count, schedules,
};
use crate::{CatalogError, Locker, Locks, Node, NodeChange, Nodes};

impl<E: Engine> Nodes for E {
    fn add_node(
        &self,
        name: &NodeName,
        domain: &str,
        now: ServerTime,
    ) -> Result<Node, CatalogError> {
        let (name, domain) = (name.clone(), domain.to_owned());
        self.write(move |sql| add_node(sql, &name, &domain, now))
    }

    fn nodes(&self) -> Result<Vec<Node>, CatalogError> {
        self.read(nodes)
    }

    fn nodes_from(&self, from: &str, limit: usize) -> Result<Vec<Node>, CatalogError> {
        self.read(|sql| nodes_from(sql, from, limit))
    }

    fn node(&self, name: &NodeName) -> Result<Node, CatalogError> {
        self.read(|sql| node(sql, name))
    }

    fn node_in_any_case(&self, name: &NodeName) -> Result<Node, CatalogError> {
        self.read(|sql| node_in_any_case(sql, name))
    }

    fn lock_node(&self, node: NodeId, by: Locker, locked: bool) -> Result<(), CatalogError> {
        self.write(move |sql| lock_node(sql, node, by, locked))
    }

    fn rename_node(&self, node: NodeId, name: &NodeName) -> Result<(), CatalogError> {
        let name = name.clone();
        self.write(move |sql| rename_node(sql, node, &name))
    }

    fn change_node(&self, node: NodeId, change: &NodeChange) -> Result<(), CatalogError> {
        let change = change.clone();
        self.write(move |sql| change_node(sql, node, &change))
    }

    fn remove_node(&self, node: NodeId) -> Result<(), CatalogError> {
        self.write(move |sql| remove_node(sql, node))
    }
}

const NODE: &str = "SELECT node.id, node.name, domain, domain.name, locked, registered,
                      option_set, deletes_backups, deletes_archives, collocation_group,
                      domain_since
                    FROM node JOIN domain ON domain.id = domain";

/// Reads a node from a row of [`NODE`].
fn node_columns(row: &Row<'_>) -> Result<Node, CatalogError> {
    let (id, name): (u32, String) = (row.get(0)?, row.get(1)?);
    let locks: u8 = row.get(4)?;
    let name = NodeName::new(&name)
        .map_err(|_| CatalogError::impossible(&format!("the name of node {id}")))?;
    Ok(Node {
        id: NodeId(id),
        name,
        domain: DomainId(row.get(2)?),
        domain_name: row.get(3)?,
        locks: Locks {
            by_service: locks & lock_bit(Locker::Service) != 0,
            by_owner: locks & lock_bit(Locker::Owner) != 0,
        },
        registered: ServerTime(row.get(5)?),
        option_set: row.get(6)?,
        deletes_backups: row.get(7)?,
        deletes_archives: row.get(8)?,
        collocation_group: row.get(9)?,
        domain_since: ServerTime(row.get(10)?),
    })
}

/// Returns the node for which `condition` holds. Fails with `NotFound` of `what`.
pub(super) fn one_node(
    sql: &dyn Sql,
    condition: &str,
    values: &[&dyn ToValue],
    what: &'static str,
) -> Result<Node, CatalogError> {
    let select = format!("{NODE} WHERE {condition}");
    sql.first(&select, values, node_columns)?.ok_or(CatalogError::NotFound { what })
}

pub(super) fn add_node(
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
    require_new(sql.execute(insert, values)?, "a node of this name")?;
    check_room(sql, domain)?;
    node(sql, name)
}

/// Fails with `Limit` if the domain has more nodes than it may. Others that give nodes to the
/// domain wait until this batch has ended.
fn check_room(sql: &dyn Sql, domain: u32) -> Result<(), CatalogError> {
    let lock = "UPDATE domain_detail SET nodes_max = nodes_max
                WHERE domain = ? AND nodes_max IS NOT NULL";
    if sql.execute(lock, params![domain])? == 0 {
        return Ok(());
    }
    let select = "SELECT nodes_max FROM domain_detail WHERE domain = ?";
    let limit: u64 = sql.one(select, params![domain], |row| row.get(0))?;
    let count = "SELECT count(*) FROM node WHERE domain = ?";
    let nodes: u64 = sql.one(count, params![domain], |row| row.get(0))?;
    if nodes <= limit {
        return Ok(());
    }
    Err(CatalogError::Limit { what: "another node in the domain", limit })
}

pub(crate) fn nodes(sql: &dyn Sql) -> Result<Vec<Node>, CatalogError> {
    nodes_from(sql, "", usize::MAX)
}

fn nodes_from(sql: &dyn Sql, from: &str, limit: usize) -> Result<Vec<Node>, CatalogError> {
    let select = format!("{NODE} WHERE node.name >= ? ORDER BY node.name LIMIT ?");
    let nodes: Vec<Node> = sql.all(&select, params![from, row_count(limit)], node_columns)?;
    assert!(nodes.len() <= limit, "the statement limits its rows");
    Ok(nodes)
}

pub(super) fn node(sql: &dyn Sql, name: &NodeName) -> Result<Node, CatalogError> {
    one_node(sql, "node.name = ?", params![name.as_str()], "the node")
}

fn node_in_any_case(sql: &dyn Sql, name: &NodeName) -> Result<Node, CatalogError> {
    match node(sql, name) {
        Err(CatalogError::NotFound { .. }) => {}
        found => return found,
    }
    let select = format!("{NODE} WHERE lower(node.name) = ? LIMIT 2");
    let lower = name.as_str().to_ascii_lowercase();
    let mut found: Vec<Node> = sql.all(&select, params![lower], node_columns)?;
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => Err(CatalogError::NotFound { what: "the node" }),
    }
}

/// Returns the bit for a locker in the column `locked`.
fn lock_bit(by: Locker) -> u8 {
    match by {
        Locker::Service => 1,
        Locker::Owner => 2,
    }
}

pub(super) fn lock_node(
    sql: &dyn Sql,
    node: NodeId,
    by: Locker,
    locked: bool,
) -> Result<(), CatalogError> {
    let (bit, other) = match by {
        Locker::Service => (lock_bit(by), lock_bit(Locker::Owner)),
        Locker::Owner => (lock_bit(by), lock_bit(Locker::Service)),
    };
    let update = "UPDATE node SET locked = (locked & ?) + ? WHERE id = ?";
    let own = if locked { bit } else { 0 };
    require(sql.execute(update, params![other, own, node.0])?, "the node")
}

pub(super) fn rename_node(
    sql: &dyn Sql,
    node: NodeId,
    name: &NodeName,
) -> Result<(), CatalogError> {
    let taken = "SELECT 1 FROM node WHERE name = ? AND id <> ?";
    if sql.exists(taken, params![name.as_str(), node.0])? {
        return Err(CatalogError::Exists { what: "a node of this name" });
    }
    rename_reader(sql, node, name)?;
    let update = "UPDATE node SET name = ? WHERE id = ?";
    require(sql.execute(update, params![name.as_str(), node.0])?, "the node")
}

pub(super) fn change_node(
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
        let join = "UPDATE node SET domain = ?, domain_since = ? WHERE id = ? AND domain <> ?";
        let moved = change.moved.map_or(0, |moved| moved.0);
        if sql.execute(join, params![domain.0, moved, node.0, domain.0])? > 0 {
            check_room(sql, domain.0)?;
        }
        let all = "UPDATE filespace SET expired_to = NULL WHERE node = ?";
        sql.execute(all, &[&node.0])?;
        sql.execute("UPDATE archive SET due = NULL WHERE node = ?", &[&node.0])?;
    }
    if let Some(option_set) = option_set {
        if let Some(name) = option_set {
            find_option_set(sql, name)?;
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

/// Fails with `NotFound` if there is no such option set.
pub(super) fn find_option_set(sql: &dyn Sql, name: &str) -> Result<(), CatalogError> {
    let known = "SELECT 1 FROM option_set WHERE lower(name) = ?";
    let is_known = sql.exists(known, params![name.to_ascii_lowercase()])?;
    require(usize::from(is_known), "the option set")
}

/// Fails with `NotFound` if the node is gone: a row that names it would belong to nobody.
pub(super) fn find_node(sql: &dyn Sql, node: NodeId) -> Result<(), CatalogError> {
    let is_known = sql.exists("SELECT 1 FROM node WHERE id = ?", params![node.0])?;
    require(usize::from(is_known), "the node")
}

fn remove_node(sql: &dyn Sql, node: NodeId) -> Result<(), CatalogError> {
    for filespace in filespaces::of_node(sql, node)? {
        filespaces::empty(sql, filespace.id)?;
    }
    for table in [
        "filespace",
        "token",
        "certificate",
        "session",
        "baseline",
        "drill",
        "archive",
        "deletion",
        "node_detail",
        "node_contact",
        "node_poll",
        "read_rule",
        "archived",
        "restored",
    ] {
        let delete = format!("DELETE FROM {table} WHERE node = ?");
        sql.execute(&delete, params![node.0])?;
    }
    schedules::forget_node(sql, node)?;
    forget_reader(sql, node)?;
    require(sql.execute("DELETE FROM node WHERE id = ?", params![node.0])?, "the node")
}

/// Gives the rules for a node its new name: a new node of its old name is another node.
fn rename_reader(sql: &dyn Sql, node: NodeId, name: &NodeName) -> Result<(), CatalogError> {
    let keeps_name = "SELECT 1 FROM node WHERE id = ? AND name = ?";
    if sql.exists(keeps_name, params![node.0, name.as_str()])? {
        return Ok(());
    }
    let insert = "INSERT INTO read_rule(node, reader, archives, path, since)
                  SELECT node, CAST(? AS TEXT), archives, path, since FROM read_rule";
    let insert =
        format!("{insert} WHERE {FOR_NODE} ON CONFLICT(node, reader, archives, path) DO NOTHING");
    sql.execute(&insert, params![name.as_str(), node.0, node.0])?;
    let delete = format!("DELETE FROM read_rule WHERE {FOR_NODE} AND reader <> ?");
    sql.execute(&delete, params![node.0, node.0, name.as_str()]).map(drop)
}

/// Condition on the rules for a node, whose number it takes twice: those with its name, and those
/// with its name in another case that is no other node's name.
const FOR_NODE: &str = "lower(reader) = (SELECT lower(name) FROM node WHERE id = ?)
                        AND NOT EXISTS (SELECT 1 FROM node
                                        WHERE name = read_rule.reader AND id <> ?)";

/// Removes the rules for a node that is removed: a new node of its name is another node.
fn forget_reader(sql: &dyn Sql, node: NodeId) -> Result<(), CatalogError> {
    let delete = format!("DELETE FROM read_rule WHERE {FOR_NODE}");
    sql.execute(&delete, params![node.0, node.0]).map(drop)
}

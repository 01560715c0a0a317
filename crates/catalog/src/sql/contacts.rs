//! Statements about last contacts of nodes, and the last polls of their agents.

use model::{NodeId, ServerTime};

use super::{Engine, Row, Sql, params};
use crate::{CatalogError, ContactRow, Contacts, PollRow};

impl<E: Engine> Contacts for E {
    fn put_contacts(&self, contacts: &[ContactRow]) -> Result<(), CatalogError> {
        let contacts = contacts.to_vec();
        self.write(move |sql| contacts.iter().try_for_each(|contact| put(sql, contact)))
    }

    fn contact(&self, node: NodeId) -> Result<Option<ContactRow>, CatalogError> {
        let select = "SELECT node, seen, address, host FROM node_contact WHERE node = ?";
        self.read(|sql| sql.first(select, params![node.0], columns))
    }

    fn put_polls(&self, polls: &[PollRow]) -> Result<(), CatalogError> {
        let polls = polls.to_vec();
        self.write(move |sql| polls.iter().try_for_each(|poll| put_poll(sql, poll)))
    }

    fn poll(&self, node: NodeId) -> Result<Option<PollRow>, CatalogError> {
        let select = "SELECT node, polled, minutes FROM node_poll WHERE node = ?";
        self.read(|sql| sql.first(select, params![node.0], poll_columns))
    }
}

fn columns(row: &Row<'_>) -> Result<ContactRow, CatalogError> {
    Ok(ContactRow {
        node: NodeId(row.get(0)?),
        at: ServerTime(row.get(1)?),
        address: row.get(2)?,
        host: row.get(3)?,
    })
}

fn put(sql: &dyn Sql, contact: &ContactRow) -> Result<(), CatalogError> {
    let ContactRow { node, at, address, host } = contact;
    if !makes_way(sql, ("node_contact", "seen"), *node, *at)? {
        return Ok(());
    }
    let insert = "INSERT INTO node_contact(node, seen, address, host) VALUES(?, ?, ?, ?)";
    sql.execute(insert, params![node.0, at.0, address, host]).map(drop)
}

fn poll_columns(row: &Row<'_>) -> Result<PollRow, CatalogError> {
    Ok(PollRow { node: NodeId(row.get(0)?), at: ServerTime(row.get(1)?), minutes: row.get(2)? })
}

fn put_poll(sql: &dyn Sql, poll: &PollRow) -> Result<(), CatalogError> {
    let PollRow { node, at, minutes } = *poll;
    if !makes_way(sql, ("node_poll", "polled"), node, at)? {
        return Ok(());
    }
    let insert = "INSERT INTO node_poll(node, polled, minutes) VALUES(?, ?, ?)";
    sql.execute(insert, params![node.0, at.0, minutes]).map(drop)
}

/// Removes the row of `node` in a table, for one of the time `at`. Returns false, and removes
/// nothing, if the node is gone or the time in its row is later.
fn makes_way(
    sql: &dyn Sql,
    (table, time): (&str, &str),
    node: NodeId,
    at: ServerTime,
) -> Result<bool, CatalogError> {
    let is_newer = format!("SELECT 1 FROM {table} WHERE node = ? AND {time} > ?");
    let is_known = sql.exists("SELECT 1 FROM node WHERE id = ?", params![node.0])?;
    if !is_known || sql.exists(&is_newer, params![node.0, at.0])? {
        return Ok(false);
    }
    sql.execute(&format!("DELETE FROM {table} WHERE node = ?"), params![node.0])?;
    Ok(true)
}

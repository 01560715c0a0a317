//! Statements about last contacts of nodes.

use model::{NodeId, ServerTime};

use super::{Engine, Row, Sql, params};
use crate::{CatalogError, ContactRow, Contacts};

impl<E: Engine> Contacts for E {
    fn put_contacts(&self, contacts: &[ContactRow]) -> Result<(), CatalogError> {
        let contacts = contacts.to_vec();
        self.write(move |sql| contacts.iter().try_for_each(|contact| put(sql, contact)))
    }

    fn contact(&self, node: NodeId) -> Result<Option<ContactRow>, CatalogError> {
        let select = "SELECT node, seen, address, host FROM node_contact WHERE node = ?";
        self.read(|sql| sql.first(select, params![node.0], columns))
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
    let is_newer = "SELECT 1 FROM node_contact WHERE node = ? AND seen > ?";
    let is_known = sql.exists("SELECT 1 FROM node WHERE id = ?", params![node.0])?;
    if !is_known || sql.exists(is_newer, params![node.0, at.0])? {
        return Ok(());
    }
    sql.execute("DELETE FROM node_contact WHERE node = ?", params![node.0])?;
    let insert = "INSERT INTO node_contact(node, seen, address, host) VALUES(?, ?, ?, ?)";
    sql.execute(insert, params![node.0, at.0, address, host]).map(drop)
}

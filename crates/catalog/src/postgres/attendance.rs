//! Agents that attend at one of several servers: a node has one agent, wherever it attends.
//!
//! The row of an agent ends with its attendance or with its server. An agent that comes from the
//! same place, after its line was lost, takes its row along to another server.

use model::NodeId;

use super::engine::Postgres;
use crate::CatalogError;
use crate::sql::{Sql, params};

/// An agent that attends at this server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attendant<'a> {
    pub node: NodeId,
    /// Number that this server gives to the attendance.
    pub number: u64,
    /// Identity of the machine's start and of the agent's folder.
    pub place: &'a [u8],
    /// Address from which the agent calls.
    pub address: &'a str,
}

impl Postgres {
    /// Records that an agent attends at this server. Returns the address of another agent of the
    /// node, if one of another place attends at another server. Fails with `Fenced` if this server
    /// is not in the list any more.
    pub fn attend(&self, attendant: &Attendant<'_>) -> Result<Option<String>, CatalogError> {
        let Attendant { node, number, place, address } = *attendant;
        let id = self.server_id();
        let put = "INSERT INTO attendant SELECT ?1, id, ?3, ?4, ?5 FROM server WHERE id = ?2
                   ON CONFLICT(node) DO UPDATE SET server = excluded.server,
                     number = excluded.number, place = excluded.place, address = excluded.address
                   WHERE attendant.server = excluded.server OR attendant.place = excluded.place";
        let other = "SELECT address FROM attendant WHERE node = ? AND server <> ?";
        self.retry(|sql| {
            if sql.execute(put, params![node.0, id, number, place, address])? > 0 {
                return Ok(None);
            }
            let address = sql.first(other, params![node.0, id], |row| row.get(0))?;
            match address {
                None if !is_listed(sql, id)? => Err(CatalogError::Fenced),
                // The other agent has gone in between, so that the next try succeeds.
                None => Err(CatalogError::Away("an agent has just gone".to_owned())),
                address => Ok(address),
            }
        })
    }

    /// Returns the nodes whose agents attend at any server.
    pub fn attending(&self) -> Result<Vec<NodeId>, CatalogError> {
        let select = "SELECT node FROM attendant ORDER BY node";
        self.retry(|sql| sql.all(select, params![], |row| Ok(NodeId(row.get(0)?))))
    }

    /// Records that the attendance with this number has ended. Returns true if no agent of the node
    /// attends at another server.
    pub fn end_attendance(&self, node: NodeId, number: u64) -> Result<bool, CatalogError> {
        let id = self.server_id();
        let delete = "DELETE FROM attendant WHERE node = ? AND server = ? AND number = ?";
        let other = "SELECT node FROM attendant WHERE node = ? AND server <> ?";
        self.retry(|sql| {
            sql.execute(delete, params![node.0, id, number])?;
            let other = sql.first(other, params![node.0, id], |row| row.get::<i64>(0))?;
            Ok(other.is_none())
        })
    }
}

fn is_listed(sql: &dyn Sql, id: i64) -> Result<bool, CatalogError> {
    let select = "SELECT id FROM server WHERE id = ?";
    Ok(sql.first(select, params![id], |row| row.get::<i64>(0))?.is_some())
}

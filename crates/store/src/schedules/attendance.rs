//! Agents at one of several servers. A server alone knows its agents by itself.

use catalog::postgres::Attendant;
use model::NodeId;

use crate::error::StoreError;
use crate::store::Store;

/// Records that an agent attends at this server. Returns the address of another agent of its node
/// that attends at another server; this agent is to be refused then.
pub fn attend(store: &Store, attendant: &Attendant<'_>) -> Result<Option<String>, StoreError> {
    match &store.fleet {
        Some(fleet) => Ok(fleet.postgres.attend(attendant)?),
        None => Ok(None),
    }
}

/// Records that the attendance `number` of the node at this server has ended. Returns true if no
/// agent of the node attends at another server.
pub fn end_attendance(store: &Store, node: NodeId, number: u64) -> Result<bool, StoreError> {
    match &store.fleet {
        Some(fleet) => Ok(fleet.postgres.end_attendance(node, number)?),
        None => Ok(true),
    }
}

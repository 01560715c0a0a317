//! Agents at this server, and at each of several servers. A server alone knows its agents by
//! itself.

use std::collections::BTreeSet;

use catalog::postgres::Attendant;
use model::NodeId;

use crate::error::StoreError;
use crate::store::Store;

/// Records that an agent attends at this server. Returns the address of another agent of its node
/// that attends at another server; this agent is to be refused then.
pub fn attend(store: &Store, attendant: &Attendant<'_>) -> Result<Option<String>, StoreError> {
    let other = match &store.fleet {
        Some(fleet) => fleet.postgres.attend(attendant)?,
        None => None,
    };
    if other.is_none() {
        store.presence.begin(attendant.node, attendant.number);
    }
    Ok(other)
}

/// Records that an agent of an older program attends at this server, which does not tell its place.
pub fn attend_without_place(store: &Store, node: NodeId, number: u64) {
    store.presence.begin(node, number);
}

/// Takes note that the agent of an attendance comes back each `minutes`; 0 for one that stays.
pub fn note_poll(store: &Store, node: NodeId, number: u64, minutes: u32) {
    store.presence.note_poll(node, number, minutes);
}

/// Records that the attendance `number` of the node at this server has ended. Returns true if no
/// agent of the node attends at another server.
pub fn end_attendance(store: &Store, node: NodeId, number: u64) -> Result<bool, StoreError> {
    store.presence.end(node, number, sys::clock::now());
    match &store.fleet {
        Some(fleet) => Ok(fleet.postgres.end_attendance(node, number)?),
        None => Ok(true),
    }
}

/// Returns the nodes whose agents are connected, at this server or at another one.
pub fn connected_agents(store: &Store) -> Result<BTreeSet<NodeId>, StoreError> {
    let mut nodes = store.presence.present();
    if let Some(fleet) = &store.fleet {
        nodes.extend(fleet.postgres.attending()?);
    }
    Ok(nodes)
}

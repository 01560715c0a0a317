//! Agents at this server, and at each of several servers. A server alone knows its agents by
//! itself. The last call of each agent is kept in the catalogue, so that a server that was started
//! again knows which agents poll.

use std::collections::BTreeSet;

use catalog::PollRow;
use catalog::postgres::Attendant;
use model::{NodeId, ServerTime};

use crate::error::StoreError;
use crate::store::Store;

/// Number of intervals without a call after which an agent that polls is away.
const POLLS_MISSED: i64 = 3;
const MINUTE_MICROS: i64 = 60_000_000;

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
    keep_poll(store, node, sys::clock::now());
}

/// Returns the last call of the node's agent, if it polls and has not missed several calls.
pub fn last_poll(store: &Store, node: NodeId) -> Result<Option<PollRow>, StoreError> {
    let now = sys::clock::now();
    let here = store.presence.poll(node, now);
    let kept = store.contacts.last_poll(&*store.catalog, node)?;
    let last = [kept, here].into_iter().flatten().max_by_key(|poll| poll.at);
    Ok(last.filter(|poll| is_in_time(poll, now)))
}

/// Returns true if `poll` is a call of an agent that polls and has not missed several since.
fn is_in_time(poll: &PollRow, now: ServerTime) -> bool {
    let silence_max = POLLS_MISSED * i64::from(poll.minutes) * MINUTE_MICROS;
    poll.minutes > 0 && now.0.saturating_sub(poll.at.0) <= silence_max
}

/// Keeps the last call of the node's agent for the time after this server has ended.
fn keep_poll(store: &Store, node: NodeId, now: ServerTime) {
    if let Some(poll) = store.presence.poll(node, now) {
        store.contacts.note_poll(poll);
    }
}

/// Records that the attendance `number` of the node at this server has ended. Returns true if no
/// agent of the node attends at another server.
pub fn end_attendance(store: &Store, node: NodeId, number: u64) -> Result<bool, StoreError> {
    let now = sys::clock::now();
    store.presence.end(node, number, now);
    keep_poll(store, node, now);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::TestServer;

    #[test]
    fn an_agent_that_polls_is_away_after_several_calls_that_it_has_missed() {
        let minute = |minutes: i64| ServerTime(minutes * MINUTE_MICROS);
        let poll = |minutes| PollRow { node: NodeId(7), at: minute(2), minutes };
        assert!(is_in_time(&poll(10), minute(32)));
        assert!(!is_in_time(&poll(10), ServerTime(minute(32).0 + 1)));
        assert!(!is_in_time(&poll(0), minute(2)), "it stays");
    }

    #[test]
    fn a_call_is_known_to_the_next_start_of_the_server() {
        let server = TestServer::new();
        let (store, node) = (&server.store, server.node.id);
        let call = |number, minutes| {
            attend_without_place(store, node, number);
            note_poll(store, node, number, minutes);
            end_attendance(store, node, number).expect("is recorded");
        };
        let kept = || {
            store.contacts.write(&*store.catalog).expect("is written");
            let poll = store.catalog.poll(node).expect("is read").expect("is kept");
            (poll.minutes, Some(poll) == last_poll(store, node).expect("is read"))
        };
        assert_eq!(last_poll(store, node).expect("is read"), None);
        call(1, 240);
        assert_eq!(kept(), (240, true));
        // Its settings have changed.
        call(2, 0);
        assert_eq!(kept(), (0, false));
    }
}

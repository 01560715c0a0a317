//! Reasons why nobody has begun an event, as far as the server knows them.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Control, EventFilter, ScheduledEvent};
use model::{NodeId, ServerTime};
use policy::schedule::event::EventState;

use super::attendance::connected_agents;
use crate::error::StoreError;
use crate::store::Store;

/// Number of events whose reasons are recorded in one transaction.
const BATCH: usize = 1000;

/// Records the reasons of the pending events whose windows are over at `now`.
pub(super) fn explain(store: &Store, now: ServerTime) -> Result<(), StoreError> {
    let states = vec![EventState::Pending];
    let over = EventFilter { states, closes_by: Some(now), ..EventFilter::default() };
    let missed = store.catalog.scheduled_events(&over, None, usize::MAX)?;
    if missed.is_empty() {
        return Ok(());
    }
    let witness = Witness::read(store)?;
    for batch in missed.chunks(BATCH) {
        let reason = |event: &ScheduledEvent| (event.number, witness.reason(event));
        store.catalog.explain_events(&batch.iter().map(reason).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Knowledge of the server about its nodes at one time.
struct Witness<'a> {
    store: &'a Store,
    locked: BTreeSet<NodeId>,
    connected: BTreeSet<NodeId>,
    /// Work that is under way at nodes, in words.
    work: BTreeMap<NodeId, String>,
}

impl<'a> Witness<'a> {
    fn read(store: &'a Store) -> Result<Self, StoreError> {
        let states = vec![EventState::Started, EventState::InProgress, EventState::Restarted];
        let under_way = EventFilter { states, ..EventFilter::default() };
        let under_way = store.catalog.scheduled_events(&under_way, None, usize::MAX)?.into_iter();
        // Events are numbered over all domains, so the reason names the schedule alone.
        let words = |event: &ScheduledEvent| format!("an event of schedule {}", event.key.schedule);
        let nodes = store.catalog.nodes()?.into_iter();
        Ok(Self {
            store,
            locked: nodes.filter(|node| node.locks.any()).map(|node| node.id).collect(),
            connected: connected_agents(store)?,
            work: under_way.filter_map(|event| Some((event.key.node?, words(&event)))).collect(),
        })
    }

    /// Returns the reason why nobody has begun the event.
    fn reason(&self, event: &ScheduledEvent) -> String {
        match (event.control, event.key.node) {
            (Some(Control::Cancel), _) => {
                "cancelled by an administrator before it began".to_owned()
            }
            (Some(Control::Pause), _) => {
                "paused by an administrator until its window was over".to_owned()
            }
            (_, None) => "the server did not begin it before its window was over".to_owned(),
            (_, Some(node)) => self.reason_at(node, event.opens),
        }
    }

    /// Returns the reason why the node has not begun an event whose window opened at `opens`.
    fn reason_at(&self, node: NodeId, opens: ServerTime) -> String {
        if self.locked.contains(&node) {
            return "the node is locked".to_owned();
        }
        if self.connected.contains(&node) {
            return match self.work.get(&node) {
                Some(work) => format!(
                    "the agent is connected, but it did not begin the event; {work} was under way"
                ),
                None => "the agent is connected, but it did not begin the event".to_owned(),
            };
        }
        // The server at which an agent was knows alone when it left.
        if self.store.fleet.is_some() {
            return "no agent of the node is connected".to_owned();
        }
        let has_left = self.store.presence.left(node).is_some_and(|left| left > opens);
        let reason = match (has_left, self.store.began > opens) {
            (true, _) => "the agent was connected for a part of the window only",
            (false, true) => "no agent of the node has been connected since the server started",
            (false, false) => "no agent of the node was connected while the window was open",
        };
        reason.to_owned()
    }
}

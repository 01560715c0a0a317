//! Reasons why nobody has begun an event, as far as the server knows them.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Control, EventFilter, Node, ScheduleRow, ScheduledEvent};
use model::{NodeId, ServerTime};
use policy::schedule::event::EventState;

use super::attendance::connected_agents;
use super::define::definition;
use super::followers::Followers;
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
    let witness = Witness::read(store, &missed)?;
    for batch in missed.chunks(BATCH) {
        let reason = |event: &ScheduledEvent| (event.number, witness.reason(event));
        let reasons: Vec<_> = batch.iter().map(reason).collect();
        store.catalog.explain_events(EventState::Pending, &reasons)?;
    }
    Ok(())
}

/// Work that a schedule asks for now.
enum Demand {
    /// A newer program has written the definition.
    Unknown,
    Suspended,
    /// Occurrences that are planned from the first moment on, at places with moments of their own.
    From(ServerTime, BTreeMap<Option<NodeId>, ServerTime>),
}

/// Returns what the schedules of `events` ask for now. A schedule that was removed has no entry.
fn demands(
    store: &Store,
    nodes: &[Node],
    events: &[ScheduledEvent],
) -> Result<BTreeMap<String, Demand>, StoreError> {
    let named: BTreeSet<&str> = events.iter().map(|event| event.key.schedule.as_str()).collect();
    let rows = store.catalog.schedules()?;
    let followers = Followers::read(&*store.catalog, &rows)?;
    let demand = |row: ScheduleRow| {
        let demand = match definition(&row) {
            Err(_) => Demand::Unknown,
            Ok(definition) if definition.is_suspended => Demand::Suspended,
            Ok(definition) => {
                let places = followers.places(&row, &definition, nodes);
                Demand::From(row.since, places.into_iter().collect())
            }
        };
        (row.name, demand)
    };
    Ok(rows
        .into_iter()
        .filter(|row| named.contains(row.name.as_str()))
        .map(demand)
        .collect())
}

/// Knowledge of the server about its schedules and nodes at one time.
struct Witness<'a> {
    store: &'a Store,
    demands: BTreeMap<String, Demand>,
    locked: BTreeSet<NodeId>,
    connected: BTreeSet<NodeId>,
    /// Work that is under way at nodes, in words.
    work: BTreeMap<NodeId, String>,
}

impl<'a> Witness<'a> {
    fn read(store: &'a Store, missed: &[ScheduledEvent]) -> Result<Self, StoreError> {
        let states = vec![EventState::Started, EventState::InProgress, EventState::Restarted];
        let under_way = EventFilter { states, ..EventFilter::default() };
        let under_way = store.catalog.scheduled_events(&under_way, None, usize::MAX)?.into_iter();
        // Events are numbered over all domains, so the reason names the schedule alone.
        let words = |event: &ScheduledEvent| format!("an event of schedule {}", event.key.schedule);
        let nodes = store.catalog.nodes()?;
        let locked = nodes.iter().filter(|node| node.locks.any());
        Ok(Self {
            store,
            demands: demands(store, &nodes, missed)?,
            locked: locked.map(|node| node.id).collect(),
            connected: connected_agents(store)?,
            work: under_way.filter_map(|event| Some((event.key.node?, words(&event)))).collect(),
        })
    }

    /// Returns why nobody asks for the event any more; `None` if its schedule does.
    fn withdrawal(&self, event: &ScheduledEvent) -> Option<&'static str> {
        let is_later = |since: &ServerTime| *since > event.key.planned;
        match self.demands.get(&event.key.schedule) {
            None => Some("the schedule was removed before the event began"),
            Some(Demand::Suspended) => Some("the schedule was suspended before the event began"),
            Some(Demand::From(since, _)) if is_later(since) => Some(
                "the schedule was changed or resumed before the event began, and does not make up \
                 for it",
            ),
            Some(Demand::From(_, places)) if places.get(&event.key.node).is_none_or(is_later) => {
                Some("the node ceased to follow the schedule before the event began")
            }
            Some(Demand::Unknown | Demand::From(..)) => None,
        }
    }

    /// Returns the reason why nobody has begun the event.
    fn reason(&self, event: &ScheduledEvent) -> String {
        match (event.control, self.withdrawal(event), event.key.node) {
            (Some(Control::Cancel), _, _) => {
                "cancelled by an administrator before it began".to_owned()
            }
            (Some(Control::Pause), _, _) => {
                "paused by an administrator until its window was over".to_owned()
            }
            (_, Some(reason), _) => reason.to_owned(),
            (_, None, None) => "the server did not begin it before its window was over".to_owned(),
            (_, None, Some(node)) => self.reason_at(node, event),
        }
    }

    /// Returns the reason why the node has not begun the event.
    fn reason_at(&self, node: NodeId, event: &ScheduledEvent) -> String {
        if self.locked.contains(&node) {
            return "the node is locked".to_owned();
        }
        let (seen, told) = (self.seen_of(node, event.opens), &event.reason);
        match told.is_empty() {
            true => seen,
            false if self.connected.contains(&node) || told.ends_with(&seen) => told.clone(),
            // The node has told it before its agent left.
            false => format!("{told}; {seen}"),
        }
    }

    /// Returns what the server has seen of the node since the time `opens`.
    fn seen_of(&self, node: NodeId, opens: ServerTime) -> String {
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

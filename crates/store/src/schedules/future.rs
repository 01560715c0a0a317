//! Events of the future. The catalogue has no record of them: they are computed from the schedules.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{EventFilter, EventKey, Node, ScheduledEvent};
use model::{NodeId, ServerTime};
use policy::schedule::Occurrence;
use policy::schedule::event::EventState;

use super::conditions::{meets, takes_schedule};
use super::define::definition;
use super::followers::Followers;
use crate::error::StoreError;
use crate::store::Store;

/// Lists the next `limit` events whose windows open after `now`, the last one first. They have no
/// number. The states in `filter` do not count. With `among`, only events at these nodes count.
pub fn future_events(
    store: &Store,
    filter: &EventFilter,
    now: ServerTime,
    limit: usize,
    among: Option<&BTreeSet<NodeId>>,
) -> Result<Vec<ScheduledEvent>, StoreError> {
    let rows = store.catalog.schedules()?;
    let followers = Followers::read(&*store.catalog, &rows)?;
    let nodes = store.catalog.nodes()?;
    let by_number: BTreeMap<NodeId, &Node> = nodes.iter().map(|node| (node.id, node)).collect();
    let mut events = Vec::new();
    for row in rows {
        if !takes_schedule(filter, &row.name) {
            continue;
        }
        let Ok(definition) = definition(&row) else { continue };
        let Ok(zone) = definition.time_zone() else { continue };
        let mut places = followers.places(&row, &definition, &nodes);
        places.retain(|(node, _)| {
            let is_seen = |node: &NodeId| among.is_none_or(|among| among.contains(node));
            let known = node.and_then(|node| by_number.get(&node).copied());
            node.as_ref().map_or(among.is_none(), is_seen)
                && meets(filter, (&row.name, known), &followers)
        });
        if definition.is_suspended || places.is_empty() {
            continue;
        }
        // The limit cuts among the places of one occurrence, so they have the order of the list.
        places.sort_unstable_by_key(|(node, _)| *node);
        // A window opens within its length after its planned time.
        let window = i64::from(definition.timing.window_minutes) * 60_000_000;
        let after = now.0 - window;
        let after = filter.from.map_or(after, |from| after.max(from.0.saturating_sub(1)));
        let to = filter.to.unwrap_or(ServerTime::MAX);
        let occurrences = definition.timing.occurrences(&zone, ServerTime(after));
        let own = occurrences
            .take_while(|occurrence| occurrence.planned <= to)
            .filter(|occurrence| occurrence.opens > now)
            .take(limit)
            .flat_map(|occurrence| places.iter().map(move |place| (occurrence, *place)))
            .filter(|(occurrence, (_, since))| occurrence.planned >= *since)
            .take(limit);
        for (occurrence, (node, _)) in own {
            let key = EventKey { schedule: row.name.clone(), planned: occurrence.planned, node };
            let node = node.and_then(|node| by_number.get(&node).copied());
            events.push(future(key, node, occurrence));
        }
    }
    events.sort_by(|one, other| one.opens.cmp(&other.opens).then(one.key.cmp(&other.key)));
    events.truncate(limit);
    events.reverse();
    Ok(events)
}

fn future(key: EventKey, node: Option<&Node>, occurrence: Occurrence) -> ScheduledEvent {
    ScheduledEvent {
        number: 0,
        key,
        node_name: node.map(|node| node.name.clone()),
        opens: occurrence.opens,
        closes: occurrence.closes,
        state: EventState::Future,
        attempt: 0,
        started: None,
        ended: None,
        code: None,
        reason: String::new(),
        report: String::new(),
        control: None,
        watched: ServerTime(0),
        progress: String::new(),
        paused: None,
    }
}

//! The plan of a node: the schedules that it follows, as its agent gets them.

use std::collections::BTreeMap;

use catalog::{Control, EventFilter, EventKey, Node};
use model::ServerTime;

use super::followers::Followers;
use super::owner::plain_body;
use crate::error::StoreError;
use crate::store::Store;

/// Maximum number of events with wishes in a plan.
const CONTROLS_MAX: usize = 1000;

/// The plan of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Schedules, by name.
    pub schedules: Vec<PlannedSchedule>,
    /// Wishes about events that have not ended, and the cancellations of all whose windows are
    /// open: a node may try an event again until its window closes.
    pub controls: Vec<PlannedControl>,
}

/// A schedule in a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedSchedule {
    pub name: String,
    /// The definition, as JSON.
    pub body: String,
    /// Occurrences that are planned before this time are none of the node.
    pub since: ServerTime,
}

/// A wish about an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedControl {
    pub key: EventKey,
    pub control: Control,
}

/// Returns the plan of `node`.
pub fn plan_of(store: &Store, node: &Node) -> Result<Plan, StoreError> {
    let rows = store.catalog.schedules()?;
    let followers = Followers::read(&*store.catalog, &rows)?;
    let followed = followers.of_node(node);
    let own = rows.into_iter().filter_map(|row| {
        let since = *followed.get(row.name.as_str())?;
        let since = since.max(row.since);
        Some(PlannedSchedule { name: row.name, body: plain_body(row.body), since })
    });
    let of_node = EventFilter { node: Some(node.id), ..EventFilter::default() };
    let open = EventFilter { states: super::events::OPEN.to_vec(), ..of_node.clone() };
    let cancelled = EventFilter {
        control: Some(Control::Cancel),
        closes_after: Some(sys::clock::now()),
        ..of_node
    };
    let mut controls = BTreeMap::new();
    for filter in [open, cancelled] {
        for event in store.catalog.scheduled_events(&filter, None, CONTROLS_MAX)? {
            if let Some(control) = event.control {
                controls.insert(event.key, control);
            }
        }
    }
    let controls = controls.into_iter().map(|(key, control)| PlannedControl { key, control });
    Ok(Plan { schedules: own.collect(), controls: controls.collect() })
}

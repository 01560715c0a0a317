//! Events as nodes report them and administrators look at them.

use catalog::{
    Association, Control, EventFilter, EventKey, EventReport, Follower, Node, ScheduleRow,
    ScheduledEvent,
};
use model::{NodeId, ServerTime};
use policy::schedule::event::EventState;
use policy::schedule::{Definition, Occurrence, Place, Starts, Timing};

use super::announcement::announce;
use super::define::encode;
use crate::counts::counted;
use crate::domains::note;
use crate::error::StoreError;
use crate::store::Store;

/// Prefix of the names of schedules that were made for one action. No other name begins like this.
const ONCE_PREFIX: &str = "@";
/// Time for which a schedule of one action is kept after its window, in minutes.
const ONCE_KEPT_MICROS: i64 = 7 * 86_400_000_000;

/// States of events that have not ended.
pub(super) const OPEN: [EventState; 5] = [
    EventState::Pending,
    EventState::Started,
    EventState::InProgress,
    EventState::Restarted,
    EventState::Severed,
];

/// Events that an administrator's wish is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventTarget {
    pub schedule: String,
    /// The node; `None` for all nodes.
    pub node: Option<NodeId>,
}

/// Records what a node reports.
pub fn report(store: &Store, report: &EventReport) -> Result<(), StoreError> {
    Ok(store.catalog.report_event(report)?)
}

/// Records that the connection to `node` was lost.
pub fn sever(store: &Store, node: NodeId) -> Result<(), StoreError> {
    Ok(store.catalog.sever_events(node, sys::clock::now())?)
}

/// Lists at most `limit` events, the last opened first, from the number `from` on.
pub fn node_events(
    store: &Store,
    filter: &EventFilter,
    from: Option<u64>,
    limit: usize,
) -> Result<Vec<ScheduledEvent>, StoreError> {
    Ok(store.catalog.scheduled_events(filter, from, limit)?)
}

/// Returns the event with this number, and the end of its log.
pub fn find_event(store: &Store, number: u64) -> Result<(ScheduledEvent, Vec<u8>), StoreError> {
    let unknown = || {
        StoreError::not_found(format!(
            "there is no event {number}; 'holdfast admin event list' shows the events"
        ))
    };
    let all = EventFilter::default();
    let event = store.catalog.scheduled_events(&all, Some(number), 1)?.pop();
    let event = event.filter(|event| event.number == number).ok_or_else(unknown)?;
    store.catalog.scheduled_event(&event.key)?.ok_or_else(unknown)
}

/// Records a wish about all events of the target that have not ended. Returns their number.
pub fn control(store: &Store, target: &EventTarget, control: Control) -> Result<u64, StoreError> {
    let filter = EventFilter {
        node: target.node,
        schedule: Some(target.schedule.clone()),
        states: OPEN.to_vec(),
        ..EventFilter::default()
    };
    let events = store.catalog.scheduled_events(&filter, None, usize::MAX)?;
    if events.is_empty() {
        return Err(StoreError::not_found(format!(
            "schedule {} has no event that is pending or under way",
            target.schedule
        )));
    }
    for event in &events {
        store.catalog.control_event(&event.key, control)?;
    }
    announce(store)?;
    let what = match control {
        Control::Pause => "events paused",
        Control::Resume => "events resumed",
        Control::Cancel => "events cancelled",
    };
    let details = format!("{}: {}", target.schedule, counted(events.len() as u64, "event"));
    note(store, sys::clock::now(), what, &details)?;
    Ok(events.len() as u64)
}

/// Makes a schedule for one action, which is due now at `nodes`, and opens its events. Returns the
/// name of the schedule.
pub fn run_now(
    store: &Store,
    nodes: &[Node],
    template: &Definition,
    author: &str,
) -> Result<String, StoreError> {
    if template.place() == Place::Server {
        return Err(StoreError::usage("nodes do not carry out work of the server"));
    }
    let now = sys::clock::now();
    forget_old(store, now)?;
    let timing =
        Timing { starts: Starts::Once(now.0), spread_percent: 0, ..template.timing.clone() };
    let definition = Definition { timing, ..template.clone() };
    let name = free_name(store)?;
    let row = ScheduleRow {
        name: name.clone(),
        body: encode(&definition)?,
        since: now,
        changed: now,
        changed_by: author.to_owned(),
    };
    store.catalog.add_schedule(&row)?;
    let closes = ServerTime(now.0 + i64::from(definition.timing.window_minutes) * 60_000_000);
    let occurrence = Occurrence { planned: now, opens: now, closes };
    let mut events = Vec::new();
    for node in nodes {
        let follower = Follower::Node(node.id);
        store
            .catalog
            .associate(&Association { schedule: name.clone(), follower, since: now })?;
        let key = EventKey { schedule: name.clone(), planned: now, node: Some(node.id) };
        events.push((key, occurrence));
    }
    store.catalog.open_events(&events)?;
    announce(store)?;
    let work = definition.action.work.name();
    let details = format!("{name}: {work} at {}", counted(nodes.len() as u64, "node"));
    note(store, now, "action started", &details)?;
    Ok(name)
}

/// Returns the next free name for a schedule of one action: `@1`, `@2` and so on.
fn free_name(store: &Store) -> Result<String, StoreError> {
    let number = |row: &ScheduleRow| row.name.strip_prefix(ONCE_PREFIX)?.parse::<u64>().ok();
    let of_schedules = store.catalog.schedules()?.iter().filter_map(number).max();
    let last = store.catalog.mark(ONCE_MARK)?.and_then(|last| u64::try_from(last).ok());
    let next = of_schedules.max(last).unwrap_or(0) + 1;
    let value = i64::try_from(next).unwrap_or(i64::MAX);
    store.catalog.commit(vec![catalog::Write::SetMark { name: ONCE_MARK, value }])?;
    Ok(format!("{ONCE_PREFIX}{next}"))
}

/// Mark with the number of the last schedule of one action.
const ONCE_MARK: &str = "actions";

/// Removes schedules of one action whose windows closed long ago. Their events stay.
fn forget_old(store: &Store, now: ServerTime) -> Result<(), StoreError> {
    for row in store.catalog.schedules()? {
        if !row.name.starts_with(ONCE_PREFIX) {
            continue;
        }
        let Ok(definition) = super::define::definition(&row) else { continue };
        let window = i64::from(definition.timing.window_minutes) * 60_000_000;
        if row.since.0 + window + ONCE_KEPT_MICROS < now.0 {
            store.catalog.remove_schedule(&row.name)?;
        }
    }
    Ok(())
}

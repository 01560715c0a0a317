//! Events as nodes report them and administrators look at them.

use catalog::{
    Control, EventFilter, EventKey, EventReport, Follower, Node, ScheduleRow, ScheduledEvent,
};
use data_encoding::BASE32_NOPAD;
use model::{NodeId, ServerTime};
use policy::schedule::event::EventState;
use policy::schedule::{Action, Definition, ONCE_PREFIX, Occurrence, Place, Starts, Timing};

use super::announcement::announce;
use super::owner::encode;
use crate::counts::counted;
use crate::domains::note_by;
use crate::error::StoreError;
use crate::store::Store;

/// Time in which a task that a person has asked for must have begun, in minutes: a day.
const TASK_WINDOW_MINUTES: u32 = 1440;
/// Time for which a schedule of one action is kept after its window.
const ONCE_KEPT_MICROS: i64 = 7 * 86_400_000_000;
/// Words before what keeps a node from a further attempt.
const NO_FURTHER: &str = "no further attempt begins: ";
/// Maximum number of nodes that the audit trail names for an action.
const NODES_NAMED: usize = 10;
/// Maximum length of the objects and options of an action in the audit trail, in characters.
const WORDS_CHARACTERS_MAX: usize = 200;

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

/// Records what a node reports. No time that it tells is later than the present.
pub fn report(store: &Store, report: &EventReport) -> Result<(), StoreError> {
    let report = plausible(report.clone(), sys::clock::now());
    Ok(store.catalog.report_event(&report)?)
}

/// Bounds the times of a report: an attempt begins after its window has opened and before the time
/// of the report, and nothing has happened in the future.
fn plausible(report: EventReport, now: ServerTime) -> EventReport {
    let at = report.at.min(now);
    let opens = report.occurrence.opens.min(at);
    let within = |time: ServerTime| time.clamp(opens, at);
    let (began, paused) = (report.began.map(within), report.paused.map(within));
    EventReport { at, began, paused, ..report }
}

/// Records what keeps a node from beginning an event, or a further attempt of it. It cannot hide
/// what becomes of the event: only a reason changes, it follows that of an attempt that has failed,
/// and each report of the node brings a reason of its own.
pub fn note_obstacle(store: &Store, key: &EventKey, told: &str) -> Result<(), StoreError> {
    let Some((event, _)) = store.catalog.scheduled_event(key)? else { return Ok(()) };
    let reason = match event.state {
        EventState::Pending => told.to_owned(),
        EventState::Failed | EventState::Uncertain => with_obstacle(&event.reason, told),
        _ => return Ok(()),
    };
    if event.reason != reason {
        store.catalog.explain_events(event.state, &[(event.number, reason)])?;
    }
    Ok(())
}

/// Returns the reason `known` of the last attempt, followed by what keeps the node from another
/// one. What the node has told of that before is left out.
fn with_obstacle(known: &str, told: &str) -> String {
    // With the words once, the reason does not grow when a node tells the same again.
    let told = told.rsplit_once(NO_FURTHER).map_or(told, |(_, end)| end);
    let ended = known.rfind(NO_FURTHER).map_or(known, |at| &known[..at]);
    match ended.trim_end_matches("; ") {
        "" => format!("{NO_FURTHER}{told}"),
        ended => format!("{ended}; {NO_FURTHER}{told}"),
    }
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

/// Returns the event with this number, if there is one.
pub fn event_numbered(store: &Store, number: u64) -> Result<Option<ScheduledEvent>, StoreError> {
    let all = EventFilter::default();
    let event = store.catalog.scheduled_events(&all, Some(number), 1)?.pop();
    Ok(event.filter(|event| event.number == number))
}

/// Returns the event with this number, and the end of its log.
pub fn find_event(store: &Store, number: u64) -> Result<(ScheduledEvent, Vec<u8>), StoreError> {
    // Not every caller knows the event by this number.
    let unknown =
        || StoreError::not_found("there is no such event; 'holdfast admin event list' shows all");
    let event = event_numbered(store, number)?.ok_or_else(unknown)?;
    store.catalog.scheduled_event(&event.key)?.ok_or_else(unknown)
}

/// Records a wish about all events of the target that have not ended. Returns their number. A
/// cancellation is final, and also stops further attempts of an event that has failed.
pub fn control(
    store: &Store,
    target: &EventTarget,
    control: Control,
    author: &str,
) -> Result<u64, StoreError> {
    let events = controllable(store, target, control)?;
    if events.is_empty() {
        check_known(store, &target.schedule)?;
        return Err(StoreError::not_found(format!(
            "schedule {} has no event that is pending or under way, and that is not cancelled",
            target.schedule
        )));
    }
    put_wish(store, &target.schedule, (&events, control), author)?;
    Ok(events.len() as u64)
}

/// Records a wish about one event, as [`control`] does about all. Fails if the event has ended: the
/// next event of its schedule is another one.
pub fn control_one(
    store: &Store,
    event: &ScheduledEvent,
    control: Control,
    author: &str,
) -> Result<(), StoreError> {
    let target = EventTarget { schedule: event.key.schedule.clone(), node: event.key.node };
    let mut events = controllable(store, &target, control)?;
    events.retain(|one| one.number == event.number);
    if events.is_empty() {
        return Err(StoreError::conflict("the event has ended, or was cancelled"));
    }
    put_wish(store, &target.schedule, (&events, control), author)
}

/// Records a wish about events of a schedule.
fn put_wish(
    store: &Store,
    schedule: &str,
    (events, control): (&[ScheduledEvent], Control),
    author: &str,
) -> Result<(), StoreError> {
    let is_of_server = events.iter().any(|event| event.key.node.is_none());
    if is_of_server && control != Control::Cancel {
        return Err(StoreError::usage(format!(
            "schedule {schedule} is work of the server, which cannot pause; 'holdfast admin event \
             cancel {schedule}' ends it"
        )));
    }
    for event in events {
        store.catalog.control_event(&event.key, control)?;
    }
    announce(store)?;
    let what = match control {
        Control::Pause => "events paused",
        Control::Resume => "events resumed",
        Control::Cancel => "events cancelled",
    };
    let details = format!("{schedule}: {}", counted(events.len() as u64, "event"));
    note_by(store, author, sys::clock::now(), (what, details.as_str()))
}

/// Fails if there is no schedule with this name, and no event of one that was removed.
fn check_known(store: &Store, schedule: &str) -> Result<(), StoreError> {
    let own = EventFilter { schedule: Some(schedule.to_owned()), ..EventFilter::default() };
    match store.catalog.scheduled_events(&own, None, 1)?.is_empty() {
        true => super::define::find(store, schedule).map(drop),
        false => Ok(()),
    }
}

/// Returns the events of the target to which the wish can apply.
fn controllable(
    store: &Store,
    target: &EventTarget,
    control: Control,
) -> Result<Vec<ScheduledEvent>, StoreError> {
    let all = EventFilter {
        node: target.node,
        schedule: Some(target.schedule.clone()),
        ..EventFilter::default()
    };
    let open = EventFilter { states: OPEN.to_vec(), ..all.clone() };
    let mut events = store.catalog.scheduled_events(&open, None, usize::MAX)?;
    let is_cancelled = |event: &ScheduledEvent| event.control == Some(Control::Cancel);
    events.retain(|event| !is_cancelled(event));
    if control != Control::Cancel {
        return Ok(events);
    }
    let rows = store.catalog.schedules()?;
    let row = rows.iter().find(|row| row.name.eq_ignore_ascii_case(&target.schedule));
    let Some(definition) = row.and_then(|row| super::define::definition(row).ok()) else {
        return Ok(events);
    };
    let states = match definition.action.work.is_repeatable() {
        true => vec![EventState::Failed, EventState::Uncertain],
        false => vec![EventState::Failed],
    };
    let failed = EventFilter { states, closes_after: Some(sys::clock::now()), ..all };
    let mut failed = store.catalog.scheduled_events(&failed, None, usize::MAX)?;
    failed.retain(|event| event.attempt <= definition.retries && !is_cancelled(event));
    events.extend(failed);
    Ok(events)
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
    let places: Vec<_> = nodes.iter().map(|node| Some(node.id)).collect();
    let name = once(store, template, &places, author)?;
    let details = start_words(&name, &template.action, nodes);
    note_by(store, author, sys::clock::now(), ("action started", details.as_str()))?;
    Ok(name)
}

/// Returns what was started by the name of a schedule, where, and with what.
fn start_words(name: &str, action: &Action, nodes: &[Node]) -> String {
    let count = counted(nodes.len() as u64, "node");
    let named: Vec<&str> = nodes.iter().take(NODES_NAMED).map(|node| node.name.as_str()).collect();
    let more = match nodes.len().saturating_sub(NODES_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let start = format!("{name}: {} at {count} ({}{more})", action.work.name(), named.join(", "));
    let objects = action.objects.iter().map(|object| model::escaped(&object.0));
    let options = action.options.iter().map(|option| model::escaped(option.as_bytes()));
    let words = objects.chain(options).collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(WORDS_CHARACTERS_MAX) {
        None if words.is_empty() => start,
        None => format!("{start}: {words}"),
        Some((end, _)) => format!("{start}: {}...", &words[..end]),
    }
}

/// Starts work of the server now, and returns its event. Work of the same kind that a person has
/// asked for and that has not ended is refused.
pub fn start_task(
    store: &Store,
    action: &Action,
    author: &str,
) -> Result<ScheduledEvent, StoreError> {
    if action.work.place() != Place::Server {
        return Err(StoreError::usage("this is work of nodes; start it at nodes"));
    }
    let open = EventFilter { states: OPEN.to_vec(), is_of_server: true, ..Default::default() };
    let schedules = store.catalog.schedules()?;
    for event in store.catalog.scheduled_events(&open, None, usize::MAX)? {
        let row = schedules.iter().find(|row| row.name == event.key.schedule);
        let definition = row.and_then(|row| super::define::definition(row).ok());
        if definition.is_some_and(|definition| definition.action == *action) {
            let text = format!("this task is under way, or waits, as event {}", event.number);
            return Err(StoreError::conflict(text));
        }
    }
    let template = Definition::once(action.clone(), sys::clock::now(), TASK_WINDOW_MINUTES);
    super::define::check_objects(store, &template)?;
    let name = once(store, &template, &[None], author)?;
    let details = format!("{name}: {}", action.work.name());
    note_by(store, author, sys::clock::now(), ("task started", details.as_str()))?;
    let own = EventFilter { schedule: Some(name), ..EventFilter::default() };
    let made = store.catalog.scheduled_events(&own, None, 1)?.pop();
    made.ok_or_else(|| StoreError::damaged("the event of a task that was started is missing"))
}

/// Makes a schedule that is due once, now, at these places, and opens its events. Returns the name
/// of the schedule.
fn once(
    store: &Store,
    template: &Definition,
    places: &[Option<NodeId>],
    author: &str,
) -> Result<String, StoreError> {
    let now = sys::clock::now();
    forget_old(store, now)?;
    let timing =
        Timing { starts: Starts::Once(now.0), spread_percent: 0, ..template.timing.clone() };
    let definition = Definition { timing, ..template.clone() };
    let name = free_name(store)?;
    let row = ScheduleRow {
        name: name.clone(),
        body: encode(&definition, None)?,
        since: now,
        changed: now,
        changed_by: author.to_owned(),
    };
    store.catalog.add_schedule(&row)?;
    let closes = ServerTime(now.0 + i64::from(definition.timing.window_minutes) * 60_000_000);
    let occurrence = Occurrence { planned: now, opens: now, closes };
    let nodes: Vec<_> = places.iter().filter_map(|place| Some(Follower::Node((*place)?))).collect();
    store.catalog.associate(&row, &nodes, now)?;
    let key =
        |place: &Option<NodeId>| EventKey { schedule: name.clone(), planned: now, node: *place };
    let events: Vec<_> = places.iter().map(|place| (key(place), occurrence)).collect();
    store.catalog.open_events(&events)?;
    announce(store)?;
    Ok(name)
}

/// Returns a free name for a schedule of one action, as in `@3k7q2m5x`. It is drawn by chance: a
/// name that counts would tell a person who starts actions how many others have started.
fn free_name(store: &Store) -> Result<String, StoreError> {
    let known = store.catalog.schedules()?;
    loop {
        let drawn = BASE32_NOPAD.encode(&sys::entropy::bytes::<5>()).to_ascii_lowercase();
        let name = format!("{ONCE_PREFIX}{drawn}");
        if !known.iter().any(|row| row.name == name) {
            return Ok(name);
        }
    }
}

/// Removes schedules of one action whose windows closed long ago. Their events stay.
fn forget_old(store: &Store, now: ServerTime) -> Result<(), StoreError> {
    for row in store.catalog.schedules()? {
        if !row.name.starts_with(ONCE_PREFIX) {
            continue;
        }
        let Ok(definition) = super::define::definition(&row) else { continue };
        let window = i64::from(definition.timing.window_minutes) * 60_000_000;
        if row.since.0 + window + ONCE_KEPT_MICROS < now.0 {
            store.catalog.remove_schedule(&row)?;
        }
    }
    Ok(())
}

//! Events of schedules at nodes, and runs for now.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use catalog::{Control, EventFilter, Node, ScheduledEvent};
use model::DomainId;
use policy::schedule::event::EventState;
use policy::schedule::{Definition, Work};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::{NumberKind, Numbering};
use store::schedules::{self, EventConditions};

use super::domains::NOTHING;
use super::found_node::{FoundNode, NO_NAME, find_node, limit_of_sight, nodes_seen};
use super::live::{self, LiveState};
use super::schedules::{example, parse};
use super::work_reports::{NodeProgress, NodeReport, WorkDocument};
use crate::call::{Answer, Call};
use crate::caller::{Caller, Subject};
use crate::cursor::Portion;
use crate::desk::Desk;
use crate::download::Download;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Maximum number of nodes of a run.
const RUN_NODES_MAX: usize = 1_000;

/// An event.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub(super) struct EventDocument {
    pub(super) number: u64,
    schedule: String,
    /// Kind of the work, as in the definition of the schedule; absent if the schedule is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<&'static str>,
    /// Name of the node; absent for work of the server itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    planned: Time,
    opens: Time,
    closes: Time,
    /// TSM's state of the event: pending, started, in-progress, completed, missed, failed,
    /// restarted, severed or uncertain.
    state: &'static str,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    started: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    reason: String,
    /// Report of the work; absent if it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<WorkDocument<NodeReport>>,
    /// Progress of an attempt that is under way, while somebody looks.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<WorkDocument<NodeProgress>>,
    /// Last wish about the work: pause, resume or cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    wish: Option<&'static str>,
}

/// The end of the log of an event.
#[derive(Serialize, JsonSchema)]
struct LogDocument {
    event: EventDocument,
    log: String,
}

/// A wish about work that is under way.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Wish {
    Pause,
    Resume,
    Cancel,
}

/// A wish about an event.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WishBody {
    wish: Wish,
}

/// Work that begins at nodes now.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunBody {
    /// Names of the nodes.
    nodes: Vec<String>,
    /// Work and its options, as in a schedule.
    #[schemars(with = "Definition")]
    definition: Value,
}

/// Work that has been ordered.
#[derive(Serialize, JsonSchema)]
struct RunDocument {
    /// Name of the schedule that was made for the run. Its events show what becomes of it.
    schedule: String,
    nodes: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct EventPath {
    /// Number of the event.
    event: u64,
}

/// Place at which the work of an event is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum PlaceName {
    Node,
    Server,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only events of this node.
    node: Option<String>,
    /// Only events of this schedule.
    schedule: Option<String>,
    /// Only events in these states, with commas between them.
    state: Option<String>,
    /// Only work of nodes, or of the server.
    place: Option<PlaceName>,
    /// Only events of nodes with this label.
    label: Option<String>,
    /// Only events of nodes of this domain.
    domain: Option<String>,
    /// Only events of schedules that do this work. A schedule that was removed does none.
    work: Option<String>,
    /// Only events with this text in the schedule, the node or the reason.
    text: Option<String>,
    /// True for events with their reports.
    reports: Option<bool>,
    /// Only events that are planned at this time or later.
    from: Option<Time>,
    /// Only events that are planned at this time or earlier.
    to: Option<Time>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Work;
    let summary = "Lists events, the last opened first";
    let operation = Operation::read("events.list", "/v1/events", area, summary);
    let operation = operation.value("state", "completed,failed").value("work", "incremental");
    routes.add(operation, list);
    let summary = "Describes an event";
    routes.add(Operation::read("events.get", "/v1/events/{event}", area, summary), get);
    let summary = "Shows the end of the log of an event";
    routes.add(Operation::read("events.log", "/v1/events/{event}/log", area, summary), log);
    let summary = "Follows an event: server-sent events, until it has ended";
    let path = "/v1/events/{event}/stream";
    routes.stream(Operation::read("events.watch", path, area, summary), live::MEDIA, watch);
    let summary = "Pauses, resumes or cancels the work of an event";
    let path = "/v1/events/{event}/wish";
    let operation = Operation::post("events.control", path, area, summary);
    routes.add(operation.example("cancel", json!({ "wish": "cancel" })), control);
    let summary = "Starts work at nodes now";
    let operation = Operation::post("runs.add", "/v1/runs", area, summary);
    let body = json!({ "nodes": ["web-1"], "definition": example() });
    routes.make(operation.example("backup", body), run);
}

/// Returns the kinds of work of all schedules, by their names. A schedule of another domain is left
/// out: it can have the name of one that was removed, whose events the caller sees.
fn works(desk: &Desk, caller: &Caller) -> Answer<BTreeMap<String, Work>> {
    let rows = desk.store().catalog.schedules()?;
    let is_hidden = |domain| !caller.works_in(domain);
    let work = |row: catalog::ScheduleRow| {
        if schedules::owner(&row).is_some_and(is_hidden) {
            return None;
        }
        let definition = schedules::definition(&row).ok()?;
        Some((row.name, definition.action.work))
    };
    Ok(rows.into_iter().filter_map(work).collect())
}

/// Describes one event.
fn describe_one(desk: &Desk, caller: &Caller, event: ScheduledEvent) -> Answer<EventDocument> {
    let work = works(desk, caller)?.get(&event.key.schedule).copied();
    Ok(describe(&desk.numbering(caller), event, work))
}

pub(super) fn describe(
    numbering: &Numbering,
    event: ScheduledEvent,
    work: Option<Work>,
) -> EventDocument {
    let (is_of_node, is_running) = (event.key.node.is_some(), event.state.is_running());
    let progress = is_running.then(|| WorkDocument::read(&event.progress, is_of_node));
    EventDocument {
        number: numbering.shown(NumberKind::Event, event.number),
        work: work.map(Work::name),
        schedule: event.key.schedule,
        node: event.node_name.map(|name| name.to_string()),
        planned: Time(event.key.planned),
        opens: Time(event.opens),
        closes: Time(event.closes),
        state: event.state.name(),
        attempt: event.attempt,
        started: event.started.map(Time),
        ended: event.ended.map(Time),
        code: event.code,
        reason: event.reason,
        report: WorkDocument::read(&event.report, is_of_node),
        progress: progress.flatten(),
        wish: event.control.map(|control| match control {
            Control::Pause => "pause",
            Control::Resume => "resume",
            Control::Cancel => "cancel",
        }),
    }
}

/// Returns true if there is an event, and the caller may see it. All events take the same
/// questions, and so does one that does not exist.
fn sees(desk: &Desk, caller: &Caller, event: Option<&ScheduledEvent>) -> bool {
    let name = event.and_then(|event| event.node_name.as_ref());
    let name = name.map_or(NO_NAME, |name| name.as_str());
    let sees_node = find_node(desk, caller, name, (Area::Work, Right::Read)).is_ok();
    let is_of_server = event.is_some_and(|event| event.node_name.is_none());
    sees_node || is_of_server && caller.may(Area::Tasks, Right::Read, Subject::Service)
}

fn filter(call: &Call<Empty, ListQuery, Empty>) -> Answer<EventFilter> {
    let ListQuery { node, schedule, state: wanted, place, from, to, domain, .. } = &call.query;
    let node = match node {
        Some(name) => {
            let rights = (Area::Work, Right::Read);
            Some(find_node(&call.desk, &call.caller, name, rights)?.node.id)
        }
        None => None,
    };
    let unknown =
        |name: &str| Problem::invalid(format!("'{}' is no state of an event", name.escape_debug()));
    let state = |name: &str| EventState::of_name(name).ok_or_else(|| unknown(name));
    let states = wanted.iter().flat_map(|names| names.split(',')).map(state);
    let sees_tasks = call.caller.may(Area::Tasks, Right::Read, Subject::Service);
    if *place == Some(PlaceName::Server) {
        call.caller.check(Area::Tasks, Right::Read, Subject::Service)?;
    }
    let mut filter = EventFilter {
        node,
        schedule: schedule.clone(),
        states: states.collect::<Result<_, _>>()?,
        is_of_server: *place == Some(PlaceName::Server),
        is_of_nodes: *place == Some(PlaceName::Node) || !sees_tasks,
        seen: limit_of_sight(&call.desk, &call.caller, Area::Work)?,
        from: from.map(|time| time.0),
        to: to.map(|time| time.0),
        domain: domain.as_deref().map(|name| visible_domain(call, name)).transpose()?,
        ..EventFilter::default()
    };
    let ListQuery { label, work, text, .. } = &call.query;
    let conditions =
        EventConditions { label: label.clone(), work: work.clone(), text: text.clone() };
    let is_seen = |domain| call.caller.works_in(domain);
    schedules::narrow(call.desk.store(), &mut filter, conditions, &is_seen)?;
    Ok(filter)
}

/// Finds a domain in which the caller may see events.
fn visible_domain(call: &Call<Empty, ListQuery, Empty>, name: &str) -> Answer<DomainId> {
    let domains = call.desk.store().catalog.domains()?;
    let found = domains.into_iter().find(|domain| domain.name.eq_ignore_ascii_case(name));
    // A domain that does not exist takes the same questions as one of others.
    let id = found.as_ref().map_or(NOTHING, |domain| domain.id);
    let rights = (Area::Work, Right::Read);
    let is_seen = call.caller.may(rights.0, rights.1, Subject::Domain(id))
        || nodes_seen(&call.desk, &call.caller, rights)?
            .iter()
            .any(|node| node.domain == id);
    found
        .filter(|_| is_seen)
        .map(|domain| domain.id)
        .ok_or_else(|| Problem::not_found("domain", name))
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<EventDocument>> {
    let portion = Portion::parse(call.query.limit, call.query.cursor.as_deref())?;
    let filter = filter(call)?;
    let numbering = call.desk.numbering(&call.caller);
    let shown = |number: u64| numbering.shown(NumberKind::Event, number);
    let first = portion.first_number()?.map(|first| numbering.given(NumberKind::Event, first));
    let events = schedules::node_events(call.desk.store(), &filter, first, portion.read_max())?;
    let key = |event: &ScheduledEvent| shown(event.number).to_string().into_bytes();
    let page = portion.page(events, key);
    let (works, reports) = (works(&call.desk, &call.caller)?, call.query.reports.unwrap_or(false));
    let items = page.items.into_iter().map(|event| {
        let work = works.get(&event.key.schedule).copied();
        let document = describe(&numbering, event, work);
        EventDocument { report: document.report.filter(|_| reports), ..document }
    });
    Ok(Page { items: items.collect(), next: page.next })
}

/// Finds an event that the caller may see, by the number that the caller gives.
fn find(desk: &Desk, caller: &Caller, given: u64) -> Answer<ScheduledEvent> {
    let number = desk.numbering(caller).given(NumberKind::Event, given);
    let found = schedules::event_numbered(desk.store(), number)?;
    let sees = sees(desk, caller, found.as_ref());
    found
        .filter(|_| sees)
        .ok_or_else(|| Problem::not_found("event", &given.to_string()))
}

/// Fails unless the caller may see the event.
pub(crate) fn require(desk: &Desk, caller: &Caller, number: u64) -> Answer<()> {
    find(desk, caller, number).map(drop)
}

fn get(call: &mut Call<EventPath, Empty, Empty>) -> Answer<EventDocument> {
    let event = find(&call.desk, &call.caller, call.path.event)?;
    describe_one(&call.desk, &call.caller, event)
}

fn log(call: &mut Call<EventPath, Empty, Empty>) -> Answer<LogDocument> {
    let number = find(&call.desk, &call.caller, call.path.event)?.number;
    let (event, log) = schedules::find_event(call.desk.store(), number)?;
    let log = String::from_utf8_lossy(&log).into_owned();
    let event = describe_one(&call.desk, &call.caller, event)?;
    Ok(LogDocument { event, log })
}

fn watch(call: &mut Call<EventPath, Empty, Empty>) -> Answer<Download> {
    let first = find(&call.desk, &call.caller, call.path.event)?;
    let (number, work) =
        (first.number, works(&call.desk, &call.caller)?.get(&first.key.schedule).copied());
    let (desk, caller) = (Arc::clone(&call.desk), call.caller.clone());
    let numbering = desk.numbering(&caller);
    let look = move || -> io::Result<Option<LiveState<EventDocument>>> {
        let store = desk.store();
        let (event, _) = schedules::find_event(store, number).map_err(io::Error::other)?;
        if !sees(&desk, &caller, Some(&event)) {
            return Ok(None);
        }
        let watched = std::slice::from_ref(&event);
        schedules::watch(store, watched, sys::clock::now()).map_err(io::Error::other)?;
        let is_over = event.ended.is_some() && !event.state.is_running();
        Ok(Some(LiveState { document: describe(&numbering, event, work), is_over }))
    };
    Ok(live::follow(Arc::clone(&call.desk), look))
}

fn control(call: &mut Call<EventPath, Empty, WishBody>) -> Answer<EventDocument> {
    let event = find(&call.desk, &call.caller, call.path.event)?;
    match &event.node_name {
        Some(name) => {
            let rights = (Area::Work, Right::Write);
            find_node(&call.desk, &call.caller, name.as_str(), rights)?;
        }
        None => call.caller.check(Area::Tasks, Right::Write, Subject::Service)?,
    }
    let control = match call.body.wish {
        Wish::Pause => Control::Pause,
        Wish::Resume => Control::Resume,
        Wish::Cancel => Control::Cancel,
    };
    schedules::control_one(call.desk.store(), &event, control, &call.caller.name)?;
    call.desk.office.announce()?;
    let event = find(&call.desk, &call.caller, call.path.event)?;
    describe_one(&call.desk, &call.caller, event)
}

/// Returns the area of a run with this definition: what gets at the contents of a node's files is
/// for those who may do so.
pub(crate) fn area_of(definition: &Definition) -> Area {
    if definition.action.reaches_contents() { Area::Contents } else { Area::Work }
}

/// Fails for a node that is locked: it would begin nothing until the work is missed.
pub(super) fn check_unlocked(node: &Node) -> Answer<()> {
    if node.locks.any() {
        let text = format!("node {} is locked, so it runs nothing; unlock it first", node.name);
        return Err(Problem::conflict(text));
    }
    Ok(())
}

fn run(call: &mut Call<Empty, Empty, RunBody>) -> Answer<RunDocument> {
    let definition = parse(&call.body.definition)?;
    if !(1..=RUN_NODES_MAX).contains(&call.body.nodes.len()) {
        return Err(Problem::invalid(format!("name 1 to {RUN_NODES_MAX} nodes")));
    }
    let rights = (area_of(&definition), Right::Write);
    let found = call.body.nodes.iter().map(|name| {
        find_node(&call.desk, &call.caller, name, rights).map(|FoundNode { node, .. }| node)
    });
    let mut nodes: Vec<Node> = found.collect::<Result<_, _>>()?;
    nodes.sort_by_key(|node| node.id);
    nodes.dedup_by_key(|node| node.id);
    nodes.iter().try_for_each(check_unlocked)?;
    let store = call.desk.store();
    let schedule = schedules::run_now(store, &nodes, &definition, &call.caller.name)?;
    call.desk.office.announce()?;
    let nodes = nodes.iter().map(|node| node.name.to_string()).collect();
    Ok(RunDocument { schedule, nodes })
}

//! Schedules, plans of nodes, and events.

use std::collections::BTreeMap;

use catalog::{
    Control, EventFilter, EventKey, EventProgress, EventReport, Follower, Node, ScheduledEvent,
};
use model::{DomainId, NodeId, ServerTime};
use policy::schedule::event::{EventState, Phase, Report};
use policy::schedule::{Definition, ONCE_PREFIX, Occurrence};
use store::schedules::{self, EventConditions, Plan, PlannedSchedule, Schedule};
use store::{Store, StoreError};
use wire::proto;

use super::filled;

/// Maximum length of a schedule's name in a report of a node, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Maximum length of the end of a log, of a report of a session and of a reason, in bytes.
const LOG_BYTES_MAX: usize = 64 << 10;
const SESSION_BYTES_MAX: usize = wire::REPORT_BYTES_MAX;
const REASON_BYTES_MAX: usize = 4096;
/// Maximum length of the progress of an event, in bytes.
const PROGRESS_BYTES_MAX: usize = 4 << 10;

/// Parses the definition of a schedule.
pub(crate) fn definition(text: &str) -> Result<Definition, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| StoreError::usage(format!("the definition cannot be read: {error}")))
}

/// Names of nodes and domains, by their numbers.
pub(crate) struct Names {
    nodes: BTreeMap<NodeId, Node>,
    domains: BTreeMap<DomainId, String>,
}

impl Names {
    pub(crate) fn read(store: &Store) -> Result<Self, StoreError> {
        let nodes = store.catalog.nodes()?.into_iter();
        let domains = store.catalog.domains()?.into_iter();
        Ok(Self {
            nodes: nodes.map(|node| (node.id, node)).collect(),
            domains: domains.map(|domain| (domain.id, domain.name)).collect(),
        })
    }
}

/// Returns the message of a schedule.
pub(crate) fn schedule(Names { nodes, domains }: &Names, schedule: Schedule) -> proto::Schedule {
    let Schedule { row, followers, owner, .. } = schedule;
    let definition = schedules::plain_body(row.body.clone());
    let of_domain = owner.and_then(|id| domains.get(&id)).cloned();
    let named = |follower: Follower| {
        use proto::follower::Follower as Message;
        let follower = match follower {
            Follower::Node(id) => {
                let node = nodes.get(&id)?;
                // A node that has left the domain follows no longer, and may have another name.
                let follows = owner.is_none_or(|owner| owner == node.domain);
                Message::Node(follows.then(|| node.name.to_string())?)
            }
            Follower::Label(label) => Message::Label(label),
            Follower::Domain(id) => Message::Domain(domains.get(&id)?.clone()),
        };
        Some(proto::Follower { follower: Some(follower) })
    };
    proto::Schedule {
        name: row.name,
        definition,
        followers: followers.into_iter().filter_map(named).collect(),
        since: row.since.0,
        changed: row.changed.0,
        changed_by: row.changed_by,
        domain: of_domain.unwrap_or_default(),
    }
}

/// Returns the message of a plan, without its digest.
pub(crate) fn plan(plan: Plan) -> proto::Plan {
    let schedules = plan.schedules.into_iter().map(planned);
    let controls = plan.controls.into_iter().map(|planned| proto::PlannedControl {
        event: Some(proto::EventName {
            schedule: planned.key.schedule,
            planned: planned.key.planned.0,
        }),
        control: control(Some(planned.control)).into(),
    });
    proto::Plan {
        digest: bytes::Bytes::new(),
        schedules: schedules.collect(),
        controls: controls.collect(),
        option_set: None,
    }
}

/// Returns the schedules of a plan, without those for one action.
pub(crate) fn own_schedules(plan: Plan) -> proto::OwnSchedulesReply {
    let lasting = plan.schedules.into_iter().filter(|one| !one.name.starts_with(ONCE_PREFIX));
    proto::OwnSchedulesReply { schedules: lasting.map(planned).collect() }
}

fn planned(schedule: PlannedSchedule) -> proto::PlannedSchedule {
    let PlannedSchedule { name, body, since } = schedule;
    proto::PlannedSchedule { name, definition: body, since: since.0 }
}

fn control(control: Option<Control>) -> proto::EventControl {
    match control {
        None => proto::EventControl::Unspecified,
        Some(Control::Pause) => proto::EventControl::Pause,
        Some(Control::Resume) => proto::EventControl::Resume,
        Some(Control::Cancel) => proto::EventControl::Cancel,
    }
}

/// Parses the wish about events.
pub(crate) fn parse_control(message: proto::EventControl) -> Result<Control, StoreError> {
    match message {
        proto::EventControl::Pause => Ok(Control::Pause),
        proto::EventControl::Resume => Ok(Control::Resume),
        proto::EventControl::Cancel => Ok(Control::Cancel),
        proto::EventControl::Unspecified => Err(StoreError::usage("the request names no wish")),
    }
}

/// Parses a report of `node`.
pub(crate) fn report(node: &Node, message: proto::EventReport) -> Result<EventReport, StoreError> {
    use proto::event_report::Phase as Message;
    let phase = match message.phase() {
        Message::Began => Phase::Began,
        Message::Working => Phase::Working,
        Message::Ended => {
            let code = u8::try_from(message.code);
            Phase::Ended(code.map_err(|_| StoreError::malformed("an exit code"))?)
        }
        Message::Interrupted => Phase::Interrupted,
        Message::Unspecified => return Err(StoreError::malformed("the phase of an event")),
    };
    let event = message
        .event
        .ok_or_else(|| StoreError::malformed("a report without an event"))?;
    let is_short = event.schedule.len() <= NAME_BYTES_MAX
        && message.log.len() <= LOG_BYTES_MAX
        && message.session.len() <= SESSION_BYTES_MAX
        && message.reason.len() <= REASON_BYTES_MAX;
    let is_window = event.planned <= message.opens && message.opens < message.closes;
    if !is_short || event.schedule.is_empty() || !is_window || message.attempt == 0 {
        return Err(StoreError::malformed("the report of an event"));
    }
    let planned = ServerTime(event.planned);
    Ok(EventReport {
        key: event_key(node, event),
        occurrence: Occurrence {
            planned,
            opens: ServerTime(message.opens),
            closes: ServerTime(message.closes),
        },
        report: Report { attempt: message.attempt, phase },
        at: ServerTime(message.at),
        began: time(message.began),
        paused: time(message.paused),
        reason: without_nul(&message.reason),
        session: without_nul(&message.session),
        log: message.log.into(),
    })
}

fn event_key(node: &Node, event: proto::EventName) -> EventKey {
    let proto::EventName { schedule, planned } = event;
    EventKey { schedule, planned: ServerTime(planned), node: Some(node.id) }
}

/// Returns a text that each database takes: one may refuse a NUL.
fn without_nul(text: &str) -> String {
    text.replace('\0', " ")
}

/// Parses a time that may be missing.
fn time(micros: i64) -> Option<ServerTime> {
    (micros != 0).then_some(ServerTime(micros))
}

/// Parses the progress of an event of `node`; `None` if it is malformed.
pub(crate) fn progress(node: &Node, message: proto::EventProgress) -> Option<EventProgress> {
    let proto::EventProgress { event, attempt, document } = message;
    let key = event_key(node, event?);
    let is_short = key.schedule.len() <= NAME_BYTES_MAX && document.len() <= PROGRESS_BYTES_MAX;
    let fields: Option<serde_json::Map<String, serde_json::Value>> =
        is_short.then(|| serde_json::from_str(&document).ok()).flatten();
    fields.map(|_| EventProgress { key, attempt, document })
}

/// Parses what keeps `node` from beginning an event; `None` if it is malformed.
pub(crate) fn obstacle(node: &Node, message: proto::EventObstacle) -> Option<(EventKey, String)> {
    let proto::EventObstacle { event, reason } = message;
    let key = event_key(node, event?);
    let is_short = key.schedule.len() <= NAME_BYTES_MAX && reason.len() <= REASON_BYTES_MAX;
    is_short.then(|| (key, without_nul(&reason)))
}

/// Parses the selection of events, except for the node, the domain and the conditions.
pub(crate) fn filter(message: &proto::ScheduledEventsRequest) -> Result<EventFilter, StoreError> {
    let state = |name: &String| {
        let names = EventState::ALL.map(EventState::name).join(", ");
        EventState::of_name(name).ok_or_else(|| {
            StoreError::usage(format!("'{name}' is not a state of an event: give {names}"))
        })
    };
    Ok(EventFilter {
        node: None,
        schedule: filled(message.schedule.clone()),
        states: message.states.iter().map(state).collect::<Result<_, _>>()?,
        from: message.from.map(ServerTime),
        to: message.to.map(ServerTime),
        ..EventFilter::default()
    })
}

/// Parses the conditions on events.
pub(crate) fn conditions(message: &proto::ScheduledEventsRequest) -> EventConditions {
    EventConditions {
        label: filled(message.label.clone()),
        work: filled(message.work.clone()),
        text: filled(message.text.clone()),
    }
}

pub(crate) fn event(event: ScheduledEvent) -> proto::ScheduledEvent {
    proto::ScheduledEvent {
        number: event.number,
        schedule: event.key.schedule,
        planned: event.key.planned.0,
        node: event.node_name.map(|name| name.to_string()).unwrap_or_default(),
        opens: event.opens.0,
        closes: event.closes.0,
        state: event.state.name().to_owned(),
        attempt: event.attempt,
        started: event.started.map(|time| time.0),
        ended: event.ended.map(|time| time.0),
        code: event.code.map(u32::from),
        reason: event.reason,
        session: event.report,
        control: control(event.control).into(),
        progress: if event.state.is_running() { event.progress } else { String::new() },
        paused: event.paused.filter(|_| event.state.is_running()).map(|time| time.0),
    }
}

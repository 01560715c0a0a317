//! Schedules, actions for now, and events.

use std::collections::BTreeMap;

use bytes::Bytes;
use catalog::{EventFilter, Follower, Node, PollRow, ScheduledEvent};
use model::{DomainId, NodeId};
use policy::schedule::event::EventState;
use store::schedules::{self, EventTarget, Schedule};
use store::{Store, StoreError, domains, nodes};
use wire::proto;

use crate::actor::{Changer, FoundNodes, ScheduleSight, Sight, find_node};
use crate::messages;
use crate::messages::portions::{Portion, Section, number_key};
use crate::messages::schedules::{self as forms, Names};
use crate::numbering::{NumberKind, Numbering};

/// Maximum number of events in one message: their reports are long.
const EVENTS_MAX: usize = 1000;
/// Word for the server in place of a node, as lists of events show it. No node has this name.
const SERVER_ITSELF: &str = "(server)";

pub(super) fn list(
    store: &Store,
    request: proto::SchedulesRequest,
    sight: Option<ScheduleSight>,
) -> Result<proto::SchedulesReply, StoreError> {
    let name = messages::name(&request.name);
    let all = match sight {
        Some(sight) => seen(sight, name)?,
        None => schedules::list(store, name)?,
    };
    let named = Names::read(store)?;
    let Section { items, next } = Portion::parse(request.portion).of_list(
        all,
        |schedule| schedule.row.name.to_ascii_lowercase().into(),
        |schedule| forms::schedule(&named, schedule),
    );
    Ok(proto::SchedulesReply { schedules: items, next })
}

/// Returns the schedule `name`, or all schedules, of those that the caller sees. One of others is
/// answered as one that does not exist.
fn seen(sight: ScheduleSight, name: Option<&str>) -> Result<Vec<Schedule>, StoreError> {
    let ScheduleSight(mut all) = sight;
    if let Some(name) = name {
        all.retain(|schedule| schedule.row.name.eq_ignore_ascii_case(name));
        if all.is_empty() {
            return Err(schedules::unknown(name));
        }
    }
    Ok(all)
}

pub(super) fn put(
    store: &Store,
    request: &proto::PutScheduleRequest,
    changer: &Changer,
) -> Result<proto::Schedule, StoreError> {
    let Changer { name: author, owned_by } = changer;
    let definition = forms::definition(&request.definition)?;
    let schedule = match (request.is_new, messages::name(&request.domain)) {
        (true, Some(domain)) => {
            let domain = domains::find(store, domain)?.id;
            schedules::add_of_domain(store, domain, &request.name, &definition, author)?
        }
        (true, None) => schedules::add(store, &request.name, &definition, author)?,
        (false, _) => {
            schedules::change(store, (request.name.as_str(), *owned_by), &definition, author)?
        }
    };
    Ok(forms::schedule(&Names::read(store)?, schedule))
}

pub(super) fn remove(
    store: &Store,
    name: &str,
    changer: &Changer,
) -> Result<proto::Schedule, StoreError> {
    let Changer { name: author, owned_by } = changer;
    answer(store, schedules::remove(store, (name, *owned_by), author)?, author)
}

/// Returns the message of a schedule for its present author. The author before is for those who run
/// the service, and is in the list for them.
fn answer(
    store: &Store,
    mut schedule: Schedule,
    author: &str,
) -> Result<proto::Schedule, StoreError> {
    if schedule.row.changed_by != author {
        schedule.row.changed_by.clear();
    }
    Ok(forms::schedule(&Names::read(store)?, schedule))
}

/// Associates a schedule with nodes, or ends its associations with them.
pub(super) fn follow(
    store: &Store,
    request: proto::FollowScheduleRequest,
    changer: &Changer,
) -> Result<proto::Schedule, StoreError> {
    let followers = followers(store, request.followers, None)?;
    let Changer { name: author, owned_by } = changer;
    let named = (request.name.as_str(), *owned_by);
    let schedule = match request.ends {
        true => schedules::dissociate(store, named, &followers, author)?,
        false => schedules::associate(store, named, &followers, author)?,
    };
    answer(store, schedule, author)
}

fn followers(
    store: &Store,
    messages: Vec<proto::Follower>,
    found: Option<&FoundNodes>,
) -> Result<Vec<Follower>, StoreError> {
    use proto::follower::Follower as Message;
    let parse = |message: proto::Follower| match message.follower {
        Some(Message::Node(name)) => Ok(Follower::Node(find_node(store, &name, found)?.id)),
        Some(Message::Label(label)) => {
            store::check_name(&label, "a label")?;
            Ok(Follower::Label(label))
        }
        Some(Message::Domain(name)) => {
            let domain = domains::find(store, messages::domains::name(&name))?;
            Ok(Follower::Domain(domain.id))
        }
        None => Err(StoreError::malformed("a follower without a name")),
    };
    messages.into_iter().map(parse).collect()
}

/// Starts an action at nodes now.
pub(super) fn run(
    store: &Store,
    request: proto::RunActionRequest,
    (found, author): (Option<&FoundNodes>, &str),
) -> Result<proto::RunActionReply, StoreError> {
    let definition = forms::definition(&request.definition)?;
    let followers = followers(store, request.nodes, found)?;
    let labels = store.catalog.labels(None)?;
    let mut chosen: BTreeMap<NodeId, Node> = BTreeMap::new();
    for node in store.catalog.nodes()? {
        let is_chosen = followers.iter().any(|follower| match follower {
            Follower::Node(id) => *id == node.id,
            Follower::Domain(id) => *id == node.domain,
            Follower::Label(label) => labels.contains(&(node.id, label.clone())),
        });
        if is_chosen {
            chosen.insert(node.id, node);
        }
    }
    if chosen.is_empty() {
        let text = "no node has this label or is in this domain; 'holdfast admin node list' shows \
                    the nodes";
        return Err(StoreError::not_found(text));
    }
    let (locked, nodes): (Vec<Node>, Vec<Node>) =
        chosen.into_values().partition(|node| node.locks.any());
    let is_named = |node: &&Node| followers.contains(&Follower::Node(node.id));
    // A locked node cannot connect, so it would not hear of the action.
    let refused = locked.iter().find(|node| is_named(node) || nodes.is_empty());
    if let Some(node) = refused {
        let name = &node.name;
        return Err(StoreError::conflict(format!(
            "node {name} is locked, so it runs nothing; 'holdfast admin node unlock {name}' admits \
             it again"
        )));
    }
    let connected = schedules::connected_agents(store)?;
    let away: Vec<&Node> = nodes.iter().filter(|node| !connected.contains(&node.id)).collect();
    let polling = polling(store, &away)?;
    let schedule = schedules::run_now(store, &nodes, &definition, author)?;
    let name = |node: &Node| node.name.to_string();
    Ok(proto::RunActionReply {
        schedule,
        nodes: nodes.iter().map(name).collect(),
        locked: locked.iter().map(name).collect(),
        away: away.into_iter().map(name).collect(),
        polling,
    })
}

/// Returns the agents of `nodes` that poll and call in time.
fn polling(store: &Store, nodes: &[&Node]) -> Result<Vec<proto::PollingAgent>, StoreError> {
    let mut polling = Vec::new();
    for node in nodes {
        if let Some(PollRow { at, minutes, .. }) = schedules::last_poll(store, node.id)? {
            polling.push(proto::PollingAgent { node: node.name.to_string(), last: at.0, minutes });
        }
    }
    Ok(polling)
}

/// Returns the selection of events that a request asks for.
fn filter(
    store: &Store,
    request: &proto::ScheduledEventsRequest,
    sight: Option<&Sight>,
) -> Result<EventFilter, StoreError> {
    let mut filter = forms::filter(request)?;
    let is_seen = |domain: DomainId| sight.is_none_or(|sight| sight.domains.contains(&domain));
    schedules::narrow(store, &mut filter, forms::conditions(request), &is_seen)?;
    match messages::name(&request.node) {
        Some(SERVER_ITSELF) => filter.is_of_server = true,
        Some(name) => filter.node = Some(nodes::find(store, name)?.id),
        None => {}
    }
    if let Some(name) = messages::name(&request.domain) {
        let domain = domains::find(store, name)?.id;
        // A caller does not learn which other domains exist.
        if sight.is_some_and(|sight| !sight.domains.contains(&domain)) {
            return Err(domains::unknown(name));
        }
        filter.domain = Some(domain);
    }
    filter.seen = sight.map(|sight| sight.events.clone());
    Ok(filter)
}

/// Returns an event as the caller gets it.
fn event(numbering: &Numbering, event: ScheduledEvent) -> proto::ScheduledEvent {
    let number = numbering.shown(NumberKind::Event, event.number);
    forms::event(ScheduledEvent { number, ..event })
}

/// Lists a portion of the events that the caller sees.
pub(super) fn events(
    store: &Store,
    request: proto::ScheduledEventsRequest,
    (sight, numbering): (Option<&Sight>, &Numbering),
) -> Result<proto::ScheduledEventsReply, StoreError> {
    let mut filter = filter(store, &request, sight)?;
    let portion = Portion::parse(request.portion).at_most(EVENTS_MAX);
    let from = portion.first_number()?.map(|from| numbering.given(NumberKind::Event, from));
    let (limit, now) = (portion.read_max(), sys::clock::now());
    let shown = |one: ScheduledEvent| event(numbering, one);
    // Events of the future come first, and have no number: the next portion begins with another.
    let mut future = Vec::new();
    if filter.states.contains(&EventState::Future) {
        filter.states.retain(|state| *state != EventState::Future);
        if from.is_none() {
            let (max, among) = (limit.min(EVENTS_MAX), sight.map(|sight| &sight.nodes));
            future = schedules::future_events(store, &filter, now, max, among)?;
            future.drain(..future.len().saturating_sub(limit - 1));
        }
        if filter.states.is_empty() {
            let events = future.into_iter().map(shown).collect();
            return Ok(proto::ScheduledEventsReply {
                events,
                next: Bytes::new(),
                is_filtered: true,
            });
        }
    }
    let events = schedules::node_events(store, &filter, from, limit)?;
    if request.watches {
        schedules::watch(store, &events, now)?;
    }
    let events = future.into_iter().chain(events).map(shown).collect();
    let Section { items, next } =
        portion.cut(events, |event: &proto::ScheduledEvent| number_key(event.number));
    Ok(proto::ScheduledEventsReply { events: items, next, is_filtered: true })
}

pub(super) fn event_log(
    store: &Store,
    request: &proto::ScheduledEventLogRequest,
    numbering: &Numbering,
) -> Result<proto::ScheduledEventLogReply, StoreError> {
    let number = numbering.given(NumberKind::Event, request.number);
    let (found, log) = schedules::find_event(store, number)?;
    if request.watches {
        schedules::watch(store, std::slice::from_ref(&found), sys::clock::now())?;
    }
    let event = Some(event(numbering, found));
    Ok(proto::ScheduledEventLogReply { event, log: log.into() })
}

pub(super) fn control(
    store: &Store,
    request: &proto::ControlEventsRequest,
    (found, author): (Option<&FoundNodes>, &str),
) -> Result<proto::ControlEventsReply, StoreError> {
    let node = match messages::name(&request.node) {
        Some(name) => Some(find_node(store, name, found)?.id),
        None => None,
    };
    let target = EventTarget { schedule: request.schedule.clone(), node };
    let control = forms::parse_control(request.control())?;
    let events = schedules::control(store, &target, control, author)?;
    Ok(proto::ControlEventsReply { events })
}

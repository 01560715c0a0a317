//! Schedules, actions for now, and events.

use model::ServerTime;
use policy::schedule::Definition;
use wire::proto;

use super::connection::Admin;
use super::nodes::Node;
use super::optional;
use crate::link::attend::EventControl;
use crate::link::portions::{self, Section};
use crate::{ClientError, ErrorKind};

const MINUTE_MICROS: i64 = 60_000_000;

/// Nodes that follow a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Follower {
    Node(String),
    /// All nodes with this label.
    Label(String),
    /// All nodes of this domain.
    Domain(String),
}

/// A schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    pub name: String,
    pub definition: Definition,
    pub followers: Vec<Follower>,
    /// Domain that the schedule belongs to, whose nodes alone follow it.
    pub domain: Option<String>,
    /// Time of the last change of the planned times.
    pub since: ServerTime,
    pub changed: ServerTime,
    pub changed_by: String,
}

impl Schedule {
    /// Returns true if the node follows the schedule.
    pub fn is_followed_by(&self, node: &Node) -> bool {
        self.reaches(node, &self.followers)
    }

    /// Returns true if the node is one of `followers` that may follow the schedule.
    pub fn reaches(&self, node: &Node, followers: &[Follower]) -> bool {
        let is_foreign = |domain: &String| !domain.eq_ignore_ascii_case(&node.domain);
        if self.domain.as_ref().is_some_and(is_foreign) {
            return false;
        }
        followers.iter().any(|follower| match follower {
            Follower::Node(name) => name.eq_ignore_ascii_case(&node.name),
            Follower::Label(label) => node.labels.contains(label),
            Follower::Domain(name) => name.eq_ignore_ascii_case(&node.domain),
        })
    }
}

/// An action that was started at nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartedAction {
    /// Name of the schedule that the server has made for the action.
    pub schedule: String,
    pub nodes: Vec<String>,
    /// Locked nodes that a label or a domain names. They are left out.
    pub locked: Vec<String>,
    /// Nodes whose agents are not connected.
    pub away: Vec<String>,
    /// Agents of them that poll; none from an older server.
    pub polling: Vec<PollingAgent>,
}

/// An agent that calls the server at intervals, in place of a connection that stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PollingAgent {
    pub node: String,
    /// Time of its last call.
    pub last: ServerTime,
    /// Time of its next call at the latest. It lies before now if the agent has missed a call.
    pub next: ServerTime,
}

/// Selection of events; a field that is `None` or empty selects all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventFilter {
    pub node: Option<String>,
    pub schedule: Option<String>,
    /// Names of states.
    pub states: Vec<String>,
    /// First and last planned time.
    pub from: Option<ServerTime>,
    pub to: Option<ServerTime>,
    /// Label of the node.
    pub label: Option<String>,
    /// Name of the policy domain of the node.
    pub domain: Option<String>,
    /// Name of the work that the schedule does.
    pub work: Option<String>,
    /// Text in the name of the schedule, in the name of the node or in the reason.
    pub text: Option<String>,
}

impl EventFilter {
    /// Returns true if there are conditions that older servers do not know.
    fn has_conditions(&self) -> bool {
        let Self { label, domain, work, text, .. } = self;
        [label, domain, work, text].iter().any(|condition| condition.is_some())
    }
}

/// An occurrence of a schedule at a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduledEvent {
    /// Number of the event; 0 for an event of the future.
    pub number: u64,
    pub schedule: String,
    pub planned: ServerTime,
    /// Name of the node; `None` for work of the server.
    pub node: Option<String>,
    pub opens: ServerTime,
    pub closes: ServerTime,
    /// Name of the state.
    pub state: String,
    pub attempt: u32,
    pub started: Option<ServerTime>,
    pub ended: Option<ServerTime>,
    pub code: Option<u32>,
    pub reason: String,
    /// Last wish of an administrator about the event, if there is one.
    pub control: Option<EventControl>,
    /// Report of the session as JSON; empty if there is none.
    pub session: String,
    /// Progress as JSON, while the node works and somebody looks; otherwise empty.
    pub progress: String,
    /// Time since which the attempt pauses, as its node has confirmed it.
    pub paused: Option<ServerTime>,
}

impl ScheduledEvent {
    /// Returns true while the node works, as far as the server knows.
    pub fn is_running(&self) -> bool {
        matches!(self.state.as_str(), "started" | "in-progress" | "restarted")
    }

    /// Returns true if the event has not ended.
    pub fn is_open(&self) -> bool {
        self.is_running() || matches!(self.state.as_str(), "pending" | "severed")
    }
}

impl Admin {
    /// The schedule `name`, or all schedules.
    pub fn schedules(&mut self, name: Option<&str>) -> Result<Vec<Schedule>, ClientError> {
        let schedules = portions::all(|portion| {
            let name = name.unwrap_or_default().to_owned();
            let request = proto::SchedulesRequest { name, portion: Some(portion) };
            let reply = self.call(async |server| server.schedules(request).await)?;
            Ok(Section { items: reply.schedules, next: reply.next })
        })?;
        schedules.into_iter().map(schedule).collect()
    }

    /// Adds a schedule, or changes one.
    pub fn put_schedule(
        &mut self,
        name: &str,
        definition: &Definition,
        is_new: bool,
    ) -> Result<Schedule, ClientError> {
        self.put_schedule_of("", name, definition, is_new)
    }

    /// Adds a schedule that belongs to a domain.
    pub fn add_schedule_of(
        &mut self,
        domain: &str,
        name: &str,
        definition: &Definition,
    ) -> Result<Schedule, ClientError> {
        self.put_schedule_of(domain, name, definition, true)
    }

    /// Adds a schedule of a domain, or changes one. An empty `domain` is none.
    fn put_schedule_of(
        &mut self,
        domain: &str,
        name: &str,
        definition: &Definition,
        is_new: bool,
    ) -> Result<Schedule, ClientError> {
        let definition = encode(definition)?;
        let (name, domain) = (name.to_owned(), domain.to_owned());
        let request = proto::PutScheduleRequest { name, definition, is_new, domain };
        schedule(self.call(async |server| server.put_schedule(request).await)?)
    }

    /// Removes a schedule.
    pub fn remove_schedule(&mut self, name: &str) -> Result<Schedule, ClientError> {
        let request = proto::SchedulesRequest { name: name.to_owned(), portion: None };
        schedule(self.call(async |server| server.remove_schedule(request).await)?)
    }

    /// Associates a schedule with nodes, or ends the associations.
    pub fn follow_schedule(
        &mut self,
        name: &str,
        followers: &[Follower],
        ends: bool,
    ) -> Result<Schedule, ClientError> {
        let followers = followers.iter().map(follower_message).collect();
        let request = proto::FollowScheduleRequest { name: name.to_owned(), followers, ends };
        schedule(self.call(async |server| server.follow_schedule(request).await)?)
    }

    /// Starts an action at nodes now.
    pub fn run_action(
        &mut self,
        nodes: &[Follower],
        definition: &Definition,
    ) -> Result<StartedAction, ClientError> {
        let nodes = nodes.iter().map(follower_message).collect();
        let request = proto::RunActionRequest { nodes, definition: encode(definition)? };
        let reply = self.call(async |server| server.run_action(request).await)?;
        let proto::RunActionReply { schedule, nodes, locked, away, polling } = reply;
        let polling = polling.into_iter().map(polling_agent).collect();
        Ok(StartedAction { schedule, nodes, locked, away, polling })
    }

    /// At most `limit` events, the one that opened last first. If `watches` is set, the nodes that
    /// work tell their progress for a while, and a later call has it.
    pub fn scheduled_events(
        &mut self,
        filter: &EventFilter,
        limit: u32,
        watches: bool,
    ) -> Result<Vec<ScheduledEvent>, ClientError> {
        let events = portions::first(limit as usize, |portion| {
            let request = proto::ScheduledEventsRequest {
                node: filter.node.clone().unwrap_or_default(),
                schedule: filter.schedule.clone().unwrap_or_default(),
                states: filter.states.clone(),
                from: filter.from.map(|time| time.0),
                to: filter.to.map(|time| time.0),
                portion: Some(portion),
                watches,
                label: filter.label.clone().unwrap_or_default(),
                domain: filter.domain.clone().unwrap_or_default(),
                work: filter.work.clone().unwrap_or_default(),
                text: filter.text.clone().unwrap_or_default(),
            };
            let reply = self.call(async |server| server.scheduled_events(request).await)?;
            if filter.has_conditions() && !reply.is_filtered {
                let message = "the server is too old to select events by label, domain, action or \
                               text; restart it with this version, or leave these conditions out";
                return Err(ClientError::new(ErrorKind::Usage, message));
            }
            Ok(Section { items: reply.events, next: reply.next })
        })?;
        Ok(events.into_iter().map(event).collect())
    }

    /// An event, and the end of its log. A node that works tells its progress for a while.
    pub fn event_log(&mut self, number: u64) -> Result<(ScheduledEvent, Vec<u8>), ClientError> {
        let request = proto::ScheduledEventLogRequest { number, watches: true };
        let reply = self.call(async |server| server.scheduled_event_log(request).await)?;
        let message = reply.event.ok_or_else(|| malformed("an event without content"))?;
        Ok((event(message), reply.log.into()))
    }

    /// Pauses, resumes or cancels all events of a schedule that have not ended, at one node or at
    /// all. Returns their number.
    pub fn control_events(
        &mut self,
        schedule: &str,
        node: Option<&str>,
        control: EventControl,
    ) -> Result<u64, ClientError> {
        let request = proto::ControlEventsRequest {
            schedule: schedule.to_owned(),
            node: node.unwrap_or_default().to_owned(),
            control: control.message().into(),
        };
        Ok(self.call(async |server| server.control_events(request).await)?.events)
    }
}

fn encode(definition: &Definition) -> Result<String, ClientError> {
    serde_json::to_string(definition)
        .map_err(|error| ClientError::new(ErrorKind::Bug, format!("a definition: {error}")))
}

fn malformed(what: &str) -> ClientError {
    ClientError::new(ErrorKind::Bug, format!("the server sent {what}"))
}

fn follower_message(follower: &Follower) -> proto::Follower {
    use proto::follower::Follower as Message;
    let follower = match follower.clone() {
        Follower::Node(name) => Message::Node(name),
        Follower::Label(label) => Message::Label(label),
        Follower::Domain(name) => Message::Domain(name),
    };
    proto::Follower { follower: Some(follower) }
}

fn polling_agent(message: proto::PollingAgent) -> PollingAgent {
    let proto::PollingAgent { node, last, minutes } = message;
    let last = ServerTime(last);
    PollingAgent { node, last, next: next_call(last, minutes) }
}

/// Returns the time of the next call at the latest of an agent that calls each `minutes`.
pub(super) fn next_call(last: ServerTime, minutes: u32) -> ServerTime {
    ServerTime(last.0.saturating_add(i64::from(minutes) * MINUTE_MICROS))
}

fn schedule(message: proto::Schedule) -> Result<Schedule, ClientError> {
    use proto::follower::Follower as Message;
    let follower = |message: proto::Follower| match message.follower? {
        Message::Node(name) => Some(Follower::Node(name)),
        Message::Label(label) => Some(Follower::Label(label)),
        Message::Domain(name) => Some(Follower::Domain(name)),
    };
    let definition = serde_json::from_str(&message.definition)
        .map_err(|error| malformed(&format!("a definition that cannot be read: {error}")))?;
    Ok(Schedule {
        name: message.name,
        definition,
        followers: message.followers.into_iter().filter_map(follower).collect(),
        domain: optional::text(message.domain),
        since: ServerTime(message.since),
        changed: ServerTime(message.changed),
        changed_by: message.changed_by,
    })
}

fn event(message: proto::ScheduledEvent) -> ScheduledEvent {
    ScheduledEvent {
        control: EventControl::parse(message.control()),
        number: message.number,
        schedule: message.schedule,
        planned: ServerTime(message.planned),
        node: optional::text(message.node),
        opens: ServerTime(message.opens),
        closes: ServerTime(message.closes),
        state: message.state,
        attempt: message.attempt,
        started: message.started.map(ServerTime),
        ended: message.ended.map(ServerTime),
        code: message.code,
        reason: message.reason,
        session: message.session,
        progress: message.progress,
        paused: message.paused.map(ServerTime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_of_its_domain_follow_a_schedule() {
        let node = |domain: &str| {
            let (name, domain) = ("web-1".to_owned(), domain.to_owned());
            let labels = vec!["web".to_owned()];
            Node::from(proto::NodeInfo { name, domain, labels, ..proto::NodeInfo::default() })
        };
        let definition = r#"{"action":{"work":"incremental"},"zone":"UTC","priority":5,
            "retries":0,"retry_pause_minutes":1,
            "timing":{"starts":{"once":0},"window_minutes":60,"spread_percent":0}}"#;
        let label = proto::follower::Follower::Label("web".to_owned());
        let message = |domain: &str| proto::Schedule {
            definition: definition.to_owned(),
            followers: vec![proto::Follower { follower: Some(label.clone()) }],
            domain: domain.to_owned(),
            ..proto::Schedule::default()
        };
        for (domain, of_lab, of_law) in [("", true, true), ("LAB", true, false)] {
            let schedule = schedule(message(domain)).expect("is read");
            let followed = ["LAB", "LAW"].map(|domain| schedule.is_followed_by(&node(domain)));
            assert_eq!(followed, [of_lab, of_law], "{domain}");
        }
    }
}

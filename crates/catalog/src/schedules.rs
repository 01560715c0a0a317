//! Schedules, the nodes that follow them, and their events.

use std::collections::BTreeSet;

use model::{DomainId, NodeId, NodeName, ServerTime};
use policy::schedule::Occurrence;
use policy::schedule::event::{EventState, Phase, Report};

use crate::{CatalogError, NodeSight};

/// A schedule. The catalogue does not interpret its definition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleRow {
    pub name: String,
    /// The definition, as JSON.
    pub body: String,
    /// Moment of the last change of the planned times. Earlier occurrences do not count.
    pub since: ServerTime,
    pub changed: ServerTime,
    /// Author of the last change.
    pub changed_by: String,
}

/// The nodes that follow a schedule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Follower {
    Node(NodeId),
    /// All nodes with this label.
    Label(String),
    /// All nodes of the domain.
    Domain(DomainId),
}

/// Association of a schedule with nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Association {
    pub schedule: String,
    pub follower: Follower,
    pub since: ServerTime,
}

/// The name of an event: no two events have the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventKey {
    pub schedule: String,
    pub planned: ServerTime,
    /// The node; `None` for work of the server itself.
    pub node: Option<NodeId>,
}

/// An occurrence of a schedule at a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduledEvent {
    pub number: u64,
    pub key: EventKey,
    /// Name of the node, if it still exists.
    pub node_name: Option<NodeName>,
    pub opens: ServerTime,
    pub closes: ServerTime,
    pub state: EventState,
    /// Number of the last attempt; 0 before the first.
    pub attempt: u32,
    pub started: Option<ServerTime>,
    pub ended: Option<ServerTime>,
    pub code: Option<u8>,
    /// Reason of the state, for people; empty if it needs none.
    pub reason: String,
    /// Report of the session as JSON; empty if there is none.
    pub report: String,
    /// Last wish of an administrator about the work, if there is one.
    pub control: Option<Control>,
    /// Time until which somebody looks at the event.
    pub watched: ServerTime,
    /// Last progress of the attempt as JSON; empty if nobody has looked.
    pub progress: String,
    /// Time since which the attempt pauses, as its node has confirmed it.
    pub paused: Option<ServerTime>,
}

/// Wish of an administrator about work that is under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Control {
    Pause,
    Resume,
    Cancel,
}

impl Control {
    /// All wishes. The catalogue numbers them from 1 in this order.
    pub const ALL: [Self; 3] = [Self::Pause, Self::Resume, Self::Cancel];
}

/// Selection of events; a field that is `None` or empty selects all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventFilter {
    pub node: Option<NodeId>,
    pub schedule: Option<String>,
    pub states: Vec<EventState>,
    /// First planned time.
    pub from: Option<ServerTime>,
    /// Last planned time.
    pub to: Option<ServerTime>,
    /// Only events with this wish.
    pub control: Option<Control>,
    /// Only events whose windows close after this time.
    pub closes_after: Option<ServerTime>,
    /// Only events whose windows close at this time or before.
    pub closes_by: Option<ServerTime>,
    /// True for work of the server itself only.
    pub is_of_server: bool,
    /// True for work of nodes only.
    pub is_of_nodes: bool,
    /// Only events that a caller sees.
    pub seen: Option<NodeSight>,
    /// Only events of nodes with this label.
    pub label: Option<String>,
    /// Only events of nodes of this domain.
    pub domain: Option<DomainId>,
    /// Only events of these schedules, by their exact names.
    pub schedules: Option<BTreeSet<String>>,
    /// Only events with this text in the name of the schedule, in the name of the node, or in the
    /// reason. Upper and lower case of ASCII letters are the same.
    pub text: Option<String>,
}

/// A report of a node, with what belongs to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventReport {
    pub key: EventKey,
    /// The window, for an event that the catalogue does not have yet.
    pub occurrence: Occurrence,
    pub report: Report,
    /// Time of the report by the node's record.
    pub at: ServerTime,
    /// Time at which the first attempt began, if the node knows it.
    pub began: Option<ServerTime>,
    /// Time since which the attempt pauses.
    pub paused: Option<ServerTime>,
    pub reason: String,
    /// Report of the session as JSON; empty if there is none.
    pub session: String,
    /// End of the log; empty if there is none.
    pub log: Vec<u8>,
}

impl EventReport {
    /// Returns true if the attempt works, or pauses.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self.report.phase, Phase::Began | Phase::Working)
    }
}

/// Progress of an attempt, as its node tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventProgress {
    pub key: EventKey,
    pub attempt: u32,
    /// Progress as JSON.
    pub document: String,
}

/// Schedules and events.
pub trait Schedules {
    /// All schedules, by name.
    fn schedules(&self) -> Result<Vec<ScheduleRow>, CatalogError>;

    /// Adds a schedule. Fails with `Exists` for a name that is taken, in upper or lower case.
    fn add_schedule(&self, schedule: &ScheduleRow) -> Result<(), CatalogError>;

    /// Replaces the schedule that was `found`. Fails with `NotFound` if its definition is another
    /// one now: it may have been removed, and its name be that of another schedule.
    fn change_schedule(
        &self,
        found: &ScheduleRow,
        schedule: &ScheduleRow,
    ) -> Result<(), CatalogError>;

    /// Removes the schedule that was `found` with its associations. Its events stay. Fails with
    /// `NotFound` if its definition is another one now.
    fn remove_schedule(&self, found: &ScheduleRow) -> Result<(), CatalogError>;

    /// All associations, by schedule.
    fn associations(&self) -> Result<Vec<Association>, CatalogError>;

    /// Associates the schedule that was `found` with nodes; an association that exists stays as it
    /// is. Fails with `NotFound` for an unknown node or domain, or if the definition of the
    /// schedule is another one now.
    fn associate(
        &self,
        found: &ScheduleRow,
        followers: &[Follower],
        since: ServerTime,
    ) -> Result<(), CatalogError>;

    /// Ends associations of the schedule that was `found`. Returns the number of those that there
    /// were. Fails with `NotFound` if the definition of the schedule is another one now.
    fn dissociate(
        &self,
        found: &ScheduleRow,
        followers: &[Follower],
    ) -> Result<usize, CatalogError>;

    /// The labels of all nodes, or of one.
    fn labels(&self, node: Option<NodeId>) -> Result<Vec<(NodeId, String)>, CatalogError>;

    /// The labels of all nodes, each with the time at which the node got it.
    fn label_times(&self) -> Result<Vec<(NodeId, String, ServerTime)>, CatalogError>;

    /// Gives labels to a node and takes labels from it. Fails with `NotFound` for an unknown node.
    fn change_labels(
        &self,
        node: NodeId,
        added: &[String],
        removed: &[String],
        now: ServerTime,
    ) -> Result<(), CatalogError>;

    /// At most `limit` events, the last opened first. The list begins with the event numbered
    /// `from`, or with the last event if `from` is `None`.
    fn scheduled_events(
        &self,
        filter: &EventFilter,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<ScheduledEvent>, CatalogError>;

    /// The event, and the end of its log.
    fn scheduled_event(
        &self,
        key: &EventKey,
    ) -> Result<Option<(ScheduledEvent, Vec<u8>)>, CatalogError>;

    /// Adds events whose windows have opened; those that exist stay as they are.
    fn open_events(&self, events: &[(EventKey, Occurrence)]) -> Result<(), CatalogError>;

    /// Records pending events as missed whose windows have closed. Returns their number.
    fn close_events(&self, now: ServerTime) -> Result<usize, CatalogError>;

    /// Records the reasons why nobody begins these events, which are given by their numbers. Events
    /// that are not in this state any more are passed over.
    fn explain_events(
        &self,
        state: EventState,
        reasons: &[(u64, String)],
    ) -> Result<(), CatalogError>;

    /// Records a report, which may be overtaken or have come before. An event of a node that was
    /// removed is not recorded.
    fn report_event(&self, report: &EventReport) -> Result<(), CatalogError>;

    /// Records the wish about an event. Fails with `NotFound` for an unknown event.
    fn control_event(&self, key: &EventKey, control: Control) -> Result<(), CatalogError>;

    /// Notes that somebody looks at these events until `until`. Unknown events are passed over.
    fn watch_events(&self, keys: &[EventKey], until: ServerTime) -> Result<(), CatalogError>;

    /// Events of nodes that work, at which somebody looks after `now`.
    fn watched_events(&self, now: ServerTime) -> Result<Vec<EventKey>, CatalogError>;

    /// Records the progress of attempts that have not ended. Others are passed over.
    fn put_progress(&self, progress: &[EventProgress]) -> Result<(), CatalogError>;

    /// Records that the connection to a node was lost while it worked.
    fn sever_events(&self, node: NodeId, now: ServerTime) -> Result<(), CatalogError>;

    /// Records as severed the events of nodes that work, and whose last report came before
    /// `before`. Returns their number.
    fn sever_silent_events(
        &self,
        before: ServerTime,
        now: ServerTime,
    ) -> Result<usize, CatalogError>;

    /// Records severed events as uncertain that were severed before `before`.
    fn give_events_up(&self, before: ServerTime) -> Result<usize, CatalogError>;

    /// Removes events that are planned after `after` and that nobody has begun. Returns their
    /// number.
    fn withdraw_events(&self, after: ServerTime) -> Result<usize, CatalogError>;

    /// Removes events that were planned before `before`, and the logs of completed events that were
    /// planned before `logs_before`.
    fn forget_events(
        &self,
        before: ServerTime,
        logs_before: ServerTime,
    ) -> Result<(), CatalogError>;
}

//! The call of a node's agent.

use std::path::Path;
use std::time::Duration;

use model::ServerTime;
use policy::schedule::Occurrence;
use policy::schedule::event::Phase;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use wire::proto;
use wire::proto::agent_message::Message;
use wire::proto::server_order::Order as OrderMessage;

use super::hello::received_set;
use super::{Connection, Link, greet};
use crate::error::{ClientError, ErrorKind, shortened};
use crate::node::home::{Home, Probes};
use crate::node::standing::ReceivedSet;

/// Maximum number of messages that wait for the network.
const MESSAGES_WAITING: usize = 16;

/// The name of an event of this node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventName {
    pub schedule: String,
    pub planned: ServerTime,
}

/// The state of an event by the node's record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventReport {
    pub event: EventName,
    pub occurrence: Occurrence,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    pub phase: Phase,
    pub at: ServerTime,
    /// Time at which the first attempt began, if that is known.
    pub began: Option<ServerTime>,
    /// Time since which the attempt pauses.
    pub paused: Option<ServerTime>,
    /// Reason for people; empty if it needs none.
    pub reason: String,
    /// Report of the session as JSON; empty if there is none.
    pub session: String,
    /// End of the log.
    pub log: Vec<u8>,
}

impl EventReport {
    /// Returns true if the attempt has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ended(_) | Phase::Interrupted)
    }
}

/// Progress of the task of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventProgress {
    pub event: EventName,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Progress as JSON.
    pub document: String,
}

/// All that the node has to do from now on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    pub digest: Vec<u8>,
    pub schedules: Vec<PlannedSchedule>,
    pub controls: Vec<(EventName, EventControl)>,
    /// Option set of the node; one without a name if it has none.
    pub option_set: ReceivedSet,
}

/// A schedule that the node follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedSchedule {
    pub name: String,
    /// Definition as JSON (`policy::schedule::Definition`).
    pub definition: String,
    /// Occurrences that are planned before this time are none of the node.
    pub since: ServerTime,
}

/// Wish of an administrator about an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventControl {
    Pause,
    Resume,
    Cancel,
}

impl EventControl {
    /// Parses a wish; `None` if this program does not know it.
    pub(crate) fn parse(message: proto::EventControl) -> Option<Self> {
        match message {
            proto::EventControl::Pause => Some(Self::Pause),
            proto::EventControl::Resume => Some(Self::Resume),
            proto::EventControl::Cancel => Some(Self::Cancel),
            proto::EventControl::Unspecified => None,
        }
    }

    pub(crate) fn message(self) -> proto::EventControl {
        match self {
            Self::Pause => proto::EventControl::Pause,
            Self::Resume => proto::EventControl::Resume,
            Self::Cancel => proto::EventControl::Cancel,
        }
    }
}

/// Message of the server to the agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    Plan(Plan),
    /// The report of this number is durable.
    Confirmed(u64),
    /// The server takes the report of this number never.
    Refused {
        number: u64,
        reason: String,
    },
    /// Somebody looks at these events for this time.
    Watch {
        events: Vec<EventName>,
        time: Duration,
    },
    /// The server asks whether this agent lives.
    Probe,
}

/// Identity of a running agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgentIdentity {
    /// Random bytes, which the agent makes at its start.
    pub instance: [u8; 16],
    /// Start of the machine, and the agent's folder. Only one agent at a time works there.
    pub place: [u8; 24],
}

/// Reason why an agent does not attend.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AttendError {
    /// The server refuses this agent while another agent of the node lives.
    #[error("{0}")]
    Rival(String),
    #[error(transparent)]
    Line(#[from] ClientError),
}

/// An open call of the agent.
pub struct AgentCall {
    pub messages: AgentMessages,
    pub orders: AgentOrders,
    /// Time by the server's clock when the call was opened.
    pub server_time: ServerTime,
}

/// Messages of the agent to the server.
pub struct AgentMessages(mpsc::Sender<proto::AgentMessage>);

/// Orders of the server to the agent.
pub struct AgentOrders(Streaming<proto::ServerOrder>);

impl AgentCall {
    /// Connects to a server of the node whose folder is `folder`, and returns after the server has
    /// admitted the agent. `plan_digest` is the digest of the plan that the agent has; it is empty
    /// if it has none.
    pub async fn open(
        folder: &Path,
        plan_digest: &[u8],
        identity: AgentIdentity,
        poll_minutes: u32,
    ) -> Result<Self, AttendError> {
        // Timers of this process would wake it several times a minute.
        let mut home = Home::load(folder)?;
        home.probes = Probes::Kernel;
        let Connection { mut client, reply, .. } = greet(&home).await?;
        let server_time = ServerTime(reply.now);
        let (messages, waiting) = mpsc::channel(MESSAGES_WAITING);
        let attendance = proto::Attendance {
            plan_digest: plan_digest.to_vec().into(),
            instance: identity.instance.to_vec().into(),
            place: identity.place.to_vec().into(),
            poll_minutes,
        };
        let first = proto::AgentMessage { message: Some(Message::Attendance(attendance)) };
        messages.send(first).await.map_err(|_| lost())?;
        let admitted = client.attend(ReceiverStream::new(waiting)).await;
        let orders = admitted.map_err(refusal)?.into_inner();
        let (messages, orders) = (AgentMessages(messages), AgentOrders(orders));
        Ok(Self { messages, orders, server_time })
    }
}

impl Link {
    /// Returns the schedules that the node follows, without those for one action; `None` from an
    /// older server.
    pub(crate) fn schedules(&self) -> Result<Option<Vec<PlannedSchedule>>, ClientError> {
        let request = proto::OwnSchedulesRequest {};
        match self.runtime.block_on(self.client().own_schedules(request)) {
            Ok(reply) => {
                let schedules = reply.into_inner().schedules;
                Ok(Some(schedules.into_iter().map(planned).collect()))
            }
            Err(status) if status.code() == Code::Unimplemented => Ok(None),
            Err(status) => Err(status.into()),
        }
    }
}

impl AgentOrders {
    /// Waits for the next order.
    pub async fn next(&mut self) -> Result<Order, ClientError> {
        loop {
            let order = self.0.message().await?.ok_or_else(lost)?;
            match order.order {
                Some(OrderMessage::Plan(message)) => return Ok(Order::Plan(plan(message))),
                Some(OrderMessage::Confirmed(number)) => return Ok(Order::Confirmed(number)),
                Some(OrderMessage::Refused(proto::RefusedReport { number, reason })) => {
                    return Ok(Order::Refused { number, reason });
                }
                Some(OrderMessage::Watch(proto::WatchedEvents { events, secs })) => {
                    let events = events.into_iter().map(event_name).collect();
                    return Ok(Order::Watch { events, time: Duration::from_secs(secs.into()) });
                }
                Some(OrderMessage::Probe(proto::Probe {})) => return Ok(Order::Probe),
                // An order of a newer server.
                None => {}
            }
        }
    }
}

impl AgentMessages {
    /// Sends a report, which the server confirms by its number.
    pub async fn report(&self, number: u64, report: &EventReport) -> Result<(), ClientError> {
        use proto::event_report::Phase as Message_;
        let (phase, code) = match report.phase {
            Phase::Began => (Message_::Began, 0),
            Phase::Working => (Message_::Working, 0),
            Phase::Ended(code) => (Message_::Ended, u32::from(code)),
            Phase::Interrupted => (Message_::Interrupted, 0),
        };
        let message = proto::EventReport {
            number,
            event: Some(proto::EventName {
                schedule: report.event.schedule.clone(),
                planned: report.event.planned.0,
            }),
            opens: report.occurrence.opens.0,
            closes: report.occurrence.closes.0,
            attempt: report.attempt,
            phase: phase.into(),
            code,
            at: report.at.0,
            began: report.began.map_or(0, |time| time.0),
            paused: report.paused.map_or(0, |time| time.0),
            reason: report.reason.clone(),
            session: report.session.clone(),
            log: report.log.clone().into(),
        };
        self.send(Message::Report(message)).await
    }

    /// Sends the progress of a task, which the server may drop.
    pub async fn progress(&self, progress: EventProgress) -> Result<(), ClientError> {
        let EventProgress { event, attempt, document } = progress;
        let event = proto::EventName { schedule: event.schedule, planned: event.planned.0 };
        let message = proto::EventProgress { event: Some(event), attempt, document };
        self.send(Message::Progress(message)).await
    }

    /// Tells what keeps the node from beginning an event. The server may drop it.
    pub async fn obstacle(&self, event: EventName, reason: String) -> Result<(), ClientError> {
        let event = proto::EventName { schedule: event.schedule, planned: event.planned.0 };
        let message = proto::EventObstacle { event: Some(event), reason };
        self.send(Message::Obstacle(message)).await
    }

    /// Answers a probe.
    pub async fn alive(&self) -> Result<(), ClientError> {
        self.send(Message::Alive(proto::Alive {})).await
    }

    async fn send(&self, message: Message) -> Result<(), ClientError> {
        let message = proto::AgentMessage { message: Some(message) };
        self.0.send(message).await.map_err(|_| lost())
    }
}

fn refusal(status: Status) -> AttendError {
    match status.code() {
        Code::AlreadyExists => AttendError::Rival(shortened(status.message().to_owned())),
        _ => AttendError::Line(status.into()),
    }
}

fn lost() -> ClientError {
    ClientError::new(ErrorKind::Retry, "the connection to the server is lost")
}

fn event_name(event: proto::EventName) -> EventName {
    EventName { schedule: event.schedule, planned: ServerTime(event.planned) }
}

fn planned(message: proto::PlannedSchedule) -> PlannedSchedule {
    let proto::PlannedSchedule { name, definition, since } = message;
    PlannedSchedule { name, definition, since: ServerTime(since) }
}

/// Parses a plan. What this program does not understand is left out.
fn plan(message: proto::Plan) -> Plan {
    let control = |planned: proto::PlannedControl| {
        let control = EventControl::parse(planned.control())?;
        Some((event_name(planned.event?), control))
    };
    Plan {
        digest: message.digest.into(),
        schedules: message.schedules.into_iter().map(planned).collect(),
        controls: message.controls.into_iter().filter_map(control).collect(),
        option_set: message.option_set.as_ref().map(received_set).unwrap_or_default(),
    }
}

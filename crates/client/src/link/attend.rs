//! The call of a node's agent.

use std::path::Path;

use model::ServerTime;
use policy::schedule::Occurrence;
use policy::schedule::event::Phase;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use wire::proto;
use wire::proto::agent_message::Message;
use wire::proto::server_order::Order as OrderMessage;

use super::{Connection, greet};
use crate::error::{ClientError, ErrorKind};
use crate::node::home::Home;

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

/// All that the node has to do from now on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    pub digest: Vec<u8>,
    pub schedules: Vec<PlannedSchedule>,
    pub controls: Vec<(EventName, EventControl)>,
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

/// Message of the server to the agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    Plan(Plan),
    /// The report of this number is durable.
    Confirmed(u64),
}

/// An open call of the agent.
pub struct AgentCall {
    messages: mpsc::Sender<proto::AgentMessage>,
    orders: Streaming<proto::ServerOrder>,
    /// Lead of the server's clock over this machine's, in microseconds.
    pub clock_lead_micros: i64,
}

impl AgentCall {
    /// Connects to a server of the node whose folder is `folder`. `plan_digest` is the digest of
    /// the plan that the agent has; it is empty if it has none.
    pub async fn open(folder: &Path, plan_digest: &[u8]) -> Result<Self, ClientError> {
        let home = Home::load(folder)?;
        let Connection { mut client, reply, .. } = greet(&home).await?;
        let clock_lead_micros = reply.now.saturating_sub(sys::clock::system().0);
        let (messages, waiting) = mpsc::channel(MESSAGES_WAITING);
        let attendance = proto::Attendance { plan_digest: plan_digest.to_vec().into() };
        let first = proto::AgentMessage { message: Some(Message::Attendance(attendance)) };
        messages.send(first).await.map_err(|_| lost())?;
        let orders = client.attend(ReceiverStream::new(waiting)).await?.into_inner();
        Ok(Self { messages, orders, clock_lead_micros })
    }

    /// Waits for the next order.
    pub async fn order(&mut self) -> Result<Order, ClientError> {
        loop {
            let order = self.orders.message().await?.ok_or_else(lost)?;
            match order.order {
                Some(OrderMessage::Plan(message)) => return Ok(Order::Plan(plan(message))),
                Some(OrderMessage::Confirmed(number)) => return Ok(Order::Confirmed(number)),
                // An order of a newer server.
                None => {}
            }
        }
    }

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
            reason: report.reason.clone(),
            session: report.session.clone(),
            log: report.log.clone().into(),
        };
        let message = proto::AgentMessage { message: Some(Message::Report(message)) };
        self.messages.send(message).await.map_err(|_| lost())
    }
}

fn lost() -> ClientError {
    ClientError::new(ErrorKind::Retry, "the connection to the server is lost")
}

/// Parses a plan. What this program does not understand is left out.
fn plan(message: proto::Plan) -> Plan {
    let name = |event: proto::EventName| EventName {
        schedule: event.schedule,
        planned: ServerTime(event.planned),
    };
    let control = |planned: proto::PlannedControl| {
        let control = match planned.control() {
            proto::EventControl::Pause => EventControl::Pause,
            proto::EventControl::Resume => EventControl::Resume,
            proto::EventControl::Cancel => EventControl::Cancel,
            proto::EventControl::Unspecified => return None,
        };
        Some((name(planned.event?), control))
    };
    let schedule = |planned: proto::PlannedSchedule| PlannedSchedule {
        name: planned.name,
        definition: planned.definition,
        since: ServerTime(planned.since),
    };
    Plan {
        digest: message.digest.into(),
        schedules: message.schedules.into_iter().map(schedule).collect(),
        controls: message.controls.into_iter().filter_map(control).collect(),
    }
}

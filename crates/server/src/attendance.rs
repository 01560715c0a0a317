//! Agents that are connected: each gets the plan of its node, and reports its events.
//!
//! ```text
//!  agent -- attendance ----------> admit  (one agent of each node, see attendances)
//!        -- reports -------------> serve --> catalogue
//!        <-- plan, confirmations --   ^
//!                                     |-- generation of the schedules (watch)
//!                                     `-- events at which somebody looks (watch)
//! ```
//!
//! A report that the server never takes is refused by its number, so that the agent sets it aside
//! and the others get through. The agent repeats what could not be recorded for another reason.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use catalog::postgres::Attendant;
use catalog::{EventKey, Node};
use prost::Message as _;
use store::{Store, StoreError};
use store::{option_sets, schedules};
use tokio::sync::{mpsc, oneshot, watch};
use tonic::{Status, Streaming};
use wire::proto;
use wire::proto::agent_message::Message;
use wire::proto::server_order::Order;

use crate::attendances::{Admission, Audience, Newcomer};
use crate::edge::Edge;
use crate::gate::Caller;
use crate::messages::schedules as forms;
use crate::refusal;
use crate::stop::stopped;
use crate::succession::AgentIdentity;

/// Time for which one order makes an agent tell the progress of events, and the pause before the
/// order is given again.
const WATCH: Duration = Duration::from_secs(30);
const WATCH_RENEWAL: Duration = Duration::from_secs(10);

/// Time in which an agent must answer a probe. Otherwise it counts as dead.
const PROBE_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum length of an agent's identity, and of the digest of its plan, in bytes.
const IDENTITY_BYTES_MAX: usize = 64;

/// Sender of orders to an agent.
type Orders = mpsc::Sender<Result<proto::ServerOrder, Status>>;

/// An agent that was admitted.
pub(crate) struct AdmittedAgent {
    admission: Admission,
    /// Digest of the plan that the agent has.
    plan_digest: Bytes,
    /// Minutes between two calls of the agent; 0 if it stays connected.
    poll_minutes: u32,
}

/// Admits the agent that calls from `address`. Refuses it while another agent of its node lives.
pub(crate) async fn admit(
    edge: &Arc<Edge>,
    node: &Node,
    address: IpAddr,
    messages: &mut Streaming<proto::AgentMessage>,
) -> Result<AdmittedAgent, Status> {
    let mut stop = edge.stop.clone();
    let first = tokio::select! {
        first = messages.message() => first?,
        () = stopped(&mut stop) => return Err(stopping()),
    };
    let Some(Message::Attendance(attendance)) = first.and_then(|first| first.message) else {
        return Err(Status::invalid_argument("an agent begins with an attendance"));
    };
    let proto::Attendance { plan_digest, instance, place, poll_minutes } = attendance;
    if plan_digest.len().max(instance.len()).max(place.len()) > IDENTITY_BYTES_MAX {
        return Err(Status::invalid_argument("the identity of the agent is too long"));
    }
    let identity = AgentIdentity { instance, place };
    let identity = Some(identity).filter(|identity| !identity.instance.is_empty());
    let newcomer = Newcomer { node: node.id, identity, address };
    let claim = |dead| edge.attendances.claim(&newcomer, dead, sys::clock::monotonic());
    let rival = match claim(None) {
        Ok(admission) => {
            if let Some(copy) = admission.copy {
                note_copy(edge, node, copy, &address.to_string()).await;
            }
            settle(edge, node, &newcomer, &admission).await?;
            return Ok(AdmittedAgent { admission, plan_digest, poll_minutes });
        }
        Err(rival) => rival,
    };
    let probed = tokio::time::timeout(PROBE_PATIENCE, rival.answers()).await;
    let dead = rival.number.filter(|_| !probed.unwrap_or(false));
    if let Some(Ok(admission)) = dead.map(|dead| claim(Some(dead))) {
        tracing::info!(node = %node.name, %address, "an agent replaces one that is silent");
        settle(edge, node, &newcomer, &admission).await?;
        return Ok(AdmittedAgent { admission, plan_digest, poll_minutes });
    }
    let known = rival.address.to_string();
    Err(refuse_rival(edge, node, address, (known.as_str(), rival.is_new)).await)
}

/// Records in the catalogue that an agent attends here. Refuses it if another agent of its node
/// attends at another server.
async fn settle(
    edge: &Arc<Edge>,
    node: &Node,
    newcomer: &Newcomer,
    admission: &Admission,
) -> Result<(), Status> {
    let Some(AgentIdentity { place, .. }) = newcomer.identity.clone() else {
        schedules::attend_without_place(&edge.store, node.id, admission.number);
        return Ok(());
    };
    let (id, number, address) = (node.id, admission.number, newcomer.address);
    let attended = blocking(&edge.store, move |store| {
        let address = address.to_string();
        let agent = Attendant { node: id, number, place: &place, address: &address };
        schedules::attend(store, &agent)
    });
    let refusal = match attended.await {
        Ok(None) => return Ok(()),
        Ok(Some(known)) => {
            let now = sys::clock::monotonic();
            let is_new = edge.attendances.note_refusal(id, address, now);
            refuse_rival(edge, node, address, (known.as_str(), is_new)).await
        }
        Err(status) => status,
    };
    edge.attendances.end(admission, sys::clock::monotonic());
    Err(refusal)
}

/// Returns the refusal of an agent at `address` while the agent at `known` lives. Notes it in the
/// audit trail if it `is_new`.
async fn refuse_rival(
    edge: &Arc<Edge>,
    node: &Node,
    address: IpAddr,
    (known, is_new): (&str, bool),
) -> Status {
    let name = &node.name;
    if is_new {
        note_copy(edge, node, address, known).await;
    }
    Status::already_exists(format!(
        "another agent of node {name} lives, at {known}; if this is another machine, its folder is \
         a copy: enrol it as a node of its own with 'holdfast enroll'"
    ))
}

/// Notes in the audit trail that the agent at `copy` is refused while the one at `known` lives.
async fn note_copy(edge: &Arc<Edge>, node: &Node, copy: IpAddr, known: &str) {
    let name = &node.name;
    tracing::warn!(node = %name, known, %copy, "a second agent is refused");
    let details = format!(
        "{name} at {copy}, because its agent at {known} lives; if these are two machines, one has \
         a copy of the other's folder: enrol it as a node of its own"
    );
    let noted = blocking(&edge.store, move |store| store.record("second agent refused", details));
    if let Err(status) = noted.await {
        tracing::warn!(error = status.message(), "cannot record this in the audit trail");
    }
}

/// Serves the call of an agent until it ends.
pub(crate) async fn serve(
    edge: Arc<Edge>,
    caller: Caller,
    agent: AdmittedAgent,
    mut messages: Streaming<proto::AgentMessage>,
    orders: Orders,
) {
    let node = caller.node.clone();
    let AdmittedAgent { mut admission, plan_digest, poll_minutes } = agent;
    schedules::note_poll(&edge.store, node.id, admission.number, poll_minutes);
    let mut changes = Changes {
        stop: edge.stop.clone(),
        generation: edge.attendances.subscribe(),
        watched: edge.attendances.subscribe_watched(),
        own: Vec::new(),
        known: plan_digest,
        asked: Vec::new(),
    };
    tracing::debug!(node = %node.name, "agent connected");
    let ended = {
        let call = Call { edge: &edge, node: &node, orders: &orders };
        call.attend(&mut messages, &mut admission, &mut changes).await
    };
    if let Err(status) = ended {
        // The send fails only if the agent has disconnected.
        drop(orders.send(Err(status)).await);
    }
    tracing::debug!(node = %node.name, "agent disconnected");
    let is_last = edge.attendances.end(&admission, sys::clock::monotonic());
    if edge.store.stopping.load(Ordering::Relaxed) {
        return;
    }
    let number = admission.number;
    let recorded = blocking(&edge.store, move |store| {
        if schedules::end_attendance(store, node.id, number)? && is_last {
            schedules::sever(store, node.id)?;
        }
        Ok(())
    });
    if let Err(status) = recorded.await {
        tracing::warn!(error = status.message(), "cannot record that an agent is gone");
        edge.attendances.note_unended([(node.id, number)]);
    }
}

/// Changes of which the agent learns.
struct Changes {
    /// The signal to stop the server.
    stop: watch::Receiver<bool>,
    generation: watch::Receiver<i64>,
    watched: watch::Receiver<Audience>,
    /// Events of the node at which somebody looks.
    own: Vec<EventKey>,
    /// Digest of the plan that the agent has.
    known: Bytes,
    /// Senders of answers to probes that the agent has not answered.
    asked: Vec<oneshot::Sender<()>>,
}

/// The call of an agent.
struct Call<'a> {
    edge: &'a Arc<Edge>,
    node: &'a Node,
    orders: &'a Orders,
}

impl Call<'_> {
    async fn attend(
        &self,
        messages: &mut Streaming<proto::AgentMessage>,
        admission: &mut Admission,
        changes: &mut Changes,
    ) -> Result<(), Status> {
        let Self { edge, node, orders } = *self;
        changes.generation.mark_unchanged();
        changes.watched.mark_changed();
        changes.known = send_plan(edge, node, changes.known.clone(), orders).await?;
        loop {
            tokio::select! {
                message = messages.message() => {
                    let Some(message) = message? else { return Ok(()) };
                    self.take(message, changes).await?;
                }
                Some(answer) = admission.probes.recv() => {
                    changes.asked.push(answer);
                    send(orders, Order::Probe(proto::Probe {})).await?;
                }
                () = admission.replaced.notified() => {
                    return Err(Status::aborted("another agent of this node has taken its place"));
                }
                changed = changes.watched.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let watched = Arc::clone(&changes.watched.borrow_and_update());
                    let own = watched.get(&node.id).cloned().unwrap_or_default();
                    if own != changes.own {
                        changes.own = own;
                        send_watch(&changes.own, orders).await?;
                    }
                }
                () = tokio::time::sleep(WATCH_RENEWAL), if !changes.own.is_empty() => {
                    send_watch(&changes.own, orders).await?;
                }
                changed = changes.generation.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    changes.known = send_plan(edge, node, changes.known.clone(), orders).await?;
                }
                // The agent connects again by itself.
                () = stopped(&mut changes.stop) => return Err(stopping()),
            }
        }
    }

    /// Takes a message of the agent.
    async fn take(
        &self,
        message: proto::AgentMessage,
        changes: &mut Changes,
    ) -> Result<(), Status> {
        match message.message {
            Some(Message::Report(report)) => {
                take_report(self.edge, self.node, report, self.orders).await?;
            }
            Some(Message::Progress(progress)) => take_progress(self.edge, self.node, progress),
            Some(Message::Obstacle(obstacle)) => {
                take_obstacle(self.edge, self.node, obstacle).await;
            }
            Some(Message::Alive(proto::Alive {})) => {
                // A caller that does not wait any more needs no answer.
                for answer in changes.asked.drain(..) {
                    answer.send(()).ok();
                }
            }
            // A second attendance, or a message of a newer agent.
            Some(Message::Attendance(_)) | None => {}
        }
        Ok(())
    }
}

fn stopping() -> Status {
    Status::unavailable("the server stops")
}

/// Sends the node's plan unless the agent has it. Returns the digest of the plan.
async fn send_plan(
    edge: &Edge,
    node: &Node,
    known: Bytes,
    orders: &Orders,
) -> Result<Bytes, Status> {
    let name = node.name.clone();
    let plan = blocking(&edge.store, move |store| {
        // The domain may have changed since the agent connected.
        let node = store.catalog.node(&name)?;
        let option_set = option_sets::of_node(store, &node)?;
        Ok((schedules::plan_of(store, &node)?, option_set))
    });
    let (plan, option_set) = plan.await?;
    let mut plan = forms::plan(plan);
    // The agent has no use for the statements, which may be long.
    plan.option_set = option_set.map(|set| proto::OptionSet {
        text: Bytes::new(),
        ..crate::messages::option_sets::of_node(Some(set))
    });
    let digest: Bytes = blake3::hash(&plan.encode_to_vec()).as_bytes().to_vec().into();
    if digest == known {
        return Ok(known);
    }
    plan.digest = digest.clone();
    send(orders, Order::Plan(plan)).await?;
    Ok(digest)
}

/// Makes the agent tell the progress of these events for a while.
async fn send_watch(keys: &[EventKey], orders: &Orders) -> Result<(), Status> {
    let name = |key: &EventKey| proto::EventName {
        schedule: key.schedule.clone(),
        planned: key.planned.0,
    };
    let events = keys.iter().map(name).collect();
    let secs = u32::try_from(WATCH.as_secs()).expect("a short time");
    send(orders, Order::Watch(proto::WatchedEvents { events, secs })).await
}

/// Takes the progress of an event; what is malformed is dropped.
fn take_progress(edge: &Edge, node: &Node, progress: proto::EventProgress) {
    match forms::progress(node, progress) {
        Some(progress) => edge.attendances.note_progress(progress),
        None => tracing::debug!(node = %node.name, "the progress of an event is malformed"),
    }
}

/// Records what keeps the node from beginning an event. The agent tells it again each minute.
async fn take_obstacle(edge: &Edge, node: &Node, obstacle: proto::EventObstacle) {
    let Some((key, reason)) = forms::obstacle(node, obstacle) else {
        tracing::debug!(node = %node.name, "the obstacle of an event is malformed");
        return;
    };
    let noted = blocking(&edge.store, move |store| schedules::note_obstacle(store, &key, &reason));
    if let Err(status) = noted.await {
        tracing::warn!(error = status.message(), "cannot record why an event does not begin");
    }
}

/// Records a report and confirms it, or refuses it for good.
async fn take_report(
    edge: &Edge,
    node: &Node,
    report: proto::EventReport,
    orders: &Orders,
) -> Result<(), Status> {
    let number = report.number;
    let report = match forms::report(node, report) {
        Ok(report) => report,
        Err(error) => return refuse(node, number, &error, orders).await,
    };
    tracing::info!(
        node = %node.name,
        schedule = report.key.schedule,
        phase = report.report.phase.name(),
        code = report.report.phase.code(),
        "event reported"
    );
    let store = Arc::clone(&edge.store);
    let recorded = tokio::task::spawn_blocking(move || schedules::report(&store, &report)).await;
    match recorded.map_err(|_| refusal::panicked())? {
        Ok(()) => send(orders, Order::Confirmed(number)).await,
        Err(error) if error.is_for_good() => refuse(node, number, &error, orders).await,
        Err(error) => Err(refusal::status(error)),
    }
}

/// Tells the agent that its report is never taken.
async fn refuse(
    node: &Node,
    number: u64,
    error: &StoreError,
    orders: &Orders,
) -> Result<(), Status> {
    tracing::warn!(node = %node.name, %error, "the report of an event is refused");
    let reason = error.to_string();
    send(orders, Order::Refused(proto::RefusedReport { number, reason })).await
}

async fn send(orders: &Orders, order: Order) -> Result<(), Status> {
    let order = proto::ServerOrder { order: Some(order) };
    orders
        .send(Ok(order))
        .await
        .map_err(|_| Status::cancelled("the agent has disconnected"))
}

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(
    store: &Arc<Store>,
    work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Status> {
    let store = Arc::clone(store);
    let joined = tokio::task::spawn_blocking(move || work(&store)).await;
    joined.map_err(|_| refusal::panicked())?.map_err(refusal::status)
}

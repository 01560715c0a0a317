//! Agents that are connected: each gets the plan of its node, and reports its events.
//!
//! ```text
//!  agent -- attendance, reports --> serve --> catalogue
//!        <-- plan, confirmations --   ^
//!                                     `-- generation of the schedules (watch)
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use catalog::Node;
use prost::Message as _;
use store::schedules;
use store::{Store, StoreError};
use tokio::sync::{mpsc, watch};
use tonic::{Status, Streaming};
use wire::proto;
use wire::proto::agent_message::Message;
use wire::proto::server_order::Order;

use crate::edge::Edge;
use crate::gate::Caller;
use crate::messages::schedules as forms;
use crate::refusal;

/// Sender of orders to an agent.
type Orders = mpsc::Sender<Result<proto::ServerOrder, Status>>;

/// Serves the call of an agent until it ends.
pub(crate) async fn serve(
    edge: Arc<Edge>,
    caller: Caller,
    mut messages: Streaming<proto::AgentMessage>,
    orders: Orders,
) {
    let node = caller.node.clone();
    let number = edge.attendances.begin(node.id);
    let mut generation = edge.attendances.subscribe();
    tracing::debug!(node = %node.name, "agent connected");
    let ended = attend(&edge, &node, &mut messages, &orders, &mut generation).await;
    if let Err(status) = ended {
        // The send fails only if the agent has disconnected.
        drop(orders.send(Err(status)).await);
    }
    tracing::debug!(node = %node.name, "agent disconnected");
    let is_stopping = edge.store.stopping.load(Ordering::Relaxed);
    if is_stopping || !edge.attendances.is_last(node.id, number) {
        return;
    }
    let severed = blocking(&edge.store, move |store| schedules::sever(store, node.id)).await;
    if let Err(status) = severed {
        tracing::warn!(error = status.message(), "cannot record that an agent is gone");
    }
}

async fn attend(
    edge: &Arc<Edge>,
    node: &Node,
    messages: &mut Streaming<proto::AgentMessage>,
    orders: &Orders,
    generation: &mut watch::Receiver<i64>,
) -> Result<(), Status> {
    let first = messages.message().await?;
    let Some(Message::Attendance(attendance)) = first.and_then(|first| first.message) else {
        return Err(Status::invalid_argument("an agent begins with an attendance"));
    };
    let mut known = attendance.plan_digest;
    generation.mark_unchanged();
    known = send_plan(edge, node, known, orders).await?;
    loop {
        tokio::select! {
            message = messages.message() => {
                let Some(message) = message? else { return Ok(()) };
                if let Some(Message::Report(report)) = message.message {
                    take_report(edge, node, report, orders).await?;
                }
            }
            changed = generation.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                known = send_plan(edge, node, known, orders).await?;
            }
        }
    }
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
        schedules::plan_of(store, &node)
    });
    let mut plan = forms::plan(plan.await?);
    let digest: Bytes = blake3::hash(&plan.encode_to_vec()).as_bytes().to_vec().into();
    if digest == known {
        return Ok(known);
    }
    plan.digest = digest.clone();
    send(orders, Order::Plan(plan)).await?;
    Ok(digest)
}

/// Records a report and confirms it.
async fn take_report(
    edge: &Edge,
    node: &Node,
    report: proto::EventReport,
    orders: &Orders,
) -> Result<(), Status> {
    let number = report.number;
    let report = forms::report(node, report).map_err(refusal::status)?;
    tracing::info!(
        node = %node.name,
        schedule = report.key.schedule,
        phase = ?report.report.phase,
        "event reported"
    );
    blocking(&edge.store, move |store| schedules::report(store, &report)).await?;
    send(orders, Order::Confirmed(number)).await
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

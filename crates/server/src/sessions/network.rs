//! Measurements of the network: bytes that are counted and dropped, and bytes that nobody needs.
//! No thread works for them, and each ends after some seconds whatever the client does.

use std::sync::Arc;

use store::StoreError;
use tokio::sync::mpsc;
use tokio::time::{timeout, timeout_at};
use tonic::{Status, Streaming};
use wire::network::{Count, MEASURED_STREAMS_MAX, Meter};
use wire::proto;

use super::stream::{self, REPLIES_WAITING, ReplyStream};
use crate::edge::Edge;
use crate::gate::Caller;
use crate::limits::refused;
use crate::measurements::{Holder, StreamRight, Times};
use crate::origin::Origin;
use crate::quota::Excess;
use crate::refusal;

type Pieces = Streaming<proto::MeasureToServerRequest>;

/// Counts the bytes of a client until it ends, or until the time is over that its first message
/// names.
pub(super) async fn take(
    edge: &Edge,
    caller: &Caller,
    mut pieces: Pieces,
) -> Result<proto::MeasureToServerReply, Status> {
    let first = stream::opening(pieces.message()).await?;
    let first = first.ok_or_else(|| malformed("a measurement must have a message"))?;
    let _right = enter(edge, caller)?;
    let times = Times::parse(first.millis, first.lead_millis);
    let mut meter = Meter::new(times.lead);
    let mut now = sys::clock::monotonic();
    let ends = now + times.each;
    meter.arrive(now, first.data.len());
    // A client that is fast enough lets no time limit come to its turn.
    while now < ends {
        let Ok(piece) = timeout_at(ends.into(), pieces.message()).await else { break };
        let Some(piece) = piece? else { break };
        now = sys::clock::monotonic();
        meter.arrive(now, piece.data.len());
    }
    let Count { bytes, micros } = meter.count();
    Ok(proto::MeasureToServerReply { bytes, micros })
}

/// Sends bytes to a client for the time that it asks for.
pub(super) fn give(
    edge: &Edge,
    caller: Caller,
    request: proto::MeasureFromServerRequest,
) -> Result<ReplyStream<proto::MeasureFromServerReply>, Status> {
    let right = enter(edge, &caller)?;
    let (replies, receiver) = mpsc::channel(REPLIES_WAITING);
    let (mut load, times) = (edge.measurements.load(), Times::parse(request.millis, 0));
    let of_body = Some(Arc::clone(&caller.right));
    tokio::spawn(async move {
        let sending = async {
            let mut is_sent = true;
            while is_sent {
                let reply = proto::MeasureFromServerReply { data: load.piece() };
                is_sent = replies.send(Ok(reply)).await.is_ok();
            }
        };
        // The time ends for a client that takes nothing, too.
        _ = timeout(times.each, sending).await;
        drop((right, caller));
    });
    Ok(stream::body(of_body, receiver))
}

/// Makes a ticket for plain connections from `origin`.
pub(super) fn ticket(
    edge: &Edge,
    caller: &Caller,
    origin: Origin,
    request: proto::MeasurePlainRequest,
) -> Result<proto::MeasurePlainReply, Status> {
    let connections = request.connections as usize;
    if !(1..=MEASURED_STREAMS_MAX).contains(&connections) {
        return Err(malformed(&format!(
            "a measurement must have from 1 to {MEASURED_STREAMS_MAX} connections"
        )));
    }
    let holder = Holder { node: caller.node.id, serial: caller.serial.clone(), origin };
    let times = Times::parse(request.millis, request.lead_millis);
    let ticket = edge.measurements.issue(holder, connections, times, sys::clock::monotonic());
    let ticket = ticket.map_err(|excess| too_many(caller, excess))?;
    Ok(proto::MeasurePlainReply { ticket: ticket.to_vec().into() })
}

fn enter(edge: &Edge, caller: &Caller) -> Result<StreamRight, Status> {
    let entered = edge.measurements.enter(caller.node.id, sys::clock::monotonic());
    entered.map_err(|excess| too_many(caller, excess))
}

fn malformed(what: &str) -> Status {
    refusal::status(StoreError::malformed(what))
}

fn too_many(caller: &Caller, excess: Excess) -> Status {
    refused(&caller.node.name, excess, "measurements of the network", "try again in a minute")
}

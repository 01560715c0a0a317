//! Plain TCP connections on the port of the nodes, by which a node measures the cost of TLS.
//!
//! The first byte of a connection tells TLS from a plain connection. A plain connection carries a
//! preamble with a ticket, and then random bytes in one direction for a limited time. A connection
//! without a good ticket is closed without an answer. The bytes are described in
//! [`wire::network`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use wire::network::{Direction, Load, Meter, PIECE_BYTES, PLAIN_MAGIC, PREAMBLE_BYTES, Preamble};

use crate::connection::Stranger;
use crate::edge::Edge;
use crate::gate::{OPEN, admitted};
use crate::identities::Cutter;
use crate::measurements::{Admission, Times};

/// Time that a connection has beyond the time that it measures: for its first byte, and for the
/// bytes that are on their way at the end.
const GRACE: Duration = Duration::from_secs(10);

/// Waits for the first byte. Returns true if it may be that of a plain connection.
pub(crate) async fn is_announced(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    Ok(stream.peek(&mut first).await? == 1 && first[0] == PLAIN_MAGIC[0])
}

/// Serves a plain connection, whose preamble must come until `deadline`.
pub(crate) async fn serve(stranger: Stranger, edge: &Arc<Edge>, deadline: Instant) {
    let Stranger { mut stream, address, entry } = stranger;
    let Ok(Ok(Some(preamble))) = timeout_at(deadline, preamble(&mut stream)).await else {
        return tracing::debug!(%address, "a plain connection has no preamble");
    };
    let (origin, now) = (*entry.guest.holder(), sys::clock::monotonic());
    let Some(admission) = edge.measurements.redeem(&preamble.ticket, origin, now) else {
        return tracing::debug!(%address, "a plain connection has no good ticket");
    };
    let Admission { holder, times, right: _right } = admission;
    let Ok(_connection) = edge.limits.node_connections().take(holder.node) else { return };
    drop(entry.guest);
    let cutter = Arc::new(Cutter::default());
    edge.identities.attach(holder.node, (&holder.serial, address), &cutter);
    // The node may have been locked since it got its ticket.
    if !is_admitted(edge, holder.serial).await {
        return;
    }
    let transfer = async {
        match preamble.direction {
            Direction::ToServer => sink(stream, times).await,
            Direction::FromServer => source(stream, times.each, edge.measurements.load()).await,
        }
    };
    let ended = tokio::select! {
        () = cutter.ended() => return,
        ended = timeout(times.each + GRACE, transfer) => ended,
    };
    if !matches!(ended, Ok(Ok(()))) {
        tracing::debug!(%address, "a plain connection ended early");
    }
}

async fn preamble(stream: &mut TcpStream) -> io::Result<Option<Preamble>> {
    let mut bytes = [0; PREAMBLE_BYTES];
    stream.read_exact(&mut bytes).await?;
    Ok(Preamble::decode(&bytes))
}

async fn is_admitted(edge: &Arc<Edge>, serial: Vec<u8>) -> bool {
    let edge = Arc::clone(edge);
    let finding = move || admitted(&edge.store, &serial, OPEN).is_ok();
    tokio::task::spawn_blocking(finding).await.unwrap_or(false)
}

/// Takes bytes until the client ends or the time is over, and answers with their count.
async fn sink(mut stream: TcpStream, times: Times) -> io::Result<()> {
    let mut meter = Meter::new(times.lead);
    let mut buffer = vec![0; PIECE_BYTES];
    let mut bytes = stream.read(&mut buffer).await?;
    let mut now = sys::clock::monotonic();
    let ends = now + times.each;
    while bytes > 0 && now < ends {
        meter.arrive(now, bytes);
        let Ok(more) = timeout_at(ends.into(), stream.read(&mut buffer)).await else { break };
        (bytes, now) = (more?, sys::clock::monotonic());
    }
    stream.write_all(&meter.count().encode()).await?;
    stream.shutdown().await?;
    // A connection that is closed while bytes arrive is reset, and the answer may be lost.
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

/// Sends bytes until the time is over.
async fn source(mut stream: TcpStream, each: Duration, mut load: Load) -> io::Result<()> {
    let sending = async {
        loop {
            stream.write_all(&load.piece()).await?;
        }
    };
    match timeout(each, sending).await {
        Ok(ended) => ended,
        Err(_) => stream.shutdown().await,
    }
}

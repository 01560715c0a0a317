//! The queue of requests for packs on volumes.

use std::time::Duration;

use model::ServerTime;
use wire::proto;

use super::connection::Admin;
use super::optional;
use super::words::words;
use crate::ClientError;
use crate::link::portions::{self, Section};

words!(
    /// Kind of a request for packs on volumes.
    RequestKind(proto::tape_wait::Kind) {
        /// A program reads a migrated file.
        Open = "open",
        /// A list of files is recalled.
        List = "list",
        Restore = "restore",
        /// The server itself needs the packs.
        Server = "server",
    }
);

/// A request that waits for packs on volumes.
#[derive(Clone, Debug)]
pub struct QueuedRequest {
    pub number: u64,
    pub kind: RequestKind,
    /// Node and user that wait for the packs; `None` for the server itself.
    pub requester: Option<Requester>,
    /// Name of the program that waits, as the node gives it.
    pub program: Option<String>,
    pub since: ServerTime,
    /// Volume of the last pack of the request, if it is known.
    pub volume: Option<String>,
    pub packs: u64,
    pub packs_done: u64,
    /// Number of requests for the same volume that are served before the last pack of this request.
    pub ahead: u64,
    /// Estimated time until the last pack is read; `None` if it is not known.
    pub estimate: Option<Duration>,
}

/// A user of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Requester {
    pub node: String,
    pub uid: u32,
}

impl From<proto::TapeWait> for QueuedRequest {
    fn from(message: proto::TapeWait) -> Self {
        let (kind, uid) = (message.kind().into(), message.user);
        Self {
            number: message.number,
            kind,
            requester: optional::text(message.node).map(|node| Requester { node, uid }),
            program: optional::text(message.program),
            since: ServerTime(message.since),
            volume: optional::text(message.volume),
            packs: message.packs.into(),
            packs_done: message.packs_done.into(),
            ahead: message.ahead.into(),
            estimate: message.estimate_secs.map(Duration::from_secs),
        }
    }
}

impl Admin {
    /// Lists the waiting requests. First cancels the request with the number `cancel`, if given.
    pub fn tape_queue(&mut self, cancel: Option<u64>) -> Result<Vec<QueuedRequest>, ClientError> {
        let mut cancel = cancel.unwrap_or(0);
        let waits = portions::all(|portion| {
            let request = proto::TapeQueueRequest { cancel, portion: Some(portion) };
            // The first portion has ended the request.
            cancel = 0;
            let reply = self.call(async |server| server.tape_queue(request).await)?;
            Ok(Section { items: reply.waits, next: reply.next })
        })?;
        Ok(waits.into_iter().map(QueuedRequest::from).collect())
    }
}

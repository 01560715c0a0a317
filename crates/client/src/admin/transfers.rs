//! Finished archives and restores of all nodes.

use model::ServerTime;
use wire::proto;

use super::connection::Admin;
use crate::ClientError;
use crate::link::portions::{self, Section};

/// A finished archive or restore of a filespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinishedTransfer {
    pub node: String,
    /// Empty for a filespace that was removed.
    pub filespace: Vec<u8>,
    pub started: ServerTime,
    pub ended: ServerTime,
    /// Number of objects that were looked at.
    pub examined: u64,
    /// Number of objects that were archived or sent.
    pub objects: u64,
    pub failed: u64,
    pub bytes: u64,
}

impl From<proto::FinishedTransfer> for FinishedTransfer {
    fn from(message: proto::FinishedTransfer) -> Self {
        Self {
            node: message.node,
            filespace: message.filespace.to_vec(),
            started: ServerTime(message.started),
            ended: ServerTime(message.ended),
            examined: message.examined,
            objects: message.objects,
            failed: message.failed,
            bytes: message.bytes,
        }
    }
}

impl Admin {
    /// Lists at most `limit` finished sessions of archives of all nodes, newest first. With
    /// `since`, the list ends before the first session that ended before this time.
    pub fn finished_archives(
        &mut self,
        since: Option<ServerTime>,
        limit: u32,
    ) -> Result<Vec<FinishedTransfer>, ClientError> {
        self.finished(since, limit, |admin, request| {
            admin.call(async |server| server.finished_archives(request).await)
        })
    }

    /// Lists at most `limit` finished restores of all nodes, newest first. With `since`, the list
    /// ends before the first restore that ended before this time.
    pub fn finished_restores(
        &mut self,
        since: Option<ServerTime>,
        limit: u32,
    ) -> Result<Vec<FinishedTransfer>, ClientError> {
        self.finished(since, limit, |admin, request| {
            admin.call(async |server| server.finished_restores(request).await)
        })
    }

    /// Reads the first `limit` transfers, portion by portion, as `ask` gets them.
    fn finished(
        &mut self,
        since: Option<ServerTime>,
        limit: u32,
        mut ask: impl FnMut(
            &mut Self,
            proto::FinishedTransfersRequest,
        ) -> Result<proto::FinishedTransfersReply, ClientError>,
    ) -> Result<Vec<FinishedTransfer>, ClientError> {
        let since = since.map_or(i64::MIN, |time| time.0);
        let transfers = portions::first(limit as usize, |portion| {
            let request = proto::FinishedTransfersRequest { portion: Some(portion), since };
            let reply = ask(self, request)?;
            Ok(Section { items: reply.transfers, next: reply.next })
        })?;
        Ok(transfers.into_iter().map(FinishedTransfer::from).collect())
    }
}

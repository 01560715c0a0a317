//! Finished backups of all nodes.

use model::ServerTime;
use wire::proto;

use super::connection::Admin;
use crate::ClientError;
use crate::link::portions::{self, Section};

/// A finished backup of a filespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinishedBackup {
    pub node: String,
    pub filespace: Vec<u8>,
    pub started: ServerTime,
    pub ended: ServerTime,
    /// Report of the session, as the node sent it; empty if the server leaves it out because of its
    /// length.
    pub report: String,
}

impl From<proto::FinishedBackup> for FinishedBackup {
    fn from(message: proto::FinishedBackup) -> Self {
        Self {
            node: message.node,
            filespace: message.filespace.to_vec(),
            started: ServerTime(message.started),
            ended: ServerTime(message.ended),
            report: message.report,
        }
    }
}

impl Admin {
    /// Lists at most `limit` finished backups of all nodes, newest first. With `since`, the list
    /// ends before the first backup that ended before this time.
    pub fn finished_backups(
        &mut self,
        since: Option<ServerTime>,
        limit: u32,
    ) -> Result<Vec<FinishedBackup>, ClientError> {
        let since = since.map_or(i64::MIN, |time| time.0);
        let backups = portions::first(limit as usize, |portion| {
            let request = proto::FinishedBackupsRequest { portion: Some(portion), since };
            let reply = self.call(async |server| server.finished_backups(request).await)?;
            Ok(Section { items: reply.backups, next: reply.next })
        })?;
        Ok(backups.into_iter().map(FinishedBackup::from).collect())
    }
}

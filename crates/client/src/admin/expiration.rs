//! Expiration: versions that policy no longer keeps are dropped.

use wire::proto;

use super::connection::Admin;
use crate::ClientError;

/// Request to begin an expiration.
#[derive(Clone, Debug, Default)]
pub struct ExpirationRequest {
    /// Node whose versions expire; `None` for all nodes.
    pub node: Option<String>,
    /// True to count the versions and drop none.
    pub dry_run: bool,
    /// Maximum number of versions that are examined per second.
    pub rate: Option<u32>,
    /// True to examine every version, and not only those that may be due.
    pub all: bool,
    /// True to confirm that the server's clock is right, although it has jumped.
    pub confirm_clock: bool,
}

/// Progress of an expiration, or its result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expiration {
    pub directories: u64,
    /// Number of versions that were examined.
    pub examined: u64,
    /// Number of versions that expired.
    pub expired: u64,
    /// Size of the files that expired, as they were on the node.
    pub expired_bytes: u64,
    /// Number of nodes whose versions expired.
    pub nodes: u64,
    /// For a simulation: number of the expired versions that the active set would expire too.
    pub due_anyway: u64,
    /// Number of directories that were passed over because the catalogue cannot read them.
    pub damaged: u64,
    pub filespaces_done: u64,
    pub filespaces: u64,
}

impl From<proto::ExpireReply> for Expiration {
    fn from(message: proto::ExpireReply) -> Self {
        Self {
            directories: message.directories,
            examined: message.examined,
            expired: message.expired,
            expired_bytes: message.expired_bytes,
            nodes: message.nodes.into(),
            due_anyway: message.due_anyway,
            damaged: message.damaged,
            filespaces_done: message.filespaces_done.into(),
            filespaces: message.filespaces.into(),
        }
    }
}

impl Admin {
    /// Drops the versions that policy no longer keeps; `visit` sees the progress.
    pub fn expire(
        &mut self,
        request: ExpirationRequest,
        visit: &mut dyn FnMut(&Expiration),
    ) -> Result<Expiration, ClientError> {
        let request = proto::ExpireRequest {
            node: request.node.unwrap_or_default(),
            dry_run: request.dry_run,
            rate: request.rate.unwrap_or(0),
            all: request.all,
            confirm_clock: request.confirm_clock,
        };
        let stream = self.call(async |server| server.expire(request).await)?;
        self.follow(stream, visit)
    }
}

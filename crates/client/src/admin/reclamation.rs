//! Reclamation: it frees the space of data that nothing names.

use chunk::Recompression;
use wire::proto;

use super::connection::Admin;
use super::recompression::{self, RecompressionEffect};
use crate::ClientError;

/// Request to begin a reclamation.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReclamationRequest {
    /// True to count the dead data and change nothing.
    pub dry_run: bool,
    /// Percentage of a pack that must be dead before its live data is written again; `None` for the
    /// server's setting.
    pub dead_percent: Option<u32>,
    /// True to release a recovered server: from then on it removes data that its catalogue does not
    /// name.
    pub release: bool,
    /// Effort with which data that is written again is compressed; `None` for the server's setting.
    pub recompress: Option<Recompression>,
}

/// Progress of a reclamation, or its result.
#[derive(Clone, Debug, Default)]
pub struct Reclamation {
    /// Number of pages and versions that were read.
    pub examined: u64,
    pub packs: u64,
    pub pack_bytes: u64,
    /// Size of the chunks that nothing names, before compression.
    pub dead_bytes: u64,
    pub packs_removed: u64,
    pub bytes_removed: u64,
    pub packs_rewritten: u64,
    pub bytes_rewritten: u64,
    /// Number of packs that will be removed once nobody reads them.
    pub packs_waiting: u64,
    /// Number of packs that stay because of an object lock.
    pub packs_locked: u64,
    pub bytes_locked: u64,
    /// Number of packs that stay because they cannot be read.
    pub packs_unread: u64,
    /// Number of packs that nothing names and whose files could not be removed.
    pub packs_stuck: u64,
    /// Effect of the recompression, if the request or the server's setting asks for one.
    pub recompression: Option<RecompressionEffect>,
}

impl From<proto::ReclaimReply> for Reclamation {
    fn from(message: proto::ReclaimReply) -> Self {
        Self {
            examined: message.examined,
            packs: message.packs,
            pack_bytes: message.pack_bytes,
            dead_bytes: message.dead_bytes,
            packs_removed: message.packs_removed,
            bytes_removed: message.bytes_removed,
            packs_rewritten: message.packs_rewritten,
            bytes_rewritten: message.bytes_rewritten,
            packs_waiting: message.packs_waiting,
            packs_locked: message.packs_locked,
            bytes_locked: message.bytes_locked,
            packs_unread: message.packs_unread,
            packs_stuck: message.packs_stuck,
            recompression: message.recompression.map(RecompressionEffect::from),
        }
    }
}

impl Admin {
    /// Frees the space of data that nothing names; `visit` sees the progress.
    pub fn reclaim(
        &mut self,
        request: ReclamationRequest,
        visit: &mut dyn FnMut(&Reclamation),
    ) -> Result<Reclamation, ClientError> {
        let ReclamationRequest { dry_run, dead_percent, release, recompress } = request;
        let dead_percent = dead_percent.unwrap_or(0);
        let recompress = recompress.map(recompression::message);
        let request = proto::ReclaimRequest { dry_run, dead_percent, release, recompress };
        let stream = self.call(async |server| server.reclaim(request).await)?;
        self.follow(stream, visit)
    }
}

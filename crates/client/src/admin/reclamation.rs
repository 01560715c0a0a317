//! Reclamation: the space of data that nothing names is freed.

use wire::proto;

use super::connection::Admin;
use crate::ClientError;

/// A run of reclamation to begin.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReclamationRequest {
    /// Count the dead data and change nothing.
    pub dry_run: bool,
    /// Share of a pack that must be dead before its live data is written again; the server's
    /// setting unless given.
    pub dead_percent: Option<u32>,
    /// Release a recovered server: the data that its catalogue does not name may go.
    pub release: bool,
}

/// A run of reclamation: its state so far, or its result.
#[derive(Clone, Copy, Debug, Default)]
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
    /// Number of packs that are removed once nobody reads them.
    pub packs_waiting: u64,
    /// Number of packs that an object store locks until some day.
    pub packs_locked: u64,
    pub bytes_locked: u64,
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
        let ReclamationRequest { dry_run, dead_percent, release } = request;
        let dead_percent = dead_percent.unwrap_or(0);
        let request = proto::ReclaimRequest { dry_run, dead_percent, release };
        let stream = self.call(async |server| server.reclaim(request).await)?;
        self.follow(stream, visit)
    }
}

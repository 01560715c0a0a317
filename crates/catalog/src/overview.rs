//! Facts about many rows at once, for those who watch a server. Each is one statement, whatever the
//! number of nodes.

use model::{DomainId, NodeId, ServerTime};
use policy::schedule::event::EventState;

use crate::{CatalogError, PackState, SessionRow};

/// Outcome of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventOutcome {
    pub schedule: String,
    pub planned: ServerTime,
    /// `None` for work of the server itself.
    pub node: Option<NodeId>,
    pub state: EventState,
    pub reason: String,
}

/// A finished backup of any node, with the names of its node and its filespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinishedBackup {
    pub number: u64,
    pub node: String,
    pub filespace: Vec<u8>,
    pub started: ServerTime,
    pub ended: ServerTime,
    /// The client's report, as it sent it.
    pub report: String,
}

/// The packs of a domain that are in the same state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackUsage {
    pub domain: DomainId,
    pub state: PackState,
    pub packs: u64,
    pub bytes: u64,
}

/// Facts about many rows.
pub trait Overview {
    /// End of the last certificate of each node that has one, by node.
    fn certificate_ends(&self) -> Result<Vec<(NodeId, ServerTime)>, CatalogError>;

    /// The outcomes of the events that were planned at `from` or later, by the planned time.
    fn event_outcomes(&self, from: ServerTime) -> Result<Vec<EventOutcome>, CatalogError>;

    /// Number of the events that were planned at `from` or later, by state.
    fn event_counts(&self, from: ServerTime) -> Result<Vec<(EventState, u64)>, CatalogError>;

    /// At most `limit` finished backups with a number above `number`, in the order of the numbers.
    fn sessions_after(
        &self,
        number: u64,
        limit: usize,
    ) -> Result<Vec<(u64, SessionRow)>, CatalogError>;

    /// At most `limit` finished backups of all nodes, newest first. The list begins with the backup
    /// numbered `from`, or with the newest.
    fn finished_backups(
        &self,
        from: Option<u64>,
        limit: usize,
    ) -> Result<Vec<FinishedBackup>, CatalogError>;

    /// The highest number of a finished backup; 0 if there is none.
    fn last_session(&self) -> Result<u64, CatalogError>;

    /// Finished backups of the nodes of a domain that ended at the first time of `span` or later,
    /// and before the second, in the order of their numbers.
    fn domain_sessions(
        &self,
        domain: DomainId,
        span: (ServerTime, ServerTime),
    ) -> Result<Vec<SessionRow>, CatalogError>;

    /// The packs of each domain, by domain and state.
    fn pack_usage(&self) -> Result<Vec<PackUsage>, CatalogError>;
}

//! Events: the audit trail of the server's and the administrators' actions.

use model::ServerTime;

use crate::CatalogError;

/// An action that somebody may ask about later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventRow {
    pub time: ServerTime,
    /// `node NAME`, `administrator`, `administrator (uid NUMBER)` or `server`.
    pub actor: String,
    /// A few words, which are the same for all events of a kind.
    pub what: String,
    pub details: String,
}

/// An event in the audit trail, with its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedEvent {
    pub number: u64,
    pub event: EventRow,
}

/// The audit trail.
pub trait Events {
    /// At most `limit` events, newest first. The list begins with the event numbered `from`, or
    /// with the newest event if `from` is `None`.
    fn events(&self, from: Option<u64>, limit: usize) -> Result<Vec<LoggedEvent>, CatalogError>;
}

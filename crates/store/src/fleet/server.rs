//! A server of a fleet, as administrators see it.

use std::time::Duration;

use catalog::postgres::ServerRow;
use model::ServerTime;

/// One of the servers of a catalogue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerSummary {
    pub address: String,
    /// Version of the program.
    pub version: String,
    pub started: ServerTime,
    /// Time since the server's last sign of life.
    pub silent: Duration,
    /// True for the server that does the work that has to happen once in a fleet.
    pub keeps_house: bool,
    /// True for the server that made this summary.
    pub is_this: bool,
    /// Number of backups under way.
    pub backups: u64,
}

impl ServerSummary {
    /// Returns the summary of the server in `row`. `own` is the number of the server that makes it.
    pub(crate) fn new(row: ServerRow, own: u64) -> Self {
        Self {
            is_this: row.id == own,
            address: row.address,
            version: row.version,
            started: row.started,
            silent: row.silent,
            keeps_house: row.keeps_house,
            backups: row.sessions,
        }
    }
}

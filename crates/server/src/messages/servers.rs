//! The servers of a catalogue.

use store::Store;
use store::fleet::ServerSummary;
use sys::disk_error::Summary;
use wire::proto;

/// State of the server that answers, and of the catalogue that it shares with the others.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) disk: Summary,
    pub(crate) lacks_index: bool,
    pub(crate) refuses_data: bool,
    /// Why the servers of the catalogue are held; empty if they are not.
    pub(crate) hold: String,
}

impl Health {
    pub(crate) fn of(store: &Store) -> Self {
        Self {
            disk: sys::disk_error::summary(),
            lacks_index: store.lacks_index(),
            refuses_data: store.pools.refuses_data(),
            hold: reason(store),
        }
    }
}

/// Returns why the servers are held; an empty text if they are not. A catalogue that cannot be read
/// keeps nobody from seeing the servers.
fn reason(store: &Store) -> String {
    match store.hold() {
        Ok(hold) => hold.map(|hold| hold.to_string()).unwrap_or_default(),
        Err(error) => format!("nobody knows whether they are held: {}", model::chain(&error)),
    }
}

pub(crate) fn server(info: ServerSummary, health: &Health) -> proto::Server {
    let own = info.is_this.then_some(health);
    proto::Server {
        address: info.address,
        version: info.version,
        started: info.started.0,
        silent_millis: u64::try_from(info.silent.as_millis()).unwrap_or(u64::MAX),
        keeps_house: info.keeps_house,
        is_this: info.is_this,
        backups: info.backups,
        disk_errors: own.map_or(0, |own| own.disk.count),
        last_disk_error: own.map(|own| own.disk.last.clone()).unwrap_or_default(),
        lacks_index: own.is_some_and(|own| own.lacks_index),
        refuses_data: own.is_some_and(|own| own.refuses_data),
        hold: health.hold.clone(),
    }
}

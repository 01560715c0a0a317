//! The servers of a catalogue.

use store::Store;
use store::fleet::ServerSummary;
use sys::disk_error::Summary;
use wire::proto;

/// State of the server that answers.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) disk: Summary,
    pub(crate) lacks_index: bool,
    pub(crate) refuses_data: bool,
}

impl Health {
    pub(crate) fn of(store: &Store) -> Self {
        Self {
            disk: sys::disk_error::summary(),
            lacks_index: store.lacks_index(),
            refuses_data: store.pools.refuses_data(),
        }
    }
}

pub(crate) fn server(info: ServerSummary, own: &Health) -> proto::Server {
    let own = info.is_this.then_some(own);
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
    }
}

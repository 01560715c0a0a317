//! The servers of a catalogue.

use store::fleet::ServerSummary;
use wire::proto;

pub(crate) fn server(info: ServerSummary) -> proto::Server {
    proto::Server {
        address: info.address,
        version: info.version,
        started: info.started.0,
        silent_millis: u64::try_from(info.silent.as_millis()).unwrap_or(u64::MAX),
        keeps_house: info.keeps_house,
        is_this: info.is_this,
        backups: info.backups,
    }
}

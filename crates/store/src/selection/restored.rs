//! The record of restores.

use catalog::{Filespace, RestoreRow};
use model::ServerTime;

use crate::Store;
use crate::store::drills::Delivery;

/// Records a restore from `filespace` that began at `started` and has just ended. One that sent no
/// file is not recorded. A restore does not fail because it cannot be recorded.
pub fn note_restore(store: &Store, filespace: &Filespace, started: ServerTime, sent: &Delivery) {
    if sent.delivered == 0 {
        return;
    }
    let restore = RestoreRow {
        node: filespace.node,
        filespace: filespace.id,
        started,
        ended: sys::clock::now().max(started),
        objects: sent.delivered,
        bytes: sent.bytes,
    };
    if let Err(error) = store.catalog.add_restore(&restore) {
        tracing::warn!(error = model::chain(&error), "a restore cannot be recorded");
    }
}

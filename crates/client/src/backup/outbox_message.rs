//! Messages from the readers to the outbox.

use std::collections::BTreeSet;

use crate::link::backup::{PageChange, SentQuantum};

/// Message to the outbox.
pub(super) enum OutboxMessage {
    Quantum(SentQuantum),
    Change(Change),
}

/// Change of a page, with the quanta that must be sent before it.
pub(super) struct Change {
    pub(super) page: PageChange,
    pub(super) quanta: BTreeSet<u64>,
    /// Number of objects with a new version or new attributes.
    pub(super) objects: u64,
}

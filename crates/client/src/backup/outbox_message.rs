//! Messages from the readers to the outbox.

use std::collections::BTreeSet;
use std::time::Duration;

use super::figures::Figures;
use crate::link::backup::{PageChange, SentQuantum};

/// Message to the outbox.
pub(super) enum OutboxMessage {
    Quantum(SentQuantum),
    Change(Change),
}

impl OutboxMessage {
    /// Returns the time for which the quantum of this message has been full.
    pub(super) fn full_for(&self) -> Option<Duration> {
        match self {
            Self::Quantum(quantum) => Some(quantum.work.full_at.elapsed()),
            Self::Change(_) => None,
        }
    }
}

/// Change of a page, with the quanta that must be sent before it.
pub(super) struct Change {
    pub(super) page: PageChange,
    pub(super) quanta: BTreeSet<u64>,
    pub(super) figures: Figures,
}

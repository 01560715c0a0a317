//! The pace of a run.

use std::time::{Duration, Instant};

/// Limit of a run to a number of versions in a second.
pub(super) struct Pace {
    started: Instant,
    rate: Option<u32>,
    versions: u64,
}

impl Pace {
    pub(super) fn new(rate: Option<u32>) -> Self {
        Self { started: sys::clock::monotonic(), rate, versions: 0 }
    }

    pub(super) fn wait(&mut self, versions: usize) {
        self.versions += versions as u64;
        let Some(rate) = self.rate.filter(|rate| *rate > 0) else { return };
        let due = Duration::from_micros(self.versions.saturating_mul(1_000_000) / u64::from(rate));
        let early = due.saturating_sub(self.started.elapsed());
        if !early.is_zero() {
            sys::clock::sleep(early);
        }
    }
}

//! Packs that could not be read from their volumes recently.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::PackNumber;
use sys::lock::Mutex;

use super::error::FetchError;

/// Time for which a pack that could not be read is not tried again.
const KEPT: Duration = Duration::from_secs(10);

/// Packs that could not be read recently, with the error. They are kept because a reader asks for
/// each quantum of such a pack.
#[derive(Default)]
pub(super) struct RecentFailures {
    failures: Mutex<HashMap<PackNumber, (Instant, FetchError)>>,
}

impl RecentFailures {
    pub(super) fn note(&self, pack: PackNumber, error: FetchError) {
        self.failures.lock().insert(pack, (sys::clock::monotonic(), error));
    }

    pub(super) fn of(&self, pack: PackNumber) -> Option<FetchError> {
        let mut failures = self.failures.lock();
        failures.retain(|_, (at, _)| at.elapsed() < KEPT);
        failures.get(&pack).map(|(_, error)| error.clone())
    }

    pub(super) fn clear(&self) {
        self.failures.lock().clear();
    }
}

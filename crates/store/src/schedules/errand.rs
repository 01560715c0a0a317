//! Work of the server under way: whether it goes on, and how far it has come.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use catalog::{Control, EventKey, EventProgress};
use serde_json::Value;

use crate::store::Store;

/// Interval between two looks whether an administrator has cancelled the event under way, or looks
/// at it.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Numbers of work under way, as JSON. They are made only if somebody looks.
pub(super) type Numbers<'a> = &'a dyn Fn() -> Value;

/// Work under way. It ends when the server stops, when an administrator cancels its event, or after
/// its maximum duration.
pub(super) struct Errand<'a> {
    store: &'a Store,
    key: &'a EventKey,
    attempt: u32,
    began: Instant,
    duration_max: Option<Duration>,
    looked: Option<Instant>,
    pub(super) is_cancelled: bool,
    /// True if the work was ended because of its duration.
    pub(super) is_spent: bool,
}

impl<'a> Errand<'a> {
    pub(super) fn new(
        store: &'a Store,
        (key, attempt): (&'a EventKey, u32),
        duration_max: Option<Duration>,
    ) -> Self {
        let began = sys::clock::monotonic();
        let (is_cancelled, is_spent) = (false, false);
        Self { store, key, attempt, began, duration_max, looked: None, is_cancelled, is_spent }
    }

    /// Returns false if the work must end. Tells those who look at the event how far it has come.
    pub(super) fn goes_on(&mut self, numbers: Numbers<'_>) -> bool {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_PAUSE) {
            self.looked = Some(sys::clock::monotonic());
            self.look(numbers);
        }
        self.is_spent = self.duration_max.is_some_and(|most| self.began.elapsed() >= most);
        !self.is_cancelled && !self.is_spent && !self.store.stopping.load(Ordering::Relaxed)
    }

    fn look(&mut self, numbers: Numbers<'_>) {
        // A wish that cannot be read now is read at the next look.
        let event = self.store.catalog.scheduled_event(self.key).ok().flatten();
        let Some((event, _)) = event else { return };
        self.is_cancelled |= event.control == Some(Control::Cancel);
        if event.watched > sys::clock::now() {
            let (key, attempt) = (self.key.clone(), self.attempt);
            let progress = EventProgress { key, attempt, document: numbers().to_string() };
            if let Err(error) = self.store.catalog.put_progress(&[progress]) {
                tracing::debug!(%error, "the progress of a task cannot be recorded");
            }
        }
    }
}

//! The progress of work with volumes, as it is shown while the work goes on.

use std::sync::atomic::Ordering::Relaxed;

use ::tape::manual::Meter;
use client::Progress;

/// Counts into the progress that is shown.
pub(super) struct ShownProgress<'a>(pub(super) &'a Progress);

impl Meter for ShownProgress<'_> {
    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }

    fn add_bytes(&self, bytes: u64) {
        self.0.bytes.fetch_add(bytes, Relaxed);
    }

    fn add_object(&self) {
        self.0.objects.fetch_add(1, Relaxed);
    }

    fn add_failure(&self) {
        self.0.failed.fetch_add(1, Relaxed);
    }
}

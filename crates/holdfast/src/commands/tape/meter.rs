//! The progress of work with volumes, which is shown during the work.

use std::sync::atomic::Ordering::Relaxed;

use ::tape::manual::Meter;
use client::Progress;

/// Meter that counts into the shown progress.
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

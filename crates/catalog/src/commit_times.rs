//! How long the writes of a catalogue take, from their call until they are durable.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::CatalogError;

/// Upper bounds of the classes of times, in microseconds.
pub const COMMIT_BOUNDS_MICROS: [u64; 8] =
    [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 10_000_000];

/// Times of the writes so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommitTimes {
    /// Number of writes, by the first bound that the time does not exceed; the last number is that
    /// of longer writes.
    pub counts: [u64; COMMIT_BOUNDS_MICROS.len() + 1],
    /// Sum of the times.
    pub time: Duration,
    /// Number of writes that failed, which do not count above.
    pub failed: u64,
}

/// Meter of the times, which any thread may use.
#[derive(Debug, Default)]
pub(crate) struct CommitMeter {
    counts: [AtomicU64; COMMIT_BOUNDS_MICROS.len() + 1],
    micros: AtomicU64,
    failed: AtomicU64,
}

impl CommitMeter {
    /// Counts a write that `began` then. A write that was refused, because something is not known
    /// or exists already, does not count.
    pub(crate) fn count<T>(&self, began: Instant, performed: &Result<T, CatalogError>) {
        match performed {
            Ok(_) => self.add(began),
            Err(CatalogError::NotFound { .. } | CatalogError::Exists { .. }) => {}
            Err(_) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn add(&self, began: Instant) {
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let class = COMMIT_BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        self.counts[class].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn times(&self) -> CommitTimes {
        let mut times = CommitTimes::default();
        for (count, meter) in times.counts.iter_mut().zip(&self.counts) {
            *count = meter.load(Ordering::Relaxed);
        }
        times.time = Duration::from_micros(self.micros.load(Ordering::Relaxed));
        times.failed = self.failed.load(Ordering::Relaxed);
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_by_their_time() {
        let meter = CommitMeter::default();
        let now = sys::clock::monotonic();
        let before = |millis| now.checked_sub(Duration::from_millis(millis)).expect("a moment");
        meter.count(before(20_000), &Ok(()));
        meter.count(before(200), &Ok(()));
        meter.count::<()>(now, &Err(CatalogError::NoSpace));
        meter.count::<()>(now, &Err(CatalogError::NotFound { what: "a node" }));
        let times = meter.times();
        assert_eq!(times.counts, [0, 0, 0, 0, 0, 1, 0, 0, 1]);
        assert_eq!(times.failed, 1);
        assert!(times.time >= Duration::from_millis(20_200));
    }
}

//! The latest time that the server trusts. No change of stored data is dated before it.
//!
//! A clock may start years behind, if the battery of the machine is empty, until a time server sets
//! it. A version that ends by such a clock would have ended years ago by the right clock, and would
//! expire as soon as the clock is set. The same holds for archives and for deletions that can be
//! undone. So a change counts as made at the time of the clock, but not before the record of time
//! in the catalogue (`lifecycle::clock`), which goes on here as the machine's uptime does.

use std::time::Duration;

use catalog::{Catalog, CatalogError};
use model::ServerTime;
use sys::lock::Mutex;

/// Mark of the catalogue with the latest trusted time.
pub(crate) const SEEN: &str = "clock seen";

/// The latest trusted time, if there is a record of time.
#[derive(Default)]
pub(crate) struct TrustedTime(Mutex<Option<TrustedMoment>>);

/// A moment by the trusted time and by the uptime of the machine.
#[derive(Clone, Copy)]
struct TrustedMoment {
    seen: ServerTime,
    uptime: Duration,
}

impl TrustedTime {
    /// Reads the record of time in the catalogue.
    pub(crate) fn read(catalog: &dyn Catalog) -> Result<Self, CatalogError> {
        let trusted = Self::default();
        if let Some(seen) = catalog.mark(SEEN)? {
            trusted.set(ServerTime(seen), sys::clock::uptime());
        }
        Ok(trusted)
    }

    /// Makes `seen` the trusted time of the moment at which the machine has been up for `uptime`.
    pub(crate) fn set(&self, seen: ServerTime, uptime: Duration) {
        let mut moment = self.0.lock();
        // A record that has not changed goes on from the moment at which it was read first.
        if moment.is_none_or(|moment| moment.seen != seen) {
            *moment = Some(TrustedMoment { seen, uptime });
        }
    }

    /// Returns the trusted time of the moment at which the machine has been up for `uptime`.
    pub(super) fn at(&self, uptime: Duration) -> Option<ServerTime> {
        let TrustedMoment { seen, uptime: since } = (*self.0.lock())?;
        let passed = i64::try_from(uptime.saturating_sub(since).as_micros()).unwrap_or(i64::MAX);
        Some(ServerTime(seen.0.saturating_add(passed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trusted_time_goes_on_with_the_uptime() {
        let trusted = TrustedTime::default();
        assert_eq!(trusted.at(Duration::ZERO), None, "there is no record yet");
        trusted.set(ServerTime(1000), Duration::from_secs(5));
        assert_eq!(trusted.at(Duration::from_secs(7)), Some(ServerTime(2_001_000)));
        assert_eq!(trusted.at(Duration::from_secs(3)), Some(ServerTime(1000)));
    }
}

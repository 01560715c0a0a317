//! Token bucket: how many bytes may pass, and when. The module is pure.
//!
//! Bytes are charged after they have passed, so the bucket may be in debt. Over any time, at most
//! `rate * time + burst` bytes pass, and the bytes of the operation that was under way at its end.

use std::time::Duration;

/// Time for which unused bytes are kept.
const BURST: Duration = Duration::from_millis(100);
const NANOS: i128 = 1_000_000_000;

/// Bucket of one direction. Times are those since any fixed moment, and never go back.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    /// Bytes per second; `None` for no limit.
    rate: Option<u64>,
    /// Bytes that may pass, times [`NANOS`]; a debt is negative.
    level: i128,
    at: Duration,
}

impl Bucket {
    pub(super) fn new(rate: Option<u64>, now: Duration) -> Self {
        let mut bucket = Self { rate, level: 0, at: now };
        bucket.level = bucket.burst();
        bucket
    }

    fn burst(&self) -> i128 {
        i128::from(self.rate.unwrap_or(0)) * nanos(BURST)
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        let filled = self.level + i128::from(self.rate.unwrap_or(0)) * nanos(passed);
        self.level = filled.min(self.burst());
    }

    /// Changes the rate from `now` on. A debt stays, unless there was no limit.
    pub(super) fn set_rate(&mut self, rate: Option<u64>, now: Duration) {
        self.fill(now);
        let was_limited = self.rate.is_some();
        self.rate = rate;
        self.level = if was_limited { self.level.min(self.burst()) } else { self.burst() };
    }

    /// Returns the time until the next byte may pass: nothing if it may pass now.
    pub(super) fn wait(&mut self, now: Duration) -> Duration {
        self.fill(now);
        let Some(rate) = self.rate.filter(|_| self.level <= 0) else { return Duration::ZERO };
        let nanos = (NANOS - self.level).div_ceil_by(i128::from(rate));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Charges bytes that have passed.
    pub(super) fn charge(&mut self, bytes: usize, now: Duration) {
        self.fill(now);
        if self.rate.is_some() {
            let bytes = i128::try_from(bytes).expect("a length of memory");
            self.level = self.level.saturating_sub(bytes.saturating_mul(NANOS));
        }
    }
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

/// Division of positive numbers that rounds up.
trait DivCeil {
    fn div_ceil_by(self, by: Self) -> Self;
}

impl DivCeil for i128 {
    fn div_ceil_by(self, by: Self) -> Self {
        (self + by - 1) / by
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn without_a_limit_nothing_waits() {
        let mut bucket = Bucket::new(None, Duration::ZERO);
        bucket.charge(usize::MAX, SECOND);
        assert_eq!(bucket.wait(SECOND), Duration::ZERO);
    }

    #[test]
    fn a_new_rate_holds_from_its_beginning_on() {
        let mut bucket = Bucket::new(Some(1000), Duration::ZERO);
        bucket.charge(1100, Duration::ZERO);
        assert_eq!(bucket.wait(Duration::ZERO), Duration::from_millis(1001));
        bucket.set_rate(Some(10), SECOND / 2);
        assert_eq!(bucket.wait(SECOND / 2), Duration::from_millis(50_100));
        bucket.set_rate(None, SECOND);
        assert_eq!(bucket.wait(SECOND), Duration::ZERO);
        bucket.set_rate(Some(10), SECOND);
        assert_eq!(bucket.wait(SECOND), Duration::ZERO, "the limit begins anew");
    }

    proptest! {
        /// The bytes that pass in any span of time keep to the rate, and a user who always has more
        /// to send gets the whole rate.
        #[test]
        fn the_rate_holds_over_any_time_and_is_used(
            rate in 1_u64..50_000_000,
            pieces in prop::collection::vec(1_usize..70_000, 1..200),
            pauses in prop::collection::vec(0_u64..400_000_000, 1..20),
        ) {
            let mut now = Duration::ZERO;
            let mut bucket = Bucket::new(Some(rate), now);
            let mut passed: Vec<(Duration, usize)> = Vec::new();
            let mut waited = Duration::ZERO;
            for (index, &piece) in pieces.iter().enumerate() {
                if index % 10 == 9 {
                    now += Duration::from_nanos(pauses[index % pauses.len()]);
                }
                let wait = bucket.wait(now);
                waited += wait;
                now += wait;
                prop_assert!(bucket.wait(now).is_zero(), "a wait is long enough");
                bucket.charge(piece, now);
                passed.push((now, piece));
            }
            for (from, &(began, _)) in passed.iter().enumerate() {
                let mut bytes = 0_u128;
                for &(at, piece) in &passed[from..] {
                    // The operation at the end of the span may exceed it.
                    let span = (at - began + BURST).as_nanos() * u128::from(rate) / 1_000_000_000;
                    prop_assert!(bytes <= span + 1, "{bytes} bytes in {:?}", at - began);
                    bytes += piece as u128;
                }
            }
            let total: u128 = pieces.iter().map(|&piece| piece as u128).sum();
            // Rounding costs at most a byte's time and a nanosecond for each wait.
            let needed = total * 1_000_000_000 / u128::from(rate);
            let spare = (pieces.len() as u128) * (1 + 1_000_000_000 / u128::from(rate) + 1);
            prop_assert!(waited.as_nanos() <= needed + spare, "{waited:?} for {needed} ns");
        }
    }
}

//! Transit: the bytes of a session that were sent and have not arrived at the server, and the time
//! in which there were any. The network, and the buffers before and after it, have them then.

use std::time::{Duration, Instant};

/// Bytes on their way to the server.
#[derive(Default)]
pub(super) struct Transit {
    sent: u64,
    arrived: u64,
    /// Time since which bytes are on their way.
    since: Option<Instant>,
    /// Time in which bytes were on their way, without the time since `since`.
    time: Duration,
}

impl Transit {
    /// Notes that `bytes` more are sent from `now` on.
    pub(super) fn send(&mut self, bytes: u64, now: Instant) {
        self.sent += bytes;
        self.since = self.since.or((bytes > 0).then_some(now));
    }

    /// Returns the number of bytes that were sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Notes that the first `bytes` that were sent have arrived. A report that comes late has no
    /// effect.
    pub(super) fn arrive(&mut self, bytes: u64, now: Instant) {
        self.arrived = self.arrived.max(bytes.min(self.sent));
        if self.arrived == self.sent {
            self.time += self.since.take().map_or(Duration::ZERO, |since| now - since);
        }
    }

    /// Returns the time in which bytes were on their way until `now`.
    pub(super) fn time(&self, now: Instant) -> Duration {
        self.time + self.since.map_or(Duration::ZERO, |since| now - since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_time_with_bytes_on_their_way_counts() {
        let start = sys::clock::monotonic();
        let at = |secs: u32| start + SECOND * secs;
        let mut transit = Transit::default();
        transit.send(10, at(0));
        transit.send(20, at(1));
        transit.arrive(10, at(2));
        transit.arrive(30, at(4));
        // Nothing is on its way from 4 to 7.
        transit.send(5, at(7));
        transit.arrive(30, at(8));
        assert_eq!((transit.time(at(9)), transit.sent()), (6 * SECOND, 35));
        transit.arrive(35, at(10));
        assert_eq!(transit.time(at(20)), 7 * SECOND);
    }

    #[test]
    fn a_wrong_report_moves_nothing_back() {
        let start = sys::clock::monotonic();
        let mut transit = Transit::default();
        transit.send(10, start);
        transit.arrive(99, start + SECOND);
        transit.arrive(3, start + 2 * SECOND);
        transit.send(10, start + 3 * SECOND);
        assert_eq!(transit.time(start + 4 * SECOND), 2 * SECOND);
    }
}

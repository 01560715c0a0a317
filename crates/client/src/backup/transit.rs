//! Transit: the bytes of a session that were sent and have not arrived at the server, and the time
//! in which there were any. The network, and the buffers before and after it, have them then.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use model::QUANTUM_BYTES_MAX;

/// Time on the way after which a new mark is made. The rate is that since the mark before the last.
const MARK_TIME: Duration = Duration::from_secs(5);
/// Time in which everything that is on its way should arrive. A stop and a pause wait for it.
const ON_ITS_WAY_TIME: Duration = Duration::from_secs(2);
/// Number of bytes that may always be on their way: a large quantum.
const ON_ITS_WAY_BYTES: u64 = QUANTUM_BYTES_MAX as u64;

/// Bytes on their way to the server.
#[derive(Default)]
pub(super) struct Transit {
    sent: u64,
    arrived: u64,
    /// Messages with data that have not arrived whole, oldest first.
    loads: VecDeque<Load>,
    /// Time since which bytes are on their way.
    since: Option<Instant>,
    /// Time in which bytes were on their way, without the time since `since`.
    time: Duration,
    last_mark: Mark,
    mark_before: Mark,
}

/// Number of bytes that had arrived at a moment, and the time that they took. With it the rate is
/// not that of long ago.
#[derive(Clone, Copy, Default)]
struct Mark {
    arrived: u64,
    time: Duration,
}

/// A message with data of files.
struct Load {
    /// Bytes of all messages up to the end of this one.
    sent_up_to: u64,
    payload: Payload,
}

/// Data of files in messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Payload {
    /// Bytes of the data, as files have it.
    pub(super) data_bytes: u64,
    /// Bytes of the records of quanta.
    pub(super) record_bytes: u64,
}

/// Bytes that a report of the server has settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Arrival {
    /// Bytes of messages.
    pub(super) bytes: u64,
    /// Data in messages that have arrived whole.
    pub(super) payload: Payload,
}

impl Transit {
    /// Notes that a message of `bytes`, which holds `payload`, is sent from `now` on.
    pub(super) fn send(&mut self, bytes: u64, payload: Payload, now: Instant) {
        self.sent += bytes;
        if payload != Payload::default() {
            self.loads.push_back(Load { sent_up_to: self.sent, payload });
        }
        self.since = self.since.or((bytes > 0).then_some(now));
    }

    /// Returns the number of bytes that were sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Notes that the first `bytes` that were sent have arrived. A report that comes late has no
    /// effect.
    pub(super) fn arrive(&mut self, bytes: u64, now: Instant) -> Arrival {
        let (before, time) = (self.arrived, self.time(now));
        self.arrived = self.arrived.max(bytes.min(self.sent));
        if time >= self.last_mark.time + MARK_TIME {
            self.mark_before = self.last_mark;
            self.last_mark = Mark { arrived: self.arrived, time };
        }
        if self.arrived == self.sent {
            self.time += self.since.take().map_or(Duration::ZERO, |since| now - since);
        }
        let mut arrival = Arrival { bytes: self.arrived - before, payload: Payload::default() };
        while let Some(load) = self.loads.pop_front_if(|load| load.sent_up_to <= self.arrived) {
            arrival.payload.data_bytes += load.payload.data_bytes;
            arrival.payload.record_bytes += load.payload.record_bytes;
        }
        arrival
    }

    /// Returns true if another message may be sent: what is on its way is little, or arrives soon.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        let soon = self.bytes_in(ON_ITS_WAY_TIME, now).unwrap_or(0);
        self.sent - self.arrived < soon.max(ON_ITS_WAY_BYTES)
    }

    /// Returns the number of bytes that arrive in `span` at the rate of the last seconds. Returns
    /// `None` before anything has arrived.
    pub(super) fn bytes_in(&self, span: Duration, now: Instant) -> Option<u64> {
        let Mark { arrived, time } = self.mark_before;
        let time = self.time(now).saturating_sub(time).as_micros().max(1);
        let bytes = u128::from(self.arrived - arrived) * span.as_micros() / time;
        (self.arrived > 0).then(|| u64::try_from(bytes).unwrap_or(u64::MAX))
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
    const NOTHING: Payload = Payload { data_bytes: 0, record_bytes: 0 };

    #[test]
    fn only_time_with_bytes_on_their_way_counts() {
        let start = sys::clock::monotonic();
        let at = |secs: u32| start + SECOND * secs;
        let mut transit = Transit::default();
        transit.send(10, NOTHING, at(0));
        transit.send(20, NOTHING, at(1));
        transit.arrive(10, at(2));
        transit.arrive(30, at(4));
        // Nothing is on its way from 4 to 7.
        transit.send(5, NOTHING, at(7));
        transit.arrive(30, at(8));
        assert_eq!((transit.time(at(9)), transit.sent()), (6 * SECOND, 35));
        transit.arrive(35, at(10));
        assert_eq!(transit.time(at(20)), 7 * SECOND);
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let start = sys::clock::monotonic();
        let at = |secs: u32| start + SECOND * secs;
        let mut transit = Transit::default();
        transit.send(1_000_000, NOTHING, start);
        // A byte a second for a minute, and then a thousand.
        for secs in 1..=60 {
            transit.arrive(u64::from(secs), at(secs));
        }
        assert_eq!(transit.bytes_in(SECOND, at(60)), Some(1));
        for secs in 61..=80 {
            transit.arrive(u64::from(secs - 60) * 1_000, at(secs));
        }
        assert_eq!(transit.bytes_in(SECOND, at(80)), Some(1_000));
    }

    #[test]
    fn the_rate_is_that_of_what_has_arrived() {
        let start = sys::clock::monotonic();
        let mut transit = Transit::default();
        transit.send(1_000, NOTHING, start);
        assert_eq!(transit.bytes_in(SECOND, start + SECOND), None);
        transit.arrive(100, start + SECOND);
        assert_eq!(transit.bytes_in(2 * SECOND, start + 4 * SECOND), Some(50));
        assert!(transit.bytes_in(SECOND, start).is_some_and(|bytes| bytes > 100));
    }

    #[test]
    fn what_is_on_its_way_arrives_soon_or_is_little() {
        let start = sys::clock::monotonic();
        let at = |secs: u32| start + SECOND * secs;
        let mut transit = Transit::default();
        transit.send(ON_ITS_WAY_BYTES - 1, NOTHING, start);
        assert!(transit.has_room(start), "a large quantum is little");
        transit.send(ON_ITS_WAY_BYTES, NOTHING, start);
        assert!(!transit.has_room(start), "nobody knows how fast the line is");
        let sent = transit.sent();
        // The line carries a quantum a second, so two of them arrive in the time.
        transit.arrive(ON_ITS_WAY_BYTES, at(1));
        assert!(transit.has_room(at(1)));
        transit.send(ON_ITS_WAY_BYTES + 1, NOTHING, at(1));
        assert!(!transit.has_room(at(1)));
        transit.arrive(sent, at(2));
        assert!(transit.has_room(at(2)));
    }

    #[test]
    fn a_wrong_report_moves_nothing_back() {
        let start = sys::clock::monotonic();
        let mut transit = Transit::default();
        transit.send(10, NOTHING, start);
        transit.arrive(99, start + SECOND);
        transit.arrive(3, start + 2 * SECOND);
        transit.send(10, NOTHING, start + 3 * SECOND);
        assert_eq!(transit.time(start + 4 * SECOND), 2 * SECOND);
    }

    #[test]
    fn data_has_arrived_with_the_end_of_its_message() {
        let now = sys::clock::monotonic();
        let mut transit = Transit::default();
        transit.send(10, Payload { data_bytes: 500, record_bytes: 8 }, now);
        transit.send(3, NOTHING, now);
        transit.send(20, Payload { data_bytes: 800, record_bytes: 19 }, now);
        let mut arrive = |bytes| {
            let Arrival { bytes, payload } = transit.arrive(bytes, now);
            (bytes, payload.data_bytes, payload.record_bytes)
        };
        assert_eq!(arrive(9), (9, 0, 0));
        assert_eq!(arrive(10), (1, 500, 8));
        assert_eq!(arrive(10), (0, 0, 0), "a report counts once");
        assert_eq!(arrive(u64::MAX), (23, 800, 19));
    }
}

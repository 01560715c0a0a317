//! The parts of a measurement of the network that both ends share: the start of a plain
//! connection, its answer, the bytes that are sent, and the count of the bytes that arrive.
//!
//! A plain connection begins with a preamble, on the port where TLS is spoken:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | magic `HFPLAIN1`; the first byte of TLS is 0x16, so neither is taken for the other |
//! | 1 | direction: 1 to the server, 2 from the server |
//! | 32 | ticket, which the server gave to the node over TLS |
//!
//! After it, random bytes follow in one direction. A client that has sent bytes then gets the
//! server's count of them:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | number of bytes, little-endian |
//! | 8 | time in which they came, in microseconds, little-endian |

use std::time::{Duration, Instant};

use bytes::Bytes;

/// Longest time that one transfer is measured.
pub const MEASURE_MAX: Duration = Duration::from_secs(10);

/// Maximum number of transfers of one node that are measured at once.
pub const MEASURED_STREAMS_MAX: usize = 8;

/// First bytes of a plain connection.
pub const PLAIN_MAGIC: [u8; 8] = *b"HFPLAIN1";

/// Number of bytes in a ticket.
pub const TICKET_BYTES: usize = 32;

/// Number of bytes with which a plain connection begins.
pub const PREAMBLE_BYTES: usize = PLAIN_MAGIC.len() + 1 + TICKET_BYTES;

/// Number of random bytes, after which they come again: more than programs between the two ends
/// keep in mind that compress what passes.
pub const LOAD_BYTES: usize = 4 << 20;

/// Number of bytes that are sent at once.
pub const PIECE_BYTES: usize = 128 << 10;

const _: () = assert!(LOAD_BYTES.is_multiple_of(PIECE_BYTES), "the load has whole pieces");

/// Direction in which bytes are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    ToServer,
    FromServer,
}

/// Start of a plain connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Preamble {
    pub direction: Direction,
    pub ticket: [u8; TICKET_BYTES],
}

impl Preamble {
    pub fn encode(&self) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[..8].copy_from_slice(&PLAIN_MAGIC);
        bytes[8] = match self.direction {
            Direction::ToServer => 1,
            Direction::FromServer => 2,
        };
        bytes[9..].copy_from_slice(&self.ticket);
        bytes
    }

    /// Returns `None` if the bytes are no preamble.
    pub fn decode(bytes: &[u8; PREAMBLE_BYTES]) -> Option<Self> {
        let (direction, ticket) = bytes.strip_prefix(&PLAIN_MAGIC)?.split_first()?;
        let direction = match direction {
            1 => Direction::ToServer,
            2 => Direction::FromServer,
            _ => return None,
        };
        Some(Self { direction, ticket: ticket.try_into().ok()? })
    }
}

/// Number of bytes that have arrived, and the time in which they came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    pub bytes: u64,
    pub micros: u64,
}

impl Count {
    /// Number of bytes of an encoded count.
    pub const BYTES: usize = 16;

    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..].copy_from_slice(&self.micros.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let [bytes, micros] = [0, 8].map(|at| {
            let number = bytes[at..].first_chunk().expect("there are two numbers");
            u64::from_le_bytes(*number)
        });
        Self { bytes, micros }
    }
}

/// Random bytes, which are sent again and again. A piece of them costs no copy.
#[derive(Clone)]
pub struct Load {
    bytes: Bytes,
    next: usize,
}

impl Load {
    /// Sends `random`, which nobody can compress.
    pub fn new(random: Vec<u8>) -> Self {
        assert_eq!(random.len(), LOAD_BYTES, "the load has a fixed size");
        Self { bytes: random.into(), next: 0 }
    }

    /// Returns the next piece.
    pub fn piece(&mut self) -> Bytes {
        let piece = self.bytes.slice(self.next..self.next + PIECE_BYTES);
        self.next = (self.next + PIECE_BYTES) % LOAD_BYTES;
        piece
    }
}

/// Point in time from which arrivals count, and their bytes so far.
#[derive(Clone, Copy)]
struct Span {
    since: Instant,
    last: Instant,
    bytes: u64,
}

impl Span {
    fn new(now: Instant) -> Self {
        Self { since: now, last: now, bytes: 0 }
    }

    fn add(&mut self, now: Instant, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.last = now;
    }

    fn count(&self) -> Count {
        let elapsed = self.last.saturating_duration_since(self.since);
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        Count { bytes: self.bytes, micros }
    }
}

/// Counter of the bytes that arrive on one stream.
///
/// Arrivals in the lead do not count, because a connection is slow at its start. The bytes of the
/// arrival that opens a span do not count either: they came before it.
pub struct Meter {
    lead: Duration,
    whole: Option<Span>,
    /// Span after the lead.
    counted: Option<Span>,
}

impl Meter {
    pub fn new(lead: Duration) -> Self {
        Self { lead, whole: None, counted: None }
    }

    /// Notes that `bytes` have arrived. `now` does not go back.
    pub fn arrive(&mut self, now: Instant, bytes: usize) {
        let Some(whole) = &mut self.whole else {
            self.whole = Some(Span::new(now));
            return;
        };
        whole.add(now, bytes);
        match &mut self.counted {
            Some(counted) => counted.add(now, bytes),
            None if now.saturating_duration_since(whole.since) >= self.lead => {
                self.counted = Some(Span::new(now));
            }
            None => {}
        }
    }

    /// Returns the time of the first arrival.
    pub fn began(&self) -> Option<Instant> {
        self.whole.as_ref().map(|whole| whole.since)
    }

    /// Returns the count after the lead, or the whole count if nothing came after the lead.
    pub fn count(&self) -> Count {
        let counted = self.counted.as_ref().filter(|span| span.bytes > 0);
        counted.or(self.whole.as_ref()).map(Span::count).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preamble_has_these_bytes() {
        let preamble = Preamble { direction: Direction::FromServer, ticket: [7; 32] };
        let expected = [&b"HFPLAIN1\x02"[..], &[7; 32]].concat();
        assert_eq!(preamble.encode()[..], expected);
        assert_ne!(PLAIN_MAGIC[0], 0x16, "a handshake of TLS begins with this byte");
        for direction in [Direction::ToServer, Direction::FromServer] {
            let preamble = Preamble { direction, ..preamble };
            assert!(Preamble::decode(&preamble.encode()) == Some(preamble));
        }
    }

    #[test]
    fn other_bytes_are_no_preamble() {
        let good = Preamble { direction: Direction::ToServer, ticket: [7; 32] }.encode();
        for (at, byte) in [(0, 0x16), (7, b'2'), (8, 0), (8, 3)] {
            let mut bad = good;
            bad[at] = byte;
            assert!(Preamble::decode(&bad).is_none(), "{byte} at {at}");
        }
    }

    #[test]
    fn a_count_has_these_bytes() {
        let count = Count { bytes: 0x0102, micros: 3 };
        assert_eq!(count.encode(), [2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Count::decode(&count.encode()), count);
    }

    #[test]
    fn a_load_comes_round() {
        let random: Vec<u8> = (0..=u8::MAX)
            .flat_map(|byte| vec![byte; PIECE_BYTES])
            .take(LOAD_BYTES)
            .collect();
        let mut load = Load::new(random);
        let pieces = LOAD_BYTES / PIECE_BYTES;
        let firsts: Vec<usize> = (0..=pieces).map(|_| usize::from(load.piece()[0])).collect();
        assert_eq!(firsts, (0..pieces).chain([0]).collect::<Vec<_>>());
    }

    /// Checks the count of `arrivals`, each a time in milliseconds and a number of bytes, with a
    /// lead of 100 ms.
    #[track_caller]
    fn check(start: Instant, arrivals: &[(u64, usize)], bytes: u64, millis: u64) {
        let mut meter = Meter::new(Duration::from_millis(100));
        for &(at, bytes) in arrivals {
            meter.arrive(start + Duration::from_millis(at), bytes);
        }
        assert_eq!(meter.count(), Count { bytes, micros: millis * 1000 });
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "only differences of times matter")]
    fn arrivals_in_the_lead_do_not_count() {
        let start = Instant::now();
        check(start, &[], 0, 0);
        check(start, &[(0, 5)], 0, 0);
        check(start, &[(0, 5), (50, 5)], 5, 50);
        check(start, &[(0, 5), (50, 5), (100, 5)], 10, 100);
        check(start, &[(0, 5), (50, 5), (100, 5), (150, 7), (170, 9)], 16, 70);
        check(start, &[(900, 5), (1000, 5), (1010, 6)], 6, 10);
    }
}

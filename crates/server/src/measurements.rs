//! Measurements of the network between a node and the server: their limits, and the tickets for
//! plain connections.
//!
//! ```text
//!   enter  -> the right to one stream over TLS
//!   issue  -> a ticket; it holds the rights to its connections
//!   redeem -> the right to one plain connection, once for each connection of the ticket
//! ```
//!
//! 1. A ticket is known to its node and to the memory of this process, which has only its hash.
//! 2. It works for the origin of the node, for a fixed number of connections, and for a minute.
//! 3. It gives no access to anything: a plain connection carries random bytes for some seconds.
//!
//! A ticket that has ended gives its rights back when the next right is asked for, so that no timer
//! has to run for it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use model::NodeId;
use sys::lock::Mutex;
use wire::network::{LOAD_BYTES, Load, MEASURE_MAX, MEASURED_STREAMS_MAX, TICKET_BYTES};

use crate::guesses::Guesses;
use crate::origin::Origin;
use crate::quota::{Excess, Quota, Share};

/// Maximum number of streams of all nodes that are measured at once.
const ALL_STREAMS_MAX: usize = 16;
/// Time in which a node can use a ticket.
const TICKET_LIFE: Duration = Duration::from_secs(60);

/// The right to measure one stream.
pub(crate) type StreamRight = Share<NodeId>;

/// Measurements that are under way, and tickets for more.
pub(crate) struct Measurements {
    streams: Arc<Quota<NodeId>>,
    /// Tickets by their hash.
    tickets: Mutex<BTreeMap<[u8; 32], Ticket>>,
    /// Plain connections without a good ticket.
    guesses: Guesses,
    load: OnceLock<Load>,
}

/// Times of one transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    pub(crate) each: Duration,
    /// Time at the start in which arrivals do not count.
    pub(crate) lead: Duration,
}

impl Times {
    /// Reads the times of a request. A node gets no more time than there is.
    pub(crate) fn parse(millis: u32, lead_millis: u32) -> Self {
        let [each, lead] = [millis, lead_millis].map(|millis| Duration::from_millis(millis.into()));
        let each = each.min(MEASURE_MAX);
        Self { each, lead: lead.min(each) }
    }
}

/// The node that asks for a ticket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Holder {
    pub(crate) node: NodeId,
    /// Serial number of the node's certificate.
    pub(crate) serial: Vec<u8>,
    pub(crate) origin: Origin,
}

/// A ticket for plain connections.
struct Ticket {
    holder: Holder,
    times: Times,
    ends: Instant,
    /// One right for each connection that has not come yet; at least one.
    rights: Vec<StreamRight>,
}

/// The right to one plain connection.
pub(crate) struct Admission {
    pub(crate) holder: Holder,
    pub(crate) times: Times,
    pub(crate) right: StreamRight,
}

impl Default for Measurements {
    fn default() -> Self {
        Self {
            streams: Quota::new(MEASURED_STREAMS_MAX, ALL_STREAMS_MAX),
            tickets: Mutex::default(),
            guesses: Guesses::default(),
            load: OnceLock::new(),
        }
    }
}

impl Measurements {
    /// Gives `node` the right to measure one more stream.
    pub(crate) fn enter(&self, node: NodeId, now: Instant) -> Result<StreamRight, Excess> {
        self.forget(now);
        self.streams.take(node)
    }

    /// Makes a ticket for `connections` connections, at least one.
    pub(crate) fn issue(
        &self,
        holder: Holder,
        connections: usize,
        times: Times,
        now: Instant,
    ) -> Result<[u8; TICKET_BYTES], Excess> {
        assert!(connections > 0, "a ticket is for at least one connection");
        self.forget(now);
        let rights = (0..connections).map(|_| self.streams.take(holder.node));
        let rights = rights.collect::<Result<_, _>>()?;
        let secret = sys::entropy::bytes();
        let ticket = Ticket { holder, times, ends: now + TICKET_LIFE, rights };
        self.tickets.lock().insert(hash(&secret), ticket);
        Ok(secret)
    }

    /// Takes the right to one connection from the ticket; `None` if the ticket is not good for a
    /// connection from `origin`. An origin with many bad tickets has to pause.
    pub(crate) fn redeem(
        &self,
        secret: &[u8; TICKET_BYTES],
        origin: Origin,
        now: Instant,
    ) -> Option<Admission> {
        self.guesses.admit(&origin, now).ok()?;
        self.forget(now);
        let admission = self.take(&hash(secret), origin);
        match admission {
            Some(_) => self.guesses.succeeded(&origin),
            None => self.guesses.failed(origin, now),
        }
        admission
    }

    fn take(&self, hash: &[u8; 32], origin: Origin) -> Option<Admission> {
        let mut tickets = self.tickets.lock();
        let ticket = tickets.get_mut(hash).filter(|ticket| ticket.holder.origin == origin)?;
        let right = ticket.rights.pop().expect("a ticket has a right as long as it is known");
        let admission = Admission { holder: ticket.holder.clone(), times: ticket.times, right };
        if ticket.rights.is_empty() {
            tickets.remove(hash);
        }
        Some(admission)
    }

    /// Gives back the rights of tickets that have ended.
    fn forget(&self, now: Instant) {
        self.tickets.lock().retain(|_, ticket| now < ticket.ends);
    }

    /// Returns the bytes to send. They are made once.
    pub(crate) fn load(&self) -> Load {
        let make = || {
            let mut random = vec![0; LOAD_BYTES];
            sys::entropy::fill(&mut random);
            Load::new(random)
        };
        self.load.get_or_init(make).clone()
    }
}

fn hash(secret: &[u8; TICKET_BYTES]) -> [u8; 32] {
    *blake3::hash(secret).as_bytes()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const TIMES: Times = Times { each: Duration::from_secs(1), lead: Duration::ZERO };

    fn origin(last: u8) -> Origin {
        Origin::Address(Ipv4Addr::new(192, 0, 2, last))
    }

    fn holder(node: u32) -> Holder {
        Holder { node: NodeId(node), serial: vec![1], origin: origin(1) }
    }

    /// Makes a ticket of node 1 for `connections` connections.
    fn ticket(measurements: &Measurements, connections: usize, now: Instant) -> [u8; TICKET_BYTES] {
        measurements.issue(holder(1), connections, TIMES, now).expect("there is room")
    }

    #[test]
    fn a_ticket_is_good_for_its_connections() {
        let (measurements, now) = (Measurements::default(), sys::clock::monotonic());
        let ticket = ticket(&measurements, 2, now);
        let mut held = Vec::new();
        for _ in 0..2 {
            let admission = measurements.redeem(&ticket, origin(1), now).expect("it is good");
            assert_eq!((&admission.holder, admission.times), (&holder(1), TIMES));
            held.push(admission);
        }
        assert!(measurements.redeem(&ticket, origin(1), now).is_none());
        assert!(measurements.tickets.lock().is_empty(), "a ticket without a right is forgotten");
    }

    #[test]
    fn a_ticket_ends_after_a_minute_and_gives_its_rights_back() {
        let (measurements, now) = (Measurements::default(), sys::clock::monotonic());
        let ticket = ticket(&measurements, MEASURED_STREAMS_MAX, now);
        assert!(measurements.enter(NodeId(1), now).is_err(), "the ticket holds all rights");
        let last = now + TICKET_LIFE - Duration::from_millis(1);
        assert!(measurements.redeem(&ticket, origin(1), last).is_some());
        let later = now + TICKET_LIFE;
        assert!(measurements.redeem(&ticket, origin(1), later).is_none());
        assert!(measurements.enter(NodeId(1), later).is_ok());
    }

    #[test]
    fn a_ticket_is_good_for_the_address_of_its_node_only() {
        let (measurements, now) = (Measurements::default(), sys::clock::monotonic());
        let ticket = ticket(&measurements, 1, now);
        assert!(measurements.redeem(&ticket, origin(2), now).is_none());
        assert!(measurements.redeem(&[0; TICKET_BYTES], origin(1), now).is_none());
        assert!(measurements.redeem(&ticket, origin(1), now).is_some());
    }

    #[test]
    fn guessing_tickets_is_slowed() {
        let (measurements, now) = (Measurements::default(), sys::clock::monotonic());
        let good = ticket(&measurements, 1, now);
        for _ in 0..20 {
            assert!(measurements.redeem(&[0; TICKET_BYTES], origin(1), now).is_none());
        }
        assert!(measurements.redeem(&good, origin(1), now).is_none(), "nobody looks at it");
    }

    #[test]
    fn measurements_of_one_node_leave_room_for_others() {
        let (measurements, now) = (Measurements::default(), sys::clock::monotonic());
        let enter = |node| measurements.enter(NodeId(node), now);
        let own: Vec<_> = std::iter::from_fn(|| enter(1).ok()).collect();
        assert_eq!(own.len(), MEASURED_STREAMS_MAX);
        let refused = measurements.issue(holder(1), 1, TIMES, now);
        assert_eq!(refused.err(), Some(Excess::Each(MEASURED_STREAMS_MAX)));
        // Seven are free, and a ticket takes all of its rights or none.
        let other = enter(2);
        let whole = measurements.issue(holder(3), MEASURED_STREAMS_MAX, TIMES, now);
        assert_eq!(whole.err(), Some(Excess::All(ALL_STREAMS_MAX)));
        assert!(other.is_ok() && measurements.issue(holder(3), 7, TIMES, now).is_ok());
    }

    #[test]
    fn a_node_gets_no_more_time_than_there_is() {
        let times = Times::parse(u32::MAX, u32::MAX);
        assert_eq!(times, Times { each: MEASURE_MAX, lead: MEASURE_MAX });
        let times = Times::parse(500, 20);
        assert_eq!((times.each.as_millis(), times.lead.as_millis()), (500, 20));
    }
}

//! Identities in use: which node is connected, and from which address.
//!
//! ```text
//!   connection  --- serial of its certificate --->  node
//!       ^                                            |
//!       +---- is cut when the node is locked, -------+
//!             revoked or removed
//! ```
//!
//! Other servers of the same catalogue lock and revoke nodes too: `upkeep` looks for that.
//!
//! A node that connects from two addresses at once is reported: somebody else may use a copy of its
//! certificate. Nothing is refused for that reason, because a machine may have two addresses.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use model::NodeId;
use sys::lock::Mutex;

use crate::origin::Origin;

/// Time until the same node is reported again.
const REPORT_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// Switch that ends a connection.
#[derive(Default, Debug)]
pub(crate) struct Cutter {
    is_cut: AtomicBool,
    reading: AtomicWaker,
    /// True once the connection's node is known.
    is_registered: AtomicBool,
}

impl Cutter {
    /// Ends the connection: its reader wakes and fails.
    fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        self.reading.wake();
    }

    /// Returns true once the connection's node is known.
    pub(crate) fn is_registered(&self) -> bool {
        self.is_registered.load(Ordering::Acquire)
    }

    /// Returns true if the connection has been ended. Otherwise the task of `context` is woken when
    /// that happens.
    pub(crate) fn is_cut(&self, context: &Context<'_>) -> bool {
        self.reading.register(context.waker());
        self.is_cut.load(Ordering::Acquire)
    }

    /// Waits until the connection is ended. One task may wait.
    pub(crate) async fn ended(&self) {
        let ended = |context: &mut Context<'_>| match self.is_cut(context) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        };
        std::future::poll_fn(ended).await;
    }
}

/// Two addresses that a node is connected from at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TwoPlaces {
    pub(crate) known: IpAddr,
    pub(crate) new: IpAddr,
}

/// A node that is connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectedNode {
    pub node: NodeId,
    /// Addresses of its connections; an address occurs once for each connection.
    pub addresses: Vec<IpAddr>,
}

struct Place {
    address: IpAddr,
    /// Serial number of the certificate with which the node has connected.
    serial: Vec<u8>,
    /// The connection's switch; gone once the connection has ended.
    cutter: Weak<Cutter>,
}

#[derive(Default)]
struct Presence {
    places: Vec<Place>,
    reported: Option<Instant>,
}

/// The connections of each node.
#[derive(Default)]
pub(crate) struct Identities(Mutex<HashMap<NodeId, Presence>>);

impl Identities {
    /// Notes that `node` uses the connection of `cutter` from `address`, with the certificate
    /// `serial`. Returns the two addresses if the node is also connected from another one, and that
    /// is to be reported.
    pub(crate) fn note(
        &self,
        node: NodeId,
        (serial, address): (&[u8], IpAddr),
        cutter: &Arc<Cutter>,
        now: Instant,
    ) -> Option<TwoPlaces> {
        if cutter.is_registered.swap(true, Ordering::AcqRel) {
            return None;
        }
        let mut nodes = self.0.lock();
        let presence = nodes.entry(node).or_default();
        presence.places.retain(|place| place.cutter.strong_count() > 0);
        let other = presence.places.iter().find(|place| is_elsewhere(place.address, address));
        let known = other.map(|place| place.address);
        let (serial, cutter) = (serial.to_vec(), Arc::downgrade(cutter));
        presence.places.push(Place { address, serial, cutter });
        let known = known?;
        let is_due = |last: Instant| now.saturating_duration_since(last) >= REPORT_PAUSE;
        if !presence.reported.is_none_or(is_due) {
            return None;
        }
        presence.reported = Some(now);
        Some(TwoPlaces { known, new: address })
    }

    /// Returns the nodes that are connected, by number.
    pub(crate) fn connected(&self) -> Vec<ConnectedNode> {
        let nodes = self.0.lock();
        let describe = |(node, presence): (&NodeId, &Presence)| {
            let live = presence.places.iter().filter(|place| place.cutter.strong_count() > 0);
            let addresses: Vec<_> = live.map(|place| place.address).collect();
            (!addresses.is_empty()).then_some(ConnectedNode { node: *node, addresses })
        };
        let mut connected: Vec<_> = nodes.iter().filter_map(describe).collect();
        connected.sort_unstable_by_key(|one| one.node);
        connected
    }

    /// Lets [`Self::cut`] end one more connection of `node`, which comes from an address of the
    /// node that is noted.
    pub(crate) fn attach(
        &self,
        node: NodeId,
        (serial, address): (&[u8], IpAddr),
        cutter: &Arc<Cutter>,
    ) {
        cutter.is_registered.store(true, Ordering::Release);
        let mut nodes = self.0.lock();
        let presence = nodes.entry(node).or_default();
        presence.places.retain(|place| place.cutter.strong_count() > 0);
        let (serial, cutter) = (serial.to_vec(), Arc::downgrade(cutter));
        presence.places.push(Place { address, serial, cutter });
    }

    /// Ends all connections of `node`. Returns their number.
    pub(crate) fn cut(&self, node: NodeId) -> usize {
        let places = self
            .0
            .lock()
            .get_mut(&node)
            .map(|presence| std::mem::take(&mut presence.places));
        cut_all(&places.unwrap_or_default())
    }

    /// Returns the serial numbers of the certificates with which nodes are connected.
    pub(crate) fn serials(&self) -> BTreeSet<Vec<u8>> {
        let nodes = self.0.lock();
        let places = nodes.values().flat_map(|presence| &presence.places);
        let live = places.filter(|place| place.cutter.strong_count() > 0);
        live.map(|place| place.serial.clone()).collect()
    }

    /// Ends the connections that were made with these certificates. Returns their number.
    pub(crate) fn cut_serials(&self, ended: &BTreeSet<Vec<u8>>) -> usize {
        let is_ended = |place: &mut Place| ended.contains(&place.serial);
        let places: Vec<Place> = self
            .0
            .lock()
            .values_mut()
            .flat_map(|presence| presence.places.extract_if(.., is_ended))
            .collect();
        cut_all(&places)
    }
}

/// Ends these connections. Returns their number.
fn cut_all(places: &[Place]) -> usize {
    let cutters: Vec<_> = places.iter().filter_map(|place| place.cutter.upgrade()).collect();
    cutters.iter().for_each(|cutter| cutter.cut());
    cutters.len()
}

/// Returns true if the addresses are of two networks. A machine has addresses of both versions of
/// IP, and changes its IPv6 address within a network.
fn is_elsewhere(one: IpAddr, other: IpAddr) -> bool {
    one.is_ipv4() == other.is_ipv4() && Origin::of(one) != Origin::of(other)
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const NODE: NodeId = NodeId(7);

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn from(last: u8) -> (&'static [u8], IpAddr) {
        (b"serial", address(last))
    }

    fn is_cut(cutter: &Cutter) -> bool {
        cutter.is_cut(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn two_places_at_once_are_reported_once_a_day() {
        let identities = Identities::default();
        let now = sys::clock::monotonic();
        let [first, same, other, later, next_day] = [(); 5].map(|()| Arc::new(Cutter::default()));
        assert_eq!(identities.note(NODE, from(1), &first, now), None);
        assert_eq!(identities.note(NODE, from(1), &same, now), None);
        assert_eq!(identities.note(NodeId(8), from(3), &Arc::default(), now), None);
        let places = TwoPlaces { known: address(1), new: address(2) };
        assert_eq!(identities.note(NODE, from(2), &other, now), Some(places));
        assert_eq!(identities.note(NODE, from(2), &later, now), None, "reported already");
        let tomorrow = now + REPORT_PAUSE;
        assert_eq!(identities.note(NODE, from(2), &other, tomorrow), None, "known already");
        assert_eq!(identities.note(NODE, from(2), &next_day, tomorrow), Some(places));
    }

    #[test]
    fn a_machine_may_have_several_addresses() {
        let elsewhere = |one: &str, other: &str| {
            is_elsewhere(one.parse().expect("an address"), other.parse().expect("an address"))
        };
        assert!(elsewhere("192.0.2.1", "192.0.2.2"));
        assert!(elsewhere("2001:db8:1::1", "2001:db8:2::1"));
        assert!(!elsewhere("2001:db8:1::1", "2001:db8:1::2"));
        assert!(!elsewhere("192.0.2.1", "2001:db8:1::2"));
    }

    #[test]
    fn an_address_after_the_other_is_no_second_place() {
        let identities = Identities::default();
        let now = sys::clock::monotonic();
        let first = Arc::new(Cutter::default());
        assert_eq!(identities.note(NODE, from(1), &first, now), None);
        drop(first);
        assert_eq!(identities.note(NODE, from(2), &Arc::default(), now), None);
    }

    #[test]
    fn all_connections_of_a_node_are_cut_and_no_others() {
        let identities = Identities::default();
        let now = sys::clock::monotonic();
        let [one, two, other, plain] = [(); 4].map(|()| Arc::new(Cutter::default()));
        for (node, cutter) in [(NODE, &one), (NODE, &two), (NodeId(8), &other)] {
            identities.note(node, from(1), cutter, now);
        }
        identities.attach(NODE, from(1), &plain);
        assert_eq!(identities.cut(NodeId(9)), 0);
        assert_eq!(identities.cut(NODE), 3);
        let cut = [&one, &two, &other, &plain].map(|cutter| is_cut(cutter));
        assert_eq!(cut, [true, true, false, true]);
        assert_eq!(identities.cut(NODE), 0, "they are gone");
    }

    /// A lock by another server of the same catalogue left connections open.
    #[test]
    fn connections_of_ended_certificates_are_cut_and_no_others() {
        let identities = Identities::default();
        let now = sys::clock::monotonic();
        let [old, new, other, gone] = [(); 4].map(|()| Arc::new(Cutter::default()));
        for (node, serial, cutter) in [
            (NODE, b"old", &old),
            (NODE, b"new", &new),
            (NodeId(8), b"own", &other),
            (NodeId(8), b"end", &gone),
        ] {
            identities.note(node, (serial, address(1)), cutter, now);
        }
        drop(gone);
        let serials = |serials: &[&[u8; 3]]| -> BTreeSet<Vec<u8>> {
            serials.iter().map(|serial| serial.to_vec()).collect()
        };
        assert_eq!(identities.serials(), serials(&[b"old", b"new", b"own"]));
        assert_eq!(identities.cut_serials(&serials(&[b"old", b"xyz"])), 1);
        assert_eq!([&old, &new, &other].map(|cutter| is_cut(cutter)), [true, false, false]);
        assert_eq!(identities.serials(), serials(&[b"new", b"own"]));
        assert_eq!(identities.cut(NODE), 1, "the other one is still known");
    }
}

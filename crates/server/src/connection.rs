//! A connection to the port of the nodes, and its client as the services see it.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use model::NodeId;
use sys::lock::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::identities::Cutter;
use crate::limits::{Entry, Limits};
use crate::origin::Origin;
use crate::quota::{Excess, Quota, Share};

/// Maximum number of calls of one connection whose node is looked up at once. A client that opens
/// and ends calls quickly leaves no more look-ups than these.
const LOOKUPS_MAX: usize = 4;

/// Maximum time for which a connection is open before a node makes a call on it.
const GUEST_MAX: Duration = Duration::from_secs(120);

/// The client at the other end of a connection.
#[derive(Clone)]
pub(crate) struct Peer {
    /// The serial number of the client's certificate; `None` for a client without a certificate.
    pub(crate) serial: Option<Vec<u8>>,
    pub(crate) address: IpAddr,
    pub(crate) origin: Origin,
    pub(crate) seat: Arc<Seat>,
    /// Switch that ends the connection.
    pub(crate) cutter: Arc<Cutter>,
}

/// A connection before its first bytes.
pub(crate) struct Stranger {
    pub(crate) stream: TcpStream,
    pub(crate) address: IpAddr,
    pub(crate) entry: Entry,
}

/// Place of a connection among the connections of its node, or, before the first call of a node,
/// among those of clients that nobody knows.
pub(crate) struct Seat {
    right: Mutex<SeatRight>,
    lookups: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// Right to a connection, which lasts as long as the connection.
enum SeatRight {
    Guest { _share: Share<Origin> },
    Node { _share: Share<NodeId> },
}

impl Seat {
    fn new(guest: Share<Origin>) -> Self {
        let right = Mutex::new(SeatRight::Guest { _share: guest });
        let lookups = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { right, lookups, waiting: Arc::new(Semaphore::new(1)) }
    }

    fn is_of_node(&self) -> bool {
        matches!(*self.right.lock(), SeatRight::Node { .. })
    }

    /// Waits until one more call may look for its node.
    pub(crate) async fn lookup(&self) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.lookups).acquire_owned().await;
        permit.expect("nobody closes the semaphore")
    }

    /// Returns the right to wait for memory, which one call of the connection can have.
    pub(crate) fn waiting(&self) -> Arc<Semaphore> {
        Arc::clone(&self.waiting)
    }

    /// Counts the connection among the connections of `node` from its first call on.
    pub(crate) fn take(
        &self,
        connections: &Arc<Quota<NodeId>>,
        node: NodeId,
    ) -> Result<(), Excess> {
        let mut right = self.right.lock();
        if matches!(*right, SeatRight::Guest { .. }) {
            *right = SeatRight::Node { _share: connections.take(node)? };
        }
        Ok(())
    }
}

/// Time that a connection has until a node makes a call on it; `None` after the call.
struct GuestTime(Option<Pin<Box<Sleep>>>);

impl GuestTime {
    fn new(limit: Duration) -> Self {
        Self(Some(Box::pin(tokio::time::sleep(limit))))
    }

    /// Returns true once the time is over without a call of a node.
    fn is_over(&mut self, seat: &Seat, context: &mut Context<'_>) -> bool {
        let Some(end) = &mut self.0 else { return false };
        if seat.is_of_node() {
            self.0 = None;
            return false;
        }
        end.as_mut().poll(context).is_ready()
    }
}

/// A served connection.
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    peer: Peer,
    guest_time: GuestTime,
    _right: Share<Origin>,
    /// Right to windows of full size.
    wide: Option<Share<Vec<u8>>>,
}

impl Connection {
    /// Makes the connection of a client after its handshake.
    pub(crate) fn new(
        stream: TlsStream<TcpStream>,
        address: IpAddr,
        entry: Entry,
        limits: &Limits,
    ) -> Self {
        let (_, session) = stream.get_ref();
        let leaf = session.peer_certificates().and_then(|chain| chain.first());
        let leaf = leaf.and_then(|leaf| Leaf::parse(leaf));
        let wide = leaf.as_ref().and_then(|leaf| limits.widen(&leaf.subject));
        let serial = leaf.map(|leaf| leaf.serial);
        let Entry { connection, guest } = entry;
        let (origin, seat) = (*guest.holder(), Arc::new(Seat::new(guest)));
        let guest_time = GuestTime::new(GUEST_MAX);
        let peer = Peer { serial, address, origin, seat, cutter: Arc::default() };
        Self { stream, peer, guest_time, _right: connection, wide }
    }

    pub(crate) fn has_certificate(&self) -> bool {
        self.peer.serial.is_some()
    }

    /// Returns true if the connection may have windows of full size.
    pub(crate) fn is_wide(&self) -> bool {
        self.wide.is_some()
    }
}

/// The certificate of a client, as far as it matters here.
struct Leaf {
    serial: Vec<u8>,
    /// Name of the node, encoded: the same in all certificates of the node.
    subject: Vec<u8>,
}

impl Leaf {
    fn parse(leaf: &[u8]) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(leaf).ok()?;
        let subject = certificate.subject().as_raw().to_vec();
        Some(Self { serial: certificate.raw_serial().to_vec(), subject })
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.peer.cutter.is_cut(context) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let Self { guest_time, peer, .. } = &mut *self;
        if guest_time.is_over(&peer.seat, context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_connection_on_which_no_node_makes_a_call_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let (guests, nodes) = (Quota::new(1, 1), Quota::new(1, 1));
        let origin = Origin::of(Ipv4Addr::LOCALHOST.into());
        let Ok(guest) = guests.take(origin) else { panic!("nobody else is there") };
        let seat = Seat::new(guest);
        runtime.expect("a runtime").block_on(async {
            let mut time = GuestTime::new(Duration::ZERO);
            let end = std::future::poll_fn(|context| {
                if time.is_over(&seat, context) { Poll::Ready(()) } else { Poll::Pending }
            });
            tokio::time::timeout(GUEST_MAX, end).await.expect("the time ends");
            seat.take(&nodes, NodeId(1)).expect("there is room");
            let context = &mut Context::from_waker(Waker::noop());
            assert!(!time.is_over(&seat, context), "a node has as much time as it likes");
        });
        assert!(guests.take(origin).is_ok(), "a node is no guest");
    }
}

//! The gate to the service of nodes. It finds the node by the certificate of the connection, and
//! counts the call, before anything of the request's body is read. A request that it refuses costs
//! no memory. The body of a request that it lets in is [`metered`].

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use catalog::{CatalogError, Node};
use model::{NodeId, ServerTime};
use store::Store;
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;

use crate::connection::Peer;
use crate::edge::Edge;
use crate::identities::TwoPlaces;
use crate::inbox::CallRooms;
use crate::limits::refused;
use crate::metered::{Meter, metered};
use crate::outbox::Answers;
use crate::quota::Share;
use crate::refusal;

/// The right to one call. It is held by all that works for the call, and by its answer.
pub(crate) type CallRight = Arc<CallHoldings>;

/// Parts of a node's limits that a call holds.
pub(crate) struct CallHoldings {
    _share: Share<NodeId>,
    /// Memory of the messages that the call has got.
    rooms: Arc<CallRooms>,
    /// Memory of the answers of the call that are unread.
    answers: Arc<Answers>,
}

impl CallHoldings {
    pub(crate) fn answers(&self) -> &Arc<Answers> {
        &self.answers
    }

    /// Gives back the memory of messages, once the call does not need them any more.
    pub(crate) fn forget_messages(&self) {
        self.rooms.leave(0);
    }
}

/// The node that makes a call.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) node: Node,
    /// Serial number of the node's certificate.
    pub(crate) serial: Vec<u8>,
    pub(crate) right: CallRight,
}

impl Caller {
    /// Counts a call of `node`, unless the node has too many calls.
    pub(crate) fn new(edge: &Edge, node: Node, serial: Vec<u8>) -> Result<Self, Status> {
        let share = edge.limits.calls().take(node.id).map_err(|excess| {
            let help = "wait until some of its programs have ended, then try again";
            refused(&node.name, excess, "calls", help)
        })?;
        let answers = Answers::new(&edge.outbox, node.id);
        let right = Arc::new(CallHoldings { _share: share, rooms: Arc::default(), answers });
        Ok(Self { node, serial, right })
    }

    /// Returns the place where the messages of the call find their room. `waiting` is the right to
    /// wait of the call's connection.
    fn meter(&self, edge: &Edge, waiting: Arc<Semaphore>) -> Meter {
        Meter {
            inbox: Arc::clone(&edge.inbox),
            node: (self.node.id, self.node.name.clone()),
            rooms: Arc::clone(&self.right.rooms),
            waiting,
        }
    }

    /// Returns the caller of a request that the gate has let in.
    pub(crate) fn of<T>(request: &tonic::Request<T>) -> Self {
        let caller = request.extensions().get::<Self>();
        caller.expect("every request passes the gate").clone()
    }
}

/// Service that lets in only the calls of enrolled nodes.
#[derive(Clone)]
pub(crate) struct Gate<S> {
    pub(crate) edge: Arc<Edge>,
    pub(crate) inner: S,
}

impl<S: NamedService> NamedService for Gate<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Gate<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let edge = Arc::clone(&self.edge);
        // The clone serves the next call: only this one was asked whether it is ready.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let peer = request.extensions().get::<Peer>().cloned();
        let peer = peer.expect("each connection has a peer");
        let waiting = peer.seat.waiting();
        Box::pin(async move {
            match admit(&edge, peer).await {
                Ok(caller) => {
                    let (path, meter) =
                        (request.uri().path().to_owned(), caller.meter(&edge, waiting));
                    request.extensions_mut().insert(caller);
                    inner.call(request.map(|body| metered(body, &path, meter))).await
                }
                Err(status) => Ok(status.into_http()),
            }
        })
    }
}

/// Finds the node of a client, and counts its connection and its call.
async fn admit(edge: &Arc<Edge>, peer: Peer) -> Result<Caller, Status> {
    let Some(serial) = peer.serial.clone() else {
        let help = "no certificate; enrol this node with 'holdfast enroll'";
        return Err(Status::unauthenticated(help));
    };
    let lookup = peer.seat.lookup().await;
    let finding = tokio::task::spawn_blocking({
        let (edge, peer, serial) = (Arc::clone(edge), peer.clone(), serial.clone());
        move || {
            let node = identified(&edge, &peer, &serial);
            drop(lookup);
            node
        }
    });
    let node = finding.await.map_err(|_| refusal::panicked())??;
    peer.seat.take(edge.limits.node_connections(), node.id).map_err(|excess| {
        let help = "end some of its programs, or raise node_connections_max in server.toml";
        refused(&node.name, excess, "connections", help)
    })?;
    Caller::new(edge, node, serial)
}

/// Finds the node by the serial number of its certificate, and notes its connection.
fn identified(edge: &Edge, peer: &Peer, serial: &[u8]) -> Result<Node, Status> {
    if peer.cutter.is_registered() {
        return admitted(&edge.store, serial, OPEN);
    }
    let node = admitted(&edge.store, serial, sys::clock::system())?;
    let now = sys::clock::monotonic();
    if let Some(places) = edge.identities.note(node.id, (serial, peer.address), &peer.cutter, now) {
        report(&edge.store, &node, places);
    }
    // The node may have been locked just before its connection could be cut.
    admitted(&edge.store, serial, OPEN)
}

/// The moment for a connection that is open: it goes on beyond the end of its certificate, and ends
/// only with a revocation. Otherwise a renewal would end a long backup, and a daemon that keeps its
/// connection.
pub(crate) const OPEN: ServerTime = ServerTime(i64::MIN);

/// Finds the node by the serial number of its certificate at `moment`. Fails if the server does not
/// admit the node, or not with this certificate.
pub(crate) fn admitted(store: &Store, serial: &[u8], moment: ServerTime) -> Result<Node, Status> {
    match store.catalog.certificate_node(serial, moment) {
        Ok(node) if node.locks.any() => Err(Status::permission_denied(format!(
            "node {} is locked; ask the administrator to unlock it",
            node.name
        ))),
        Ok(node) => Ok(node),
        Err(CatalogError::NotFound { .. }) => Err(Status::unauthenticated(
            "the certificate was revoked or superseded, or its node was removed; enrol again with \
             a new token",
        )),
        Err(error) => Err(refusal::status(error.into())),
    }
}

/// Reports that a node is connected from two addresses at once.
fn report(store: &Store, node: &Node, TwoPlaces { known, new }: TwoPlaces) {
    tracing::warn!(node = %node.name, %known, %new, "a node is connected from two addresses");
    let details = format!(
        "{0} from {known} and {new}; if these are two machines, somebody has a copy of its \
         certificate: 'holdfast admin node revoke {0}'",
        node.name
    );
    if let Err(error) = store.record("node connected from two addresses", details) {
        tracing::warn!(%error, "cannot record this in the audit trail");
    }
}

//! TLS, version 1.3 only. The server asks every client for its certificate.
//!
//! A connection that does not begin with TLS may be a plain one, for a measurement of the network.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::PrivatePkcs8KeyDer;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;

use crate::authority::{Authority, AuthorityError};
use crate::connection::{Connection, Stranger};
use crate::edge::Edge;
use crate::origin::Origin;
use crate::plain;

/// Maximum time from the start of a connection to the end of its handshake.
const HANDSHAKE_SECS: u64 = 15;
/// Maximum number of connections that wait to be served.
const WAITING_MAX: usize = 64;

/// Reason why the server cannot speak TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot set up TLS")]
    Settings(#[from] rustls::Error),
    #[error("cannot set up client certificates")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

/// Makes the server's side of TLS.
pub(crate) fn acceptor(authority: &Authority) -> Result<TlsAcceptor, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.ca().clone())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()?;
    let identity = authority.identity(sys::clock::system())?;
    let key = PrivatePkcs8KeyDer::from(identity.key);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain, key.into())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Connections after their handshake.
pub(crate) struct Arrivals {
    /// Connections with a certificate.
    pub(crate) nodes: mpsc::Receiver<io::Result<Connection>>,
    /// Such connections of nodes that have many.
    pub(crate) further: mpsc::Receiver<io::Result<Connection>>,
    /// Connections without a certificate.
    pub(crate) guests: mpsc::Receiver<io::Result<Connection>>,
}

/// Destinations of connections after their handshake.
#[derive(Clone)]
struct Destinations {
    nodes: mpsc::Sender<io::Result<Connection>>,
    further: mpsc::Sender<io::Result<Connection>>,
    guests: mpsc::Sender<io::Result<Connection>>,
}

/// Accepts connections until the receivers are dropped. Closes the connections that are too many.
pub(crate) fn accept(listener: TcpListener, acceptor: TlsAcceptor, edge: Arc<Edge>) -> Arrivals {
    let (nodes, node_arrivals) = mpsc::channel(WAITING_MAX);
    let (further, further_arrivals) = mpsc::channel(WAITING_MAX);
    let (guests, guest_arrivals) = mpsc::channel(WAITING_MAX);
    let destinations = Destinations { nodes, further, guests };
    tokio::spawn(async move {
        while !destinations.nodes.is_closed() {
            match listener.accept().await {
                Ok((stream, address)) => {
                    let address = address.ip().to_canonical();
                    let Some(entry) = edge.limits.enter(Origin::of(address)) else { continue };
                    let stranger = Stranger { stream, address, entry };
                    let (edge, acceptor) = (Arc::clone(&edge), acceptor.clone());
                    let destinations = destinations.clone();
                    tokio::spawn(async move {
                        meet(stranger, &edge, acceptor, destinations).await;
                    });
                }
                // No file descriptor is free, or a connection ended in the queue.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });
    Arrivals { nodes: node_arrivals, further: further_arrivals, guests: guest_arrivals }
}

/// Tells TLS from a plain connection, and begins with the one or the other.
async fn meet(
    stranger: Stranger,
    edge: &Arc<Edge>,
    acceptor: TlsAcceptor,
    destinations: Destinations,
) {
    if let Err(error) = stranger.stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch off Nagle's algorithm");
    }
    let limit = Duration::from_secs(HANDSHAKE_SECS);
    let deadline = Instant::from_std(sys::clock::monotonic() + limit);
    match timeout_at(deadline, plain::is_announced(&stranger.stream)).await {
        Ok(Ok(false)) => handshake(stranger, edge, acceptor, destinations, deadline).await,
        Ok(Ok(true)) => plain::serve(stranger, edge, deadline).await,
        Ok(Err(error)) => tracing::debug!(%error, "a connection failed before its first byte"),
        Err(_) => tracing::debug!("a connection sent nothing"),
    }
}

async fn handshake(
    Stranger { stream, address, entry }: Stranger,
    edge: &Edge,
    acceptor: TlsAcceptor,
    destinations: Destinations,
    deadline: Instant,
) {
    let stream = match timeout_at(deadline, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a handshake failed"),
        Err(_) => return tracing::debug!("a handshake took too long"),
    };
    let connection = Connection::new(stream, address, entry, &edge.limits);
    let Destinations { nodes, further, guests } = destinations;
    let destination = match (connection.has_certificate(), connection.is_wide()) {
        (true, true) => nodes,
        (true, false) => further,
        (false, _) => guests,
    };
    // No task receives connections while the server stops.
    drop(destination.send(Ok(connection)).await);
}

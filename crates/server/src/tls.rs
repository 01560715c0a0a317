//! TLS, version 1.3 only. The server asks every client for its certificate.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::authority::{Authority, AuthorityError};
use crate::identities::Cutter;

/// Maximum duration of a handshake.
const HANDSHAKE_SECS: u64 = 15;
/// Maximum number of connections that wait to be served.
const WAITING_MAX: usize = 64;

/// The client at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The serial number of the client's certificate; `None` for a client without a certificate.
    pub(crate) serial: Option<Vec<u8>>,
    pub(crate) address: IpAddr,
    /// Switch that ends the connection.
    pub(crate) cutter: Arc<Cutter>,
}

/// A served connection.
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    address: IpAddr,
    cutter: Arc<Cutter>,
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        let (_, session) = self.stream.get_ref();
        let leaf = session.peer_certificates().and_then(|chain| chain.first());
        let serial = leaf.and_then(|leaf| serial(leaf));
        Peer { serial, address: self.address, cutter: Arc::clone(&self.cutter) }
    }
}

fn serial(leaf: &[u8]) -> Option<Vec<u8>> {
    let (_, certificate) = x509_parser::parse_x509_certificate(leaf).ok()?;
    Some(certificate.raw_serial().to_vec())
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.cutter.is_cut(context) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
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

/// Accepts connections until the receiver is dropped. The channel gets each connection after its
/// handshake.
pub(crate) fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
) -> mpsc::Receiver<io::Result<Connection>> {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    tokio::spawn(async move {
        while !sender.is_closed() {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let address = from.ip().to_canonical();
                    tokio::spawn(handshake(stream, address, acceptor.clone(), sender.clone()));
                }
                // No file descriptor is free, or a connection ended in the queue.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });
    receiver
}

async fn handshake(
    stream: TcpStream,
    address: IpAddr,
    acceptor: TlsAcceptor,
    sender: mpsc::Sender<io::Result<Connection>>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch off Nagle's algorithm");
    }
    let limit = Duration::from_secs(HANDSHAKE_SECS);
    match tokio::time::timeout(limit, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let connection = Connection { stream, address, cutter: Arc::default() };
            // No task receives connections while the server stops.
            drop(sender.send(Ok(connection)).await);
        }
        Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
        Err(_) => tracing::debug!("a handshake took too long"),
    }
}

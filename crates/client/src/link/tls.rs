//! Channel to the server: TCP, and TLS 1.3 that trusts only the CA of the enrolment.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use sys::lock::Mutex;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use wire::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};

use super::paced_stream::PacedStream;
use super::plain_stream::{PlainStream, in_plain_words};
use crate::error::{ClientError, ErrorKind};
use crate::node::home::{Identity, Probes};
use crate::pace::Pace;
use crate::patience::TAKEOVER;

/// Maximum number of bytes that wait in the kernel for the network: a few quanta.
const UNSENT_BYTES: u32 = 1 << 20;
/// Time limit for the TCP connection, and the same for the TLS handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(15);
/// Pause between two rounds of attempts during a takeover.
pub(super) const TAKEOVER_PAUSE: Duration = Duration::from_millis(500);
/// Interval between two keep-alive messages on an idle connection.
const KEEPALIVE: Duration = Duration::from_secs(40);
/// Time limit for the answer to such a message.
const KEEPALIVE_PATIENCE: Duration = Duration::from_secs(20);

/// Condition under which the server's certificate is trusted.
pub(crate) enum Trust {
    /// The server's CA has this SHA-256 fingerprint. The node has no certificate yet.
    Fingerprint([u8; 32]),
    /// The verifier trusts it. The node has no certificate yet.
    Judged(Arc<dyn ServerCertVerifier>),
    /// The server's CA is the CA of the node's own certificate.
    Pinned(Identity),
}

/// A connection to the server.
pub(crate) struct TlsConnection {
    pub(crate) channel: Channel,
    pub(crate) line: Line,
}

/// Properties of a connection. The connection is open for as long as this value, so only a
/// measurement keeps it.
pub(crate) struct Line {
    pub(super) server: SocketAddr,
    /// Name of the cipher suite on which both sides have agreed.
    pub(super) cipher: String,
    pub(super) socket: OwnedFd,
}

/// Manner in which a connection uses the network.
pub(crate) struct Manner {
    /// Time for which several addresses are tried again while none answers.
    pub(super) takeover: Duration,
    /// Size of the socket buffers; `None` leaves it to the system.
    pub(super) buffer_bytes: Option<u32>,
    /// Limits on what is sent and received; `None` if there are none.
    pub(super) pace: Option<Arc<Pace>>,
    pub(super) probes: Probes,
}

impl Default for Manner {
    fn default() -> Self {
        Self { takeover: TAKEOVER, buffer_bytes: None, pace: None, probes: Probes::default() }
    }
}

/// Connects to the first of `addresses` that answers. The addresses are separated by commas.
///
/// If there are several addresses and none answers, tries again for the time `manner.takeover`.
pub(crate) async fn connect(
    addresses: &str,
    trust: Trust,
    manner: &Manner,
) -> Result<TlsConnection, ClientError> {
    let config = Arc::new(tls_config(trust)?);
    let all: Vec<&str> = addresses.split(',').collect();
    let began = sys::clock::monotonic();
    loop {
        let mut failure = None;
        for address in &all {
            match connect_to(address, &config, manner).await {
                Err(error) if error.kind == ErrorKind::Retry => failure = Some(error),
                other => return other,
            }
        }
        let none = || ClientError::new(ErrorKind::Usage, "the configuration has no server address");
        let failure = failure.ok_or_else(none)?;
        if all.len() == 1 || began.elapsed() >= manner.takeover {
            return Err(failure);
        }
        tokio::time::sleep(TAKEOVER_PAUSE).await;
    }
}

/// Opens a TCP connection, as all connections to a server are.
pub(super) async fn reach(
    address: &str,
    buffer_bytes: Option<u32>,
) -> Result<TcpStream, ClientError> {
    let unreachable = |error: &dyn std::fmt::Display| unreachable(address, error);
    let stream = tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(address))
        .await
        .map_err(|_| unreachable(&"it does not answer"))?
        .map_err(|error| unreachable(&error))?;
    stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
    if let Some(bytes) = buffer_bytes {
        sys::net::set_buffers(&stream, bytes).map_err(|error| unreachable(&error))?;
    }
    // A failure is ignored. With the limit, data waits in this process, where the wait shows that
    // the network is slow.
    drop(sys::net::limit_unsent(&stream, UNSENT_BYTES));
    Ok(stream)
}

async fn connect_to(
    address: &str,
    config: &Arc<rustls::ClientConfig>,
    Manner { buffer_bytes, pace, probes, .. }: &Manner,
) -> Result<TlsConnection, ClientError> {
    let unreachable = |error: &dyn std::fmt::Display| unreachable(address, error);
    let stream = reach(address, *buffer_bytes).await?;
    if *probes == Probes::Kernel {
        let probed = sys::net::probe_when_idle(&stream, KEEPALIVE, KEEPALIVE_PATIENCE);
        probed.map_err(|error| unreachable(&error))?;
    }
    let server = stream.peer_addr().map_err(|error| unreachable(&error))?;
    let socket = stream.as_fd().try_clone_to_owned().map_err(|error| unreachable(&error))?;
    let name = ServerName::try_from(wire::SERVER_NAME).expect("a DNS name");
    let stream = PacedStream::new(stream, pace.clone());
    let handshake = TlsConnector::from(Arc::clone(config)).connect(name, stream);
    let stream = shaken(address, CONNECT_LIMIT, handshake).await?;
    let suite = stream.get_ref().1.negotiated_cipher_suite();
    let suite = suite.expect("the handshake has ended with a cipher suite");
    let line = Line { server, cipher: format!("{:?}", suite.suite()), socket };
    // The channel gets only this stream, so a lost connection is not opened again.
    let stream = Mutex::new(Some(TokioIo::new(PlainStream::new(stream))));
    let connector = tower::service_fn(move |_| {
        let stream = stream.lock().take();
        let lost = || io::Error::from(io::ErrorKind::ConnectionAborted);
        async move { stream.ok_or_else(lost) }
    });
    let window = |bytes| pace.as_ref().map_or(bytes, |pace| pace.window_bytes(bytes));
    let mut endpoint = Endpoint::from_static("https://server.holdfast.internal")
        .initial_stream_window_size(window(STREAM_WINDOW_BYTES))
        .initial_connection_window_size(window(CONNECTION_WINDOW_BYTES));
    if *probes == Probes::Own {
        endpoint = endpoint
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_PATIENCE);
    }
    let channel = endpoint
        .connect_with_connector(connector)
        .await
        .map_err(|error| judged(address, &error))?;
    Ok(TlsConnection { channel, line })
}

/// Waits for the end of `handshake` with the server at `address`, `limit` at most.
async fn shaken<T>(
    address: &str,
    limit: Duration,
    handshake: impl Future<Output = io::Result<T>>,
) -> Result<T, ClientError> {
    tokio::time::timeout(limit, handshake)
        .await
        .map_err(|_| unreachable(address, &"it takes the connection, but says nothing"))?
        .map_err(|error| judged(address, &in_plain_words(error)))
}

/// Returns the CA that the server at `address` shows. Nothing is trusted, and nothing is sent: the
/// handshake ends when the server has shown its certificates.
pub(crate) async fn shown_authority(address: &str) -> Result<CertificateDer<'static>, ClientError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let witness = Arc::new(Witness { provider, shown: Mutex::new(None) });
    let verifier = Arc::clone(&witness) as Arc<dyn ServerCertVerifier>;
    let config = Arc::new(tls_config(Trust::Judged(verifier))?);
    let connected = connect_to(address, &config, &Manner::default()).await;
    let shown = witness.shown.lock().take();
    match (shown, connected) {
        (Some(authority), _) => Ok(authority),
        (None, Err(error)) => Err(error),
        (None, Ok(_)) => Err(unreachable(address, &"it has shown no certificate")),
    }
}

/// Verifier that trusts nobody, and notes the CA that a server shows.
#[derive(Debug)]
struct Witness {
    provider: Arc<CryptoProvider>,
    shown: Mutex<Option<CertificateDer<'static>>>,
}

fn unreachable(address: &str, error: &dyn std::fmt::Display) -> ClientError {
    ClientError::new(ErrorKind::Retry, format!("cannot reach the server at {address}: {error}"))
}

/// Makes the error for a failed handshake: the connection was lost, or the server is not trusted.
fn judged(address: &str, error: &(dyn std::error::Error + 'static)) -> ClientError {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let innermost = chain.clone().last().unwrap_or(error);
    // TLS reports a refusal as invalid data. Any other I/O error is a lost connection.
    let is_lost = |error: &io::Error| error.kind() != io::ErrorKind::InvalidData;
    if chain.filter_map(|error| error.downcast_ref()).any(is_lost) {
        return unreachable(address, innermost);
    }
    let message =
        format!("the server at {address} is not trusted, or refuses this node: {innermost}");
    ClientError::new(ErrorKind::Refused, message)
}

fn tls_config(trust: Trust) -> Result<rustls::ClientConfig, ClientError> {
    let failed = |error: rustls::Error| {
        let message = format!("the node's certificate cannot be used: {error}; enrol again");
        ClientError::new(ErrorKind::Refused, message)
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed)?;
    let judged = |verifier| {
        let builder = builder.clone().dangerous().with_custom_certificate_verifier(verifier);
        builder.with_no_client_auth()
    };
    let mut config = match trust {
        Trust::Fingerprint(fingerprint) => judged(Arc::new(PinnedCa { fingerprint, provider })),
        Trust::Judged(verifier) => judged(verifier),
        Trust::Pinned(Identity { leaf, ca, key }) => {
            let mut roots = RootCertStore::empty();
            roots.add(ca.clone()).map_err(failed)?;
            builder
                .with_root_certificates(roots)
                .with_client_auth_cert(vec![leaf, ca], key)
                .map_err(failed)?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// Verifier that trusts only a server whose chain ends in the CA with this fingerprint.
#[derive(Debug)]
struct PinnedCa {
    fingerprint: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl PinnedCa {
    fn verifier(
        &self,
        chain: &[CertificateDer<'_>],
    ) -> Result<Arc<WebPkiServerVerifier>, rustls::Error> {
        let is_pinned =
            |certificate: &&CertificateDer<'_>| wire::fingerprint(certificate) == self.fingerprint;
        let ca = chain.iter().find(is_pinned).ok_or_else(|| {
            rustls::Error::General("its CA is not the CA that the token names".to_owned())
        })?;
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone().into_owned())?;
        WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(&self.provider))
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))
    }
}

impl ServerCertVerifier for PinnedCa {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verifier(intermediates)?
            .verify_server_cert(leaf, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(ca) = intermediates.last() else {
            return Err(rustls::Error::General("it does not show its CA".to_owned()));
        };
        *self.shown.lock() = Some(ca.clone().into_owned());
        Err(rustls::Error::General("only its CA was asked for".to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only its CA was asked for".to_owned()))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that hangs was taken for one of another kind, and its administrator looked at the
    /// port.
    #[test]
    fn a_server_that_says_nothing_is_not_taken_for_one_without_tls() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let silent = std::future::pending::<io::Result<()>>();
        let ended = runtime.block_on(shaken("srv:1500", Duration::ZERO, silent));
        let error = ended.expect_err("the time is over");
        assert_eq!(error.kind, ErrorKind::Retry);
        assert_eq!(
            error.message,
            "cannot reach the server at srv:1500: it takes the connection, but says nothing"
        );
        let refusal = std::future::ready(Err::<(), _>(io::ErrorKind::InvalidData.into()));
        let ended = runtime.block_on(shaken("srv:1500", Duration::from_secs(60), refusal));
        assert_eq!(ended.expect_err("it is refused").kind, ErrorKind::Refused);
    }
}

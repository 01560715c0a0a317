//! The connection to the server: TLS 1.3 pinned to its CA, greeting, renewal of the certificate.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use model::{ClassId, DirPath, PackNumber, ServerTime};
use policy::{ArchiveCopyGroup, BackupCopyGroup};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use wire::proto::node_client::NodeClient;
use wire::{CONNECTION_WINDOW_BYTES, MESSAGE_BYTES_MAX, STREAM_WINDOW_BYTES, proto};

use crate::home::{ClientConfig, Home, Identity, Request};
use crate::{ClientError, ErrorKind};

/// Bytes that wait in the kernel for the network at most: some quanta.
const UNSENT_BYTES: u32 = 1 << 20;
/// A server that does not answer by then is not there.
const CONNECT_SECS: u64 = 15;
/// Another server has taken over by then, where there are several.
const TAKEOVER: Duration = Duration::from_secs(45);
const TAKEOVER_PAUSE: Duration = Duration::from_millis(500);
/// The connection is asked for a sign of life so often.
const KEEPALIVE_SECS: u64 = 20;
/// A certificate is renewed once it has less than this to live: a third of the 90 days that servers
/// give by default.
const RENEW_SECS: i64 = 30 * 86_400;
/// Threads that drive the network.
const NETWORK_THREADS: usize = 2;

/// How the server's certificate is judged.
pub(crate) enum Trust {
    /// Its CA has this SHA-256; there is no client certificate yet.
    Fingerprint([u8; 32]),
    /// Its CA is the one that came with our own certificate.
    Pinned(Identity),
}

/// What the server said when it was greeted.
#[derive(Clone, Debug)]
pub struct Hello {
    pub node: String,
    pub server_version: String,
    /// The server's clock.
    pub now: ServerTime,
    /// The classes that objects may be bound to.
    pub classes: BTreeMap<ClassId, Class>,
    pub default_class: ClassId,
    /// Of directories.
    pub directory_class: ClassId,
    /// Name and text of the statements that come behind the node's own.
    pub option_set: Option<(String, Vec<u8>)>,
    /// Packs that are damaged: what they hold has to be sent again.
    pub damaged_packs: BTreeSet<PackNumber>,
}

/// What the client must know of a management class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Class {
    pub name: String,
    /// `None`: its objects are not backed up.
    pub backup: Option<BackupCopyGroup>,
    /// `None`: its objects are not archived.
    pub archive: Option<ArchiveCopyGroup>,
}

impl Class {
    /// `None` for words that this version does not know.
    fn of(message: &proto::ManagementClass) -> Option<(ClassId, Self)> {
        fn word<T: std::str::FromStr>(text: Option<&String>) -> Option<T> {
            text?.parse().ok()
        }
        let days = |days: Option<u32>| u16::try_from(days?).ok();
        let backup = |group: &proto::BackupCopyGroup| {
            Some(BackupCopyGroup {
                versions_existing_max: word(group.versions_existing.as_ref())?,
                versions_deleted_max: word(group.versions_deleted.as_ref())?,
                extra_days: word(group.extra_days.as_ref())?,
                only_days: word(group.only_days.as_ref())?,
                mode: word(group.mode.as_ref())?,
                frequency_days: days(group.frequency_days)?,
                serialization: word(group.serialization.as_ref())?,
            })
        };
        let archive = |group: &proto::ArchiveCopyGroup| {
            Some(ArchiveCopyGroup {
                keep_days: word(group.keep_days.as_ref())?,
                starts: word(group.starts.as_ref())?,
                minimum_days: days(group.minimum_days)?,
            })
        };
        let class = Self {
            name: message.name.clone(),
            backup: match &message.backup {
                Some(group) => Some(backup(group)?),
                None => None,
            },
            archive: match &message.archive {
                Some(group) => Some(archive(group)?),
                None => None,
            },
        };
        Some((ClassId(u16::try_from(message.number).ok()?), class))
    }
}

impl Hello {
    /// The name of the class `id`; empty for one that is gone.
    pub fn class_name(&self, id: ClassId) -> &str {
        self.classes.get(&id).map_or("", |class| &class.name)
    }
}

/// A filespace of the node as the server knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilespaceSummary {
    pub name: Vec<u8>,
    pub active_objects: u64,
    pub last_backup: Option<ServerTime>,
}

/// An open connection.
pub(crate) struct Link {
    pub(crate) runtime: Runtime,
    client: NodeClient<Channel>,
    hello: Hello,
    pub(crate) domain_key: chunk::DomainKey,
    /// The node's own, oldest first.
    pub(crate) seal_keys: Vec<chunk::SealKey>,
    pub(crate) digest_key: [u8; 32],
    /// What recalls have brought lately.
    pub(crate) kept: crate::restore::Kept,
}

/// A runtime for the network edge.
pub(crate) fn runtime() -> Result<Runtime, ClientError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(NETWORK_THREADS)
        .thread_name("network")
        .enable_all()
        .build()
        .map_err(|error| ClientError::new(ErrorKind::Bug, format!("no threads: {error}")))
}

impl Link {
    pub(crate) fn open(home: &Home) -> Result<Self, ClientError> {
        let runtime = runtime()?;
        let greeted = runtime.block_on(async {
            let began = sys::clock::monotonic();
            let is_one_of_several = home.has_several_servers();
            loop {
                match greet(home).await {
                    // It died between taking the connection and answering.
                    Err(error)
                        if error.kind == ErrorKind::Retry
                            && is_one_of_several
                            && began.elapsed() < TAKEOVER =>
                    {
                        tokio::time::sleep(TAKEOVER_PAUSE).await;
                    }
                    other => return other,
                }
            }
        });
        let (client, reply) = greeted.map_err(|error| about_node(home, error))?;
        let seal_keys = crate::keys::load(home)?;
        Self::greeted(runtime, client, reply, seal_keys)
    }

    fn greeted(
        runtime: Runtime,
        client: NodeClient<Channel>,
        reply: proto::HelloReply,
        seal_keys: Vec<chunk::SealKey>,
    ) -> Result<Self, ClientError> {
        let short = |_| ClientError::new(ErrorKind::Bug, "the server sent keys of another length");
        let domain_key = <[u8; 32]>::try_from(&reply.domain_key[..]).map_err(short)?;
        let digest_key = <[u8; 32]>::try_from(&reply.digest_key[..]).map_err(short)?;
        let unknown = || {
            let message = "the server's policy has what this version does not know; update it";
            ClientError::new(ErrorKind::Usage, message)
        };
        let number = |number: u32| u16::try_from(number).map(ClassId).map_err(|_| unknown());
        let classes: Option<_> = reply.classes.iter().map(Class::of).collect();
        let option_set = reply.option_set.filter(|set| !set.name.is_empty());
        let hello = Hello {
            node: reply.node,
            server_version: reply.server_version,
            now: ServerTime(reply.now),
            classes: classes.ok_or_else(unknown)?,
            default_class: number(reply.default_class)?,
            directory_class: number(reply.directory_class)?,
            option_set: option_set.map(|set| (set.name, set.text.to_vec())),
            damaged_packs: reply.damaged_packs.into_iter().map(PackNumber).collect(),
        };
        let domain_key = chunk::DomainKey::new(domain_key);
        let kept = crate::restore::Kept::default();
        Ok(Self { runtime, client, hello, domain_key, seal_keys, digest_key, kept })
    }

    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// A handle for calls; cheap.
    pub(crate) fn client(&self) -> NodeClient<Channel> {
        self.client.clone()
    }

    /// Active objects at or below each of `directories`, as the server knows them.
    pub(crate) fn count_objects(
        &self,
        filespace: &[u8],
        directories: impl Iterator<Item = DirPath>,
    ) -> Result<u64, ClientError> {
        let bytes = |directory: DirPath| Bytes::copy_from_slice(directory.as_bytes());
        let directories: Vec<Bytes> = directories.map(bytes).collect();
        if directories.is_empty() {
            return Ok(0);
        }
        let filespace = Bytes::copy_from_slice(filespace);
        let request = proto::CountSubtreesRequest { filespace, directories };
        let mut client = self.client();
        let reply = self.runtime.block_on(client.count_subtrees(request))?.into_inner();
        Ok(reply.objects.iter().sum())
    }

    /// The node's filespaces, also those of `archives`.
    pub(crate) fn filespaces(&self, archives: bool) -> Result<Vec<FilespaceSummary>, ClientError> {
        let mut client = self.client();
        let request = proto::FilespacesRequest { archives };
        let reply = self.runtime.block_on(client.filespaces(request))?;
        let info = |filespace: proto::Filespace| FilespaceSummary {
            name: filespace.name.to_vec(),
            active_objects: filespace.active_objects,
            last_backup: (filespace.last_backup != 0).then_some(ServerTime(filespace.last_backup)),
        };
        Ok(reply.into_inner().filespaces.into_iter().map(info).collect())
    }
}

/// Connects and says hello; renews the certificate when that is due.
async fn greet(home: &Home) -> Result<(NodeClient<Channel>, proto::HelloReply), ClientError> {
    let identity = home.identity()?;
    let expires = expiry(&identity.leaf);
    let buffers = home.config.tuning.socket_buffer_bytes;
    let channel = connect(&home.addresses(), Trust::Pinned(identity), buffers).await?;
    let mut client = NodeClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let client_version = env!("CARGO_PKG_VERSION").to_owned();
    let reply = client.hello(proto::HelloRequest { client_version }).await?.into_inner();
    home.learn(&reply.servers);
    if expires - sys::clock::now().secs() < RENEW_SECS {
        renew(home, &mut client).await?;
    }
    Ok((client, reply))
}

/// A refusal says whom it is about.
fn about_node(home: &Home, error: ClientError) -> ClientError {
    let ClientError { kind, message } = error;
    if kind != ErrorKind::Refused {
        return ClientError { kind, message };
    }
    let ClientConfig { server, node, .. } = &home.config;
    ClientError::new(kind, format!("{server} refuses node {node}: {message}"))
}

/// When the certificate ends, in seconds since 1970; 0 if that cannot be told.
fn expiry(leaf: &CertificateDer<'_>) -> i64 {
    x509_parser::parse_x509_certificate(leaf)
        .map_or(0, |(_, leaf)| leaf.validity().not_after.timestamp())
}

async fn renew(home: &Home, client: &mut NodeClient<Channel>) -> Result<(), ClientError> {
    let request = Request::make()?;
    let message = proto::RenewRequest { signing_request: request.signing_request.clone().into() };
    let certificate = client.renew(message).await?.into_inner();
    home.renew(&request, &certificate.chain_pem)
}

/// Connects to the server at `addresses`, with socket buffers of so many bytes if it says so. Of
/// several, with commas between, one serves; it may take a while until that is another one.
pub(crate) async fn connect(
    addresses: &str,
    trust: Trust,
    buffer_bytes: Option<u32>,
) -> Result<Channel, ClientError> {
    let config = Arc::new(tls_config(trust)?);
    let all: Vec<&str> = addresses.split(',').collect();
    let began = sys::clock::monotonic();
    loop {
        let mut failure = None;
        for address in &all {
            match connect_to(address, &config, buffer_bytes).await {
                Err(error) if error.kind == ErrorKind::Retry => failure = Some(error),
                other => return other,
            }
        }
        let none = || ClientError::new(ErrorKind::Usage, "no server is named");
        let failure = failure.ok_or_else(none)?;
        if all.len() == 1 || began.elapsed() > TAKEOVER {
            return Err(failure);
        }
        tokio::time::sleep(TAKEOVER_PAUSE).await;
    }
}

async fn connect_to(
    address: &str,
    config: &Arc<rustls::ClientConfig>,
    buffer_bytes: Option<u32>,
) -> Result<Channel, ClientError> {
    let limit = Duration::from_secs(CONNECT_SECS);
    let unreachable = |error: &dyn std::fmt::Display| unreachable(address, error);
    let stream = tokio::time::timeout(limit, TcpStream::connect(address))
        .await
        .map_err(|_| unreachable(&"it does not answer"))?
        .map_err(|error| unreachable(&error))?;
    stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
    if let Some(bytes) = buffer_bytes {
        sys::net::set_buffers(&stream, bytes).map_err(|error| unreachable(&error))?;
    }
    // Advice only: what waits is to wait here, where it shows that the network is slow.
    drop(sys::net::limit_unsent(&stream, UNSENT_BYTES));
    let name = ServerName::try_from(wire::SERVER_NAME).expect("a DNS name");
    let handshake = TlsConnector::from(Arc::clone(config)).connect(name, stream);
    let stream = tokio::time::timeout(limit, handshake)
        .await
        .map_err(|_| unreachable(&"it does not speak TLS"))?
        .map_err(|error| judged(address, &error))?;
    // The channel gets this one stream: a connection that is lost is lost.
    let stream = Mutex::new(Some(TokioIo::new(stream)));
    let connector = tower::service_fn(move |_| {
        let stream = stream.lock().ok().and_then(|mut slot| slot.take());
        let lost = || io::Error::from(io::ErrorKind::ConnectionAborted);
        async move { stream.ok_or_else(lost) }
    });
    let keepalive = Duration::from_secs(KEEPALIVE_SECS);
    Endpoint::from_static("https://server.holdfast.internal")
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(keepalive)
        .keep_alive_timeout(keepalive)
        .connect_with_connector(connector)
        .await
        .map_err(|error| judged(address, &error))
}

fn unreachable(address: &str, error: &dyn std::fmt::Display) -> ClientError {
    ClientError::new(ErrorKind::Retry, format!("cannot reach the server at {address}: {error}"))
}

/// What a handshake that ended with `error` means.
fn judged(address: &str, error: &(dyn std::error::Error + 'static)) -> ClientError {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let innermost = chain.clone().last().unwrap_or(error);
    // What TLS thinks of what it has read is invalid data; all else is a connection that was lost.
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
    let mut config = match trust {
        Trust::Fingerprint(fingerprint) => {
            let verifier = PinnedCa { fingerprint, provider };
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
                .with_no_client_auth()
        }
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

/// Trusts a server whose chain ends in the CA with this fingerprint, and nobody else.
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
            rustls::Error::General("its CA is not the one that the token names".to_owned())
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

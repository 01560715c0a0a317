//! The connection to a server's administration: its socket, or its API elsewhere.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};
use wire::proto::admin_client::AdminClient;
use wire::proto::{AuditReply, CopyCatalogReply, ExpireReply, ReclaimReply, TendPoolReply};

use crate::link::plain_stream::{PlainStream, in_plain_words};
use crate::{ClientError, ErrorKind};

/// Name of the variable of the environment with the key, for messages.
const KEY_HELP: &str = "give the key of a person with --key-file FILE, or in HOLDFAST_KEY";
/// Time limit for a connection to a server elsewhere.
const CONNECT_LIMIT: Duration = Duration::from_secs(15);
/// Interval between two probes of an idle connection on which a call waits, and time limit for the
/// answer. A server that is busy with the call answers; one that hangs or is off does not.
const PROBE_PAUSE: Duration = Duration::from_secs(40);
const PROBE_PATIENCE: Duration = Duration::from_secs(80);

/// A connection to the administration of a server.
pub struct Admin {
    pub(super) runtime: Runtime,
    /// The channel of the client, for requests that are no calls.
    pub(super) channel: Channel,
    pub(super) key: Key,
    client: AdminClient<AdminChannel>,
}

/// The channel of an administrator's calls.
pub(super) type AdminChannel = InterceptedService<Channel, Key>;

/// The key that is sent with each call; none over the socket.
#[derive(Clone)]
pub(super) struct Key(pub(super) Option<MetadataValue<Ascii>>);

impl Interceptor for Key {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(key) = &self.0 {
            request.metadata_mut().insert("authorization", key.clone());
        }
        Ok(request)
    }
}

/// A server elsewhere, and what a client needs to administer it.
#[derive(Clone, Debug)]
pub struct RemoteServer {
    /// Address as a URL: `https://HOST:PORT`.
    pub url: String,
    /// Key as the server has given it: `ID:SECRET`.
    pub key: Option<String>,
    /// Certificates of authorities that are trusted, in PEM; `None` for those of the system.
    pub authorities_pem: Option<Vec<u8>>,
}

impl Admin {
    /// Connects to the socket `socket_name` of the server in `folder`, which must be running.
    pub fn connect(folder: &Path, socket_name: &'static str) -> Result<Self, ClientError> {
        let runtime = crate::link::runtime::runtime()?;
        let folder = folder.to_owned();
        let refused = |folder: &Path, error: &dyn std::fmt::Display| {
            let message = format!("cannot reach the server in {}: {error}", folder.display());
            ClientError::new(ErrorKind::Retry, message)
        };
        let connect_folder = folder.clone();
        let connector = tower::service_fn(move |_| {
            let folder = connect_folder.clone();
            async move {
                let stream = sys::net::connect_unix(&folder, socket_name)?;
                let stream = tokio::net::UnixStream::from_std(stream)?;
                Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
            }
        });
        // This connection is made only for its error, which says more than an error of the
        // transport.
        sys::net::connect_unix(&folder, socket_name).map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => forbidden(&folder),
            _ => refused(&folder, &error),
        })?;
        let endpoint = endpoint(PROBE_PAUSE, PROBE_PATIENCE);
        let channel = runtime
            .block_on(endpoint.connect_with_connector(connector))
            .map_err(|error| refused(&folder, &error))?;
        Ok(Self::new(runtime, channel, Key(None)))
    }

    /// Connects to the API of a server elsewhere.
    pub fn connect_remote(server: &RemoteServer) -> Result<Self, ClientError> {
        let usage = |message: String| ClientError::new(ErrorKind::Usage, message);
        let address = address(&server.url)?;
        let key = server.key.as_deref().ok_or_else(|| usage(KEY_HELP.to_owned()))?;
        let key = format!("Token {}", key.trim());
        let key = key.parse().map_err(|_| usage("the key is not the text of a key".to_owned()))?;
        let runtime = crate::link::runtime::runtime()?;
        let channel = runtime.block_on(remote_channel(server, address))?;
        Ok(Self::new(runtime, channel, Key(Some(key))))
    }

    fn new(runtime: Runtime, channel: Channel, key: Key) -> Self {
        let client = AdminClient::with_interceptor(channel.clone(), key.clone());
        Self { runtime, channel, key, client }
    }

    /// Makes one call and waits for its reply.
    pub(super) fn call<R>(
        &mut self,
        call: impl AsyncFnOnce(&mut AdminClient<AdminChannel>) -> Result<Response<R>, Status>,
    ) -> Result<R, ClientError> {
        Ok(self.runtime.block_on(call(&mut self.client))?.into_inner())
    }

    /// Returns the next message of a stream, or `None` at its end.
    pub(super) fn next<M>(&self, stream: &mut Streaming<M>) -> Result<Option<M>, ClientError> {
        Ok(self.runtime.block_on(stream.message())?)
    }

    /// Reads a stream of the progress of work. `visit` sees each message except the last, which has
    /// the result and is returned. The server stops the work when the connection ends.
    pub(super) fn follow<M: ProgressMessage, R: From<M>>(
        &self,
        mut stream: Streaming<M>,
        visit: &mut dyn FnMut(&R),
    ) -> Result<R, ClientError> {
        while let Some(message) = self.next(&mut stream)? {
            if message.is_last() {
                return Ok(message.into());
            }
            visit(&message.into());
        }
        Err(ClientError::new(
            ErrorKind::Retry,
            "the server ended the connection before the request was done",
        ))
    }
}

/// Returns the error for a text that is no address of a server.
fn no_address(url: &str) -> ClientError {
    let message = format!("'{url}' is no address of a server: give https://HOST:PORT");
    ClientError::new(ErrorKind::Usage, message)
}

/// Returns the host and the port of the API of a server.
fn address(url: &str) -> Result<(String, u16), ClientError> {
    let uri: Uri = url.parse().map_err(|_| no_address(url))?;
    if uri.scheme_str() != Some("https") {
        let message = format!(
            "the API of a server is reached by HTTPS only: give https://HOST:PORT in place of \
             '{url}'"
        );
        return Err(ClientError::new(ErrorKind::Usage, message));
    }
    let host = uri.host().ok_or_else(|| no_address(url))?.trim_matches(['[', ']']).to_owned();
    Ok((host, uri.port_u16().unwrap_or(API_PORT)))
}

/// Returns the manner of a connection on which calls fail when the server answers no probe.
fn endpoint(pause: Duration, patience: Duration) -> Endpoint {
    Endpoint::from_static("http://admin.holdfast.internal")
        .http2_keep_alive_interval(pause)
        .keep_alive_timeout(patience)
}

/// Connects to the API of a server by TLS.
async fn remote_channel(
    server: &RemoteServer,
    (host, port): (String, u16),
) -> Result<Channel, ClientError> {
    let tls = TlsConnector::from(Arc::new(tls_config(server)?));
    let name = ServerName::try_from(host.clone()).map_err(|_| no_address(&server.url))?;
    let connector = tower::service_fn(move |_: Uri| {
        let (tls, name, host) = (tls.clone(), name.clone(), host.clone());
        async move {
            let stream = tokio::net::TcpStream::connect((host.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            let stream = tls.connect(name, stream).await.map_err(in_plain_words)?;
            let stream = PlainStream::new(stream);
            Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
        }
    });
    let endpoint = endpoint(PROBE_PAUSE, PROBE_PATIENCE).connect_timeout(CONNECT_LIMIT);
    endpoint.connect_with_connector(connector).await.map_err(|error| {
        let message = format!("cannot reach the API at {}: {}", server.url, model::chain(&error));
        ClientError::new(ErrorKind::Retry, message)
    })
}

/// Port of the API in an address without a port.
const API_PORT: u16 = 1580;

fn tls_config(server: &RemoteServer) -> Result<ClientConfig, ClientError> {
    let failed = |error: &dyn std::fmt::Display| {
        let message = format!("cannot use the certificates of authorities: {error}");
        ClientError::new(ErrorKind::Usage, message)
    };
    let mut roots = RootCertStore::empty();
    match &server.authorities_pem {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| failed(&error))?;
                roots.add(certificate).map_err(|error| failed(&error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// Returns the error for a user who may not open the socket in `folder`.
fn forbidden(folder: &Path) -> ClientError {
    use std::os::unix::fs::MetadataExt as _;
    let owner = std::fs::metadata(folder).ok().map(|found| found.uid());
    let name = owner.and_then(sys::users::name_of);
    let needs = rights_needed(owner, name.as_deref());
    let message = format!("administration of the server in {} needs {needs}", folder.display());
    ClientError::new(ErrorKind::Refused, message)
}

/// Returns who may administer a server whose folder has this owner, and what to do. An owner whose
/// name is not known is named by the number.
fn rights_needed(owner: Option<u32>, name: Option<&str>) -> String {
    let owner = match owner {
        Some(0) => return "root; run the command with sudo".to_owned(),
        Some(id) => {
            let user = name.map_or_else(|| format!("with id {id}"), model::on_one_line);
            format!("the user {user}, who owns it")
        }
        None => "its owner".to_owned(),
    };
    format!("root, or {owner}; run the command as such a user, as with sudo")
}

/// A message of a stream of progress.
pub(super) trait ProgressMessage {
    /// Returns true for the last message, which has the result.
    fn is_last(&self) -> bool;
}

macro_rules! progress_messages {
    ($($message:ty),+) => {
        $(impl ProgressMessage for $message {
            fn is_last(&self) -> bool {
                self.is_last
            }
        })+
    };
}

progress_messages!(AuditReply, CopyCatalogReply, ExpireReply, ReclaimReply, TendPoolReply);

#[cfg(test)]
mod tests {
    use wire::proto::CatalogCopiesRequest;

    use super::*;

    /// A command waited for ever for a server that hung, or whose machine was off.
    #[test]
    fn a_call_fails_when_the_server_answers_no_probe() {
        let (near, _mute) = tokio::io::duplex(1 << 16);
        let mut near = Some(near);
        let connector = tower::service_fn(move |_: Uri| {
            let near = near.take().map(hyper_util::rt::TokioIo::new);
            async move { near.ok_or_else(|| std::io::Error::other("there is one connection")) }
        });
        let call = async {
            let endpoint = endpoint(Duration::from_millis(50), Duration::from_millis(50));
            let channel = endpoint.connect_with_connector(connector).await.expect("is connected");
            AdminClient::new(channel).catalog_copies(CatalogCopiesRequest::default()).await
        };
        let runtime = crate::link::runtime::runtime().expect("a runtime");
        let ended = runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(30), call).await.expect("it ends")
        });
        let error = ClientError::from(ended.expect_err("nobody answers"));
        assert_eq!(error.kind, ErrorKind::Retry);
    }

    /// For a server of root, the message named root and "the user with id 0, who owns it".
    #[test]
    fn a_refusal_names_who_may_administer() {
        let as_such = "run the command as such a user, as with sudo";
        for (owner, name, expected) in [
            (Some(0), Some("root"), "root; run the command with sudo".to_owned()),
            (
                Some(107),
                Some("keeper"),
                format!("root, or the user keeper, who owns it; {as_such}"),
            ),
            (Some(1234), None, format!("root, or the user with id 1234, who owns it; {as_such}")),
            (None, None, format!("root, or its owner; {as_such}")),
        ] {
            assert_eq!(rights_needed(owner, name), expected);
        }
    }
}

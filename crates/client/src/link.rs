//! Connection to the server: greeting, renewal of the certificate, and the messages.
//!
//! Types of the wire stay in this folder. The rest of the client uses types of its own.
//!
//! Everything from the server is parsed here into types that cannot be wrong: names, paths, and
//! numbers that fit. The limits of what the client takes are in `bounds`.

pub(crate) mod archives;
pub(crate) mod attend;
pub(crate) mod backup;
pub(crate) mod baselines;
pub(crate) mod bounds;
pub(crate) mod digests;
pub(crate) mod drills;
pub(crate) mod fingerprint;
pub(crate) mod hello;
pub(crate) mod list;
pub(crate) mod network;
mod paced_stream;
pub(crate) mod pages;
pub(crate) mod plain_stream;
pub(crate) mod portions;
pub(crate) mod readers;
pub(crate) mod restore;
pub(crate) mod runtime;
pub(crate) mod stage;
pub(crate) mod tls;
pub(crate) mod usage;
pub(crate) mod version;
pub(crate) mod versions;
pub(crate) mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chunk::{DomainKey, SealKey};
use model::{DirPath, ServerTime};
use rustls_pki_types::CertificateDer;
use sys::lock::Mutex;
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use wire::proto::Capability;
use wire::proto::node_client::NodeClient;
use wire::version::Agreement;
use wire::{MESSAGE_BYTES_MAX, proto};

use self::hello::{Greeting, Hello};
use self::portions::Section;
use self::tls::{Line, Manner, TlsConnection, Trust};
use crate::cache::SharedCache;
use crate::error::{ClientError, ErrorKind};
use crate::node::home::{ClientConfig, Home, Request};
use crate::node::keys;
use crate::progress::Progress;

/// Interval between two looks whether the command was stopped, while a connection is made.
const STOP_INTERVAL: Duration = Duration::from_millis(50);
/// Remaining life of a certificate, in seconds, below which it is renewed: a third of the 90 days
/// that servers give by default.
const RENEW_SECS: i64 = 30 * 86_400;
/// Maximum number of directories in one request for the number of objects below them.
const DIRECTORIES_MAX: usize = 1 << 16;
/// Size of the paths in one such request, in bytes, at which it is sent.
const COUNTED_BYTES: usize = 1 << 20;

/// Filespace of the node, as the server knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilespaceSummary {
    pub name: Vec<u8>,
    pub active_objects: u64,
    pub last_backup: Option<ServerTime>,
    /// Number at the server; `None` for a node, and from an older server.
    pub id: Option<u32>,
}

/// Open connection to the server, after the greeting.
pub(crate) struct Link {
    runtime: Runtime,
    client: NodeClient<Channel>,
    hello: Hello,
    /// Time that connecting took, until the server had accepted the node.
    pub(crate) authentication: Duration,
    /// Agreement with the server on protocol and capabilities.
    agreement: Agreement,
    pub(crate) domain_key: DomainKey,
    /// Keys with which the node encrypts files, oldest first.
    pub(crate) seal_keys: Vec<SealKey>,
    pub(crate) digest_key: [u8; 32],
    /// Grants, which several connections of this process may share.
    pub(crate) cache: Arc<SharedCache>,
    /// Name of the node whose data is listed and restored; empty for the node's own.
    pub(super) reading: String,
    /// Names of the filespaces of the complete archives that were listed. No others come to them.
    complete_archives: Mutex<BTreeMap<u64, Vec<Vec<u8>>>>,
}

impl Link {
    /// Connects to the server, with the cache of another connection or with a new one. A stop of
    /// `progress` ends the attempt.
    pub(crate) fn open(
        home: &Home,
        cache: Arc<SharedCache>,
        progress: Option<&Progress>,
    ) -> Result<Self, ClientError> {
        let runtime = runtime::runtime()?;
        let began = sys::clock::monotonic();
        let greeting = async {
            let servers = home.addresses().split(',').count();
            let mut tries = 1..servers;
            loop {
                match greet(home).await {
                    // The server died after it had accepted the connection. Another one may answer,
                    // and for the time of a takeover it may be about to.
                    Err(error)
                        if error.kind == ErrorKind::Retry
                            && servers > 1
                            && (tries.next().is_some() || began.elapsed() < home.takeover) =>
                    {
                        tokio::time::sleep(tls::TAKEOVER_PAUSE).await;
                    }
                    other => return other,
                }
            }
        };
        let greeted = runtime.block_on(async {
            tokio::select! {
                greeted = greeting => greeted,
                () = stopped(progress) => Err(ClientError::interrupted()),
            }
        });
        let Connection { client, reply, agreement, .. } =
            greeted.map_err(|error| about_node(home, error))?;
        let authentication = began.elapsed();
        let reading = home.reading.clone().unwrap_or_default();
        if !reading.is_empty() && !agreement.has(Capability::ReadRules) {
            let message = "the server does not know yet that nodes may read each other's data; \
                           upgrade the server";
            return Err(ClientError::new(ErrorKind::Usage, message));
        }
        let seal_keys = keys::load(home)?;
        let Greeting { hello, domain_key, digest_key } = Greeting::parse(reply)?;
        let domain_key = DomainKey::new(domain_key);
        Ok(Self {
            runtime,
            client,
            hello,
            authentication,
            agreement,
            domain_key,
            seal_keys,
            digest_key,
            cache,
            reading,
            complete_archives: Mutex::default(),
        })
    }

    /// Returns the server's reason if it refuses this node now. The server cuts the connections of
    /// a node that an administrator has locked, and says why when the node connects again.
    pub(crate) fn refusal(&self, home: &Home) -> Option<ClientError> {
        let error = self.runtime.block_on(greet(home)).err()?;
        (error.kind == ErrorKind::Refused).then(|| about_node(home, error))
    }

    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Returns true if the server can check quanta without digests, by their data.
    pub(crate) fn takes_quanta_without_digests(&self) -> bool {
        self.has(Capability::RawCheck)
    }

    /// Returns true if the server reports what has arrived of a backup.
    pub(crate) fn reports_arrivals(&self) -> bool {
        self.has(Capability::Arrivals)
    }

    /// Returns true if server and client both have `capability`.
    fn has(&self, capability: Capability) -> bool {
        self.agreement.has(capability)
    }

    /// Returns the error for a message that only a newer client knows.
    fn unknown_message(&self) -> ClientError {
        version::unknown_from(&self.hello.server_version, "a message")
    }

    /// Returns a handle for calls. A handle is cheap.
    fn client(&self) -> NodeClient<Channel> {
        self.client.clone()
    }

    /// Asks the server for an answer, and returns at once. `answered` is called with true when any
    /// answer has come, and with false if the connection is lost.
    pub(crate) fn ping(&self, answered: impl FnOnce(bool) + Send + 'static) {
        let mut client = self.client();
        // The task ends with the connection, whose keep-alive finds out that the server is gone.
        drop(self.runtime.spawn(async move {
            let reply = client.ping(proto::PingRequest {}).await;
            answered(reply.map_or_else(|status| is_of_server(&status), |_| true));
        }));
    }

    /// Returns true if the server answers on this connection within `at_most`.
    pub(crate) fn is_alive(&self, at_most: Duration) -> bool {
        let mut client = self.client();
        let reply = self.runtime.block_on(async {
            tokio::time::timeout(at_most, client.ping(proto::PingRequest {})).await
        });
        reply.is_ok_and(|reply| reply.map_or_else(|status| is_of_server(&status), |_| true))
    }

    /// Counts the active objects at or below `directories`.
    pub(crate) fn count_objects(
        &self,
        filespace: &[u8],
        directories: impl Iterator<Item = DirPath>,
    ) -> Result<u64, ClientError> {
        let bytes = |directory: DirPath| Bytes::copy_from_slice(directory.as_bytes());
        let mut directories = directories.map(bytes).peekable();
        let filespace = Bytes::copy_from_slice(filespace);
        let mut objects = Vec::new();
        while directories.peek().is_some() {
            let (mut portion, mut portion_bytes) = (Vec::new(), 0);
            while portion.len() < DIRECTORIES_MAX
                && let Some(next) = directories.next_if(|_| portion_bytes < COUNTED_BYTES)
            {
                portion_bytes += next.len();
                portion.push(next);
            }
            let filespace = filespace.clone();
            let request = proto::CountSubtreesRequest { filespace, directories: portion };
            let reply = self.runtime.block_on(self.client().count_subtrees(request))?.into_inner();
            objects.extend(reply.objects);
        }
        total(&objects)
    }

    /// Returns the node's filespaces, with the filespaces of its archives if `archives` is set.
    pub(crate) fn filespaces(&self, archives: bool) -> Result<Vec<FilespaceSummary>, ClientError> {
        let request = proto::FilespacesRequest { archives, ..Default::default() };
        let filespaces = self.filespaces_by(&request)?;
        let summary = |filespace: proto::Filespace| FilespaceSummary {
            name: filespace.name.to_vec(),
            active_objects: filespace.active_objects,
            last_backup: (filespace.last_backup != 0).then_some(ServerTime(filespace.last_backup)),
            id: None,
        };
        Ok(filespaces.into_iter().map(summary).collect())
    }

    /// Returns the times of the newest complete backups of the node's files, in no order: the ends
    /// of the backups. An older server tells only when the last one of each filespace began.
    pub(crate) fn backup_times(&self) -> Result<Vec<ServerTime>, ClientError> {
        let request = proto::FilespacesRequest { backups: true, ..Default::default() };
        let filespaces = self.filespaces_by(&request)?;
        let of_files = filespaces.into_iter().filter(|filespace| filespace.name.starts_with(b"/"));
        let times = of_files.flat_map(|proto::Filespace { backups, last_backup, .. }| {
            let is_told = !backups.is_empty() || last_backup == 0;
            if is_told { backups } else { vec![last_backup] }
        });
        Ok(times.map(ServerTime).collect())
    }

    fn filespaces_by(
        &self,
        request: &proto::FilespacesRequest,
    ) -> Result<Vec<proto::Filespace>, ClientError> {
        portions::all(|portion| {
            let (portion, node) = (Some(portion), self.reading.clone());
            let request = proto::FilespacesRequest { portion, node, ..request.clone() };
            let reply = self.runtime.block_on(self.client().filespaces(request))?.into_inner();
            Ok(Section { items: reply.filespaces, next: reply.next })
        })
    }
}

/// Returns true if the server itself has given this answer. The other codes stand for a connection
/// that is lost, too.
fn is_of_server(status: &tonic::Status) -> bool {
    use tonic::Code;
    let is_lost = matches!(
        status.code(),
        Code::Unavailable
            | Code::Unknown
            | Code::Cancelled
            | Code::Internal
            | Code::DeadlineExceeded
    );
    !is_lost
}

/// Adds up the numbers of objects that the server has counted.
fn total(objects: &[u64]) -> Result<u64, ClientError> {
    let total = objects.iter().try_fold(0_u64, |total, &more| total.checked_add(more));
    total.ok_or_else(|| {
        let message = "the server counts more objects than there can be";
        ClientError::new(ErrorKind::Bug, message)
    })
}

/// Waits until `progress` is stopped; without one, for ever.
async fn stopped(progress: Option<&Progress>) {
    let Some(progress) = progress else { return std::future::pending().await };
    while !progress.is_stopped() {
        tokio::time::sleep(STOP_INTERVAL).await;
    }
}

/// A connection after the greeting.
struct Connection {
    client: NodeClient<Channel>,
    reply: proto::HelloReply,
    agreement: Agreement,
    line: Line,
}

/// Connects and greets the server. Renews the certificate if that is due.
async fn greet(home: &Home) -> Result<Connection, ClientError> {
    let mut connection = meet(home, &home.addresses()).await?;
    home.learn(&connection.reply.servers);
    let option_set = connection.reply.option_set.as_ref();
    let received = option_set.map(hello::received_set).unwrap_or_default();
    // Without the file, the option set before this one holds. The log has the reason.
    drop(received.keep(&home.folder));
    if expiry(&home.identity()?.leaf) - sys::clock::now().secs() < RENEW_SECS {
        renew(home, &mut connection.client).await?;
    }
    Ok(connection)
}

/// Connects to the first of `addresses` that answers, and greets the server.
async fn meet(home: &Home, addresses: &str) -> Result<Connection, ClientError> {
    let trust = Trust::Pinned(home.identity()?);
    let manner = Manner {
        takeover: home.takeover,
        buffer_bytes: home.config.tuning.socket_buffer_bytes,
        pace: home.pace.clone(),
        probes: home.probes,
    };
    let TlsConnection { channel, line } = tls::connect(addresses, trust, &manner).await?;
    let mut client = NodeClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let reply = client.hello(version::greeting()).await?.into_inner();
    let agreement = version::settle(&reply)?;
    Ok(Connection { client, reply, agreement, line })
}

/// Adds the names of node and server to the message of a refusal.
fn about_node(home: &Home, error: ClientError) -> ClientError {
    if error.kind != ErrorKind::Refused {
        return error;
    }
    let ClientConfig { server, node, .. } = &home.config;
    let message = format!("{server} refuses node {node}: {}", error.message);
    ClientError::new(error.kind, message)
}

/// Returns the time at which the certificate expires, in seconds since 1970; 0 if it cannot be
/// read.
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

#[cfg(test)]
pub(crate) mod tests {
    use tonic::transport::Endpoint;
    use wire::version::{Role, Speaker, settle};

    use super::*;

    #[test]
    fn a_server_that_does_not_know_the_ping_is_alive() {
        assert!(is_of_server(&tonic::Status::unimplemented("an older server")));
        assert!(is_of_server(&tonic::Status::aborted("too many calls")));
        assert!(!is_of_server(&tonic::Status::unavailable("the connection is lost")));
        let (answered, answer) = std::sync::mpsc::channel();
        let link = unanswered(crate::rules::tests::hello());
        link.ping(move |is_alive| answered.send(is_alive).expect("the test waits"));
        assert_eq!(answer.recv(), Ok(false), "nobody listens");
    }

    #[test]
    fn an_impossible_number_of_objects_is_refused() {
        assert_eq!(total(&[1, 2]).expect("a small number"), 3);
        let error = total(&[u64::MAX, 1]).expect_err("more than 64 bits");
        assert_eq!(error.kind, ErrorKind::Bug);
    }

    /// Makes a link to a server that has answered the greeting with `hello` and answers no more
    /// calls.
    pub(crate) fn unanswered(hello: Hello) -> Link {
        let runtime = runtime::runtime().expect("threads");
        // Nobody listens on port 0.
        let endpoint = Endpoint::from_static("http://127.0.0.1:0");
        let client = runtime.block_on(async { NodeClient::new(endpoint.connect_lazy()) });
        let speaker = |role| Speaker::own(role, "test");
        let agreement = settle(&speaker(Role::Client), &speaker(Role::Server)).expect("agreed");
        Link {
            runtime,
            client,
            hello,
            authentication: Duration::ZERO,
            agreement,
            domain_key: DomainKey::new([1; 32]),
            seal_keys: Vec::new(),
            digest_key: [2; 32],
            cache: Arc::default(),
            reading: String::new(),
            complete_archives: Mutex::default(),
        }
    }
}

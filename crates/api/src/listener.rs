//! The listener of the service: TLS, and limits on clients that nobody knows yet.
//!
//! ```text
//!   accept -> share of its origin -> handshake (bounded time) -> HTTP/1.1 or 2 -> routes
//! ```

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use futures_util::FutureExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use server::{Beside, Office, Origin};
use store::folder::Config;
use sys::lock::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::UdsConnectInfo;

use crate::desk::Desk;
use crate::routes::{ClientAddress, LocalUser};
use crate::stall::Watch;
use crate::{openapi, remote, resources};

/// Name of HTTP/2 in handshakes.
const HTTP2: &[u8] = b"h2";
/// Maximum time for a handshake, and for the headers of a request.
const HANDSHAKE: Duration = Duration::from_secs(15);
const HEADERS: Duration = Duration::from_secs(15);
/// Maximum number of connections of all clients, and of one origin.
const CONNECTIONS_MAX: usize = 4_000;
const ORIGIN_CONNECTIONS_MAX: usize = 600;
/// Maximum number of requests of one connection at once.
const STREAMS_MAX: u32 = 16;
/// Time after which a connection ends on which nothing moves. A stream of events sends something
/// more often, and so do the pings of HTTP/2.
const STALL: Duration = Duration::from_secs(300);
/// Maximum length of the headers of a request.
const HEADER_BYTES_MAX: u32 = 32 << 10;
/// Time for which requests may go on after the signal to stop.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// Pause after an error of accepting connections.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Reason why the service does not run.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on {address} for the API")]
    Listen { address: String, source: io::Error },
    #[error("cannot read the certificate {path} of the API")]
    Certificate { path: String, source: rustls_pki_types::pem::Error },
    #[error("cannot make a certificate for the API")]
    Authority(#[from] server::AuthorityError),
    #[error("cannot use the certificate of the API")]
    Tls(#[from] rustls::Error),
    #[error("server.toml must have both api_certificate and api_key, or none of them")]
    HalfCertificate,
}

/// Makes the service of a running server: its routes, and its listener if the configuration names
/// an address. Calls `ready` with the address once it listens.
pub async fn start(
    office: Office,
    ready: impl FnOnce(SocketAddr),
) -> Result<Beside, Box<dyn std::error::Error + Send + Sync>> {
    let config = office.store().config.clone();
    let mut stop = office.stop();
    let desk = Arc::new(Desk::new(office, openapi::value())?);
    let watching = alerts::run_by_itself(Arc::clone(desk.store()), stop.clone());
    let operations = resources::routes().router.with_state(Arc::clone(&desk));
    let routes = remote::routes(&desk).merge(operations.clone());
    let local = operations.layer(middleware::from_fn(note_user));
    let Some(address) = config.api.clone() else {
        let work = async move {
            let watching = tokio::spawn(watching);
            stopped(&mut stop).await;
            end(&desk).await;
            ended(watching.await)
        };
        return Ok(Beside { routes: local, work: work.boxed() });
    };
    let tls = acceptor(&desk, &config)?;
    let listen = |source| ListenError::Listen { address: address.clone(), source };
    let listener = TcpListener::bind(&address).await.map_err(listen)?;
    ready(listener.local_addr().map_err(listen)?);
    let work = async move {
        let watching = tokio::spawn(watching);
        serve(listener, tls, routes, stop).await;
        end(&desk).await;
        ended(watching.await)
    };
    Ok(Beside { routes: local, work: work.boxed() })
}

/// Returns the result of the work that looks for alerts. A panic there, which was logged where it
/// was, stops nothing else.
fn ended(watching: Result<(), tokio::task::JoinError>) -> Result<(), BesideError> {
    if let Err(error) = watching {
        tracing::error!(%error, "looking for alerts has ended");
    }
    Ok(())
}

/// Failure of the service.
type BesideError = Box<dyn std::error::Error + Send + Sync>;

/// Waits until the requests that are being worked for have ended. No thread may use the store after
/// that.
async fn end(desk: &Desk) {
    if timeout(END_PATIENCE, desk.end_work()).await.is_err() {
        tracing::info!("work for requests to the API did not end in time");
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The sender is gone only when the process ends.
    drop(stop.wait_for(|is_set| *is_set).await);
}

/// Notes the user of the administration socket in a request.
async fn note_user(mut request: Request, next: Next) -> Response {
    let connection = request.extensions().get::<UdsConnectInfo>();
    if let Some(connection) = connection {
        let user = connection.peer_cred.map(|user| user.uid());
        let name = catalog::actor::administrator(user);
        request.extensions_mut().insert(LocalUser(name));
    }
    next.run(request).await
}

/// Makes TLS with the configured certificate, or with one of the server's own authority.
fn acceptor(desk: &Desk, config: &Config) -> Result<TlsAcceptor, ListenError> {
    let (chain, key) = match (&config.api_certificate, &config.api_key) {
        (Some(certificate), Some(key)) => {
            let failed = |path: &std::path::Path| {
                let path = path.display().to_string();
                move |source| ListenError::Certificate { path, source }
            };
            let chain = CertificateDer::pem_file_iter(certificate)
                .and_then(Iterator::collect)
                .map_err(failed(certificate))?;
            (chain, PrivateKeyDer::from_pem_file(key).map_err(failed(key))?)
        }
        (None, None) => {
            let identity = desk.office.identity(&names(config))?;
            (identity.chain, PrivatePkcs8KeyDer::from(identity.key).into())
        }
        _ => return Err(ListenError::HalfCertificate),
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(tls)))
}

/// Names by which clients of this machine, and those that the configuration knows, reach the
/// listener.
fn names(config: &Config) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    names.push(sys::net::host_name());
    names.extend(config.api_names.iter().cloned());
    let address = config.api.as_deref().and_then(|address| address.rsplit_once(':'));
    let host = address.map(|(host, _)| host.trim_matches(['[', ']']).to_owned());
    names.extend(host.filter(|host| !host.is_empty() && host != "0.0.0.0" && host != "::"));
    names.sort_unstable();
    names.dedup();
    names
}

/// Connections of each origin.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<BTreeMap<Origin, usize>>>);

/// Right to a connection, which lasts as long as the connection.
struct Seat {
    connections: Connections,
    origin: Origin,
}

impl Connections {
    fn take(&self, address: IpAddr) -> Option<Seat> {
        let origin = Origin::of(address);
        let mut held = self.0.lock();
        let all: usize = held.values().sum();
        let own = held.entry(origin).or_default();
        if all >= CONNECTIONS_MAX || *own >= ORIGIN_CONNECTIONS_MAX {
            return None;
        }
        *own += 1;
        Some(Seat { connections: self.clone(), origin })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut held = self.connections.0.lock();
        let own = held.get_mut(&self.origin).expect("the origin has this seat");
        *own -= 1;
        if *own == 0 {
            held.remove(&self.origin);
        }
    }
}

/// Serves until `stop` becomes true, and then until the requests under way have ended.
async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    routes: Router,
    mut stop: watch::Receiver<bool>,
) {
    let (graceful, connections) = (GracefulShutdown::new(), Connections::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, address)) => {
                let Some(seat) = connections.take(address.ip()) else {
                    tracing::debug!(%address, "a connection to the API was one too many");
                    continue;
                };
                let (tls, routes) = (tls.clone(), routes.clone());
                let watcher = graceful.watcher();
                tokio::spawn(async move {
                    let served = connection(stream, address.ip(), tls, routes, watcher).await;
                    if let Err(error) = served {
                        tracing::debug!(%address, error, "a connection to the API ended early");
                    }
                    drop(seat);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections to the API; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    if timeout(END_PATIENCE, graceful.shutdown()).await.is_err() {
        tracing::info!("requests to the API did not end in time and were cut off");
    }
}

async fn connection(
    stream: TcpStream,
    address: IpAddr,
    tls: TlsAcceptor,
    routes: Router,
    watcher: hyper_util::server::graceful::Watcher,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let stream = timeout(HANDSHAKE, tls.accept(stream)).await??;
    // The client has chosen the version in the handshake, so the server does not wait for bytes
    // from which it would guess it.
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
    let stream = Watch::new(stream, STALL);
    let routes = routes.layer(axum::Extension(ClientAddress(address)));
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(HEADER_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(Some(Duration::from_secs(60)))
        .keep_alive_timeout(Duration::from_secs(20));
    let builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    let service = TowerToHyperService::new(routes);
    let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    watcher.watch(served.into_owned()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_origin_leaves_room_for_the_others() {
        let connections = Connections::default();
        let [one, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let seats: Vec<Seat> = (0..2_000).map_while(|_| connections.take(one)).collect();
        assert_eq!(seats.len(), ORIGIN_CONNECTIONS_MAX);
        assert!(connections.take(other).is_some());
        drop(seats);
        assert!(connections.0.lock().is_empty());
    }
}

//! Running a server: open, serve, stop.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use catalog::CatalogError;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::Server;
use wire::proto::admin_server::AdminServer;
use wire::proto::enrolment_server::EnrolmentServer;
use wire::proto::node_server::NodeServer;
use wire::{CONNECTION_WINDOW_BYTES, FRAME_BYTES, MESSAGE_BYTES_MAX, STREAM_WINDOW_BYTES};

use crate::admin::AdminApi;
use crate::authority::AuthorityError;
use crate::catalog_copy;
use crate::config::{CONFIG_FILE, Config, ConfigError};
use crate::core::Core;
use crate::database::{Database, Entered};
use crate::enrol::EnrolmentApi;
use crate::expire;
use crate::node::NodeApi;
use crate::object_lock;
use crate::pools;
use crate::reclaim;
use crate::recovery;
use crate::{ADMIN_SOCKET, tls};

/// Sessions get so long to finish their transaction when the server stops.
const STOP_SECS: u64 = 10;
/// A connection is asked for a sign of life so often.
const KEEPALIVE_SECS: u64 = 20;
/// A server says so often what it does, and looks so often what others do.
const BEAT_PAUSE: Duration = Duration::from_secs(1);
/// Whether an expiration is due is looked at so often.
const EXPIRY_CHECK_SECS: u64 = 60;
/// Whether packs are to be copied, passed on or repaired is looked at so often.
const TEND_SECS: u64 = 20;
/// And takes at most one part of so many of the time.
const TEND_SHARE: u32 = 10;
/// A copy of the catalogue that has failed is tried again after so long.
const COPY_AGAIN_SECS: u64 = 3600;
/// All that object stores are to lock is looked at so often, and so soon after that has failed.
const LOCK_EVERY_SECS: u64 = 86_400;
const LOCK_AGAIN_SECS: u64 = 3600;
/// Concurrent streams on one connection at most: a node's recalls that wait for volumes, and room
/// for everything else.
const STREAMS_MAX: u32 = 320;

/// Why the server does not run, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("another server is running on {folder}")]
    Locked { folder: PathBuf },
    #[error("cannot use the folder {folder}")]
    Folder { folder: PathBuf, source: io::Error },
    #[error(
        "cannot open the catalogue; 'holdfast server rebuild-catalog' makes it again from its \
         copies in the pools"
    )]
    Catalog(#[source] CatalogError),
    #[error("cannot use the catalogue")]
    Database(#[source] CatalogError),
    #[error("cannot open the pool in {place}")]
    Pool { place: PathBuf, source: io::Error },
    #[error("cannot open the chunk index")]
    Index(#[from] catalog::index::IndexError),
    #[error("cannot read the master key")]
    MasterKey(#[source] io::Error),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    #[error("cannot set up client certificates")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    #[error("cannot listen on {address}")]
    Listen { address: String, source: io::Error },
    #[error("another server has the catalogue; stop it first")]
    Claimed,
    #[error("the catalogue is not this server's any more")]
    Lost(#[source] CatalogError),
    #[error("serving failed")]
    Serve(#[from] tonic::transport::Error),
    #[error("the server did not stop in order: {0}")]
    Close(String),
}

impl From<CatalogError> for RunError {
    fn from(error: CatalogError) -> Self {
        match error {
            CatalogError::Damaged(_) => Self::Catalog(error),
            // Making it again would mend none of these.
            error => Self::Database(error),
        }
    }
}

/// The server is listening.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub address: SocketAddr,
}

/// Waits until this server may use the catalogue; calls `waits` where somebody has it alone.
/// `None` where it is told to stop before.
async fn enter(
    database: &Database,
    (folder, listen): (&Path, &str),
    (waits, stop): (impl FnOnce(), &mut watch::Receiver<bool>),
) -> Result<Option<Entered>, RunError> {
    let mut waits = Some(waits);
    loop {
        let (entering, folder, listen) = (database.clone(), folder.to_owned(), listen.to_owned());
        let entered = tokio::task::spawn_blocking(move || entering.try_enter(&folder, &listen));
        match entered.await.map_err(|error| RunError::Close(error.to_string()))? {
            Ok(Some(entered)) => return Ok(Some(entered)),
            Ok(None) => {
                if let Some(waits) = waits.take() {
                    waits();
                }
            }
            // Whoever waits goes on doing so.
            Err(error) if waits.is_none() => {
                tracing::warn!(error = model::chain(&error), "still waiting");
            }
            Err(error) => return Err(error),
        }
        tokio::select! {
            () = tokio::time::sleep(BEAT_PAUSE) => {}
            () = stopped(stop) => return Ok(None),
        }
    }
}

/// Says now and then what this server does; ends once others take it for dead.
async fn beat_by_itself(core: Arc<Core>) -> RunError {
    loop {
        tokio::time::sleep(BEAT_PAUSE).await;
        let beating = Arc::clone(&core);
        match tokio::task::spawn_blocking(move || beating.beat()).await {
            Ok(Ok(())) => {}
            Ok(Err(error @ CatalogError::Fenced)) => return RunError::Lost(error),
            Ok(Err(error)) => tracing::warn!(error = model::chain(&error), "tried again"),
            Err(error) => return RunError::Close(error.to_string()),
        }
    }
}

/// Has the chunk index answer what other servers have written.
async fn index_by_itself(core: Arc<Core>, mut stop: watch::Receiver<bool>) {
    loop {
        let indexing = Arc::clone(&core);
        let indexed = tokio::task::spawn_blocking(move || indexing.index_others()).await;
        if matches!(indexed, Ok(true)) && !*stop.borrow() {
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(BEAT_PAUSE) => {}
            () = stopped(&mut stop) => return,
        }
    }
}

/// Serves from `folder` until `stop` becomes true; calls `waits` where somebody has the
/// catalogue alone, and `ready` once nodes can connect.
pub async fn run(
    folder: &Path,
    (waits, ready): (impl FnOnce(), impl FnOnce(Ready)),
    mut stop: watch::Receiver<bool>,
) -> Result<(), RunError> {
    let failed = |source| RunError::Folder { folder: folder.to_owned(), source };
    let config = Config::load(folder)?;
    let lock = sys::durable::Lock::try_exclusive(&folder.join(CONFIG_FILE)).map_err(failed)?;
    let Some(_lock) = lock else { return Err(RunError::Locked { folder: folder.to_owned() }) };
    recovery::check_catalog(&config, folder)?;
    let (open_folder, open_config) = (folder.to_owned(), config.clone());
    let opening = move || Database::open(&open_config, &open_folder);
    let database = tokio::task::spawn_blocking(opening)
        .await
        .map_err(|error| RunError::Close(error.to_string()))??;
    let entering = enter(&database, (folder, &config.listen), (waits, &mut stop)).await?;
    let Some(entered) = entering else { return Ok(()) };
    let fleet = match entered {
        Entered::Alone => None,
        Entered::Among(fleet) => Some(fleet),
    };
    let (open_folder, open_config) = (folder.to_owned(), config.clone());
    let opening = move || {
        let core = Core::open(&open_folder, &open_config, &database, fleet)?;
        core.beat()?;
        Ok::<_, RunError>(core)
    };
    let core = tokio::task::spawn_blocking(opening)
        .await
        .map_err(|error| RunError::Close(error.to_string()))??;
    let core = Arc::new(core);
    pools::lock(&core)?;

    let listen = |source| RunError::Listen { address: config.listen.clone(), source };
    let listener = TcpListener::bind(&config.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let admin_listener = admin_listener(folder).map_err(failed)?;
    let connections = tls::accept(listener, tls::acceptor(&core.authority)?);
    ready(Ready { address });

    let (mut stop_nodes, mut stop_admin) = (stop.clone(), stop.clone());
    let nodes = node_server(&core).serve_with_incoming_shutdown(
        ReceiverStream::new(connections),
        async move {
            stopped(&mut stop_nodes).await;
        },
    );
    let admin = Server::builder()
        .add_service(AdminServer::new(AdminApi { core: Arc::clone(&core) }))
        .serve_with_incoming_shutdown(UnixListenerStream::new(admin_listener), async move {
            stopped(&mut stop_admin).await;
        });
    let expiring = tokio::spawn(expire_by_itself(Arc::clone(&core), config, stop.clone()));
    let tending = tokio::spawn(tend_by_itself(Arc::clone(&core), stop.clone()));
    let indexing = tokio::spawn(index_by_itself(Arc::clone(&core), stop.clone()));
    let locking = tokio::spawn(lock_by_itself(Arc::clone(&core), stop.clone()));
    let beating = beat_by_itself(Arc::clone(&core));
    let both = async { tokio::try_join!(nodes, admin).map(|_| ()) };
    let limit = async {
        stopped(&mut stop).await;
        core.stopping.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(STOP_SECS)).await;
    };
    tokio::select! {
        served = both => served?,
        // Nothing that it could still do would count.
        lost = beating => return Err(lost),
        () = limit => tracing::warn!("sessions were cut off"),
    }
    // A run that panicked has said so; the next server goes on where it was.
    drop((expiring.await, tending.await, indexing.await, locking.await));
    close(&core).await
}

/// Looks now and then whether an expiration is due.
async fn expire_by_itself(core: Arc<Core>, config: Config, mut stop: watch::Receiver<bool>) {
    if config.expire_every_hours == 0 {
        return;
    }
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(EXPIRY_CHECK_SECS)) => {}
            () = stopped(&mut stop) => return,
        }
        if !core.keeps_house() {
            continue;
        }
        let expiring = Arc::clone(&core);
        let run = move || expire::run_due(&expiring, config.expire_every_hours);
        match tokio::task::spawn_blocking(run).await {
            Ok(Ok(Some(outcome))) => {
                tracing::info!(expired = outcome.expired, examined = outcome.examined, "expired");
                reclaim_by_itself(&core, config.reclaim_dead_percent).await;
            }
            Ok(Ok(None)) => {}
            Ok(Err(status)) => tracing::warn!(error = status.message(), "nothing was expired"),
            Err(error) => tracing::error!(%error, "expiration failed"),
        }
    }
}

/// Looks after the pools now and then.
async fn tend_by_itself(core: Arc<Core>, mut stop: watch::Receiver<bool>) {
    let mut sealed = sys::clock::monotonic();
    let mut copied = None;
    let mut shared = sealed;
    let mut pause = Duration::from_secs(TEND_SECS);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stopped(&mut stop) => return,
        }
        let core = Arc::clone(&core);
        let run = move || {
            // A pool that does not answer takes its time, and is to be noticed when it is back.
            pools::refresh(&core);
            let began = sys::clock::monotonic();
            pools::tend(&core, &mut sealed);
            if core.keeps_house() {
                copy_catalog(&core, &mut copied);
                share_index(&core, &mut shared);
            }
            (sealed, copied, shared, began.elapsed())
        };
        let done = tokio::task::spawn_blocking(run).await;
        match done {
            Ok((last_sealed, last_copied, last_shared, took)) => {
                (sealed, copied, shared) = (last_sealed, last_copied, last_shared);
                // Among millions of packs a look at all of them takes a while: it is not to be most
                // of the time.
                pause = Duration::from_secs(TEND_SECS).max(took * TEND_SHARE);
            }
            Err(error) => tracing::error!(%error, "looking after the pools failed"),
        }
    }
}

/// Copies the catalogue if a copy is due; one that has failed is not tried again at once.
fn copy_catalog(core: &Arc<Core>, failed: &mut Option<std::time::Instant>) {
    if failed.is_some_and(|at| at.elapsed() < Duration::from_secs(COPY_AGAIN_SECS)) {
        return;
    }
    match catalog_copy::run_due(core) {
        Ok(_) => *failed = None,
        Err(status) => {
            *failed = Some(sys::clock::monotonic());
            tracing::warn!(error = status.message(), "the catalogue was not copied");
        }
    }
}

/// Has object stores lock what policy locks, once a day; what has failed is tried again sooner.
async fn lock_by_itself(core: Arc<Core>, mut stop: watch::Receiver<bool>) {
    let mut due = sys::clock::monotonic();
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(TEND_SECS)) => {}
            () = stopped(&mut stop) => return,
        }
        if sys::clock::monotonic() < due || !core.keeps_house() {
            continue;
        }
        let locking = Arc::clone(&core);
        let done = tokio::task::spawn_blocking(move || object_lock::run_due(&locking)).await;
        let is_done = match done {
            Ok(Ok(outcome)) => {
                for (pack, error) in &outcome.failures {
                    tracing::warn!(%pack, error, "a pack is not locked");
                }
                outcome.failures.is_empty()
            }
            Ok(Err(status)) => {
                tracing::warn!(error = status.message(), "packs were not locked");
                false
            }
            Err(error) => {
                tracing::error!(%error, "locking packs failed");
                false
            }
        };
        let secs = if is_done { LOCK_EVERY_SECS } else { LOCK_AGAIN_SECS };
        due = sys::clock::monotonic() + Duration::from_secs(secs);
    }
}

/// Stores the chunk index for other servers if that is due.
fn share_index(core: &Arc<Core>, shared: &mut std::time::Instant) {
    let minutes = core.config.index_share_minutes;
    if minutes == 0 || shared.elapsed() < Duration::from_secs(60) * minutes {
        return;
    }
    *shared = sys::clock::monotonic();
    if let Err(error) = core.send_index() {
        tracing::warn!(%error, "the chunk index was not stored");
    }
}

fn node_server(core: &Arc<Core>) -> tonic::transport::server::Router {
    let keepalive = Duration::from_secs(KEEPALIVE_SECS);
    let node = NodeServer::new(NodeApi { core: Arc::clone(core) })
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .max_concurrent_streams(STREAMS_MAX)
        .http2_keepalive_interval(Some(keepalive))
        .http2_keepalive_timeout(Some(keepalive))
        .add_service(EnrolmentServer::new(EnrolmentApi { core: Arc::clone(core) }))
        .add_service(node)
}

/// Frees the space of what nothing names any more.
async fn reclaim_by_itself(core: &Arc<Core>, dead_percent: u8) {
    if dead_percent == 0 {
        return;
    }
    let core = Arc::clone(core);
    let run = move || reclaim::run_due(&core, dead_percent);
    match tokio::task::spawn_blocking(run).await {
        Ok(Ok(outcome)) => {
            let (removed, bytes) = (outcome.packs_removed, outcome.bytes_removed);
            tracing::info!(removed, bytes, rewritten = outcome.packs_rewritten, "reclaimed");
        }
        Ok(Err(status)) => tracing::warn!(error = status.message(), "nothing was reclaimed"),
        Err(error) => tracing::error!(%error, "reclamation failed"),
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Whoever could say stop is gone: then nothing else ends the server in order.
    drop(stop.wait_for(|stop| *stop).await);
}

/// The socket lies in a folder that only its owner may enter; it is bound by a path relative to
/// that folder, because socket paths are short.
fn admin_listener(folder: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join(ADMIN_SOCKET);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::from_std(sys::net::bind_unix(folder, ADMIN_SOCKET)?)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn close(core: &Arc<Core>) -> Result<(), RunError> {
    let core = Arc::clone(core);
    let closing = move || core.close().inspect(|()| core.leave());
    let closed = tokio::task::spawn_blocking(closing).await;
    closed
        .map_err(|error| RunError::Close(error.to_string()))?
        .map_err(|status| RunError::Close(status.message().to_owned()))
}

//! Running a server: open, serve, stop.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use catalog::CatalogError;
use futures_util::future::BoxFuture;
use store::folder::{Config, Database, Membership, OpenError, check_catalog};
use store::ownership::{LostOwnership, Ownership};
use store::schedules::Line;
use store::{Store, pools};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::service::Routes;
use tonic::transport::Server;

use crate::authority::AuthorityError;
use crate::bugs;
use crate::disk_errors;
use crate::edge::Edge;
use crate::full_pools;
use crate::office::Office;
use crate::port::NodeThreads;
use crate::stop::{BEAT_PAUSE, stopped};
use crate::timetable;
use crate::tls::TlsError;
use crate::upkeep::{
    expire_by_itself, follow_locks_by_itself, index_by_itself, lock_by_itself, remember_by_itself,
    tend_by_itself,
};
use crate::{ADMIN_SOCKET, tls};

/// Time in seconds that sessions have to finish their transactions when the server stops.
const STOP_SECS: u64 = 10;
/// Pause between two checks that no other server has taken this server's folder or its pools.
const WATCH_PAUSE: Duration = Duration::from_secs(10);

/// Reason why the server does not run or has stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot listen on {address}")]
    Listen { address: String, source: io::Error },
    #[error("the catalogue does not belong to this server any more")]
    Lost(#[source] CatalogError),
    #[error("this server must end: it would damage the data of another server")]
    Ownership(#[from] LostOwnership),
    #[error("serving failed")]
    Serve(#[from] tonic::transport::Error),
    /// The service that runs beside the server does not run or has stopped.
    #[error("the service has stopped")]
    Beside(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the server did not stop in an orderly way: {0}")]
    Close(String),
}

/// Makes the error for a panic of a thread, or for a failure to close.
fn unexpected(error: impl std::fmt::Display) -> RunError {
    RunError::Close(error.to_string())
}

/// Announcement that nodes can connect to the server.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    pub address: SocketAddr,
}

/// A service that runs beside the server, in the same process.
pub struct Beside {
    /// Routes that the administration socket serves too.
    pub routes: axum::Router,
    /// Work of the service. It ends after the signal to stop, or with an error.
    pub work: BoxFuture<'static, Result<(), Box<dyn std::error::Error + Send + Sync>>>,
}

/// Waits until this server may use the catalogue. Calls `waits` once if another process has
/// exclusive use of the catalogue. Returns `None` if the server is told to stop meanwhile.
async fn enter(
    database: &Database,
    (folder, listen): (&Path, &str),
    (waits, stop): (impl FnOnce(), &mut watch::Receiver<bool>),
) -> Result<Option<Membership>, RunError> {
    let mut waits = Some(waits);
    loop {
        let (entering, folder, listen) = (database.clone(), folder.to_owned(), listen.to_owned());
        let entered = tokio::task::spawn_blocking(move || entering.try_enter(&folder, &listen));
        match entered.await.map_err(unexpected)? {
            Ok(Some(entered)) => return Ok(Some(entered)),
            Ok(None) => {
                if let Some(waits) = waits.take() {
                    waits();
                }
            }
            // The server continues to wait.
            Err(error) if waits.is_none() => {
                tracing::warn!(
                    error = model::chain(&error),
                    "cannot use the catalogue yet; still waiting"
                );
            }
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = tokio::time::sleep(BEAT_PAUSE) => {}
            () = stopped(stop) => return Ok(None),
        }
    }
}

/// Reports the state of this server to the other servers, and takes over their changes.
fn beat(store: &Store) -> Result<(), CatalogError> {
    store.beat()?;
    pools::follow(store)
}

/// Checks at regular intervals that this server still has its folder and its pools. Returns when it
/// has lost one of them.
async fn watch_by_itself(store: Arc<Store>) -> RunError {
    loop {
        tokio::time::sleep(WATCH_PAUSE).await;
        let watching = Arc::clone(&store);
        match tokio::task::spawn_blocking(move || watching.check_ownership()).await {
            Ok(Ok(())) => {}
            Ok(Err(lost)) => return lost.into(),
            Err(error) => return unexpected(error),
        }
    }
}

/// Reports the state of this server at regular intervals. Returns when the other servers have
/// declared this server dead.
async fn beat_by_itself(store: Arc<Store>) -> RunError {
    loop {
        tokio::time::sleep(BEAT_PAUSE).await;
        let beating = Arc::clone(&store);
        match tokio::task::spawn_blocking(move || beat(&beating)).await {
            Ok(Ok(())) => {}
            Ok(Err(error @ CatalogError::Fenced)) => return RunError::Lost(error),
            Ok(Err(error)) => tracing::warn!(
                error = model::chain(&error),
                "cannot report the state of this server; trying again"
            ),
            Err(error) => return unexpected(error),
        }
    }
}

/// Opens the store in `folder` once this server may use the catalogue. Returns `None` if the server
/// is told to stop meanwhile.
async fn open(
    folder: &Path,
    config: &Config,
    ownership: Ownership,
    waits: impl FnOnce(),
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<Arc<Store>>, RunError> {
    check_catalog(config, folder).map_err(OpenError::from)?;
    let (open_folder, open_config) = (folder.to_owned(), config.clone());
    let opening = move || Database::open(&open_config, &open_folder);
    let database = tokio::task::spawn_blocking(opening)
        .await
        .map_err(unexpected)?
        .map_err(OpenError::from)?;
    let entering = enter(&database, (folder, &config.listen), (waits, stop)).await?;
    let Some(entered) = entering else { return Ok(None) };
    let fleet = match entered {
        Membership::Alone => None,
        Membership::Among(fleet) => Some(fleet),
    };
    let (open_folder, open_config) = (folder.to_owned(), config.clone());
    let opening = move || {
        let store = Store::open(&open_folder, &open_config, &database, fleet, ownership)?;
        beat(&store)?;
        if let Err(error) = pools::report_missing(&store) {
            tracing::warn!(error = model::chain(&error), "the pools were not looked at");
        }
        Ok::<_, OpenError>(store)
    };
    let store = tokio::task::spawn_blocking(opening).await.map_err(unexpected)??;
    Ok(Some(Arc::new(store)))
}

/// Serves from `folder` until `stop` becomes true. Calls `waits` if another process has exclusive
/// use of the catalogue, and `ready` once nodes can connect. Runs the service that `beside` makes.
pub async fn run(
    folder: &Path,
    (waits, ready): (impl FnOnce(), impl FnOnce(Readiness)),
    beside: impl AsyncFnOnce(Office) -> Result<Beside, Box<dyn std::error::Error + Send + Sync>>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), RunError> {
    bugs::log_panics();
    disk_errors::log();
    let failed = |source| OpenError::File { path: folder.to_owned(), source };
    let config = Config::load(folder).map_err(OpenError::from)?;
    let ownership = Ownership::take(folder)?;
    let opening = open(folder, &config, ownership, waits, &mut stop);
    let Some(store) = opening.await? else { return Ok(()) };
    let edge = Arc::new(Edge::new(Arc::clone(&store), stop.clone())?);

    let listen = |source| RunError::Listen { address: config.listen.clone(), source };
    let threads = NodeThreads::start().map_err(listen)?;
    let listener = threads.listen(&config.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let admin_listener = admin_listener(folder).map_err(failed)?;
    let nodes = threads.serve(listener, &edge, tls::acceptor(&edge.authority)?, &stop);
    let office = Office::new(Arc::clone(&edge));
    let Beside { routes, work } = beside(office.clone()).await.map_err(RunError::Beside)?;
    ready(Readiness { address });

    let nodes = async { nodes.await.map_err(unexpected)?.map_err(RunError::from) };
    let mut stop_admin = stop.clone();
    let admin = Server::builder()
        .add_routes(Routes::from(office.operations().merge(routes)))
        .serve_with_incoming_shutdown(UnixListenerStream::new(admin_listener), async move {
            stopped(&mut stop_admin).await;
        });
    let admin = async { admin.await.map_err(RunError::from) };
    let expiring = tokio::spawn(expire_by_itself(Arc::clone(&store), config, stop.clone()));
    let tending = tokio::spawn(tend_by_itself(Arc::clone(&store), stop.clone()));
    let indexing = tokio::spawn(index_by_itself(Arc::clone(&store), stop.clone()));
    let locking = tokio::spawn(lock_by_itself(Arc::clone(&store), stop.clone()));
    let remembering = tokio::spawn(remember_by_itself(Arc::clone(&store), stop.clone()));
    let recording = tokio::spawn(bugs::record_by_itself(Arc::clone(&store), stop.clone()));
    let noting = tokio::spawn(disk_errors::record_by_itself(Arc::clone(&store), stop.clone()));
    let looking = tokio::spawn(full_pools::record_by_itself(Arc::clone(&store), stop.clone()));
    let following = tokio::spawn(follow_locks_by_itself(Arc::clone(&edge), stop.clone()));
    let scheduling = tokio::spawn(timetable::run_by_itself(Arc::clone(&edge), stop.clone()));
    let work_in =
        |line| tokio::spawn(timetable::work_by_itself(Arc::clone(&store), line, stop.clone()));
    let (working, obeying) = (work_in(Line::Planned), work_in(Line::Asked));
    let work = async { work.await.map_err(RunError::Beside) };
    let all = async { tokio::try_join!(nodes, admin, work).map(|_| ()) };
    let limit = async {
        stopped(&mut stop).await;
        store.stopping.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(STOP_SECS)).await;
    };
    tokio::select! {
        served = all => served?,
        // A server that others have declared dead can commit nothing any more.
        lost = beat_by_itself(Arc::clone(&store)) => return Err(lost),
        lost = watch_by_itself(Arc::clone(&store)) => return Err(lost),
        () = limit => tracing::warn!("sessions did not end in time and were cut off"),
    }
    // No thread may use the store after it is closed, or keep the catalogue open.
    threads.end().await;
    // A task that panicked has logged that. The next server continues where the task stopped.
    drop((
        expiring.await,
        tending.await,
        indexing.await,
        locking.await,
        remembering.await,
        recording.await,
        noting.await,
        looking.await,
        following.await,
        scheduling.await,
        working.await,
        obeying.await,
    ));
    close(&store).await
}

/// Opens the administration socket. Only the owner may enter its folder. The socket is bound by a
/// path relative to that folder, because the length of socket paths is limited.
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

async fn close(store: &Arc<Store>) -> Result<(), RunError> {
    let store = Arc::clone(store);
    let closing = move || store.close().inspect(|()| store.leave());
    let closed = tokio::task::spawn_blocking(closing).await;
    closed.map_err(unexpected)?.map_err(unexpected)
}

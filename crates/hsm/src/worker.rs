//! The worker: reads the keeper's questions, fills stubs, carries out requests, and watches how
//! full the file systems are.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use sys::fanotify::{Group, QuestionKinds};
use sys::mount::MountWatch;

use crate::connection::Connection;
use crate::fill::ContentSource;
use crate::gate::Gate;
use crate::monitor::{Goal, Monitor};
use crate::mount::Mount;
use crate::outcome::{FileError, Outcome};
use crate::recall::{Patience, Recaller, RoomMaker};
use crate::relay::{OpenQuestion, Relay};
use crate::rests::Rests;
use crate::roster::Roster;
use crate::settings::{FilesystemSettings, Settings};
use crate::tender::{Say, Tender};
use crate::{SOCKET, requests};

/// Interval at which the worker checks whether it needs more threads for recalls.
const THREADS_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which the worker looks for programs that have waited too long.
const PATIENCE_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which lasting records are written.
const CATCH_UP_INTERVAL: Duration = Duration::from_secs(2);
/// Interval at which the monitor looks at the file systems.
const MONITOR_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of questions that fit on the command line of the next keeper; others are refused.
const QUESTIONS_HANDED_ON_MAX: usize = 10_000;
/// Maximum number of requests that are carried out at once.
const CONNECTIONS_MAX: usize = 256;

/// The descriptors of the worker's channels to the kernel and to the keeper.
pub struct Channels {
    pub group: OwnedFd,
    pub relay: OwnedFd,
    /// The access about which the kernel asks.
    pub asks: QuestionKinds,
}

/// Folders of a worker.
pub struct Places {
    /// The node's folder.
    pub home: PathBuf,
    /// The folder for a socket that every user can reach; `None` for no such socket.
    pub public: Option<PathBuf>,
}

/// Callback that becomes the keeper in place of a dead keeper, with the group and the waiting
/// questions. It returns only if that is impossible.
pub type Succession<'a> = &'a dyn Fn(&Group, &[OpenQuestion]) -> io::Error;

/// Works until the keeper ends this process. A panic of any thread ends the process too; the keeper
/// then starts another worker and passes it the waiting questions. `say` reports changes of the
/// file systems and of their settings.
pub fn work(
    places: &Places,
    settings: &Settings,
    channels: Channels,
    say: Say,
    become_keeper: Succession<'_>,
) -> io::Result<()> {
    let server = Box::new(Connection::new(&places.home));
    work_with(server, places, mounted(settings), channels, say, become_keeper)
}

/// The file systems that are mounted. The keeper has reported the others.
fn mounted(settings: &Settings) -> Vec<Mount> {
    let is_mounted = |filesystem: &&FilesystemSettings| {
        sys::mount::mounted(&filesystem.mount_point).is_ok_and(|mounted| mounted.is_some())
    };
    let open = |filesystem: &FilesystemSettings| {
        let warn = |error: &io::Error| {
            let mount_point = model::escaped(&filesystem.mount_point);
            tracing::warn!(mount_point, %error, "cannot open the file system");
        };
        Mount::open(filesystem.clone()).inspect_err(warn).ok()
    };
    settings.filesystems.iter().filter(is_mounted).filter_map(open).collect()
}

/// Does the work of [`work`] with content from `source`.
fn work_with(
    source: Box<dyn ContentSource>,
    places: &Places,
    mounts: Vec<Mount>,
    channels: Channels,
    say: Say,
    become_keeper: Succession<'_>,
) -> io::Result<()> {
    sys::fault::end_process_on_panic();
    sys::space::ignore_lease_signals();
    sys::process::ignore_hangup();
    sys::process::raise_open_files();
    let group = Arc::new(Group::inherited(channels.group, channels.asks));
    let relay = Arc::new(Relay::inherited(channels.relay));
    let connection = Arc::new(Connection::new(&places.home));
    let settings = mounts.iter().map(|mount| (*mount.settings()).clone()).collect();
    let roster = Arc::new(Roster::new(mounts));
    let tender = Tender::new(
        &places.home,
        Arc::clone(&group),
        Arc::clone(&roster),
        Settings { filesystems: settings },
        say,
    );
    let recaller = Recaller::new(
        Arc::clone(&group),
        Arc::clone(&relay),
        Arc::clone(&roster),
        source,
        room_maker(&connection),
        Gate::open(&places.home)?,
    );
    // Recaller and tender live as long as the process, because their threads run as long.
    let recaller: &'static Recaller = Box::leak(Box::new(recaller));
    let tender: &'static Tender = Box::leak(Box::new(tender));
    start_threads(recaller, &connection, tender, places)?;
    if let Err(error) = relay.announce() {
        // A keeper that has died meanwhile is noticed by its closed relay.
        tracing::warn!(%error, "the keeper does not learn that its worker is ready");
    }
    while let Some(question) = relay.next_question()? {
        recaller.take(question);
    }
    // The keeper ends its worker before it closes the relay. So a closed relay means that the
    // keeper has died.
    tracing::warn!("the keeper has died; the worker takes its place");
    recaller.catch_up();
    let waiting = recaller.open_questions();
    let mut questions: Vec<OpenQuestion> = waiting
        .iter()
        .map(|(inquiry, file)| OpenQuestion::new(inquiry, file.as_fd()))
        .take(QUESTIONS_HANDED_ON_MAX)
        .collect();
    loop {
        let error = become_keeper(&group, &questions);
        // If the worker ended, programs would read stubs as zeros. The next keeper refuses the
        // programs that wait.
        tracing::error!(%error, "cannot become the keeper; trying again");
        questions.clear();
        sys::clock::sleep(CATCH_UP_INTERVAL);
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

fn room_maker(connection: &Arc<Connection>) -> RoomMaker {
    let connection = Arc::clone(connection);
    Box::new(move |recaller, mount| {
        Monitor { recaller, connection: &connection, mount }.make_room()
    })
}

fn start_threads(
    recaller: &'static Recaller,
    connection: &Arc<Connection>,
    tender: &'static Tender,
    places: &Places,
) -> io::Result<()> {
    let sockets = [Some(listen(&places.home)?), public_socket(places.public.as_deref())];
    start("recalls", move || start_recalls(recaller))?;
    start("patience", move || {
        let mut patience = Patience::default();
        loop {
            sys::clock::sleep(PATIENCE_INTERVAL);
            recaller.tend_waiters(&mut patience);
        }
    })?;
    start("records", move || {
        loop {
            sys::clock::sleep(CATCH_UP_INTERVAL);
            recaller.catch_up();
        }
    })?;
    let mount_watch = MountWatch::new()?;
    start("tender", move || tender.serve(&mount_watch))?;
    let of_monitor = Arc::clone(connection);
    start("monitor", move || watch(recaller, &of_monitor))?;
    for socket in sockets.into_iter().flatten() {
        let connection = Arc::clone(connection);
        start("control", move || accept(recaller, &connection, tender, &socket))?;
    }
    Ok(())
}

/// Starts a thread for each file that can be recalled at once.
fn start_recalls(recaller: &'static Recaller) {
    loop {
        for _ in 0..recaller.claim_threads() {
            if let Err(error) = start("recall", move || recaller.serve()) {
                tracing::error!(%error, "cannot start a thread that recalls");
                recaller.forget_thread();
            }
        }
        sys::clock::sleep(THREADS_INTERVAL);
    }
}

/// Relieves file systems that are too full. Looks at them regularly, and after each change of them
/// or of their settings.
fn watch(recaller: &Recaller, connection: &Connection) {
    let mut rests = Rests::default();
    loop {
        let seen = recaller.roster().changes();
        rests.note_changes(seen);
        // A file system that was unmounted needs no room.
        for mount in recaller.mounts().iter().filter(|mount| mount.root().is_ok()) {
            let monitor = Monitor { recaller, connection, mount };
            let began = sys::clock::monotonic();
            // A file system that has room meanwhile does not rest at its next shortage.
            if rests.has(mount.mount_point(), began) && monitor.is_too_full() {
                continue;
            }
            let mut is_in_vain = true;
            let mut report = |path: &[u8], outcome: Outcome| match outcome {
                Ok(settled) => is_in_vain &= settled.bytes == 0,
                Err(error) => {
                    // The server may be back soon.
                    is_in_vain &= !matches!(error, FileError::Server(_));
                    tracing::debug!(path = model::escaped(path), %error, "not migrated");
                }
            };
            if let Err(error) = monitor.relieve(Goal::PolicyIfFull, &mut report, &|| true) {
                let mount_point = model::escaped(mount.mount_point());
                tracing::error!(mount_point, %error, "cannot relieve the file system");
                continue;
            }
            let now = sys::clock::monotonic();
            let is_in_vain = is_in_vain && monitor.is_too_full();
            rests.note_search(mount.mount_point(), now - began, is_in_vain, now);
        }
        recaller.roster().wait_for_change(seen, MONITOR_INTERVAL);
    }
}

/// Carries out the requests that arrive through `socket`, each in a thread of its own. A connection
/// for which there is no thread is closed.
fn accept(
    recaller: &'static Recaller,
    connection: &Arc<Connection>,
    tender: &'static Tender,
    socket: &UnixListener,
) {
    static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
    for stream in socket.incoming().flatten() {
        if CONNECTIONS.fetch_add(1, Relaxed) >= CONNECTIONS_MAX {
            CONNECTIONS.fetch_sub(1, Relaxed);
            continue;
        }
        let connection = Arc::clone(connection);
        let started = start("request", move || {
            requests::serve(recaller, &connection, tender, stream);
            CONNECTIONS.fetch_sub(1, Relaxed);
        });
        if started.is_err() {
            CONNECTIONS.fetch_sub(1, Relaxed);
        }
    }
}

/// The socket for users who may not enter the node's folder. Without it only root can send
/// requests.
fn public_socket(folder: Option<&Path>) -> Option<UnixListener> {
    let folder = folder?;
    let for_all = std::fs::Permissions::from_mode(0o755);
    let made = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::set_permissions(folder, for_all))
        .and_then(|()| listen(folder));
    let warn = |error: &io::Error| {
        let folder = folder.display();
        tracing::warn!(%folder, %error, "only root can ask for recalls");
    };
    made.inspect_err(warn).ok()
}

fn listen(folder: &Path) -> io::Result<UnixListener> {
    let path = folder.join(SOCKET);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = sys::net::bind_unix(folder, SOCKET)?;
    socket.set_nonblocking(false)?;
    // Every user may send requests for files of their own; the worker checks the user of the
    // connection.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use client::Progress;
    use sys::fanotify::Access;

    use super::*;
    use crate::fill::{FillError, Part};
    use crate::recall::tests::StubScene as Stub;
    use crate::relay::Inquiry;
    use crate::{Reply, Request, ask};

    #[test]
    fn a_socket_replaces_the_one_of_a_dead_worker_and_is_for_everybody() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(listen(folder.path()).expect("the first"));
        let _second = listen(folder.path()).expect("the second");
        let mode = std::fs::metadata(folder.path().join(SOCKET)).expect("there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o666);
        assert!(public_socket(None).is_none());
        let public = folder.path().join("public");
        let _public = public_socket(Some(&public)).expect("made");
        let mode = std::fs::metadata(&public).expect("there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o755);
        assert!(public_socket(Some(&folder.path().join(SOCKET))).is_none(), "it is no folder");
    }

    #[test]
    fn a_worker_serves_requests_until_its_keeper_dies_and_becomes_the_keeper() {
        let folder = tempfile::tempdir().expect("a folder");
        let (keeper, relay) = Relay::pair().expect("a pair");
        let group = tempfile::tempfile().expect("a file").into();
        let channels = Channels { group, relay: relay.into_fd(), asks: QuestionKinds::Ranges };
        let places = Places { home: folder.path().to_owned(), public: None };
        let (became, becoming) = std::sync::mpsc::channel();
        let worker = std::thread::Builder::new().spawn(move || {
            let become_keeper = |_: &Group, questions: &[OpenQuestion]| {
                became.send(questions.len()).expect("the test waits");
                // The real callback replaces the process: this thread does not return either.
                loop {
                    std::thread::park();
                }
            };
            let say = Box::new(|_: &str| {});
            work(&places, &Settings::default(), channels, say, &become_keeper)
        });
        drop(worker.expect("started"));
        let mut replies = Vec::new();
        let mut visit = |reply: Reply| {
            replies.push(reply);
            true
        };
        // It may not listen yet, although its socket is there.
        while ask(folder.path(), &Request::Status, &mut visit).is_err() {
            std::thread::yield_now();
        }
        let refused = ask(folder.path(), &Request::Cancel { number: 1 }, &mut visit);
        assert!(refused.is_err_and(|error| error.to_string().contains("no request 1")));
        drop(keeper);
        assert_eq!(becoming.recv(), Ok(0));
        assert_eq!(replies, []);
    }

    /// Name of the environment variable that makes this program the child of a test.
    const CHILD: &str = "HOLDFAST_TEST_WORKER";

    /// A source with a bug, which the first recalling thread meets.
    struct FaultySource;

    impl ContentSource for FaultySource {
        fn fill(&self, _: &Part<'_>, _: &Arc<Progress>) -> Result<(), FillError> {
            panic!("a bug in a recall");
        }

        fn probe(&self) {}

        fn last_sign(&self) -> Instant {
            sys::clock::monotonic()
        }

        fn waits(&self) -> Vec<client::OwnWait> {
            Vec::new()
        }

        fn distrust(&self) {}
    }

    /// Runs in the child process: works, and gets a question about a stub.
    #[test]
    fn a_child_recalls_from_a_source_with_a_bug() {
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        let stub = Stub::on_disk(1 << 20).expect("the parent has looked");
        let (keeper, relay) = Relay::pair().expect("a pair");
        let group = tempfile::tempfile().expect("a file").into();
        let channels = Channels { group, relay: relay.into_fd(), asks: QuestionKinds::Ranges };
        let places = Places { home: stub.folder().to_owned(), public: None };
        let inquiry = Inquiry { number: 5, pid: std::process::id(), access: Access::Open };
        keeper.ask(stub.file.as_fd(), &inquiry).expect("sent");
        let (mounts, say) = (vec![stub.mount], Box::new(|_: &str| {}));
        let become_keeper = |_: &Group, _: &[OpenQuestion]| io::Error::other("it lives");
        let source = Box::new(FaultySource);
        drop(work_with(source, &places, mounts, channels, say, &become_keeper));
        std::process::exit(0);
    }

    #[test]
    fn a_worker_ends_when_a_thread_that_recalls_panics() {
        if !sys::process::is_root() {
            return;
        }
        let program = std::env::current_exe().expect("a test knows its program");
        let child = std::process::Command::new(program)
            .args(["--exact", "worker::tests::a_child_recalls_from_a_source_with_a_bug"])
            .arg("--nocapture")
            .env(CHILD, "1")
            .output()
            .expect("the test can be run again");
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(sys::lock::ENDED_BY_A_BUG), "{said}");
        assert!(said.contains("src/worker.rs"), "the place of the panic is missing: {said}");
    }
}

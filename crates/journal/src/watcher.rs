//! The watcher: the process that watches file systems and answers backups.
//!
//! A file system is watched from the first backup on that asks for it. Nobody but root, and the
//! user of the watcher, may ask.

use std::io::{self, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use model::{ServerTime, escaped};
use sys::fanotify::changes::reports_all;
use sys::lock::Mutex;
use sys::{Dir, ObjectStatus};

use crate::anchor::{Anchor, AnchorKey};
use crate::message::{self, AnchorMessage, Completion, Reply, Request, VERSION};
use crate::record::{ChangedDirectory, Ticket};
use crate::status::{DifferenceState, WatcherState};
use crate::text::PathText;
use crate::watch::Watch;

/// Name of the socket in the node's folder.
pub const SOCKET: &str = "journal.socket";
/// Maximum number of connections at once. A further connection is closed.
const CONNECTIONS_MAX: usize = 64;
/// Maximum number of watched file systems.
const WATCHES_MAX: usize = 64;
/// Stack of a thread, in bytes.
const STACK_BYTES: usize = 256 << 10;

/// Reason why a watcher cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WatcherError {
    #[error("a watcher is already running with this folder")]
    Running,
    #[error("cannot make the socket of the watcher")]
    Socket(#[source] io::Error),
}

/// The watcher.
#[derive(Debug)]
pub struct Watcher {
    socket: UnixListener,
    list: Arc<WatchList>,
}

#[derive(Debug)]
struct WatchList {
    watches: Mutex<Vec<Arc<Watch>>>,
    started: ServerTime,
    connections: AtomicUsize,
}

impl Watcher {
    /// Makes the socket in the folder `home`.
    pub fn listen(home: &Path) -> Result<Self, WatcherError> {
        if sys::net::connect_unix(home, SOCKET).is_ok() {
            return Err(WatcherError::Running);
        }
        let path = home.join(SOCKET);
        let socket = match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => sys::net::bind_unix(home, SOCKET),
        };
        let private = std::fs::Permissions::from_mode(0o600);
        let socket = socket
            .and_then(|socket| socket.set_nonblocking(false).map(|()| socket))
            .and_then(|socket| std::fs::set_permissions(&path, private).map(|()| socket))
            .map_err(WatcherError::Socket)?;
        let list = WatchList {
            watches: Mutex::default(),
            started: sys::clock::system(),
            connections: AtomicUsize::new(0),
        };
        Ok(Self { socket, list: Arc::new(list) })
    }

    /// Answers backups until the process ends.
    pub fn run(&self) {
        for stream in self.socket.incoming().flatten() {
            if self.list.connections.fetch_add(1, Relaxed) >= CONNECTIONS_MAX {
                self.list.connections.fetch_sub(1, Relaxed);
                continue;
            }
            let list = Arc::clone(&self.list);
            let started = start("conversation", move || {
                list.serve(&stream);
                list.connections.fetch_sub(1, Relaxed);
            });
            if started.is_err() {
                self.list.connections.fetch_sub(1, Relaxed);
            }
        }
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
    builder.spawn(work).map(drop)
}

/// Backup that has begun, on one connection. It ends with the connection.
struct OpenBackup {
    watch: Arc<Watch>,
    ticket: Ticket,
    /// Status of the root directory.
    root: ObjectStatus,
}

impl Drop for OpenBackup {
    fn drop(&mut self) {
        self.watch.state().record.end(self.ticket);
    }
}

impl WatchList {
    fn serve(&self, stream: &UnixStream) {
        let may_ask = sys::net::peer(stream)
            .is_ok_and(|(_, user)| user == 0 || user == sys::process::effective_ids().0);
        let mut from = BufReader::new(stream);
        let mut to = stream;
        let mut backup = None;
        while let Ok(Some(request)) = message::read::<Request>(&mut from) {
            let answered = if may_ask {
                self.answer(request, &mut backup, &mut to)
            } else {
                let reason = "only root may ask the journal".to_owned();
                message::write(&mut to, &Reply::Refused { reason })
            };
            if answered.is_err() {
                return;
            }
        }
    }

    fn answer(
        &self,
        request: Request,
        backup: &mut Option<OpenBackup>,
        to: &mut &UnixStream,
    ) -> io::Result<()> {
        let refused = |reason: &str| Reply::Refused { reason: reason.to_owned() };
        let reply = match (request, &*backup) {
            (Request::Status, _) => Reply::Status(self.status()),
            (Request::Begin { version, .. }, _) if version != VERSION => {
                refused("the watcher is of another release; restart it")
            }
            (Request::Begin { root, key, .. }, None) => match self.begin(&root.0, key) {
                Ok(begun) => {
                    let (reply, changed) = begun.answer();
                    *backup = Some(begun);
                    message::write(to, &reply)?;
                    return message::write_directories(to, &changed);
                }
                Err(reason) => Reply::Refused { reason },
            },
            (Request::Begin { .. }, Some(_)) => refused("a connection is for one backup"),
            (_, None) => refused("no backup has begun"),
            (Request::Changes, Some(open)) => {
                let changed = open.watch.state().record.since_begin(open.ticket);
                match changed {
                    Some(changed) => return message::write_directories(to, &changed),
                    None => refused("the record of the backup is lost"),
                }
            }
            (Request::Complete(completion), Some(open)) => open.complete(completion),
            (Request::Renew(continuation), Some(open)) => {
                match open.watch.state().record.renew(open.ticket, continuation) {
                    true => Reply::Done,
                    false => refused("there is no anchor"),
                }
            }
            (Request::Distrust { objects, first }, Some(open)) => {
                open.distrust(objects, first);
                Reply::Done
            }
        };
        message::write(to, &reply)
    }

    fn begin(&self, path: &[u8], key: AnchorKey) -> Result<OpenBackup, String> {
        let failed = |error: io::Error| format!("{} cannot be watched: {error}", escaped(path));
        let root = Dir::open(path).map_err(failed)?;
        if !reports_all(&root).map_err(failed)? {
            return Err("the file system does not report all changes".to_owned());
        }
        let watch = self.watch(&root, path).map_err(failed)?;
        let status = root.stat_self().map_err(failed)?;
        let ticket = watch.state().record.begin(key);
        let backup = OpenBackup { watch, ticket, root: status };
        // The file system could have been unmounted since it was found.
        match backup.watch.is_of(&root) {
            Ok(true) => Ok(backup),
            Ok(false) => Err("the file system was unmounted meanwhile".to_owned()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns the watch on the file system that `root` lies in. Begins one if there is none.
    fn watch(&self, root: &Dir, path: &[u8]) -> io::Result<Arc<Watch>> {
        let mut watches = self.watches.lock();
        watches.retain(|watch| watch.exists());
        for watch in watches.iter() {
            if watch.is_of(root)? {
                return Ok(Arc::clone(watch));
            }
        }
        if watches.len() >= WATCHES_MAX {
            return Err(io::Error::other("too many file systems are watched"));
        }
        let watch = Arc::new(Watch::begin(root, path)?);
        let of_thread = Arc::clone(&watch);
        start("watch", move || of_thread.run())?;
        tracing::info!(path = %escaped(path), "a file system is watched");
        watches.push(Arc::clone(&watch));
        Ok(watch)
    }

    fn status(&self) -> WatcherState {
        let mut watches = self.watches.lock();
        watches.retain(|watch| watch.exists());
        WatcherState {
            pid: std::process::id(),
            started_micros: self.started.0,
            filesystems: watches.iter().map(|watch| watch.shown()).collect(),
        }
    }
}

impl OpenBackup {
    /// Returns the reply to the beginning, and the changed directories.
    fn answer(&self) -> (Reply, Vec<ChangedDirectory>) {
        let state = self.watch.state();
        let now = sys::clock::uptime();
        let anchor = state.record.anchor(self.ticket).map(|anchor| AnchorMessage {
            fingerprint: anchor.fingerprint,
            again: anchor.again.clone(),
            again_below: anchor.again_below.clone(),
            walked_secs_ago: now.saturating_sub(anchor.walked).as_secs(),
        });
        let reason = match (&anchor, &state.last_loss) {
            (Some(_), _) => String::new(),
            (None, Some(loss)) => format!("{} since the last backup", loss.reason),
            (None, None) => {
                "no complete backup with these rules has run since the watch began".to_owned()
            }
        };
        let (device_id, inode) = (self.root.device_id, self.root.stat.inode);
        let changed = state.record.since_anchor(self.ticket).unwrap_or_default();
        (Reply::Begun { device_id, inode, anchor, reason }, changed)
    }

    fn complete(&self, completion: Completion) -> Reply {
        let Completion { filespace, fingerprint, again, again_below, is_walk } = completion;
        let mut state = self.watch.state();
        let now = sys::clock::uptime();
        let before = state.record.anchor(self.ticket).map(|anchor| anchor.walked);
        let walked = before.filter(|_| !is_walk).unwrap_or(now);
        let anchor = Anchor { filespace, fingerprint, again, again_below, walked };
        match state.record.complete(self.ticket, anchor) {
            true => Reply::Done,
            false => Reply::Refused { reason: "the record of the backup is lost".to_owned() },
        }
    }

    fn distrust(&self, objects: u64, first: PathText) {
        tracing::error!(objects, first = %escaped(&first.0), "the journal has missed changes");
        let mut state = self.watch.state();
        state.record.distrust(self.ticket);
        let at_micros = sys::clock::system().0;
        state.last_difference = Some(DifferenceState { at_micros, objects, first });
    }
}

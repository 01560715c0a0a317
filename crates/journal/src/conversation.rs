//! Conversation of a backup with the watcher.

use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::anchor::{AnchorKey, Continuation, Fingerprint};
use crate::message::{self, AnchorMessage, Completion, Reply, Request, VERSION};
use crate::record::ChangedDirectory;
use crate::status::WatcherState;
use crate::text::PathText;
use crate::watcher::SOCKET;

/// Time after which a watcher that does not answer is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reason why the watcher gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    #[error("no watcher is running; start it with 'holdfast journal run'")]
    NoWatcher,
    #[error("the watcher does not answer: {0}")]
    Broken(#[source] io::Error),
    #[error("{0}")]
    Refused(String),
}

/// Open conversation. While it is open, the watcher keeps the changes since its beginning.
#[derive(Debug)]
pub struct Conversation {
    from: BufReader<UnixStream>,
}

/// Answer of the watcher to the beginning of a backup.
#[derive(Debug)]
pub struct FirstAnswer {
    /// Identity of the filespace's root, as the watcher sees it.
    pub device_id: u64,
    pub inode: u64,
    pub last: Result<LastAnchor, String>,
}

/// Anchor of the last complete backup, and the directories that have changed since.
#[derive(Debug)]
pub struct LastAnchor {
    pub fingerprint: Fingerprint,
    /// Directories to look at in any case.
    pub again: Vec<Vec<u8>>,
    /// Directories to walk with everything below them in any case.
    pub again_below: Vec<Vec<u8>>,
    /// Time since the last walk of everything.
    pub walked_ago: Duration,
    pub changed: Vec<ChangedDirectory>,
}

fn connect(home: &Path) -> Result<UnixStream, ConversationError> {
    let socket = sys::net::connect_unix(home, SOCKET).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ConversationError::NoWatcher,
        _ => ConversationError::Broken(error),
    })?;
    socket
        .set_nonblocking(false)
        .and_then(|()| socket.set_read_timeout(Some(PATIENCE)))
        .and_then(|()| socket.set_write_timeout(Some(PATIENCE)))
        .map_err(ConversationError::Broken)?;
    Ok(socket)
}

/// Returns true if a watcher with the folder `home` runs, even if it does not answer.
pub fn is_watched(home: &Path) -> bool {
    !matches!(connect(home), Err(ConversationError::NoWatcher))
}

/// Returns the state of the watcher with the folder `home`.
pub fn status(home: &Path) -> Result<WatcherState, ConversationError> {
    let mut conversation = Conversation { from: BufReader::new(connect(home)?) };
    match conversation.ask(&Request::Status)? {
        Reply::Status(state) => Ok(state),
        reply => Err(unexpected(reply)),
    }
}

fn unexpected(reply: Reply) -> ConversationError {
    match reply {
        Reply::Refused { reason } => ConversationError::Refused(reason),
        _ => broken("it gives another answer"),
    }
}

fn broken(text: &str) -> ConversationError {
    ConversationError::Broken(io::Error::new(io::ErrorKind::InvalidData, text))
}

impl Conversation {
    /// Begins a backup of the filespace at `root`.
    pub fn begin(
        home: &Path,
        root: &[u8],
        key: AnchorKey,
    ) -> Result<(Self, FirstAnswer), ConversationError> {
        let mut conversation = Self { from: BufReader::new(connect(home)?) };
        let root = PathText(root.to_vec());
        let reply = conversation.ask(&Request::Begin { version: VERSION, root, key })?;
        let Reply::Begun { device_id, inode, anchor, reason } = reply else {
            return Err(unexpected(reply));
        };
        let announced = conversation.read()?;
        let changed = conversation.directories(announced)?;
        let paths = |paths: Vec<PathText>| paths.into_iter().map(|path| path.0).collect();
        let last = anchor.map(|anchor: AnchorMessage| LastAnchor {
            fingerprint: anchor.fingerprint,
            again: paths(anchor.again),
            again_below: paths(anchor.again_below),
            walked_ago: Duration::from_secs(anchor.walked_secs_ago),
            changed,
        });
        Ok((conversation, FirstAnswer { device_id, inode, last: last.ok_or(reason) }))
    }

    /// Returns the directories that have changed since the backup began.
    pub fn changes(&mut self) -> Result<Vec<ChangedDirectory>, ConversationError> {
        let reply = self.ask(&Request::Changes)?;
        self.directories(reply)
    }

    /// Ends a complete backup: the next backup goes on from the moment at which this one began.
    /// `again` and `again_below` are directories to look at, and to walk, in any case.
    pub fn complete(
        mut self,
        filespace: &[u8],
        fingerprint: Fingerprint,
        (again, again_below): (Vec<Vec<u8>>, Vec<Vec<u8>>),
        is_walk: bool,
    ) -> Result<(), ConversationError> {
        let texts = |paths: Vec<Vec<u8>>| paths.into_iter().map(PathText).collect();
        self.tell(&Request::Complete(Completion {
            filespace: PathText(filespace.to_vec()),
            fingerprint,
            again: texts(again),
            again_below: texts(again_below),
            is_walk,
        }))
    }

    /// Ends a backup that has failed after it has sent some changes. The next backup goes on from
    /// the same anchor.
    pub fn renew(mut self, fingerprint: Fingerprint) -> Result<(), ConversationError> {
        self.tell(&Request::Renew(Continuation { fingerprint }))
    }

    /// Removes the anchor, because a walk has found `objects` changes that the record has missed.
    pub fn distrust(&mut self, objects: u64, first: &[u8]) -> Result<(), ConversationError> {
        self.tell(&Request::Distrust { objects, first: PathText(first.to_vec()) })
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, ConversationError> {
        message::write(self.from.get_mut(), request).map_err(ConversationError::Broken)?;
        self.read()
    }

    fn tell(&mut self, request: &Request) -> Result<(), ConversationError> {
        match self.ask(request)? {
            Reply::Done => Ok(()),
            reply => Err(unexpected(reply)),
        }
    }

    fn read(&mut self) -> Result<Reply, ConversationError> {
        let reply = message::read(&mut self.from).map_err(ConversationError::Broken)?;
        reply.ok_or_else(|| broken("it has ended the connection"))
    }

    fn directories(&mut self, reply: Reply) -> Result<Vec<ChangedDirectory>, ConversationError> {
        let Reply::Directories { count } = reply else { return Err(unexpected(reply)) };
        message::read_directories(&mut self.from, count).map_err(ConversationError::Broken)
    }
}

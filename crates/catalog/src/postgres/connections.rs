//! The free list of connections.

use std::time::Duration;

use sys::lock::{Condvar, Mutex};

use super::connect::Connector;
use super::session::Session;
use crate::CatalogError;

/// Maximum number of connections.
const CONNECTIONS_MAX: usize = 32;
/// Time for which a caller waits for a database that does not answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(250);

/// Connections to a database.
pub(super) struct Connections {
    connector: Connector,
    list: Mutex<List>,
    /// Signal for each connection that is given back.
    returned: Condvar,
}

/// Invariant: `idle.len() <= open <= CONNECTIONS_MAX`.
#[derive(Default)]
struct List {
    idle: Vec<Session>,
    /// Number of idle and used connections.
    open: usize,
}

impl Connections {
    pub(super) fn new(connector: Connector) -> Self {
        Self { connector, list: Mutex::default(), returned: Condvar::new() }
    }

    /// Opens a connection. Waits at most `patience` for a database that does not answer.
    pub(super) fn connect(&self, patience: Duration) -> Result<Session, CatalogError> {
        let began = sys::clock::monotonic();
        let mut has_warned = false;
        loop {
            match self.connector.connect() {
                Ok(client) => return Ok(Session::new(client)),
                Err(error) if error.is_passing && began.elapsed() < patience => {
                    if !std::mem::replace(&mut has_warned, true) {
                        let error = error.text;
                        tracing::warn!(error, "the catalogue's database does not answer");
                    }
                    sys::clock::sleep(PAUSE);
                }
                Err(error) => return Err(CatalogError::Away(error.text)),
            }
        }
    }

    /// Performs `work` on a connection. Waits at most `patience` for a database that does not
    /// answer.
    pub(super) fn with<T>(
        &self,
        patience: Duration,
        work: impl FnOnce(&Session) -> T,
    ) -> Result<T, CatalogError> {
        let session = self.take(patience)?;
        session.begin_use();
        let done = work(&session);
        self.give_back(session);
        Ok(done)
    }

    /// Takes an idle connection or opens a new connection. Waits while too many connections are
    /// open.
    fn take(&self, patience: Duration) -> Result<Session, CatalogError> {
        {
            let mut list = self.list.lock();
            assert!(list.idle.len() <= list.open, "an idle connection is open");
            loop {
                while let Some(session) = list.idle.pop() {
                    if !session.client.is_closed() {
                        return Ok(session);
                    }
                    list.open -= 1;
                }
                if list.open < CONNECTIONS_MAX {
                    list.open += 1;
                    assert!(list.open <= CONNECTIONS_MAX, "connections are bounded");
                    break;
                }
                list = self.returned.wait(list);
            }
        }
        let made = self.connect(patience);
        if made.is_err() {
            self.forget_one();
        }
        made
    }

    fn give_back(&self, session: Session) {
        if session.client.is_closed() {
            return self.forget_one();
        }
        let mut list = self.list.lock();
        list.idle.push(session);
        assert!(list.idle.len() <= list.open, "an idle connection is open");
        drop(list);
        self.returned.notify_all();
    }

    /// Takes note that one connection is gone.
    fn forget_one(&self) {
        let mut list = self.list.lock();
        assert!(list.open > 0, "this connection is counted");
        list.open -= 1;
        drop(list);
        self.returned.notify_all();
    }
}

//! The worker's connection to the server: opened when it is first needed, and opened again after
//! the server was unavailable or has refused it. A certificate that was renewed since is then used.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use client::{
    Client, ClientError, Connector, ErrorKind, LinkChoice, OwnWait, Progress, SpaceRules,
};
use sys::lock::Mutex;

use crate::fill::{ContentSource, FillError, Part, fill};

/// Time that a user who looks at the recalls waits for the server's part of the answer.
const WAITS_MAX: Duration = Duration::from_secs(2);

/// Connection of one node to its server.
pub(crate) struct Connection {
    home: PathBuf,
    client: Mutex<Option<Arc<Client>>>,
    signs: Arc<Signs>,
    /// True if the next user has to open another connection.
    is_doubtful: AtomicBool,
}

/// Signs of life of the server.
struct Signs {
    last: Mutex<Instant>,
    /// True while the server is asked for one.
    is_asked: AtomicBool,
}

impl Signs {
    fn note(&self) {
        *self.last.lock() = sys::clock::monotonic();
    }
}

impl Connection {
    /// `home` is the node's folder.
    pub(crate) fn new(home: &Path) -> Self {
        let last = Mutex::new(sys::clock::monotonic());
        let signs = Arc::new(Signs { last, is_asked: AtomicBool::new(false) });
        let (client, is_doubtful) = Default::default();
        Self { home: home.to_owned(), client, signs, is_doubtful }
    }

    /// The client, which connects if no connection is open. An open connection may already be dead.
    pub(crate) fn client(&self) -> Result<Arc<Client>, ClientError> {
        let mut client = self.client.lock();
        if self.is_doubtful.swap(false, Relaxed) {
            *client = None;
        }
        if let Some(client) = &*client {
            return Ok(Arc::clone(client));
        }
        let new = Arc::new(Client::open(&self.home)?);
        self.signs.note();
        *client = Some(Arc::clone(&new));
        Ok(new)
    }

    /// Returns a client whose connection was tested by a request.
    pub(crate) fn tested_client(&self) -> Result<Arc<Client>, ClientError> {
        let client = self.client()?;
        match client.filespaces() {
            Err(error) if matches!(error.kind, ErrorKind::Retry | ErrorKind::Refused) => {
                self.replace(&client);
                self.client()
            }
            Err(error) => Err(error),
            Ok(_) => Ok(client),
        }
    }

    /// The node's statements on files that may migrate, as the server has them now.
    pub(crate) fn rules(&self) -> Result<SpaceRules, ClientError> {
        self.tested_client()?.space_rules()
    }

    /// Returns the time for which a user's request waits for a server that is away, as other
    /// commands of the node do.
    pub(crate) fn wait(&self) -> Duration {
        // A folder that cannot be read gives no connection, either.
        Connector::new(&self.home, LinkChoice::default())
            .map_or(Duration::ZERO, |connector| connector.wait())
    }

    /// Drops the connection if it is still the one of `client`, which has failed. Another thread
    /// may have opened a new one already.
    fn replace(&self, client: &Arc<Client>) {
        let mut current = self.client.lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, client)) {
            *current = None;
        }
    }

    /// Drops the connection. The next call of [`Self::client`] opens another.
    pub(crate) fn disconnect(&self) {
        *self.client.lock() = None;
    }
}

impl ContentSource for Connection {
    fn probe(&self) {
        // A thread that opens a connection holds the lock. If it succeeds, that is a sign.
        let Some(client) = self.client.try_lock().and_then(|client| client.clone()) else { return };
        if self.signs.is_asked.swap(true, Relaxed) {
            return;
        }
        let signs = Arc::clone(&self.signs);
        client.ping(move |is_alive| {
            if is_alive {
                signs.note();
            }
            signs.is_asked.store(false, Relaxed);
        });
    }

    fn last_sign(&self) -> Instant {
        *self.signs.last.lock()
    }

    fn waits(&self) -> Vec<OwnWait> {
        let client = self.client.try_lock().and_then(|client| client.clone());
        let waits = client.map_or(Ok(Vec::new()), |client| client.waits(WAITS_MAX));
        waits.unwrap_or_else(|error| {
            tracing::debug!(error = error.message, "the server does not say who waits");
            Vec::new()
        })
    }

    fn distrust(&self) {
        self.is_doubtful.store(true, Relaxed);
        // The question on the connection that is given up may stay without an answer.
        self.signs.is_asked.store(false, Relaxed);
    }

    fn fill(&self, part: &Part<'_>, progress: &Arc<Progress>) -> Result<(), FillError> {
        let client = self.client().map_err(|error| FillError::Unreachable(error.message))?;
        let filled = fill(&client, part, progress);
        if matches!(filled, Err(FillError::Unreachable(_))) && !progress.is_stopped() {
            self.replace(&client);
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_node_connects_to_no_server() {
        let folder = tempfile::tempdir().expect("a folder");
        let connection = Connection::new(folder.path());
        assert!(connection.client().is_err());
        connection.disconnect();
        assert!(connection.rules().is_err());
        assert_eq!(connection.wait(), Duration::ZERO);
    }
}

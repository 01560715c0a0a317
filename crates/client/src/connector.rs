//! Connector: makes the connections of one command, again and again if the server goes away.
//!
//! A connection that was needed only for the node's settings, or only for a question, is kept for
//! the work that follows. So a command opens no more connections than it needs. The server may have
//! gone and come back meanwhile, while a command before the backup ran: this is no loss of the
//! work's connection, and needs no patience.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use sys::lock::Mutex;

use crate::Client;
use crate::cache::SharedCache;
use crate::error::ClientError;
use crate::node::home::Home;
use crate::node::standing::Standing;
use crate::pace::{Pace, RateLimits};
use crate::patience::{Patience, WAIT};
use crate::progress::Progress;

/// Maximum age of a kept connection. Something on the way may have cut off an older one.
const KEPT_MAX: Duration = Duration::from_secs(30);
/// Age of a kept connection up to which it is used without a question to the server.
const FRESH_MAX: Duration = Duration::from_secs(1);
/// Time in which the server must answer on a connection that was kept for longer.
const KEPT_PATIENCE: Duration = Duration::from_secs(10);

/// Settings of a command that override the settings in the node's folder, one by one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkChoice {
    /// True if a schedule of the server has started the command.
    pub is_scheduled: bool,
    /// Time for which the command waits for a server that is away.
    pub wait: Option<Duration>,
    /// Limits on the bytes of the command's connections.
    pub limits: RateLimits,
    /// Name of another node, whose data is listed and restored by its rules; `None` for the node's
    /// own.
    pub reading: Option<String>,
}

/// Maker of the connections of one command. They share the grants of the node.
pub struct Connector {
    home: Home,
    choice: LinkChoice,
    /// Time for which the command waits if nobody has set one.
    wait_by_default: Duration,
    /// Time that the command line and the node's settings have set, as they are known now.
    wait: Mutex<Option<Duration>>,
    cache: Arc<SharedCache>,
    /// Limits of all connections, once the settings of the server are known.
    pace: OnceLock<Option<Arc<Pace>>>,
    /// Held while the first connection is made.
    first: Mutex<()>,
    kept: Mutex<Option<KeptConnection>>,
}

/// An open connection that waits for its use.
struct KeptConnection {
    client: Client,
    since: Instant,
}

impl KeptConnection {
    /// Returns the connection if it can be used.
    fn usable(self) -> Option<Client> {
        let age = self.since.elapsed();
        let is_usable = age < FRESH_MAX || (age < KEPT_MAX && self.client.is_alive(KEPT_PATIENCE));
        is_usable.then_some(self.client)
    }
}

impl Connector {
    /// Makes the connector of the node that was enrolled in the folder `home`.
    pub fn new(home: &Path, choice: LinkChoice) -> Result<Self, ClientError> {
        let home = Home::load_for(home, choice.limits, choice.is_scheduled)?;
        Ok(Self {
            wait_by_default: WAIT,
            wait: Mutex::new(wait_of(&home, choice.wait)),
            home,
            choice,
            cache: Arc::default(),
            pace: OnceLock::new(),
            first: Mutex::default(),
            kept: Mutex::default(),
        })
    }

    /// Waits for the time `wait`, if the user has set no other.
    #[must_use]
    pub fn waiting(self, wait: Duration) -> Self {
        Self { wait_by_default: wait, ..self }
    }

    /// Returns the time for which the command waits for a server that is away, by the settings that
    /// the last connection has brought.
    pub fn wait(&self) -> Duration {
        self.wait.lock().unwrap_or(self.wait_by_default)
    }

    /// Keeps a connection for the next call of [`Self::connect`].
    pub fn keep(&self, client: Client) {
        *self.kept.lock() = Some(KeptConnection { client, since: sys::clock::monotonic() });
    }

    /// Connects to a server of the node, or returns the connection that was kept. If there are
    /// several servers and none answers, tries them again for the time of a takeover, but no longer
    /// than `at_most`. A stop of `progress` ends the attempt.
    pub fn connect(&self, progress: &Progress, at_most: Duration) -> Result<Client, ClientError> {
        let kept = self.kept.lock().take();
        if let Some(client) = kept.and_then(KeptConnection::usable) {
            return Ok(client);
        }
        let client = self.connect_anew(progress, at_most)?;
        *self.wait.lock() = wait_of(&client.home, self.choice.wait);
        Ok(client)
    }

    fn connect_anew(&self, progress: &Progress, at_most: Duration) -> Result<Client, ClientError> {
        // Connections that are made at once share the limits of the first one.
        let first = self.pace.get().is_none().then(|| self.first.lock());
        let client = self.connect_once(self.pace.get(), progress, at_most)?;
        let pace = self.pace.get_or_init(|| client.home.pace.clone());
        drop(first);
        match client.is_outdated {
            false => Ok(client),
            // The settings that have come are also about the connection.
            true => self.connect_once(Some(pace), progress, at_most),
        }
    }

    fn connect_once(
        &self,
        pace: Option<&Option<Arc<Pace>>>,
        progress: &Progress,
        at_most: Duration,
    ) -> Result<Client, ClientError> {
        let LinkChoice { limits, is_scheduled, .. } = self.choice;
        // A renewal of the certificate, or another program, may have changed the folder.
        let mut home = Home::load_for(&self.home.folder, limits, is_scheduled)?;
        if let Some(pace) = pace {
            home.pace.clone_from(pace);
        }
        home.takeover = home.takeover.min(at_most);
        home.reading.clone_from(&self.choice.reading);
        Client::connect(home, Arc::clone(&self.cache), Some(progress))
    }

    /// Returns the sources of the node's settings, as far as the node has received them.
    pub fn standing(&self) -> Result<Standing, ClientError> {
        let LinkChoice { limits, is_scheduled, .. } = self.choice;
        Ok(Home::load_for(&self.home.folder, limits, is_scheduled)?.standing)
    }

    /// Returns the patience of the command with a server that is away.
    pub fn patience(&self) -> Patience {
        Patience::new(self.wait(), self.has_several_servers())
    }

    /// Returns true if another server can continue the work after a server has died.
    pub fn has_several_servers(&self) -> bool {
        self.home.has_several_servers()
    }
}

/// Returns the time for which the command waits, by its command line and the node's settings.
fn wait_of(home: &Home, given: Option<Duration>) -> Option<Duration> {
    home.standing.heed("wait", given).or(home.config.wait)
}

//! Connector: makes the connections of one command, again and again if the server goes away.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::Client;
use crate::cache::SharedCache;
use crate::error::ClientError;
use crate::node::home::Home;
use crate::pace::{Pace, RateLimits};
use crate::patience::{Patience, WAIT};
use crate::progress::Progress;

/// Settings of a command that override the settings in the node's folder, one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkChoice {
    /// Time for which the command waits for a server that is away.
    pub wait: Option<Duration>,
    /// Limits on the bytes of the command's connections.
    pub limits: RateLimits,
}

/// Maker of the connections of one command. They share the grants of the node.
pub struct Connector {
    home: Home,
    /// Time that the user has set.
    wait: Option<Duration>,
    cache: Arc<SharedCache>,
}

impl Connector {
    /// Makes the connector of the node that was enrolled in the folder `home`.
    pub fn new(home: &Path, choice: LinkChoice) -> Result<Self, ClientError> {
        let mut home = Home::load(home)?;
        home.pace = Pace::new(choice.limits, &home.config.limits).map(Arc::new);
        let wait = choice.wait.or(home.config.wait);
        Ok(Self { home, wait, cache: Arc::default() })
    }

    /// Waits for the time `wait`, if the user has set no other.
    #[must_use]
    pub fn waiting(self, wait: Duration) -> Self {
        Self { wait: self.wait.or(Some(wait)), ..self }
    }

    /// Returns the time for which the command waits for a server that is away.
    pub fn wait(&self) -> Duration {
        self.wait.unwrap_or(WAIT)
    }

    /// Connects to a server of the node. A stop of `progress` ends the attempt.
    pub fn connect(&self, progress: &Progress) -> Result<Client, ClientError> {
        // A renewal of the certificate, or another program, may have changed the folder.
        let mut home = Home::load(&self.home.folder)?;
        home.pace.clone_from(&self.home.pace);
        Client::connect(home, Arc::clone(&self.cache), Some(progress))
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

//! The connections to one export, which threads take and give back.
//!
//! A server may have only one connection at a time, and not say so: it lets the second client wait
//! until the first one ends. So a further connection is awaited for a short time only. If it does
//! not come, the threads share those that there are.

use std::time::Duration;

use nbd::{Export, NbdError, Patience, Uri};
use sys::lock::{Condvar, Mutex};

/// Maximum time to wait for a further connection.
const FURTHER_CONNECT: Duration = Duration::from_secs(5);

/// Connections to one export, those in use and the others.
pub(super) struct Connections {
    uri: Uri,
    held: Mutex<Held>,
    given_back: Condvar,
}

/// State of the connections.
struct Held {
    /// Connections that nobody uses at the moment.
    idle: Vec<Export>,
    /// Number of connections that are in use or being made.
    lent: usize,
    /// True if the server has no further connection.
    is_full: bool,
}

impl Held {
    fn has_to_wait(&self) -> bool {
        self.idle.is_empty() && self.is_full && self.lent > 0
    }
}

impl Connections {
    /// Returns the connections to `uri`, of which `first` is open already.
    pub(super) fn new(uri: Uri, first: Export) -> Self {
        let held = Held { idle: vec![first], lent: 0, is_full: false };
        Self { uri, held: Mutex::new(held), given_back: Condvar::new() }
    }

    /// Returns a connection, which is to be given back.
    pub(super) fn take(&self) -> Result<Export, NbdError> {
        loop {
            let held = self.held.lock();
            let mut held = self.given_back.wait_while(held, |held| held.has_to_wait());
            let is_further = held.lent > 0;
            held.lent += 1;
            if let Some(export) = held.idle.pop() {
                return Ok(export);
            }
            drop(held);
            let patience = Patience::default();
            let connect = if is_further { FURTHER_CONNECT } else { patience.connect };
            let made = Export::connect_within(&self.uri, &[], Patience { connect, ..patience });
            match made {
                Ok(export) => return Ok(export),
                Err(error) => {
                    self.held.lock().is_full |= is_further;
                    self.give_back(None);
                    if !is_further {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Gives a connection back; `None` for one that is of no use any more.
    pub(super) fn give_back(&self, export: Option<Export>) {
        let mut held = self.held.lock();
        assert!(held.lent > 0, "only what was taken is given back");
        held.lent -= 1;
        held.idle.extend(export);
        drop(held);
        self.given_back.notify_all();
    }
}

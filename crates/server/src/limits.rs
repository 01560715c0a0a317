//! Limits on what clients hold at the network edge: connections, calls and backups. The largest
//! installation in mind has 1,000 nodes, which may all come from one address.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use model::{NodeId, NodeName};
use store::StoreError;
use store::folder::Config;
use tonic::Status;

use crate::origin::Origin;
use crate::quota::{Excess, Quota, Share};
use crate::refusal;

/// Maximum number of connections on which no node has made a call: 1,000 nodes behind one address
/// may all connect in the moment in which a server starts.
const GUESTS_MAX: usize = 4096;
const GUESTS_OF_ORIGIN_MAX: usize = 2048;
/// Maximum number of connections of one node with windows of full size. Its further connections
/// have small windows, so that what nobody reads of them takes little memory.
const WIDE_CONNECTIONS_OF_NODE_MAX: usize = 16;
/// Maximum number of calls of one node at once: more than one connection may have. A call may need
/// a thread for as long as it lasts, so this is a small part of the threads that nodes have.
const CALLS_OF_NODE_MAX: usize = 512;
/// Maximum number of backups of one node at once: a small part of the backups that a server runs.
const BACKUPS_OF_NODE_MAX: usize = 64;
/// Maximum numbers of calls and backups of all nodes at once. Each may hold one of the threads that
/// nodes have; the others find nodes and store quanta, without which no backup goes on.
const CALLS_MAX: usize = 3584;
const BACKUPS_MAX: usize = 2048;
/// Interval in seconds between two lines of the log about refused connections.
const WARNING_SECS: u64 = 60;

/// The limits, and what is held below them.
pub(crate) struct Limits {
    connections: Arc<Quota<Origin>>,
    guests: Arc<Quota<Origin>>,
    node_connections: Arc<Quota<NodeId>>,
    /// Connections with windows of full size, by the name in the certificate.
    wide_connections: Arc<Quota<Vec<u8>>>,
    calls: Arc<Quota<NodeId>>,
    backups: Arc<Quota<NodeId>>,
    warnings: Warnings,
}

/// The rights of one client to a connection.
pub(crate) struct Entry {
    pub(crate) connection: Share<Origin>,
    /// Right to a connection of a client that nobody knows.
    pub(crate) guest: Share<Origin>,
}

impl Limits {
    pub(crate) fn new(config: &Config) -> Self {
        let limit = |number: NonZeroU32| number.get() as usize;
        let all_max = limit(config.connections_max);
        Self {
            connections: Quota::new(limit(config.address_connections_max), all_max),
            guests: Quota::new(GUESTS_OF_ORIGIN_MAX, GUESTS_MAX),
            node_connections: Quota::new(limit(config.node_connections_max), all_max),
            wide_connections: Quota::new(WIDE_CONNECTIONS_OF_NODE_MAX, all_max),
            calls: Quota::new(CALLS_OF_NODE_MAX, CALLS_MAX),
            backups: Quota::new(BACKUPS_OF_NODE_MAX, BACKUPS_MAX),
            warnings: Warnings::new(sys::clock::monotonic()),
        }
    }

    /// Admits a new connection; `None` if it must be closed.
    pub(crate) fn enter(&self, origin: Origin) -> Option<Entry> {
        let entered = self.connections.take(origin).and_then(|connection| {
            let guest = self.guests.take(origin)?;
            Ok(Entry { connection, guest })
        });
        entered.inspect_err(|excess| self.warn(origin, *excess)).ok()
    }

    fn warn(&self, origin: Origin, excess: Excess) {
        if !self.warnings.is_due(sys::clock::monotonic()) {
            return;
        }
        let (holder, max) = match excess {
            Excess::Each(max) => (origin.to_string(), max),
            Excess::All(max) => ("all addresses together".to_owned(), max),
        };
        tracing::warn!(
            "connections are refused: the maximum of {holder} is {max}; if all of them are needed, \
             raise connections_max or address_connections_max in server.toml"
        );
    }

    pub(crate) fn node_connections(&self) -> &Arc<Quota<NodeId>> {
        &self.node_connections
    }

    /// Returns the right to windows of full size for a connection whose certificate has the name
    /// `subject`; `None` if its node has as many of them as it may have.
    pub(crate) fn widen(&self, subject: &[u8]) -> Option<Share<Vec<u8>>> {
        self.wide_connections.take(subject.to_vec()).ok()
    }

    pub(crate) fn calls(&self) -> &Arc<Quota<NodeId>> {
        &self.calls
    }

    /// Counts a backup of the node.
    pub(crate) fn backup(&self, node: &catalog::Node) -> Result<Share<NodeId>, Status> {
        self.backups.take(node.id).map_err(|excess| {
            refused(&node.name, excess, "backups", "try again after one of them has ended")
        })
    }
}

/// Status of a node that may have no more of `things`. `help` is the next step.
pub(crate) fn refused(node: &NodeName, excess: Excess, things: &str, help: &str) -> Status {
    let (holder, max) = match excess {
        Excess::Each(max) => (format!("node {node} has"), max),
        Excess::All(max) => ("all nodes together have".to_owned(), max),
    };
    let text = format!("{holder} {max} {things} at once, which is the maximum; {help}");
    refusal::status(StoreError::busy(text))
}

/// Times of warnings, so that a flood of connections is no flood of lines.
struct Warnings {
    start: Instant,
    /// Second after the start from which the next warning is due.
    due: AtomicU64,
}

impl Warnings {
    fn new(start: Instant) -> Self {
        Self { start, due: AtomicU64::new(0) }
    }

    /// Returns true once in each interval.
    fn is_due(&self, now: Instant) -> bool {
        let secs = now.saturating_duration_since(self.start).as_secs();
        let due = self.due.load(Ordering::Relaxed);
        let (next, order) = (secs + WARNING_SECS, Ordering::Relaxed);
        secs >= due && self.due.compare_exchange(due, next, order, order).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use store::folder::config::CONFIG_FILE;

    use super::*;

    fn origin(number: usize) -> Origin {
        let number = u32::try_from(number).expect("a small number");
        Origin::of(Ipv4Addr::from_bits(number).into())
    }

    fn limits() -> Limits {
        let text = "listen = ''\npool = ''\ncatalog = 'sqlite:'";
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(CONFIG_FILE), text).expect("is written");
        Limits::new(&Config::load(folder.path()).expect("the other keys have defaults"))
    }

    #[test]
    fn clients_that_nobody_knows_leave_room_for_nodes() {
        let limits = limits();
        let first: Vec<_> = std::iter::from_fn(|| limits.enter(origin(1))).collect();
        assert_eq!(first.len(), GUESTS_OF_ORIGIN_MAX);
        let node = limits.enter(origin(2)).expect("another address has room");
        drop(node.guest);
        let others: Vec<_> =
            (0..).map_while(|number| limits.enter(origin(3 + number / 1000))).collect();
        assert_eq!(first.len() + others.len(), GUESTS_MAX);
        drop(first);
        assert!(limits.enter(origin(1)).is_some(), "the rights come back");
    }

    #[test]
    fn a_node_has_few_connections_with_windows_of_full_size() {
        let limits = limits();
        let wide: Vec<_> = std::iter::from_fn(|| limits.widen(b"anna")).collect();
        assert_eq!(wide.len(), WIDE_CONNECTIONS_OF_NODE_MAX);
        assert!(limits.widen(b"bert").is_some(), "another node has its own");
        drop(wide);
        assert!(limits.widen(b"anna").is_some(), "the rights come back");
    }

    #[test]
    fn a_warning_is_due_once_a_minute() {
        let start = sys::clock::monotonic();
        let warnings = Warnings::new(start);
        let due = |secs| warnings.is_due(start + Duration::from_secs(secs));
        assert_eq!([0, 1, 59, 60, 61, 500].map(due), [true, false, false, true, false, true]);
    }
}

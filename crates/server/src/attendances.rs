//! The agents that are connected to this server.

use std::collections::HashMap;

use model::NodeId;
use sys::lock::Mutex;
use tokio::sync::watch;

/// The agents that are connected.
pub(crate) struct Attendances {
    /// Generation of the schedules that this server knows.
    generation: watch::Sender<i64>,
    /// Number of the last call of each node's agent.
    calls: Mutex<HashMap<NodeId, u64>>,
}

impl Default for Attendances {
    fn default() -> Self {
        Self { generation: watch::channel(0).0, calls: Mutex::default() }
    }
}

impl Attendances {
    /// Takes note of the generation of the schedules. Agents get their plans if it has changed.
    pub(crate) fn announce(&self, generation: i64) {
        self.generation.send_if_modified(|known| {
            let is_new = *known != generation;
            *known = generation;
            is_new
        });
    }

    /// Returns the generation of the schedules, and its changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<i64> {
        self.generation.subscribe()
    }

    /// Returns the number of a new call of the node's agent.
    pub(crate) fn begin(&self, node: NodeId) -> u64 {
        let mut calls = self.calls.lock();
        let number = calls.get(&node).map_or(1, |last| last + 1);
        calls.insert(node, number);
        number
    }

    /// Returns true if the node's agent has made no call since the call `number`.
    pub(crate) fn is_last(&self, node: NodeId, number: u64) -> bool {
        self.calls.lock().get(&node) == Some(&number)
    }
}

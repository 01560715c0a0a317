//! Clocks of nodes: the times that nodes have named in their greetings.
//!
//! A node's time is kept as the distance to the uptime of this machine, which nobody can set. So it
//! does not change with the server's own clock. The list has one entry for each node that has
//! greeted this server lately, and begins empty with each process.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{NodeId, ServerTime};
use sys::lock::Mutex;

use crate::store::Store;

/// Time after which a node's clock does not count any more, until the node greets again.
const KEPT: Duration = Duration::from_secs(86_400);

/// Clocks of the nodes that have greeted this server lately.
#[derive(Default)]
pub(crate) struct NodeClocks {
    heard: Mutex<BTreeMap<NodeId, NodeClock>>,
}

struct NodeClock {
    /// Time by the node's clock at which this machine started, in microseconds since 1970.
    start_micros: i64,
    /// Uptime of this machine at the greeting.
    heard: Duration,
}

impl Store {
    /// Takes in the time that `node` has just named.
    pub fn hear_clock(&self, node: NodeId, clock: ServerTime) {
        self.node_clocks.hear_at(node, clock, sys::clock::uptime());
    }
}

impl NodeClocks {
    fn hear_at(&self, node: NodeId, clock: ServerTime, uptime: Duration) {
        let start_micros = clock.0.saturating_sub(micros(uptime));
        self.heard.lock().insert(node, NodeClock { start_micros, heard: uptime });
    }

    /// Returns the time by the clock of each node when the machine has been up for `uptime`.
    pub(crate) fn times(&self, uptime: Duration) -> Vec<ServerTime> {
        let mut heard = self.heard.lock();
        heard.retain(|_, clock| uptime.saturating_sub(clock.heard) <= KEPT);
        let time =
            |clock: &NodeClock| ServerTime(clock.start_micros.saturating_add(micros(uptime)));
        heard.values().map(time).collect()
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_clock_goes_on_with_the_uptime_and_is_forgotten_after_a_day() {
        let clocks = NodeClocks::default();
        let hour = Duration::from_secs(3600);
        clocks.hear_at(NodeId(1), ServerTime(5_000_000), hour);
        clocks.hear_at(NodeId(2), ServerTime(i64::MIN), 2 * hour);
        clocks.hear_at(NodeId(1), ServerTime(7_000_000), 2 * hour);
        let later = |micros: i64| ServerTime(7_000_000 + micros);
        assert_eq!(clocks.times(3 * hour)[0], later(3_600_000_000));
        assert_eq!(clocks.times(26 * hour)[0], later(24 * 3_600_000_000));
        assert_eq!(clocks.times(26 * hour + Duration::from_micros(1)), []);
    }
}

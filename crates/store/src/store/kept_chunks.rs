//! Numbers of the chunks that the backups of each node keep in memory, so that later changes may
//! name them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::NodeId;
use sys::lock::Mutex;

/// The numbers of all nodes that keep chunks.
#[derive(Default)]
pub(crate) struct KeptChunks(Arc<Counts>);

/// Number of chunks of each node that keeps some.
type Counts = Mutex<BTreeMap<NodeId, usize>>;

/// The chunks that one backup keeps. Dropping it takes them off the number of the node.
pub(crate) struct KeptShare {
    counts: Arc<Counts>,
    node: NodeId,
    own: usize,
}

impl KeptChunks {
    /// Returns the share of a new backup of `node`, which keeps nothing yet.
    pub(crate) fn share(&self, node: NodeId) -> KeptShare {
        KeptShare { counts: Arc::clone(&self.0), node, own: 0 }
    }
}

impl KeptShare {
    /// Number of the chunks that this backup keeps.
    pub(crate) fn own(&self) -> usize {
        self.own
    }

    /// Number of the chunks that all backups of the node keep.
    pub(crate) fn of_node(&self) -> usize {
        self.counts.lock().get(&self.node).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, chunks: usize) {
        self.own += chunks;
        *self.counts.lock().entry(self.node).or_default() += chunks;
    }

    pub(crate) fn remove(&mut self, chunks: usize) {
        assert!(chunks <= self.own, "each kept chunk is counted");
        self.own -= chunks;
        let mut counts = self.counts.lock();
        if let Some(of_node) = counts.get_mut(&self.node) {
            *of_node -= chunks;
            if *of_node == 0 {
                counts.remove(&self.node);
            }
        }
    }
}

impl Drop for KeptShare {
    fn drop(&mut self) {
        self.remove(self.own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_chunks_of_its_backups_and_no_others() {
        let kept = KeptChunks::default();
        let (mut one, mut other) = (kept.share(NodeId(1)), kept.share(NodeId(1)));
        let mut stranger = kept.share(NodeId(2));
        one.add(5);
        other.add(7);
        stranger.add(9);
        one.remove(2);
        assert_eq!((one.own(), one.of_node(), stranger.of_node()), (3, 10, 9));
        drop(other);
        assert_eq!(one.of_node(), 3);
        drop((one, stranger));
        assert!(kept.0.lock().is_empty());
    }
}

//! Numbers of nodes, as long as the kernel knows them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

use fuser::INodeNo;
use sys::lock::Mutex;

use crate::node::Node;

/// Least number of a node but the root. The numbers below have meanings of their own.
const FIRST: u64 = 1 << 32;

/// Nodes that the kernel knows, by number.
///
/// The number of a node is a hash of its identity, which may be long. A second hash tells nodes
/// with the same number apart: the later one gets the next number.
///
/// A table of hashes would be half empty after each time that it has grown, and twice as large
/// while it grows.
pub(crate) struct Inodes {
    nodes: Mutex<BTreeMap<u64, KnownNode>>,
    hashers: [RandomState; 2],
}

struct KnownNode {
    node: Node,
    check: u64,
    /// Number of times that the kernel was told of the node and has not forgotten it.
    lookups: u64,
}

impl Inodes {
    pub(crate) fn new() -> Self {
        let root = KnownNode { node: Node::Top, check: 0, lookups: 1 };
        let nodes = BTreeMap::from([(INodeNo::ROOT.into(), root)]);
        Self { nodes: Mutex::new(nodes), hashers: [RandomState::new(), RandomState::new()] }
    }

    /// Returns the number of `node`, which the kernel is told.
    pub(crate) fn tell(&self, node: Node) -> INodeNo {
        let [hash, check] = self.hashers.each_ref().map(|hasher| hasher.hash_one(node.key()));
        let mut nodes = self.nodes.lock();
        let mut number = hash.max(FIRST);
        loop {
            match nodes.get_mut(&number) {
                Some(known) if known.check == check => {
                    known.lookups += 1;
                    // The object may have changed since.
                    known.node = node;
                    return INodeNo(number);
                }
                Some(_) => number = number.wrapping_add(1).max(FIRST),
                None => {
                    nodes.insert(number, KnownNode { node, check, lookups: 1 });
                    return INodeNo(number);
                }
            }
        }
    }

    pub(crate) fn get(&self, inode: INodeNo) -> Option<Node> {
        self.nodes.lock().get(&u64::from(inode)).map(|known| known.node.clone())
    }

    /// Takes back `lookups` of what the kernel was told.
    pub(crate) fn forget(&self, inode: INodeNo, lookups: u64) {
        let mut nodes = self.nodes.lock();
        let Some(known) = nodes.get_mut(&u64::from(inode)) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0 && inode != INodeNo::ROOT {
            nodes.remove(&u64::from(inode));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_its_number_until_it_is_forgotten() {
        let inodes = Inodes::new();
        let times = inodes.tell(Node::Times);
        assert_eq!(inodes.tell(Node::Times), times);
        inodes.forget(times, 1);
        assert!(inodes.get(times).is_some());
        inodes.forget(times, 1);
        assert!(inodes.get(times).is_none());
        assert_ne!(inodes.tell(Node::Images { name: None }), inodes.tell(Node::Times));
        inodes.forget(INodeNo::ROOT, 100);
        assert!(inodes.get(INodeNo::ROOT).is_some());
    }
}

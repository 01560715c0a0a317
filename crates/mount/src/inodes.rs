//! Numbers of nodes, as long as the kernel knows them.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use fuser::INodeNo;
use sys::lock::Mutex;

use crate::node::Node;

/// Nodes that the kernel knows, by number.
pub(crate) struct Inodes {
    numbers: Mutex<Numbers>,
    /// Two hashes of 64 bits together stand for the identity of a node, which may be long.
    hashers: [RandomState; 2],
}

struct Numbers {
    next: u64,
    nodes: HashMap<u64, KnownNode>,
    numbers: HashMap<NodeHash, u64>,
}

type NodeHash = [u64; 2];

struct KnownNode {
    node: Node,
    hash: NodeHash,
    /// Number of times that the kernel was told of the node and has not forgotten it.
    lookups: u64,
}

impl Inodes {
    pub(crate) fn new() -> Self {
        let (nodes, numbers) = (HashMap::new(), HashMap::new());
        let next = u64::from(INodeNo::ROOT);
        let numbers = Mutex::new(Numbers { next, nodes, numbers });
        let inodes = Self { numbers, hashers: [RandomState::new(), RandomState::new()] };
        // The kernel knows the root from the start, and never forgets it.
        let root = inodes.tell(Node::Top);
        assert_eq!(root, INodeNo::ROOT, "the root has the first number");
        inodes
    }

    /// Returns the number of `node`, which the kernel is told.
    pub(crate) fn tell(&self, node: Node) -> INodeNo {
        let hash = self.hashers.each_ref().map(|hasher| hasher.hash_one(node.key()));
        let mut numbers = self.numbers.lock();
        if let Some(number) = numbers.numbers.get(&hash).copied() {
            let known = numbers.nodes.get_mut(&number).expect("each number has its node");
            known.lookups += 1;
            // The object may have changed since.
            known.node = node;
            return INodeNo(number);
        }
        let number = numbers.next;
        numbers.next += 1;
        numbers.numbers.insert(hash, number);
        numbers.nodes.insert(number, KnownNode { node, hash, lookups: 1 });
        INodeNo(number)
    }

    pub(crate) fn get(&self, inode: INodeNo) -> Option<Node> {
        let numbers = self.numbers.lock();
        numbers.nodes.get(&u64::from(inode)).map(|known| known.node.clone())
    }

    /// Takes back `lookups` of what the kernel was told.
    pub(crate) fn forget(&self, inode: INodeNo, lookups: u64) {
        let mut numbers = self.numbers.lock();
        let Some(known) = numbers.nodes.get_mut(&u64::from(inode)) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0 && inode != INodeNo::ROOT {
            let hash = known.hash;
            numbers.nodes.remove(&u64::from(inode));
            numbers.numbers.remove(&hash);
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
        assert_ne!(inodes.tell(Node::Times), times);
        inodes.forget(INodeNo::ROOT, 100);
        assert!(inodes.get(INodeNo::ROOT).is_some());
    }
}

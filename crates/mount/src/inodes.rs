//! Numbers of nodes, as long as the kernel knows them.

use std::collections::HashMap;
use std::sync::Arc;

use fuser::INodeNo;
use sys::lock::Mutex;

use crate::node::{Node, NodeKey};

/// Nodes that the kernel knows, by number.
pub(crate) struct Inodes(Mutex<Numbers>);

struct Numbers {
    next: u64,
    nodes: HashMap<u64, Known>,
    numbers: HashMap<Arc<NodeKey>, u64>,
}

struct Known {
    node: Arc<Node>,
    key: Arc<NodeKey>,
    /// Number of times that the kernel was told of the node and has not forgotten it.
    lookups: u64,
}

impl Inodes {
    pub(crate) fn new() -> Self {
        let (nodes, numbers) = (HashMap::new(), HashMap::new());
        let first = u64::from(INodeNo::ROOT);
        let inodes = Self(Mutex::new(Numbers { next: first, nodes, numbers }));
        // The kernel knows the root from the start, and never forgets it.
        let root = inodes.tell(Node::Top);
        assert_eq!(root, INodeNo::ROOT, "the root has the first number");
        inodes
    }

    /// Returns the number of `node`, which the kernel is told.
    pub(crate) fn tell(&self, node: Node) -> INodeNo {
        let mut numbers = self.0.lock();
        let key = Arc::new(node.key());
        if let Some(number) = numbers.numbers.get(&key).copied() {
            let known = numbers.nodes.get_mut(&number).expect("each number has its node");
            known.lookups += 1;
            // The object may have changed since.
            known.node = Arc::new(node);
            return INodeNo(number);
        }
        let number = numbers.next;
        numbers.next += 1;
        numbers.numbers.insert(Arc::clone(&key), number);
        numbers.nodes.insert(number, Known { node: Arc::new(node), key, lookups: 1 });
        INodeNo(number)
    }

    pub(crate) fn get(&self, inode: INodeNo) -> Option<Arc<Node>> {
        let numbers = self.0.lock();
        numbers.nodes.get(&u64::from(inode)).map(|known| Arc::clone(&known.node))
    }

    /// Takes back `lookups` of what the kernel was told.
    pub(crate) fn forget(&self, inode: INodeNo, lookups: u64) {
        let mut numbers = self.0.lock();
        let Some(known) = numbers.nodes.get_mut(&u64::from(inode)) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0 && inode != INodeNo::ROOT {
            let key = Arc::clone(&known.key);
            numbers.nodes.remove(&u64::from(inode));
            numbers.numbers.remove(&key);
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

//! The readers of packs on volumes, and their waits as administrators see them.

use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use catalog::Node;
use model::ServerTime;
use sys::lock::Mutex;
use tape::schedule::{Kind, OwnerId, ProgramId, WaiterId};

/// A reader of packs: a user's program on a node, or the server itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reader {
    pub kind: Kind,
    /// Name of the node; `None` for the server itself.
    pub node: Option<String>,
    pub user: u32,
    pub program: String,
    /// Number by which the node recognises the wait; 0 for none.
    pub reference: u64,
}

impl Reader {
    /// Returns the server itself as a reader that copies, moves or checks packs.
    pub fn server() -> Self {
        Self { kind: Kind::Restore, node: None, user: 0, program: String::new(), reference: 0 }
    }

    /// Returns a user's program on the node as a reader.
    pub fn of_node(node: &Node, kind: Kind, user: u32, program: String) -> Self {
        Self { kind, node: Some(node.name.to_string()), user, program, reference: 0 }
    }

    pub fn owner(&self) -> OwnerId {
        OwnerId(hash(&(&self.node, self.user)))
    }

    pub fn program(&self) -> ProgramId {
        ProgramId(hash(&(&self.node, &self.program)))
    }
}

fn hash(value: &impl std::hash::Hash) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A reader's wait for packs.
#[derive(Debug)]
pub(crate) struct Wait {
    pub reader: Reader,
    pub since: ServerTime,
    pub packs: AtomicU32,
    pub packs_done: AtomicU32,
    pub is_cancelled: AtomicBool,
    /// The last request for a part of a pack.
    last: Mutex<Option<Request>>,
}

impl Wait {
    pub(crate) fn new(reader: &Reader, packs: usize) -> Self {
        Self {
            reader: reader.clone(),
            since: sys::clock::now(),
            packs: AtomicU32::new(u32::try_from(packs).unwrap_or(u32::MAX)),
            packs_done: AtomicU32::new(0),
            is_cancelled: AtomicBool::new(false),
            last: Mutex::new(None),
        }
    }

    pub(crate) fn note(&self, request: Request) {
        *self.last.lock() = Some(request);
    }

    pub(crate) fn last(&self) -> Option<Request> {
        self.last.lock().clone()
    }
}

/// The waits of all readers, by number.
#[derive(Debug, Default)]
pub(crate) struct WaitList {
    waits: Mutex<BTreeMap<u64, Arc<Wait>>>,
    last: AtomicU64,
}

impl WaitList {
    /// Returns a number that no other wait has.
    pub(crate) fn next_number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a wait, and returns its number.
    pub(crate) fn add(&self, wait: &Arc<Wait>) -> u64 {
        let number = self.next_number();
        self.waits.lock().insert(number, Arc::clone(wait));
        number
    }

    pub(crate) fn remove(&self, number: u64) {
        self.waits.lock().remove(&number);
    }

    /// The waits of the readers of the node with this name.
    pub(crate) fn of_node(&self, node: &str) -> BTreeMap<u64, Arc<Wait>> {
        let waits = self.waits.lock();
        let own = waits.iter().filter(|(_, wait)| wait.reader.node.as_deref() == Some(node));
        own.map(|(number, wait)| (*number, Arc::clone(wait))).collect()
    }

    pub(crate) fn all(&self) -> BTreeMap<u64, Arc<Wait>> {
        self.waits.lock().clone()
    }
}

/// A request for a part of a pack in the queue of a library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub library: String,
    pub waiter: WaiterId,
    pub volume: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_sees_its_own_waits_only() {
        let list = WaitList::default();
        let mut add = |node: Option<&str>| {
            let reader = Reader { node: node.map(str::to_owned), ..Reader::server() };
            list.add(&Arc::new(Wait::new(&reader, 1)))
        };
        let numbers = [Some("anna"), Some("berta"), None, Some("anna")].map(&mut add);
        let own: Vec<u64> = list.of_node("anna").into_keys().collect();
        assert_eq!(own, [numbers[0], numbers[3]]);
        assert_eq!(list.all().len(), 4);
        assert!(list.of_node("").is_empty());
    }
}

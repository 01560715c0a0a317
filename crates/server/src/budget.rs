//! Budgets of nodes: the memory that all backups of one node may take at once. A node that exceeds
//! its budget waits or is refused; other nodes do not notice it. The number of its backups is
//! limited in [`crate::limits`].

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use model::NodeId;
use store::StoreError;
use sys::lock::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Maximum memory, in KiB, of the messages that wait in all sessions of a node for their commit.
const HELD_KIB_MAX: u32 = 256 << 10;
/// Maximum number of transactions of a node that are decoded and applied at once.
const EXPANDING_MAX: usize = 2;
/// Maximum time that a message waits for memory. Memory becomes free as transactions commit.
const HELD_WAIT: Duration = Duration::from_secs(60);

/// The budgets of all nodes with an open session.
#[derive(Default)]
pub(crate) struct NodeBudgets {
    budgets: Mutex<HashMap<NodeId, Weak<NodeBudget>>>,
}

impl NodeBudgets {
    /// Returns the budget of a node, which all its sessions share.
    pub(crate) fn of(&self, node: NodeId) -> Arc<NodeBudget> {
        let mut budgets = self.budgets.lock();
        if let Some(budget) = budgets.get(&node).and_then(Weak::upgrade) {
            return budget;
        }
        budgets.retain(|_, budget| budget.strong_count() > 0);
        let budget = Arc::new(NodeBudget::new());
        budgets.insert(node, Arc::downgrade(&budget));
        budget
    }
}

/// The budget of one node.
pub(crate) struct NodeBudget {
    held: Arc<Semaphore>,
    expanding: Semaphore,
}

impl NodeBudget {
    fn new() -> Self {
        Self {
            held: Arc::new(Semaphore::new(HELD_KIB_MAX as usize)),
            expanding: Semaphore::new(EXPANDING_MAX),
        }
    }

    /// Reserves memory for `bytes` bytes until the result is dropped; `None` if the node has no
    /// room for them at the moment.
    pub(crate) fn try_hold(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.held).try_acquire_many_owned(kib(bytes)).ok()
    }

    /// Reserves memory for `bytes` bytes until the result is dropped. Waits until other
    /// transactions of the node are committed. A backup that waits in vain is not lost: its client
    /// takes the error for a server that is away, and goes on after a pause.
    pub(crate) async fn hold(&self, bytes: usize) -> Result<OwnedSemaphorePermit, StoreError> {
        let too_much = || {
            StoreError::away(format!(
                "the backups of the node hold {} MiB at the server, and may hold no more; if this \
                 lasts, run fewer backups at once",
                HELD_KIB_MAX >> 10
            ))
        };
        if kib(bytes) > HELD_KIB_MAX {
            return Err(too_much());
        }
        let waiting = Arc::clone(&self.held).acquire_many_owned(kib(bytes));
        let held = tokio::time::timeout(HELD_WAIT, waiting).await;
        held.map_err(|_| too_much())?.map_err(|_| too_much())
    }

    /// Waits until the node may decode and apply one more transaction, which it does until the
    /// result is dropped. The thread may block.
    pub(crate) fn expand(&self) -> SemaphorePermit<'_> {
        let runtime = tokio::runtime::Handle::current();
        runtime.block_on(self.expanding.acquire()).expect("nobody closes the semaphore")
    }
}

/// Returns the number of KiB that `bytes` bytes take, at least one.
fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_a_node_share_its_budget() {
        let budgets = NodeBudgets::default();
        let one = budgets.of(NodeId(1));
        let held = one.try_hold((HELD_KIB_MAX as usize) << 10).expect("nothing else is held");
        assert!(budgets.of(NodeId(1)).try_hold(1).is_none());
        assert!(budgets.of(NodeId(2)).try_hold(1).is_some(), "another node has its own budget");
        drop(held);
        assert!(budgets.of(NodeId(1)).try_hold(1).is_some(), "the memory is free again");
    }

    #[test]
    fn a_budget_is_forgotten_with_its_last_session() {
        let budgets = NodeBudgets::default();
        drop(budgets.of(NodeId(1)));
        drop(budgets.of(NodeId(2)));
        assert_eq!(budgets.budgets.lock().len(), 1);
    }

    #[test]
    fn memory_that_is_held_is_not_given_twice() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let budget = NodeBudget::new();
        let all = (HELD_KIB_MAX as usize) << 10;
        runtime.block_on(async {
            let held = budget.hold(all).await.expect("nothing else is held");
            tokio::select! {
                biased;
                _ = budget.hold(1) => panic!("nothing is left"),
                () = std::future::ready(()) => {}
            }
            drop(held);
            drop(budget.hold(all).await.expect("it is free again"));
            let refused = budget.hold(all + 1).await.expect_err("more than there is");
            assert!(matches!(refused, StoreError::Away(_)), "the client tries again");
        });
    }
}

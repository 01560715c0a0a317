//! State that all sessions of the server share.

use std::sync::Arc;

use catalog::Node;
use store::nodes::{self, NodeOrder, NodeSummary};
use store::{Store, StoreError};
use tokio::sync::{Semaphore, watch};

use crate::activities::Activities;
use crate::attempts::EnrolAttempts;
use crate::attendances::Attendances;
use crate::authority::{Authority, AuthorityError};
use crate::budget::NodeBudgets;
use crate::identities::Identities;
use crate::inbox::Inbox;
use crate::issued::IssuedCertificates;
use crate::limits::Limits;
use crate::measurements::Measurements;
use crate::outbox::Outbox;

/// Number of quanta per processor that are stored at once: one of them may wait for the disk.
const STORING_PER_PROCESSOR: usize = 2;

/// The store, and the state of the network edge.
pub(crate) struct Edge {
    pub(crate) store: Arc<Store>,
    pub(crate) authority: Authority,
    pub(crate) identities: Identities,
    /// Work of nodes that is under way.
    pub(crate) activities: Activities,
    /// Limit on the quanta that are stored at once: storing one needs a processor and memory.
    pub(crate) storing: Arc<Semaphore>,
    pub(crate) limits: Limits,
    pub(crate) budgets: NodeBudgets,
    /// Memory of the messages that arrive.
    pub(crate) inbox: Arc<Inbox>,
    /// Memory of the answers that nobody has taken.
    pub(crate) outbox: Arc<Outbox>,
    /// Failed enrolments.
    pub(crate) attempts: EnrolAttempts,
    pub(crate) issued: IssuedCertificates,
    pub(crate) measurements: Measurements,
    /// Agents that are connected.
    pub(crate) attendances: Attendances,
    /// The signal to stop the server, for calls that never end by themselves.
    pub(crate) stop: watch::Receiver<bool>,
}

impl Edge {
    pub(crate) fn new(
        store: Arc<Store>,
        stop: watch::Receiver<bool>,
    ) -> Result<Self, AuthorityError> {
        let authority = Authority::load(&store.folder, store.config.certificate_days)?;
        let at_once = STORING_PER_PROCESSOR * sys::process::processors();
        let storing = Arc::new(Semaphore::new(at_once));
        let (limits, identities) = (Limits::new(&store.config), Identities::default());
        let (budgets, attempts) = (NodeBudgets::default(), EnrolAttempts::default());
        let measurements = Measurements::default();
        Ok(Self {
            store,
            authority,
            identities,
            activities: Activities::default(),
            storing,
            limits,
            budgets,
            inbox: Arc::default(),
            outbox: Arc::default(),
            attempts,
            issued: IssuedCertificates::default(),
            measurements,
            attendances: Attendances::default(),
            stop,
        })
    }
    /// Changes a node that was `found`. Locking it ends its sessions at once.
    pub(crate) fn change_node(
        &self,
        found: &Node,
        order: &NodeOrder,
        actor: &str,
    ) -> Result<NodeSummary, StoreError> {
        let changed = nodes::change(&self.store, found, order, actor)?;
        if order.locked == Some(true) || order.locked_by_owner == Some(true) {
            self.identities.cut(found.id);
        }
        Ok(changed)
    }

    /// Removes a node that was `found`, and ends its sessions. A node with data is removed only
    /// `with_data`.
    pub(crate) fn remove_node(
        &self,
        found: &Node,
        with_data: bool,
        actor: &str,
    ) -> Result<NodeSummary, StoreError> {
        let removed = nodes::remove(&self.store, found, with_data, actor)?;
        self.identities.cut(removed.node.id);
        Ok(removed)
    }

    /// Ends all certificates of a node, its unused token and its sessions. Returns the number of
    /// certificates.
    pub(crate) fn revoke_node(&self, node: &Node, actor: &str) -> Result<u64, StoreError> {
        let revoked = nodes::revoke(&self.store, node, actor)?;
        self.identities.cut(node.id);
        Ok(revoked)
    }
}

//! State that all sessions of the server share.

use std::sync::Arc;

use store::Store;
use tokio::sync::Semaphore;

use crate::attendances::Attendances;
use crate::authority::{Authority, AuthorityError};
use crate::budget::NodeBudgets;
use crate::guesses::Guesses;
use crate::identities::Identities;
use crate::limits::Limits;
use crate::measurements::Measurements;

/// Number of quanta per processor that are stored at once: one of them may wait for the disk.
const STORING_PER_PROCESSOR: usize = 2;

/// The store, and the state of the network edge.
pub(crate) struct Edge {
    pub(crate) store: Arc<Store>,
    pub(crate) authority: Authority,
    pub(crate) identities: Identities,
    /// Limit on the quanta that are stored at once: storing one needs a processor and memory.
    pub(crate) storing: Arc<Semaphore>,
    pub(crate) limits: Limits,
    pub(crate) budgets: NodeBudgets,
    /// Failed enrolments.
    pub(crate) guesses: Guesses,
    pub(crate) measurements: Measurements,
    /// Agents that are connected.
    pub(crate) attendances: Attendances,
}

impl Edge {
    pub(crate) fn new(store: Arc<Store>) -> Result<Self, AuthorityError> {
        let authority = Authority::load(&store.folder, store.config.certificate_days)?;
        let at_once = STORING_PER_PROCESSOR * sys::process::processors();
        let storing = Arc::new(Semaphore::new(at_once));
        let (limits, identities) = (Limits::new(&store.config), Identities::default());
        let (budgets, guesses) = (NodeBudgets::default(), Guesses::default());
        let measurements = Measurements::default();
        Ok(Self {
            store,
            authority,
            identities,
            storing,
            limits,
            budgets,
            guesses,
            measurements,
            attendances: Attendances::default(),
        })
    }
}

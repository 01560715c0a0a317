//! Authors of administrators' calls, for the audit trail, and what they see.

use std::collections::BTreeSet;

use catalog::actor::administrator;
use catalog::{Node, NodeSight};
use model::{DomainId, NodeId};
use store::option_sets::OptionSetUse;
use store::schedules::{OwnedBy, Schedule};
use store::{Store, StoreError, nodes};
use tonic::Request;
use tonic::transport::server::UdsConnectInfo;

use crate::numbering::Numbering;

/// Name of the caller of an administrator's call, as the service above notes it in a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Actor(pub String);

/// The objects that a list shows to its caller. The service above notes it in a request; without
/// it, a list shows all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sight {
    pub nodes: BTreeSet<NodeId>,
    pub domains: BTreeSet<DomainId>,
    /// Nodes whose events are shown.
    pub events: NodeSight,
}

/// The schedules that a list shows to its caller, as the caller sees them. The service above notes
/// them in a request; without them, a list shows all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleSight(pub Vec<Schedule>);

/// The option sets that a list shows to its caller, as the caller sees them. The service above
/// notes them in a request; without them, a list shows all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionSetSight(pub Vec<OptionSetUse>);

/// The nodes that a call may be about. The service above notes them in a request: since its look,
/// other nodes may have got their names. Without it, any node is right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundNodes(pub BTreeSet<NodeId>);

/// Finds the node `name`. One that is not among those that were `found` is unknown.
pub(crate) fn find_node(
    store: &Store,
    name: &str,
    found: Option<&FoundNodes>,
) -> Result<Node, StoreError> {
    let node = nodes::find(store, name)?;
    match found.is_none_or(|FoundNodes(found)| found.contains(&node.id)) {
        true => Ok(node),
        false => Err(nodes::unknown(name)),
    }
}

/// An administrator who changes a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Changer {
    pub(crate) name: String,
    /// Owner that the schedule must have.
    pub(crate) owned_by: OwnedBy,
}

/// Mark of the review of a draft. If the service above notes it in a request, only the draft with
/// this mark is activated; otherwise the draft is activated as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReviewMark(pub String);

/// Returns the limit on what the caller of a request sees, if there is one.
pub(crate) fn sight<T>(request: &Request<T>) -> Option<Sight> {
    request.extensions().get().cloned()
}

/// Returns the schedules that the caller of a request sees, if there is a limit on them.
pub(crate) fn schedule_sight<T>(request: &Request<T>) -> Option<ScheduleSight> {
    request.extensions().get().cloned()
}

/// Returns the option sets that the caller of a request sees, if there is a limit on them.
pub(crate) fn option_set_sight<T>(request: &Request<T>) -> Option<OptionSetSight> {
    request.extensions().get().cloned()
}

/// Returns the nodes that a request may be about, if there is a limit on them.
pub(crate) fn found_nodes<T>(request: &Request<T>) -> Option<FoundNodes> {
    request.extensions().get().cloned()
}

/// Returns who changes a schedule by a request. The service above notes in the request which owner
/// the schedule must have; without it, any owner is right.
pub(crate) fn changer<T>(request: &Request<T>) -> Changer {
    let owned_by = request.extensions().get().copied().unwrap_or_default();
    Changer { name: actor(request), owned_by }
}

/// Returns the way in which the caller of a request gets and gives numbers. The service above notes
/// it in a request; without it, the caller gets the numbers of the catalogue.
pub(crate) fn numbering<T>(request: &Request<T>) -> Numbering {
    request.extensions().get().cloned().unwrap_or_default()
}

/// Returns the mark of the review under which a request may activate a draft, if there is one.
pub(crate) fn review_mark<T>(request: &Request<T>) -> Option<ReviewMark> {
    request.extensions().get().cloned()
}

/// Returns the administrator who sends a request, for the audit trail.
pub(crate) fn actor<T>(request: &Request<T>) -> String {
    if let Some(Actor(name)) = request.extensions().get() {
        return name.clone();
    }
    let connection = request.extensions().get::<UdsConnectInfo>();
    let user = connection.and_then(|connection| connection.peer_cred);
    administrator(user.map(|user| user.uid()))
}

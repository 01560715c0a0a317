//! Nodes that calls name, if their callers may see them.
//!
//! A node that a caller may not see takes the same questions to the catalogue as one that does not
//! exist, so that not even the time of an answer tells them apart.

use std::collections::BTreeMap;

use catalog::{CatalogError, Node, NodeDetails, NodeSight};
use model::{NodeId, NodeName, PersonId};

use super::domains::NOTHING;
use crate::call::Answer;
use crate::caller::{Caller, Subject};
use crate::desk::Desk;
use crate::problem::Problem;
use crate::roles::{Area, Right};

/// Number that no node has.
const NOBODY: NodeId = NodeId(u32::MAX);
/// Text that is no name of a node, and comes after all names.
pub(super) const NO_NAME: &str = "~";

/// A node with its details.
pub(crate) struct FoundNode {
    pub(crate) node: Node,
    pub(crate) details: NodeDetails,
}

impl FoundNode {
    pub(crate) fn subject(&self) -> Subject {
        Subject::of_node(&self.node, Some(&self.details))
    }
}

/// Finds a node with which the caller may do what needs `right` in `area`. A node that the caller
/// may not see is answered as one that does not exist.
pub(crate) fn find_node(
    desk: &Desk,
    caller: &Caller,
    name: &str,
    (area, right): (Area, Right),
) -> Answer<FoundNode> {
    let absent = || Problem::not_found("node", name);
    let catalog = &desk.store().catalog;
    let node = match NodeName::new(name).map(|name| catalog.node(&name)) {
        Ok(Ok(node)) => Some(node),
        Ok(Err(CatalogError::NotFound { .. })) => None,
        Ok(Err(error)) => return Err(error.into()),
        Err(_) => catalog.nodes_from(NO_NAME, 1)?.pop(),
    };
    // A node that does not exist takes the same questions as one of others, and so the same time.
    let details = catalog.node_details(node.as_ref().map_or(NOBODY, |node| node.id))?;
    let found = FoundNode { node: node.ok_or_else(absent)?, details };
    if !caller.may(Area::Nodes, Right::Read, found.subject()) {
        return Err(absent());
    }
    caller.check(area, right, found.subject())?;
    Ok(found)
}

/// Returns the nodes with which the caller may do what needs `right` in `area`, by name.
pub(crate) fn nodes_seen(
    desk: &Desk,
    caller: &Caller,
    (area, right): (Area, Right),
) -> Answer<Vec<Node>> {
    let catalog = &desk.store().catalog;
    let details: BTreeMap<_, _> = catalog.all_node_details()?.into_iter().collect();
    let mut nodes = catalog.nodes()?;
    nodes.retain(|node| caller.may(area, right, Subject::of_node(node, details.get(&node.id))));
    Ok(nodes)
}

/// Returns the nodes that the caller may read in `area`; `None` if the caller may read everything.
pub(super) fn limit_of_sight(
    desk: &Desk,
    caller: &Caller,
    area: Area,
) -> Answer<Option<NodeSight>> {
    let sees_all = caller.may(area, Right::Read, Subject::Service);
    if sees_all { Ok(None) } else { sight(desk, caller, area).map(Some) }
}

/// Returns the nodes that the caller may read in `area`: those of the domains in which the caller
/// has a role, and the caller's own. A right in the whole service does not count.
pub(crate) fn sight(desk: &Desk, caller: &Caller, area: Area) -> Answer<NodeSight> {
    let may = |subject| caller.may(area, Right::Read, subject);
    let domains = desk.store().catalog.domains()?.into_iter().map(|domain| domain.id);
    let domains = domains.filter(|domain| may(Subject::Domain(*domain))).collect();
    let is_owner = |own: &PersonId| may(Subject::Node { domain: NOTHING, owner: Some(*own) });
    Ok(NodeSight { domains, owner: caller.person.filter(is_owner) })
}

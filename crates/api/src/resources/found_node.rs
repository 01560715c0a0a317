//! Nodes that calls name, if their callers may see them.

use catalog::{CatalogError, Node, NodeDetails};
use model::NodeName;

use crate::call::Answer;
use crate::caller::{Caller, Subject};
use crate::desk::Desk;
use crate::problem::Problem;
use crate::roles::{Area, Right};

/// A node with its details.
pub(super) struct FoundNode {
    pub(super) node: Node,
    pub(super) details: NodeDetails,
}

impl FoundNode {
    pub(super) fn subject(&self) -> Subject {
        Subject::Node { domain: self.node.domain, owner: self.details.owner }
    }
}

/// Finds a node with which the caller may do what needs `right` in `area`. A node that the caller
/// may not see is answered as one that does not exist.
pub(super) fn find_node(
    desk: &Desk,
    caller: &Caller,
    name: &str,
    (area, right): (Area, Right),
) -> Answer<FoundNode> {
    let absent = || Problem::not_found("node", name);
    let catalog = &desk.store().catalog;
    let node = match NodeName::new(name).map(|name| catalog.node(&name)) {
        Ok(Ok(node)) => node,
        Err(_) | Ok(Err(CatalogError::NotFound { .. })) => return Err(absent()),
        Ok(Err(error)) => return Err(error.into()),
    };
    let details = catalog.node_details(node.id)?;
    let found = FoundNode { node, details };
    if !caller.may(Area::Nodes, Right::Read, found.subject()) {
        return Err(absent());
    }
    caller.check(area, right, found.subject())?;
    Ok(found)
}

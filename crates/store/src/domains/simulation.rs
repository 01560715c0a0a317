//! Simulation of a draft: what would expire if it were active now, by node and by class.

use std::collections::BTreeMap;

use super::{draft_of, find, nodes_of};
use crate::error::StoreError;
use crate::lifecycle::expire::{self, ByClass, Order, Outcome};
use crate::lifecycle::usage::REMOVED;
use crate::store::Store;

/// Versions that would expire under a draft.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Simulation {
    pub domain: String,
    /// Number of nodes of the domain.
    pub nodes: usize,
    /// Nodes that were looked at, by name.
    pub by_node: Vec<(String, Outcome)>,
    /// Names of classes with what would expire of them.
    pub by_class: BTreeMap<String, expire::ClassCount>,
    /// False if the time did not suffice for all nodes.
    pub is_complete: bool,
}

/// Counts what would expire if the draft of a domain were active now, node by node, while `goes_on`
/// returns true. A node that was not looked at to its end does not count.
pub fn simulate_by_node(
    store: &Store,
    name: &str,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Simulation, StoreError> {
    let domain = find(store, name)?;
    let draft = draft_of(&domain)?;
    let nodes = nodes_of(store, &domain)?;
    let mut simulation = Simulation { nodes: nodes.len(), ..Simulation::default() };
    let mut by_class = ByClass::new();
    for node in &nodes {
        let order = Order { draft: Some(draft), is_dry: true, all: true, ..Order::due() };
        let of_node = std::slice::from_ref(node);
        let (outcome, classes) =
            match expire::run_by_class(store, of_node, order, &mut |_| goes_on()) {
                Err(StoreError::Cancelled(_)) => break,
                counted => counted?,
            };
        simulation.by_node.push((node.name.to_string(), outcome));
        for (class, count) in classes {
            by_class.entry(class).or_default().add(count);
        }
    }
    let class_name = |id| {
        let class = domain.active.class(id).or_else(|| draft.class(id));
        class.map_or(REMOVED, |class| class.name.as_str()).to_owned()
    };
    for (class, count) in by_class {
        simulation.by_class.entry(class_name(class)).or_default().add(count);
    }
    simulation.is_complete = simulation.by_node.len() == nodes.len();
    simulation.domain = domain.name;
    Ok(simulation)
}

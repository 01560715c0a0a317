//! The nodes that follow a schedule, and the schedules that a node follows.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Association, Catalog, Follower, Node};
use model::{NodeId, ServerTime};

use super::announcement::announce;
use crate::error::StoreError;
use crate::names::check_name;
use crate::store::Store;

/// All followers, as the catalogue has them at one time.
pub(super) struct Followers {
    associations: Vec<Association>,
    labels: BTreeSet<(NodeId, String)>,
}

impl Followers {
    pub(super) fn read(catalog: &dyn Catalog) -> Result<Self, StoreError> {
        let labels = catalog.labels(None)?.into_iter().collect();
        Ok(Self { associations: catalog.associations()?, labels })
    }

    /// Returns the schedules that `node` follows, each with the time since which it does so.
    pub(super) fn of_node(&self, node: &Node) -> BTreeMap<&str, ServerTime> {
        let mut schedules = BTreeMap::new();
        for association in self.associations.iter().filter(|one| self.includes(one, node)) {
            let since = association.since.max(node.registered);
            let known: &mut ServerTime =
                schedules.entry(association.schedule.as_str()).or_insert(since);
            *known = since.min(*known);
        }
        schedules
    }

    /// Returns the nodes out of `nodes` that follow the schedule, each with the time since which it
    /// does so.
    pub(super) fn of_schedule<'a>(
        &self,
        schedule: &str,
        nodes: &'a [Node],
    ) -> Vec<(&'a Node, ServerTime)> {
        let own: Vec<&Association> =
            self.associations.iter().filter(|one| one.schedule == schedule).collect();
        let since = |node: &Node| {
            let all = own.iter().filter(|one| self.includes(one, node));
            all.map(|one| one.since.max(node.registered)).min()
        };
        nodes.iter().filter_map(|node| Some((node, since(node)?))).collect()
    }

    /// Returns the followers of the schedule.
    pub(super) fn named(&self, schedule: &str) -> Vec<Follower> {
        let own = self.associations.iter().filter(|one| one.schedule == schedule);
        own.map(|one| one.follower.clone()).collect()
    }

    fn includes(&self, association: &Association, node: &Node) -> bool {
        match &association.follower {
            Follower::Node(id) => *id == node.id,
            Follower::Domain(domain) => *domain == node.domain,
            Follower::Label(label) => self.labels.contains(&(node.id, label.clone())),
        }
    }
}

/// Gives labels to a node and takes labels from it.
pub fn label_nodes(
    store: &Store,
    node: NodeId,
    added: &[String],
    removed: &[String],
) -> Result<(), StoreError> {
    for label in added {
        check_name(label, "a label")?;
    }
    store.catalog.change_labels(node, added, removed)?;
    announce(store)
}

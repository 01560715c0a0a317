//! The nodes that follow a schedule, and the schedules that a node follows.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Association, Catalog, Follower, Node, ScheduleRow};
use model::{DomainId, NodeId, ServerTime};
use policy::schedule::{Definition, Place};

use super::owner::owner;
use crate::error::StoreError;
use crate::names::check_name;
use crate::store::Store;

/// All followers of schedules.
pub(super) struct Followers {
    associations: Vec<Association>,
    /// Labels of nodes, with the time at which the node got each.
    labels: BTreeMap<(NodeId, String), ServerTime>,
    /// Domains of the schedules that belong to one. Only their nodes follow.
    owners: BTreeMap<String, DomainId>,
}

impl Followers {
    /// Reads the followers of the schedules `rows`, which were read before. The domain of a
    /// schedule is that in its row: another schedule may have got its name meanwhile.
    pub(super) fn read(catalog: &dyn Catalog, rows: &[ScheduleRow]) -> Result<Self, StoreError> {
        let labels = catalog.label_times()?.into_iter();
        let labels = labels.map(|(node, label, since)| ((node, label), since)).collect();
        let owners = rows.iter().filter_map(|row| Some((row.name.clone(), owner(row)?)));
        let owners = owners.collect();
        // A schedule that was made after the rows were read is none of those asked for.
        let mut associations = catalog.associations()?;
        let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        associations.retain(|one| names.contains(one.schedule.as_str()));
        Ok(Self { associations, labels, owners })
    }

    /// Returns the schedules that `node` follows, each with the time since which it does so.
    pub(super) fn of_node(&self, node: &Node) -> BTreeMap<&str, ServerTime> {
        let mut schedules = BTreeMap::new();
        for association in &self.associations {
            let Some(since) = self.since(association, node) else { continue };
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
        let since = |node: &Node| own.iter().filter_map(|one| self.since(one, node)).min();
        nodes.iter().filter_map(|node| Some((node, since(node)?))).collect()
    }

    /// Returns the places at which the schedule is carried out, each with the time since which it
    /// is. `None` is the server.
    pub(super) fn places(
        &self,
        row: &ScheduleRow,
        definition: &Definition,
        nodes: &[Node],
    ) -> Vec<(Option<NodeId>, ServerTime)> {
        match definition.place() {
            Place::Server => vec![(None, row.since)],
            Place::Node => {
                let followers = self.of_schedule(&row.name, nodes).into_iter();
                followers.map(|(node, since)| (Some(node.id), since.max(row.since))).collect()
            }
        }
    }

    /// Returns true if the node has the label.
    pub(super) fn has_label(&self, node: NodeId, label: &str) -> bool {
        self.labels.contains_key(&(node, label.to_owned()))
    }

    /// Returns the followers of the schedule.
    pub(super) fn named(&self, schedule: &str) -> Vec<Follower> {
        let own = self.associations.iter().filter(|one| one.schedule == schedule);
        own.map(|one| one.follower.clone()).collect()
    }

    /// Returns the time since which `node` follows by the association; `None` if it does not. A
    /// node that gets the label or the domain later does not make up for what was due before.
    fn since(&self, association: &Association, node: &Node) -> Option<ServerTime> {
        let owner = self.owners.get(&association.schedule);
        if owner.is_some_and(|domain| *domain != node.domain) {
            return None;
        }
        let belongs = match &association.follower {
            Follower::Node(id) => (*id == node.id).then_some(node.registered),
            Follower::Domain(domain) => (*domain == node.domain).then_some(node.domain_since),
            Follower::Label(label) => self.labels.get(&(node.id, label.clone())).copied(),
        };
        let since = belongs?.max(association.since).max(node.registered);
        Some(if owner.is_some() { since.max(node.domain_since) } else { since })
    }
}

/// Returns what giving labels to a node and taking labels from it changes. A label that is both
/// given and taken is given.
pub(crate) fn label_change(
    store: &Store,
    node: NodeId,
    added: &[String],
    removed: &[String],
) -> Result<LabelChange, StoreError> {
    for label in added {
        check_name(label, "a label")?;
    }
    let before = store.catalog.labels(Some(node))?.into_iter().map(|(_, label)| label);
    Ok(LabelChange::of(&before.collect(), added, removed))
}

/// Labels that a node has got and lost.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LabelChange {
    pub added: Vec<String>,
    pub removed: Vec<String>,
}

impl LabelChange {
    fn of(before: &BTreeSet<String>, added: &[String], removed: &[String]) -> Self {
        let added: BTreeSet<String> = added.iter().cloned().collect();
        let removed: BTreeSet<String> = removed.iter().cloned().collect();
        let lost = |label: &&String| before.contains(*label) && !added.contains(*label);
        Self {
            added: added.difference(before).cloned().collect(),
            removed: removed.iter().filter(lost).cloned().collect(),
        }
    }

    /// Returns the change in words, for the audit trail; `None` if nothing has changed.
    pub fn words(&self) -> Option<String> {
        let signed = |sign: char, labels: &[String]| {
            labels.iter().map(|label| format!("{sign}{label}")).collect::<Vec<_>>()
        };
        let words = [signed('+', &self.added), signed('-', &self.removed)].concat().join(" ");
        Some(words).filter(|words| !words.is_empty())
    }
}

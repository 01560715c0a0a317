//! Nodes and their filespaces.

use catalog::{Filespace, Node, OptionSet};
use wire::proto;

/// A node as administrators see it.
pub(crate) struct NodeSummary {
    pub(crate) node: Node,
    pub(crate) is_enrolled: bool,
    pub(crate) filespaces: Vec<FilespaceSummary>,
}

/// A filespace with its size.
pub(crate) struct FilespaceSummary {
    pub(crate) filespace: Filespace,
    pub(crate) active_objects: u64,
}

pub(crate) fn node(info: NodeSummary) -> proto::NodeInfo {
    let NodeSummary { node, is_enrolled, filespaces } = info;
    proto::NodeInfo {
        id: node.id.0,
        name: node.name.to_string(),
        domain: node.domain_name,
        locked: node.locked,
        enrolled: is_enrolled,
        registered: node.registered.0,
        filespaces: filespaces.into_iter().map(filespace).collect(),
        option_set: node.option_set.unwrap_or_default(),
        deletes_backups: node.deletes_backups,
        deletes_archives: node.deletes_archives,
        collocation_group: node.collocation_group.unwrap_or_default(),
    }
}

pub(crate) fn filespace(info: FilespaceSummary) -> proto::Filespace {
    let FilespaceSummary { filespace, active_objects } = info;
    proto::Filespace {
        name: filespace.name.into(),
        active_objects,
        last_backup: filespace.last_backup.map_or(0, |time| time.0),
    }
}

pub(crate) fn option_set(set: OptionSet) -> proto::OptionSet {
    proto::OptionSet { name: set.name, text: set.text.into() }
}

//! Nodes and their filespaces.

use catalog::ContactRow;
use store::nodes::{FilespaceSummary, NodeSummary};
use wire::proto;

use crate::numbering::Numbering;

/// Maximum length of all names of filespaces in the description of a node, in bytes. A catalogue
/// may have names from a time when names had no limit. Such a name must not keep the list of nodes
/// from fitting into a message.
const FILESPACE_NAMES_BYTES_MAX: usize = 4 << 20;

/// Describes a node. The numbers of nodes and filespaces are for callers who see all domains: they
/// would tell the others how many there are.
pub(crate) fn node(numbering: &Numbering, info: NodeSummary) -> proto::NodeInfo {
    let is_covered = numbering.is_covered();
    let NodeSummary {
        node,
        is_enrolled,
        labels,
        option_set_version,
        filespaces,
        drills,
        has_agent,
        agent_poll,
        last_contact,
    } = info;
    proto::NodeInfo {
        id: if is_covered { 0 } else { node.id.0 },
        name: node.name.to_string(),
        domain: node.domain_name,
        locked: node.locks.any(),
        enrolled: is_enrolled,
        registered: node.registered.0,
        filespaces: shown(filespaces)
            .map(if is_covered { filespace } else { numbered_filespace })
            .collect(),
        option_set: node.option_set.unwrap_or_default(),
        deletes_backups: node.deletes_backups,
        deletes_archives: node.deletes_archives,
        collocation_group: node.collocation_group.unwrap_or_default(),
        labels,
        drills: Some(super::drills::last(drills)),
        option_set_version,
        has_agent: Some(has_agent),
        last_contact: last_contact.map(contact),
        agent_polled: agent_poll.map(|poll| poll.at.0),
        agent_poll_minutes: agent_poll.map_or(0, |poll| poll.minutes),
    }
}

fn contact(ContactRow { at, address, host, .. }: ContactRow) -> proto::NodeContact {
    proto::NodeContact { at: at.0, address, host }
}

/// Returns the filespaces whose names fit into the description of a node.
fn shown(filespaces: Vec<FilespaceSummary>) -> impl Iterator<Item = FilespaceSummary> {
    let mut left = FILESPACE_NAMES_BYTES_MAX;
    filespaces.into_iter().filter(move |info| {
        let fits = info.filespace.name.len() <= left;
        left -= if fits { info.filespace.name.len() } else { 0 };
        fits
    })
}

/// Describes a filespace for an administrator, with its number.
fn numbered_filespace(info: FilespaceSummary) -> proto::Filespace {
    let id = info.filespace.id.0;
    proto::Filespace { id, ..filespace(info) }
}

pub(crate) fn filespace(info: FilespaceSummary) -> proto::Filespace {
    let FilespaceSummary { filespace, active_objects } = info;
    proto::Filespace {
        name: filespace.name.into(),
        active_objects,
        last_backup: filespace.last_backup.map_or(0, |time| time.0),
        backups: Vec::new(),
        // The numbers would tell a node how many filespaces others have.
        id: 0,
    }
}

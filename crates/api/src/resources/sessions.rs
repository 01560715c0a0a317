//! Nodes that are connected, and finished backups of a node.

use std::collections::BTreeMap;

use model::{NodeId, archive_number, mount_point};
use schemars::JsonSchema;
use serde::Serialize;
use server::{Activity, ConnectedNode, NumberKind};
use store::nodes::note;

use super::found_node::{find_node, nodes_seen};
use super::nodes::NodePath;
use super::work_reports::BackupReport;
use crate::call::{Answer, Call};
use crate::cursor::ListQuery;
use crate::fields::{Bytes, Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// A node that is connected to this server.
#[derive(Serialize, JsonSchema)]
struct SessionDocument {
    node: String,
    addresses: Vec<String>,
    connections: usize,
    /// Work of the node that is under way.
    activities: Vec<ActivityDocument>,
}

/// Work of a node that is under way.
#[derive(Serialize, JsonSchema)]
struct ActivityDocument {
    /// Kind of the work: backup, restore or recall. An archive and a retrieve are like a backup and
    /// a restore.
    kind: &'static str,
    /// Path of the file system, or the name of images.
    filespace: Bytes,
    /// Number of the archive, for work on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<u64>,
    since: Time,
    /// Data that has come from the node, or gone to it, as it is on the wire.
    bytes: u64,
    objects: u64,
    /// Mean of the last ten seconds.
    bytes_per_sec: u64,
}

/// A finished backup of a filespace.
#[derive(Serialize, JsonSchema)]
struct BackupDocument {
    filespace: Bytes,
    started: Time,
    ended: Time,
    /// True if the backup examined everything.
    is_complete: bool,
    /// Absent if the report of the node cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<BackupReport>,
}

pub(super) fn add(routes: &mut Routes) {
    let summary = "Lists the nodes that are connected to this server, and what they do";
    routes.add(Operation::read("sessions.list", "/v1/sessions", Area::Work, summary), list);
    let summary = "Ends the connections of a node; its programs connect again by themselves";
    let path = "/v1/sessions/{node}";
    routes.add(Operation::delete("sessions.end", path, Area::Work, summary), end);
    let summary = "Lists the finished backups of a node, newest first";
    let path = "/v1/nodes/{node}/backups";
    routes.add(Operation::read("nodes.backups", path, Area::Work, summary), backups);
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<SessionDocument>> {
    let portion = call.query.portion()?;
    let seen = nodes_seen(&call.desk, &call.caller, (Area::Work, Right::Read))?;
    let names: BTreeMap<NodeId, String> =
        seen.into_iter().map(|node| (node.id, node.name.to_string())).collect();
    let mut activities: BTreeMap<NodeId, Vec<ActivityDocument>> = BTreeMap::new();
    for activity in call.desk.office.activities() {
        activities.entry(activity.node).or_default().push(describe(&activity));
    }
    let session = |ConnectedNode { node, addresses }: ConnectedNode| {
        let connections = addresses.len();
        let mut addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let activities = activities.remove(&node).unwrap_or_default();
        Some(SessionDocument {
            node: names.get(&node)?.clone(),
            addresses,
            connections,
            activities,
        })
    };
    let mut sessions: Vec<_> =
        call.desk.office.connected().into_iter().filter_map(session).collect();
    sessions.sort_by(|one, other| one.node.cmp(&other.node));
    Ok(portion.page_of(sessions, |session| session.node.clone().into_bytes()))
}

fn describe(activity: &Activity) -> ActivityDocument {
    ActivityDocument {
        kind: activity.kind.name(),
        filespace: Bytes(mount_point(&activity.filespace).to_vec()),
        archive: archive_number(&activity.filespace),
        since: Time(activity.since),
        bytes: activity.bytes,
        objects: activity.objects,
        bytes_per_sec: activity.bytes_per_sec,
    }
}

fn end(call: &mut Call<NodePath, Empty, Empty>) -> Answer<Empty> {
    let rights = (Area::Work, Right::Write);
    let found = find_node(&call.desk, &call.caller, &call.path.node, rights)?;
    let is_connected = call.desk.office.connected().iter().any(|one| one.node == found.node.id);
    if !is_connected {
        return Err(Problem::conflict("the node is not connected to this server"));
    }
    call.desk.office.cut(found.node.id);
    let name = found.node.name.to_string();
    note(call.desk.store(), &call.caller.name, "node sessions ended", name)?;
    Ok(Empty {})
}

fn backups(call: &mut Call<NodePath, ListQuery, Empty>) -> Answer<Page<BackupDocument>> {
    let portion = call.query.portion()?;
    let rights = (Area::Work, Right::Read);
    let found = find_node(&call.desk, &call.caller, &call.path.node, rights)?;
    let catalog = &call.desk.store().catalog;
    let filespaces = catalog.filespaces(found.node.id)?;
    let numbering = call.desk.numbering(&call.caller);
    let first = portion.first_number()?.map(|first| numbering.given(NumberKind::Backup, first));
    let rows = catalog.sessions_from(found.node.id, first, portion.read_max())?;
    let shown = |number: u64| numbering.shown(NumberKind::Backup, number);
    let page = portion.page(rows, |(number, _)| shown(*number).to_string().into_bytes());
    let describe = |(_, row): (u64, catalog::SessionRow)| {
        let filespace = filespaces.iter().find(|one| one.id == row.filespace);
        BackupDocument {
            filespace: Bytes(filespace.map(|one| one.name.clone()).unwrap_or_default()),
            started: Time(row.started),
            ended: Time(row.ended),
            is_complete: row.complete,
            report: serde_json::from_str(&row.report).ok(),
        }
    };
    Ok(Page { items: page.items.into_iter().map(describe).collect(), next: page.next })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_keeps_what_this_program_does_not_know() {
        let told = json!({
            "inspected": 7,
            "source": { "kind": "ext4" },
            "stages": { "read": { "busy_secs": 0.5, "waited_for_secs": 0.0, "threads": 2 } },
        });
        let report: BackupReport = serde_json::from_value(told.clone()).expect("is read");
        assert_eq!(serde_json::to_value(&report).expect("is JSON"), told);
        assert!(serde_json::from_value::<BackupReport>(json!({ "inspected": "many" })).is_err());
    }
}

//! The overview: what is at risk, and how much is stored.

use std::collections::{BTreeMap, BTreeSet};

use alerts::{Kind, SERVER};
use catalog::{AlertFilter, AlertRow, DrillRow, Node};
use model::{NodeId, ServerTime, archive_number, is_space_filespace, mount_point};
use policy::PolicyDomain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::NumberKind;
use store::lifecycle::usage;
use store::quotas::{self, LimitUse};

use super::alerts::Names;
use super::found_node::{find_node, limit_of_sight};
use super::nodes::NodePath;
use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::fields::{Bytes, Empty, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Age in hours from which the last good backup of a node is a risk, unless the caller gives
/// another one.
const BACKUP_HOURS: u32 = 26;
const HOUR_MICROS: i64 = 3_600_000_000;
/// Fill in per cent from which a pool is a risk.
const POOL_PERCENT: u64 = 90;
/// Maximum number of open alerts that are looked through for the risks of a caller.
const ALERTS_MAX: usize = 100_000;
/// Kinds of alerts that are risks. The others are found here as the server stands now.
const ALERTS: [Kind; 13] = [
    Kind::DamagedData,
    Kind::ServerHeld,
    Kind::MassDeletion,
    Kind::OldFilespace,
    Kind::EventFailed,
    Kind::EventMissed,
    Kind::DrillOld,
    Kind::NodeCertificate,
    Kind::ServerCertificate,
    Kind::PoolFills,
    Kind::TapeErrors,
    Kind::CopyOld,
    Kind::TaskFailed,
];

/// Risks, the most urgent first.
#[derive(Serialize, JsonSchema)]
struct RisksDocument {
    nodes: usize,
    /// Number of nodes that an item of the list is about.
    nodes_at_risk: usize,
    items: Vec<RiskDocument>,
}

/// A risk.
#[derive(Serialize, JsonSchema)]
struct RiskDocument {
    /// Kind of the risk: no-backup, old-backup, failed-drill, domain-full, pool-away, pool-full,
    /// disk-errors; or of an open alert: damaged-data, server-held, mass-deletion, old-filespace,
    /// event-failed, event-missed, drill-old, node-certificate, server-certificate, pool-fills,
    /// tape-errors, copy-old, task-failed.
    kind: &'static str,
    /// Node, domain, pool or other thing at risk.
    object: String,
    /// Node that the risk is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    is_urgent: bool,
    /// Time of the last good state, if there was one; or the time at which the alert was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Time>,
    /// Number of the alert, if the risk is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    alert: Option<u64>,
    text: String,
}

impl RiskDocument {
    /// Makes a risk of the service as a whole or of a domain.
    fn new(kind: &'static str, object: String, text: String) -> Self {
        let is_urgent = matches!(kind, "pool-away" | "pool-full" | "disk-errors");
        Self { kind, object, node: None, is_urgent, since: None, alert: None, text }
    }

    /// Makes a risk of a node that has been there since this time.
    fn of_node(kind: &'static str, node: String, text: String, since: ServerTime) -> Self {
        let is_urgent = matches!(kind, "no-backup" | "failed-drill");
        let (object, since) = (node.clone(), Some(Time(since)));
        Self { kind, object, node: Some(node), is_urgent, since, alert: None, text }
    }

    fn of_alert(kind: Kind, (number, row): (u64, AlertRow), node: Option<&str>) -> Self {
        Self {
            kind: kind.name(),
            object: row.object,
            node: node.map(str::to_owned),
            is_urgent: kind.is_urgent(),
            since: Some(Time(row.opened)),
            alert: Some(number),
            text: row.text,
        }
    }
}

/// Usage of the server by a node.
#[derive(Serialize, JsonSchema)]
struct OccupancyDocument {
    node: String,
    items: Vec<UsageDocument>,
}

/// Usage by a filespace and class.
#[derive(Serialize, JsonSchema)]
struct UsageDocument {
    /// Kind of the data: backup, archive, or migrated by space management.
    kind: &'static str,
    /// Path of the file system from which the data comes, or the name of images.
    filespace: Bytes,
    /// Number of the archive, for data of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<u64>,
    class: String,
    active_objects: u64,
    active_bytes: u64,
    inactive_versions: u64,
    inactive_bytes: u64,
    /// Space that the data takes in one pool.
    stored_bytes: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RisksQuery {
    /// Age in hours from which the last good backup of a node is a risk; 26 by default.
    backup_hours: Option<u32>,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Reports;
    let summary = "Lists what is at risk, the most urgent first";
    routes.add(Operation::read("reports.risks", "/v1/risks", area, summary), risks);
    let summary = "Counts what a node has stored, by filespace and class";
    let path = "/v1/nodes/{node}/occupancy";
    routes.add(Operation::read("reports.occupancy", path, area, summary), occupancy);
}

/// Returns the risk of a node, if it has one. Nobody expects backups of a locked node.
fn risk_of_node(
    node: &Node,
    last_backup: Option<ServerTime>,
    failed: Option<&DrillRow>,
    (now, hours): (ServerTime, u32),
) -> Option<RiskDocument> {
    if node.locks.any() {
        return None;
    }
    let name = node.name.to_string();
    let oldest = ServerTime(now.0.saturating_sub(i64::from(hours) * HOUR_MICROS));
    let (kind, text, since) = match last_backup {
        None if node.registered < oldest => {
            ("no-backup", format!("node {name} has no good backup"), node.registered)
        }
        Some(last) if last < oldest => {
            let age = (now.0 - last.0) / HOUR_MICROS;
            let text = format!("the last good backup of node {name} is {age} hours old");
            ("old-backup", text, last)
        }
        _ => {
            let drill = failed?;
            let text = format!("the last restore drill of node {name} failed: {}", drill.reason);
            ("failed-drill", text, drill.at)
        }
    };
    Some(RiskDocument::of_node(kind, name, text, since))
}

/// Returns the failed drills that no good one has followed.
fn failed_drills(drills: Vec<DrillRow>) -> BTreeMap<NodeId, DrillRow> {
    let mut good: BTreeMap<NodeId, ServerTime> = BTreeMap::new();
    let mut failed = BTreeMap::new();
    for drill in drills {
        match drill.is_good {
            true => drop(good.insert(drill.node, drill.at)),
            false => drop(failed.insert(drill.node, drill)),
        }
    }
    failed.retain(|node, drill: &mut DrillRow| good.get(node).is_none_or(|at| *at < drill.at));
    failed
}

fn risks(call: &mut Call<Empty, RisksQuery, Empty>) -> Answer<RisksDocument> {
    let hours = match call.query.backup_hours {
        None => BACKUP_HOURS,
        Some(hours @ 1..=8_760) => hours,
        Some(_) => return Err(Problem::invalid("give 1 to 8760 hours")),
    };
    let (catalog, now) = (&call.desk.store().catalog, sys::clock::now());
    let details: BTreeMap<_, _> = catalog.all_node_details()?.into_iter().collect();
    let failed = failed_drills(catalog.drills(None)?);
    let last_backups: BTreeMap<_, _> = catalog.last_backups()?.into_iter().collect();
    let (nodes, domains) = (catalog.nodes()?, catalog.domains()?);
    let (mut count, mut items) = (0, Vec::new());
    for node in &nodes {
        let subject = Subject::of_node(node, details.get(&node.id));
        if !call.caller.may(Area::Reports, Right::Read, subject) {
            continue;
        }
        count += 1;
        let last = last_backups.get(&node.id).copied();
        items.extend(risk_of_node(node, last, failed.get(&node.id), (now, hours)));
    }
    // A node without a backup comes first, then the oldest.
    items.sort_by_key(|item: &RiskDocument| (item.kind != "no-backup", item.since));
    items.extend(domains_at_risk(call, &nodes, &domains)?);
    items.extend(alerts_at_risk(call, &Names::new(&nodes, &details, &domains))?);
    if call.caller.may(Area::Storage, Right::Read, Subject::Service) {
        let pools = store::pools::list(call.desk.store(), None)?;
        items.splice(0..0, pools.iter().filter_map(risk_of_pool));
    }
    items.sort_by_key(|item| !item.is_urgent);
    let at_risk: BTreeSet<&str> = items.iter().filter_map(|item| item.node.as_deref()).collect();
    Ok(RisksDocument { nodes: count, nodes_at_risk: at_risk.len(), items })
}

/// Returns the open alerts that are risks. A node that two of them are about is at risk once.
fn alerts_at_risk(
    call: &Call<Empty, RisksQuery, Empty>,
    names: &Names,
) -> Answer<Vec<RiskDocument>> {
    let seen = limit_of_sight(&call.desk, &call.caller, Area::Alerts)?;
    let open = AlertFilter { is_open: Some(true), seen };
    let rows = call.desk.store().catalog.alerts(&open, None, ALERTS_MAX)?;
    let numbering = call.desk.numbering(&call.caller);
    let risk = |row: AlertRow| {
        // Full pools are found here as they stand now. A refusal of new data is known by its alert.
        let is_risk = |kind: &Kind| {
            ALERTS.contains(kind) || (*kind == Kind::PoolFull && row.object == SERVER)
        };
        let kind = Kind::of_name(&row.kind).filter(is_risk)?;
        let is_seen = call.caller.may(Area::Alerts, Right::Read, names.subject(&row));
        let node = names.node(&row);
        let number = numbering.shown(NumberKind::Alert, row.number);
        is_seen.then(|| RiskDocument::of_alert(kind, (number, row), node))
    };
    Ok(rows.into_iter().filter_map(risk).collect())
}

/// Returns the domains that are near a limit, or at it.
fn domains_at_risk(
    call: &Call<Empty, RisksQuery, Empty>,
    nodes: &[Node],
    domains: &[PolicyDomain],
) -> Answer<Vec<RiskDocument>> {
    let sees = |domain: &&PolicyDomain| {
        call.caller.may(Area::Reports, Right::Read, Subject::Domain(domain.id))
    };
    let (seen, of_nodes) = (domains.iter().filter(sees), nodes.iter().map(|node| node.domain));
    let found = quotas::domains_near(&*call.desk.store().catalog, seen, of_nodes)?;
    let risks = found
        .iter()
        .flat_map(|domain| domain.near.iter().map(|limit| risk_of_limit(&domain.name, limit)));
    Ok(risks.collect())
}

fn risk_of_limit(domain: &str, limit: &LimitUse) -> RiskDocument {
    let text = format!("domain {domain} has {limit} that it may have");
    RiskDocument::new("domain-full", domain.to_owned(), text)
}

fn risk_of_pool(pool: &store::pools::PoolSummary) -> Option<RiskDocument> {
    let name = pool.row.name.clone();
    let (kind, text) = match &pool.usage {
        usage if !usage.is_there => ("pool-away", format!("pool {name} is not available")),
        usage if usage.bytes_max > 0 && usage.bytes * 100 / usage.bytes_max >= POOL_PERCENT => {
            let percent = usage.bytes * 100 / usage.bytes_max;
            ("pool-full", format!("pool {name} is full by {percent} %"))
        }
        _ if pool.disk_errors > 0 => {
            ("disk-errors", format!("the disk of pool {name} has errors: {}", pool.disk_errors))
        }
        _ => return None,
    };
    Some(RiskDocument::new(kind, name, text))
}

fn occupancy(call: &mut Call<NodePath, Empty, Empty>) -> Answer<OccupancyDocument> {
    let rights = (Area::Reports, Right::Read);
    let found = find_node(&call.desk, &call.caller, &call.path.node, rights)?;
    let store = call.desk.store();
    let classes = usage::class_names(store)?;
    let mut items = Vec::new();
    for filespace in store.catalog.filespaces(found.node.id)? {
        let mut goes_on = || !call.attention.is_lost();
        let by_class = usage::of_filespace(store, &filespace, &classes, &mut goes_on)?;
        items.extend(by_class.into_iter().map(|(class, usage)| UsageDocument {
            kind: kind_of(&filespace.name),
            filespace: Bytes(mount_point(&filespace.name).to_vec()),
            archive: archive_number(&filespace.name),
            class,
            active_objects: usage.active_objects,
            active_bytes: usage.active_bytes,
            inactive_versions: usage.inactive_versions,
            inactive_bytes: usage.inactive_bytes,
            stored_bytes: usage.stored_bytes,
        }));
    }
    Ok(OccupancyDocument { node: found.node.name.to_string(), items })
}

/// Returns the kind of the data in a filespace of this name.
fn kind_of(filespace: &[u8]) -> &'static str {
    if is_space_filespace(filespace) {
        "migrated"
    } else if archive_number(filespace).is_some() {
        "archive"
    } else {
        "backup"
    }
}

#[cfg(test)]
mod tests {
    use catalog::Locks;
    use model::{DomainId, NodeName};

    use super::*;

    #[test]
    fn a_node_is_at_risk_without_a_good_backup_unless_it_is_locked() {
        let now = ServerTime(1_000 * HOUR_MICROS);
        let ago = |hours: i64| ServerTime(now.0 - hours * HOUR_MICROS);
        let node = |locks| Node {
            id: NodeId(1),
            name: NodeName::new("web-1").expect("a name"),
            domain: DomainId(1),
            domain_name: "LAB".to_owned(),
            domain_since: ServerTime(0),
            locks,
            registered: ago(99),
            option_set: None,
            deletes_backups: false,
            deletes_archives: false,
            collocation_group: None,
        };
        let kind = |locks, last_backup: Option<i64>| {
            let risk = risk_of_node(&node(locks), last_backup.map(ago), None, (now, BACKUP_HOURS));
            risk.map(|risk| risk.kind)
        };
        let free = Locks::default();
        assert_eq!(kind(free, None), Some("no-backup"));
        assert_eq!(kind(free, Some(27)), Some("old-backup"));
        assert_eq!(kind(free, Some(26)), None);
        for locked in [Locks { by_service: true, ..free }, Locks { by_owner: true, ..free }] {
            assert_eq!(kind(locked, None), None);
            assert_eq!(kind(locked, Some(27)), None);
        }
    }
}

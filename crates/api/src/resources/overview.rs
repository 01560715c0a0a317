//! The overview: what is at risk, and how much is stored.

use std::collections::BTreeMap;

use catalog::{DrillRow, Node};
use model::{NodeId, ServerTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::lifecycle::usage;
use store::quotas::{self, LimitUse};

use super::domains;
use super::found_node::find_node;
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

/// Risks, the most urgent first.
#[derive(Serialize, JsonSchema)]
struct RisksDocument {
    nodes: usize,
    nodes_at_risk: usize,
    items: Vec<RiskDocument>,
}

/// A risk.
#[derive(Serialize, JsonSchema)]
struct RiskDocument {
    /// Kind of the risk: no-backup, old-backup, failed-drill, domain-full, pool-away, pool-full,
    /// disk-errors.
    kind: &'static str,
    /// Node, domain or pool at risk.
    object: String,
    /// Time of the last good state, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Time>,
    text: String,
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
    filespace: Bytes,
    class: String,
    active_objects: u64,
    active_bytes: u64,
    inactive_versions: u64,
    inactive_bytes: u64,
    /// Space that the data takes in one pool.
    stored_bytes: u64,
}

#[derive(Deserialize, JsonSchema)]
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

/// Returns the risk of a node, if it has one.
fn risk_of_node(
    node: &Node,
    last_backup: Option<ServerTime>,
    failed: Option<&DrillRow>,
    (now, hours): (ServerTime, u32),
) -> Option<RiskDocument> {
    let object = node.name.to_string();
    let oldest = ServerTime(now.0.saturating_sub(i64::from(hours) * HOUR_MICROS));
    match last_backup {
        None if node.registered < oldest => Some(RiskDocument {
            kind: "no-backup",
            text: format!("node {object} has no good backup"),
            object,
            since: Some(Time(node.registered)),
        }),
        Some(last) if last < oldest => {
            let age = (now.0 - last.0) / HOUR_MICROS;
            Some(RiskDocument {
                kind: "old-backup",
                text: format!("the last good backup of node {object} is {age} hours old"),
                object,
                since: Some(Time(last)),
            })
        }
        _ => failed.map(|drill| RiskDocument {
            kind: "failed-drill",
            text: format!("the last restore drill of node {object} failed: {}", drill.reason),
            object,
            since: Some(Time(drill.at)),
        }),
    }
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
    let (mut nodes, mut items) = (0, Vec::new());
    for node in catalog.nodes()? {
        let owner = details.get(&node.id).and_then(|details| details.owner);
        let subject = Subject::Node { domain: node.domain, owner };
        if !call.caller.may(Area::Reports, Right::Read, subject) {
            continue;
        }
        nodes += 1;
        let last = last_backups.get(&node.id).copied();
        items.extend(risk_of_node(&node, last, failed.get(&node.id), (now, hours)));
    }
    let nodes_at_risk = items.len();
    // A node without a backup comes first, then the oldest.
    items.sort_by_key(|item: &RiskDocument| (item.kind != "no-backup", item.since));
    items.extend(domains_at_risk(call)?);
    if call.caller.may(Area::Storage, Right::Read, Subject::Service) {
        let pools = store::pools::list(call.desk.store(), None)?;
        items.splice(0..0, pools.iter().filter_map(risk_of_pool));
    }
    Ok(RisksDocument { nodes, nodes_at_risk, items })
}

/// Returns the domains that are near a limit, or at it.
fn domains_at_risk(call: &Call<Empty, RisksQuery, Empty>) -> Answer<Vec<RiskDocument>> {
    let catalog = &call.desk.store().catalog;
    let (nodes, mut risks) = (catalog.nodes()?, Vec::new());
    let stored: BTreeMap<_, _> = catalog.amounts()?.into_iter().collect();
    for domain in catalog.domains()? {
        let subject = Subject::Domain(domain.id);
        if !call.caller.may(Area::Reports, Right::Read, subject) {
            continue;
        }
        let details = catalog.domain_details(domain.id)?;
        let of_domain = nodes.iter().filter(|node| node.domain == domain.id).count() as u64;
        let stored = stored.get(&domain.id).copied().unwrap_or_default();
        let percent = domains::warning_percent(&details);
        for limit in quotas::uses(&details, of_domain, stored) {
            if limit.is_near(percent) {
                risks.push(risk_of_limit(&domain.name, limit));
            }
        }
    }
    Ok(risks)
}

fn risk_of_limit(domain: &str, LimitUse { unit, used, max }: LimitUse) -> RiskDocument {
    let plural = if max == 1 { "" } else { "s" };
    RiskDocument {
        kind: "domain-full",
        object: domain.to_owned(),
        since: None,
        text: format!("domain {domain} has {used} of {max} {unit}{plural} that it may have"),
    }
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
    Some(RiskDocument { kind, object: name, since: None, text })
}

fn occupancy(call: &mut Call<NodePath, Empty, Empty>) -> Answer<OccupancyDocument> {
    let rights = (Area::Reports, Right::Read);
    let found = find_node(&call.desk, &call.caller, &call.path.node, rights)?;
    let store = call.desk.store();
    let classes = usage::class_names(store)?;
    let mut items = Vec::new();
    for filespace in store.catalog.filespaces(found.node.id)? {
        let by_class = usage::of_filespace(store, &filespace, &mut || !call.attention.is_lost())?;
        items.extend(by_class.into_iter().map(|(class, usage)| UsageDocument {
            filespace: Bytes(filespace.name.clone()),
            class: classes.get(&class).cloned().unwrap_or_else(|| class.0.to_string()),
            active_objects: usage.active_objects,
            active_bytes: usage.active_bytes,
            inactive_versions: usage.inactive_versions,
            inactive_bytes: usage.inactive_bytes,
            stored_bytes: usage.stored_bytes,
        }));
    }
    Ok(OccupancyDocument { node: found.node.name.to_string(), items })
}

//! The rules by which something is worth an alert: a pure function of the state of the server.

use std::collections::{BTreeMap, BTreeSet};

use catalog::EventOutcome;
use model::{DomainId, NodeId, ServerTime};
use policy::schedule::event::EventState;
use store::folder::AlertSettings;
use store::quotas::NearDomain;

use crate::facts::{CopyFacts, DeletionFacts, Facts, NodeFacts, PoolFacts};
use crate::growth;
use crate::kind::Kind;
use crate::words::{count, counted, plain, time};

const HOUR_MICROS: i64 = 3_600_000_000;
pub(crate) const DAY_MICROS: i64 = 24 * HOUR_MICROS;

/// Something that is worth an alert.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    pub(crate) object: String,
    pub(crate) domain: Option<DomainId>,
    pub(crate) node: Option<NodeId>,
    pub(crate) text: String,
    /// Measure that grows if a finding gets worse, of those that can: the number of damaged packs,
    /// or of versions of a node that need damaged data.
    pub(crate) amount: Option<u64>,
}

/// Verdict of the rules about a state of the server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Assessment {
    pub(crate) findings: Vec<Finding>,
    /// Objects of events whose last outcome is good.
    pub(crate) good_events: BTreeSet<String>,
    /// Names of the nodes and schedules that there are.
    pub(crate) nodes: BTreeSet<String>,
    pub(crate) schedules: BTreeSet<String>,
}

/// Object of alerts about the server itself. The objects of events of the server have it too.
pub const SERVER: &str = "the server";

/// Returns the object of the events of a schedule at a node.
fn event_object(schedule: &str, node: &str) -> String {
    format!("{schedule} at {node}")
}

/// Returns true if the schedule and the node of an event's object are there.
pub(crate) fn is_event_there(assessment: &Assessment, object: &str) -> bool {
    object.rsplit_once(" at ").is_some_and(|(schedule, node)| {
        assessment.schedules.contains(schedule)
            && (node == SERVER || assessment.nodes.contains(node))
    })
}

/// Applies all rules.
pub(crate) fn assess(facts: &Facts, settings: &AlertSettings) -> Assessment {
    let mut assessment = Assessment {
        nodes: facts.nodes.iter().map(|node| node.name.clone()).collect(),
        schedules: facts.schedules.clone(),
        ..Assessment::default()
    };
    for node in facts.nodes.iter().filter(|node| !node.is_locked) {
        assessment.findings.extend(of_node(node, facts.now, settings));
    }
    assessment.findings.extend(facts.nodes.iter().filter_map(damage_of_node));
    if settings.events {
        events(facts, settings, &mut assessment);
    }
    for pool in &facts.pools {
        assessment.findings.extend(of_pool(pool, facts.now, settings));
    }
    if facts.refuses_data && settings.pool_percent > 0 {
        let text = "the server refuses new data, because no pool has room for it".to_owned();
        assessment.findings.push(service(Kind::PoolFull, SERVER, text));
    }
    assessment.findings.extend(facts.domains.iter().map(of_domain));
    assessment.findings.extend(of_server(facts, settings));
    let deletions = facts.deletions.iter();
    assessment
        .findings
        .extend(deletions.filter_map(|one| deletion(one, facts, settings)));
    assessment
}

fn service(kind: Kind, object: &str, text: String) -> Finding {
    Finding { kind, object: object.to_owned(), domain: None, node: None, text, amount: None }
}

fn about(node: &NodeFacts, kind: Kind, text: String) -> Finding {
    let (domain, id) = (Some(node.domain), Some(node.id));
    Finding { kind, object: node.name.clone(), domain, node: id, text, amount: None }
}

/// Returns the moment `count` units before now; `None` if the rule is switched off.
pub(crate) fn oldest(now: ServerTime, units: u32, unit_micros: i64) -> Option<ServerTime> {
    (units > 0).then(|| ServerTime(now.0.saturating_sub(i64::from(units) * unit_micros)))
}

fn of_node(
    node: &NodeFacts,
    now: ServerTime,
    settings: &AlertSettings,
) -> impl Iterator<Item = Finding> {
    let all = [
        backup(node, now, settings),
        drill(node, now, settings),
        node_certificate(node, now, settings),
    ];
    all.into_iter().flatten().chain(filespaces(node, now, settings))
}

fn backup(node: &NodeFacts, now: ServerTime, settings: &AlertSettings) -> Option<Finding> {
    let oldest = oldest(now, settings.backup_hours, HOUR_MICROS)?;
    let (name, since) = (&node.name, node.last_backup.unwrap_or(node.registered));
    let text = match node.last_backup {
        Some(_) => format!("the last good backup of node {name} began on"),
        None => format!("node {name} has had no good backup since it was registered on"),
    };
    let text = format!("{text} {}", time(&settings.zone, since));
    (since < oldest).then(|| about(node, Kind::NoBackup, text))
}

/// Finds mount points that are backed up no longer, though the node is: an unmounted disk fails no
/// backup. A node without a newer backup has an alert about that. Each mount point is an alert of
/// its own: somebody may have acknowledged that another one is gone for good.
fn filespaces(node: &NodeFacts, now: ServerTime, settings: &AlertSettings) -> Vec<Finding> {
    let has_good_one = oldest(now, settings.filespace_days, DAY_MICROS)
        .is_some_and(|oldest| node.last_backup.is_some_and(|last| last >= oldest));
    if !has_good_one {
        return Vec::new();
    }
    let find = |(name, last): &(String, ServerTime)| {
        let (at, name) = (time(&settings.zone, *last), plain(name));
        let text = format!(
            "node {} has newer backups, but the last good one of {name} began on {at}",
            node.name
        );
        let finding = about(node, Kind::OldFilespace, text);
        Finding { object: format!("{name} of {}", node.name), ..finding }
    };
    node.old_filespaces.iter().map(find).collect()
}

fn drill(node: &NodeFacts, now: ServerTime, settings: &AlertSettings) -> Option<Finding> {
    let name = &node.name;
    if let Some((failed, reason)) = &node.failed_drill
        && node.good_drill.is_none_or(|good| good < *failed)
    {
        let at = time(&settings.zone, *failed);
        let text = format!("the restore drill of node {name} on {at} failed: {}", plain(reason));
        return Some(about(node, Kind::DrillFailed, text));
    }
    let good = node.good_drill?;
    let oldest = oldest(now, settings.drill_days, DAY_MICROS)?;
    let at = time(&settings.zone, good);
    let text = format!("node {name} was last proven restorable on {at}");
    (good < oldest).then(|| about(node, Kind::DrillOld, text))
}

fn node_certificate(
    node: &NodeFacts,
    now: ServerTime,
    settings: &AlertSettings,
) -> Option<Finding> {
    let end = node.certificate_end.filter(|end| ends_soon(*end, now, settings))?;
    let at = time(&settings.zone, end);
    let text = if end <= now {
        format!(
            "the certificate of node {} has ended on {at}; give the node a new token",
            node.name
        )
    } else {
        format!(
            "the certificate of node {} ends on {at}, and the node does not renew it",
            node.name
        )
    };
    Some(about(node, Kind::NodeCertificate, text))
}

fn ends_soon(end: ServerTime, now: ServerTime, settings: &AlertSettings) -> bool {
    let days = i64::from(settings.certificate_days);
    days > 0 && end.0.saturating_sub(now.0) < days * DAY_MICROS
}

/// Finds the events whose last outcome is bad, and those whose last outcome is good.
fn events(facts: &Facts, settings: &AlertSettings, assessment: &mut Assessment) {
    let nodes: BTreeMap<NodeId, &NodeFacts> =
        facts.nodes.iter().map(|node| (node.id, node)).collect();
    let mut last: BTreeMap<(&str, Option<NodeId>), &EventOutcome> = BTreeMap::new();
    for outcome in &facts.outcomes {
        last.insert((&outcome.schedule, outcome.node), outcome);
    }
    for ((schedule, id), outcome) in last {
        let node = id.and_then(|id| nodes.get(&id).copied());
        if !facts.schedules.contains(schedule) || id.is_some() && node.is_none() {
            continue;
        }
        let object = event_object(schedule, node.map_or(SERVER, |node| &node.name));
        let Some(kind) = bad_event(outcome.state) else {
            assessment.good_events.insert(object);
            continue;
        };
        assessment.findings.push(Finding {
            kind,
            text: event_text(outcome, node, settings),
            object,
            domain: node.map(|node| node.domain),
            node: id,
            amount: None,
        });
    }
}

/// Returns the kind of alert that an outcome is; `None` for a good one.
fn bad_event(state: EventState) -> Option<Kind> {
    match state {
        EventState::Missed => Some(Kind::EventMissed),
        EventState::Failed | EventState::Uncertain => Some(Kind::EventFailed),
        _ => None,
    }
}

fn event_text(
    outcome: &EventOutcome,
    node: Option<&NodeFacts>,
    settings: &AlertSettings,
) -> String {
    let planned = time(&settings.zone, outcome.planned);
    let place = match node {
        Some(node) => format!("node {}", node.name),
        None => SERVER.to_owned(),
    };
    let what = match outcome.state {
        EventState::Missed => "was missed",
        EventState::Uncertain => "has an unknown end",
        _ => "failed",
    };
    let reason = match outcome.reason.as_str() {
        "" => String::new(),
        reason => format!(": {}", plain(reason)),
    };
    format!("the event of {} at {place}, planned for {planned}, {what}{reason}", outcome.schedule)
}

fn of_pool(pool: &PoolFacts, now: ServerTime, settings: &AlertSettings) -> Vec<Finding> {
    let name = &pool.name;
    if !pool.is_there {
        return vec![service(Kind::PoolAway, name, format!("pool {name} is not available"))];
    }
    let mut found: Vec<Finding> = fill(pool, now, settings).into_iter().collect();
    if pool.disk_errors > 0 {
        let errors = counted(pool.disk_errors, "error");
        let text = format!("the disk of pool {name} has had {errors} since the server began");
        found.push(service(Kind::DiskErrors, name, text));
    }
    found
}

fn fill(pool: &PoolFacts, now: ServerTime, settings: &AlertSettings) -> Option<Finding> {
    let PoolFacts { name, bytes, bytes_max, .. } = pool;
    if *bytes_max == 0 {
        return None;
    }
    let percent = u128::from(*bytes) * 100 / u128::from(*bytes_max);
    if settings.pool_percent > 0 && percent >= u128::from(settings.pool_percent) {
        let text = format!("pool {name} is full by {percent} %");
        return Some(service(Kind::PoolFull, name, text));
    }
    let today = now.0.div_euclid(DAY_MICROS);
    let left = growth::days_left(&pool.days, (today, *bytes), *bytes_max)?;
    if left >= u64::from(settings.pool_days) {
        return None;
    }
    let left = i64::try_from(left).unwrap_or(i64::MAX);
    let day = ServerTime(now.0.saturating_add(left.saturating_mul(DAY_MICROS)));
    let day = settings.zone.wall(day).strftime("%Y-%m-%d");
    let text = format!("pool {name} will be full on {day}, if it grows as it did");
    Some(service(Kind::PoolFills, name, text))
}

fn of_domain(domain: &NearDomain) -> Finding {
    let NearDomain { id, name, near } = domain;
    let limits: Vec<String> = near.iter().map(ToString::to_string).collect();
    let text = format!("domain {name} has {} that it may have", limits.join(", and "));
    Finding { domain: Some(*id), ..service(Kind::DomainFull, name, text) }
}

fn of_server(facts: &Facts, settings: &AlertSettings) -> Vec<Finding> {
    let mut found: Vec<Finding> = facts.volumes.iter().map(volume).collect();
    found.extend(facts.hold.map(|hold| service(Kind::ServerHeld, SERVER, hold.to_string())));
    found.extend(damage(facts.damaged_packs));
    found.extend(copy(facts, settings));
    for (what, end) in &facts.certificates {
        if ends_soon(*end, facts.now, settings) {
            let text = format!("the certificate of {what} ends on {}", time(&settings.zone, *end));
            found.push(service(Kind::ServerCertificate, what, text));
        }
    }
    if facts.distrusts_clock {
        let text = "nothing expires, and schedules wait, because the server does not trust its \
                    clock; 'expiration refused' in 'holdfast admin log' says why";
        found.push(service(Kind::TaskFailed, "clock", text.to_owned()));
    }
    for task in facts.tasks.iter().filter(|task| task.has_failed) {
        let ended = time(&settings.zone, task.ended);
        let (name, reason) = (&task.task, plain(&task.reason));
        let text = format!("the task '{name}' failed on {ended}: {reason}");
        found.push(service(Kind::TaskFailed, name, text));
    }
    found
}

fn volume((name, errors): &(String, u32)) -> Finding {
    let errors = counted(u64::from(*errors), "error");
    service(Kind::TapeErrors, name, format!("volume {name} has {errors}"))
}

fn damage(packs: u64) -> Option<Finding> {
    let text = match packs {
        0 => return None,
        1 => "1 pack has damaged data".to_owned(),
        packs => format!("{} packs have damaged data", count(packs)),
    };
    let text = format!("{text}; 'holdfast admin audit' names the objects");
    Some(Finding { amount: Some(packs), ..service(Kind::DamagedData, "packs", text) })
}

/// Finds damage to the data of a node, for those who may hear of the node only.
fn damage_of_node(node: &NodeFacts) -> Option<Finding> {
    let (name, versions) = (&node.name, node.lost_versions);
    if versions == 0 {
        return None;
    }
    let versions_text = counted(versions, "stored version");
    let text = format!(
        "{versions_text} of node {name} cannot be restored as a whole, because data is damaged; a \
         full backup of the node stores again what it still has"
    );
    let finding = about(node, Kind::DamagedData, text);
    let object = format!("data of {name}");
    Some(Finding { object, amount: Some(versions), ..finding })
}

fn copy(facts: &Facts, settings: &AlertSettings) -> Option<Finding> {
    let oldest = oldest(facts.now, settings.copy_hours, HOUR_MICROS)?;
    let (since, text) = match facts.copy {
        CopyFacts::Unknown => return None,
        CopyFacts::Taken(taken) => (taken, "the newest copy of the catalogue is of"),
        CopyFacts::None { since } => (since, "there is no copy of the catalogue since"),
    };
    let text = format!("{text} {}", time(&settings.zone, since));
    (since < oldest).then(|| service(Kind::CopyOld, "catalogue", text))
}

fn deletion(deletion: &DeletionFacts, facts: &Facts, settings: &AlertSettings) -> Option<Finding> {
    let node = facts.nodes.iter().find(|node| node.id == deletion.node)?;
    let DeletionFacts { filespace, ended, deleted, usual, .. } = deletion;
    let (at, filespace) = (time(&settings.zone, *ended), plain(filespace));
    let text = format!(
        "the backup of {filespace} of node {} that ended on {at} found {} deleted; the backups \
         before found at most {}",
        node.name,
        counted(*deleted, "object"),
        count(*usual),
    );
    let finding = about(node, Kind::MassDeletion, text);
    Some(Finding { object: format!("{filespace} of {}", node.name), ..finding })
}

#[cfg(test)]
mod tests;

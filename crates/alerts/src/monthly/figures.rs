//! The figures of a month, from the catalogue.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Amount, EventOutcome, Node, RestoreRow, SessionRow};
use jiff::civil::Date;
use model::{NodeId, ServerTime};
use policy::PolicyDomain;
use policy::schedule::event::EventState;
use serde::Deserialize;
use store::{Store, StoreError};

use super::report::{Month, MonthlyReport, NodeMonth, start};

/// The part of a backup's report that counts here. Older programs leave fields out.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Counts {
    bytes_transferred: u64,
}

/// Facts that the catalogue knows of a month, before it is counted.
struct Rows {
    nodes: Vec<Node>,
    sessions: Vec<SessionRow>,
    outcomes: Vec<EventOutcome>,
    restores: Vec<RestoreRow>,
    /// Amounts that the nodes have stored now.
    amounts: BTreeMap<NodeId, Amount>,
}

/// Reads the report of `month` about the domain. The figures of a node that was removed are gone
/// with it.
pub fn read(
    store: &Store,
    domain: &PolicyDomain,
    month: Month,
) -> Result<MonthlyReport, StoreError> {
    let (zone, now) = (store.config.alerts.zone.clone(), sys::clock::now());
    let span = month.span(&zone);
    let catalog = &store.catalog;
    let mut nodes = catalog.nodes()?;
    nodes.retain(|node| node.domain == domain.id && node.registered < span.1);
    let own: BTreeSet<NodeId> = nodes.iter().map(|node| node.id).collect();
    let mut outcomes = catalog.event_outcomes(span.0)?;
    outcomes.retain(|one| one.planned < span.1 && one.node.is_some_and(|node| own.contains(&node)));
    let mut restores = catalog.restores(span)?;
    restores.retain(|restore| own.contains(&restore.node));
    let sessions = catalog.domain_sessions(domain.id, span)?;
    let amounts = catalog.node_amounts(domain.id)?.into_iter().collect();
    let rows = Rows { nodes, sessions, outcomes, restores, amounts };
    let mut report = MonthlyReport {
        domain: domain.name.clone(),
        month,
        zone,
        server: sys::net::host_name(),
        made: now,
        days: 0,
        good_nodes: Vec::new(),
        registered_nodes: Vec::new(),
        nodes: Vec::new(),
    };
    fill(&mut report, &rows, now);
    Ok(report)
}

/// Counts the rows.
fn fill(report: &mut MonthlyReport, rows: &Rows, now: ServerTime) {
    let days: Vec<Date> = begun_days(report, now);
    report.days = u32::try_from(days.len()).expect("a month has 31 days at most");
    let mut good: BTreeMap<Date, u32> = BTreeMap::new();
    for node in &rows.nodes {
        let (line, good_days) = node_month(report, rows, node, &days);
        for day in good_days {
            *good.entry(day).or_default() += 1;
        }
        report.nodes.push(line);
    }
    report.nodes.sort_by(|one, other| one.node.cmp(&other.node));
    report.good_nodes = days.iter().map(|day| good.get(day).copied().unwrap_or(0)).collect();
    let registered: Vec<Date> = rows.nodes.iter().map(|node| first_day(report, node)).collect();
    let there = |day: &Date| registered.iter().filter(|first| *first <= day).count();
    report.registered_nodes =
        days.iter().map(|day| u32::try_from(there(day)).unwrap_or(u32::MAX)).collect();
}

/// Returns the day on which a node was registered.
fn first_day(report: &MonthlyReport, node: &Node) -> Date {
    report.zone.wall(node.registered).date()
}

/// Returns the days of the month that have begun.
fn begun_days(report: &MonthlyReport, now: ServerTime) -> Vec<Date> {
    let first = report.month.0;
    let days = (1..=report.month.days()).filter_map(|day| first.with().day(day).build().ok());
    days.filter(|day| start(&report.zone, *day) <= now).collect()
}

/// Returns the figures of a node, and its days with a good backup.
fn node_month(
    report: &MonthlyReport,
    rows: &Rows,
    node: &Node,
    days: &[Date],
) -> (NodeMonth, BTreeSet<Date>) {
    let registered = first_day(report, node);
    let there = days.iter().filter(|day| **day >= registered).count();
    let mut line = NodeMonth {
        node: node.name.to_string(),
        days: u32::try_from(there).expect("a month has 31 days at most"),
        ..NodeMonth::default()
    };
    let mut good = BTreeSet::new();
    for session in rows.sessions.iter().filter(|session| session.node == node.id) {
        let counts: Counts = serde_json::from_str(&session.report).unwrap_or_default();
        line.bytes_sent = line.bytes_sent.saturating_add(counts.bytes_transferred);
        if !session.complete {
            line.backups_partial += 1;
            continue;
        }
        line.backups_complete += 1;
        good.insert(report.zone.wall(session.ended).date());
        line.last_good = line.last_good.max(Some(session.ended));
    }
    line.days_good = u32::try_from(good.len()).expect("a month has 31 days at most");
    let stored = rows.amounts.get(&node.id).copied().unwrap_or_default();
    (line.objects, line.bytes) = (stored.objects, stored.bytes);
    events(&mut line, rows, node);
    restores(&mut line, rows, node);
    (line, good)
}

fn events(line: &mut NodeMonth, rows: &Rows, node: &Node) {
    for outcome in rows.outcomes.iter().filter(|one| one.node == Some(node.id)) {
        match outcome.state {
            EventState::Completed => line.events_completed += 1,
            EventState::Missed => line.events_missed += 1,
            _ => line.events_failed += 1,
        }
    }
}

fn restores(line: &mut NodeMonth, rows: &Rows, node: &Node) {
    for restore in rows.restores.iter().filter(|one| one.node == node.id) {
        line.restores += 1;
        line.restored_objects = line.restored_objects.saturating_add(restore.objects);
        line.restored_bytes = line.restored_bytes.saturating_add(restore.bytes);
    }
}

#[cfg(test)]
mod tests {
    use catalog::Locks;
    use model::{DomainId, FilespaceId, NodeName};

    use super::*;

    fn at(text: &str) -> ServerTime {
        let time: jiff::Timestamp = text.parse().expect("a time");
        ServerTime(time.as_microsecond())
    }

    fn node(id: u32, name: &str, registered: &str) -> Node {
        Node {
            id: NodeId(id),
            name: NodeName::new(name).expect("a name"),
            domain: DomainId(1),
            domain_name: "LAB".to_owned(),
            domain_since: ServerTime(0),
            locks: Locks::default(),
            registered: at(registered),
            option_set: None,
            deletes_backups: false,
            deletes_archives: false,
            collocation_group: None,
        }
    }

    fn session(node: u32, filespace: u32, ended: &str, complete: bool) -> SessionRow {
        SessionRow {
            node: NodeId(node),
            filespace: FilespaceId(filespace),
            started: at(ended),
            ended: at(ended),
            complete,
            report: "{\"bytes_transferred\":10}".to_owned(),
        }
    }

    fn filled(rows: &Rows, now: &str) -> MonthlyReport {
        let mut report = MonthlyReport {
            domain: "LAB".to_owned(),
            month: "2026-11".parse().expect("a month"),
            zone: "UTC".to_owned().try_into().expect("a zone"),
            server: "backup".to_owned(),
            made: at(now),
            days: 0,
            good_nodes: Vec::new(),
            registered_nodes: Vec::new(),
            nodes: Vec::new(),
        };
        fill(&mut report, rows, at(now));
        report
    }

    #[test]
    fn a_node_has_its_backups_and_what_it_has_stored() {
        let rows = Rows {
            nodes: vec![node(1, "a", "2026-10-01T00:00:00Z"), node(2, "b", "2026-11-02T10:00:00Z")],
            sessions: vec![
                session(1, 7, "2026-11-01T02:00:00Z", true),
                session(1, 7, "2026-11-02T02:00:00Z", true),
                session(1, 8, "2026-11-02T03:00:00Z", true),
                session(1, 7, "2026-11-03T02:00:00Z", false),
                session(2, 9, "2026-11-03T02:00:00Z", true),
            ],
            outcomes: vec![EventOutcome {
                schedule: "NIGHTLY".to_owned(),
                planned: at("2026-11-03T02:00:00Z"),
                node: Some(NodeId(1)),
                state: EventState::Failed,
                reason: String::new(),
            }],
            restores: vec![RestoreRow {
                node: NodeId(2),
                filespace: FilespaceId(9),
                started: at("2026-11-03T04:00:00Z"),
                ended: at("2026-11-03T05:00:00Z"),
                objects: 3,
                bytes: 33,
            }],
            amounts: BTreeMap::from([(NodeId(1), Amount { objects: 10, bytes: 250 })]),
        };
        let report = filled(&rows, "2026-11-03T12:00:00Z");
        assert_eq!((report.days, &report.good_nodes[..]), (3, &[1, 1, 1][..]));
        assert_eq!(report.registered_nodes, [1, 2, 2], "b came on the second day");
        let [a, b] = &report.nodes[..] else { panic!("two nodes") };
        assert_eq!((a.days, a.days_good, a.backups_complete, a.backups_partial), (3, 2, 3, 1));
        assert_eq!((a.objects, a.bytes, a.bytes_sent, a.events_failed), (10, 250, 40, 1));
        assert_eq!(a.last_good, Some(at("2026-11-02T03:00:00Z")));
        assert_eq!((b.days, b.days_good, b.restores, b.restored_bytes), (2, 1, 1, 33));
    }

    #[test]
    fn a_past_month_has_all_its_days() {
        let rows = Rows {
            nodes: Vec::new(),
            sessions: Vec::new(),
            outcomes: Vec::new(),
            restores: Vec::new(),
            amounts: BTreeMap::new(),
        };
        assert_eq!(filled(&rows, "2026-12-24T12:00:00Z").days, 30);
    }
}

//! Metrics of nodes, their events, and alerts.

use std::collections::{BTreeMap, BTreeSet};

use alerts::Kind;
use model::ServerTime;
use policy::schedule::event::EventState;
use server::ActivityKind;

use super::format::Text;
use crate::call::Answer;
use crate::desk::Desk;

/// Upper bounds of the ages of last backups, in seconds.
const AGES: [i64; 6] = [3_600, 43_200, 93_600, 172_800, 604_800, 2_592_000];
/// Time of the events that are counted, in microseconds: a day.
const EVENTS_MICROS: i64 = 86_400_000_000;

pub(super) fn add(desk: &Desk, text: &mut Text) -> Answer<()> {
    nodes(desk, text)?;
    sessions(desk, text);
    events(desk, text)?;
    alerts(desk, text)
}

fn nodes(desk: &Desk, text: &mut Text) -> Answer<()> {
    let (catalog, now) = (&desk.store().catalog, sys::clock::now());
    let nodes = catalog.nodes()?;
    let last: BTreeMap<_, _> = catalog.last_backups()?.into_iter().collect();
    let last = |node: &catalog::Node| last.get(&node.id).copied();
    let age = |last: ServerTime| (now.0 - last.0).div_euclid(1_000_000);
    let ages: Vec<i64> = nodes.iter().filter_map(last).map(age).collect();
    let without = nodes.len() - ages.len();
    let locked = nodes.iter().filter(|node| node.locks.any()).count();
    text.gauge("holdfast_nodes", "Registered nodes.", nodes.len());
    text.gauge("holdfast_nodes_locked", "Nodes that are locked.", locked);
    text.gauge("holdfast_nodes_without_backup", "Nodes without a good backup.", without);
    let connected = desk.office.connected().len();
    text.gauge("holdfast_nodes_connected", "Nodes that are connected to this server.", connected);
    let up_to = |bound: i64| ages.iter().filter(|age| **age <= bound).count() as u64;
    let classes = AGES.map(|bound| (bound.to_string(), up_to(bound)));
    let name = "holdfast_node_backup_age_seconds";
    let sum = ages.iter().sum::<i64>();
    let help = "Ages of the last good backups of nodes.";
    text.histogram((name, help), &classes, (sum, ages.len() as u64));
    Ok(())
}

fn sessions(desk: &Desk, text: &mut Text) {
    let activities = desk.office.activities();
    let of = |kind: ActivityKind| activities.iter().filter(move |one| one.kind == kind);
    let counts = ActivityKind::ALL.map(|kind| (kind.name(), of(kind).count()));
    let help = "Sessions of nodes at this server in which data moves, by kind.";
    text.labelled(("holdfast_sessions", "gauge", help), "kind", counts);
    let rate = |kind| of(kind).map(|one| one.bytes_per_sec).sum::<u64>();
    let rates = ActivityKind::ALL.map(|kind| (kind.name(), rate(kind)));
    let help = "Data of these sessions in a second, as the mean of the last ten seconds.";
    text.labelled(("holdfast_sessions_bytes_per_second", "gauge", help), "kind", rates);
}

fn events(desk: &Desk, text: &mut Text) -> Answer<()> {
    let from = ServerTime(sys::clock::now().0 - EVENTS_MICROS);
    let counts: BTreeMap<_, _> = desk.store().catalog.event_counts(from)?.into_iter().collect();
    let states = EventState::ALL.iter();
    let values = states.map(|state| (state.name(), counts.get(state).copied().unwrap_or(0)));
    let help = "Events that were planned in the last day, by state.";
    text.labelled(("holdfast_events", "gauge", help), "state", values);
    Ok(())
}

fn alerts(desk: &Desk, text: &mut Text) -> Answer<()> {
    let catalog = &desk.store().catalog;
    let mut pending = catalog.pending_alerts()?;
    pending.retain(|alert| alert.ended.is_none());
    let nodes: BTreeSet<_> = pending.iter().filter_map(|alert| alert.node).collect();
    let help = "Nodes that an open alert is about.";
    text.gauge("holdfast_nodes_at_risk", help, nodes.len());
    let of = |kind: Kind| pending.iter().filter(|alert| alert.kind == kind.name()).count();
    let values = Kind::ALL.map(|kind| (kind.name(), of(kind)));
    text.labelled(("holdfast_alerts_open", "gauge", "Open alerts, by kind."), "kind", values);
    let unknown = pending.iter().filter(|alert| alert.acknowledged.is_none()).count();
    let help = "Open alerts that nobody has acknowledged.";
    text.gauge("holdfast_alerts_unacknowledged", help, unknown);
    let (waiting, oldest) = catalog.waiting_notices()?;
    let help = "Notices that wait for their recipients.";
    text.gauge("holdfast_notices_waiting", help, waiting);
    let now = sys::clock::now();
    let secs = oldest.map_or(0, |oldest| (now.0 - oldest.0).div_euclid(1_000_000).max(0));
    let help = "Age of the oldest notice that waits; 0 if none does.";
    text.gauge("holdfast_notice_age_seconds", help, secs);
    Ok(())
}

//! The contents of a catalogue with many nodes, written while its server is not running.

use std::path::Path;

use catalog::postgres::Postgres;
use catalog::sqlite::Sqlite;
use catalog::{Catalog, EventKey, EventReport, EventRow, Filespace, Node, SessionRow, Write};
use model::{NodeName, ServerTime};
use policy::schedule::Occurrence;
use policy::schedule::event::{Phase, Report};
use serde_json::json;

use crate::process::check_interrupted;
use crate::trouble::{Context as _, Trouble};

const HOUR_MICROS: i64 = 3_600_000_000;
pub(super) const DAY_MICROS: i64 = 24 * HOUR_MICROS;
/// Name of the schedule that all events belong to.
pub(super) const SCHEDULE: &str = "nightly";
/// Number of rows that are written in one batch.
const BATCH: usize = 10_000;
/// Number of threads for work that is committed one by one: commits at the same time share one
/// write to the disk.
const WRITERS: usize = 32;
/// One event in so many completed, with the report of its session. The others were missed, as those
/// of nodes that are away.
const COMPLETED_EVERY: usize = 10;
/// One event in so many failed. Such events are rare, and lists of them look far.
const FAILED_EVERY: usize = 1000;
/// Number of finished backups of each node.
const SESSIONS: usize = 30;

/// Numbers of what the catalogue gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) nodes: usize,
    pub(super) events: usize,
}

pub(super) fn sqlite(file: &Path, extent: Extent) -> Result<(), Trouble> {
    let catalog = Sqlite::open(file).while_doing(|| format!("open {}", file.display()))?;
    fill(&catalog, extent)
}

pub(super) fn postgres(url: &str, extent: Extent) -> Result<(), Trouble> {
    let catalog = Postgres::open(url).while_doing(|| "open the database".to_owned())?;
    fill(&catalog, extent)
}

/// Returns the name of the node with this number.
pub(super) fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

fn fill(catalog: &impl Catalog, extent: Extent) -> Result<(), Trouble> {
    let what = || "fill the catalogue".to_owned();
    let now = sys::clock::now();
    let nodes = at_once(0..extent.nodes, |number| add_node(catalog, number, now))?;
    for part in nodes.chunks(BATCH / SESSIONS) {
        check_interrupted()?;
        let rows = part.iter().flat_map(|(node, filespace)| sessions(node, filespace, now));
        catalog.commit(rows.collect()).while_doing(what)?;
    }
    let events: Vec<(EventKey, Occurrence)> =
        (0..extent.events).map(|number| event(&nodes, extent, number)).collect();
    for part in events.chunks(BATCH) {
        check_interrupted()?;
        catalog.open_events(part).while_doing(what)?;
        let entries = part.iter().map(|(_, occurrence)| entry(occurrence.closes));
        catalog.commit(entries.collect()).while_doing(what)?;
    }
    let reported = (0..events.len()).filter(|number| code(*number).is_some());
    let report = |number: usize| {
        let (key, occurrence) = &events[number];
        let report = report(key, *occurrence, code(number).unwrap_or_default());
        catalog.report_event(&report).while_doing(what)
    };
    at_once(reported, report)?;
    catalog.close_events(now).while_doing(what)?;
    Ok(())
}

/// Does `work` for each number, by many threads.
fn at_once<T: Send>(
    numbers: impl Iterator<Item = usize>,
    work: impl Fn(usize) -> Result<T, Trouble> + Sync,
) -> Result<Vec<T>, Trouble> {
    let numbers: Vec<usize> = numbers.collect();
    let part = numbers.len().div_ceil(WRITERS).max(1);
    let work = &work;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for part in numbers.chunks(part) {
            let run = move || {
                let one = |number: &usize| check_interrupted().and_then(|()| work(*number));
                part.iter().map(one).collect::<Result<Vec<T>, Trouble>>()
            };
            threads.push(scope.spawn(run));
        }
        let mut all = Vec::with_capacity(numbers.len());
        for thread in threads {
            let done = thread.join().map_err(|_| Trouble::new("a writing thread panicked"))?;
            all.append(&mut done?);
        }
        Ok(all)
    })
}

fn add_node(
    catalog: &impl Catalog,
    number: usize,
    now: ServerTime,
) -> Result<(Node, Filespace), Trouble> {
    let name = node_name(number);
    let what = || format!("add the node {name}");
    let name = NodeName::new(&name).while_doing(what)?;
    let node = catalog.add_node(&name, "STANDARD", now).while_doing(what)?;
    let filespace = catalog.open_filespace(node.id, b"/srv", now).while_doing(what)?;
    Ok((node, filespace))
}

/// Returns the finished backups of a node, one each day.
fn sessions(node: &Node, filespace: &Filespace, now: ServerTime) -> impl Iterator<Item = Write> {
    let (node, filespace) = (node.id, filespace.id);
    (0..SESSIONS).rev().map(move |day| {
        let days = i64::try_from(day).unwrap_or(0);
        let started = ServerTime(now.0 - days * DAY_MICROS - 2 * HOUR_MICROS);
        let ended = ServerTime(started.0 + HOUR_MICROS);
        let report = session_report();
        Write::AddSession(SessionRow { node, filespace, started, ended, complete: true, report })
    })
}

/// Returns the number of days over which the events are spread: each node has one each day.
pub(super) fn days(extent: Extent) -> usize {
    extent.events.div_ceil(extent.nodes)
}

/// Returns the event with this number. The oldest ones come first, and the last ones are those of
/// yesterday.
fn event(nodes: &[(Node, Filespace)], extent: Extent, number: usize) -> (EventKey, Occurrence) {
    let ago = days(extent) - number / nodes.len();
    let today = sys::clock::now().0 / DAY_MICROS * DAY_MICROS;
    let planned = ServerTime(today - i64::try_from(ago).unwrap_or(0) * DAY_MICROS);
    let closes = ServerTime(planned.0 + HOUR_MICROS);
    let node = Some(nodes[number % nodes.len()].0.id);
    let key = EventKey { schedule: SCHEDULE.to_owned(), planned, node };
    (key, Occurrence { planned, opens: planned, closes })
}

/// Returns the exit code of the event with this number; `None` for a missed one.
fn code(number: usize) -> Option<u8> {
    if number.is_multiple_of(FAILED_EVERY) {
        return Some(12);
    }
    number.is_multiple_of(COMPLETED_EVERY).then_some(0)
}

fn report(key: &EventKey, occurrence: Occurrence, code: u8) -> EventReport {
    EventReport {
        key: key.clone(),
        occurrence,
        report: Report { attempt: 1, phase: Phase::Ended(code) },
        at: occurrence.closes,
        began: Some(occurrence.opens),
        paused: None,
        reason: if code == 0 { String::new() } else { "the disk is full".to_owned() },
        session: session_report(),
        log: b"incremental backup of /srv\n".repeat(20),
    }
}

fn session_report() -> String {
    json!({
        "inspected": 281_000,
        "backed_up": 310,
        "updated": 12,
        "expired": 4,
        "failed": 0,
        "bytes_inspected": 18_253_611_008_u64,
        "bytes_transferred": 40_265_318,
        "seconds": 61.5,
    })
    .to_string()
}

fn entry(time: ServerTime) -> Write {
    Write::AddEvent(EventRow {
        time,
        actor: "admin".to_owned(),
        what: "node changed".to_owned(),
        details: "the contact of the node".to_owned(),
    })
}

//! The activity log: the audit trail, what became of schedules, and runs of tasks.

use std::time::Duration;

use client::admin::{Admin, Event, EventFilter, LogFilter, ScheduledEvent, TaskRun};
use dsm::admin::report::shown_time as shown;
use dsm::admin::view::{Table, Value};
use model::{ServerTime, mount_point};
use serde_json::Value as Json;

use super::backups::{self, Backup};
use super::bounds::{Bounds, ROWS_MAX};
use super::cell::shown_time;
use super::events::{number, report, task_activity};
use super::nodes::domains_of_nodes;
use crate::error::CommandError;
use crate::quantity;

/// An entry of the log.
struct Entry {
    at: ServerTime,
    /// Number of the message with its letter; `None` for an entry that TSM does not have.
    number: Option<&'static str>,
    text: String,
    node: Option<String>,
    schedule: Option<String>,
    domain: Option<String>,
    session: Option<u64>,
    is_of_client: bool,
}

impl Entry {
    fn new(at: ServerTime, number: Option<&'static str>, text: String) -> Self {
        Self {
            at,
            number,
            text,
            node: None,
            schedule: None,
            domain: None,
            session: None,
            is_of_client: false,
        }
    }
}

pub(super) fn log(
    table: &mut Table,
    bounds: &Bounds,
    admin: &mut Admin,
) -> Result<(), CommandError> {
    let (from, to) = bounds.times();
    let filter = LogFilter { from, to, ..LogFilter::default() };
    let mut entries: Vec<Entry> = admin.events(&filter, ROWS_MAX)?.iter().map(of_trail).collect();
    entries.extend(admin.task_runs(ROWS_MAX)?.iter().flat_map(of_task));
    let domains = domains_of_nodes(admin)?;
    // An event ends after its planned time, so it is planned before the end of the period.
    let node = bounds.exact_node(admin)?;
    let filter = EventFilter { node, to, ..EventFilter::default() };
    let events = admin.scheduled_events(&filter, ROWS_MAX, false)?;
    for event in &events {
        let domain = event.node.as_ref().and_then(|node| domains.get(node));
        entries.extend(of_event(event, domain.map_or("", String::as_str)));
    }
    if !bounds.is_repeated {
        for backup in backups::by_hand(admin, bounds, &events)? {
            entries.extend(of_backup(&backup, domains.get(&backup.node)));
        }
    }
    let is_within = |entry: &Entry| {
        from.is_none_or(|from| entry.at >= from) && to.is_none_or(|to| entry.at <= to)
    };
    entries.retain(is_within);
    entries.sort_by_key(|entry| entry.at);
    table.rows.extend(entries.into_iter().map(|entry| row(entry, table.view)));
    Ok(())
}

fn row(entry: Entry, view: &dsm::admin::view::View) -> Vec<Value> {
    let message = match entry.number {
        Some(number) => format!("{number} {}", entry.text),
        None => entry.text,
    };
    let digits = entry.number.and_then(|number| number.get(3..7)?.parse::<u64>().ok());
    let severity = entry.number.and_then(|number| number.get(7..8));
    view.row([
        ("DATE_TIME", Value::Text(shown_time(entry.at))),
        ("MSGNO", digits.into()),
        ("SEVERITY", severity.unwrap_or("I").into()),
        ("MESSAGE", message.into()),
        ("ORIGINATOR", (if entry.is_of_client { "CLIENT" } else { "SERVER" }).into()),
        ("NODENAME", entry.node.into()),
        ("SCHEDNAME", entry.schedule.into()),
        ("DOMAINNAME", entry.domain.into()),
        ("SESSID", entry.session.into()),
        ("SESSION", entry.session.into()),
    ])
}

/// Makes an entry of an event of the audit trail.
fn of_trail(event: &Event) -> Entry {
    let Event { time, actor, action, details, .. } = event;
    let number = match action.as_str() {
        "node added" => Some("ANR2060I"),
        "node removed" => Some("ANR2061I"),
        "node renamed" => Some("ANR2062I"),
        "node locked" => Some("ANR2064I"),
        "node unlocked" => Some("ANR2065I"),
        "versions expired" => Some("ANR0812I"),
        "catalogue copied" => Some("ANR4550I"),
        _ if actor.starts_with("administrator") => Some("ANR2017I"),
        _ => None,
    };
    let mut entry = Entry::new(*time, number, format!("{actor}: {action}: {details}"));
    entry.node = actor.strip_prefix("node ").map(str::to_owned);
    entry
}

/// Makes entries of the beginning and the end of a task.
fn of_task(run: &TaskRun) -> Vec<Entry> {
    let name = task_activity(&run.task);
    let text = format!("Process for {name} started by the server.");
    let mut entries = vec![Entry::new(run.started, Some("ANR0984I"), text)];
    if let Some(end) = &run.ended {
        let state = if end.code == 0 { "SUCCESS" } else { "FAILURE" };
        let reason =
            if end.reason.is_empty() { String::new() } else { format!(": {}", end.reason) };
        let text = format!("Process for {name} ended with the state {state}{reason}.");
        let number = if end.code == 0 { "ANR0985I" } else { "ANR0985E" };
        entries.push(Entry::new(end.at, Some(number), text));
    }
    entries
}

/// Makes entries of an event that has ended, and of the report of its session.
fn of_event(event: &ScheduledEvent, domain: &str) -> Vec<Entry> {
    let schedule = event.schedule.to_ascii_uppercase();
    let node = event.node.as_deref().map(str::to_ascii_uppercase);
    let at = event.ended.unwrap_or(event.closes);
    let place = match &node {
        Some(node) => format!(" in domain {} for node {node}", domain.to_ascii_uppercase()),
        None => String::new(),
    };
    let code = event.code.map_or_else(String::new, |code| format!(" (return code {code})"));
    let (number, text) = match event.state.as_str() {
        "completed" => {
            let started = event.started.unwrap_or(event.opens);
            let (started, ended) = (shown(&shown_time(started)), shown(&shown_time(at)));
            (
                "ANR2507I",
                format!(
                    "Schedule {schedule}{place} started at {started} and completed successfully \
                     at {ended}."
                ),
            )
        }
        "failed" => {
            let reason = if event.reason.is_empty() { "" } else { ": " };
            (
                "ANR2579E",
                format!("Schedule {schedule}{place} failed{code}{reason}{}.", event.reason),
            )
        }
        "missed" => ("ANR2578W", format!("Schedule {schedule}{place} has missed its window.")),
        _ => return Vec::new(),
    };
    let mut entries = vec![Entry::new(at, Some(number), text)];
    if let Some(node) = &node {
        entries.extend(of_report(event, node, at));
    }
    for entry in &mut entries {
        entry.node.clone_from(&node);
        entry.schedule = Some(schedule.clone());
        entry.domain = Some(domain.to_owned()).filter(|domain| !domain.is_empty());
        entry.session = Some(event.number);
    }
    entries
}

/// A line of the report of a session: number, text, and key of the report.
type ReportLine = (&'static str, &'static str, &'static str);

const BACKED_UP: ReportLine = ("ANE4954I", "Total number of objects backed up", "backed_up");
/// Takes the place of [`BACKED_UP`] in the report of an archive.
const ARCHIVED: ReportLine = ("ANE4953I", "Total number of objects archived", "backed_up");
/// Lines of TSM's report, with the numbers that monitoring programs look for.
const COUNTS: [ReportLine; 11] = [
    ("ANE4952I", "Total number of objects inspected", "inspected"),
    BACKED_UP,
    ("ANE4955I", "Total number of objects restored", "restored"),
    ("ANE4958I", "Total number of objects updated", "updated"),
    ("ANE4960I", "Total number of objects rebound", "rebound"),
    ("ANE4957I", "Total number of objects deleted", "deleted"),
    ("ANE4970I", "Total number of objects expired", "expired"),
    ("ANE4959I", "Total number of objects failed", "failed"),
    ("ANE4197I", "Total number of objects encrypted", "encrypted"),
    ("ANE4914I", "Total number of objects grew", "grew"),
    ("ANE4916I", "Total number of retries", "retries"),
];
const BYTES: [ReportLine; 2] = [
    ("ANE4977I", "Total number of bytes inspected", "bytes_inspected"),
    ("ANE4961I", "Total number of bytes transferred", "bytes_transferred"),
];
/// Returns a figure of a report as its line has it.
type Form = fn(f64) -> String;

/// Times, rates and ratios, each with its form.
const FIGURES: [(ReportLine, Form); 5] = [
    (("ANE4963I", "Data transfer time", "data_transfer_secs"), secs),
    (("ANE4966I", "Network data transfer rate", "network_rate_kb_per_sec"), rate),
    (("ANE4967I", "Aggregate data transfer rate", "aggregate_rate_kb_per_sec"), rate),
    (("ANE4968I", "Objects compressed by", "compressed_percent"), whole_percent),
    (("ANE4976I", "Total data reduction ratio", "total_reduction_percent"), percent),
];

fn secs(number: f64) -> String {
    format!("{} sec", quantity::hundredths(number))
}

fn rate(number: f64) -> String {
    format!("{} KB/sec", quantity::hundredths(number))
}

fn whole_percent(number: f64) -> String {
    quantity::percent(number, 0)
}

fn percent(number: f64) -> String {
    quantity::percent(number, 2)
}

fn of_report(event: &ScheduledEvent, node: &str, at: ServerTime) -> Vec<Entry> {
    let source = format!("(Session: {}, Node: {node})", event.number);
    lines_of_report(&report(event), &source, (event.started.unwrap_or(at), at))
}

/// Makes the entries of a backup that no schedule has started. It has no number.
fn of_backup(backup: &Backup, domain: Option<&String>) -> Vec<Entry> {
    if backup.is_migration() {
        return Vec::new();
    }
    let filespace = model::escaped(mount_point(&backup.filespace));
    let node = backup.node.to_ascii_uppercase();
    let source = format!("(Filespace: {filespace}, Node: {node})");
    let mut entries = lines_of_report(&backup.report, &source, (backup.started, backup.ended));
    for entry in &mut entries {
        entry.node = Some(backup.node.clone());
        entry.domain = domain.cloned();
    }
    entries
}

/// Makes the entries of a report, each with its `source` before it, of work between two times.
fn lines_of_report(
    report: &Json,
    source: &str,
    (started, ended): (ServerTime, ServerTime),
) -> Vec<Entry> {
    let entry = |message: &'static str, text: &str, value: String| {
        let mut entry = Entry::new(ended, Some(message), format!("{source} {text}: {value}"));
        entry.is_of_client = true;
        entry
    };
    let line = |(message, text, key): &ReportLine, shown: fn(u64) -> String| {
        Some(entry(message, text, shown(number(report, key)?)))
    };
    let is_archive = report["command"] == "archive";
    let of_kind =
        |each: &ReportLine| if is_archive && *each == BACKED_UP { ARCHIVED } else { *each };
    let counts = COUNTS.iter().filter_map(|each| line(&of_kind(each), quantity::count));
    let bytes = BYTES.iter().filter_map(|each| line(each, quantity::bytes_with_unit));
    let figures = FIGURES.iter().filter_map(|((message, text, key), shown)| {
        Some(entry(message, text, shown(report[*key].as_f64()?)))
    });
    let mut entries: Vec<Entry> = counts.chain(bytes).chain(figures).collect();
    if !entries.is_empty() {
        let micros = u64::try_from(ended.0.saturating_sub(started.0)).unwrap_or_default();
        let time = quantity::clock(Duration::from_micros(micros));
        entries.push(entry("ANE4964I", "Elapsed processing time", time));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(state: &str, code: Option<u32>, session: &str) -> ScheduledEvent {
        ScheduledEvent {
            number: 7,
            schedule: "nightly".to_owned(),
            planned: ServerTime(0),
            node: Some("anna".to_owned()),
            opens: ServerTime(0),
            closes: ServerTime(3_600_000_000),
            state: state.to_owned(),
            attempt: 1,
            started: Some(ServerTime(0)),
            ended: None,
            code,
            reason: String::new(),
            control: None,
            session: session.to_owned(),
            progress: String::new(),
            paused: None,
        }
    }

    #[test]
    fn what_becomes_of_a_schedule_has_its_number() {
        let numbers = |event: &ScheduledEvent| {
            of_event(event, "STANDARD").iter().map(|entry| entry.number).collect::<Vec<_>>()
        };
        let session = r#"{"inspected": 1234, "failed": 0, "bytes_transferred": 5}"#;
        assert_eq!(
            numbers(&event("completed", Some(0), session)),
            ["ANR2507I", "ANE4952I", "ANE4959I", "ANE4961I", "ANE4964I"].map(Some)
        );
        assert_eq!(numbers(&event("missed", None, "")), [Some("ANR2578W")]);
        assert_eq!(numbers(&event("pending", None, "")), []);
        let failed = &of_event(&event("failed", Some(12), ""), "STANDARD")[0];
        let expected = "Schedule NIGHTLY in domain STANDARD for node ANNA failed (return code 12).";
        assert_eq!((failed.number, failed.text.as_str()), (Some("ANR2579E"), expected));
    }

    #[test]
    fn archives_and_restores_have_numbers_of_their_own() {
        let numbers = |session: &str| -> Vec<_> {
            let entries = of_event(&event("completed", Some(0), session), "STANDARD");
            entries
                .into_iter()
                .skip(1)
                .map(|entry| entry.number.unwrap_or("none"))
                .collect()
        };
        let archive = r#"{"command": "archive", "inspected": 3, "backed_up": 2}"#;
        assert_eq!(numbers(archive), ["ANE4952I", "ANE4953I", "ANE4964I"]);
        let backup = r#"{"command": "backup", "inspected": 3, "backed_up": 2}"#;
        assert_eq!(numbers(backup), ["ANE4952I", "ANE4954I", "ANE4964I"]);
        assert_eq!(numbers(r#"{"command": "restore", "restored": 2}"#), ["ANE4955I", "ANE4964I"]);
    }

    #[test]
    fn times_rates_and_ratios_have_numbers_and_units() {
        let session = r#"{"command": "backup", "retries": 2, "data_transfer_secs": 6982.41,
            "network_rate_kb_per_sec": 25740.56, "aggregate_rate_kb_per_sec": null,
            "compressed_percent": 36.7, "total_reduction_percent": 60.88}"#;
        let entries = of_event(&event("completed", Some(0), session), "STANDARD");
        let shown = |entry: &Entry| {
            let text = entry.text.trim_start_matches("(Session: 7, Node: ANNA) ");
            format!("{} {text}", entry.number.unwrap_or("none"))
        };
        let shown: Vec<String> = entries.iter().skip(1).map(shown).collect();
        assert_eq!(
            shown,
            [
                "ANE4916I Total number of retries: 2",
                "ANE4963I Data transfer time: 6,982.41 sec",
                "ANE4966I Network data transfer rate: 25,740.56 KB/sec",
                "ANE4968I Objects compressed by: 37%",
                "ANE4976I Total data reduction ratio: 60.88%",
                "ANE4964I Elapsed processing time: 01:00:00",
            ]
        );
    }

    #[test]
    fn a_line_of_a_report_is_the_client_s() {
        let session = r#"{"inspected": 1234}"#;
        let entries = of_event(&event("completed", Some(0), session), "STANDARD");
        assert_eq!(
            entries[1].text,
            "(Session: 7, Node: ANNA) Total number of objects inspected: 1,234"
        );
        assert_eq!(entries[2].text, "(Session: 7, Node: ANNA) Elapsed processing time: 01:00:00");
        let entry = Entry::new(ServerTime(0), Some("ANR2578W"), "x".to_owned());
        let row = row(entry, &dsm::admin::view::ACTLOG);
        assert_eq!(row[1], Value::Integer(2578));
        assert_eq!(row[2], Value::Text("W".to_owned()));
    }
}

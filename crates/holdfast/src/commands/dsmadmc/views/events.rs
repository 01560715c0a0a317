//! Events of schedules, runs of tasks, and what is under way.

use std::collections::{BTreeMap, BTreeSet};

use client::admin::{Admin, EventFilter, ScheduledEvent, TaskEnd, TaskRun};
use dsm::admin::view::{Table, Value};
use model::ServerTime;
use policy::schedule::Work;
use serde_json::Value as Json;

use super::backups;
use super::bounds::{Bounds, ROWS_MAX};
use super::cell::{optional_time, time};
use super::nodes::domains_of_nodes;
use super::transfers;
use crate::error::CommandError;

/// Maximum number of events of the future.
const FUTURE_MAX: u32 = 5_000;
/// Exit codes of work that is done, at least in part.
const DONE_MAX: u32 = 8;

/// Returns the state of an event in TSM's words.
pub(super) fn status(state: &str) -> String {
    match state {
        "in-progress" => "In Progress".to_owned(),
        state => {
            let mut letters = state.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            first.into_iter().chain(letters).collect()
        }
    }
}

pub(super) fn events(
    table: &mut Table,
    bounds: &Bounds,
    admin: &mut Admin,
) -> Result<(), CommandError> {
    let (from, to) = bounds.times();
    let filter = EventFilter { from, to, ..EventFilter::default() };
    let mut events = admin.scheduled_events(&filter, ROWS_MAX, false)?;
    let now = sys::clock::now();
    if to.is_none_or(|to| to > now) {
        let states = vec!["future".to_owned()];
        let last = to.unwrap_or(ServerTime(now.0.saturating_add(DAY_MICROS)));
        let filter = EventFilter { states, from: None, to: Some(last), ..EventFilter::default() };
        let future = admin.scheduled_events(&filter, FUTURE_MAX, false)?;
        let is_within = |event: &ScheduledEvent| {
            event.number == 0
                && event.planned <= last
                && from.is_none_or(|from| event.planned >= from)
        };
        events.extend(future.into_iter().filter(is_within));
    }
    let domains = domains_of_nodes(admin)?;
    for event in events {
        let domain = event.node.as_ref().and_then(|node| domains.get(node)).cloned();
        table.add([
            ("SCHEDULED_START", time(event.planned)),
            ("ACTUAL_START", optional_time(event.started)),
            ("DOMAIN_NAME", domain.into()),
            ("SCHEDULE_NAME", event.schedule.into()),
            ("NODE_NAME", event.node.into()),
            ("STATUS", status(&event.state).into()),
            ("RESULT", event.code.map(u64::from).into()),
            ("REASON", Some(event.reason).filter(|reason| !reason.is_empty()).into()),
            ("COMPLETED", optional_time(event.ended)),
        ]);
    }
    Ok(())
}

const DAY_MICROS: i64 = 24 * 3600 * 1_000_000;

/// Returns the work of each schedule.
fn works(admin: &mut Admin) -> Result<BTreeMap<String, Work>, CommandError> {
    let schedules = admin.schedules(None)?;
    let work = |schedule: client::admin::Schedule| (schedule.name, schedule.definition.action.work);
    Ok(schedules.into_iter().map(work).collect())
}

/// Returns the activity of an event in TSM's words: of its report, otherwise of its schedule.
fn activity(event: &ScheduledEvent, report: &Json, works: &BTreeMap<String, Work>) -> &'static str {
    match report.get("command").and_then(Json::as_str) {
        Some("backup") => return "BACKUP",
        Some("archive") => return "ARCHIVE",
        Some("restore") => return "RESTORE",
        _ => {}
    }
    match works.get(&event.schedule) {
        Some(Work::Incremental | Work::Selective | Work::Full | Work::Image) => "BACKUP",
        Some(Work::Archive) => "ARCHIVE",
        Some(Work::Restore) => "RESTORE",
        Some(Work::Verify | Work::Drill) => "VERIFY",
        Some(Work::Expire) => "EXPIRATION",
        Some(Work::Reclaim) => "RECLAMATION",
        Some(Work::CopyCatalog) => "FULL_DBBACKUP",
        Some(Work::Drain) => "MIGRATION",
        Some(Work::CopyPools) => "STGPOOL BACKUP",
        Some(Work::Repair) => "STGPOOL RESTORE",
        Some(Work::ReclaimVolumes) => "SPACE RECLAMATION",
        Some(Work::MoveVolumes) => "MOVE DATA",
        Some(Work::Audit | Work::Scrub | Work::AuditVolumes) => "VOLUME AUDIT",
        Some(Work::Command) | None => "SCHEDULED COMMAND",
    }
}

/// Returns the activity of a task in TSM's words.
pub(super) fn task_activity(task: &str) -> String {
    match task {
        "expire" => "EXPIRATION".to_owned(),
        "reclaim" => "RECLAMATION".to_owned(),
        "copy the catalogue" => "FULL_DBBACKUP".to_owned(),
        other => other.to_uppercase(),
    }
}

/// Returns the report of an event, or null.
pub(super) fn report(event: &ScheduledEvent) -> Json {
    serde_json::from_str(&event.session).unwrap_or(Json::Null)
}

/// Returns a number of a report.
pub(super) fn number(report: &Json, key: &str) -> Option<u64> {
    report.get(key).and_then(Json::as_u64)
}

/// Returns the figures of a report, as the columns of SUMMARY.
fn figures(report: &Json) -> [(&'static str, Value); 7] {
    let saved = |more: &str, less: &str| {
        let (more, less) = (number(report, more)?, number(report, less)?);
        Some(more.saturating_sub(less))
    };
    let dedup = saved("bytes_before_dedup", "bytes_after_dedup");
    let protected = number(report, "bytes_processed")
        .zip(dedup)
        .map(|(processed, saved)| processed + saved);
    // The names that reports of nodes and of the server's own work have for each figure.
    let first = |keys: &[&str]| Value::from(keys.iter().find_map(|key| number(report, key)));
    [
        ("EXAMINED", first(&["inspected", "examined"])),
        ("AFFECTED", first(&["backed_up", "restored", "expired", "packs_removed"])),
        ("FAILED", first(&["failed", "failures"])),
        (
            "BYTES",
            first(&[
                "bytes_transferred",
                "expired_bytes",
                "bytes_removed",
                "bytes_done",
                "bytes_new",
                "bytes",
            ]),
        ),
        ("BYTES_PROTECTED", protected.into()),
        ("DEDUP_SAVINGS", dedup.into()),
        ("COMP_SAVINGS", saved("bytes_processed", "bytes_transferred").into()),
    ]
}

pub(super) fn summary(
    table: &mut Table,
    bounds: &Bounds,
    admin: &mut Admin,
) -> Result<(), CommandError> {
    let works = works(admin)?;
    let filter = EventFilter { node: bounds.exact_node(admin)?, ..EventFilter::default() };
    let events = admin.scheduled_events(&filter, ROWS_MAX, false)?;
    let mut activities = Vec::with_capacity(events.len());
    for event in &events {
        let report = report(event);
        let activity = activity(event, &report, &works);
        activities.push(activity);
        let (Some(started), Some(ended)) = (event.started, event.ended) else { continue };
        let columns = [
            ("START_TIME", time(started)),
            ("END_TIME", time(ended)),
            ("ACTIVITY", activity.into()),
            ("NUMBER", event.number.into()),
            ("ENTITY", event.node.clone().into()),
            ("SCHEDULE_NAME", event.schedule.as_str().into()),
            ("SUCCESSFUL", successful(event.code)),
        ];
        table.add(columns.into_iter().chain(figures(&report)));
    }
    for backup in backups::by_hand(admin, bounds, &events)? {
        if backup.is_migration() {
            continue;
        }
        let columns = [
            ("START_TIME", time(backup.started)),
            ("END_TIME", time(backup.ended)),
            ("ACTIVITY", "BACKUP".into()),
            ("ENTITY", backup.node.into()),
            // The server keeps those backups that have come to their end.
            ("SUCCESSFUL", "YES".into()),
        ];
        table.add(columns.into_iter().chain(figures(&backup.report)));
    }
    for transfer in transfers::by_hand(admin, bounds, &events, &activities)? {
        table.add(transfer.columns());
    }
    for run in admin.task_runs(ROWS_MAX)? {
        let Some(end) = &run.ended else { continue };
        table.add([
            ("START_TIME", time(run.started)),
            ("END_TIME", time(end.at)),
            ("ACTIVITY", task_activity(&run.task).into()),
            ("SUCCESSFUL", if end.code < TaskEnd::CANCELLED { "YES" } else { "NO" }.into()),
        ]);
    }
    Ok(())
}

fn successful(code: Option<u32>) -> Value {
    code.map(|code| if code <= DONE_MAX { "YES" } else { "NO" }).into()
}

/// Returns the events that are under way.
fn running(admin: &mut Admin) -> Result<Vec<ScheduledEvent>, CommandError> {
    let states = ["started", "in-progress", "restarted"].map(str::to_owned).to_vec();
    let filter = EventFilter { states, ..EventFilter::default() };
    Ok(admin.scheduled_events(&filter, ROWS_MAX, true)?)
}

pub(super) fn sessions(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    let mut with_events = BTreeSet::new();
    for event in running(admin)? {
        let Some(node) = event.node else { continue };
        with_events.insert(node.clone());
        let progress: Json = serde_json::from_str(&event.progress).unwrap_or(Json::Null);
        table.add([
            ("SESSION_ID", event.number.into()),
            ("START_TIME", optional_time(event.started)),
            ("COMMMETHOD", "Tcp/Ip".into()),
            ("STATE", "Run".into()),
            ("BYTES_RECEIVED", number(&progress, "bytes_transferred").into()),
            ("SESSION_TYPE", "Node".into()),
            ("CLIENT_NAME", node.into()),
            ("SCHEDULE_NAME", event.schedule.into()),
        ]);
    }
    for connection in backups::connections(admin)? {
        if with_events.contains(&connection.node) {
            continue;
        }
        for activity in connection.activities {
            // A backup receives data from its node, and a restore or a recall sends it.
            let bytes = match activity.kind.as_str() {
                "backup" => "BYTES_RECEIVED",
                _ => "BYTES_SENT",
            };
            table.add([
                ("START_TIME", optional_time(activity.since)),
                ("COMMMETHOD", "Tcp/Ip".into()),
                ("STATE", "Run".into()),
                (bytes, activity.bytes.into()),
                ("SESSION_TYPE", "Node".into()),
                ("CLIENT_NAME", connection.node.as_str().into()),
            ]);
        }
    }
    Ok(())
}

pub(super) fn processes(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    let works = works(admin)?;
    for event in running(admin)? {
        if event.node.is_none() {
            let name = activity(&event, &Json::Null, &works);
            table.add([
                ("PROCESS_NUM", event.number.into()),
                ("PROCESS", process_name(name).into()),
                ("START_TIME", optional_time(event.started)),
                ("STATUS", format!("Schedule {}.", event.schedule).into()),
            ]);
        }
    }
    // The number of a task is not that of an event, which commands about processes take.
    for run in admin
        .task_runs(ROWS_MAX)?
        .into_iter()
        .filter(|run: &TaskRun| run.ended.is_none())
    {
        let name = task_activity(&run.task);
        table.add([
            ("PROCESS", process_name(&name).into()),
            ("START_TIME", time(run.started)),
            ("STATUS", "Started by the server itself.".into()),
        ]);
    }
    Ok(())
}

/// Returns the name of a process, as TSM writes it.
fn process_name(activity: &str) -> String {
    match activity {
        "EXPIRATION" => "Expiration".to_owned(),
        "RECLAMATION" => "Space Reclamation".to_owned(),
        "FULL_DBBACKUP" => "Database Backup".to_owned(),
        "MIGRATION" => "Migration".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_nodes_and_of_the_server() {
        let shown = |report: &str| {
            let report = serde_json::from_str(report).expect("is JSON");
            let [examined, affected, failed, bytes, ..] = figures(&report);
            [examined.1, affected.1, failed.1, bytes.1]
        };
        let number = Value::Integer;
        assert_eq!(
            shown(r#"{"inspected": 9, "backed_up": 3, "failed": 1, "bytes_transferred": 70}"#),
            [number(9), number(3), number(1), number(70)]
        );
        assert_eq!(
            shown(r#"{"done": 1, "examined": 5, "expired": 2, "expired_bytes": 8}"#),
            [number(5), number(2), Value::Missing, number(8)]
        );
        assert_eq!(
            shown(r#"{"done": 4, "bytes": 90, "bytes_done": 80, "failures": 0}"#),
            [Value::Missing, Value::Missing, number(0), number(80)]
        );
    }

    #[test]
    fn states_have_tsm_s_words() {
        assert_eq!(status("in-progress"), "In Progress");
        assert_eq!(status("missed"), "Missed");
        assert_eq!(status(""), "");
    }

    #[test]
    fn activities_have_tsm_s_words() {
        assert_eq!(task_activity("copy the catalogue"), "FULL_DBBACKUP");
        assert_eq!(process_name(&task_activity("expire")), "Expiration");
        assert_eq!(task_activity("lock packs"), "LOCK PACKS");
    }
}

//! Work of the server itself that a schedule asks for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use catalog::{Control, EventFilter, EventKey, EventReport, ScheduleRow, ScheduledEvent};
use policy::schedule::agenda::{Course, Duty, LastEvent, Start, look};
use policy::schedule::event::{EventState, FAILED_CODE, Phase, Report};
use policy::schedule::{Action, Definition, Occurrence, Place, Work};

use super::define::definition;
use crate::counts::counted;
use crate::error::StoreError;
use crate::lifecycle::expire::{self, Confirmation};
use crate::lifecycle::{audit, catalog_copy, reclaim};
use crate::pools;
use crate::store::Store;

/// Return code of work that was done in part.
const WARNED_CODE: u8 = 8;

/// Carries out what schedules of the server ask for now, one after the other. `is_fresh` is true
/// for the first call of this process: work that is recorded as running was cut off then.
pub fn run_due(store: &Arc<Store>, is_fresh: bool) -> Result<(), StoreError> {
    let mut duties = BTreeMap::new();
    let mut last_events = BTreeMap::new();
    let mut definitions = BTreeMap::new();
    for row in store.catalog.schedules()? {
        let Ok(definition) = definition(&row) else { continue };
        if definition.place() != Place::Server || definition.is_suspended {
            continue;
        }
        let Some(duty) = duty(&row, &definition) else { continue };
        if let Some(last) = last_event(store, &row.name, is_fresh)? {
            last_events.insert(row.name.clone(), last);
        }
        duties.insert(row.name.clone(), duty);
        definitions.insert(row.name, definition);
    }
    let agenda = look(&duties, &last_events, "", sys::clock::now());
    for start in agenda.due {
        if store.stopping.load(Ordering::Relaxed) {
            break;
        }
        perform(store, &start, &definitions[&start.schedule].action)?;
    }
    Ok(())
}

fn duty(row: &ScheduleRow, definition: &Definition) -> Option<Duty> {
    Some(Duty {
        timing: definition.timing.clone(),
        zone: definition.time_zone().ok()?,
        since: row.since,
        priority: definition.priority,
        retries: definition.retries,
        retry_pause_minutes: definition.retry_pause_minutes,
        runs_late: definition.runs_late,
        is_repeatable: definition.action.work.is_repeatable(),
    })
}

/// Returns the last event of the schedule that was begun.
fn last_event(
    store: &Store,
    schedule: &str,
    is_fresh: bool,
) -> Result<Option<LastEvent>, StoreError> {
    let filter = EventFilter { schedule: Some(schedule.to_owned()), ..EventFilter::default() };
    // Events of one schedule open in order, and a missed event may follow the last one that began.
    let events = store.catalog.scheduled_events(&filter, None, 1000)?;
    let Some(event) = events.into_iter().find(|event| event.attempt > 0) else { return Ok(None) };
    let course = match event.state {
        EventState::Completed => Course::Succeeded,
        EventState::Failed => Course::Failed { at: event.ended.unwrap_or(event.opens) },
        state if state.is_running() && is_fresh => {
            report(store, &event.key, event_window(&event), event.attempt, Phase::Interrupted, "")?;
            Course::Interrupted { at: sys::clock::now() }
        }
        state if state.is_running() => Course::Running,
        _ => Course::Interrupted { at: event.ended.unwrap_or(event.opens) },
    };
    let (planned, closes, attempt) = (event.key.planned, event.closes, event.attempt);
    Ok(Some(LastEvent { planned, closes, attempt, course }))
}

fn event_window(event: &ScheduledEvent) -> Occurrence {
    Occurrence { planned: event.key.planned, opens: event.opens, closes: event.closes }
}

/// Does the work of one attempt, and records its begin and end.
fn perform(store: &Arc<Store>, start: &Start, action: &Action) -> Result<(), StoreError> {
    let key = EventKey { schedule: start.schedule.clone(), planned: start.planned, node: None };
    let known = store.catalog.scheduled_event(&key)?.map(|(event, _)| event);
    let opens = known.as_ref().map_or(start.planned, |event| event.opens);
    let window = Occurrence { planned: start.planned, opens, closes: start.closes };
    report(store, &key, window, start.attempt, Phase::Began, "")?;
    let is_cancelled = known.is_some_and(|event| event.control == Some(Control::Cancel));
    let outcome = if is_cancelled {
        Err(StoreError::cancelled("an administrator has cancelled the event"))
    } else {
        work(store, action)
    };
    let (code, reason) = match outcome {
        Ok(outcome) => (outcome.code, outcome.words),
        Err(error) => (FAILED_CODE, error.to_string()),
    };
    tracing::info!(schedule = start.schedule, code, "scheduled work ended");
    report(store, &key, window, start.attempt, Phase::Ended(code), &reason)
}

fn report(
    store: &Store,
    key: &EventKey,
    occurrence: Occurrence,
    attempt: u32,
    phase: Phase,
    reason: &str,
) -> Result<(), StoreError> {
    let report = EventReport {
        key: key.clone(),
        occurrence,
        report: Report { attempt, phase },
        at: sys::clock::now(),
        reason: reason.to_owned(),
        session: String::new(),
        log: Vec::new(),
    };
    Ok(store.catalog.report_event(&report)?)
}

/// Outcome of work, for people.
struct Outcome {
    code: u8,
    words: String,
}

impl Outcome {
    fn new(is_whole: bool, words: String) -> Self {
        Self { code: if is_whole { 0 } else { WARNED_CODE }, words }
    }
}

fn work(store: &Arc<Store>, action: &Action) -> Result<Outcome, StoreError> {
    let goes_on = || !store.stopping.load(Ordering::Relaxed);
    match action.work {
        Work::Expire => {
            let nodes = store.catalog.nodes()?;
            let order = expire::Order::due();
            let confirmation = Confirmation::None;
            let done =
                expire::run_by_clock(store, &nodes, order, confirmation, &mut |_| goes_on())?;
            let words = format!("{} expired", counted(done.expired, "version"));
            Ok(Outcome::new(done.damaged == 0, words))
        }
        Work::Reclaim => {
            let dead_percent = store.config.reclaim_dead_percent.max(1);
            let recompress = store.config.reclaim_recompress;
            let order = reclaim::Order { is_dry: false, dead_percent, recompress };
            let done = reclaim::run(store, order, &mut |_| goes_on())?;
            let (removed, unread) = (done.packs_removed, done.packs_unread);
            let words = format!("{} removed", counted(removed, "pack"));
            Ok(Outcome::new(unread == 0 && done.packs_stuck == 0, words))
        }
        Work::Audit | Work::Scrub => {
            let order = audit::Order { data: action.work == Work::Scrub, rate: None };
            let done = audit::run(store, order, &mut |_| goes_on())?;
            let faults = done.damages.len() + done.catalog.faults.len();
            let faults = faults + done.catalog.directories.len();
            let words = format!("{} found", counted(faults as u64, "fault"));
            Ok(Outcome::new(faults == 0 && done.away.is_empty(), words))
        }
        Work::CopyCatalog => {
            let order = catalog_copy::Order::default();
            let done = catalog_copy::run(store, order, &mut |_| goes_on())?;
            Ok(Outcome::new(true, format!("copy {} made", done.number)))
        }
        Work::Drain => {
            let pool = action.objects.first().map_or(&[][..], |word| &word.0);
            let pool = String::from_utf8_lossy(pool);
            let done = pools::drain(store, &pool, false, &mut |_| goes_on())?;
            let words = format!("{} drained", counted(done.packs_done, "pack"));
            Ok(Outcome::new(done.failures.is_empty() && done.volumes.is_empty(), words))
        }
        work => Err(StoreError::usage(format!("the server cannot do {}", work.name()))),
    }
}

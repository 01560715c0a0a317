//! Work of the server itself that a schedule asks for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use catalog::{Control, EventFilter, EventKey, EventReport, ScheduledEvent};
use model::ServerTime;
use policy::schedule::agenda::{Course, Duty, LastEvent, Start, look};
use policy::schedule::event::{EventState, FAILED_CODE, Phase, Report};
use policy::schedule::{Action, Definition, ONCE_PREFIX, Occurrence, Place, Work};
use serde_json::{Value, json};

use super::define::{definition, reclaimed, volumes};
use super::errand::{Errand, Numbers};
use super::timetable::AHEAD_MICROS;
use crate::counts::counted;
use crate::error::StoreError;
use crate::lifecycle::expire::{self, Confirmation};
use crate::lifecycle::{audit, catalog_copy, clock, reclaim};
use crate::pools::{self, VolumeWork};
use crate::store::Store;

/// Return code of work that was done in part.
const WARNED_CODE: u8 = 8;
/// Maximum time for which work waits for other work that it cannot run beside.
const BUSY_MAX: Duration = Duration::from_secs(600);
/// Time after which such work is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(500);

/// A line of work of the server. The work of one line is done one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// Work that schedules ask for at their times.
    Planned,
    /// Work that a person has asked for once.
    Asked,
}

impl Line {
    fn has(self, schedule: &str) -> bool {
        schedule.starts_with(ONCE_PREFIX) == (self == Self::Asked)
    }
}

/// Carries out what schedules of the server ask for now in this line. `is_fresh` is true for the
/// first call of this process: work that is recorded as running was cut off then. Returns false if
/// nothing was looked at, because the server's clock is not trusted.
pub fn run_due(store: &Arc<Store>, line: Line, is_fresh: bool) -> Result<bool, StoreError> {
    if !clock::is_trusted(store)? {
        return Ok(false);
    }
    let now = sys::clock::now();
    let mut duties = BTreeMap::new();
    let mut last_events = BTreeMap::new();
    let mut definitions = BTreeMap::new();
    for row in store.catalog.schedules()? {
        let Ok(definition) = definition(&row) else { continue };
        if !line.has(&row.name) {
            continue;
        }
        if definition.place() != Place::Server || definition.is_suspended {
            continue;
        }
        let Ok(duty) = Duty::new(&definition, row.since) else { continue };
        if let Some(last) = last_event(store, &row.name, now, is_fresh)? {
            last_events.insert(row.name.clone(), last);
        }
        duties.insert(row.name.clone(), duty);
        definitions.insert(row.name, definition);
    }
    let agenda = look(&duties, &last_events, "", now);
    for start in agenda.due {
        if store.stopping.load(Ordering::Relaxed) {
            break;
        }
        perform(store, &start, &definitions[&start.schedule])?;
    }
    Ok(true)
}

/// Returns the last event of the schedule that was begun.
fn last_event(
    store: &Store,
    schedule: &str,
    now: ServerTime,
    is_fresh: bool,
) -> Result<Option<LastEvent>, StoreError> {
    // An event of the far future comes from a clock that was wrong. It must not hold up the others.
    let to = Some(ServerTime(now.0 + AHEAD_MICROS));
    let filter = EventFilter { schedule: Some(schedule.to_owned()), to, ..EventFilter::default() };
    // Events of one schedule open in order, and a missed event may follow the last one that began.
    let events = store.catalog.scheduled_events(&filter, None, 1000)?;
    let Some(event) = events.into_iter().find(|event| event.attempt > 0) else { return Ok(None) };
    let last = LastEvent {
        planned: event.key.planned,
        closes: event.closes,
        attempt: event.attempt,
        course: Course::Running,
    };
    let course = match event.state {
        EventState::Completed => Course::Succeeded,
        // A cancelled event is not tried again.
        EventState::Failed | EventState::Uncertain if event.control == Some(Control::Cancel) => {
            Course::Succeeded
        }
        EventState::Failed => Course::Failed { at: event.ended.unwrap_or(event.opens) },
        state if state.is_running() && is_fresh => {
            let of =
                Attempt { window: event_window(&event), key: event.key, number: event.attempt };
            of.report(store, Phase::Interrupted, Outcome::default())?;
            Course::Interrupted { at: sys::clock::now() }
        }
        state if state.is_running() => Course::Running,
        _ => Course::Interrupted { at: event.ended.unwrap_or(event.opens) },
    };
    Ok(Some(LastEvent { course, ..last }))
}

fn event_window(event: &ScheduledEvent) -> Occurrence {
    Occurrence { planned: event.key.planned, opens: event.opens, closes: event.closes }
}

/// Does the work of one attempt, and records its begin and end.
fn perform(store: &Arc<Store>, start: &Start, definition: &Definition) -> Result<(), StoreError> {
    let key = EventKey { schedule: start.schedule.clone(), planned: start.planned, node: None };
    let known = store.catalog.scheduled_event(&key)?.map(|(event, _)| event);
    let opens = known.as_ref().map_or(start.planned, |event| event.opens);
    let window = Occurrence { planned: start.planned, opens, closes: start.closes };
    let attempt = Attempt { key, window, number: start.attempt };
    attempt.report(store, Phase::Began, Outcome::default())?;
    let is_cancelled = known.is_some_and(|event| event.control == Some(Control::Cancel));
    let outcome = if is_cancelled {
        Err(cancelled())
    } else {
        let minutes_max = definition.duration_max_minutes.map(u64::from);
        let duration_max = minutes_max.map(|minutes| Duration::from_secs(minutes * 60));
        let mut errand = Errand::new(store, (&attempt.key, attempt.number), duration_max);
        let goes_on = &mut |numbers: Numbers<'_>| errand.goes_on(numbers);
        let outcome = work_when_free(store, &definition.action, goes_on);
        match (errand.is_cancelled, errand.is_spent.then_some(duration_max).flatten()) {
            (true, _) => Err(cancelled()),
            (false, Some(most)) => Err(spent(most)),
            (false, None) => outcome,
        }
    };
    let outcome = outcome.unwrap_or_else(|error| Outcome {
        code: FAILED_CODE,
        words: error.to_string(),
        numbers: Value::Null,
    });
    let code = outcome.code;
    tracing::info!(schedule = start.schedule, code, "scheduled work ended");
    attempt.report(store, Phase::Ended(code), outcome)
}

fn cancelled() -> StoreError {
    StoreError::cancelled("an administrator has cancelled the event")
}

fn spent(duration_max: Duration) -> StoreError {
    let length = model::show_length(duration_max);
    StoreError::cancelled(format!("ended after its maximum duration of {length}"))
}

/// An attempt to do the work of an event.
struct Attempt {
    key: EventKey,
    window: Occurrence,
    number: u32,
}

impl Attempt {
    /// Records what has become of the attempt.
    fn report(&self, store: &Store, phase: Phase, outcome: Outcome) -> Result<(), StoreError> {
        let session = match outcome.numbers {
            Value::Null => String::new(),
            numbers => numbers.to_string(),
        };
        let report = EventReport {
            key: self.key.clone(),
            occurrence: self.window,
            report: Report { attempt: self.number, phase },
            at: sys::clock::now(),
            began: None,
            paused: None,
            reason: outcome.words,
            session,
            log: Vec::new(),
        };
        Ok(store.catalog.report_event(&report)?)
    }
}

/// Outcome of work.
#[derive(Default)]
struct Outcome {
    code: u8,
    /// The outcome for people.
    words: String,
    /// The numbers of the work, for programs.
    numbers: Value,
}

impl Outcome {
    fn new(is_whole: bool, words: String, numbers: Value) -> Self {
        Self { code: if is_whole { 0 } else { WARNED_CODE }, words, numbers }
    }
}

/// Function that is called with the numbers of work under way. It returns false to end the work.
type GoesOn<'a> = &'a mut dyn FnMut(Numbers<'_>) -> bool;

/// Does the work of an action. Waits a while for what the work cannot run beside, such as the
/// upkeep of pools, which a person does not see.
fn work_when_free(
    store: &Arc<Store>,
    action: &Action,
    goes_on: GoesOn<'_>,
) -> Result<Outcome, StoreError> {
    let began = sys::clock::monotonic();
    loop {
        match work(store, action, goes_on) {
            Err(StoreError::Busy(_)) if began.elapsed() < BUSY_MAX && goes_on(&|| json!({})) => {
                sys::clock::sleep(BUSY_PAUSE);
            }
            done => return done,
        }
    }
}

fn work(store: &Arc<Store>, action: &Action, goes_on: GoesOn<'_>) -> Result<Outcome, StoreError> {
    match action.work {
        Work::Expire => expire(store, goes_on),
        Work::Reclaim => reclaim(store, goes_on),
        Work::Audit | Work::Scrub => audit(store, action.work == Work::Scrub, goes_on),
        Work::CopyCatalog => {
            let order = catalog_copy::Order::default();
            let mut listener = |now: &catalog_copy::Outcome| goes_on(&|| now.numbers());
            let done = catalog_copy::run(store, order, &mut listener)?;
            Ok(Outcome::new(true, format!("copy {} made", done.number), done.numbers()))
        }
        Work::Drain => {
            let pool = first_object(action);
            packs("drained", goes_on, |listener| pools::drain(store, &pool, false, listener))
        }
        Work::CopyPools => copy_pools(store, &first_object(action), goes_on),
        Work::Repair => packs("repaired", goes_on, |listener| pools::repair(store, None, listener)),
        Work::ReclaimVolumes | Work::MoveVolumes | Work::AuditVolumes => {
            let work = volume_work(store, action)?;
            let done = if action.work == Work::AuditVolumes { "checked" } else { "moved" };
            packs(done, goes_on, |listener| pools::tend_volumes(store, &work, listener))
        }
        work => Err(StoreError::usage(format!("the server cannot do {}", work.name()))),
    }
}

fn expire(store: &Store, goes_on: GoesOn<'_>) -> Result<Outcome, StoreError> {
    let nodes = store.catalog.nodes()?;
    let (order, confirmation) = (expire::Order::due(), Confirmation::None);
    let mut listener = |now: &expire::Outcome| goes_on(&|| now.numbers());
    let done = expire::run_by_clock(store, &nodes, order, confirmation, &mut listener)?;
    let words = format!("{} expired", counted(done.expired, "version"));
    Ok(Outcome::new(done.damaged == 0, words, done.numbers()))
}

fn reclaim(store: &Arc<Store>, goes_on: GoesOn<'_>) -> Result<Outcome, StoreError> {
    let dead_percent = store.config.reclaim_dead_percent.max(1);
    let recompress = store.config.reclaim_recompress;
    let order = reclaim::Order { is_dry: false, dead_percent, recompress };
    let mut listener = |now: &reclaim::Outcome| goes_on(&|| now.numbers());
    let done = reclaim::run(store, order, &mut listener)?;
    let words = format!("{} removed", counted(done.packs_removed, "pack"));
    let is_whole = done.packs_unread == 0 && done.packs_stuck == 0;
    Ok(Outcome::new(is_whole, words, done.numbers()))
}

fn audit(store: &Arc<Store>, data: bool, goes_on: GoesOn<'_>) -> Result<Outcome, StoreError> {
    let order = audit::Order { data, rate: None };
    let mut listener = |now: &audit::Outcome| goes_on(&|| of_audit(now));
    let done = audit::run(store, order, &mut listener)?;
    let faults = done.damages.len() + done.catalog.faults.len() + done.catalog.directories.len();
    let words = format!("{} found", counted(faults as u64, "fault"));
    Ok(Outcome::new(faults == 0 && done.away.is_empty(), words, of_audit(&done)))
}

fn of_audit(done: &audit::Outcome) -> Value {
    json!({
        "done": done.packs_done, "total": done.packs, "quanta": done.quanta, "bytes": done.bytes,
        "damaged": done.damages.len(),
    })
}

/// Returns the first object of the action as text; empty without one.
fn first_object(action: &Action) -> String {
    let object = action.objects.first().map_or(&[][..], |word| &word.0);
    String::from_utf8_lossy(object).into_owned()
}

/// Does work on packs. `done` is the participle for a pack with which it has succeeded.
fn packs(
    done: &str,
    goes_on: GoesOn<'_>,
    run: impl FnOnce(pools::Listener<'_>) -> Result<pools::Outcome, StoreError>,
) -> Result<Outcome, StoreError> {
    let mut listener = |now: &pools::Outcome| goes_on(&|| now.numbers());
    let outcome = run(&mut listener)?;
    let packs = counted(outcome.packs_done, "pack");
    let words = match outcome.volumes.first() {
        Some((volume, reason)) => format!("{packs} {done}; {volume}: {reason}"),
        None => format!("{packs} {done}"),
    };
    let is_whole = outcome.failures.is_empty() && outcome.volumes.is_empty();
    Ok(Outcome::new(is_whole, words, outcome.numbers()))
}

/// Copies the catalogue, which is part of each copy, and then the packs.
fn copy_pools(store: &Arc<Store>, pool: &str, goes_on: GoesOn<'_>) -> Result<Outcome, StoreError> {
    if catalog_copy::goes_with_packs(store)? {
        let mut listener = |now: &catalog_copy::Outcome| goes_on(&|| now.numbers());
        catalog_copy::run(store, catalog_copy::Order::default(), &mut listener)?;
    }
    packs("copied", goes_on, |listener| pools::copy(store, pool, listener))
}

/// Returns the work on volumes that the action names.
fn volume_work(store: &Store, action: &Action) -> Result<VolumeWork, StoreError> {
    if action.work == Work::ReclaimVolumes {
        let (pool, volumes) = reclaimed(store, action)?;
        return Ok(VolumeWork::Reclaim { pool, volumes, dead_percent: 0 });
    }
    let rows = volumes(store, action)?;
    match action.work {
        Work::MoveVolumes => Ok(VolumeWork::Move(rows)),
        _ => Ok(VolumeWork::Audit(rows)),
    }
}

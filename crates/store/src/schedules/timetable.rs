//! The timetable: it opens the events of all nodes when their windows open, and closes those that
//! no node has begun.
//!
//! 1. While the server's clock is not trusted, no event is opened, closed or forgotten: a clock
//!    that is wrong by weeks would record thousands of events as missed, and remove the history.
//! 2. A mark or an event in the future comes from a clock that was wrong. The mark is taken back,
//!    and events that nobody has begun are withdrawn. They open again when their time comes.

use catalog::{EventFilter, EventKey, Write};
use model::ServerTime;
use policy::schedule::{Definition, Occurrence};

use super::define::definition;
use super::followers::Followers;
use crate::error::StoreError;
use crate::lifecycle::clock;
use crate::store::Store;

/// Mark with the time up to which events have been opened.
const SEEN_MARK: &str = "events opened";
/// Maximum age of windows that a server opens after it was down, in microseconds: a week.
const LOOK_BACK_MICROS: i64 = 7 * 86_400_000_000;
/// Number of events that are opened in one transaction.
const BATCH: usize = 1000;
/// Time without a sign of life after which a node counts as cut off, in microseconds: half an hour.
/// Agents give a sign every ten minutes.
const SILENCE_MICROS: i64 = 1_800_000_000;
/// Time after which a node that does not come back is given up, in microseconds: a week.
const PATIENCE_MICROS: i64 = 7 * 86_400_000_000;
/// Time for which the logs of completed events are kept, in microseconds: 30 days.
const LOG_MICROS: i64 = 30 * 86_400_000_000;
/// Number of microseconds in a day.
const DAY_MICROS: i64 = 86_400_000_000;
/// Time by which an event may be ahead of the clock, in microseconds: an hour, as small corrections
/// of a clock set it back.
pub(super) const AHEAD_MICROS: i64 = 3_600_000_000;
/// Mark with the time up to which events were looked for that last for long.
const LONG_MARK: &str = "long events noted";
/// Time after which an event that is under way is noted in the audit trail, in microseconds.
const LONG_MICROS: i64 = DAY_MICROS;
/// Interval between two writes of the mark while nothing opens, in microseconds: a minute.
const MARK_PAUSE_MICROS: i64 = 60_000_000;
/// Interval between two removals of old events, in microseconds: an hour.
const FORGET_PAUSE_MICROS: i64 = 3_600_000_000;

/// State of the timetable between two looks.
#[derive(Debug, Default)]
pub struct Timetable {
    forgotten: Option<ServerTime>,
    /// True if the clock was not trusted at the last look.
    is_held: bool,
}

/// Opens and closes events up to `now`, if the server's clock is trusted.
pub fn tick(store: &Store, timetable: &mut Timetable, now: ServerTime) -> Result<(), StoreError> {
    let was_held = std::mem::replace(&mut timetable.is_held, !clock::is_trusted(store)?);
    if timetable.is_held {
        if !was_held {
            tracing::warn!("schedules wait until the server's clock is trusted");
        }
        return Ok(());
    }
    let seen = store.catalog.mark(SEEN_MARK)?.map(ServerTime);
    let is_ahead = seen.is_some_and(|seen| seen > now);
    if seen.is_some_and(|seen| seen.0 - now.0 > AHEAD_MICROS) {
        let withdrawn = store.catalog.withdraw_events(ServerTime(now.0 + AHEAD_MICROS))?;
        tracing::warn!(withdrawn, "events of the future were withdrawn: the clock was ahead");
    }
    let after = seen.unwrap_or(now).clamp(ServerTime(now.0 - LOOK_BACK_MICROS), now);
    let opened = if after < now { open(store, after, now)? } else { 0 };
    // Events that are opened once more stay as they are, so the mark may lag behind.
    let is_old = seen.is_none_or(|seen| now.0 - seen.0 >= MARK_PAUSE_MICROS);
    if opened > 0 || is_old || is_ahead {
        store.catalog.commit(vec![Write::SetMark { name: SEEN_MARK, value: now.0 }])?;
    }
    close(store, now)?;
    let is_due = |at: ServerTime| now.0 - at.0 >= FORGET_PAUSE_MICROS || now < at;
    if timetable.forgotten.is_none_or(is_due) {
        let kept = i64::from(store.config.event_days) * DAY_MICROS;
        store
            .catalog
            .forget_events(ServerTime(now.0 - kept), ServerTime(now.0 - LOG_MICROS))?;
        note_long(store, now)?;
        timetable.forgotten = Some(now);
    }
    Ok(())
}

/// Notes the events that have been under way for a day since the last call. Each is noted once.
fn note_long(store: &Store, now: ServerTime) -> Result<(), StoreError> {
    let seen = store.catalog.mark(LONG_MARK)?.unwrap_or(now.0 - FORGET_PAUSE_MICROS);
    let open = EventFilter { states: super::events::OPEN.to_vec(), ..EventFilter::default() };
    for event in store.catalog.scheduled_events(&open, None, usize::MAX)? {
        let Some(started) = event.started else { continue };
        if (seen + 1..=now.0).contains(&(started.0 + LONG_MICROS)) {
            let place = event
                .node_name
                .map_or_else(|| "the server".to_owned(), |name| format!("node {name}"));
            let details = format!(
                "event {} of schedule {} at {place} is under way for a day; 'holdfast admin event \
                 cancel' ends it, and 'schedule update --duration-max' sets a limit",
                event.number, event.key.schedule
            );
            store.record("event takes long", details)?;
        }
    }
    let mark = Write::SetMark { name: LONG_MARK, value: now.0 };
    Ok(store.catalog.commit(vec![mark])?)
}

/// Closes the events whose time is over.
fn close(store: &Store, now: ServerTime) -> Result<(), StoreError> {
    let open = EventFilter { states: super::events::OPEN.to_vec(), ..EventFilter::default() };
    if store.catalog.scheduled_events(&open, None, 1)?.is_empty() {
        return Ok(());
    }
    super::missed::explain(store, now)?;
    let missed = store.catalog.close_events(now)?;
    if missed > 0 {
        tracing::warn!(missed, "events were missed");
    }
    store.catalog.sever_silent_events(ServerTime(now.0 - SILENCE_MICROS), now)?;
    store.catalog.give_events_up(ServerTime(now.0 - PATIENCE_MICROS))?;
    Ok(())
}

/// Opens the events whose windows open after `after`, and at `now` or before. Returns
/// their number.
fn open(store: &Store, after: ServerTime, now: ServerTime) -> Result<usize, StoreError> {
    let rows = store.catalog.schedules()?;
    if rows.is_empty() {
        return Ok(0);
    }
    let followers = Followers::read(&*store.catalog, &rows)?;
    let nodes = store.catalog.nodes()?;
    let mut events = Vec::new();
    let mut opened = 0;
    for row in rows {
        // A definition that a newer program has written is none of this server.
        let Ok(definition) = definition(&row) else { continue };
        let openings = openings(&definition, row.since, after, now);
        if openings.is_empty() {
            continue;
        }
        let places = followers.places(&row, &definition, &nodes);
        for occurrence in openings {
            for (node, since) in &places {
                if occurrence.planned < *since {
                    continue;
                }
                let (schedule, planned) = (row.name.clone(), occurrence.planned);
                events.push((EventKey { schedule, planned, node: *node }, occurrence));
                opened += 1;
                if events.len() == BATCH {
                    store.catalog.open_events(&events)?;
                    events.clear();
                }
            }
        }
    }
    if !events.is_empty() {
        store.catalog.open_events(&events)?;
    }
    Ok(opened)
}

/// Returns the occurrences whose windows open in the given time.
fn openings(
    definition: &Definition,
    since: ServerTime,
    after: ServerTime,
    now: ServerTime,
) -> Vec<Occurrence> {
    let Ok(zone) = definition.time_zone() else { return Vec::new() };
    if definition.is_suspended {
        return Vec::new();
    }
    let all = definition.timing.openings(&zone, after, now);
    all.filter(|occurrence| occurrence.planned >= since).collect()
}

//! Events at which somebody looks. Their nodes tell how far they have come, and others do not.
//!
//! The catalogue has the looks and the progress, because an administrator and an agent may be
//! connected to different servers. A mark tells whether anybody looks at all, so that a server asks
//! no more while nobody does.

use catalog::{EventKey, EventProgress, ScheduledEvent, Write};
use model::ServerTime;

use super::events::OPEN;
use crate::error::StoreError;
use crate::store::Store;

/// Mark with the time until which somebody looks at an event.
const WATCHED_MARK: &str = "events watched";
/// Time for which one look counts, in microseconds.
const WATCH_MICROS: i64 = 30_000_000;
/// Remaining time at which a further look is recorded, in microseconds.
const RENEWAL_MICROS: i64 = 15_000_000;
/// Maximum number of events at which one administrator looks at once.
const EVENTS_MAX: usize = 1000;

/// Notes that somebody looks at `events` now. Events that have ended are passed over.
pub fn watch(store: &Store, events: &[ScheduledEvent], now: ServerTime) -> Result<(), StoreError> {
    let is_new = |event: &&ScheduledEvent| {
        let is_open = OPEN.contains(&event.state);
        is_open && event.watched.0 - now.0 < RENEWAL_MICROS
    };
    let keys: Vec<EventKey> = events
        .iter()
        .filter(is_new)
        .take(EVENTS_MAX)
        .map(|event| event.key.clone())
        .collect();
    if keys.is_empty() {
        return Ok(());
    }
    let until = ServerTime(now.0 + WATCH_MICROS);
    store.catalog.watch_events(&keys, until)?;
    let value = store.catalog.mark(WATCHED_MARK)?.unwrap_or(0).max(until.0);
    Ok(store.catalog.commit(vec![Write::SetMark { name: WATCHED_MARK, value }])?)
}

/// Returns the events of nodes that work and at which somebody looks.
pub fn watched(store: &Store, now: ServerTime) -> Result<Vec<EventKey>, StoreError> {
    if store.catalog.mark(WATCHED_MARK)?.is_none_or(|until| until <= now.0) {
        return Ok(Vec::new());
    }
    Ok(store.catalog.watched_events(now)?)
}

/// Records what nodes tell.
pub fn put_progress(store: &Store, progress: &[EventProgress]) -> Result<(), StoreError> {
    if progress.is_empty() {
        return Ok(());
    }
    Ok(store.catalog.put_progress(progress)?)
}

//! The timetable at work: it looks each second whether schedules have changed, and whether somebody
//! looks at events. It opens and closes events at the server that keeps house.

use std::sync::Arc;
use std::time::Duration;

use catalog::{EventKey, EventProgress};
use store::schedules::{self, Line, Timetable};
use store::{Store, StoreError};
use tokio::sync::watch;

use crate::edge::Edge;
use crate::stop::stopped;

/// Interval between two looks for changes.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Number of looks between two looks at the timetable.
const LOOKS_PER_TICK: u32 = 5;

/// Announces changes of schedules to the agents, and runs the timetable.
pub(crate) async fn run_by_itself(edge: Arc<Edge>, mut stop: watch::Receiver<bool>) {
    let mut timetable = Timetable::default();
    let mut looks = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_PAUSE) => {}
            () = stopped(&mut stop) => return,
        }
        let is_tick = looks % LOOKS_PER_TICK == 0;
        looks += 1;
        let store = Arc::clone(&edge.store);
        let mut looking = std::mem::take(&mut timetable);
        let progress = edge.attendances.take_progress();
        let (looking_edge, unended) = (Arc::clone(&edge), edge.attendances.take_unended());
        let look = move || {
            let looked = look(&store, &mut looking, is_tick, &progress);
            // The next look tells the catalogue again if it does not answer now.
            let is_unknown =
                |(node, number): &_| schedules::end_attendance(&store, *node, *number).is_err();
            looking_edge
                .attendances
                .note_unended(unended.into_iter().filter(is_unknown).collect::<Vec<_>>());
            (looking, looked)
        };
        match tokio::task::spawn_blocking(look).await {
            Ok((looked, Ok((generation, watched)))) => {
                timetable = looked;
                edge.attendances.announce(generation);
                edge.attendances.announce_watched(watched);
            }
            Ok((looked, Err(error))) => {
                timetable = looked;
                tracing::warn!(error = model::chain(&error), "cannot look at the schedules");
            }
            Err(error) => tracing::error!(%error, "looking at the schedules failed"),
        }
    }
}

/// Returns the generation of the schedules and the events at which somebody looks, after a look at
/// the timetable if it is time. Records the progress that nodes have told.
fn look(
    store: &Store,
    timetable: &mut Timetable,
    is_tick: bool,
    progress: &[EventProgress],
) -> Result<(i64, Vec<EventKey>), StoreError> {
    let now = sys::clock::now();
    if is_tick && store.keeps_house() {
        schedules::tick(store, timetable, now)?;
    }
    schedules::put_progress(store, progress)?;
    Ok((schedules::generation(store)?, schedules::watched(store, now)?))
}

/// Does the work of the server in this line.
pub(crate) async fn work_by_itself(store: Arc<Store>, line: Line, mut stop: watch::Receiver<bool>) {
    let mut is_fresh = true;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_PAUSE * LOOKS_PER_TICK) => {}
            () = stopped(&mut stop) => return,
        }
        if !store.keeps_house() {
            continue;
        }
        let working = Arc::clone(&store);
        let work = move || schedules::run_due(&working, line, is_fresh);
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(has_looked)) => is_fresh &= !has_looked,
            Ok(Err(error)) => {
                tracing::warn!(error = model::chain(&error), "scheduled work cannot be done");
            }
            Err(error) => tracing::error!(%error, "scheduled work failed"),
        }
    }
}

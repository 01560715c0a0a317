//! The timetable at work: it looks each second whether schedules have changed, and opens and closes
//! events at the server that keeps house.

use std::sync::Arc;
use std::time::Duration;

use store::schedules::{self, Timetable};
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
        let look = move || {
            let looked = look(&store, &mut looking, is_tick);
            (looking, looked)
        };
        match tokio::task::spawn_blocking(look).await {
            Ok((looked, Ok(generation))) => {
                timetable = looked;
                edge.attendances.announce(generation);
            }
            Ok((looked, Err(error))) => {
                timetable = looked;
                tracing::warn!(error = model::chain(&error), "cannot look at the schedules");
            }
            Err(error) => tracing::error!(%error, "looking at the schedules failed"),
        }
    }
}

/// Returns the generation of the schedules, after a look at the timetable if it is time.
fn look(store: &Store, timetable: &mut Timetable, is_tick: bool) -> Result<i64, StoreError> {
    if is_tick && store.keeps_house() {
        schedules::tick(store, timetable, sys::clock::now())?;
    }
    schedules::generation(store)
}

/// Does the work of the server that schedules ask for.
pub(crate) async fn work_by_itself(store: Arc<Store>, mut stop: watch::Receiver<bool>) {
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
        let work = move || schedules::run_due(&working, is_fresh);
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(())) => is_fresh = false,
            Ok(Err(error)) => {
                tracing::warn!(error = model::chain(&error), "scheduled work cannot be done");
            }
            Err(error) => tracing::error!(%error, "scheduled work failed"),
        }
    }
}

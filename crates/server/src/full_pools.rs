//! Pools without room for new data. The audit trail says once that the server begins to refuse
//! data, and once that it takes data again.

use std::sync::Arc;
use std::time::Duration;

use store::Store;
use tokio::sync::watch;

use crate::stop::stopped;

/// Interval between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Records each beginning and each end of a time in which no pool has room.
pub(crate) async fn record_by_itself(store: Arc<Store>, mut stop: watch::Receiver<bool>) {
    let mut recorded = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = stopped(&mut stop) => return,
        }
        let looking = Arc::clone(&store);
        match tokio::task::spawn_blocking(move || look(&looking, recorded)).await {
            Ok(now) => recorded = now,
            Err(error) => tracing::error!(%error, "cannot look for room in the pools"),
        }
    }
}

/// Records whether the server refuses data, if it differs from what was `recorded`. Returns what is
/// recorded now.
fn look(store: &Store, recorded: bool) -> bool {
    let refuses = store.pools.refuses_data();
    if refuses == recorded {
        return recorded;
    }
    let (what, details) = event(refuses);
    match store.record(what, details.to_owned()) {
        Ok(()) => {
            tracing::warn!(details, "{what}");
            refuses
        }
        Err(error) => {
            tracing::warn!(%error, what, "an event of the pools cannot be recorded");
            recorded
        }
    }
}

/// Returns the event that data is refused from now on, or that it is taken again.
fn event(refuses: bool) -> (&'static str, &'static str) {
    if refuses {
        let details = "no pool has room for new data, so backups and archives are refused; \
                       'holdfast admin pool list' shows the pools";
        ("pools full", details)
    } else {
        ("pools have room", "backups and archives are taken again")
    }
}

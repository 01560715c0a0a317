//! Work of the server that is due from time to time: expiration and reclamation, maintenance of the
//! pools, copies of the catalogue, locks in object stores, the chunk index, and the ends of nodes'
//! connections that another server of the same catalogue has ordered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use store::folder::Config;
use store::lifecycle::clock::Watch;
use store::lifecycle::{amounts, catalog_copy, expire, object_lock, reclaim};
use store::{Store, StoreError, pools};
use tokio::sync::watch;

use crate::edge::Edge;
use crate::stop::{BEAT_PAUSE, stopped};

/// Interval in seconds between two checks whether an expiration is due.
const EXPIRY_CHECK_SECS: u64 = 60;
/// Interval in seconds between two writes of the last contacts of nodes and polls of agents.
const CONTACT_SECS: u64 = 60;
/// Minimum interval in seconds between two runs that copy, drain and repair packs.
const TEND_SECS: u64 = 20;
/// Ratio of the pause after such a run to the duration of the run.
const TEND_SHARE: u32 = 10;
/// Pause in seconds after a failed copy of the catalogue, until the next attempt.
const COPY_AGAIN_SECS: u64 = 3600;
/// Interval in seconds between two runs that lock objects in object stores.
const LOCK_EVERY_SECS: u64 = 86_400;
const LOCK_AGAIN_SECS: u64 = 3600;
/// Interval in seconds between two looks for nodes that another server has locked or revoked.
const FOLLOW_SECS: u64 = 5;

/// Ends connections of nodes that another server of the same catalogue has locked, revoked or
/// removed. Returns when the server stops, or at once if the server has its catalogue alone.
pub(crate) async fn follow_locks_by_itself(edge: Arc<Edge>, mut stop: watch::Receiver<bool>) {
    while edge.store.shares_catalog() {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(FOLLOW_SECS)) => {}
            () = stopped(&mut stop) => return,
        }
        let looking = Arc::clone(&edge);
        let look = move || cut_refused(&looking);
        match tokio::task::spawn_blocking(look).await {
            Ok(Ok(0)) => {}
            Ok(Ok(cut)) => tracing::info!(cut, "connections of nodes that may not enter ended"),
            Ok(Err(error)) => tracing::warn!(
                error = model::chain(&error),
                "cannot see which nodes may still enter; trying again"
            ),
            Err(error) => tracing::error!(%error, "looking which nodes may enter failed"),
        }
    }
}

/// Ends the connections whose certificates the catalogue does not admit. Returns their number.
fn cut_refused(edge: &Edge) -> Result<usize, StoreError> {
    // The connections are listed first: their certificates were in the catalogue before.
    let connected = edge.identities.serials();
    if connected.is_empty() {
        return Ok(0);
    }
    let admitted = edge.store.catalog.unlocked_serials()?;
    Ok(edge.identities.cut_serials(&connected.difference(&admitted).cloned().collect()))
}

/// Adds packs of other servers to the chunk index, as soon as they are known, and rebuilds an index
/// that was lost.
pub(crate) async fn index_by_itself(store: Arc<Store>, mut stop: watch::Receiver<bool>) {
    loop {
        let indexing = Arc::clone(&store);
        let work = move || {
            indexing.tend_index();
            indexing.index_others()
        };
        let indexed = tokio::task::spawn_blocking(work).await;
        if matches!(indexed, Ok(true)) && !*stop.borrow() {
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(BEAT_PAUSE) => {}
            () = stopped(&mut stop) => return,
        }
    }
}

/// Expires versions when an expiration is due.
pub(crate) async fn expire_by_itself(
    store: Arc<Store>,
    config: Config,
    mut stop: watch::Receiver<bool>,
) {
    let mut watch = Watch::default();
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(EXPIRY_CHECK_SECS)) => {}
            () = stopped(&mut stop) => return,
        }
        if !store.keeps_house() {
            continue;
        }
        let expiring = Arc::clone(&store);
        let (mut looking, every_hours) = (std::mem::take(&mut watch), config.expire_every_hours);
        let run = move || {
            let outcome = expire_due(&expiring, &mut looking, every_hours);
            (looking, outcome)
        };
        let done = tokio::task::spawn_blocking(run).await.map(|(looked, outcome)| {
            watch = looked;
            outcome
        });
        match done {
            Ok(Ok(Some(outcome))) => {
                tracing::info!(expired = outcome.expired, examined = outcome.examined, "expired");
                reclaim_by_itself(&store).await;
            }
            Ok(Ok(None)) => {}
            Ok(Err(status)) => tracing::warn!(error = model::chain(&status), "nothing was expired"),
            Err(error) => tracing::error!(%error, "expiration failed"),
        }
    }
}

/// Looks at the server's clock, even if nothing expires automatically, so that the record of time
/// goes on. Expires the versions that are due if the clock may be trusted.
fn expire_due(
    store: &Store,
    watch: &mut Watch,
    every_hours: u32,
) -> Result<Option<expire::Outcome>, StoreError> {
    if !watch.look(store)? || every_hours == 0 {
        return Ok(None);
    }
    expire::run_due(store, every_hours)
}

/// Writes the last contacts of nodes, and the last polls of their agents, to the catalogue at
/// intervals and when the server begins to stop.
pub(crate) async fn remember_by_itself(store: Arc<Store>, mut stop: watch::Receiver<bool>) {
    let mut is_over = false;
    while !is_over {
        is_over = tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(CONTACT_SECS)) => false,
            () = stopped(&mut stop) => true,
        };
        let writing = Arc::clone(&store);
        let write = move || writing.contacts.write(&*writing.catalog);
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last contacts of nodes were not written"),
            Err(error) => tracing::error!(%error, "writing the last contacts of nodes failed"),
        }
    }
}

/// Maintains the pools at intervals.
pub(crate) async fn tend_by_itself(store: Arc<Store>, mut stop: watch::Receiver<bool>) {
    let mut sealed = sys::clock::monotonic();
    let mut copied = None;
    let mut shared = sealed;
    let mut is_counted = false;
    let mut pause = Duration::from_secs(TEND_SECS);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stopped(&mut stop) => return,
        }
        let store = Arc::clone(&store);
        let run = move || {
            // This check does not count in the duration of the run below: a pool that does not
            // answer takes long, and its return should be noticed soon.
            pools::refresh(&store);
            let began = sys::clock::monotonic();
            pools::tend(&store, &mut sealed);
            if store.keeps_house() {
                copy_catalog(&store, &mut copied);
                share_index(&store, &mut shared);
                count_old(&store, &mut is_counted);
            }
            (sealed, copied, shared, is_counted, began.elapsed())
        };
        let done = tokio::task::spawn_blocking(run).await;
        match done {
            Ok((last_sealed, last_copied, last_shared, counted, took)) => {
                (sealed, copied, shared) = (last_sealed, last_copied, last_shared);
                is_counted = counted;
                // A run over millions of packs takes a while. The pause grows with the duration, so
                // that runs take a small part of the time.
                pause = Duration::from_secs(TEND_SECS).max(took * TEND_SHARE);
            }
            Err(error) => tracing::error!(%error, "the maintenance of the pools failed"),
        }
    }
}

/// Counts filespaces that are older than the amounts of the catalogue, until none is left.
fn count_old(store: &Store, is_counted: &mut bool) {
    if *is_counted {
        return;
    }
    match amounts::count_some(store) {
        Ok(done) => *is_counted = done,
        Err(status) => {
            tracing::warn!(error = model::chain(&status), "old filespaces were not counted");
        }
    }
}

/// Copies the catalogue if a copy is due. After a failure the next attempt waits for a while.
fn copy_catalog(store: &Arc<Store>, failed: &mut Option<Instant>) {
    if failed.is_some_and(|at| at.elapsed() < Duration::from_secs(COPY_AGAIN_SECS)) {
        return;
    }
    match catalog_copy::run_due(store) {
        Ok(_) => *failed = None,
        Err(status) => {
            *failed = Some(sys::clock::monotonic());
            tracing::warn!(error = model::chain(&status), "the catalogue was not copied");
        }
    }
}

/// Locks packs in object stores as policy requires, once a day; after a failure it tries again
/// sooner.
pub(crate) async fn lock_by_itself(store: Arc<Store>, mut stop: watch::Receiver<bool>) {
    let mut due = sys::clock::monotonic();
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(TEND_SECS)) => {}
            () = stopped(&mut stop) => return,
        }
        if sys::clock::monotonic() < due || !store.keeps_house() {
            continue;
        }
        let locking = Arc::clone(&store);
        let done = tokio::task::spawn_blocking(move || object_lock::run_due(&locking)).await;
        let is_done = match done {
            Ok(Ok(outcome)) => {
                for (pack, error) in &outcome.failures {
                    tracing::warn!(%pack, error, "cannot lock a pack");
                }
                outcome.failures.is_empty()
            }
            Ok(Err(status)) => {
                tracing::warn!(error = model::chain(&status), "packs were not locked");
                false
            }
            Err(error) => {
                tracing::error!(%error, "locking packs failed");
                false
            }
        };
        let secs = if is_done { LOCK_EVERY_SECS } else { LOCK_AGAIN_SECS };
        due = sys::clock::monotonic() + Duration::from_secs(secs);
    }
}

/// Stores the chunk index for other servers if that is due.
fn share_index(store: &Arc<Store>, shared: &mut Instant) {
    let minutes = store.config.index_share_minutes;
    if minutes == 0 || shared.elapsed() < Duration::from_secs(60) * minutes {
        return;
    }
    *shared = sys::clock::monotonic();
    if let Err(error) = store.send_index() {
        tracing::warn!(%error, "the chunk index was not stored");
    }
}

/// Frees the space of data that is no longer needed.
async fn reclaim_by_itself(store: &Arc<Store>) {
    if store.config.reclaim_dead_percent == 0 {
        return;
    }
    let store = Arc::clone(store);
    let run = move || reclaim::run_due(&store);
    match tokio::task::spawn_blocking(run).await {
        Ok(Ok(None)) => {}
        Ok(Ok(Some(outcome))) => {
            let (removed, bytes) = (outcome.packs_removed, outcome.bytes_removed);
            tracing::info!(removed, bytes, rewritten = outcome.packs_rewritten, "reclaimed");
        }
        Ok(Err(status)) => {
            tracing::warn!(error = model::chain(&status), "reclamation has not ended");
        }
        Err(error) => tracing::error!(%error, "reclamation failed"),
    }
}

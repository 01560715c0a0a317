//! Bugs of the server that end one session. They are logged, counted, and recorded in the audit
//! trail.
//!
//! A panic of a thread that holds no lock (while it decodes, compares or encodes for one session)
//! ends that session only. After a panic of a thread that holds a lock, the next thread that takes
//! the lock ends the process; see [`sys::lock`].

use std::sync::Arc;
use std::time::Duration;

use store::Store;
use sys::fault::Panic;
use tokio::sync::watch;

use crate::stop::stopped;

/// Interval between two checks for new bugs.
const PAUSE: Duration = Duration::from_secs(1);

/// Logs panics as bugs from now on.
pub(crate) fn log_panics() {
    sys::fault::report_panics(|panic| {
        let Panic { thread, place, message } = panic;
        tracing::error!(thread, place, message, "a bug: a thread panicked; please report it");
    });
}

/// Writes new bugs into the audit trail.
pub(crate) async fn record_by_itself(store: Arc<Store>, mut stop: watch::Receiver<bool>) {
    let mut recorded = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = stopped(&mut stop) => return,
        }
        let count = sys::fault::panics();
        if count == recorded {
            continue;
        }
        let recording = Arc::clone(&store);
        let panics = if count == 1 { "1 panic".to_owned() } else { format!("{count} panics") };
        let details = format!("{panics} since the server started; its log names the places");
        let record = move || recording.record("bug of the server", details);
        match tokio::task::spawn_blocking(record).await {
            Ok(Ok(())) => recorded = count,
            Ok(Err(error)) => tracing::warn!(%error, "cannot record a bug in the audit trail"),
            Err(error) => tracing::error!(%error, "cannot record a bug in the audit trail"),
        }
    }
}

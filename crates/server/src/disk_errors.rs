//! Errors of the server's disks, as `sys` counts them. They are logged one by one, and recorded in
//! the audit trail together.

use std::sync::Arc;
use std::time::Duration;

use store::Store;
use sys::disk_error::{self, DiskError, Summary};
use tokio::sync::watch;

use crate::stop::stopped;

/// Interval between two checks for new errors.
const PAUSE: Duration = Duration::from_secs(1);
/// Minimum interval between two events, because a failing disk may report many errors a second.
const EVENT_PAUSE: Duration = Duration::from_secs(60);

/// Logs each error from now on.
pub(crate) fn log() {
    disk_error::report(|noted| {
        let DiskError { kind, file, operation, error, .. } = noted;
        let file = file.display();
        tracing::error!(%file, %kind, operation, %error, "a disk error");
    });
}

/// Writes new errors into the audit trail.
pub(crate) async fn record_by_itself(store: Arc<Store>, mut stop: watch::Receiver<bool>) {
    let mut recorded = 0;
    let mut pause = PAUSE;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stopped(&mut stop) => return,
        }
        pause = PAUSE;
        let summary = disk_error::summary();
        if summary.count == recorded {
            continue;
        }
        let (recording, details) = (Arc::clone(&store), details(&summary));
        let record = move || recording.record("disk error", details);
        match tokio::task::spawn_blocking(record).await {
            Ok(Ok(())) => (recorded, pause) = (summary.count, EVENT_PAUSE),
            Ok(Err(error)) => tracing::warn!(%error, "cannot record a disk error"),
            Err(error) => tracing::error!(%error, "cannot record a disk error"),
        }
    }
}

fn details(summary: &Summary) -> String {
    let count = match summary.count {
        1 => "1 error".to_owned(),
        count => format!("{count} errors"),
    };
    format!("{count} since the server started; the last one: {}", summary.last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_the_number_and_the_last_error() {
        let last = "cannot read /pool/1.pack (pack): a bad sector".to_owned();
        let one = Summary { count: 1, last, ..Summary::default() };
        let text = "1 error since the server started; the last one: cannot read /pool/1.pack \
                    (pack): a bad sector";
        assert_eq!(details(&one), text);
        assert!(details(&Summary { count: 2, ..one }).starts_with("2 errors since"));
    }
}

//! The signal to stop the server, and the interval at which servers report their state.

use std::time::Duration;

use tokio::sync::watch;

/// Interval at which a server reports its state, and reads the state of other servers.
pub(crate) const BEAT_PAUSE: Duration = Duration::from_secs(1);

/// Returns once the server has to stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a sender no signal to stop can arrive any more, so the server stops too.
    drop(stop.wait_for(|stop| *stop).await);
}

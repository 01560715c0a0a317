//! The order to stop, and the interval of work that looks for it.

use std::time::Duration;

use tokio::sync::watch;

/// Interval at which a server reports its state, and takes in that of others.
pub(crate) const BEAT_PAUSE: Duration = Duration::from_secs(1);

/// Returns once the server has to stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The sender may be gone: then nothing else ends the server in order.
    drop(stop.wait_for(|stop| *stop).await);
}

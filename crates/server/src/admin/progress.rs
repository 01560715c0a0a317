//! Reports of long runs to the administrator who waits for them.

use std::time::Duration;

use store::StoreError;

use crate::sessions::stream::{ReplyStream, streaming};

/// Interval between two reports.
const INTERVAL: Duration = Duration::from_millis(500);

/// Runs `work` on a thread that may block. Returns a stream of progress reports, whose last message
/// is the result. The run ends early if the administrator disconnects.
pub(super) fn report<O: 'static, R: prost::Message + 'static>(
    reply: fn(&O, bool) -> R,
    work: impl FnOnce(&mut dyn FnMut(&O) -> bool) -> Result<O, StoreError> + Send + 'static,
) -> ReplyStream<R> {
    streaming(move |replies| {
        let mut reported_at = sys::clock::monotonic();
        let outcome = work(&mut |outcome| {
            if reported_at.elapsed() < INTERVAL {
                return !replies.is_closed();
            }
            reported_at = sys::clock::monotonic();
            replies.blocking_send(Ok(reply(outcome, false))).is_ok()
        })?;
        replies.blocking_send(Ok(reply(&outcome, true)))
    })
}

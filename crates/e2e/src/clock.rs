//! The only access to the real clock. The harness needs it to wait for real processes.

use std::time::{Duration, Instant};

/// Runs `work`; returns its result and the time that it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = now();
    let result = work();
    (result, begin.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "processes are measured on the real clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits for `duration`, until a moment that no event marks, such as the middle of a run that a
/// test kills.
#[expect(clippy::disallowed_methods, reason = "nothing announces the moment of a kill")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Returns a time between the work before this call and the work after it, as RFC 3339 in whole
/// seconds.
///
/// The call waits before and after that time, so that the time is also right for a server that
/// counts in seconds.
pub fn divide() -> String {
    pause(Duration::from_millis(1100));
    let second = jiff::Timestamp::now().as_second();
    pause(Duration::from_millis(1100));
    jiff::Timestamp::from_second(second)
        .expect("the present is in range")
        .to_string()
}

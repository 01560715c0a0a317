//! The only door to the real clock: the harness waits for real processes.

use std::time::{Duration, Instant};

/// Runs `work`; returns its result and its time.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = now();
    let result = work();
    (result, begin.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "processes are measured on the real clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits for `duration`: for a moment that no event marks, such as the middle of a run that is to
/// be killed.
#[expect(clippy::disallowed_methods, reason = "nothing announces the moment of a kill")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Returns a time between the work before this call and the work after it, as RFC 3339 in whole
/// seconds.
///
/// Waits before and after that time, so that it is also right for a server that counts in seconds.
pub fn divide() -> String {
    pause(Duration::from_millis(1100));
    let second = jiff::Timestamp::now().as_second();
    pause(Duration::from_millis(1100));
    jiff::Timestamp::from_second(second)
        .expect("the present is in range")
        .to_string()
}

//! The only door to the real clock: the harness waits for real processes.

use std::time::{Duration, Instant};

/// Runs `work` and returns what it gave and how long it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = now();
    let result = work();
    (result, begin.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "processes are measured on the real clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Lets `duration` go by: for moments that nothing can announce, as the middle of a run to kill.
#[expect(clippy::disallowed_methods, reason = "nothing announces the moment of a kill")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Returns a time that separates what was done before from what is done after, as RFC 3339 in
/// whole seconds.
///
/// Waits on both sides, so that a server that counts in seconds agrees.
pub fn divide() -> String {
    pause(Duration::from_millis(1100));
    let second = jiff::Timestamp::now().as_second();
    pause(Duration::from_millis(1100));
    jiff::Timestamp::from_second(second)
        .expect("the present is in range")
        .to_string()
}

//! Failed enrolments by origin. After a few of them, a pause follows each further attempt of the
//! origin, so that tokens cannot be guessed at the speed of the network.
//!
//! ```text
//!   admit -> true  -> the token is valid     -> succeeded: the origin is forgotten
//!                  -> the token is not valid -> failed: the count rises
//!   admit -> false -> the attempt is refused; nobody looks at its token
//! ```
//!
//! Nobody waits here: an attempt within a pause is refused, and the answer says for how long.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sys::lock::{Mutex, MutexGuard};

use crate::origin::Origin;

/// Number of failed enrolments that no pause follows: people make mistakes.
const FREE_MAX: u32 = 5;
/// Pause after the first failure that is not free. It doubles with each further failure.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);
/// Time after its last attempt at which an origin is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);
/// Maximum number of origins. With one more, the origin is forgotten whose last attempt is oldest.
const ORIGINS_MAX: usize = 4096;

/// Failed attempts of all origins.
pub struct Guesses<K = Origin> {
    origins: Mutex<BTreeMap<K, Failures>>,
    /// Number of failures that no pause follows.
    free_max: u32,
}

impl<K> Default for Guesses<K> {
    fn default() -> Self {
        Self::with_free(FREE_MAX)
    }
}

impl<K> Guesses<K> {
    /// Counts attempts whose first `free_max` failures no pause follows.
    pub fn with_free(free_max: u32) -> Self {
        Self { origins: Mutex::default(), free_max }
    }
}

/// Failed enrolments of one origin since its last success.
#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    /// Time of the last attempt whose token was looked at.
    last: Instant,
}

impl Failures {
    /// Returns the remaining part of the pause; zero after it.
    fn remaining(&self, free_max: u32, now: Instant) -> Duration {
        pause(self.count, free_max).saturating_sub(now.saturating_duration_since(self.last))
    }
}

/// Returns the pause that follows `failures`, the first `free_max` of which are free.
fn pause(failures: u32, free_max: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(free_max) else { return Duration::ZERO };
    let pause = 2_u32.checked_pow(doublings).and_then(|factor| PAUSE.checked_mul(factor));
    pause.unwrap_or(PAUSE_MAX).min(PAUSE_MAX)
}

impl<K: Ord + Clone> Guesses<K> {
    fn origins(&self) -> MutexGuard<'_, BTreeMap<K, Failures>> {
        self.origins.lock()
    }

    /// Admits an attempt, or returns the time after which the origin may try again.
    ///
    /// After the free failures, one attempt is admitted in each pause, even if several come at
    /// once.
    pub fn admit(&self, origin: &K, now: Instant) -> Result<(), Duration> {
        let mut origins = self.origins();
        let Some(failures) = origins.get_mut(origin) else { return Ok(()) };
        let remaining = failures.remaining(self.free_max, now);
        if !remaining.is_zero() {
            return Err(remaining);
        }
        failures.last = now;
        Ok(())
    }

    /// Returns true if an attempt of the origin is counted as failed.
    pub(crate) fn has_failed(&self, origin: &K) -> bool {
        self.origins().contains_key(origin)
    }

    /// Counts an attempt with a token that is not valid.
    pub fn failed(&self, origin: K, now: Instant) {
        let mut origins = self.origins();
        origins.retain(|_, other| now.saturating_duration_since(other.last) < FORGOTTEN_AFTER);
        let count = origins.get(&origin).map_or(0, |failures| failures.count);
        let failures = Failures { count: count.saturating_add(1), last: now };
        if origins.insert(origin, failures).is_none() && origins.len() > ORIGINS_MAX {
            let oldest = origins.iter().min_by_key(|(_, failures)| failures.last);
            let oldest =
                oldest.map(|(origin, _)| origin.clone()).expect("there are several origins");
            origins.remove(&oldest);
        }
        assert!(origins.len() <= ORIGINS_MAX, "the memory is bounded");
    }

    /// Takes back one failure of an origin: an attempt that was counted has succeeded.
    pub fn withdraw(&self, origin: &K) {
        let mut origins = self.origins();
        if let Some(failures) = origins.get_mut(origin) {
            failures.count = failures.count.saturating_sub(1);
            if failures.count == 0 {
                origins.remove(origin);
            }
        }
    }

    /// Forgets the failures of an origin that has shown a valid token.
    pub fn succeeded(&self, origin: &K) {
        self.origins().remove(origin);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn origin(number: u32) -> Origin {
        Origin::Address(Ipv4Addr::from_bits(number))
    }

    fn after(start: Instant, secs: u64) -> Instant {
        start + Duration::from_secs(secs)
    }

    /// Makes the guesses of an origin that has failed `count` times at `now`.
    fn failed(count: u32, now: Instant) -> Guesses {
        let guesses = Guesses::default();
        (0..count).for_each(|_| guesses.failed(origin(1), now));
        guesses
    }

    #[track_caller]
    fn check(failures: u32, secs: u64) {
        let now = sys::clock::monotonic();
        let guesses = failed(failures, now);
        let expected = if secs == 0 { Ok(()) } else { Err(Duration::from_secs(secs)) };
        assert_eq!(guesses.admit(&origin(1), now), expected, "after {failures} failures");
        assert_eq!(guesses.admit(&origin(1), after(now, secs)), Ok(()));
        assert_eq!(guesses.admit(&origin(2), now), Ok(()), "it is another origin");
    }

    #[test]
    fn the_pause_grows_with_the_failures_and_is_bounded() {
        check(1, 0);
        check(FREE_MAX - 1, 0);
        check(FREE_MAX, 1);
        check(FREE_MAX + 1, 2);
        check(FREE_MAX + 5, 32);
        check(FREE_MAX + 6, 64);
        check(1000, 64);
    }

    #[test]
    fn one_attempt_is_admitted_in_a_pause() {
        let now = sys::clock::monotonic();
        let guesses = failed(FREE_MAX + 1, now);
        let later = after(now, 2);
        assert_eq!(guesses.admit(&origin(1), later), Ok(()));
        assert_eq!(guesses.admit(&origin(1), later), Err(Duration::from_secs(2)));
        guesses.failed(origin(1), later);
        assert_eq!(guesses.admit(&origin(1), after(later, 3)), Err(Duration::from_secs(1)));
    }

    #[test]
    fn a_success_and_time_make_the_server_forget() {
        let now = sys::clock::monotonic();
        let guesses = failed(20, now);
        guesses.succeeded(&origin(1));
        assert_eq!(guesses.admit(&origin(1), now), Ok(()));
        let guesses = failed(20, now);
        let later = now + FORGOTTEN_AFTER;
        guesses.failed(origin(1), later);
        assert_eq!(guesses.admit(&origin(1), later), Ok(()), "the failures of yesterday count");
    }

    #[test]
    fn a_failure_that_was_none_is_taken_back() {
        let now = sys::clock::monotonic();
        let guesses = failed(FREE_MAX, now);
        guesses.withdraw(&origin(1));
        assert_eq!(guesses.admit(&origin(1), now), Ok(()));
        guesses.failed(origin(1), now);
        assert_eq!(guesses.admit(&origin(1), now), Err(Duration::from_secs(1)));
        guesses.withdraw(&origin(2));
    }

    #[test]
    fn more_failures_may_be_free() {
        let (now, guesses) = (sys::clock::monotonic(), Guesses::with_free(20));
        (0..19).for_each(|_| guesses.failed(origin(1), now));
        assert_eq!(guesses.admit(&origin(1), now), Ok(()));
        guesses.failed(origin(1), now);
        assert_eq!(guesses.admit(&origin(1), now), Err(Duration::from_secs(1)));
    }

    #[test]
    fn the_oldest_of_many_origins_is_forgotten() {
        let now = sys::clock::monotonic();
        let guesses = failed(20, now);
        let last = u32::try_from(ORIGINS_MAX).expect("a small number") + 1;
        (2..=last).for_each(|number| guesses.failed(origin(number), after(now, 1)));
        assert_eq!(guesses.origins().len(), ORIGINS_MAX);
        assert_eq!(guesses.admit(&origin(1), now), Ok(()));
    }
}

//! Patience with a server that is away: how long a command waits, and when it gives up. The module
//! is pure.
//!
//! Only the time counts in which the server was away since the command last *got on*, that is,
//! since the server has committed something or has sent something whole. So a backup survives any
//! number of short interruptions, and a server that dies at the same step each time is not asked
//! for ever.

use std::time::Duration;

/// Time for which a command waits unless the user sets another.
pub(crate) const WAIT: Duration = Duration::from_secs(3600);
/// Time that a fleet of servers has to take over from a server that died.
pub(crate) const TAKEOVER: Duration = Duration::from_secs(45);
/// Pause before the first new attempt, and before the next server is tried.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Maximum pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Maximum number of attempts with several servers and without patience.
const SERVERS_TRIED_MAX: u32 = 30;

/// Patience of one command.
#[derive(Debug)]
pub struct Patience {
    limit: Duration,
    /// True if another server can go on with the work. Then a few attempts need no patience.
    is_one_of_several: bool,
    /// Time for which the server was away since the command got on.
    away: Duration,
    /// Number of attempts that failed since then.
    attempts: u32,
    landmark: u64,
}

impl Patience {
    pub fn new(limit: Duration, is_one_of_several: bool) -> Self {
        Self { limit, is_one_of_several, away: Duration::ZERO, attempts: 0, landmark: 0 }
    }

    /// Takes note that an attempt has failed. Returns the pause before the next attempt; `None` if
    /// there is to be none. `landmark` is a number that changes when the command gets on. `found`
    /// is true if a server had answered, so that another one may go on.
    pub fn next(&mut self, landmark: u64, found: bool) -> Option<Duration> {
        if landmark != self.landmark {
            (self.away, self.attempts, self.landmark) = (Duration::ZERO, 0, landmark);
        }
        self.attempts += 1;
        if self.away < self.limit {
            let doublings = (self.attempts - 1).min(8);
            let pause = (PAUSE_MIN * (1 << doublings)).min(PAUSE_MAX);
            return Some(pause.min(self.left()));
        }
        let tries_another = found && self.is_one_of_several && self.attempts < SERVERS_TRIED_MAX;
        tries_another.then_some(PAUSE_MIN)
    }

    /// Takes note that the server was away for `time` more.
    pub fn note_away(&mut self, time: Duration) {
        self.away = self.away.saturating_add(time);
    }

    /// Takes note of the time for which the command waits, if settings have come that change it.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Returns the time for which the command still waits.
    pub fn left(&self) -> Duration {
        self.limit.saturating_sub(self.away)
    }

    /// Returns true if the command waits at all.
    pub fn waits(&self) -> bool {
        !self.limit.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_pause_grows_up_to_a_limit() {
        let mut patience = Patience::new(WAIT, false);
        let pauses: Vec<u64> =
            (0..6).map(|_| patience.next(0, true).expect("it waits").as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
        assert_eq!(patience.next(7, true), Some(SECOND), "the command got on");
    }

    #[test]
    fn nobody_waits_without_patience() {
        assert_eq!(Patience::new(Duration::ZERO, false).next(0, true), None);
        let mut several = Patience::new(Duration::ZERO, true);
        let tries = std::iter::from_fn(|| several.next(0, true)).count();
        assert_eq!(tries, SERVERS_TRIED_MAX as usize - 1);
        let mut none_answers = Patience::new(Duration::ZERO, true);
        assert_eq!(none_answers.next(0, false), None, "there is no other server");
    }

    #[test]
    fn the_last_pause_ends_with_the_limit() {
        let mut patience = Patience::new(5 * SECOND, false);
        patience.next(0, true);
        patience.note_away(4 * SECOND);
        assert_eq!(patience.next(0, true), Some(SECOND));
        patience.note_away(SECOND);
        assert_eq!((patience.next(0, true), patience.left()), (None, Duration::ZERO));
        assert_eq!(patience.next(1, true), Some(SECOND), "the command got on");
    }

    proptest! {
        /// A command that never gets on waits no longer than its limit, however the server fails.
        #[test]
        fn waiting_ends(limit in 0_u64..100, late in prop::collection::vec(0_u64..5, 1..50)) {
            let mut patience = Patience::new(SECOND * u32::try_from(limit).unwrap(), false);
            let mut waited = Duration::ZERO;
            for late in late.into_iter().cycle() {
                let Some(pause) = patience.next(0, true) else { break };
                prop_assert!(!pause.is_zero());
                waited += pause;
                patience.note_away(pause + Duration::from_secs(late));
            }
            prop_assert!(waited <= Duration::from_secs(limit));
        }
    }
}

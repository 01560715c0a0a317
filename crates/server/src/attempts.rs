//! Attempts at enrolment that failed because of their token, by address and by token.
//!
//! The pauses after failures slow those who guess. A machine that tries the same token again and
//! again, as a script does whose token has ended, guesses nothing: such a failure counts once for
//! its address, and the pauses after it are for this token alone. So the other machines behind the
//! same address enrol.

use std::time::{Duration, Instant};

use crate::guesses::Guesses;
use crate::origin::Origin;

/// Failed attempts of all addresses.
#[derive(Default)]
pub(crate) struct EnrolAttempts {
    origins: Guesses,
    tokens: Guesses<FailedToken>,
}

/// A token that failed at an origin, by its hash.
type FailedToken = (Origin, [u8; 32]);

/// An attempt that was admitted.
pub(crate) struct Attempt {
    token: FailedToken,
    /// True if the same token has failed at the same origin before.
    is_repeated: bool,
}

impl EnrolAttempts {
    /// Admits an attempt with the token whose hash is `hash`, or returns the time after which the
    /// attempt may be made.
    pub(crate) fn admit(
        &self,
        origin: Origin,
        hash: [u8; 32],
        now: Instant,
    ) -> Result<Attempt, Duration> {
        let token = (origin, hash);
        let is_repeated = self.tokens.has_failed(&token);
        if is_repeated {
            self.tokens.admit(&token, now)?;
        } else {
            self.origins.admit(&origin, now)?;
        }
        Ok(Attempt { token, is_repeated })
    }

    /// Counts an attempt whose token is not valid.
    pub(crate) fn failed(&self, attempt: &Attempt, now: Instant) {
        let (origin, _) = attempt.token;
        if !attempt.is_repeated {
            self.origins.failed(origin, now);
        }
        self.tokens.failed(attempt.token, now);
    }

    /// Forgets the failures of an origin that has shown a valid token.
    pub(crate) fn succeeded(&self, attempt: &Attempt) {
        let (origin, _) = attempt.token;
        self.origins.succeeded(&origin);
        self.tokens.succeeded(&attempt.token);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const ORIGIN: Origin = Origin::Address(Ipv4Addr::LOCALHOST);

    /// Makes a failed attempt with the token `number`. Returns false if it is not admitted.
    fn fail(attempts: &EnrolAttempts, number: u8, now: Instant) -> bool {
        let admitted = attempts.admit(ORIGIN, [number; 32], now);
        admitted.map(|attempt| attempts.failed(&attempt, now)).is_ok()
    }

    #[test]
    fn a_token_that_fails_again_and_again_slows_itself_alone() {
        let (attempts, now) = (EnrolAttempts::default(), sys::clock::monotonic());
        let admitted = (0..100).filter(|_| fail(&attempts, 1, now)).count();
        assert_eq!(admitted, 5, "its own pauses begin");
        let other = attempts.admit(ORIGIN, [2; 32], now).expect("it is another token");
        attempts.succeeded(&other);
        assert!(!fail(&attempts, 1, now));
    }

    #[test]
    fn different_tokens_of_an_address_are_guesses() {
        let (attempts, now) = (EnrolAttempts::default(), sys::clock::monotonic());
        let admitted = (0..100).filter(|number| fail(&attempts, *number, now)).count();
        assert_eq!(admitted, 5);
    }
}

//! Wait for a server that is away, in the requests of users.

use std::cell::Cell;
use std::time::{Duration, Instant};

use client::{ClientError, ErrorKind, Patience};

/// Maximum pause between two attempts. It is short, because a user waits for the answer.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Interval between two looks whether somebody still wants the result.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Wait of one request, over all its files.
pub(crate) struct ServerWait {
    limit: Duration,
    pause_max: Duration,
    /// True after the server was away for too long. The rest of the request does not wait again.
    is_over: Cell<bool>,
}

impl ServerWait {
    pub(crate) fn at_most(limit: Duration) -> Self {
        Self { limit, pause_max: PAUSE_MAX, is_over: Cell::new(false) }
    }

    /// No wait, for work that begins again by itself.
    pub(crate) fn none() -> Self {
        Self::at_most(Duration::ZERO)
    }

    /// Repeats `attempt` while the server is away, at most for the limit, and as long as `goes_on`
    /// returns true.
    pub(crate) fn until_answered<T>(
        &self,
        goes_on: &dyn Fn() -> bool,
        attempt: &mut dyn FnMut() -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut patience = Patience::new(self.limit, false);
        let mut last_failure: Option<Instant> = None;
        loop {
            let error = match attempt() {
                Err(error) if error.kind == ErrorKind::Retry => error,
                done => return done,
            };
            let before = last_failure.replace(sys::clock::monotonic());
            if let Some(before) = before {
                patience.note_away(before.elapsed());
            }
            let pause = patience.next(0, false).filter(|_| !self.is_over.get());
            let Some(pause) = pause else {
                self.is_over.set(true);
                return Err(error);
            };
            if before.is_none() {
                tracing::warn!(%error, "the server is away; a request of a user waits");
            }
            if !Self::pause(pause.min(self.pause_max), goes_on) {
                return Err(error);
            }
        }
    }

    /// Waits a moment. Returns false as soon as nobody wants the result any more.
    fn pause(length: Duration, goes_on: &dyn Fn() -> bool) -> bool {
        let began = sys::clock::monotonic();
        while goes_on() {
            if began.elapsed() >= length {
                return true;
            }
            sys::clock::sleep(LOOK_INTERVAL.min(length));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(limit: Duration) -> ServerWait {
        ServerWait { pause_max: Duration::ZERO, ..ServerWait::at_most(limit) }
    }

    /// Asks a server that answers after `failures` errors of this kind. Returns the answer, and the
    /// number of attempts.
    fn ask(wait: &ServerWait, kind: ErrorKind, failures: u32) -> (Result<u32, ErrorKind>, u32) {
        let mut attempts = 0;
        let answer = wait.until_answered(&|| true, &mut || {
            attempts += 1;
            if attempts > failures { Ok(7) } else { Err(ClientError::new(kind, "why")) }
        });
        (answer.map_err(|error| error.kind), attempts)
    }

    #[test]
    fn only_a_server_that_is_away_is_asked_again() {
        let hour = wait(Duration::from_secs(3600));
        assert_eq!(ask(&hour, ErrorKind::Retry, 3), (Ok(7), 4));
        assert_eq!(ask(&hour, ErrorKind::Refused, 3), (Err(ErrorKind::Refused), 1));
        assert_eq!(ask(&hour, ErrorKind::Retry, 1), (Ok(7), 2), "it waits for each file");
    }

    #[test]
    fn a_request_gives_up_once() {
        let none = wait(Duration::ZERO);
        assert_eq!(ask(&none, ErrorKind::Retry, 1), (Err(ErrorKind::Retry), 1));
        let over = wait(Duration::from_secs(3600));
        over.is_over.set(true);
        assert_eq!(ask(&over, ErrorKind::Retry, 1), (Err(ErrorKind::Retry), 1));
    }

    #[test]
    fn the_time_between_two_failures_counts() {
        let wait = wait(Duration::from_millis(20));
        let answer: Result<(), _> = wait.until_answered(&|| true, &mut || {
            sys::clock::sleep(Duration::from_millis(5));
            Err(ClientError::new(ErrorKind::Retry, "why"))
        });
        assert!(answer.is_err() && wait.is_over.get());
    }

    #[test]
    fn nobody_waits_for_a_user_who_has_gone() {
        let hour = wait(Duration::from_secs(3600));
        let mut attempts = 0;
        let answer: Result<(), _> = hour.until_answered(&|| false, &mut || {
            attempts += 1;
            Err(ClientError::new(ErrorKind::Retry, "why"))
        });
        assert_eq!((answer.is_err(), attempts), (true, 1));
    }
}

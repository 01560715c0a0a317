//! Limits on the rate of requests: each caller has an allowance that fills up again with time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use sys::lock::Mutex;

use crate::problem::Problem;

/// Maximum number of requests at once.
const ALLOWANCE_MAX: f64 = 400.0;
/// Number of requests a second that an allowance gains.
const GAIN_PER_SEC: f64 = 40.0;
/// Maximum number of callers that are remembered. Whoever is forgotten has the full allowance.
const CALLERS_MAX: usize = 10_000;

/// The allowances of all callers.
#[derive(Default)]
pub(crate) struct Rates {
    callers: Mutex<HashMap<String, Allowance>>,
}

#[derive(Clone, Copy)]
struct Allowance {
    requests: f64,
    at: Instant,
}

/// The state of a caller's allowance after a request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Left {
    requests: f64,
}

impl Allowance {
    /// Returns the allowance at `now`.
    fn grown(self, now: Instant) -> f64 {
        let secs = now.saturating_duration_since(self.at).as_secs_f64();
        (self.requests + secs * GAIN_PER_SEC).min(ALLOWANCE_MAX)
    }
}

impl Rates {
    /// Counts a request of `caller`. Fails if the allowance is used up.
    pub(crate) fn take(&self, caller: &str, now: Instant) -> Result<Left, Problem> {
        let mut callers = self.callers.lock();
        if callers.len() >= CALLERS_MAX {
            callers.retain(|_, allowance| allowance.grown(now) < ALLOWANCE_MAX);
        }
        if callers.len() >= CALLERS_MAX {
            callers.clear();
        }
        let full = Allowance { requests: ALLOWANCE_MAX, at: now };
        let allowance = callers.entry(caller.to_owned()).or_insert(full);
        let requests = allowance.grown(now);
        if requests < 1.0 {
            let pause = Duration::from_secs_f64((1.0 - requests) / GAIN_PER_SEC);
            return Err(Problem::too_many(pause));
        }
        *allowance = Allowance { requests: requests - 1.0, at: now };
        Ok(Left { requests: requests - 1.0 })
    }
}

impl Left {
    /// Adds the headers that tell the limit: the maximum, what is left, and the seconds until the
    /// allowance is full again.
    pub(crate) fn tell(self, headers: &mut HeaderMap) {
        let reset = ((ALLOWANCE_MAX - self.requests) / GAIN_PER_SEC).ceil();
        let values = [
            ("ratelimit-limit", ALLOWANCE_MAX),
            ("ratelimit-remaining", self.requests.floor()),
            ("ratelimit-reset", reset),
        ];
        for (name, value) in values {
            let value = HeaderValue::from_str(&value.to_string()).expect("a number is text");
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_leaves_the_others_alone() {
        let (rates, now) = (Rates::default(), sys::clock::monotonic());
        let taken = (0..500).take_while(|_| rates.take("anna", now).is_ok()).count();
        assert_eq!(taken, 400);
        assert!(rates.take("bert", now).is_ok());
        let later = now + Duration::from_secs(1);
        let taken = (0..500).take_while(|_| rates.take("anna", later).is_ok()).count();
        assert_eq!(taken, 40);
    }

    #[test]
    fn headers_tell_what_is_left() {
        let mut headers = HeaderMap::new();
        let left = Rates::default()
            .take("anna", sys::clock::monotonic())
            .expect("has a full allowance");
        left.tell(&mut headers);
        let value = |name: &str| headers[name].to_str().expect("is text").to_owned();
        assert_eq!(value("ratelimit-limit"), "400");
        assert_eq!(value("ratelimit-remaining"), "399");
        assert_eq!(value("ratelimit-reset"), "1");
    }
}

//! The standing of a caller whose stream is under way: a stream can outlast the right to it, so its
//! thread asks again.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Method};

use crate::authentication::{self, Evidence};
use crate::caller::Caller;
use crate::desk::Desk;
use crate::problem::Kind;

/// Time after which it is asked again whether the caller may still have a stream.
const PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of questions in a row without an answer after which a stream goes on: a minute.
const DOUBTS_MAX: u32 = 12;

/// A caller with a stream, and how the caller is known.
pub(crate) struct Standing {
    desk: Arc<Desk>,
    headers: HeaderMap,
    address: Option<IpAddr>,
    local: Option<String>,
    caller: Caller,
    checked: Instant,
    /// Number of questions in a row that had no answer.
    doubts: u32,
}

impl Standing {
    pub(crate) fn new(desk: &Arc<Desk>, evidence: &Evidence<'_>, caller: &Caller) -> Self {
        Self {
            desk: Arc::clone(desk),
            headers: evidence.headers.clone(),
            address: evidence.address,
            local: evidence.local.clone(),
            caller: caller.clone(),
            checked: sys::clock::monotonic(),
            doubts: 0,
        }
    }

    /// Fails if the caller may no longer have the stream. Asks only if the last answer is old.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        let now = sys::clock::monotonic();
        if now.saturating_duration_since(self.checked) < PAUSE {
            return Ok(());
        }
        self.checked = now;
        match self.is_kept() {
            true => Ok(()),
            false => {
                let text = "the caller may no longer have this";
                Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
            }
        }
    }

    /// Returns true if the caller is known as before, with the same roles. Whoever has other roles
    /// now asks anew.
    fn is_kept(&mut self) -> bool {
        let (method, local) = (&Method::GET, self.local.clone());
        let evidence = Evidence { headers: &self.headers, method, address: self.address, local };
        match authentication::identify(&self.desk, &evidence) {
            Ok(identity) => {
                self.doubts = 0;
                let Caller { person, acting, roles, limit, .. } = identity.caller;
                let before = &self.caller;
                person == before.person
                    && acting == before.acting
                    && roles == before.roles
                    && limit == before.limit
            }
            // Guesses of others from the same place, and a catalogue that is away, say nothing
            // about this caller; but nobody goes on without an answer for long.
            Err(problem) => {
                self.doubts += 1;
                matches!(problem.kind, Kind::TooMany | Kind::Unavailable)
                    && self.doubts <= DOUBTS_MAX
            }
        }
    }
}

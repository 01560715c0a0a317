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

/// A caller with a stream, and how the caller is known.
pub(crate) struct Standing {
    desk: Arc<Desk>,
    headers: HeaderMap,
    address: Option<IpAddr>,
    local: Option<String>,
    caller: Caller,
    checked: Instant,
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
    fn is_kept(&self) -> bool {
        let Self { headers, address, local, .. } = self;
        let (method, local) = (&Method::GET, local.clone());
        let evidence = Evidence { headers, method, address: *address, local };
        match authentication::identify(&self.desk, &evidence) {
            Ok(identity) => {
                let Caller { person, acting, roles, limit, .. } = identity.caller;
                let before = &self.caller;
                person == before.person
                    && acting == before.acting
                    && roles == before.roles
                    && limit == before.limit
            }
            // Guesses of others from the same place say nothing about this caller.
            Err(problem) => problem.kind == Kind::TooMany,
        }
    }
}

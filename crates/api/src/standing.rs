//! The standing of a caller whose stream is under way: a stream can outlast the right to it, so its
//! thread asks again.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Method};
use catalog::{CatalogError, Node};

use crate::authentication::{self, Evidence};
use crate::call::Answer;
use crate::caller::{Caller, Subject};
use crate::desk::Desk;
use crate::problem::Kind;
use crate::roles::{Area, Right};

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
    /// Node whose files the stream has, as it was last seen, and the right that the stream needs.
    node: Option<(Node, (Area, Right))>,
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
            node: None,
            checked: sys::clock::monotonic(),
            doubts: 0,
        }
    }

    /// Adds the node whose files the stream has, if there is one: the stream ends when the caller
    /// loses the right to the node.
    pub(crate) fn with_node(self, node: Option<Node>, rights: (Area, Right)) -> Self {
        Self { node: node.map(|node| (node, rights)), ..self }
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

    /// Returns true if the caller is known as before and may still read the node. A question
    /// without an answer counts as a doubt.
    fn is_kept(&mut self) -> bool {
        match self.is_known().and_then(|is_known| Ok(is_known && self.may_read()?)) {
            Ok(is_kept) => {
                self.doubts = 0;
                is_kept
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

    /// Returns true if the caller is known as before, with the same roles. Whoever has other roles
    /// now asks anew.
    fn is_known(&self) -> Answer<bool> {
        let (method, local) = (&Method::GET, self.local.clone());
        let evidence = Evidence { headers: &self.headers, method, address: self.address, local };
        let Caller { person, acting, roles, limit, .. } =
            authentication::identify(&self.desk, &evidence)?.caller;
        let before = &self.caller;
        Ok(person == before.person
            && acting == before.acting
            && roles == before.roles
            && limit == before.limit)
    }

    /// Returns true if the caller may still read the node of the stream. The node may have another
    /// name meanwhile, and its old name may belong to another node.
    fn may_read(&mut self) -> Answer<bool> {
        let Some((node, (area, right))) = &mut self.node else { return Ok(true) };
        let catalog = &self.desk.store().catalog;
        let named = match catalog.node(&node.name) {
            Ok(named) => Some(named).filter(|named| named.id == node.id),
            Err(CatalogError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let found = match named {
            Some(named) => Some(named),
            None => catalog.nodes()?.into_iter().find(|one| one.id == node.id),
        };
        let Some(found) = found else { return Ok(false) };
        let subject = Subject::of_node(&found, Some(&catalog.node_details(found.id)?));
        *node = found;
        Ok(self.caller.may(*area, *right, subject))
    }
}

//! Membership of a server in the list of the catalogue's servers, as its transactions check it.

use super::session::Request;
use crate::CatalogError;
use crate::sql::{Row, params};

/// Number of a process that is not a server.
pub(super) const NO_SERVER: i64 = 0;
/// Number of a server that has left the list; no row has it.
pub(super) const GONE: i64 = -1;

/// Terms of a transaction: the server is in the list, and knows all condemnations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Number of the server, or [`NO_SERVER`].
    pub(super) server: i64,
    /// Number of condemnations that the server knows; `None` if they make no difference.
    pub(super) generation: Option<u64>,
}

impl Terms {
    /// Returns the question about the server.
    pub(super) fn question(self) -> Result<Request<'static>, CatalogError> {
        Request::of(SELECT, params![self.server])
    }

    /// Returns false if there are condemnations that the server does not know. Fails with `Fenced`
    /// if the server is not in the list. `answer` is the answer to the question.
    pub(super) fn hold(self, answer: &[tokio_postgres::Row]) -> Result<bool, CatalogError> {
        let row = answer.first().ok_or_else(|| CatalogError::impossible("an empty answer"))?;
        let row = Row(row);
        let (generation, member) = (row.get::<u64>(0)?, row.get::<Option<i64>>(1)?);
        if self.server != NO_SERVER && member.is_none() {
            return Err(CatalogError::Fenced);
        }
        Ok(self.generation.is_none_or(|known| known == generation))
    }
}

const SELECT: &str = "SELECT coalesce((SELECT value FROM counter WHERE name = 'generation'), 0),
                        (SELECT id FROM server WHERE id = ?)";

//! Answers to requests that make something, kept so that a request that is repeated makes nothing a
//! second time.

use model::ServerTime;

use crate::CatalogError;

/// A kept answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnswerRow {
    /// The caller, as the service names it, and the key that the caller gave.
    pub caller: String,
    pub key: String,
    /// BLAKE3 of the request.
    pub request: [u8; 32],
    pub made: ServerTime,
    /// Status of HTTP; 0 while the request is carried out.
    pub status: u16,
    pub body: Vec<u8>,
}

/// The kept answers.
pub trait Answers {
    /// Claims a key for a request. Returns the row of an earlier request with this key, if there is
    /// one, and stores nothing then.
    fn claim_answer(&self, row: &AnswerRow) -> Result<Option<AnswerRow>, CatalogError>;

    /// Keeps the answer of a claimed key. Fails with `NotFound`.
    fn put_answer(&self, row: &AnswerRow) -> Result<(), CatalogError>;

    /// Gives up a claimed key, so that the request can be sent again.
    fn drop_answer(&self, caller: &str, key: &str) -> Result<(), CatalogError>;

    /// Removes answers that were made before `before`.
    fn forget_answers(&self, before: ServerTime) -> Result<(), CatalogError>;
}

//! Keys of programs that use the service.

use model::{PersonId, ServerTime};

use crate::CatalogError;

/// A key as the server keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiKeyRow {
    /// Public part of the key.
    pub id: String,
    /// BLAKE3 of the secret part.
    pub hash: [u8; 32],
    /// Person whose rights the key has.
    pub person: PersonId,
    /// Kind of the key. The catalogue does not interpret it.
    pub kind: String,
    pub description: String,
    /// Maximum number of uses that count; `None` without a limit.
    pub uses_max: Option<u32>,
    pub uses: u32,
    pub made: ServerTime,
    pub made_by: String,
    pub expires: Option<ServerTime>,
    pub revoked: Option<ServerTime>,
}

/// The keys of programs.
pub trait ApiKeys {
    /// Stores a new key. Fails with `Exists` for a known id and `NotFound` for an unknown person.
    fn add_api_key(&self, key: &ApiKeyRow) -> Result<(), CatalogError>;

    /// The keys of a person, or all, by the time at which they were made.
    fn api_keys(&self, person: Option<PersonId>) -> Result<Vec<ApiKeyRow>, CatalogError>;

    /// The key with this id, whether it is valid or not. Fails with `NotFound`.
    fn api_key(&self, id: &str) -> Result<ApiKeyRow, CatalogError>;

    /// Counts one use of a key. Returns false if it has no use left. Fails with `NotFound`.
    fn count_use(&self, id: &str) -> Result<bool, CatalogError>;

    /// Ends a key. A key that has ended before stays as it is. Fails with `NotFound`.
    fn revoke_api_key(&self, id: &str, now: ServerTime) -> Result<(), CatalogError>;
}

//! Sign-ins of people: the sessions of browsers.

use model::{PersonId, ServerTime};

use crate::CatalogError;

/// A sign-in as the server keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignInRow {
    /// BLAKE3 of the secret in the browser's cookie.
    pub hash: [u8; 32],
    pub person: PersonId,
    /// Secret that a page sends with each change, so that no other page can send one.
    pub guard: [u8; 16],
    pub made: ServerTime,
    /// Time of the last use, within some minutes.
    pub used: ServerTime,
    pub expires: ServerTime,
    /// Network address of the browser, for people.
    pub origin: String,
}

/// The sign-ins of people.
pub trait SignIns {
    /// Stores a sign-in, and removes those that have expired. Fails with `NotFound` for an unknown
    /// person.
    fn add_sign_in(&self, sign_in: &SignInRow) -> Result<(), CatalogError>;

    /// The sign-in of this hash, if it has not expired at `now`.
    fn sign_in(&self, hash: &[u8; 32], now: ServerTime) -> Result<Option<SignInRow>, CatalogError>;

    /// The sign-ins of a person, the last made first.
    fn sign_ins(&self, person: PersonId) -> Result<Vec<SignInRow>, CatalogError>;

    /// Notes a use. An unknown sign-in is passed over.
    fn note_use(&self, hash: &[u8; 32], now: ServerTime) -> Result<(), CatalogError>;

    /// Ends a sign-in. An unknown sign-in is passed over.
    fn end_sign_in(&self, hash: &[u8; 32]) -> Result<(), CatalogError>;
}

//! Identities of people at providers of OpenID Connect.

use model::{PersonId, ServerTime};

use crate::CatalogError;

/// An identity of a person at a provider of OpenID Connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdentityRow {
    /// Address of the provider.
    pub issuer: String,
    /// Name of the person at the provider, which never changes.
    pub subject: String,
    pub person: PersonId,
    pub made: ServerTime,
}

/// The identities of people.
pub trait Identities {
    /// Adds an identity. Fails with `Exists` for one that belongs to a person, and with `NotFound`
    /// for an unknown person.
    fn add_identity(&self, identity: &IdentityRow) -> Result<(), CatalogError>;

    /// The person to whom the identity belongs.
    fn identity(&self, issuer: &str, subject: &str) -> Result<Option<PersonId>, CatalogError>;

    /// The identities of a person.
    fn identities(&self, person: PersonId) -> Result<Vec<IdentityRow>, CatalogError>;
}

//! Policy domains with their classes.

use model::{ClassId, DomainId, ServerTime};
use policy::{PolicyDomain, PolicySet};

use crate::{CatalogError, EventRow};

/// The policy domains.
pub trait Policies {
    /// All policy domains, by name.
    fn domains(&self) -> Result<Vec<PolicyDomain>, CatalogError>;

    /// Makes a domain with the standard set of classes. Fails with `Exists` for a known name.
    fn add_domain(&self, name: &str, now: ServerTime) -> Result<PolicyDomain, CatalogError>;

    /// Removes a domain. Fails with `NotFound`, and with `Exists` while it has a node.
    fn remove_domain(&self, domain: DomainId) -> Result<(), CatalogError>;

    /// The number of the domain's class called `name`, in upper or lower case. A name keeps its
    /// number for ever; a new name gets a number by chance, which no other class has.
    fn class_number(&self, domain: DomainId, name: &str) -> Result<ClassId, CatalogError>;

    /// Replaces the domain's draft, or removes it.
    fn put_draft(
        &self,
        domain: DomainId,
        draft: Option<&PolicySet>,
        now: ServerTime,
    ) -> Result<(), CatalogError>;

    /// Makes `set` the domain's active set, removes the draft and records `event`. Expiration
    /// examines every version of the domain's nodes again.
    fn activate(
        &self,
        domain: DomainId,
        set: &PolicySet,
        event: &EventRow,
    ) -> Result<(), CatalogError>;
}

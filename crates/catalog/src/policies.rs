//! Policy domains with their classes, and option sets.

use model::{ClassId, DomainId, ServerTime};
use policy::{PolicyDomain, PolicySet};

use crate::{CatalogError, EventRow};

/// Include and exclude statements that the server gives to nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionSet {
    pub name: String,
    /// Statements, as `policy::statement::parse_list` reads them.
    pub text: Vec<u8>,
}

/// The policy domains and the option sets.
pub trait Policies {
    /// All policy domains, by name.
    fn domains(&self) -> Result<Vec<PolicyDomain>, CatalogError>;

    /// Makes a domain with the standard set of classes. Fails with `Exists` for a known name.
    fn add_domain(&self, name: &str, now: ServerTime) -> Result<PolicyDomain, CatalogError>;

    /// Removes a domain. Fails with `NotFound`, and with `Exists` while it has a node.
    fn remove_domain(&self, domain: DomainId) -> Result<(), CatalogError>;

    /// The number of the domain's class called `name`, in upper or lower case. A name keeps its
    /// number for ever; a new name gets a new number.
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

    /// All option sets, by name.
    fn option_sets(&self) -> Result<Vec<OptionSet>, CatalogError>;

    /// Makes or replaces an option set.
    fn put_option_set(&self, set: &OptionSet) -> Result<(), CatalogError>;

    /// Removes an option set, also from the nodes that have it. Fails with `NotFound`.
    fn remove_option_set(&self, name: &str) -> Result<(), CatalogError>;
}

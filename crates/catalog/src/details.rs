//! Details of nodes and domains that only the service needs: owners, descriptions, quotas.

use model::{DomainId, NodeId, PersonId};

use crate::CatalogError;

/// Details of a node. All texts may be empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeDetails {
    pub owner: Option<PersonId>,
    pub hostname: String,
    pub mail: String,
    pub description: String,
    pub platform: String,
    pub application: String,
    pub cost_centre: String,
}

/// Details of a domain, with its limits; a limit that is `None` does not exist.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DomainDetails {
    /// Short name of the customer.
    pub tag: String,
    pub description: String,
    pub nodes_max: Option<u64>,
    /// Maximum number of stored versions of objects: see [`crate::Amount`].
    pub objects_max: Option<u64>,
    pub bytes_max: Option<u64>,
    /// Share of a limit from which there are warnings, in per cent.
    pub warning_percent: u8,
}

/// Details of nodes and domains.
pub trait Details {
    /// The details of a node; the default for a node without them.
    fn node_details(&self, node: NodeId) -> Result<NodeDetails, CatalogError>;

    /// The details of all nodes that have them.
    fn all_node_details(&self) -> Result<Vec<(NodeId, NodeDetails)>, CatalogError>;

    /// The domains of the nodes that a person owns, in the order of their numbers.
    fn domains_of_owner(&self, owner: PersonId) -> Result<Vec<DomainId>, CatalogError>;

    /// Replaces the details of a node. Fails with `NotFound` for an unknown node or owner.
    fn put_node_details(&self, node: NodeId, details: &NodeDetails) -> Result<(), CatalogError>;

    /// The details of a domain; the default for a domain without them.
    fn domain_details(&self, domain: DomainId) -> Result<DomainDetails, CatalogError>;

    /// Replaces the details of a domain. Fails with `NotFound` for an unknown domain.
    fn put_domain_details(
        &self,
        domain: DomainId,
        details: &DomainDetails,
    ) -> Result<(), CatalogError>;
}

//! Callers of operations, and what they may do.

use std::collections::BTreeSet;

use catalog::{Node, NodeDetails};
use model::{DomainId, PersonId, ServerTime};

use crate::problem::Problem;
use crate::roles::{Area, Right, Role, permits};

/// A caller whose identity was checked.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Name for the activity log.
    pub(crate) name: String,
    /// Person whose rights count; `None` for an administrator of this machine, and for a stranger.
    pub(crate) person: Option<PersonId>,
    /// Person who acts in the place of `person`, by the key of an impersonator.
    pub(crate) acting: Option<PersonId>,
    pub(crate) roles: Vec<HeldRole>,
    pub(crate) limit: Limit,
    /// End of the key by which the caller is known; `None` without one or for a key without end.
    pub(crate) key_expires: Option<ServerTime>,
    /// Domains of those who have made the key for the person; `None` without such a limit.
    pub(crate) key_reach: Option<BTreeSet<DomainId>>,
}

/// A role that a caller holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeldRole {
    pub(crate) role: Role,
    /// Domain in which the caller has the role; `None` for everywhere.
    pub(crate) domain: Option<DomainId>,
}

/// Limit of a key on the rights of its person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Limit {
    None,
    ReadOnly,
    /// Only the registration of nodes, each of which counts as a use of the key.
    Enroller {
        key: String,
    },
    /// Empty but open operations: nobody is known.
    Stranger,
}

/// The object of an operation, as far as rights depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    /// Something that is the same for everybody.
    Shared,
    /// Something of the service as a whole.
    Service,
    /// Something of a domain.
    Domain(DomainId),
    /// A node, or something of a node.
    Node { domain: DomainId, owner: Option<PersonId> },
    /// A person: a tenant administrator may see and change people of the domain only.
    Person { person: PersonId, in_domain: Option<DomainId> },
}

impl Subject {
    /// Makes the subject for a node. `details` is `None` for a node that has none.
    pub(crate) fn of_node(node: &Node, details: Option<&NodeDetails>) -> Self {
        Self::Node { domain: node.domain, owner: details.and_then(|details| details.owner) }
    }
}

impl Caller {
    /// Makes the caller for a user of the administration socket.
    pub(crate) fn local(name: String) -> Self {
        let roles = vec![HeldRole { role: Role::System, domain: None }];
        Self { name, roles, limit: Limit::None, ..Self::stranger() }
    }

    /// Makes the caller whom nobody knows.
    pub(crate) fn stranger() -> Self {
        let name = "nobody".to_owned();
        Self {
            name,
            person: None,
            acting: None,
            roles: Vec::new(),
            limit: Limit::Stranger,
            key_expires: None,
            key_reach: None,
        }
    }

    /// Returns true if the caller may do what needs `right` in `area` with `subject`.
    pub(crate) fn may(&self, area: Area, right: Right, subject: Subject) -> bool {
        if !self.key_allows(area, right) {
            return false;
        }
        // An owner has rights to own nodes only. The role in a domain says that the person is one
        // of its customers.
        let mut held = self.roles.iter().filter(|held| held.role != Role::Owner);
        held.any(|held| permits(held.role, area, right) && self.covers(*held, subject))
            || permits(Role::Owner, area, right) && self.owns(subject)
    }

    /// Returns true if the caller may do what needs `right` in `area` with any object at all.
    pub(crate) fn may_somewhere(&self, area: Area, right: Right) -> bool {
        match area {
            Area::Open => true,
            Area::Account => {
                let is_known = self.person.is_some() || self.has_everywhere(Role::System);
                is_known && self.key_allows(area, right)
            }
            _ => {
                let roles = self.roles.iter().map(|held| held.role);
                let owner = self.person.map(|_| Role::Owner);
                self.key_allows(area, right)
                    && roles.chain(owner).any(|role| permits(role, area, right))
            }
        }
    }

    /// Fails if the caller may not do what needs `right` in `area` with `subject`.
    pub(crate) fn check(&self, area: Area, right: Right, subject: Subject) -> Result<(), Problem> {
        if self.may(area, right, subject) { Ok(()) } else { Err(Problem::forbidden()) }
    }

    /// Returns true if the caller has any role in the domain.
    pub(crate) fn belongs_to(&self, domain: DomainId) -> bool {
        self.roles.iter().any(|held| held.domain == Some(domain))
    }

    /// Returns true if the caller may own nodes of the domain.
    pub(crate) fn is_customer_of(&self, domain: DomainId) -> bool {
        let customer = HeldRole { role: Role::Owner, domain: Some(domain) };
        self.roles.contains(&customer)
    }

    /// Returns true if the caller has a role everywhere, as those who run the service have.
    pub(crate) fn is_staff(&self) -> bool {
        self.roles.iter().any(|held| held.domain.is_none())
    }

    /// Returns true if the caller has a role everywhere or in the domain.
    pub(crate) fn works_in(&self, domain: DomainId) -> bool {
        self.is_staff() || self.belongs_to(domain)
    }

    /// Returns the name under which requests of the caller are counted and remembered. No two
    /// persons ever have the same.
    pub(crate) fn account(&self) -> String {
        match (self.person, self.acting) {
            (Some(person), Some(acting)) => format!("person {person} by {acting}"),
            (Some(person), None) => format!("person {person}"),
            (None, _) => self.name.clone(),
        }
    }

    /// Returns true if the caller has the role everywhere.
    pub(crate) fn has_everywhere(&self, role: Role) -> bool {
        self.roles.contains(&HeldRole { role, domain: None })
    }

    fn key_allows(&self, area: Area, right: Right) -> bool {
        match &self.limit {
            Limit::None => true,
            Limit::ReadOnly => right == Right::Read,
            Limit::Enroller { .. } => area == Area::Nodes && right == Right::Write,
            Limit::Stranger => area == Area::Open,
        }
    }

    fn covers(&self, held: HeldRole, subject: Subject) -> bool {
        match (held.domain, subject) {
            (_, Subject::Shared) | (None, _) => true,
            (Some(_), Subject::Service) => false,
            (Some(own), Subject::Domain(domain) | Subject::Node { domain, .. }) => own == domain,
            (Some(own), Subject::Person { in_domain, .. }) => in_domain == Some(own),
        }
    }

    fn owns(&self, subject: Subject) -> bool {
        let Some(own) = self.person else { return false };
        match subject {
            Subject::Shared => true,
            Subject::Node { owner, .. } => owner == Some(own),
            Subject::Person { person, .. } => person == own,
            Subject::Service | Subject::Domain(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: DomainId = DomainId(1);
    const OTHER: DomainId = DomainId(2);

    fn person(roles: &[(Role, Option<DomainId>)]) -> Caller {
        let roles = roles.iter().map(|&(role, domain)| HeldRole { role, domain }).collect();
        let person = Some(PersonId(7));
        Caller {
            name: "anna".to_owned(),
            person,
            acting: None,
            roles,
            limit: Limit::None,
            key_expires: None,
            key_reach: None,
        }
    }

    fn node(domain: DomainId, owner: u32) -> Subject {
        Subject::Node { domain, owner: Some(PersonId(owner)) }
    }

    #[test]
    fn a_role_in_a_domain_covers_that_domain_only() {
        let tenant = person(&[(Role::Tenant, Some(OWN))]);
        let may = |subject| tenant.may(Area::Nodes, Right::Write, subject);
        assert!(may(node(OWN, 9)) && may(Subject::Domain(OWN)));
        assert!(!may(node(OTHER, 9)) && !may(Subject::Domain(OTHER)) && !may(Subject::Service));
        assert!(may(node(OTHER, 7)), "the person owns it");
        assert!(!tenant.may(Area::Domains, Right::Write, Subject::Domain(OWN)));
        assert!(!tenant.may(Area::Log, Right::Read, Subject::Service));
    }

    #[test]
    fn an_owner_sees_own_nodes_only() {
        let owner = person(&[]);
        let may = |area, right, subject| owner.may(area, right, subject);
        assert!(may(Area::Contents, Right::Read, node(OWN, 7)));
        assert!(!may(Area::Contents, Right::Read, node(OWN, 8)));
        assert!(!may(Area::Storage, Right::Read, Subject::Service));
        assert!(may(Area::Schedules, Right::Read, Subject::Shared));
        assert!(owner.may_somewhere(Area::Nodes, Right::Write));
        assert!(!owner.may_somewhere(Area::Log, Right::Read));
    }

    #[test]
    fn a_customer_owns_no_node_of_others() {
        let customer = person(&[(Role::Owner, Some(OWN))]);
        for right in [Right::Read, Right::Write] {
            assert!(!customer.may(Area::Nodes, right, node(OWN, 9)));
            assert!(!customer.may(Area::Contents, right, node(OWN, 9)));
            assert!(!customer.may(Area::Nodes, right, Subject::Domain(OWN)));
        }
        assert!(customer.may(Area::Contents, Right::Read, node(OWN, 7)));
    }

    #[test]
    fn a_key_takes_rights_and_gives_none() {
        let system = person(&[(Role::System, None)]);
        let limited = |limit| Caller { limit, ..system.clone() };
        let reader = limited(Limit::ReadOnly);
        assert!(reader.may(Area::Storage, Right::Read, Subject::Service));
        assert!(!reader.may(Area::Storage, Right::Write, Subject::Service));
        assert!(!reader.may_somewhere(Area::Account, Right::Write));
        let enroller = limited(Limit::Enroller { key: "k".to_owned() });
        assert!(enroller.may(Area::Nodes, Right::Write, node(OWN, 1)));
        assert!(!enroller.may(Area::Nodes, Right::Read, node(OWN, 1)));
        let stranger = Caller::stranger();
        assert!(stranger.may_somewhere(Area::Open, Right::Write));
        assert!(!stranger.may_somewhere(Area::Service, Right::Read));
    }
}

//! Recipients: those who run the service, the administrators of each domain, and the owners of
//! nodes.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Catalog, Person};
use model::{DomainId, NodeId, PersonId};
use store::StoreError;
use store::folder::AlertSettings;

/// The name of the role of those who administer a domain.
const TENANT: &str = "tenant";
pub(crate) const MAIL: &str = "mail";
pub(crate) const WEBHOOK: &str = "webhook";
/// Channel of mails with the report of a month.
pub(crate) const REPORT: &str = "report";

/// Way and address of a recipient.
pub(crate) type Address = (&'static str, String);

/// Recipients who are told the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Audience {
    /// The domain that they may hear of; `None` for everything.
    pub(crate) domain: Option<DomainId>,
    pub(crate) addresses: Vec<Address>,
}

/// A person with mail who owns nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) person: PersonId,
    pub(crate) address: Address,
    /// The own nodes, but for those of which the same address hears anyway.
    pub(crate) nodes: BTreeSet<NodeId>,
}

/// A person with mail who administers a domain.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Tenant {
    domain: DomainId,
    mail: String,
}

impl Audience {
    /// Returns true if the recipients may hear of something of `domain`.
    pub(crate) fn hears_of(&self, domain: Option<DomainId>) -> bool {
        self.domain.is_none() || self.domain == domain
    }
}

/// Returns all audiences that have a recipient.
pub(crate) fn audiences(
    catalog: &dyn Catalog,
    settings: &AlertSettings,
) -> Result<Vec<Audience>, StoreError> {
    let tenants = match settings.tenants && settings.mail.is_some() {
        true => tenants(catalog, &catalog.people()?)?,
        false => Vec::new(),
    };
    Ok(group(settings, &tenants))
}

/// Returns the owners of nodes who are told of them.
pub(crate) fn owners(
    catalog: &dyn Catalog,
    settings: &AlertSettings,
) -> Result<Vec<Owner>, StoreError> {
    let Some(staff) = settings.mail.as_ref().filter(|_| settings.tenants) else {
        return Ok(Vec::new());
    };
    let nodes = catalog.nodes()?.into_iter().map(|node| (node.id, node.domain));
    let domains: BTreeMap<NodeId, DomainId> = nodes.collect();
    let mut owned: BTreeMap<PersonId, BTreeSet<NodeId>> = BTreeMap::new();
    for (node, details) in catalog.all_node_details()? {
        if let Some(owner) = details.owner {
            owned.entry(owner).or_default().insert(node);
        }
    }
    let people = catalog.people()?;
    let tenants = tenants(catalog, &people)?;
    let mut owners = Vec::new();
    for person in people {
        let Some(mut nodes) = owned.remove(&person.id) else { continue };
        let is_own = |address: &String| address.eq_ignore_ascii_case(&person.mail);
        if person.locked || person.mail.is_empty() || staff.to.iter().any(is_own) {
            continue;
        }
        let own = tenants.iter().filter(|tenant| is_own(&tenant.mail));
        let administered: BTreeSet<DomainId> = own.map(|tenant| tenant.domain).collect();
        nodes.retain(|node| {
            let domain = domains.get(node);
            domain.is_none_or(|domain| !administered.contains(domain))
        });
        if !nodes.is_empty() {
            owners.push(Owner { person: person.id, address: (MAIL, person.mail), nodes });
        }
    }
    Ok(owners)
}

fn tenants(catalog: &dyn Catalog, people: &[Person]) -> Result<Vec<Tenant>, StoreError> {
    let mail_of = |id: PersonId| {
        let person = people.iter().find(|person| person.id == id && !person.locked)?;
        (!person.mail.is_empty()).then(|| person.mail.clone())
    };
    let roles = catalog.roles(None)?.into_iter().filter(|role| role.role == TENANT);
    let tenant =
        |role: catalog::RoleRow| Some(Tenant { domain: role.domain?, mail: mail_of(role.person)? });
    Ok(roles.filter_map(tenant).collect())
}

fn group(settings: &AlertSettings, tenants: &[Tenant]) -> Vec<Audience> {
    let staff = settings.mail.iter().flat_map(|mail| &mail.to).map(|to| (MAIL, to.clone()));
    let webhooks = settings.webhooks.iter().map(|webhook| (WEBHOOK, webhook.name.clone()));
    let mut all = vec![Audience { domain: None, addresses: staff.chain(webhooks).collect() }];
    for tenant in tenants {
        let address = (MAIL, tenant.mail.clone());
        match all.iter_mut().find(|audience| audience.domain == Some(tenant.domain)) {
            Some(audience) => audience.addresses.push(address),
            None => {
                all.push(Audience { domain: Some(tenant.domain), addresses: vec![address] });
            }
        }
    }
    for audience in &mut all {
        audience.addresses.sort_unstable();
        audience.addresses.dedup();
    }
    all.retain(|audience| !audience.addresses.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use catalog::sqlite::Sqlite;
    use catalog::{
        Details as _, NewPerson, NodeDetails, Nodes as _, People as _, PersonChange, Policies as _,
        RoleRow,
    };
    use model::{NodeName, ServerTime};
    use store::folder::{MailEncryption, MailSettings, WebhookSettings};

    use super::*;

    fn settings(tenants: bool) -> AlertSettings {
        let mail = MailSettings {
            server: "localhost:25".to_owned(),
            encryption: MailEncryption::None,
            from: "holdfast@example.org".to_owned(),
            to: vec!["ops@example.org".to_owned()],
            user: None,
            password_file: None,
            authority: None,
        };
        let webhook = WebhookSettings {
            name: "chat".to_owned(),
            url: "https://chat.example.org".to_owned(),
            secret_file: None,
            authority: None,
        };
        AlertSettings {
            tenants,
            mail: Some(mail),
            webhooks: vec![webhook],
            ..AlertSettings::default()
        }
    }

    /// Registers a person with the role in the domain.
    fn add(catalog: &Sqlite, login: &str, mail: &str, role: &str, domain: u32) -> PersonId {
        let person = NewPerson {
            login: login.to_owned(),
            name: String::new(),
            mail: mail.to_owned(),
            cost_centres: Vec::new(),
            password: None,
            roles: Vec::new(),
            made: ServerTime(1),
            made_by: "test".to_owned(),
        };
        let person = catalog.add_person(&person).expect("is added").id;
        let role = RoleRow { person, role: role.to_owned(), domain: Some(DomainId(domain)) };
        catalog.set_roles(person, &[role]).expect("is set");
        person
    }

    #[test]
    fn the_administrators_of_a_domain_hear_of_their_domain_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let catalog = Sqlite::open(&folder.path().join("catalogue")).expect("opens");
        for name in ["SECOND", "THIRD", "FOURTH", "FIFTH"] {
            catalog.add_domain(name, ServerTime(1)).expect("is made");
        }
        add(&catalog, "anna", "anna@example.org", "tenant", 2);
        add(&catalog, "bert", "bert@example.org", "tenant", 2);
        add(&catalog, "carl", "", "tenant", 3);
        add(&catalog, "dora", "dora@example.org", "owner", 4);
        let locked = add(&catalog, "emil", "emil@example.org", "tenant", 5);
        let lock = PersonChange { locked: Some(true), ..PersonChange::default() };
        catalog.change_person(locked, &lock).expect("is locked");
        let all = audiences(&catalog, &settings(true)).expect("are found");
        let staff = Audience {
            domain: None,
            addresses: vec![(MAIL, "ops@example.org".to_owned()), (WEBHOOK, "chat".to_owned())],
        };
        let tenants = Audience {
            domain: Some(DomainId(2)),
            addresses: vec![
                (MAIL, "anna@example.org".to_owned()),
                (MAIL, "bert@example.org".to_owned()),
            ],
        };
        assert_eq!(all, [staff.clone(), tenants.clone()]);
        assert!(staff.hears_of(None) && staff.hears_of(Some(DomainId(2))));
        assert!(tenants.hears_of(Some(DomainId(2))));
        assert!(!tenants.hears_of(None) && !tenants.hears_of(Some(DomainId(3))));
        let few = audiences(&catalog, &settings(false)).expect("are found");
        assert_eq!(few, [staff]);
    }

    #[test]
    fn an_owner_hears_of_own_nodes_of_which_the_address_does_not_hear_anyway() {
        let folder = tempfile::tempdir().expect("a folder");
        let catalog = Sqlite::open(&folder.path().join("catalogue")).expect("opens");
        for name in ["SECOND", "THIRD"] {
            catalog.add_domain(name, ServerTime(1)).expect("is made");
        }
        let add_node = |name: &str, domain: &str, owner: PersonId| {
            let name = NodeName::new(name).expect("a name");
            let node = catalog.add_node(&name, domain, ServerTime(1)).expect("is added").id;
            let details = NodeDetails { owner: Some(owner), ..NodeDetails::default() };
            catalog.put_node_details(node, &details).expect("are put");
            node
        };
        let anna = add(&catalog, "anna", "anna@example.org", "owner", 2);
        let bert = add(&catalog, "bert", "bert@example.org", "tenant", 2);
        let ops = add(&catalog, "ops", "ops@example.org", "owner", 2);
        let carl = add(&catalog, "carl", "", "owner", 2);
        let emil = add(&catalog, "emil", "emil@example.org", "owner", 2);
        let lock = PersonChange { locked: Some(true), ..PersonChange::default() };
        catalog.change_person(emil, &lock).expect("is locked");
        let of_anna = ["a-1", "a-2"].map(|name| add_node(name, "SECOND", anna));
        add_node("b-1", "SECOND", bert);
        let of_bert = add_node("b-2", "THIRD", bert);
        for (name, owner) in [("o-1", ops), ("c-1", carl), ("e-1", emil)] {
            add_node(name, "SECOND", owner);
        }
        let expected = [
            Owner {
                person: anna,
                address: (MAIL, "anna@example.org".to_owned()),
                nodes: of_anna.into(),
            },
            Owner {
                person: bert,
                address: (MAIL, "bert@example.org".to_owned()),
                nodes: [of_bert].into(),
            },
        ];
        assert_eq!(owners(&catalog, &settings(true)).expect("are found"), expected);
        assert_eq!(owners(&catalog, &settings(false)).expect("are found"), []);
    }

    #[test]
    fn nobody_is_no_audience() {
        assert_eq!(group(&AlertSettings::default(), &[]), []);
    }
}

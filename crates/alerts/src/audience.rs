//! Recipients: those who run the service, and the administrators of each domain.

use catalog::Catalog;
use model::{DomainId, PersonId};
use store::StoreError;
use store::folder::AlertSettings;

/// The name of the role of those who administer a domain.
const TENANT: &str = "tenant";
pub(crate) const MAIL: &str = "mail";
pub(crate) const WEBHOOK: &str = "webhook";
/// Channel of mails with the report of a month.
pub(crate) const REPORT: &str = "report";

/// Recipients who are told the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Audience {
    /// The domain that they may hear of; `None` for everything.
    pub(crate) domain: Option<DomainId>,
    /// Ways and addresses.
    pub(crate) addresses: Vec<(&'static str, String)>,
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
    let tenants =
        if settings.tenants && settings.mail.is_some() { tenants(catalog)? } else { Vec::new() };
    Ok(group(settings, &tenants))
}

fn tenants(catalog: &dyn Catalog) -> Result<Vec<Tenant>, StoreError> {
    let people = catalog.people()?;
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
    use catalog::{NewPerson, People as _, PersonChange, Policies as _, RoleRow};
    use model::ServerTime;
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
    fn nobody_is_no_audience() {
        assert_eq!(group(&AlertSettings::default(), &[]), []);
    }
}

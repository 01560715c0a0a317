//! People and their roles.

use std::collections::BTreeSet;
use std::fmt;

use catalog::{CatalogError, IdentityRow, NewPerson, Person, PersonChange, RoleRow};
use model::{DomainId, PersonId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::changes::Changes;
use store::nodes::note;

use crate::call::{Answer, Call};
use crate::caller::{Caller, Subject};
use crate::cursor::Portion;
use crate::desk::Desk;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::passwords;
use crate::patch::Patch;
use crate::problem::Problem;
use crate::roles::{Area, Right, Role};
use crate::routes::Routes;

/// Number that no person has.
const NOBODY: PersonId = PersonId(u32::MAX);
/// Maximum length of a text about a person, in bytes, and of a list of cost centres.
const TEXT_BYTES_MAX: usize = 200;
const COST_CENTRES_MAX: usize = 50;
/// Maximum number of identities of a person.
const IDENTITIES_MAX: usize = 20;

/// A role that a person has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RoleDocument {
    role: Role,
    /// Name of the domain in which the person has the role; absent for everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
}

impl fmt::Display for RoleDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.role.name())?;
        self.domain.iter().try_for_each(|domain| write!(f, "@{domain}"))
    }
}

/// A person.
#[derive(Serialize, JsonSchema)]
struct PersonDocument {
    login: String,
    name: String,
    mail: String,
    cost_centres: Vec<String>,
    roles: Vec<RoleDocument>,
    has_password: bool,
    has_second_factor: bool,
    identities: Vec<IdentityDocument>,
    locked: bool,
    made: Time,
    made_by: String,
}

/// An identity of a person at a provider of OpenID Connect.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct IdentityDocument {
    /// Address of the provider.
    issuer: String,
    /// Name of the person at the provider, which never changes.
    subject: String,
}

impl fmt::Display for IdentityDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.subject, self.issuer)
    }
}

/// A person who is registered.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewPersonBody {
    /// Name with which the person signs in: 1 to 64 letters, digits, '.', '-', '_' or '@'.
    login: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    mail: String,
    #[serde(default)]
    cost_centres: Vec<String>,
    /// First password. Without one, the person has no way to sign in by itself.
    password: Option<String>,
    #[serde(default)]
    roles: Vec<RoleDocument>,
}

/// A change of a person. A field that is absent leaves its value as it is, and null empties a text
/// or a list.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct PersonChangeBody {
    name: Patch<String>,
    mail: Patch<String>,
    cost_centres: Patch<Vec<String>>,
    password: Patch<String>,
    /// False to remove the second factor of a person who has lost it.
    has_second_factor: Patch<bool>,
    locked: Patch<bool>,
    /// All roles of the person.
    roles: Patch<Vec<RoleDocument>>,
    /// All identities of the person, for those who run the service. Whoever has one of them signs
    /// in as this person. A change ends all sign-ins of the person.
    identities: Patch<Vec<IdentityDocument>>,
}

/// The changes that a body asks for; `None` leaves a value as it is.
struct PersonOrder {
    name: Option<String>,
    mail: Option<String>,
    cost_centres: Option<Vec<String>>,
    password: Option<String>,
    loses_second_factor: bool,
    locked: Option<bool>,
    roles: Option<Vec<RoleDocument>>,
    identities: Option<Vec<IdentityDocument>>,
}

#[derive(Deserialize, JsonSchema)]
struct PersonPath {
    /// Login of the person.
    person: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only people with a role in this domain.
    domain: Option<String>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let (all, one) = ("/v1/users", "/v1/users/{person}");
    let summary = "Lists people";
    routes.add(Operation::read("users.list", all, Area::People, summary), list);
    let summary = "Registers a person";
    let operation = Operation::post("users.add", all, Area::People, summary);
    let body = json!({
        "login": "anna",
        "name": "Anna Berg",
        "mail": "anna@lab.example",
        "cost_centres": ["C-17"],
        "password": "correct horse battery",
        "roles": [{ "role": "tenant", "domain": "LAB" }],
    });
    routes.make(operation.example("tenant", body), register);
    let summary = "Describes a person";
    routes.add(Operation::read("users.get", one, Area::People, summary), get);
    let summary = "Changes a person";
    let operation = Operation::patch("users.change", one, Area::People, summary)
        .example("mail", json!({ "mail": "anna@lab.example", "cost_centres": ["C-17", "C-18"] }));
    routes.change(operation, current, change);
    let summary = "Removes a person with roles, keys and sign-ins";
    routes.change(Operation::delete("users.remove", one, Area::People, summary), current, remove);
}

/// Returns the roles of a person as documents.
pub(super) fn roles_of(desk: &Desk, person: PersonId) -> Answer<Vec<RoleDocument>> {
    let catalog = &desk.store().catalog;
    let rows = catalog.roles(Some(person))?;
    let domains = if rows.is_empty() { Vec::new() } else { catalog.domains()? };
    let describe = |row: RoleRow| {
        let named = |id: DomainId| domains.iter().find(|domain| domain.id == id);
        let domain = row.domain.and_then(named).map(|domain| domain.name.clone());
        Some(RoleDocument { role: Role::of_name(&row.role)?, domain })
    };
    Ok(rows.into_iter().filter_map(describe).collect())
}

fn describe_identity(row: IdentityRow) -> IdentityDocument {
    IdentityDocument { issuer: row.issuer, subject: row.subject }
}

fn describe(desk: &Desk, person: Person) -> Answer<PersonDocument> {
    let identities = desk.store().catalog.identities(person.id)?;
    Ok(PersonDocument {
        roles: roles_of(desk, person.id)?,
        login: person.login,
        name: person.name,
        mail: person.mail,
        cost_centres: person.cost_centres,
        has_password: person.password.is_some(),
        has_second_factor: person.second_factor.is_some(),
        identities: identities.into_iter().map(describe_identity).collect(),
        locked: person.locked,
        made: Time(person.made),
        made_by: person.made_by,
    })
}

/// Returns the person as rights depend on it. A person belongs to a domain if all roles of the
/// person, and all nodes that the person owns, are in it.
fn subject(desk: &Desk, person: PersonId) -> Answer<Subject> {
    let catalog = &desk.store().catalog;
    let roles = catalog.roles(Some(person))?;
    let owned = catalog.domains_of_owner(person)?;
    let domains: BTreeSet<Option<DomainId>> = roles.into_iter().map(|row| row.domain).collect();
    let in_domain = match &domains.into_iter().collect::<Vec<_>>()[..] {
        [Some(only)] if owned.iter().all(|domain| domain == only) => Some(*only),
        _ => None,
    };
    Ok(Subject::Person { person, in_domain })
}

/// Finds a person with whom the caller may do what needs `right`.
pub(super) fn find(desk: &Desk, caller: &Caller, login: &str, right: Right) -> Answer<Person> {
    let found = desk.store().catalog.person(login);
    require(desk, caller, found, right)?.ok_or_else(|| Problem::not_found("user", login))
}

/// Finds a person by number, as [`find`] does. Returns `None` for a person whom the caller may not
/// see. Without a number, takes the questions of a person who does not exist.
pub(super) fn find_numbered(
    desk: &Desk,
    caller: &Caller,
    person: Option<PersonId>,
    right: Right,
) -> Answer<Option<Person>> {
    let found = desk.store().catalog.person_numbered(person.unwrap_or(NOBODY));
    require(desk, caller, found, right)
}

/// Returns the found person if the caller may see it, and fails if the caller may not do what needs
/// `right`. A person who does not exist takes the same questions as one of others.
fn require(
    desk: &Desk,
    caller: &Caller,
    found: Result<Person, CatalogError>,
    right: Right,
) -> Answer<Option<Person>> {
    let person = match found {
        Ok(person) => Some(person),
        Err(CatalogError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let subject = subject(desk, person.as_ref().map_or(NOBODY, |person| person.id))?;
    if person.is_none() || !caller.may(Area::People, Right::Read, subject) {
        return Ok(None);
    }
    caller.check(Area::People, right, subject)?;
    Ok(person)
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<PersonDocument>> {
    let portion = Portion::parse(call.query.limit, call.query.cursor.as_deref())?;
    let catalog = &call.desk.store().catalog;
    let mut people = Vec::new();
    for person in catalog.people()? {
        if call.caller.may(Area::People, Right::Read, subject(&call.desk, person.id)?) {
            people.push(person);
        }
    }
    if let Some(name) = &call.query.domain {
        let domain = super::domains::find(&call.desk, &call.caller, name)?.id;
        let roles = catalog.roles(None)?;
        people.retain(|person| {
            roles.iter().any(|row| row.person == person.id && row.domain == Some(domain))
        });
    }
    let page = portion.page_of(people, |person| person.login.to_ascii_lowercase().into_bytes());
    let items = page.items.into_iter().map(|person| describe(&call.desk, person));
    Ok(Page { items: items.collect::<Result<_, _>>()?, next: page.next })
}

fn get(call: &mut Call<PersonPath, Empty, Empty>) -> Answer<PersonDocument> {
    let person = find(&call.desk, &call.caller, &call.path.person, Right::Read)?;
    describe(&call.desk, person)
}

fn current(desk: &std::sync::Arc<Desk>, caller: &Caller, path: &PersonPath) -> Answer<Vec<u8>> {
    let person = find(desk, caller, &path.person, Right::Write)?;
    Ok(crate::routes::document(&describe(desk, person)?))
}

fn check_text(text: &str, what: &str) -> Answer<()> {
    if text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control) {
        return Ok(());
    }
    let text = format!("{what} has at most {TEXT_BYTES_MAX} bytes, and no control characters");
    Err(Problem::invalid(text))
}

/// Checks an address for mail, which may be empty.
fn check_mail(mail: &str) -> Answer<()> {
    check_text(mail, "an address for mail")?;
    if mail.is_empty() || alerts::is_address(mail) {
        return Ok(());
    }
    Err(Problem::invalid(format!("'{mail}' is not an address for mail, as in anna@example.org")))
}

/// Returns a text about a person as it can be kept: without control characters, and cut at its
/// maximum length.
pub(super) fn bounded(text: &str) -> String {
    let mut text: String = text.chars().filter(|one| !one.is_control()).collect();
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

/// Returns the rows of the identities that a person gets.
fn identities(person: PersonId, all: &[IdentityDocument]) -> Answer<Vec<IdentityRow>> {
    if all.len() > IDENTITIES_MAX {
        let text = format!("a person has at most {IDENTITIES_MAX} identities");
        return Err(Problem::invalid(text));
    }
    let made = sys::clock::now();
    let row = |one: &IdentityDocument| {
        check_text(&one.issuer, "an issuer")?;
        check_text(&one.subject, "a subject")?;
        if one.issuer.is_empty() || one.subject.is_empty() {
            return Err(Problem::invalid("an identity has an issuer and a subject"));
        }
        let IdentityDocument { issuer, subject } = one.clone();
        Ok(IdentityRow { issuer, subject, person, made })
    };
    all.iter().map(row).collect()
}

fn check_cost_centres(cost_centres: &[String]) -> Answer<()> {
    if cost_centres.len() > COST_CENTRES_MAX {
        let text = format!("a person has at most {COST_CENTRES_MAX} cost centres");
        return Err(Problem::invalid(text));
    }
    cost_centres.iter().try_for_each(|one| check_text(one, "a cost centre"))
}

pub(super) fn check_login(login: &str) -> Answer<()> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_@".contains(&byte);
    if (1..=64).contains(&login.len()) && login.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(Problem::invalid("a login has 1 to 64 letters, digits, '.', '-', '_' or '@'"))
}

/// Returns the rows of roles that the caller gives to a person.
fn grant(desk: &Desk, caller: &Caller, roles: &[RoleDocument]) -> Answer<Vec<RoleRow>> {
    let row = |document: &RoleDocument| {
        let domain = match &document.domain {
            Some(name) => Some(super::domains::find(desk, caller, name)?.id),
            None => None,
        };
        check_grant(caller, document.role, domain)?;
        let role = document.role.name().to_owned();
        // The number of the person is not known yet, and does not count.
        Ok(RoleRow { person: PersonId(0), role, domain })
    };
    roles.iter().map(row).collect()
}

/// Fails if the caller may not give this role: only the system role gives all, and an administrator
/// of a domain gives the roles of its customers.
fn check_grant(caller: &Caller, role: Role, domain: Option<DomainId>) -> Answer<()> {
    if caller.has_everywhere(Role::System) {
        return match (role, domain) {
            (Role::Tenant | Role::Owner, None) => {
                let text = format!("name the domain in which the person is {}", role.name());
                Err(Problem::invalid(text))
            }
            _ => Ok(()),
        };
    }
    let is_of_customers = matches!(role, Role::Tenant | Role::Owner);
    match domain {
        Some(domain) if is_of_customers => {
            caller.check(Area::People, Right::Write, Subject::Domain(domain))
        }
        _ => Err(Problem::forbidden()),
    }
}

fn register(call: &mut Call<Empty, Empty, NewPersonBody>) -> Answer<PersonDocument> {
    let body = &call.body;
    check_login(&body.login)?;
    check_text(&body.name, "a name")?;
    check_mail(&body.mail)?;
    check_cost_centres(&body.cost_centres)?;
    let roles = grant(&call.desk, &call.caller, &body.roles)?;
    if roles.is_empty() && !call.caller.has_everywhere(Role::System) {
        let text = "give the person a role in your domain: owner, or tenant";
        return Err(Problem::invalid(text));
    }
    if let Some(password) = &body.password {
        passwords::check_rules(&body.login, password)?;
    }
    if call.desk.store().catalog.person(&body.login).is_ok() {
        return Err(taken(&body.login));
    }
    let person = NewPerson {
        login: body.login.clone(),
        name: body.name.clone(),
        mail: body.mail.clone(),
        cost_centres: body.cost_centres.clone(),
        password: body.password.as_deref().map(|password| call.desk.passwords.hash(password)),
        roles,
        made: sys::clock::now(),
        made_by: call.caller.name.clone(),
    };
    let store = call.desk.store();
    let person = match store.catalog.add_person(&person) {
        Err(CatalogError::Exists { .. }) => {
            return Err(taken(&person.login));
        }
        added => added?,
    };
    let roles: Vec<String> = body.roles.iter().map(ToString::to_string).collect();
    let roles = if roles.is_empty() { "no role".to_owned() } else { roles.join(" ") };
    note(store, &call.caller.name, "person added", format!("{}: {roles}", person.login))?;
    describe(&call.desk, person)
}

fn taken(login: &str) -> Problem {
    Problem::conflict(format!("the login '{login}' is taken; choose another one"))
}

impl PersonOrder {
    fn parse(body: &PersonChangeBody) -> Answer<Self> {
        let has_second_factor = body.has_second_factor.required("has_second_factor")?;
        if has_second_factor == Some(true) {
            return Err(Problem::invalid("only the person can set a second factor"));
        }
        let order = Self {
            name: body.name.clone().emptied(),
            mail: body.mail.clone().emptied(),
            cost_centres: body.cost_centres.clone().emptied(),
            password: body.password.clone().required("password")?,
            loses_second_factor: has_second_factor.is_some(),
            locked: body.locked.required("locked")?,
            roles: body.roles.clone().emptied(),
            identities: body.identities.clone().emptied(),
        };
        order.name.iter().try_for_each(|name| check_text(name, "a name"))?;
        order.mail.iter().try_for_each(|mail| check_mail(mail))?;
        order.cost_centres.iter().try_for_each(|all| check_cost_centres(all))?;
        Ok(order)
    }
}

/// Fails if the caller may not make these changes of the person: those of the own sign-in are made
/// elsewhere, and identities are for those who run the service.
fn check_change(caller: &Caller, person: &Person, order: &PersonOrder) -> Answer<()> {
    if let Some(password) = &order.password {
        passwords::check_rules(&person.login, password)?;
    }
    let is_self = caller.person == Some(person.id);
    if is_self && (order.password.is_some() || order.loses_second_factor) {
        let text = "change your own password and second factor at /v1/account, with the old ones";
        return Err(Problem::conflict(text));
    }
    if order.locked == Some(true) && is_self {
        return Err(Problem::conflict("nobody locks out oneself; another person can"));
    }
    let is_system = caller.has_everywhere(Role::System);
    if order.roles.as_ref().is_some_and(Vec::is_empty) && !is_system {
        let text = "a person keeps a role in your domain; or remove the person";
        return Err(Problem::invalid(text));
    }
    if order.identities.is_some() && !is_system {
        return Err(Problem::forbidden());
    }
    Ok(())
}

fn is_everything(role: &RoleRow) -> bool {
    role.role == Role::System.name() && role.domain.is_none()
}

/// Fails if a change takes the role system from the last person who can use it. The administrator
/// of the machine may do so, and can give the role again.
fn check_last(desk: &Desk, caller: &Caller, person: &Person, roles: &[RoleRow]) -> Answer<()> {
    if caller.person.is_none() || roles.iter().any(is_everything) {
        return Ok(());
    }
    let catalog = &desk.store().catalog;
    let mut holders = catalog.roles(None)?;
    holders.retain(is_everything);
    let (mut is_holder, mut has_others) = (false, false);
    for one in catalog.people()? {
        let holds = holders.iter().any(|role| role.person == one.id);
        is_holder |= holds && one.id == person.id;
        has_others |= holds && one.id != person.id && !one.locked;
    }
    if !is_holder || has_others {
        return Ok(());
    }
    let login = &person.login;
    let text = format!(
        "'{login}' is the last person who may do everything, and keeps the role system; give it to \
         another person first"
    );
    Err(Problem::conflict(text))
}

fn change(call: &mut Call<PersonPath, Empty, PersonChangeBody>) -> Answer<PersonDocument> {
    let (desk, caller) = (&call.desk, &call.caller);
    let person = find(desk, caller, &call.path.person, Right::Write)?;
    let order = PersonOrder::parse(&call.body)?;
    check_change(caller, &person, &order)?;
    let roles = order.roles.as_deref().map(|roles| grant(desk, caller, roles)).transpose()?;
    if let Some(roles) = &roles {
        check_last(desk, caller, &person, roles)?;
    }
    let identities =
        order.identities.as_deref().map(|all| identities(person.id, all)).transpose()?;
    let change = PersonChange {
        name: order.name.clone(),
        mail: order.mail.clone(),
        cost_centres: order.cost_centres.clone(),
        password: order.password.as_deref().map(|password| desk.passwords.hash(password)),
        second_factor: order.loses_second_factor.then_some(None),
        locked: order.locked,
        roles,
        identities,
    };
    let (store, before) = (desk.store(), describe(desk, person.clone())?);
    store.catalog.change_person(person.id, &change).map_err(|error| match error {
        CatalogError::Exists { .. } => {
            Problem::conflict("one of the identities belongs to another person already")
        }
        error => error.into(),
    })?;
    let after = describe(desk, store.catalog.person_numbered(person.id)?)?;
    note(store, &caller.name, "person changed", changes(&before, &after, &order))?;
    Ok(after)
}

/// Returns the changed fields in words, for the activity log.
fn changes(before: &PersonDocument, after: &PersonDocument, order: &PersonOrder) -> String {
    let lists = |person: &PersonDocument| {
        let roles: Vec<String> = person.roles.iter().map(ToString::to_string).collect();
        let identities: Vec<String> = person.identities.iter().map(ToString::to_string).collect();
        [person.cost_centres.join(" "), roles.join(" "), identities.join(" ")]
    };
    let mut changes = Changes::default();
    changes.compare("name", &before.name, &after.name);
    changes.compare("mail", &before.mail, &after.mail);
    let names = ["cost centres", "roles", "identities"];
    for ((name, old), new) in names.into_iter().zip(lists(before)).zip(lists(after)) {
        changes.compare(name, old, new);
    }
    match (before.locked, after.locked) {
        (false, true) => changes.add("locked"),
        (true, false) => changes.add("unlocked"),
        _ => {}
    }
    if order.password.is_some() {
        changes.add("password");
    }
    if order.loses_second_factor {
        changes.add("second factor removed");
    }
    changes.of(&before.login)
}

fn remove(call: &mut Call<PersonPath, Empty, Empty>) -> Answer<Empty> {
    let person = find(&call.desk, &call.caller, &call.path.person, Right::Write)?;
    if call.caller.person == Some(person.id) {
        return Err(Problem::conflict("nobody removes oneself; another person can"));
    }
    let store = call.desk.store();
    store.catalog.remove_person(person.id)?;
    note(store, &call.caller.name, "person removed", person.login)?;
    Ok(Empty {})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{HeldRole, Limit};

    #[test]
    fn an_administrator_of_a_domain_gives_no_more_than_roles_of_customers() {
        let held = vec![HeldRole { role: Role::Tenant, domain: Some(DomainId(2)) }];
        let person = Some(PersonId(1));
        let limit = Limit::None;
        let tenant = Caller { person, roles: held, limit, ..Caller::stranger() };
        let may = |role, domain| check_grant(&tenant, role, domain).is_ok();
        assert!(may(Role::Owner, Some(DomainId(2))) && may(Role::Tenant, Some(DomainId(2))));
        assert!(!may(Role::Owner, Some(DomainId(3))) && !may(Role::Owner, None));
        assert!(!may(Role::System, None) && !may(Role::System, Some(DomainId(2))));
        assert!(!may(Role::Auditor, Some(DomainId(2))));
    }

    #[test]
    fn an_address_for_mail_is_one_or_is_empty() {
        for good in ["", "anna@example.org", "a.b+c@lab.example"] {
            assert_eq!(check_mail(good), Ok(()), "{good}");
        }
        for bad in ["not a mail", "anna", "@example.org", "Anna <anna@example.org>", "a@b\n"] {
            assert!(check_mail(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn logins_are_plain() {
        for good in ["anna", "a.b@example.org", "x"] {
            assert_eq!(check_login(good), Ok(()), "{good}");
        }
        for bad in ["", "a b", "\u{e9}", "a/b", &"x".repeat(65)] {
            assert!(check_login(bad).is_err(), "{bad}");
        }
    }
}

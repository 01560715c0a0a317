//! Signing in by a provider of OpenID Connect, and which ways of signing in there are.
//!
//! Attempts that fail are not counted, as wrong passwords are: nothing that a browser sends here
//! can be guessed, and many people behind one address come back too late.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::header;
use catalog::{CatalogError, IdentityRow, NewPerson, Person, RoleRow};
use model::PersonId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::nodes::note;
use store::{StoreError, domains};

use super::people;
use super::sign_in::{SignInDocument, open};
use crate::authentication::{self, cookie};
use crate::call::{Answer, Call};
use crate::desk::Desk;
use crate::fields::Empty;
use crate::oidc::{Claimant, Provider};
use crate::operation::Operation;
use crate::problem::{Kind, Problem};
use crate::roles::Area;
use crate::routes::Routes;
use crate::{oidc, second_factor};

/// Name of the cookie of an attempt.
const COOKIE: &str = "__Host-holdfast-oidc";
/// Time for which browsers keep the cookie, in seconds.
const COOKIE_SECS: u32 = 600;

/// Ways of signing in.
#[derive(Serialize, JsonSchema)]
struct WaysDocument {
    /// The provider of OpenID Connect, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    oidc: Option<ProviderDocument>,
}

/// A provider of OpenID Connect.
#[derive(Serialize, JsonSchema)]
struct ProviderDocument {
    /// Name for people.
    title: String,
    issuer: String,
    /// Address at which a person signs out at the provider, too, if there is one. It is known once
    /// somebody has signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    sign_out_url: Option<String>,
}

/// The beginning of a sign-in at the provider. The answer also sets a cookie.
#[derive(Serialize, JsonSchema)]
struct OutsetDocument {
    /// Address at the provider, to which the browser goes.
    url: String,
}

/// The result of a sign-in at the provider.
#[derive(Serialize, JsonSchema)]
struct CompletionDocument {
    /// The sign-in here. It is absent for a person who has to give the code of the second factor
    /// first; the answer then sets a cookie for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    sign_in: Option<SignInDocument>,
}

/// The code of the second factor, after a sign-in at the provider.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CodeBody {
    code: String,
}

/// The code and the state that the provider has given to the page.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CompletionBody {
    code: String,
    state: String,
}

pub(super) fn add(routes: &mut Routes) {
    let summary = "Says which ways of signing in there are, besides a password";
    let operation = Operation::read("sign-in.ways", "/v1/sign-in/ways", Area::Open, summary);
    routes.add(operation, ways);
    let summary = "Begins a sign-in at the provider of OpenID Connect";
    let operation = Operation::post("sign-in.begin-oidc", "/v1/sign-in/oidc", Area::Open, summary);
    routes.add(operation, begin);
    let summary = "Completes a sign-in at the provider of OpenID Connect";
    let path = "/v1/sign-in/oidc/completion";
    let operation = Operation::post("sign-in.complete-oidc", path, Area::Open, summary)
        .example("return", json!({ "code": "SplxlOBeZQQYbYS6WxSbIA", "state": "af0ifjsldkj" }));
    routes.add(operation, complete);
    let summary = "Completes a sign-in at the provider with the code of the second factor";
    let path = "/v1/sign-in/oidc/second-factor";
    let operation = Operation::post("sign-in.give-code-oidc", path, Area::Open, summary)
        .example("code", json!({ "code": "492039" }));
    routes.add(operation, give_code);
}

fn ways(call: &mut Call<Empty, Empty, Empty>) -> Answer<WaysDocument> {
    let describe = |provider: &Provider| ProviderDocument {
        title: provider.settings.title.as_ref().unwrap_or(&provider.settings.issuer).clone(),
        issuer: provider.settings.issuer.clone(),
        sign_out_url: provider.sign_out_url(),
    };
    Ok(WaysDocument { oidc: call.desk.oidc.as_ref().map(describe) })
}

fn provider(desk: &Desk) -> Answer<&Provider> {
    let absent = || Problem::new(Kind::NotFound, "this service has no provider of sign-ins");
    desk.oidc.as_ref().ok_or_else(absent)
}

/// Returns the cookie of an attempt. An empty one ends it.
fn attempt_cookie(value: &str) -> String {
    let secs = if value.is_empty() { 0 } else { COOKIE_SECS };
    format!("{COOKIE}={value}; Path=/; Max-Age={secs}; Secure; HttpOnly; SameSite=Strict")
}

fn begin(call: &mut Call<Empty, Empty, Empty>) -> Answer<OutsetDocument> {
    let begun = provider(&call.desk)?.begin(&call.desk.seals)?;
    call.add_header(header::SET_COOKIE, &attempt_cookie(&begun.cookie));
    Ok(OutsetDocument { url: begun.url })
}

/// Returns the value of the cookie of the attempt.
fn attempt<P, Q, B>(call: &Call<P, Q, B>) -> String {
    cookie(&call.request, COOKIE).unwrap_or_default().to_owned()
}

fn complete(call: &mut Call<Empty, Empty, CompletionBody>) -> Answer<CompletionDocument> {
    let desk = Arc::clone(&call.desk);
    let provider = provider(&desk)?;
    let returned = (call.body.code.as_str(), call.body.state.as_str());
    let known = provider.complete(&desk.seals, &attempt(call), returned)?;
    let roles = roles_of_groups(&desk, provider, &known)?;
    if roles.as_ref().is_some_and(Vec::is_empty) {
        return Err(take_roles(&desk, &known)?);
    }
    let person = find_person(&desk, provider, &known)?;
    if person.locked {
        return Err(authentication::refused());
    }
    if let Some(roles) = roles {
        set_roles(&desk, &person, &roles)?;
    }
    if provider.settings.asks_second_factor && person.second_factor.is_some() {
        let proof = oidc::seal_proof(&desk.seals, person.id, sys::clock::now());
        call.add_header(header::SET_COOKIE, &attempt_cookie(&proof));
        return Ok(CompletionDocument { sign_in: None });
    }
    finish(call, &person).map(|sign_in| CompletionDocument { sign_in: Some(sign_in) })
}

fn give_code(call: &mut Call<Empty, Empty, CodeBody>) -> Answer<SignInDocument> {
    let desk = Arc::clone(&call.desk);
    provider(&desk)?;
    let person = oidc::open_proof(&desk.seals, &attempt(call), sys::clock::now());
    let person = match desk.store().catalog.person_numbered(person.ok_or_else(oidc::stale)?) {
        Ok(person) => person,
        Err(CatalogError::NotFound { .. }) => return Err(oidc::stale()),
        Err(error) => return Err(error.into()),
    };
    second_factor::check(&desk, (call.origin, false), &person, Some(&call.body.code))?;
    finish(call, &person)
}

/// Signs the person in, and ends the attempt.
fn finish<P, Q, B>(call: &mut Call<P, Q, B>, person: &Person) -> Answer<SignInDocument> {
    let signed = open(call, person, "by OpenID Connect")?;
    call.add_header(header::SET_COOKIE, &attempt_cookie(""));
    Ok(signed)
}

/// The problem of a person whom the provider knows, but nobody here.
fn unknown(known: &Claimant) -> Problem {
    let subject = known.subject.escape_debug();
    let text = format!(
        "nobody here belongs to the identity '{subject}' at the provider; ask your administrator"
    );
    Problem::new(Kind::Forbidden, text)
}

/// Finds the person to whom the identity belongs, or who gets it now by the settings.
fn find_person(desk: &Desk, provider: &Provider, known: &Claimant) -> Answer<Person> {
    let (catalog, settings) = (&desk.store().catalog, &provider.settings);
    if let Some(person) = catalog.identity(&known.issuer, &known.subject)? {
        return Ok(catalog.person_numbered(person)?);
    }
    let login = known.login(&settings.login_claim).ok_or_else(|| unknown(known))?;
    let person = match catalog.person(login) {
        Ok(person) if settings.trusts_logins && is_free(desk, &person, known, login)? => person,
        Ok(_) => return Err(unknown(known)),
        Err(CatalogError::NotFound { .. }) if settings.registers => register(desk, known, login)?,
        Err(CatalogError::NotFound { .. }) => return Err(unknown(known)),
        Err(error) => return Err(error.into()),
    };
    let identity = IdentityRow {
        issuer: known.issuer.clone(),
        subject: known.subject.clone(),
        person: person.id,
        made: sys::clock::now(),
    };
    catalog.add_identity(&identity)?;
    let details = format!("{} is {} at {}", person.login, known.subject, known.issuer);
    note(desk.store(), &person.login, "identity linked", details)?;
    Ok(person)
}

/// Returns true if the identity may become one of a person with this login. A person who has an
/// identity at the provider already is another person of the same name.
fn is_free(desk: &Desk, person: &Person, known: &Claimant, login: &str) -> Answer<bool> {
    let all = desk.store().catalog.identities(person.id)?;
    let has_identity = all.iter().any(|one| one.issuer == known.issuer);
    Ok(person.login == login && !person.locked && !has_identity)
}

/// Registers a person whom nobody has registered.
fn register(desk: &Desk, known: &Claimant, login: &str) -> Answer<Person> {
    people::check_login(login)?;
    let text = |name| people::bounded(known.text(name).unwrap_or_default());
    let new = NewPerson {
        login: login.to_owned(),
        name: text("name"),
        mail: text("email"),
        cost_centres: Vec::new(),
        password: None,
        roles: Vec::new(),
        made: sys::clock::now(),
        made_by: known.issuer.clone(),
    };
    let person = desk.store().catalog.add_person(&new)?;
    note(desk.store(), &person.login, "person added", format!("{login}, from {}", known.issuer))?;
    Ok(person)
}

/// Returns the roles of the groups in which the person is; `None` if the settings have no groups.
/// The number of the person in the rows does not count.
fn roles_of_groups(
    desk: &Desk,
    provider: &Provider,
    known: &Claimant,
) -> Answer<Option<Vec<RoleRow>>> {
    let settings = &provider.settings;
    if settings.groups.is_empty() {
        return Ok(None);
    }
    let groups = known.list(&settings.groups_claim);
    let mut roles = Vec::new();
    for one in settings.groups.iter().filter(|one| groups.contains(&one.group.as_str())) {
        let domain = match &one.domain {
            None => None,
            Some(name) => match domains::find(desk.store(), name) {
                Ok(domain) => Some(domain.id),
                Err(StoreError::NotFound(_)) => continue,
                Err(error) => return Err(error.into()),
            },
        };
        roles.push(RoleRow { person: PersonId(0), role: one.role.clone(), domain });
    }
    Ok(Some(roles))
}

/// Takes all roles from the person to whom the identity belongs: keys of the person would have them
/// for ever. Returns the problem of a person without a role.
fn take_roles(desk: &Desk, known: &Claimant) -> Answer<Problem> {
    let catalog = &desk.store().catalog;
    if let Some(person) = catalog.identity(&known.issuer, &known.subject)? {
        set_roles(desk, &catalog.person_numbered(person)?, &[])?;
    }
    let text = "none of your groups at the provider has a role here; ask your administrator";
    Ok(Problem::new(Kind::Forbidden, text))
}

/// Gives the person exactly these roles.
fn set_roles(desk: &Desk, person: &Person, roles: &[RoleRow]) -> Answer<()> {
    let own = |row: &RoleRow| RoleRow { person: person.id, ..row.clone() };
    let after: BTreeSet<RoleRow> = roles.iter().map(own).collect();
    let catalog = &desk.store().catalog;
    let before: BTreeSet<RoleRow> = catalog.roles(Some(person.id))?.into_iter().collect();
    if after == before {
        return Ok(());
    }
    catalog.set_roles(person.id, &after.into_iter().collect::<Vec<_>>())?;
    let details = format!("{}: roles, by groups of the provider", person.login);
    Ok(note(desk.store(), &person.login, "person changed", details)?)
}

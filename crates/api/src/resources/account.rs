//! The caller's own account: password, second factor, sign-ins.

use catalog::{Person, PersonChange};
use data_encoding::{BASE32_NOPAD, HEXLOWER};
use model::PersonId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::people::{RoleDocument, roles_of};
use crate::call::{Answer, Call};
use crate::desk::Desk;
use crate::fields::{Empty, Time};
use crate::operation::Operation;
use crate::problem::{Kind, Problem};
use crate::roles::Area;
use crate::routes::Routes;
use crate::{authentication, passwords, second_factor};

/// The caller's account.
#[derive(Serialize, JsonSchema)]
pub(super) struct AccountDocument {
    login: String,
    name: String,
    mail: String,
    has_second_factor: bool,
    roles: Vec<RoleDocument>,
}

/// A new password, with the old one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PasswordChange {
    old: String,
    new: String,
}

/// A new second factor, before it is confirmed.
#[derive(Serialize, JsonSchema)]
struct NewSecondFactor {
    /// Secret in Base32, for apps without a camera.
    secret: String,
    /// Address for apps, as text or as a picture.
    url: String,
}

/// The code by which a person shows that the app has the secret.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Confirmation {
    /// Secret in Base32, as the server gave it.
    secret: String,
    code: String,
    password: String,
}

/// Proof that the person wants to be without a second factor.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Removal {
    password: String,
    code: String,
}

/// A sign-in of the caller.
#[derive(Serialize, JsonSchema)]
struct OwnSignIn {
    /// Beginning of its hash, by which lists tell it from others.
    id: String,
    made: Time,
    used: Time,
    expires: Time,
    origin: String,
    /// True for the sign-in of this request.
    is_this: bool,
}

/// The sign-ins of the caller.
#[derive(Serialize, JsonSchema)]
struct OwnSignIns {
    items: Vec<OwnSignIn>,
}

pub(super) fn add(routes: &mut Routes) {
    let summary = "Describes the caller";
    let operation = Operation::read("account.get", "/v1/account", Area::Account, summary);
    let operation = operation.answer(json!({
        "login": "anna",
        "name": "Anna Berg",
        "mail": "anna@lab.example",
        "has_second_factor": false,
        "roles": [{ "role": "tenant", "domain": "LAB" }],
    }));
    routes.add(operation, get);
    let summary = "Changes the caller's password, and ends all sign-ins";
    let path = "/v1/account/password";
    let operation = Operation::put("account.password", path, Area::Account, summary);
    let body = json!({ "old": "correct horse battery", "new": "quiet lamp over water" });
    routes.add(operation.example("new", body), set_password);
    let summary = "Makes a secret for a second factor, which is used once it is confirmed";
    let path = "/v1/account/second-factor";
    let operation = Operation::post("account.begin-second-factor", path, Area::Account, summary);
    routes.add(operation, begin_second_factor);
    let summary = "Confirms a second factor with a code of it, and ends all sign-ins";
    let operation = Operation::put("account.set-second-factor", path, Area::Account, summary);
    let body = json!({
        "secret": "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP",
        "code": "492039",
        "password": "correct horse battery",
    });
    routes.add(operation.example("app", body), set_second_factor);
    let summary = "Removes the second factor, and ends all sign-ins";
    let path = "/v1/account/second-factor/removal";
    let operation = Operation::post("account.remove-second-factor", path, Area::Account, summary);
    let body = json!({ "code": "492039", "password": "correct horse battery" });
    routes.add(operation.example("app", body), remove_second_factor);
    let summary = "Lists the caller's sign-ins";
    let path = "/v1/account/sign-ins";
    routes.add(Operation::read("account.sign-ins", path, Area::Account, summary), sign_ins);
}

/// Describes the account of a person.
pub(super) fn describe(desk: &Desk, person: PersonId) -> Answer<AccountDocument> {
    let person = desk.store().catalog.person_numbered(person)?;
    Ok(AccountDocument {
        roles: roles_of(desk, person.id)?,
        login: person.login,
        name: person.name,
        mail: person.mail,
        has_second_factor: person.second_factor.is_some(),
    })
}

fn own<P, Q, B>(call: &Call<P, Q, B>) -> Answer<Person> {
    let person = call.caller.person.ok_or_else(Problem::forbidden)?;
    Ok(call.desk.store().catalog.person_numbered(person)?)
}

fn get(call: &mut Call<Empty, Empty, Empty>) -> Answer<AccountDocument> {
    describe(&call.desk, own(call)?.id)
}

/// Fails unless `password` is the caller's.
fn check_own<P, Q, B>(call: &Call<P, Q, B>, person: &Person, password: &str) -> Answer<()> {
    let checked =
        authentication::check_own_password(&call.desk, call.origin, &person.login, password);
    checked.map(drop).map_err(|problem| match problem.kind {
        Kind::Unauthenticated => Problem::new(Kind::Forbidden, "the password is wrong"),
        _ => problem,
    })
}

fn change<P, Q, B>(
    call: &Call<P, Q, B>,
    person: &Person,
    change: &PersonChange,
    what: &str,
) -> Answer<()> {
    let store = call.desk.store();
    store.catalog.change_person(person.id, change)?;
    Ok(store::nodes::note(store, &call.caller.name, what, person.login.clone())?)
}

fn set_password(call: &mut Call<Empty, Empty, PasswordChange>) -> Answer<Empty> {
    let person = own(call)?;
    check_own(call, &person, &call.body.old)?;
    passwords::check_rules(&person.login, &call.body.new)?;
    let password = Some(call.desk.passwords.hash(&call.body.new));
    let order = PersonChange { password, ..PersonChange::default() };
    change(call, &person, &order, "password changed")?;
    Ok(Empty {})
}

fn begin_second_factor(call: &mut Call<Empty, Empty, Empty>) -> Answer<NewSecondFactor> {
    let made = second_factor::make(&own(call)?.login);
    Ok(NewSecondFactor { secret: BASE32_NOPAD.encode(&made.secret), url: made.url })
}

fn set_second_factor(call: &mut Call<Empty, Empty, Confirmation>) -> Answer<Empty> {
    let person = own(call)?;
    if person.second_factor.is_some() {
        return Err(Problem::conflict("remove the second factor that you have first"));
    }
    check_own(call, &person, &call.body.password)?;
    let wrong = |_| Problem::invalid("the secret is not Base32");
    let secret = BASE32_NOPAD.decode(call.body.secret.trim().as_bytes()).map_err(wrong)?;
    if secret.len() < 20 {
        return Err(Problem::invalid("the secret is too short"));
    }
    let step = second_factor::step(&secret, &call.body.code, sys::clock::system())?;
    let step = step.ok_or_else(|| {
        Problem::invalid("the code is not of this secret; look at the clock of your device")
    })?;
    let sealed = call.desk.seals.seal(&person.id.0.to_le_bytes(), &secret);
    let order = PersonChange { second_factor: Some(Some(sealed)), ..PersonChange::default() };
    change(call, &person, &order, "second factor set")?;
    call.desk.store().catalog.use_code(person.id, step)?;
    Ok(Empty {})
}

fn remove_second_factor(call: &mut Call<Empty, Empty, Removal>) -> Answer<Empty> {
    let person = own(call)?;
    check_own(call, &person, &call.body.password)?;
    second_factor::check(&call.desk, (call.origin, true), &person, Some(&call.body.code))?;
    let order = PersonChange { second_factor: Some(None), ..PersonChange::default() };
    change(call, &person, &order, "second factor removed")?;
    Ok(Empty {})
}

fn sign_ins(call: &mut Call<Empty, Empty, Empty>) -> Answer<OwnSignIns> {
    let rows = call.desk.store().catalog.sign_ins(own(call)?.id)?;
    let describe = |row: catalog::SignInRow| OwnSignIn {
        id: HEXLOWER.encode(&row.hash[..8]),
        made: Time(row.made),
        used: Time(row.used),
        expires: Time(row.expires),
        is_this: call.sign_in == Some(row.hash),
        origin: row.origin,
    };
    Ok(OwnSignIns { items: rows.into_iter().map(describe).collect() })
}

//! Signing in and out of a browser.

use axum::http::header;
use catalog::{Person, SignInRow};
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use model::ServerTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::account::{AccountDocument, describe};
use crate::authentication::{COOKIE, check_password};
use crate::call::{Answer, Call};
use crate::fields::Empty;
use crate::operation::Operation;
use crate::roles::Area;
use crate::routes::Routes;
use crate::{authentication, keys, second_factor};

/// Time for which a sign-in lasts, in seconds: half a day.
const SIGN_IN_SECS: i64 = 12 * 3600;

/// Credentials of a person.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Credentials {
    login: String,
    password: String,
    /// Code of the second factor, if the person has one.
    code: Option<String>,
}

/// A sign-in. The answer also sets the cookie.
#[derive(Serialize, JsonSchema)]
pub(super) struct SignInDocument {
    /// Value of the header `X-Holdfast-Guard`, which each change needs.
    guard: String,
    account: AccountDocument,
}

pub(super) fn add(routes: &mut Routes) {
    let summary = "Signs a person in";
    let operation = Operation::post("sign-in.begin", "/v1/sign-in", Area::Open, summary);
    let body = json!({ "login": "anna", "password": "correct horse battery" });
    routes.add(operation.example("password", body), begin);
    let summary = "Returns the guard of the sign-in, for a page that was loaded again";
    let operation = Operation::read("sign-in.get", "/v1/sign-in", Area::Account, summary);
    routes.add(operation, get);
    let summary = "Ends the sign-in";
    let operation = Operation::post("sign-in.end", "/v1/sign-out", Area::Open, summary);
    routes.add(operation, end);
}

fn begin(call: &mut Call<Empty, Empty, Credentials>) -> Answer<SignInDocument> {
    let Credentials { login, password, code } = &call.body;
    let person = check_password(&call.desk, call.origin, login, password)?;
    second_factor::check(&call.desk, (call.origin, false), &person, code.as_deref())?;
    open(call, &person, "with a password")
}

/// Signs the person in. `how` says for people how the person has shown who it is.
pub(super) fn open<P, Q, B>(
    call: &mut Call<P, Q, B>,
    person: &Person,
    how: &str,
) -> Answer<SignInDocument> {
    if person.locked {
        return Err(authentication::refused());
    }
    let now = sys::clock::now();
    let secret = BASE64URL_NOPAD.encode(&sys::entropy::bytes::<32>());
    let row = SignInRow {
        hash: keys::hash(&secret),
        person: person.id,
        guard: sys::entropy::bytes(),
        made: now,
        used: now,
        expires: ServerTime(now.0 + SIGN_IN_SECS * 1_000_000),
        origin: call.origin.map_or_else(String::new, |address| address.to_string()),
    };
    let store = call.desk.store();
    store.catalog.add_sign_in(&row)?;
    let details = format!("{} from {}, {how}", person.login, row.origin);
    store::nodes::note(store, &person.login, "signed in", details)?;
    let account = describe(&call.desk, person.id)?;
    let cookie = format!(
        "{COOKIE}={secret}; Path=/; Max-Age={SIGN_IN_SECS}; Secure; HttpOnly; SameSite=Strict"
    );
    call.add_header(header::SET_COOKIE, &cookie);
    Ok(SignInDocument { guard: HEXLOWER.encode(&row.guard), account })
}

fn get(call: &mut Call<Empty, Empty, Empty>) -> Answer<SignInDocument> {
    let absent = || crate::problem::Problem::conflict("this caller has no sign-in");
    let hash = call.sign_in.ok_or_else(absent)?;
    let row = call.desk.store().catalog.sign_in(&hash, sys::clock::now())?;
    let row = row.ok_or_else(absent)?;
    let account = describe(&call.desk, row.person)?;
    Ok(SignInDocument { guard: HEXLOWER.encode(&row.guard), account })
}

fn end(call: &mut Call<Empty, Empty, Empty>) -> Answer<Empty> {
    if let Some(hash) = call.sign_in {
        call.desk.store().catalog.end_sign_in(&hash)?;
    }
    let cookie = format!("{COOKIE}=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict");
    call.add_header(header::SET_COOKIE, &cookie);
    Ok(Empty {})
}

//! Keys of programs.

use std::collections::BTreeSet;

use catalog::{ApiKeyRow, CatalogError, Person};
use model::{DomainId, ServerTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::nodes::note;

use super::people;
use crate::authentication::{self, Holdings};
use crate::call::{Answer, Call};
use crate::caller::Caller;
use crate::cursor::Portion;
use crate::desk::Desk;
use crate::fields::{Empty, Page, Time};
use crate::keys::{self, KeyKind};
use crate::operation::Operation;
use crate::problem::{Kind, Problem};
use crate::roles::{Area, Right, Role, permits};
use crate::routes::Routes;

/// Maximum number of nodes that one key registers.
const USES_MAX: u32 = 100_000;
/// Maximum length of a description, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 200;

/// A key, without its secret.
#[derive(Serialize, JsonSchema)]
struct KeyDocument {
    id: String,
    /// Login of the person whose rights the key has.
    user: String,
    kind: KeyKind,
    description: String,
    /// Maximum number of nodes that an enroller registers.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u32>,
    uses: u32,
    is_valid: bool,
    made: Time,
    made_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<Time>,
}

/// A new key with its secret, which nobody can read again.
#[derive(Serialize, JsonSchema)]
struct NewKeyDocument {
    key: KeyDocument,
    /// Text that programs send: `Authorization: Token`, and this text after a space.
    token: String,
}

/// A key that is made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewKeyBody {
    /// Login of the person whose rights the key has; the caller by default.
    user: Option<String>,
    kind: KeyKind,
    #[serde(default)]
    description: String,
    /// Maximum number of nodes that an enroller registers.
    count: Option<u32>,
    expires: Option<Time>,
}

#[derive(Deserialize, JsonSchema)]
struct KeyPath {
    /// Id of the key.
    key: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Login of the person whose keys are listed; the caller by default.
    user: Option<String>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let (all, one) = ("/v1/keys", "/v1/keys/{key}");
    let summary = "Lists the keys of a person";
    routes.add(Operation::read("keys.list", all, Area::Account, summary), list);
    let summary = "Makes a key";
    let operation = Operation::post("keys.add", all, Area::Account, summary)
        .example("program", json!({ "user": "anna", "kind": "full", "description": "portal" }))
        .example("machines", json!({ "user": "anna", "kind": "enroller", "count": 20 }));
    routes.make(operation, make);
    let summary = "Ends a key";
    routes.add(Operation::delete("keys.revoke", one, Area::Account, summary), revoke);
}

/// Returns the person whose keys a call is about.
fn holder(desk: &Desk, caller: &Caller, login: Option<&str>, right: Right) -> Answer<Person> {
    match (login, caller.person) {
        (None, Some(person)) => Ok(desk.store().catalog.person_numbered(person)?),
        (None, None) => Err(Problem::invalid("name the user")),
        (Some(login), own) => {
            let catalog = &desk.store().catalog;
            match catalog.person(login) {
                Ok(person) if Some(person.id) == own => Ok(person),
                _ => people::find(desk, caller, login, right),
            }
        }
    }
}

/// Describes a key; `None` for a kind that only a newer program knows.
fn describe(
    row: ApiKeyRow,
    (person, holdings): (&Person, &Holdings),
    now: ServerTime,
) -> Option<KeyDocument> {
    let (kind, reach) = keys::parse_kind(&row.kind)?;
    let is_current = row.revoked.is_none() && row.expires.is_none_or(|expires| now < expires);
    let has_uses = row.uses_max.is_none_or(|max| row.uses < max);
    let is_within = reach.is_none_or(|reach| holdings.are_within(&reach));
    Some(KeyDocument {
        kind,
        id: row.id,
        user: person.login.clone(),
        description: row.description,
        count: row.uses_max,
        uses: row.uses,
        is_valid: is_current && has_uses && is_within,
        made: Time(row.made),
        made_by: row.made_by,
        expires: row.expires.map(Time),
        revoked: row.revoked.map(Time),
    })
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<KeyDocument>> {
    let ListQuery { user, limit, cursor } = &call.query;
    let portion = Portion::parse(*limit, cursor.as_deref())?;
    let person = holder(&call.desk, &call.caller, user.as_deref(), Right::Read)?;
    let mut rows = call.desk.store().catalog.api_keys(Some(person.id))?;
    rows.sort_by(|one, other| one.id.cmp(&other.id));
    let now = sys::clock::now();
    let holdings = Holdings::of(&call.desk, person.id)?;
    let keys = rows.into_iter().filter_map(|row| describe(row, (&person, &holdings), now));
    Ok(portion.page_of(keys.collect(), |key: &KeyDocument| key.id.clone().into_bytes()))
}

/// Fails if the parts of a new key do not fit together, or if the caller may not make it.
fn check(caller: &Caller, body: &NewKeyBody) -> Answer<()> {
    match (body.kind, body.count) {
        (KeyKind::Enroller, Some(1..=USES_MAX)) => {}
        (KeyKind::Enroller, _) => {
            let text = format!("an enroller has a count of nodes: 1 to {USES_MAX}");
            return Err(Problem::invalid(text));
        }
        (_, None) => {}
        (_, Some(_)) => return Err(Problem::invalid("only an enroller has a count")),
    }
    let is_plain = !body.description.chars().any(char::is_control);
    if body.description.len() > DESCRIPTION_BYTES_MAX || !is_plain {
        let text = format!("a description has at most {DESCRIPTION_BYTES_MAX} bytes, on one line");
        return Err(Problem::invalid(text));
    }
    if body.expires.is_some_and(|expires| expires.0 <= sys::clock::now()) {
        return Err(Problem::invalid("the end of the key is in the past"));
    }
    if let (Some(own), Some(expires)) = (caller.key_expires, body.expires)
        && expires.0 > own
    {
        return Err(Problem::invalid("the key would outlive the key by which you make it"));
    }
    let is_administrator =
        caller.roles.iter().any(|held| matches!(held.role, Role::System | Role::Tenant));
    if body.kind == KeyKind::Impersonator && !is_administrator {
        return Err(Problem::forbidden());
    }
    Ok(())
}

/// Returns the domains that a new key reaches at most; `None` for all that its person reaches: a
/// person makes it for oneself, or those who run the service make it.
fn reach(desk: &Desk, caller: &Caller, person: &Person) -> Answer<Option<BTreeSet<DomainId>>> {
    if caller.key_reach.is_some() {
        // A key makes no key that reaches further.
        return Ok(caller.key_reach.clone());
    }
    let (maker, held) = match caller.acting {
        Some(by) => (Some(by), authentication::roles(desk, by)?),
        None => (caller.person, caller.roles.clone()),
    };
    if maker == Some(person.id) {
        return Ok(None);
    }
    // A role everywhere has no domain, and makes the whole `None`.
    let makers = held.iter().filter(|held| permits(held.role, Area::People, Right::Write));
    Ok(makers.map(|held| held.domain).collect())
}

fn make(call: &mut Call<Empty, Empty, NewKeyBody>) -> Answer<NewKeyDocument> {
    check(&call.caller, &call.body)?;
    let body = &call.body;
    let person = holder(&call.desk, &call.caller, body.user.as_deref(), Right::Write)?;
    let (new, now) = (keys::make(), sys::clock::now());
    let row = ApiKeyRow {
        id: new.id.clone(),
        hash: new.hash,
        person: person.id,
        kind: keys::kept_kind(body.kind, reach(&call.desk, &call.caller, &person)?.as_ref()),
        description: body.description.clone(),
        uses_max: body.count,
        uses: 0,
        made: now,
        made_by: call.caller.name.clone(),
        // A key that ends makes no key that outlives it.
        expires: body.expires.map(|time| time.0).or(call.caller.key_expires),
        revoked: None,
    };
    let store = call.desk.store();
    store.catalog.add_api_key(&row)?;
    let details = format!("{} of {}: {}", row.id, person.login, body.kind);
    note(store, &call.caller.name, "key added", details)?;
    let holdings = Holdings::of(&call.desk, person.id)?;
    let key = describe(row, (&person, &holdings), now).expect("the kind is known");
    Ok(NewKeyDocument { key, token: format!("{}:{}", new.id, new.secret) })
}

fn revoke(call: &mut Call<KeyPath, Empty, Empty>) -> Answer<Empty> {
    let absent = || Problem::not_found("key", &call.path.key);
    let store = call.desk.store();
    let row = match store.catalog.api_key(&call.path.key) {
        Ok(row) => Some(row),
        Err(CatalogError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let holder = row.as_ref().map(|row| row.person);
    if holder.is_none() || holder != call.caller.person {
        match people::find_numbered(&call.desk, &call.caller, holder, Right::Write) {
            Ok(Some(_)) => {}
            Err(problem) if problem.kind != Kind::Forbidden => return Err(problem),
            Ok(None) | Err(_) => return Err(absent()),
        }
    }
    let row = row.ok_or_else(absent)?;
    store.catalog.revoke_api_key(&row.id, sys::clock::now())?;
    note(store, &call.caller.name, "key revoked", row.id)?;
    Ok(Empty {})
}

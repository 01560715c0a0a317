//! Enrolment keys, by which many machines become nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use server::{EnrolmentKey, FoundKey, NewEnrolmentKey};

use super::domains;
use super::option_sets::check_seen;
use crate::call::{Answer, Call};
use crate::caller::{Caller, Subject};
use crate::cursor::Portion;
use crate::desk::Desk;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// An enrolment key.
#[derive(Serialize, JsonSchema)]
struct EnrolmentKeyDocument {
    name: String,
    domain: String,
    /// Number of nodes that the key enrols at most, and that it has enrolled.
    nodes_max: u32,
    nodes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    option_set: Option<String>,
    /// Labels that its nodes get.
    labels: Vec<String>,
    /// Pattern that the names of its nodes match; empty for all names.
    names: String,
    /// True if it can enrol a node now.
    is_valid: bool,
    made: Time,
    made_by: String,
    expires: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<Time>,
}

/// A new enrolment key, with its text.
#[derive(Serialize, JsonSchema)]
struct NewEnrolmentKeyDocument {
    key: EnrolmentKeyDocument,
    /// Text of the key, which nobody can show again: 'holdfast enroll SERVER --token TEXT'.
    token: String,
}

/// An enrolment key that is made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EnrolmentKeyBody {
    name: String,
    /// Domain of its nodes; the caller's by default.
    domain: Option<String>,
    /// Number of nodes that it enrols at most: 1 to 100000.
    nodes_max: u32,
    /// Lifetime in seconds, at most 366 days; 7 days by default.
    lifetime_secs: Option<i64>,
    option_set: Option<String>,
    #[serde(default)]
    labels: Vec<String>,
    /// Pattern that the names of its nodes match, with the wildcards * and ?.
    #[serde(default)]
    names: String,
}

#[derive(Deserialize, JsonSchema)]
struct EnrolmentKeyPath {
    /// Name of the key.
    enrolment_key: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only keys for nodes of this domain.
    domain: Option<String>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let (all, one) = ("/v1/enrolment-keys", "/v1/enrolment-keys/{enrolment_key}");
    let area = Area::Enrolment;
    let summary = "Lists the enrolment keys";
    routes.add(Operation::read("enrolment-keys.list", all, area, summary), list);
    let summary = "Makes an enrolment key";
    let operation = Operation::post("enrolment-keys.add", all, area, summary);
    let body = json!({
        "name": "rollout",
        "domain": "LAB",
        "nodes_max": 200,
        "lifetime_secs": 604_800,
        "labels": ["web"],
        "names": "web-*",
    });
    routes.make(operation.example("rollout", body), make);
    let summary = "Ends an enrolment key; the nodes that it has enrolled stay";
    routes.add(Operation::delete("enrolment-keys.revoke", one, area, summary), revoke);
}

fn describe(key: EnrolmentKey) -> EnrolmentKeyDocument {
    let EnrolmentKey { row, is_valid } = key;
    EnrolmentKeyDocument {
        name: row.name,
        domain: row.domain,
        nodes_max: row.nodes_max,
        nodes: row.nodes,
        option_set: row.option_set,
        labels: row.labels,
        names: row.names,
        is_valid,
        made: Time(row.made),
        made_by: row.made_by,
        expires: Time(row.expires),
        revoked: row.revoked.map(Time),
    }
}

/// Returns the keys with whose domains the caller may do what needs `right`.
fn seen(desk: &Desk, caller: &Caller, right: Right) -> Answer<Vec<EnrolmentKey>> {
    let domains = desk.store().catalog.domains()?;
    let may = |key: &EnrolmentKey| {
        let domain = domains.iter().find(|domain| domain.name == key.row.domain);
        let subject = domain.map_or(Subject::Service, |domain| Subject::Domain(domain.id));
        caller.may(Area::Enrolment, right, subject)
    };
    let mut keys = desk.office.enrolment_keys()?;
    keys.retain(may);
    Ok(keys)
}

/// Returns the keys that the caller may see.
pub(crate) fn keys_seen(desk: &Desk, caller: &Caller) -> Answer<Vec<EnrolmentKey>> {
    seen(desk, caller, Right::Read)
}

/// Finds a key that the caller may end. One of others is answered as one that does not exist.
pub(crate) fn check_end(desk: &Desk, caller: &Caller, name: &str) -> Answer<FoundKey> {
    let keys = seen(desk, caller, Right::Write)?;
    let found = keys.iter().find(|key| key.row.name.eq_ignore_ascii_case(name));
    let found = found.ok_or_else(|| Problem::not_found("enrolment key", name))?;
    Ok(FoundKey(found.row.hash))
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<EnrolmentKeyDocument>> {
    let portion = Portion::parse(call.query.limit, call.query.cursor.as_deref())?;
    let mut keys = keys_seen(&call.desk, &call.caller)?;
    if let Some(name) = &call.query.domain {
        let domain = domains::find(&call.desk, &call.caller, name)?.name;
        keys.retain(|key| key.row.domain == domain);
    }
    let mut keys: Vec<_> = keys.into_iter().map(describe).collect();
    let key = |one: &EnrolmentKeyDocument| one.name.to_ascii_lowercase().into_bytes();
    keys.sort_by_cached_key(key);
    Ok(portion.page_of(keys, key))
}

fn make(call: &mut Call<Empty, Empty, EnrolmentKeyBody>) -> Answer<NewEnrolmentKeyDocument> {
    let (desk, caller, body) = (&call.desk, &call.caller, &call.body);
    let own = caller.roles.iter().find_map(|held| held.domain);
    let domain = match (&body.domain, own) {
        (Some(name), _) => domains::find(desk, caller, name)?,
        (None, own) => {
            let wanted = |one: &policy::PolicyDomain| match own {
                Some(own) => one.id == own,
                None => one.name == policy::STANDARD,
            };
            let all = desk.store().catalog.domains()?;
            all.into_iter()
                .find(wanted)
                .ok_or_else(|| Problem::not_found("domain", "own"))?
        }
    };
    caller.check(Area::Enrolment, Right::Write, Subject::Domain(domain.id))?;
    let option_set = body.option_set.clone().filter(|name| !name.is_empty());
    if let Some(set) = &option_set {
        check_seen(desk, caller, set)?;
    }
    let new = NewEnrolmentKey {
        name: body.name.clone(),
        domain: domain.name,
        nodes_max: body.nodes_max,
        lifetime_secs: body.lifetime_secs,
        option_set,
        labels: body.labels.clone(),
        names: body.names.clone(),
    };
    let (key, token) = desk.office.add_enrolment_key(new, &caller.name)?;
    Ok(NewEnrolmentKeyDocument { key: describe(key), token })
}

fn revoke(call: &mut Call<EnrolmentKeyPath, Empty, Empty>) -> Answer<Empty> {
    let name = &call.path.enrolment_key;
    let found = check_end(&call.desk, &call.caller, name)?;
    call.desk.office.revoke_enrolment_key(name, found, &call.caller.name)?;
    Ok(Empty {})
}

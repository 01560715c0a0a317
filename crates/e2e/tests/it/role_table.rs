//! The table of roles with its scopes, walked whole: each role, held everywhere and held in the
//! domain of the objects, tries each operation on objects that exist. It is allowed or refused as
//! the reference says. Roles in another domain are the matter of the test of isolation.

use std::collections::BTreeSet;

use e2e::harness::Node;
use e2e::harness::api::Caller;
use serde_json::json;

use crate::api::{Provider, allowed, role_table};
use crate::approvals::with_two_persons;
use crate::isolation::{MARK, Objects, Request, other_tenant, requests};
use crate::scene::plant_files;

/// Roles that can be held everywhere, and those that can be held in a domain.
const ANYWHERE: [&str; 5] = ["system", "policy", "storage", "operator", "auditor"];
const IN_DOMAINS: [&str; 6] = ["policy", "storage", "operator", "auditor", "tenant", "owner"];
/// Areas and operations about the service as a whole. A role in a domain has no right to them.
const OF_SERVICE: [&str; 9] = [
    "Activity log",
    "Pools, volumes, libraries",
    "Tasks of the server",
    "alerts.test",
    "metrics.get",
    "option-sets.add",
    "option-sets.change",
    "option-sets.end-stage",
    "option-sets.remove",
];
/// Operations about a domain as a whole. An owner has no right to them.
const OF_DOMAIN: [&str; 4] =
    ["domains.report", "enrolment-keys.add", "enrolment-keys.revoke", "policies.simulate"];
const PEOPLE: &str = "People, roles, keys of others";
/// Kinds of objects that the walk does not have: a 404 says nothing about rights to them.
const ABSENT: [&str; 6] = ["{alert}", "{baseline}", "{library}", "{task}", "{volume}", "{wait}"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    Everywhere,
    Domain,
}

/// Makes the caller who has this role alone. An owner owns the node.
fn walker(service: &Provider, role: &str, scope: Scope) -> Caller {
    let domain = MARK.to_uppercase();
    let held = match scope {
        Scope::Everywhere => role.to_owned(),
        Scope::Domain => format!("{role}@{domain}"),
    };
    let caller = service.person("walker", &[&held]);
    if role == "owner" {
        let change = json!({ "owner": "walker" });
        service.root.patch(&format!("/v1/nodes/{MARK}-1"), &change).expect(200);
    }
    caller
}

/// Returns the requests of all operations, about files that the node has stored. What ends objects
/// comes last.
fn all_requests(service: &Provider, objects: &Objects) -> Vec<Request> {
    let name = format!("{MARK}-1");
    let answer = service.root.post(&format!("/v1/nodes/{name}/rekey"), &json!({})).expect(201);
    let made = answer.json();
    let token = made["token"].as_str().expect("a token");
    let node = Node::enrol_with(&service.server, &name, token);
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 3, 1_000, 7);
    node.backup(&tree, &[]).expect(&[0]);
    let stored = service.root.get(&format!("/v1/nodes/{name}/filespaces")).expect(200).json();
    let filespace = format!("filespace={}", stored["items"][0]["name"].as_str().expect("a name"));
    let path = format!("path={}", tree.display());

    let document = service.stranger.get("/v1/openapi.json").expect(200).json();
    let mut requests = requests(&document, objects);
    // The watch of an event ends with the event.
    requests.retain(|request| request.id != "events.watch");
    // A request belongs to the person who has asked, whatever the roles.
    requests.retain(|request| request.id != "approvals.withdraw");
    for request in &mut requests {
        request.path = request.path.replace("filespace=/", &filespace);
        request.path = request.path.replace("path=/etc/hostname", &path);
        if request.id == "nodes.change" {
            request.body = Some(json!({ "description": "walked" }));
        }
        if request.id == "restores.start" {
            let body = request.body.as_mut().expect("it has a body");
            body["filespace"] = stored["items"][0]["name"].clone();
            body["paths"] = json!([tree]);
        }
    }
    requests.sort_by_key(|request| {
        (request.id == "approvals.decide", request.method == "DELETE", request.method != "GET")
    });
    requests
}

/// Returns whether the reference allows an operation.
fn may(table: &str, role: &str, scope: Scope, request: &Request) -> bool {
    // The person and the key are those of somebody else.
    let is_of_others = request.id.starts_with("keys.") && request.names_an_object();
    let area = if is_of_others && request.right == "change" { PEOPLE } else { &request.area };
    let is_of_service = OF_SERVICE.contains(&&request.id[..]) || OF_SERVICE.contains(&area);
    let is_listed = allowed(table, area, &request.right).iter().any(|one| one == role);
    is_listed
        && !(scope == Scope::Domain && is_of_service)
        && !(role == "owner" && OF_DOMAIN.contains(&&request.id[..]))
}

/// Returns what the walk finds against the reference, a line for each operation.
fn walk(role: &str, scope: Scope, table: &str) -> BTreeSet<String> {
    let (service, _) = with_two_persons();
    let (_, objects) = other_tenant(&service);
    let requests = all_requests(&service, &objects);
    assert!(requests.len() > 60, "{requests:?}");
    let caller = walker(&service, role, scope);
    let mut wrong = BTreeSet::new();
    for request in &requests {
        let answer = request.send(&caller, &objects, true);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status < 500, "{role}: {request:?}: {text}");
        let is_absent = ABSENT.iter().any(|kind| request.path.contains(kind));
        let is_refused = answer.status == 403 || answer.status == 404 && !is_absent;
        if is_refused == may(table, role, scope, request) && !(is_absent && answer.status == 404) {
            let Request { id, path, .. } = request;
            wrong.insert(format!("{id}: {role} {scope:?}: {} {path} {text:.200}", answer.status));
        }
    }
    wrong
}

#[test]
fn each_role_in_each_scope_may_do_what_the_reference_says() {
    let table = role_table();
    let mut wrong = BTreeSet::new();
    for role in ANYWHERE {
        wrong.append(&mut walk(role, Scope::Everywhere, &table));
    }
    for role in IN_DOMAINS {
        wrong.append(&mut walk(role, Scope::Domain, &table));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

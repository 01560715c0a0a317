//! The table of roles with its scopes, walked whole: each role, held everywhere and held in a domain,
//! does what each operation does to objects of the domain, and is allowed or refused as the table in
//! the reference says.

use std::collections::BTreeSet;

use crate::api::allowed;
use crate::approvals::with_two_persons;
use crate::isolation::{MARK, Request, other_tenant, requests};

/// Roles that can be held everywhere and in a domain, and those that are held in domains only.
const ANYWHERE: [&str; 5] = ["system", "policy", "storage", "operator", "auditor"];
const IN_DOMAINS: [&str; 6] = ["policy", "storage", "operator", "auditor", "tenant", "owner"];

#[test]
fn each_role_in_each_scope_may_do_what_the_table_says() {
    let table = crate::api::role_table();
    let mut wrong = BTreeSet::new();
    let everywhere = ANYWHERE.map(|role| (role, false));
    for (role, in_domain) in everywhere.into_iter().chain(IN_DOMAINS.map(|role| (role, true))) {
        let (service, _) = with_two_persons();
        let (_, objects) = other_tenant(&service);
        let domain = MARK.to_uppercase();
        let held = if in_domain { format!("{role}@{domain}") } else { role.to_owned() };
        let caller = service.person("walker", &[&held]);
        let document = service.stranger.get("/v1/openapi.json").expect(200).json();
        let mut requests = requests(&document, &objects);
        requests.sort_by_key(|request| (request.method == "DELETE", request.method != "GET"));
        for request in &requests {
            let answer = request.send(&caller, &objects, true);
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let may = allowed(&table, &request.area, &request.right).iter().any(|one| one == role);
            let is_refused = matches!(answer.status, 403 | 404);
            if is_refused == may {
                let Request { id, method, path, .. } = request;
                wrong.insert(format!("{id} {held}: {} {method} {path} {text:.90}", answer.status));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

//! Changes by merge patches, as RFC 7396 has them: what is absent stays, and null removes.

use serde_json::{Value, json};

use crate::api::{Provider, fields};

/// Sends a change that would remove what is always there, and checks that it changes nothing.
#[track_caller]
fn check_kept(service: &Provider, path: &str, body: &Value, field: &str) {
    let read = || {
        let mut document = service.root.get(path).expect(200).json();
        // The room of a disk changes by itself.
        document.as_object_mut().unwrap().remove("bytes_max");
        document
    };
    let before = read();
    let refused = service.root.patch(path, body).expect(400).json();
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("'{field}' cannot be removed")), "{detail}");
    assert_eq!(read(), before, "{body}");
}

#[test]
fn a_limit_is_changed_by_itself_and_null_removes_it() {
    let service = Provider::new();
    let new = json!({ "name": "LAB", "tag": "lab", "limits": { "nodes": 50 } });
    let made = service.root.post("/v1/domains", &new).expect(201).json();
    assert_eq!(made["limits"]["warning_percent"], 80, "{made}");
    let limits = |limits: Value| {
        let body = json!({ "limits": limits });
        service.root.patch("/v1/domains/LAB", &body).expect(200).json()["limits"].clone()
    };
    let all = json!({ "nodes": 40, "objects": 500, "bytes": 9_000_000, "warning_percent": 75 });
    assert_eq!(limits(all.clone()), all);
    assert_eq!(
        limits(json!({ "nodes": 31, "warning_percent": 70 })),
        json!({ "nodes": 31, "objects": 500, "bytes": 9_000_000, "warning_percent": 70 })
    );
    assert_eq!(
        limits(json!({ "bytes": null, "warning_percent": null })),
        json!({ "nodes": 31, "objects": 500, "bytes": null, "warning_percent": 80 })
    );
    let none = json!({ "nodes": null, "objects": null, "bytes": null, "warning_percent": 80 });
    assert_eq!(limits(Value::Null), none);
    for wrong in [json!({ "warning_percent": 0 }), json!({ "bytes": u64::MAX })] {
        let body = json!({ "limits": wrong });
        service.root.patch("/v1/domains/LAB", &body).expect(400);
    }
    let without = service.root.patch("/v1/domains/LAB", &json!({ "tag": null })).expect(200);
    assert_eq!((&without.json()["tag"], &without.json()["name"]), (&json!(""), &json!("LAB")));
}

#[test]
fn null_empties_what_may_be_empty_and_removes_nothing_else() {
    let service = Provider::new();
    let (node, person) = ("/v1/nodes/web-1", "/v1/users/anna");
    let new = json!({ "name": "web-1", "owner": "root", "mail": "a@example.org",
        "description": "Web server" });
    service.root.post("/v1/nodes", &new).expect(201);
    service.root.patch(node, &json!({ "collocation_group": "WEB" })).expect(200);
    let nulls = json!({ "description": null, "mail": null, "owner": null,
        "collocation_group": null });
    let changed = service.root.patch(node, &nulls).expect(200).json();
    assert_eq!((&changed["description"], &changed["mail"]), (&json!(""), &json!("")), "{changed}");
    assert!(changed["owner"].is_null() && changed["collocation_group"].is_null(), "{changed}");
    let new = json!({ "login": "anna", "name": "Anna", "mail": "anna@example.org",
        "cost_centres": ["C-17"], "roles": [{ "role": "auditor" }] });
    service.root.post("/v1/users", &new).expect(201);
    let nulls = json!({ "name": null, "mail": null, "cost_centres": null });
    let changed = service.root.patch(person, &nulls).expect(200).json();
    assert_eq!(
        (&changed["name"], &changed["mail"], &changed["cost_centres"]),
        (&json!(""), &json!(""), &json!([])),
        "{changed}"
    );
    assert_eq!(changed["roles"], json!([{ "role": "auditor" }]));
    for (path, body, field) in [
        (node, json!({ "description": "x", "locked_by_service": null }), "locked_by_service"),
        (node, json!({ "domain": null }), "domain"),
        (node, json!({ "name": null }), "name"),
        (person, json!({ "name": "x", "password": null }), "password"),
        (person, json!({ "locked": null }), "locked"),
    ] {
        check_kept(&service, path, &body, field);
    }
    let pools = service.root.get("/v1/pools").expect(200).json();
    let pool = format!("/v1/pools/{}", pools["items"][0]["name"].as_str().unwrap());
    let body = json!({ "settings": { "next": null, "high_percent": null } });
    check_kept(&service, &pool, &body, "high_percent");
    let draft = "/v1/domains/STANDARD/policy/draft";
    let class = json!({ "name": "STANDARD", "backup": { "extra_days": null } });
    let refused = service.root.patch(draft, &json!({ "put_class": class })).expect(400).json();
    assert!(refused["detail"].as_str().unwrap().contains("'extra_days'"), "{refused}");
}

#[test]
fn the_log_says_what_a_change_has_changed_and_no_secret() {
    let service = Provider::new();
    service.root.post("/v1/domains", &json!({ "name": "LAB" })).expect(201);
    let change = json!({ "tag": "lab", "limits": { "nodes": 31 } });
    service.root.patch("/v1/domains/LAB", &change).expect(200);
    service.server.admin(&["domain", "set", "LAB", "--nodes", "40"]);
    let new = json!({ "login": "anna", "roles": [{ "role": "auditor" }] });
    service.root.post("/v1/users", &new).expect(201);
    let role = json!({ "role": "tenant", "domain": "LAB" });
    let change = json!({ "mail": "anna@example.org", "roles": [role], "locked": true,
        "password": "a new horse battery" });
    service.root.patch("/v1/users/anna", &change).expect(200);
    let details = |kind: &str| {
        let log = service.root.get(&format!("/v1/log?kind={kind}")).expect(200).json();
        fields(&log, "details")
    };
    assert_eq!(
        details("domain%20changed"),
        ["LAB: nodes from 31 to 40", "LAB: tag from nothing to lab, nodes from no limit to 31"]
    );
    assert_eq!(
        details("person%20changed"),
        ["anna: mail from nothing to anna@example.org, roles from auditor to tenant@LAB, locked, \
          password"]
    );
}

#[test]
fn the_log_names_each_field_of_nodes_storage_and_policies_that_changes() {
    let service = Provider::new();
    let details = |kind: &str| {
        let log = service.root.get(&format!("/v1/log?kind={kind}")).expect(200).json();
        fields(&log, "details")
    };
    service.root.post("/v1/nodes", &json!({ "name": "a" })).expect(201);
    let change = json!({ "owner": null, "mail": "ops@example.org", "application": "database" });
    service.root.patch("/v1/nodes/a", &change).expect(200);
    assert_eq!(
        details("node%20details%20changed"),
        ["a: owner from root to nothing, mail from nothing to ops@example.org, application from \
          nothing to database"]
    );
    let pools = service.root.get("/v1/pools").expect(200).json();
    let (pool, mark) = (&pools["items"][0]["name"], pools["items"][0]["high_percent"].as_u64());
    let (pool, mark) = (pool.as_str().unwrap(), mark.unwrap());
    let body = json!({ "settings": { "high_percent": mark - 1 } });
    service.root.patch(&format!("/v1/pools/{pool}"), &body).expect(200);
    let expected = format!("{pool}: high mark in % from {mark} to {}", mark - 1);
    assert_eq!(details("pool%20changed%20by%20request"), [expected]);
    let folder = service.scratch.folder("tapes");
    let new = json!({ "name": "TL", "folder": folder, "capacity_bytes": 64 << 20 });
    service.root.post("/v1/libraries", &new).expect(201);
    let body = json!({ "settings": { "retain_secs": 7, "optimised_only": true } });
    service.root.patch("/v1/libraries/TL", &body).expect(200);
    let changed = details("library%20changed%20by%20request").remove(0);
    assert!(changed.contains(" to 7, recalls by lists only from no to yes"), "{changed}");
    let class = json!({ "name": "STANDARD", "backup": { "extra_days": "5" } });
    let draft = "/v1/domains/STANDARD/policy/draft";
    service.root.patch(draft, &json!({ "put_class": class })).expect(200);
    let changed = details("policy%20draft%20changed").remove(0);
    assert!(changed.contains("RETEXTRA: 30 -> 5"), "{changed}");
    let new = json!({ "login": "bert", "roles": [{ "role": "auditor" }] });
    service.root.post("/v1/users", &new).expect(201);
    assert!(details("person%20added").contains(&"bert: auditor".to_owned()));
}

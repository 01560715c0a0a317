//! Requests of several parts: one that is refused has changed nothing, whichever part is wrong.

use serde_json::json;

use crate::api::{Provider, fields};
use crate::at_work::enrol;

#[test]
fn a_refused_change_of_a_person_gives_no_role() {
    let service = Provider::new();
    service.tenant("LAB");
    let identity = json!([{ "issuer": "https://id.example", "subject": "7" }]);
    let taken = json!({ "identities": identity });
    service.root.patch("/v1/users/admin-of-LAB", &taken).expect(200);
    let new = json!({ "login": "vic", "roles": [{ "role": "owner", "domain": "LAB" }] });
    let before = service.root.post("/v1/users", &new).expect(201).json();
    let change =
        json!({ "name": "Vic", "roles": [{ "role": "operator" }], "identities": identity });
    let refused = service.root.patch("/v1/users/vic", &change).expect(409).json();
    assert!(refused["detail"].as_str().unwrap().contains("another person"), "{refused}");
    assert_eq!(service.root.get("/v1/users/vic").expect(200).json(), before);
    let change = json!({ "name": "Vic", "roles": [{ "role": "operator" }] });
    service.root.patch("/v1/users/vic", &change).expect(200);
    let log = service.root.get("/v1/log?kind=person%20changed").expect(200).json();
    let details = fields(&log, "details");
    assert_eq!(details.iter().filter(|one| one.starts_with("vic: ")).count(), 1, "{log}");
}

#[test]
fn a_refused_rekey_leaves_the_node_its_certificate() {
    let service = Provider::new();
    let tree = service.scratch.folder("tree");
    let node = enrol(&service, "web-1");
    let rekey = |token_secs: i64| {
        let body = json!({ "revoke": true, "token_secs": token_secs });
        service.root.post("/v1/nodes/web-1/rekey", &body)
    };
    rekey(31 * 86_400).expect(400);
    node.backup(&tree, &[]).expect(&[0]);
    rekey(3_600).expect(201);
    node.backup(&tree, &[]).expect(&[12]);
}

#[test]
fn a_refused_change_of_followers_adds_and_removes_none() {
    let service = Provider::new();
    for name in ["web-1", "web-2"] {
        service.root.post("/v1/nodes", &json!({ "name": name })).expect(201);
    }
    let schedule = ["schedule", "define", "nightly", "--action", "incremental", "--time", "22:00"];
    service.server.admin(&schedule);
    service.server.admin(&["schedule", "associate", "nightly", "--node", "web-1"]);
    let path = "/v1/schedules/nightly/followers";
    let (one, other, label) =
        (json!({ "node": "web-1" }), json!({ "node": "web-2" }), json!({ "label": "db" }));
    for change in
        [json!({ "remove": [one, label] }), json!({ "add": [other], "remove": [one, label] })]
    {
        service.root.patch(path, &change).expect(404);
        let schedule = service.root.get("/v1/schedules/nightly").expect(200).json();
        assert_eq!(schedule["followers"], json!([one]), "{change}");
    }
    let change = json!({ "add": [other, label], "remove": [one, label] });
    let changed = service.root.patch(path, &change).expect(200).json();
    assert_eq!(changed["followers"], json!([other]));
}

//! The REST API on what administrators manage: option sets, enrolment keys, pools, volumes, and the
//! archive by which a machine becomes a node.

use std::fs;
use std::process::Command;

use e2e::harness::enrol;
use serde_json::json;

use crate::api::{Provider, fields};
use crate::scene::plant_files;

#[test]
fn a_draft_that_drops_most_versions_is_activated_only_when_it_is_confirmed() {
    let service = Provider::new();
    let node = crate::at_work::enrol(&service, "a");
    let tree = service.scratch.folder("tree");
    for round in 1..=5 {
        plant_files(&tree, 30, 100 * round, round as u64);
        node.backup(&tree, &[]).expect(&[0]);
    }
    let policy = "/v1/domains/STANDARD/policy";
    let class = json!({ "name": "STANDARD", "backup": { "versions_existing": "2" } });
    let draft = format!("{policy}/draft");
    service.root.patch(&draft, &json!({ "put_class": class })).expect(200);
    let activation = format!("{policy}/activation");
    let refused = service.root.post(&activation, &json!({})).expect(409).json();
    assert_eq!(refused["code"], "confirmation-needed");
    let told = refused["detail"].as_str().unwrap();
    assert!(told.contains("would expire 9") && told.contains("\"confirm\": true"), "{told}");
    service.root.get(&format!("{policy}/review")).expect(200);
    service.root.post(&activation, &json!({ "confirm": true })).expect(200);
    let review = service.root.get(&format!("{policy}/review")).expect(200).json();
    assert_eq!(review["differences"], json!([]));
}

#[test]
fn an_option_set_is_defined_staged_and_promoted() {
    let service = Provider::new();
    for name in ["a", "b"] {
        service.root.post("/v1/nodes", &json!({ "name": name })).expect(201);
    }
    let new = json!({ "name": "linux", "statements": ["exclude /tmp/.../*"],
        "options": [{ "name": "compression", "value": "9", "force": true }] });
    let made = service.root.post("/v1/option-sets", &new).expect(201).json();
    assert_eq!(made["after"]["version"], 1);
    service.root.post("/v1/option-sets", &new).expect(409);
    let wrong = json!({ "name": "x", "options": [{ "name": "colour", "value": "red" }] });
    service.root.post("/v1/option-sets", &wrong).expect(400);
    for name in ["a", "b"] {
        let change = json!({ "option_set": "linux" });
        service.root.patch(&format!("/v1/nodes/{name}"), &change).expect(200);
    }
    let one = "/v1/option-sets/linux";
    let change = json!({ "set": [{ "name": "wait", "value": "2h" }], "share": "50%" });
    let dry = json!({ "unset": ["compression"], "dry_run": true });
    assert_eq!(service.root.patch(one, &dry).expect(200).json()["is_change"], true);
    let staged = service.root.patch(one, &change).expect(200).json();
    assert_eq!(staged["first_nodes"].as_array().unwrap().len(), 1);
    let shown = service.root.get(one).expect(200).json();
    assert_eq!((&shown["share"], &shown["staged"]["version"]), (&json!("50 %"), &json!(2)));
    assert_eq!(shown["current"]["statements"], json!(["exclude /tmp/.../*"]));
    service.root.patch(one, &change).expect(409);
    let stage = format!("{one}/stage");
    service.root.post(&stage, &json!({ "decision": "promote" })).expect(200);
    service.root.post(&stage, &json!({ "decision": "withdraw" })).expect(409);
    let versions = service.root.get(&format!("{one}/versions")).expect(200).json();
    let numbers: Vec<u64> = versions["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["version"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [2, 1]);
    let lab = service.tenant("LAB");
    lab.get(one).expect(404);
    assert_eq!(lab.get("/v1/option-sets").expect(200).json()["items"], json!([]));
    lab.post("/v1/option-sets", &json!({ "name": "own" })).expect(403);
    lab.post("/v1/nodes", &json!({ "name": "lab-1", "domain": "LAB" })).expect(201);
    service
        .root
        .patch("/v1/nodes/lab-1", &json!({ "option_set": "linux" }))
        .expect(200);
    let seen = lab.get(one).expect(200).json();
    assert_eq!((&seen["nodes"], &seen["current"]["author"]), (&json!(["lab-1"]), &json!(null)));
    lab.patch(one, &change).expect(403);
    service.root.delete(one).expect(204);
    service.root.get(one).expect(404);
    assert_eq!(service.root.get("/v1/nodes/a").expect(200).json()["option_set_version"], 0);
}

#[test]
fn machines_become_nodes_by_a_key_that_a_request_has_made() {
    let service = Provider::new();
    let lab = service.tenant("LAB");
    let new = json!({ "name": "lab-key", "nodes_max": 1, "labels": ["web"], "names": "web-*" });
    let made = lab.post("/v1/enrolment-keys", &new).expect(201).json();
    assert_eq!((&made["key"]["domain"], &made["key"]["is_valid"]), (&json!("LAB"), &json!(true)));
    let token = made["token"].as_str().unwrap();
    let home = service.scratch.folder("home");
    let options = ["--name", "web-1"];
    e2e::harness::start_enrolment(&home, &service.server.address(), token, &options)
        .wait()
        .expect(&[0]);
    let nodes = lab.get("/v1/nodes").expect(200).json();
    assert_eq!(
        (fields(&nodes, "name"), &nodes["items"][0]["labels"]),
        (vec!["web-1".to_owned()], &json!(["web"]))
    );
    let keys = lab.get("/v1/enrolment-keys").expect(200).json();
    assert_eq!(
        (&keys["items"][0]["nodes"], &keys["items"][0]["is_valid"]),
        (&json!(1), &json!(false))
    );
    let law = service.tenant("LAW");
    assert_eq!(law.get("/v1/enrolment-keys").expect(200).json()["items"], json!([]));
    law.delete("/v1/enrolment-keys/lab-key").expect(404);
    law.get("/v1/enrolment-keys?domain=LAB").expect(404);
    for (domain, count) in [("LAB", 1), ("LAW", 0)] {
        let path = format!("/v1/enrolment-keys?domain={domain}");
        let keys = service.root.get(&path).expect(200).json();
        assert_eq!(keys["items"].as_array().unwrap().len(), count, "{keys}");
    }
    let foreign = json!({ "name": "x", "domain": "LAB", "nodes_max": 1 });
    law.post("/v1/enrolment-keys", &foreign).expect(404);
    service
        .root
        .post("/v1/enrolment-keys", &json!({ "name": "x", "nodes_max": 0 }))
        .expect(400);
    lab.delete("/v1/enrolment-keys/lab-key").expect(204);
    let keys = lab.get("/v1/enrolment-keys").expect(200).json();
    assert!(keys["items"][0]["revoked"].is_string(), "{keys}");
}

#[test]
fn a_machine_becomes_a_node_by_its_archive() {
    let service = Provider::new();
    service.root.post("/v1/nodes", &json!({ "name": "web-1" })).expect(201);
    let got = service.root.send("POST", "/v1/nodes/web-1/config", None).expect(200);
    assert_eq!(got.header("content-type"), Some("application/x-tar"));
    let (packed, out) = (service.scratch.join("config.tar"), service.scratch.folder("out"));
    fs::write(&packed, &got.body).unwrap();
    let mut tar = Command::new("tar");
    let done = tar
        .arg("--extract")
        .arg("--file")
        .arg(&packed)
        .arg("--directory")
        .arg(&out)
        .status();
    assert!(done.unwrap().success());
    let read = |name: &str| fs::read_to_string(out.join("holdfast").join(name)).unwrap();
    assert_eq!(read("ca.pem"), fs::read_to_string(service.server.dir().join("ca.pem")).unwrap());
    let config = read("client.toml");
    assert!(
        config.contains("node = \"web-1\"") && config.contains(&service.server.address()),
        "{config}"
    );
    assert!(read("enroll.sh").contains("holdfast enroll"));
    let home = service.scratch.folder("home");
    enrol(&home, &service.server.address(), read("token").trim()).expect(&[0]);
    assert_eq!(service.root.get("/v1/nodes/web-1").expect(200).json()["is_activated"], true);
    let lab = service.tenant("LAB");
    lab.send("POST", "/v1/nodes/web-1/config", None).expect(404);
    service.server.admin(&[
        "schedule",
        "define",
        "nightly",
        "--action",
        "incremental",
        "--time",
        "22:00",
    ]);
    service.server.admin(&["schedule", "associate", "nightly", "--node", "web-1"]);
    let choices = service.root.get("/v1/nodes/web-1/schedules").expect(200).json();
    assert_eq!(choices["items"][0]["is_followed"], true);
    let policies = service.root.get("/v1/nodes/web-1/policies").expect(200).json();
    assert_eq!(fields(&policies, "domain"), ["LAB", "STANDARD"]);
    assert_eq!(policies["items"][1]["is_own"], true);
}

#[test]
fn servers_are_listed_with_their_use() {
    let service = Provider::new();
    let lab = service.tenant("LAB");
    let node = crate::at_work::enrol(&service, "a");
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 3, 100_000, 1);
    node.backup(&tree, &[]).expect(&[0]);
    let shown = service.root.get("/v1/servers").expect(200).json();
    let together = &shown["together"];
    assert_eq!((&together["nodes"], &together["pools"][0]["name"]), (&json!(1), &json!("PRIMARY")));
    assert!(together["pools"][0]["bytes"].as_u64() > Some(0), "{shown}");
    assert!(shown["items"][0]["connected"].is_u64(), "{shown}");
    let shown = lab.get("/v1/servers").expect(200).json();
    assert_eq!((shown.get("together"), shown["items"][0].get("connected")), (None, None));
}

#[test]
fn pools_are_made_and_changed_by_requests() {
    let service = Provider::new();
    let folder = service.scratch.folder("second");
    let url = format!("file://{}", folder.display());
    let new = json!({ "name": "COPY", "url": url, "is_copy": true });
    let made = service.root.post("/v1/pools", &new).expect(201).json();
    assert_eq!((&made["is_copy"], &made["is_available"]), (&json!(true), &json!(true)));
    let url = format!("file://{}", service.scratch.folder("third").display());
    let again = json!({ "name": "COPY", "url": url, "is_copy": true });
    service.root.post("/v1/pools", &again).expect(409);
    let change = json!({ "settings": { "capacity_bytes": 1_000_000_000_u64 } });
    service.root.patch("/v1/pools/COPY", &change).expect(400);
    let next = json!({ "name": "NEXT", "url": url });
    service.root.post("/v1/pools", &next).expect(201);
    let changed = service.root.patch("/v1/pools/NEXT", &change).expect(200).json();
    assert_eq!(changed["bytes_max"], 1_000_000_000_u64);
    service.root.get("/v1/pools/NONE").expect(404);
    let wrong = json!({ "settings": { "high_percent": 200 } });
    service.root.patch("/v1/pools/COPY", &wrong).expect(400);
    let auditor = service.person("auditor", &["auditor"]);
    auditor.get("/v1/pools/COPY").expect(200);
    auditor.patch("/v1/pools/COPY", &change).expect(403);
    let storage = service.person("keeper", &["storage"]);
    storage.patch("/v1/pools/NEXT", &change).expect(200);
    storage
        .post("/v1/libraries/NONE/work", &json!({ "work": "check-in" }))
        .expect(404);
    storage
        .patch("/v1/libraries/NONE/volumes/V1", &json!({ "onsite": true }))
        .expect(404);
    storage.delete("/v1/recall-queue/7").expect(404);
    auditor.delete("/v1/pools/COPY").expect(403);
    storage.delete("/v1/pools/COPY").expect(204);
    storage.delete("/v1/pools/COPY").expect(404);
    let log = service.root.get("/v1/log?kind=pool").expect(200).json();
    let actors = fields(&log, "actor");
    assert!(actors.iter().any(|actor| actor.starts_with("keeper")), "{actors:?}");
}

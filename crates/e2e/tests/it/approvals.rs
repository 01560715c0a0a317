//! Requests that wait for the approval of a second person.

use std::fs;

use e2e::harness::Outcome;
use e2e::harness::api::{self, Caller};
use e2e::scratch::Scratch;
use serde_json::{Value, json};

use crate::api::{Provider, fields};
use crate::at_work::enrol;
use crate::scene::plant_files;

/// A service in which two persons are needed, and its second administrator.
pub(crate) fn with_two_persons() -> (Provider, Caller) {
    let scratch = Scratch::new();
    let (mut server, stranger) = api::start(&scratch.join("server"));
    server.terminate().expect(&[0]);
    let config = server.dir().join("server.toml");
    let text = fs::read_to_string(&config).unwrap();
    let text = text.replace("two_person = false", "two_person = true");
    fs::write(&config, text).unwrap();
    server.restart();
    let mut service = Provider { server, root: stranger.clone(), stranger, scratch };
    service.root = service.person("root", &["system"]);
    let second = service.person("second", &["system"]);
    (service, second)
}

/// Returns the path by which the request that was asked last is decided.
#[track_caller]
fn last_request(caller: &Caller) -> String {
    let waiting = caller.get("/v1/approvals").expect(200).json();
    let number = waiting["items"][0]["number"].as_u64().unwrap();
    format!("/v1/approvals/{number}/decision")
}

#[test]
fn removal_of_a_node_waits_for_a_second_person() {
    let (service, second) = with_two_persons();
    service.root.post("/v1/nodes", &json!({ "name": "a" })).expect(201);
    let asked = service.root.delete("/v1/nodes/a").expect(202).json();
    assert_eq!(asked["code"], "approval-needed");
    service.root.get("/v1/nodes/a").expect(200);
    let path = last_request(&second);
    let approve = json!({ "decision": "approve", "reason": "is gone" });
    service.root.post(&path, &approve).expect(403);
    let other = service.key("root", "full", &[]);
    other.post(&path, &approve).expect(403);
    service.root.delete("/v1/nodes/a").expect(409);
    let acting = service
        .key("root", "impersonator", &[])
        .with_headers(&["X-Holdfast-For: second"]);
    acting.post(&path, &approve).expect(403);
    let done = second.post(&path, &approve).expect(200).json();
    assert_eq!(done["state"], "done");
    service.root.get("/v1/nodes/a").expect(404);
    second.post(&path, &approve).expect(409);
    second.post("/v1/approvals/18446744073709551615/decision", &approve).expect(404);
    let log = service.root.get("/v1/log?kind=node%20removed").expect(200).json();
    let actor = &fields(&log, "actor")[0];
    assert!(actor.contains("root") && actor.contains("approved by second"), "{actor}");
}

#[test]
fn who_asked_withdraws_a_request_whatever_the_role() {
    let (service, second) = with_two_persons();
    let planner = service.person("planner", &["policy"]);
    for days in ["90", "5"] {
        planner.patch(DRAFT, &keeping(days)).expect(200);
        let expected = if days == "90" { 200 } else { 202 };
        planner.post(ACTIVATION, &json!({})).expect(expected);
    }
    let decision = last_request(&second);
    let request = decision.trim_end_matches("/decision").to_owned();
    second.delete(&request).expect(403);
    service.tenant("LAB").delete(&request).expect(404);
    service.key("planner", "readonly", &[]).delete(&request).expect(403);
    assert_eq!(planner.delete(&request).expect(200).json()["state"], "withdrawn");
    planner.delete(&request).expect(409);
    second.post(&decision, &json!({ "decision": "approve" })).expect(409);
    let log = service.root.get("/v1/log?kind=approval%20withdrawn").expect(200).json();
    assert!(fields(&log, "actor")[0].starts_with("planner"), "{log}");
    // The same may be asked for anew.
    planner.post(ACTIVATION, &json!({})).expect(202);
}

#[test]
fn a_request_is_own_to_both_who_acted() {
    let (service, second) = with_two_persons();
    let third = service.person("third", &["system"]);
    service.root.post("/v1/nodes", &json!({ "name": "a" })).expect(201);
    let acting = service
        .key("root", "impersonator", &[])
        .with_headers(&["X-Holdfast-For: second"]);
    acting.delete("/v1/nodes/a").expect(202);
    let is_own = |caller: &Caller| {
        caller.get("/v1/approvals").expect(200).json()["items"][0]["is_own"] == true
    };
    assert!(is_own(&service.root) && is_own(&second) && !is_own(&third));
    let path = last_request(&third);
    let approve = json!({ "decision": "approve" });
    service.root.post(&path, &approve).expect(403);
    second.post(&path, &approve).expect(403);
    third.post(&path, &approve).expect(200);
}

#[test]
fn a_request_of_a_person_who_is_locked_or_gone_is_not_carried_out() {
    let (service, second) = with_two_persons();
    let approve = json!({ "decision": "approve" });
    for name in ["a", "b"] {
        service.root.post("/v1/nodes", &json!({ "name": name })).expect(201);
    }
    let (anna, bert) = (service.person("anna", &["system"]), service.person("bert", &["system"]));
    anna.delete("/v1/nodes/a").expect(202);
    let of_anna = last_request(&second);
    bert.delete("/v1/nodes/b").expect(202);
    let of_bert = last_request(&second);
    second.patch("/v1/users/anna", &json!({ "locked": true })).expect(200);
    second.delete("/v1/users/bert").expect(204);
    for path in [&of_anna, &of_bert] {
        let refused = second.post(path, &approve).expect(409).json();
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("is locked or was removed since"), "{detail}");
    }
    for name in ["a", "b"] {
        service.root.get(&format!("/v1/nodes/{name}")).expect(200);
    }
    let refused = second.post(&of_bert, &json!({ "decision": "refuse" })).expect(200).json();
    assert_eq!(refused["state"], "refused");
    // A person who is unlocked may do again what was asked.
    second.patch("/v1/users/anna", &json!({ "locked": false })).expect(200);
    assert_eq!(second.post(&of_anna, &approve).expect(200).json()["state"], "done");
    service.root.get("/v1/nodes/a").expect(404);
}

#[test]
fn what_nobody_approves_within_a_week_is_asked_for_again() {
    let (mut service, second) = with_two_persons();
    let approve = json!({ "decision": "approve" });
    service.root.post("/v1/nodes", &json!({ "name": "a" })).expect(201);
    service.root.delete("/v1/nodes/a").expect(202);
    let late = last_request(&second);
    service.server.travel("6d");
    service.root.delete("/v1/nodes/a").expect(409);
    service.server.travel("8d");
    let refused = second.post(&late, &approve).expect(409).json();
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("older than a week"), "{detail}");
    service.root.delete("/v1/nodes/a").expect(202);
    let listed = second.get("/v1/approvals").expect(200).json();
    assert_eq!(fields(&listed, "state"), ["waiting", "expired"]);
    let done = second.post(&last_request(&second), &approve).expect(200).json();
    assert_eq!(done["state"], "done", "{done}");
}

#[test]
fn removal_of_a_filespace_waits_for_a_second_person() {
    let (service, second) = with_two_persons();
    let node = enrol(&service, "a");
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 5, 1_000, 7);
    node.backup(&tree, &[]).expect(&[0]);
    let spaces = "/v1/nodes/a/filespaces";
    let listed = service.root.get(spaces).expect(200).json();
    let name = listed["items"][0]["name"].as_str().unwrap().to_owned();
    let removal = format!("{spaces}?filespace={name}");
    let asked = service.root.delete(&removal).expect(202).json();
    assert_eq!(asked["code"], "approval-needed");
    assert_eq!(service.root.get(spaces).expect(200).json(), listed);
    service.root.delete(&removal).expect(409);
    service.root.delete(&format!("{spaces}?filespace=/no/such")).expect(404);
    let refused = service.server.try_admin(&["filespace", "remove", "a", &name, "--confirm"]);
    refused.expect(&[12]).says("waits already");
    let done = second.post(&last_request(&second), &json!({ "decision": "approve" }));
    let done = done.expect(200).json();
    assert_eq!(done["state"], "done", "{done}");
    assert!(done["summary"].as_str().unwrap().contains("of node a"), "{done}");
    assert_eq!(service.root.get(spaces).expect(200).json()["items"], json!([]));
    assert_eq!(service.root.get("/v1/nodes/a/backups").expect(200).json()["items"], json!([]));
    let log = service.root.get("/v1/log?kind=filespace%20removed").expect(200).json();
    let actor = &fields(&log, "actor")[0];
    assert!(actor.contains("root") && actor.contains("approved by second"), "{actor}");
    // The next backup stores everything again.
    node.backup(&tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
    let listed = service.root.get(spaces).expect(200).json();
    assert!(listed["items"][0]["active_objects"].as_u64().unwrap() > 5, "{listed}");
}

#[test]
fn nobody_is_asked_about_a_filespace_that_a_class_holds() {
    let (service, second) = with_two_persons();
    let node = enrol(&service, "a");
    let tree = service.scratch.folder("tree");
    node.backup(&tree, &[]).expect(&[0]);
    let spaces = "/v1/nodes/a/filespaces";
    let listed = service.root.get(spaces).expect(200).json();
    let name = listed["items"][0]["name"].as_str().unwrap();
    let class = json!({ "name": "STANDARD", "locked_until": "2099-01-01T00:00:00Z" });
    let policy = "/v1/domains/STANDARD/policy";
    let edit = json!({ "put_class": class });
    service.root.patch(&format!("{policy}/draft"), &edit).expect(200);
    service.root.post(&format!("{policy}/activation"), &json!({})).expect(200);
    let refused = service.root.delete(&format!("{spaces}?filespace={name}")).expect(409).json();
    assert!(refused["detail"].as_str().unwrap().contains("locked until"), "{refused}");
    assert_eq!(second.get("/v1/approvals").expect(200).json()["items"], json!([]));
}

#[test]
fn a_filespace_is_removed_by_the_command_line() {
    let service = Provider::new();
    let node = enrol(&service, "a");
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 5, 1_000, 7);
    node.backup(&tree, &[]).expect(&[0]);
    let listed = service.server.admin(&["filespace", "list", "a"]);
    let name = listed["name"].as_str().unwrap();
    let removed = service.server.admin(&["filespace", "remove", "a", name, "--confirm"]);
    assert_eq!(removed["filespace"], name);
    assert_eq!(service.server.admin(&["filespace", "list", "a"]), json!([]));
}

const DRAFT: &str = "/v1/domains/STANDARD/policy/draft";
const ACTIVATION: &str = "/v1/domains/STANDARD/policy/activation";

fn keeping(days: &str) -> Value {
    json!({ "put_class": { "name": "STANDARD", "backup": { "extra_days": days } } })
}

/// Returns the days for which the active set keeps extra versions.
#[track_caller]
fn extra_days(caller: &Caller) -> Value {
    let policy = caller.get("/v1/domains/STANDARD/policy").expect(200).json();
    policy["active"]["classes"][0]["backup"]["extra_days"].clone()
}

#[test]
fn a_policy_that_shortens_waits_for_a_second_person() {
    let (service, second) = with_two_persons();
    let approve = json!({ "decision": "approve", "reason": "as agreed" });
    let longer = service.root.patch(DRAFT, &keeping("90")).expect(200).json();
    assert_eq!(longer["needs_approval"], false);
    service.root.post(ACTIVATION, &json!({})).expect(200);
    let before = extra_days(&second);
    let shorter = service.root.patch(DRAFT, &keeping("5")).expect(200).json();
    assert_eq!(
        (&shorter["needs_approval"], &shorter["differences"][0]["shortens"]),
        (&true.into(), &true.into()),
        "{shorter}"
    );
    let asked = service.root.post(ACTIVATION, &json!({})).expect(202).json();
    assert_eq!(asked["code"], "approval-needed");
    service.root.post(ACTIVATION, &json!({})).expect(409);
    let path = last_request(&second);
    service.root.post(&path, &approve).expect(403);
    // The second person approves what was reviewed, and nothing else.
    service.root.patch(DRAFT, &keeping("1")).expect(200);
    let failed = second.post(&path, &approve).expect(200).json();
    assert_eq!(failed["state"], "failed");
    assert!(failed["reason"].as_str().unwrap().contains("has changed since"), "{failed}");
    assert_eq!(extra_days(&second), before);
    service.root.patch(DRAFT, &keeping("7")).expect(200);
    service.root.post(ACTIVATION, &json!({})).expect(202);
    let done = second.post(&last_request(&second), &approve).expect(200).json();
    assert_eq!(done["state"], "done", "{done}");
    assert!(done["summary"].as_str().unwrap().contains("RETEXTRA: 90 -> 7"), "{done}");
    assert_ne!(extra_days(&second), before);
    let log = service.root.get("/v1/log?kind=policy%20activated").expect(200).json();
    let actor = &fields(&log, "actor")[0];
    assert!(actor.contains("root") && actor.contains("approved by second"), "{actor}");
}

#[test]
fn a_class_is_removed_by_two_persons_of_its_domain() {
    let (service, _) = with_two_persons();
    let anna = service.tenant("LAB");
    let bert = service.person("bert", &["tenant@LAB"]);
    let carl = service.tenant("LAW");
    let draft = "/v1/domains/LAB/policy/draft";
    let activation = "/v1/domains/LAB/policy/activation";
    anna.patch(draft, &json!({ "put_class": { "name": "WEEKLY", "backup": {} } }))
        .expect(200);
    anna.post(activation, &json!({})).expect(200);
    anna.patch(draft, &json!({ "remove_class": "WEEKLY" })).expect(200);
    anna.post(activation, &json!({})).expect(202);
    let path = last_request(&bert);
    let approve = json!({ "decision": "approve" });
    assert_eq!(carl.get("/v1/approvals").expect(200).json()["items"], json!([]));
    carl.post(&path, &approve).expect(404);
    carl.post(activation, &json!({})).expect(404);
    let done = bert.post(&path, &approve).expect(200).json();
    assert_eq!(done["state"], "done", "{done}");
    let policy = anna.get("/v1/domains/LAB/policy").expect(200).json();
    assert_eq!(policy["active"]["classes"].as_array().unwrap().len(), 1, "{policy}");
}

#[test]
fn a_domain_shows_no_request_of_one_before_it() {
    let (service, second) = with_two_persons();
    let anna = service.tenant("LAB");
    let draft = "/v1/domains/LAB/policy/draft";
    let activation = "/v1/domains/LAB/policy/activation";
    let shorten = |caller: &Caller| {
        caller.patch(draft, &keeping("5")).expect(200);
        caller.post(activation, &json!({})).expect(202);
    };
    shorten(&anna);
    service.server.admin(&["domain", "remove", "LAB"]);
    let ended = second.get("/v1/approvals").expect(200).json()["items"][0].clone();
    assert_eq!((&ended["state"], &ended["decided_by"]), (&json!("refused"), &json!("server")));
    service.root.post("/v1/domains", &json!({ "name": "LAB" })).expect(201);
    let bert = service.person("bert", &["tenant@LAB"]);
    let carl = service.person("carl", &["tenant@LAB"]);
    assert_eq!(carl.get("/v1/approvals").expect(200).json()["items"], json!([]));
    // The request of the domain before does not stand in the way of the same one.
    shorten(&bert);
    let listed = carl.get("/v1/approvals").expect(200).json();
    let asked_by = fields(&listed, "asked_by");
    assert!(asked_by.len() == 1 && asked_by[0].starts_with("bert"), "{listed}");
}

#[test]
fn a_move_to_a_domain_that_keeps_less_waits_for_a_second_person() {
    let (service, second) = with_two_persons();
    let anna = service.tenant("LAB");
    let draft = |domain: &str| format!("/v1/domains/{domain}/policy/draft");
    let activation = |domain: &str| format!("/v1/domains/{domain}/policy/activation");
    service.root.post("/v1/domains", &json!({ "name": "LONG" })).expect(201);
    let class = |name: &str, days: &str| -> Value {
        json!({ "put_class": { "name": name, "backup": { "extra_days": days } } })
    };
    service.root.patch(&draft("LONG"), &class("STANDARD", "90")).expect(200);
    service.root.post(&activation("LONG"), &json!({})).expect(200);
    service
        .root
        .post("/v1/nodes", &json!({ "name": "a", "domain": "LAB" }))
        .expect(201);
    let domain = || second.get("/v1/nodes/a").expect(200).json()["domain"].clone();
    let to = |domain: &str| json!({ "domain": domain });
    // A move to a domain that keeps more waits for nobody.
    service.root.patch("/v1/nodes/a", &to("LONG")).expect(200);
    let both = json!({ "domain": "LAB", "description": "moved" });
    service.root.patch("/v1/nodes/a", &both).expect(409);
    let asked = service.root.patch("/v1/nodes/a", &to("LAB")).expect(202).json();
    assert_eq!((&asked["code"], domain()), (&json!("approval-needed"), json!("LONG")));
    let approve = json!({ "decision": "approve" });
    let path = last_request(&second);
    service.root.post(&path, &approve).expect(403);
    anna.post(&path, &approve).expect(404);
    assert_eq!(anna.get("/v1/approvals").expect(200).json()["items"], json!([]));
    // The second person approves what was reviewed, and nothing else.
    service.root.patch(&draft("LONG"), &class("STANDARD", "120")).expect(200);
    service.root.post(&activation("LONG"), &json!({})).expect(200);
    let failed = second.post(&path, &approve).expect(200).json();
    assert!(failed["reason"].as_str().unwrap().contains("has changed since"), "{failed}");
    assert_eq!(domain(), json!("LONG"));
    let far = FarAdmin::new(&service);
    let both = ["node", "set", "a", "--domain", "LAB", "--label", "moved"];
    far.run(&both).expect(&[12]).says("change the rest apart");
    far.run(&["node", "set", "a", "--domain", "LAB"])
        .expect(&[12])
        .says("waits as number");
    service.root.patch("/v1/nodes/a", &to("LAB")).expect(409);
    let done = second.post(&last_request(&second), &approve).expect(200).json();
    assert_eq!((&done["state"], domain()), (&json!("done"), json!("LAB")));
    assert!(done["summary"].as_str().unwrap().contains("STANDARD RETEXTRA: 120 -> 30"), "{done}");
    far.run(&["node", "set", "a", "--domain", "LONG"]).expect(&[0]);
    assert_eq!(domain(), json!("LONG"));
}

/// The administration of a service from another machine, with a key of root.
struct FarAdmin {
    words: Vec<String>,
}

impl FarAdmin {
    #[track_caller]
    fn new(service: &Provider) -> Self {
        let key = service.scratch.join("key");
        let made = service.server.admin(&["key", "add", "--user", "root", "--kind", "full"]);
        fs::write(&key, made["token"].as_str().unwrap()).unwrap();
        let (url, ca) = (service.stranger.url(), service.server.dir().join("ca.pem"));
        let (ca, key) = (ca.to_str().unwrap(), key.to_str().unwrap());
        let words = ["admin", "--server", &url, "--ca", ca, "--key-file", key];
        Self { words: words.map(str::to_owned).to_vec() }
    }

    fn run(&self, command: &[&str]) -> Outcome {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        crate::api::holdfast(&[&words[..], command].concat())
    }
}

#[test]
fn a_policy_that_shortens_waits_when_it_is_activated_from_elsewhere() {
    let (service, second) = with_two_persons();
    let far = FarAdmin::new(&service);
    let before = extra_days(&second);
    service.root.patch(DRAFT, &keeping("90")).expect(200);
    far.run(&["policy", "activate"]).expect(&[0]);
    let longer = extra_days(&second);
    assert_ne!(longer, before);
    service.root.patch(DRAFT, &keeping("5")).expect(200);
    far.run(&["policy", "activate"]).expect(&[12]).says("waits as number 1");
    far.run(&["policy", "activate"]).expect(&[12]).says("waits already");
    assert_eq!(extra_days(&second), longer);
    let approve = json!({ "decision": "approve" });
    service.root.post(&last_request(&second), &approve).expect(403);
    let done = second.post(&last_request(&second), &approve).expect(200).json();
    assert_eq!(done["state"], "done", "{done}");
    assert_ne!(extra_days(&second), longer);
}

#[test]
fn what_is_removed_or_labelled_from_elsewhere_waits_for_a_second_person() {
    let (service, second) = with_two_persons();
    let far = FarAdmin::new(&service);
    let spare = format!("file://{}", service.scratch.join("spare").display());
    let tapes = service.scratch.folder("tapes");
    let tapes = tapes.to_str().unwrap();
    service.root.post("/v1/nodes", &json!({ "name": "a" })).expect(201);
    service.server.admin(&["pool", "add", "SPARE", &spare]);
    service
        .server
        .admin(&["library", "add", "TL", "--folder", tapes, "--capacity", "64M"]);
    far.run(&["node", "remove", "a"]).expect(&[12]).says("waits as number 1");
    far.run(&["pool", "remove", "SPARE"]).expect(&[12]).says("waits as number 2");
    let label = ["volume", "label", "TL", "A00001", "A00002"];
    let labelled = far.run(&[&label[..], &["--overwrite"]].concat()).expect(&[12]);
    labelled.says("waits as number 3").says("waits as number 4");
    let removed = ["/v1/nodes/a", "/v1/pools/SPARE"];
    for path in removed {
        service.root.get(path).expect(200);
    }
    for number in 1..5 {
        let path = format!("/v1/approvals/{number}/decision");
        let approve = json!({ "decision": "approve" });
        let done = second.post(&path, &approve).expect(200).json();
        assert_eq!(done["state"], "done", "{done}");
        assert!(done["asked_by"].as_str().unwrap().starts_with("root"), "{done}");
    }
    for path in removed {
        service.root.get(path).expect(404);
    }
    let volumes = service.root.get("/v1/volumes?library=TL").expect(200).json();
    assert_eq!(fields(&volumes, "name"), ["A00001", "A00002"]);
    // A label that destroys nothing waits for nobody.
    far.run(&["volume", "label", "TL", "A00003"]).expect(&[0]);
}

#[test]
fn requests_are_decided_by_the_command_line() {
    let (service, _) = with_two_persons();
    let admin = |words: &[&str]| service.server.admin(&[&["approval"], words].concat());
    assert_eq!(admin(&["list"]), json!([]));
    for name in ["a", "b"] {
        service.root.post("/v1/nodes", &json!({ "name": name })).expect(201);
        service.root.delete(&format!("/v1/nodes/{name}")).expect(202);
    }
    // Only who asked withdraws a request.
    let refused = service.server.try_admin(&["approval", "withdraw", "1"]);
    refused.expect(&[12]).says("only the person who asked");
    let listed = admin(&["list"]);
    assert_eq!((&listed[0]["number"], &listed[1]["number"]), (&json!(2), &json!(1)));
    assert!(listed[1]["asked_by"].as_str().unwrap().starts_with("root"), "{listed}");
    assert_eq!(admin(&["refuse", "1", "--reason", "is used"])["state"], "refused");
    assert_eq!(admin(&["approve", "2"])["state"], "done");
    service.root.get("/v1/nodes/a").expect(200);
    service.root.get("/v1/nodes/b").expect(404);
    assert_eq!(admin(&["list"]), json!([]));
    assert_eq!(admin(&["list", "--all"]).as_array().unwrap().len(), 2);
    service
        .server
        .try_admin(&["approval", "approve", "2"])
        .expect(&[12])
        .says("already");
    service
        .server
        .try_admin(&["approval", "refuse", "77"])
        .expect(&[12])
        .says("no request");
}

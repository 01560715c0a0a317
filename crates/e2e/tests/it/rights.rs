//! Ways around the table of roles: nobody gets a right by using another one.

use e2e::harness::Outcome;
use e2e::harness::api::Caller;
use serde_json::{Value, json};

use crate::administration_from_tsm::refused as tsm_refuses;
use crate::api::{Provider, fields};
use crate::at_work::{enrol, until};
use crate::scene::plant_files;
use crate::tenant_keys;

/// The definition of a schedule with this action.
fn definition(action: &Value) -> Value {
    json!({
        "action": action,
        "timing": {
            "starts": { "calendar": { "times": "22:00" } },
            "window_minutes": 60,
            "spread_percent": 0,
        },
        "zone": "Europe/Berlin",
        "priority": 5,
        "retries": 0,
        "retry_pause_minutes": 20,
    })
}

#[test]
fn an_operator_hands_over_no_node() {
    let service = Provider::new();
    service.root.post("/v1/domains", &json!({ "name": "LAB" })).expect(201);
    let node = enrol(&service, "web-1");
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 3, 1_000, 7);
    node.backup(&tree, &[]).expect(&[0]);
    let operator = service.person("olga", &["operator"]);
    for change in [json!({ "owner": "olga" }), json!({ "domain": "LAB" })] {
        operator.patch("/v1/nodes/web-1", &change).expect(403);
    }
    operator.patch("/v1/nodes/web-1", &json!({ "description": "x" })).expect(200);
    let domains = |caller: &Caller| {
        fields(&caller.get("/v1/nodes/web-1/policies").expect(200).json(), "domain")
    };
    assert_eq!(domains(&operator), ["STANDARD"], "no choice that is refused");
    assert_eq!(domains(&service.root).len(), 2);
    let run = |words: &[&str]| -> Outcome { tenant_keys::run(&service, "olga", words) };
    run(&["node", "set", "web-1", "--domain", "LAB"]).expect(&[12]);
    run(&["node", "lock", "web-1"]).expect(&[0]);
    service.root.patch("/v1/nodes/web-1", &json!({ "domain": "LAB" })).expect(200);
}

#[test]
fn who_decides_about_policies_runs_no_commands_at_nodes() {
    let service = Provider::new();
    let pia = service.person("pia", &["policy"]);
    let harmless = definition(&json!({ "work": "incremental" }));
    let commands = [
        definition(&json!({ "work": "command", "objects": ["id"] })),
        definition(&json!({ "work": "restore", "objects": ["/etc"] })),
        definition(&json!({ "work": "incremental", "options": ["--pre-command=id"] })),
    ];
    pia.post("/v1/schedules", &json!({ "name": "n", "definition": harmless }))
        .expect(201);
    for (number, command) in commands.iter().enumerate() {
        let new = json!({ "name": format!("c{number}"), "definition": command });
        pia.post("/v1/schedules", &new).expect(403);
        let change = json!({ "definition": command });
        pia.send("PUT", "/v1/schedules/n", Some(&change)).expect(403);
        service.root.post("/v1/schedules", &new).expect(201);
        let followers = json!({ "add": [{ "domain": "STANDARD" }] });
        pia.patch(&format!("/v1/schedules/c{number}/followers"), &followers).expect(403);
        pia.delete(&format!("/v1/schedules/c{number}")).expect(204);
    }
    let option = |name: &str, value: &str| json!([{ "name": name, "value": value }]);
    let set = json!({ "name": "s", "options": option("pre-command", "id") });
    pia.post("/v1/option-sets", &set).expect(403);
    let set = json!({ "name": "s", "options": option("compression", "threads") });
    pia.post("/v1/option-sets", &set).expect(201);
    pia.patch("/v1/option-sets/s", &json!({ "set": option("post-command", "id") }))
        .expect(403);

    // A command that was taken from the set does not come back with an older version.
    service
        .root
        .patch("/v1/option-sets/s", &json!({ "set": option("post-command", "id") }))
        .expect(200);
    service
        .root
        .patch("/v1/option-sets/s", &json!({ "unset": ["post-command"] }))
        .expect(200);
    pia.patch("/v1/option-sets/s", &json!({ "revert_to": 2 })).expect(403);
    pia.patch("/v1/option-sets/s", &json!({ "revert_to": 1 })).expect(200);

    let run = |words: &[&str]| -> Outcome { tenant_keys::run(&service, "pia", words) };
    run(&["optionset", "revert", "s", "--to", "2"]).expect(&[12]);
    let define = ["schedule", "define", "d", "--time", "22:00", "--action"];
    run(&[&define[..], &["incremental"]].concat()).expect(&[0]);
    run(&["schedule", "update", "d", "--action", "command", "--object", "id"]).expect(&[12]);
    let set = ["optionset", "update", "s", "--option"];
    run(&[&set[..], &["pre-command=id"]].concat()).expect(&[12]);
    run(&[&set[..], &["priority=low"]].concat()).expect(&[0]);
}

#[test]
fn a_schedule_is_for_those_whose_nodes_follow_it() {
    let service = Provider::new();
    let (lab, law) = (service.tenant("LAB"), service.tenant("LAW"));
    law.post("/v1/nodes", &json!({ "name": "law-1", "domain": "LAW" })).expect(201);
    let make = |name: &str, follower: Value| {
        let definition = definition(&json!({ "work": "incremental" }));
        let new = json!({ "name": name, "definition": definition, "followers": [follower] });
        service.root.post("/v1/schedules", &new).expect(201);
    };
    make("of-domain", json!({ "domain": "LAB" }));
    make("of-label", json!({ "label": "web" }));
    let names = |caller: &Caller| fields(&caller.get("/v1/schedules").expect(200).json(), "name");
    assert_eq!((names(&lab), names(&law)), (vec!["of-domain".to_owned()], Vec::new()));
    law.get("/v1/schedules/of-domain").expect(404);
    law.patch("/v1/nodes/law-1", &json!({ "add_labels": ["web"] })).expect(200);
    assert_eq!(names(&law), ["of-label"]);
    law.get("/v1/schedules/of-label").expect(200);
}

/// Makes the tenants LAB and LAW, each with a node that has the label web. Returns them.
fn two_tenants(service: &Provider) -> (Caller, Caller) {
    let (lab, law) = (service.tenant("LAB"), service.tenant("LAW"));
    for (caller, name, domain) in [(&lab, "lab-1", "LAB"), (&law, "law-1", "LAW")] {
        caller.post("/v1/nodes", &json!({ "name": name, "domain": domain })).expect(201);
        let label = json!({ "add_labels": ["web"] });
        caller.patch(&format!("/v1/nodes/{name}"), &label).expect(200);
    }
    (lab, law)
}

/// Returns a new schedule of LAB.
fn of_lab(name: &str, work: &Value, follower: Value) -> Value {
    let definition = definition(work);
    json!({ "name": name, "domain": "LAB", "definition": definition, "followers": [follower] })
}

/// Returns the names of the schedules that the caller sees at the node.
fn schedules_of(caller: &Caller, node: &str) -> Vec<String> {
    let list = caller.get(&format!("/v1/nodes/{node}/schedules")).expect(200).json();
    fields(&list, "name")
}

#[test]
fn a_tenant_defines_schedules_for_own_nodes_only() {
    let service = Provider::new();
    let (lab, law) = two_tenants(&service);
    let (harmless, all) = (json!({ "work": "incremental" }), json!({ "label": "web" }));
    let made = lab.post("/v1/schedules", &of_lab("nightly", &harmless, all.clone()));
    let made = made.expect(201).json();
    assert_eq!((&made["domain"], &made["followers"]), (&json!("LAB"), &json!([all])));
    let command = json!({ "work": "command", "objects": ["id"] });
    lab.post("/v1/schedules", &of_lab("id", &command, json!({ "node": "lab-1" })))
        .expect(201);
    let of_service = json!({ "name": "all", "definition": definition(&harmless) });
    lab.post("/v1/schedules", &of_service).expect(403);
    for (wrong, status) in [
        (of_lab("tidy", &json!({ "work": "expire" }), all.clone()), 409),
        (of_lab("other", &harmless, json!({ "node": "law-1" })), 404),
        (of_lab("other", &harmless, json!({ "domain": "LAW" })), 404),
        (of_lab("other", &harmless, json!({ "domain": "STANDARD" })), 404),
    ] {
        lab.post("/v1/schedules", &wrong).expect(status);
    }
    law.post("/v1/schedules", &of_lab("other", &harmless, all)).expect(404);

    let of = |domain: &str| {
        let path = format!("/v1/schedules?domain={domain}");
        fields(&service.root.get(&path).expect(200).json(), "name")
    };
    assert_eq!((of("lab"), of("LAW")), (vec!["id".to_owned(), "nightly".to_owned()], Vec::new()));
    law.get("/v1/schedules?domain=LAB").expect(404);

    // The other tenant's node has the label, and neither follows nor sees anything of it.
    assert_eq!(schedules_of(&lab, "lab-1"), ["id", "nightly"]);
    assert_eq!(schedules_of(&law, "law-1"), [""; 0]);
    assert_eq!(schedules_of(&service.root, "law-1"), [""; 0]);
    let shown = service.server.admin(&["schedule", "show", "nightly"]);
    assert_eq!((&shown["domain"], &shown["followed_by"]), (&json!("LAB"), &json!(["lab-1"])));
    let copy = "copy sched standard nightly standard other";
    tsm_refuses(&service.server, copy, 9, "schedule nightly belongs to domain LAB");
    let node = lab.get("/v1/nodes/lab-1").expect(200).json();
    assert_eq!(node["schedules"], json!(["id", "nightly"]));
    // A node that leaves the domain takes nothing along.
    service.root.patch("/v1/nodes/lab-1", &json!({ "domain": "LAW" })).expect(200);
    assert_eq!(schedules_of(&law, "lab-1"), [""; 0]);
    assert_eq!(law.get("/v1/schedules").expect(200).json()["items"], json!([]));
    service.root.delete("/v1/domains/LAB").expect(409);
    for name in ["nightly", "id"] {
        lab.delete(&format!("/v1/schedules/{name}")).expect(204);
    }
}

#[test]
fn a_schedule_of_a_domain_is_for_those_who_administer_the_domain() {
    let service = Provider::new();
    let (lab, law) = two_tenants(&service);
    let (harmless, all) = (json!({ "work": "incremental" }), json!({ "label": "web" }));
    let command = json!({ "work": "command", "objects": ["id"] });
    for (name, work) in [("nightly", &harmless), ("id", &command)] {
        lab.post("/v1/schedules", &of_lab(name, work, all.clone())).expect(201);
    }
    let change = json!({ "definition": definition(&harmless) });
    for path in ["/v1/schedules/nightly", "/v1/schedules/none"] {
        law.get(path).expect(404);
        law.delete(path).expect(404);
        law.send("PUT", path, Some(&change)).expect(404);
        law.patch(&format!("{path}/followers"), &json!({ "add": [{ "node": "law-1" }] }))
            .expect(404);
    }
    let operator = service.person("olga", &["operator@LAB"]);
    operator.get("/v1/schedules/nightly").expect(200);
    operator.delete("/v1/schedules/nightly").expect(403);
    let owner = service.person("otto", &["owner@LAB"]);
    service.root.patch("/v1/nodes/lab-1", &json!({ "owner": "otto" })).expect(200);
    assert_eq!(schedules_of(&owner, "lab-1"), ["id", "nightly"]);
    owner.get("/v1/schedules/nightly").expect(200);
    owner.delete("/v1/schedules/nightly").expect(403);

    // A person who decides about policies only lets no commands run.
    let pia = service.person("pia", &["policy@LAB"]);
    pia.send("PUT", "/v1/schedules/nightly", Some(&change)).expect(200);
    let change = json!({ "definition": definition(&command) });
    pia.send("PUT", "/v1/schedules/nightly", Some(&change)).expect(403);
    pia.patch("/v1/schedules/id/followers", &json!({ "add": [{ "node": "lab-1" }] }))
        .expect(403);
}

#[test]
fn an_event_says_nothing_of_a_schedule_of_others_with_the_name_of_its_own() {
    let service = Provider::new();
    let (lab, law) = two_tenants(&service);
    let mut soon = of_lab("x", &json!({ "work": "incremental" }), json!({ "node": "lab-1" }));
    let at = sys::clock::now().0 + 20_000_000;
    soon["definition"]["timing"]["starts"] = json!({ "once": at });
    lab.post("/v1/schedules", &soon).expect(201);
    let event = || {
        let events = lab.get("/v1/events?schedule=x").expect(200).json();
        events["items"].as_array().unwrap().first().cloned()
    };
    let opened = until("the window opens", event);
    assert_eq!(opened["work"], "incremental");
    lab.delete("/v1/schedules/x").expect(204);
    let command = definition(&json!({ "work": "command", "objects": ["id"] }));
    let other = json!({ "name": "x", "domain": "LAW", "definition": command });
    law.post("/v1/schedules", &other).expect(201);
    let seen = event().expect("the event stays");
    assert_eq!((&seen["number"], &seen["work"]), (&opened["number"], &Value::Null));
    let work_is = |work: &str| {
        let events = lab.get(&format!("/v1/events?schedule=x&work={work}")).expect(200);
        events.json()["items"].as_array().unwrap().len()
    };
    assert_eq!((work_is("command"), work_is("incremental")), (0, 0));
    let restore = definition(&json!({ "work": "restore", "objects": ["/secret"] }));
    let change = json!({ "definition": restore });
    law.send("PUT", "/v1/schedules/x", Some(&change)).expect(200);
    let restores = |caller: &Caller| caller.get("/v1/restores").expect(200).json();
    assert_eq!(restores(&lab)["items"], json!([]));
    assert_eq!(restores(&service.root)["items"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_parameter_that_an_operation_does_not_have_is_refused() {
    let service = Provider::new();
    for path in ["/v1/nodes?domian=LAB", "/v1/log?knd=x", "/v1/pools?x=1"] {
        service.root.get(path).expect(400);
    }
}

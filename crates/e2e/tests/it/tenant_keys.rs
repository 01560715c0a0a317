//! `holdfast admin` from elsewhere, with the key of somebody who administers one domain.

use std::fs;

use e2e::harness::Outcome;
use serde_json::json;

use crate::api::{Provider, holdfast};

/// Runs `holdfast admin` with the key of a person.
#[track_caller]
pub(crate) fn run(service: &Provider, login: &str, words: &[&str]) -> Outcome {
    let key = service.scratch.join(&format!("key of {login}"));
    if fs::metadata(&key).is_err() {
        let made = service.server.admin(&["key", "add", "--user", login]);
        fs::write(&key, format!("{}\n", made["token"].as_str().unwrap())).unwrap();
    }
    let ca = service.server.dir().join("ca.pem");
    let (url, ca, key) = (service.stranger.url(), ca.to_str().unwrap(), key.to_str().unwrap());
    let fixed = ["admin", "--server", &url, "--ca", ca, "--key-file", key, "--json"];
    holdfast(&[&fixed, words].concat())
}

/// Returns the values of a field of each line.
#[track_caller]
fn names(outcome: Outcome, field: &str) -> Vec<String> {
    let lines = outcome.expect(&[0]).json_lines();
    lines.iter().map(|line| line[field].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_tenant_administers_the_own_domain_from_elsewhere() {
    let service = Provider::new();
    service.tenant("LAB");
    service.tenant("LAW");
    let lab = |words: &[&str]| run(&service, "admin-of-LAB", words);
    let law = |words: &[&str]| run(&service, "admin-of-LAW", words);
    service.root.post("/v1/nodes", &json!({ "name": "web-1" })).expect(201);
    law(&["node", "add", "law-1", "--domain", "LAW"]).expect(&[0]);
    assert_eq!(names(lab(&["node", "list"]), "node"), [""; 0]);
    lab(&["node", "add", "lab-1", "--domain", "LAB"]).expect(&[0]);
    assert_eq!(names(lab(&["node", "list"]), "node"), ["lab-1"]);
    assert_eq!(names(law(&["node", "list"]), "node"), ["law-1"]);
    assert_eq!(names(lab(&["domain", "list"]), "domain"), ["LAB"]);
    lab(&["node", "lock", "lab-1"]).expect(&[0]);
    // A new token for a node leaves the node where it is.
    lab(&["node", "add", "lab-1", "--again"]).expect(&[0]);
    let shown = lab(&["node", "show", "lab-1"]).expect(&[0]).json_lines();
    assert_eq!((&shown[0]["domain"], &shown[0]["locked"]), (&json!("LAB"), &json!(true)));
    lab(&["node", "unlock", "lab-1"]).expect(&[0]);
    lab(&["policy", "--domain", "LAB", "class", "WEEKLY", "--verexists", "9"]).expect(&[0]);
    lab(&["policy", "--domain", "LAB", "activate"]).expect(&[0]);
    for (run, node) in [(&lab as &dyn Fn(&[&str]) -> Outcome, "lab-1"), (&law, "law-1")] {
        run(&["run", "--detach", node, "--", "backup"]).expect(&[0]);
        assert_eq!(names(run(&["event", "list"]), "node"), [node]);
    }
    let schedule = names(law(&["event", "list"]), "schedule").pop().unwrap();
    let of_run = ["event", "list", "--schedule", &schedule];
    assert_eq!(names(law(&of_run), "node"), ["law-1"]);
    lab(&of_run).expect(&[12]).says("there is no schedule");
    lab(&["node", "remove", "lab-1"]).expect(&[0]);
    let log = service.server.admin(&["log", "--kind", "node removed"]);
    assert!(log["actor"].as_str().unwrap().starts_with("admin-of-LAB (key hf-"), "{log}");
}

#[test]
fn a_customer_reaches_own_nodes_from_elsewhere() {
    let service = Provider::new();
    let lab = service.tenant("LAB");
    lab.post("/v1/nodes", &json!({ "name": "lab-1", "domain": "LAB" })).expect(201);
    let eve = service.person("eve", &["owner@LAB"]);
    eve.post("/v1/nodes", &json!({ "name": "eve-1", "domain": "LAB" })).expect(201);
    let run = |words: &[&str]| run(&service, "eve", words);
    assert_eq!(names(run(&["node", "list"]), "node"), ["eve-1"]);
    run(&["node", "show", "eve-1"]).expect(&[0]);
    run(&["node", "add", "eve-1", "--again"]).expect(&[0]);
    let refused = |words: &[&str]| run(words).stderr.replace("lab-1", "nil-1");
    assert_eq!(refused(&["node", "show", "lab-1"]), refused(&["node", "show", "nil-1"]));
    // Settings of the service for a node are not the customer's.
    run(&["node", "lock", "eve-1"]).expect(&[12]).says("your roles do not allow");
    run(&["node", "add", "eve-2", "--domain", "LAB"]).expect(&[12]);
    run(&["policy", "--domain", "LAB", "activate"]).expect(&[12]);
    let reader = service.server.admin(&["key", "add", "--user", "eve", "--kind", "readonly"]);
    fs::write(service.scratch.join("key of eve"), reader["token"].as_str().unwrap()).unwrap();
    assert_eq!(names(run(&["node", "list"]), "node"), ["eve-1"]);
    run(&["node", "remove", "eve-1"]).expect(&[12]);
}

/// An operator looks after the daily work, and gets at no contents: neither by a request, nor by a
/// command, nor by a label.
#[test]
fn an_operator_starts_nothing_that_reaches_the_contents_of_files() {
    let service = Provider::new();
    let lab = service.tenant("LAB");
    lab.post("/v1/nodes", &json!({ "name": "lab-1", "domain": "LAB" })).expect(201);
    let change = json!({ "add_labels": ["web"] });
    service.root.patch("/v1/nodes/lab-1", &change).expect(200);
    let operator = service.person("olga", &["operator"]);
    let action = |work: &str, objects: &[&str], options: &[&str]| {
        json!({
            "nodes": ["lab-1"],
            "definition": {
                "action": { "work": work, "objects": objects, "options": options },
                "timing": { "starts": { "once": 0 }, "window_minutes": 60, "spread_percent": 0 },
                "zone": "UTC", "priority": 5, "retries": 0, "retry_pause_minutes": 1,
            },
        })
    };
    let restore = action("restore", &["/etc"], &["--to=/tmp"]);
    let command = action("command", &["id"], &[]);
    let around = action("incremental", &[], &["--pre-command=id"]);
    for run in [&restore, &command, &around] {
        operator.post("/v1/runs", run).expect(403);
        lab.post("/v1/runs", run).expect(201);
        service.root.post("/v1/runs", run).expect(201);
    }
    operator
        .post("/v1/runs", &action("incremental", &[], &["--exclude=*.o"]))
        .expect(201);
    let by = |login: &str, words: &str| {
        let words: Vec<&str> = ["run", "--detach"].into_iter().chain(words.split(' ')).collect();
        run(&service, login, &words)
    };
    let restore = "lab-1 -- restore --to /tmp /etc";
    let restore_by_label = "--label web -- restore --to /tmp /etc";
    for words in [restore, restore_by_label, "lab-1 -- command id"] {
        by("olga", words).expect(&[12]).says("your roles do not allow");
        by("root", words).expect(&[0]);
    }
    by("olga", "--label web -- backup").expect(&[0]);
    by("admin-of-LAB", restore).expect(&[0]);
    by("admin-of-LAB", restore_by_label)
        .expect(&[12])
        .says("about the whole service");
}

/// The schedules of others are neither listed nor told from those that do not exist, nor are the
/// other followers of a shared one.
#[test]
fn a_tenant_lists_the_schedules_of_the_own_domain_from_elsewhere() {
    let service = Provider::new();
    let definition = json!({
        "action": { "work": "incremental" },
        "timing": {
            "starts": { "calendar": { "times": "22:00" } },
            "window_minutes": 60,
            "spread_percent": 0,
        },
        "zone": "UTC", "priority": 5, "retries": 2, "retry_pause_minutes": 20,
    });
    for domain in ["LAB", "LAW"] {
        let name = format!("of-{domain}");
        let own = json!({ "name": name, "domain": domain, "definition": definition });
        service.tenant(domain).post("/v1/schedules", &own).expect(201);
    }
    let followers = json!([{ "domain": "LAB" }, { "domain": "LAW" }]);
    let shared = json!({ "name": "nightly", "definition": definition, "followers": followers });
    service.root.post("/v1/schedules", &shared).expect(201);
    let law_alone = json!({ "name": "law", "definition": definition,
        "followers": [{ "domain": "LAW" }] });
    service.root.post("/v1/schedules", &law_alone).expect(201);
    let lab = |words: &[&str]| run(&service, "admin-of-LAB", words);
    assert_eq!(names(lab(&["schedule", "list"]), "schedule"), ["nightly", "of-LAB"]);
    let shown = lab(&["schedule", "show", "nightly"]).expect(&[0]).json_lines().remove(0);
    assert!(!shown.to_string().contains("LAW"), "{shown}");
    assert_eq!(shown["changed_by"], "");
    let refusal = |name: &str| {
        let outcome = lab(&["schedule", "show", name]);
        assert_ne!(outcome.code(), 0, "{outcome}");
        outcome.stderr.replace(name, "NAME")
    };
    assert_eq!(refusal("of-LAW"), refusal("nothing"));
    assert_eq!(refusal("law"), refusal("nil"));
    let all = run(&service, "root", &["schedule", "list"]);
    assert_eq!(names(all, "schedule"), ["law", "nightly", "of-LAB", "of-LAW"]);
}

#[test]
fn a_tenant_defines_schedules_of_the_own_domain_from_elsewhere() {
    let service = Provider::new();
    for (domain, name) in [("LAB", "lab-1"), ("LAW", "law-1")] {
        let new = json!({ "name": name, "domain": domain });
        service.tenant(domain).post("/v1/nodes", &new).expect(201);
    }
    let lab = |words: &[&str]| run(&service, "admin-of-LAB", words);
    let define = |name: &'static str, domain: &'static str| {
        let at = ["--action", "incremental", "--time", "22:00", "--zone", "UTC"];
        [&["schedule", "define", name, "--domain", domain][..], &at].concat()
    };
    lab(&define("noon", "LAB")).expect(&[0]);
    lab(&["schedule", "update", "noon", "--time", "12:00"]).expect(&[0]);
    lab(&["schedule", "associate", "noon", "--node", "lab-1"]).expect(&[0]);
    let shown = service.root.get("/v1/schedules/noon").expect(200).json();
    assert_eq!(
        (&shown["domain"], &shown["followers"]),
        (&json!("LAB"), &json!([{ "node": "lab-1" }]))
    );
    assert_eq!(shown["definition"]["timing"]["starts"]["calendar"]["times"], "12:00");
    run(&service, "admin-of-LAW", &define("law-late", "LAW")).expect(&[0]);
    let orders: [&[&str]; 5] = [
        &["schedule", "update", "SCHEDULE", "--time", "13:00"],
        &["schedule", "delete", "SCHEDULE"],
        &["schedule", "associate", "SCHEDULE", "--node", "lab-1"],
        &["schedule", "dissociate", "SCHEDULE", "--node", "lab-1"],
        &["schedule", "associate", "noon", "--node", "NODE"],
    ];
    for order in orders {
        let ask = |schedule: &'static str, node: &'static str| {
            let word =
                |word: &&'static str| word.replace("SCHEDULE", schedule).replace("NODE", node);
            let words: Vec<String> = order.iter().map(word).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let outcome = lab(&words);
            assert_ne!(outcome.code(), 0, "{outcome}");
            (outcome.code(), outcome.stderr.replace(schedule, "SCHEDULE").replace(node, "NODE"))
        };
        assert_eq!(ask("law-late", "law-1"), ask("nil-late", "nil-1"), "{order:?}");
    }
    // Customers are not told who runs the service.
    service.server.admin(&["schedule", "update", "noon", "--time", "14:00"]);
    let shown = service.root.get("/v1/schedules/noon").expect(200).json();
    assert_ne!(shown["changed_by"], "", "{shown}");
    let answer = lab(&["schedule", "dissociate", "noon", "--node", "lab-1"]).expect(&[0]).json();
    assert_eq!(answer["changed_by"], "", "{answer}");
    lab(&["schedule", "delete", "noon"]).expect(&[0]);
    let left = service.root.get("/v1/schedules").expect(200).json();
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "{left}");
}

#[test]
fn a_tenant_makes_enrolment_keys_of_the_own_domain_from_elsewhere() {
    let service = Provider::new();
    for domain in ["LAB", "LAW"] {
        service.tenant(domain);
    }
    let lab = |words: &[&str]| run(&service, "admin-of-LAB", words);
    let law = |words: &[&str]| run(&service, "admin-of-LAW", words);
    let key = |name: &'static str, domain: &'static str| {
        ["enrolment-key", "add", name, "--count", "2", "--domain", domain]
    };
    lab(&key("lab-rollout", "LAB")).expect(&[0]);
    law(&key("law-rollout", "LAW")).expect(&[0]);
    let listed = |outcome: Outcome| {
        let lines = outcome.expect(&[0]).stdout;
        ["lab-rollout", "law-rollout"].map(|name| lines.contains(name))
    };
    assert_eq!(listed(lab(&["enrolment-key", "list"])), [true, false]);
    assert_eq!(listed(law(&["enrolment-key", "list"])), [false, true]);
    let refusal = |key: &[&str], name: &str| {
        let outcome = lab(key);
        assert_ne!(outcome.code(), 0, "{outcome}");
        outcome.stderr.replace(name, "NAME")
    };
    let end = |name: &'static str| refusal(&["enrolment-key", "revoke", name], name);
    assert_eq!(end("law-rollout"), end("nil-rollout"));
    let make = |domain: &'static str| refusal(&key("another", domain), domain);
    assert_eq!(make("LAW"), make("NIL"));
    lab(&["enrolment-key", "revoke", "lab-rollout"]).expect(&[0]);
    let keys = service.root.get("/v1/enrolment-keys").expect(200).json();
    let of_law = keys["items"].as_array().unwrap().iter();
    let of_law = of_law.filter(|key| key["domain"] == "LAW" && key["is_valid"] == true);
    assert_eq!(of_law.count(), 1, "{keys}");
}

#[test]
fn a_tenant_lists_the_option_sets_of_own_nodes_from_elsewhere() {
    let service = Provider::new();
    for domain in ["LAB", "LAW"] {
        service.tenant(domain);
    }
    for set in ["law-set", "shared"] {
        service.server.admin(&["optionset", "define", set, "--option", "wait=1h"]);
    }
    for (node, domain, set) in
        [("lab-1", "LAB", "shared"), ("law-1", "LAW", "shared"), ("law-2", "LAW", "law-set")]
    {
        let new = json!({ "name": node, "domain": domain });
        service.root.post("/v1/nodes", &new).expect(201);
        service.server.admin(&["node", "set", node, "--optionset", set]);
    }
    service.server.admin(&["optionset", "update", "shared", "--option", "wait=2h"]);
    let lab = |words: &[&str]| run(&service, "admin-of-LAB", words);
    assert_eq!(names(lab(&["optionset", "list"]), "option_set"), ["shared"]);
    let law = run(&service, "admin-of-LAW", &["optionset", "list"]);
    assert_eq!(names(law, "option_set"), ["law-set", "shared"]);
    let shown = lab(&["optionset", "show", "shared"]).expect(&[0]).json();
    assert_eq!((&shown["nodes"], &shown["changed_by"]), (&json!(["lab-1"]), &json!("")));
    assert_eq!(names(lab(&["optionset", "history", "shared"]), "changed_by"), ["", ""]);
    let refusal = |words: [&'static str; 3]| {
        let outcome = lab(&words);
        assert_ne!(outcome.code(), 0, "{outcome}");
        outcome.stderr.replace(words[2], "SET")
    };
    for order in ["show", "history"] {
        let refused = refusal(["optionset", order, "law-set"]);
        assert_eq!(refused, refusal(["optionset", order, "nil-set"]));
    }
    lab(&["optionset", "update", "shared", "--option", "wait=3h"]).expect(&[12]);
}

#[test]
fn a_node_that_moves_leaves_an_owner_of_another_domain_behind() {
    let service = Provider::new();
    service.tenant("LAB");
    let law = service.tenant("LAW");
    let eve = service.person("eve", &["owner@LAB"]);
    let both = service.person("both", &["owner@LAB", "owner@LAW"]);
    eve.post("/v1/nodes", &json!({ "name": "eve-1", "domain": "LAB" })).expect(201);
    both.post("/v1/nodes", &json!({ "name": "both-1", "domain": "LAB" }))
        .expect(201);
    service.server.admin(&["node", "set", "eve-1", "--domain", "LAW"]);
    assert_eq!(law.get("/v1/nodes/eve-1").expect(200).json()["owner"], json!(null));
    eve.get("/v1/nodes/eve-1").expect(404);
    let change = json!({ "domain": "LAW" });
    let moved = service.root.patch("/v1/nodes/both-1", &change).expect(200).json();
    assert_eq!((&moved["owner"], &moved["domain"]), (&json!("both"), &json!("LAW")));
    both.get("/v1/nodes/both-1").expect(200);
}

#[test]
fn objects_of_others_do_not_exist_for_a_tenant_elsewhere() {
    let service = Provider::new();
    service.tenant("LAB");
    let law = service.tenant("LAW");
    law.post("/v1/nodes", &json!({ "name": "law-1", "domain": "LAW" })).expect(201);
    let lab = |words: &[&str]| run(&service, "admin-of-LAB", words);
    let before = law.get("/v1/nodes/law-1").expect(200).json();
    let orders: [&[&str]; 9] = [
        &["node", "show", "NODE"],
        &["node", "lock", "NODE"],
        &["node", "rename", "NODE", "mine"],
        &["node", "remove", "NODE"],
        &["node", "revoke", "NODE"],
        &["node", "add", "NODE", "--again"],
        &["node", "add", "mine-1", "--domain", "DOMAIN"],
        &["policy", "--domain", "DOMAIN", "show"],
        &["policy", "--domain", "DOMAIN", "activate"],
    ];
    for order in orders {
        let ask = |node: &'static str, domain: &'static str| {
            let word = |word: &&'static str| word.replace("NODE", node).replace("DOMAIN", domain);
            let words: Vec<String> = order.iter().map(word).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let outcome = lab(&words);
            assert_ne!(outcome.code(), 0, "{outcome}");
            (outcome.code(), outcome.stderr.replace(node, "NODE").replace(domain, "DOMAIN"))
        };
        assert_eq!(ask("law-1", "LAW"), ask("nil-1", "NIL"), "{order:?}");
    }
    let define = ["schedule", "define", "x", "--action", "incremental", "--time", "22:00"];
    for order in [&["pool", "list"][..], &define, &["expire"], &["stats"]] {
        let refused = lab(order).expect(&[12]).says("about the whole service");
        refused.says("'alert', 'filespace', 'report' or 'api'");
    }
    assert_eq!(law.get("/v1/nodes/law-1").expect(200).json(), before);
}

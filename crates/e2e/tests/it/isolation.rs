//! Isolation of tenants, walked from the list of operations: what a caller of one domain asks about
//! an object of another domain is answered as if the object did not exist, and takes the server as
//! many statements, so that the time does not tell either.

use std::collections::BTreeMap;

use e2e::harness::api::{Answer, Caller};
use e2e::harness::{Node, Outcome};
use serde_json::{Value, json};

use crate::api::{Provider, fields};
use crate::approvals::with_two_persons;
use crate::at_work::until;

/// A part of each name of the other tenant, which nobody else may see in any answer.
pub(crate) const MARK: &str = "laboratory";
/// Parameters of queries that name no object.
const PLAIN: &[&str] = &[
    "limit",
    "cursor",
    "from",
    "to",
    "state",
    "kind",
    "text",
    "label",
    "hostname",
    "platform",
    "application",
    "search",
    "with_data",
    "at",
    "all",
    "path",
    "name",
    "pattern",
    "filespace",
    "archive",
    "backup_hours",
    "since",
    "place",
    "reports",
    "descending",
    "sort",
    "deep",
    "days",
    "zone",
    "seconds",
    "token_secs",
    "month",
    "work",
    "format",
];
/// Values of parameters of queries that an operation may need.
const NEEDED: [(&str, &str); 4] = [
    ("filespace", "/"),
    ("path", "/etc/hostname"),
    ("pattern", "/etc/*"),
    ("from", "2026-01-01T00:00:00Z"),
];

/// A kind of object, with one of the other tenant and one that does not exist.
pub(crate) struct Objects {
    names: BTreeMap<&'static str, (String, String)>,
    /// Definition of work, as schedules and runs have it.
    definition: Value,
}

impl Objects {
    /// Replaces `{KIND}` in `text` by the names of objects.
    fn fill(&self, text: &str, is_foreign: bool) -> String {
        let one = |text: String, (kind, (foreign, absent)): (&&str, &(String, String))| {
            text.replace(&format!("{{{kind}}}"), if is_foreign { foreign } else { absent })
        };
        self.names.iter().fold(text.to_owned(), one)
    }

    /// Returns an answer without the names of the objects of its request.
    fn bare(&self, request: &Request, answer: &Answer) -> (u16, String) {
        let mut text = String::from_utf8_lossy(&answer.body).into_owned();
        let asked = format!("{request:?}");
        let named = self.names.iter().filter(|(kind, _)| asked.contains(&format!("{{{kind}}}")));
        for (_, (foreign, absent)) in named {
            text = text.replace(foreign.as_str(), "OBJECT").replace(absent.as_str(), "OBJECT");
        }
        (answer.status, text)
    }
}

/// Returns the body of a request of an operation, in which `{KIND}` stands for an object. `None` if
/// the operation has no case yet.
fn body(id: &str, definition: &Value) -> Option<Value> {
    Some(match id {
        "alerts.acknowledge" | "alerts.test" => json!({}),
        "approvals.decide" => json!({ "decision": "approve" }),
        "domains.add" => json!({ "name": "NEW" }),
        "domains.change" => json!({ "tag": "mine" }),
        "enrolment-keys.add" => {
            json!({ "name": "mine", "domain": "{domain}", "nodes_max": 1 })
        }
        "events.control" => json!({ "wish": "cancel" }),
        "keys.add" => json!({ "user": "{person}", "kind": "full" }),
        "libraries.add" => json!({ "name": "MINE", "folder": "/dev/null/mine" }),
        "libraries.change" => json!({ "settings": { "retain_secs": 60 } }),
        "libraries.work" => json!({ "work": "check-in" }),
        "nodes.add" => json!({ "name": "mine-1", "domain": "{domain}" }),
        "nodes.change" => json!({ "locked_by_service": true }),
        "nodes.rekey" => json!({ "revoke": true }),
        "option-sets.add" => json!({ "name": "mine" }),
        "option-sets.change" => json!({ "comment": "mine" }),
        "option-sets.end-stage" => json!({ "decision": "promote" }),
        "policies.activate" => json!({ "confirm": true }),
        "policies.edit" => json!({ "remove_class": "STANDARD" }),
        "pools.add" => json!({ "name": "MINE", "url": "file:///dev/null/mine" }),
        "pools.change" => json!({ "is_replaced": true }),
        "restores.start" => json!({ "node": "{node}", "filespace": "/", "paths": ["/etc"] }),
        "runs.add" => json!({ "nodes": ["{node}"], "definition": definition }),
        "schedules.add" => json!({
            "name": "mine", "domain": "{domain}", "definition": definition,
            "followers": [{ "domain": "{domain}" }],
        }),
        "schedules.change" => json!({ "definition": definition }),
        "schedules.follow" => json!({ "add": [{ "node": "{node}" }] }),
        "tasks.start" => json!({ "task": "expire" }),
        "users.add" => json!({
            "login": "eve", "roles": [{ "role": "owner", "domain": "{domain}" }],
        }),
        "users.change" => json!({ "locked": true }),
        "volumes.change" => json!({ "onsite": true }),
        "volumes.label" => json!({ "name": "MINE01", "overwrite": true }),
        _ => return None,
    })
}

/// A request of an operation, in which `{KIND}` stands for an object.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Name of the operation.
    pub(crate) id: String,
    /// Area of the operation, as the table of roles has it.
    pub(crate) area: String,
    /// "read" or "change".
    pub(crate) right: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}

impl Request {
    pub(crate) fn send(&self, caller: &Caller, objects: &Objects, is_foreign: bool) -> Answer {
        let path = objects.fill(&self.path, is_foreign);
        let body = self.body.as_ref().map(|body| {
            let text = objects.fill(&body.to_string(), is_foreign);
            serde_json::from_str::<Value>(&text).unwrap()
        });
        caller.send(&self.method, &path, body.as_ref())
    }

    pub(crate) fn names_an_object(&self) -> bool {
        let body = self.body.as_ref().map(Value::to_string).unwrap_or_default();
        self.path.contains('{') || body.contains("\"{")
    }
}

/// Returns the requests of all operations except those about the caller alone.
#[track_caller]
pub(crate) fn requests(document: &Value, objects: &Objects) -> Vec<Request> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let (id, area) = (&operation["operationId"], operation["x-area"].as_str().unwrap());
            let id = id.as_str().unwrap();
            let is_own = area.starts_with("Open") || area.starts_with("The caller's own");
            let body = operation.get("requestBody").map(|_| body(id, &objects.definition));
            if is_own && !path.contains('{') && body.as_ref().is_none_or(Option::is_none) {
                continue;
            }
            let body = body.map(|body| {
                body.unwrap_or_else(|| panic!("{id} needs a body here, with objects of others"))
            });
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let named = |place: &str| -> Vec<String> {
                let mut of_place: Vec<&Value> = parameters.iter().collect();
                of_place.retain(|one| one["in"] == place);
                of_place.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
            };
            for name in named("path") {
                assert!(objects.names.contains_key(&name[..]), "{id}: which objects are a {name}?");
            }
            let query = named("query");
            let needed = NEEDED.iter().filter(|(name, _)| query.iter().any(|one| one == name));
            let needed: Vec<String> =
                needed.map(|(name, value)| format!("{name}={value}")).collect();
            let request = |more: Option<String>| {
                let words: Vec<String> = needed.iter().cloned().chain(more).collect();
                let path = format!("{path}?{}", words.join("&"));
                let (id, area) = (id.to_owned(), area.to_owned());
                let right = operation["x-right"].as_str().unwrap().to_owned();
                let method = method.to_uppercase();
                Request { id, area, right, method, path, body: body.clone() }
            };
            all.push(request(None));
            for name in query.iter().filter(|name| !PLAIN.contains(&name.as_str())) {
                let kind = match name.as_str() {
                    "user" | "owner" => "person",
                    other => other,
                };
                assert!(objects.names.contains_key(kind), "{id}: which objects are a {name}?");
                all.push(request(Some(format!("{name}={{{kind}}}"))));
            }
        }
    }
    all
}

/// Makes the other tenant with one object of each kind. Returns its administrator.
pub(crate) fn other_tenant(service: &Provider) -> (Caller, Objects) {
    let name = MARK.to_uppercase();
    let other = service.tenant(&name);
    let node = format!("{MARK}-1");
    other.post("/v1/nodes", &json!({ "name": node, "domain": name })).expect(201);
    service.server.admin(&[
        "schedule",
        "define",
        "nightly",
        "--action",
        "incremental",
        "--time",
        "22:00",
    ]);
    let definition =
        service.root.get("/v1/schedules/nightly").expect(200).json()["definition"].clone();
    let followers = json!({ "add": [{ "domain": name }] });
    service.root.patch("/v1/schedules/nightly/followers", &followers).expect(200);
    let run = json!({ "nodes": [node], "definition": definition });
    other.post("/v1/runs", &run).expect(201);
    let (set, key) = (format!("{MARK}-set"), format!("{MARK}-key"));
    let schedule = format!("{MARK}-schedule");
    let new = json!({
        "name": schedule, "domain": name, "definition": definition,
        "followers": [{ "node": node }],
    });
    other.post("/v1/schedules", &new).expect(201);
    service.root.post("/v1/option-sets", &json!({ "name": set })).expect(201);
    let change = json!({ "option_set": set });
    service.root.patch(&format!("/v1/nodes/{node}"), &change).expect(200);
    other.get(&format!("/v1/option-sets/{set}")).expect(200);
    let new = json!({ "name": key, "domain": name, "nodes_max": 1 });
    other.post("/v1/enrolment-keys", &new).expect(201);
    other.delete(&format!("/v1/nodes/{node}")).expect(202);
    let first = |path: &str, field: &str| {
        let list = other.get(path).expect(200).json();
        list["items"][0][field].to_string().trim_matches('"').to_owned()
    };
    let pool = fields(&service.root.get("/v1/pools").expect(200).json(), "name")[0].clone();
    let pair = |foreign: &str, absent: &str| (foreign.to_owned(), absent.to_owned());
    let objects = BTreeMap::from([
        ("node", pair(&node, "nothing-1")),
        ("domain", pair(&name, "NOTHING")),
        ("person", pair(&format!("admin-of-{name}"), "admin-of-NOTHING")),
        ("key", pair(&first("/v1/keys", "id"), "hf-aaaaaaaaaaaaaaaa")),
        ("event", pair(&first("/v1/events", "number"), "987654")),
        ("approval", pair(&first("/v1/approvals", "number"), "987654")),
        ("schedule", pair(&schedule, "nothing-schedule")),
        ("baseline", pair("7001", "7002")),
        ("pool", pair(&pool, "no-pool")),
        ("library", pair("no-library-1", "no-library-2")),
        ("volume", pair("no-volume-1", "no-volume-2")),
        ("option_set", pair(&set, "nothing-set")),
        ("enrolment_key", pair(&key, "nothing-key")),
        ("wait", pair("7001", "7002")),
        ("alert", pair("7001", "7002")),
        ("task", pair("7001", "7002")),
    ]);
    (other, Objects { names: objects, definition })
}

/// Returns what the other tenant sees of its own.
fn state(other: &Caller) -> Vec<Value> {
    let domain = MARK.to_uppercase();
    let paths = [
        "/v1/nodes".to_owned(),
        format!("/v1/nodes/{MARK}-1"),
        "/v1/users".to_owned(),
        "/v1/keys".to_owned(),
        "/v1/approvals".to_owned(),
        "/v1/events".to_owned(),
        format!("/v1/domains/{domain}"),
        format!("/v1/domains/{domain}/policy"),
    ];
    paths.iter().map(|path| other.get(path).expect(200).json()).collect()
}

/// Restarts the server so that it tells of each request.
pub(crate) fn tell_requests(service: &mut Provider) {
    service.server.set_environment(&["HOLDFAST_LOG=warn,api=debug"]);
    service.server.set_options(&["--log-format", "json"]);
    service.server.restart();
}

/// Returns what a server has told of each request.
#[track_caller]
pub(crate) fn told_requests(outcome: &Outcome) -> Vec<Value> {
    let lines = outcome.stderr.lines().map(|line| {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    });
    lines.filter(|line| line["message"] == "request answered").collect()
}

/// Returns the status and the number of statements of each request after the last one for the
/// document of operations.
#[track_caller]
fn told_statements(outcome: &Outcome) -> Vec<(u64, u64)> {
    let told = told_requests(outcome);
    let asked = told.iter().rposition(|line| line["operation"] == "openapi.get");
    let number = |line: &Value, field: &str| line[field].as_u64().unwrap();
    told[asked.unwrap() + 1..]
        .iter()
        .map(|line| (number(line, "status"), number(line, "statements")))
        .collect()
}

#[test]
fn objects_of_another_tenant_do_not_exist() {
    let (mut service, _) = with_two_persons();
    tell_requests(&mut service);
    let (other, objects) = other_tenant(&service);
    service.tenant("LAW");
    let roles = ["tenant", "owner", "policy", "storage", "operator", "auditor"];
    let mut callers: Vec<(String, Caller)> = roles
        .iter()
        .map(|role| {
            let caller = service.person(&format!("{role}-of-LAW"), &[&format!("{role}@LAW")]);
            ((*role).to_owned(), caller)
        })
        .collect();
    for (kind, options) in [("readonly", &[][..]), ("enroller", &["--count", "99"])] {
        callers.push((kind.to_owned(), service.key("tenant-of-LAW", kind, options)));
    }
    let document = service.stranger.get("/v1/openapi.json").expect(200).json();
    let requests = requests(&document, &objects);
    assert!(requests.len() > 60, "{requests:?}");
    let before = state(&other);
    service.stranger.get("/v1/openapi.json").expect(200);
    let (mut sent, mut pairs) = (0, Vec::new());
    for (role, caller) in &callers {
        for request in &requests {
            let foreign = request.send(caller, &objects, true);
            let said = objects.bare(request, &foreign);
            sent += 1;
            if request.names_an_object() {
                pairs.push((sent - 1, format!("{role}: {request:?}: {}", said.1)));
                sent += 1;
                let absent = request.send(caller, &objects, false);
                assert_eq!(said, objects.bare(request, &absent), "{role}: {request:?}");
            }
            assert!(foreign.status < 500, "{role}: {request:?}: {}", said.1);
            assert!(!said.1.to_lowercase().contains(MARK), "{role}: {request:?}: {}", said.1);
            let is_read = request.method == "GET";
            assert!(is_read || foreign.status >= 400, "{role}: {request:?}: {}", said.1);
        }
    }
    assert_eq!(state(&other), before, "nothing of the other tenant has changed");
    check_statements(&service.server.terminate().expect(&[0]), &pairs);
}

/// Compares the work for objects of others with that for objects that do not exist. Each pair is
/// the index of the first of two requests, and their description.
#[track_caller]
fn check_statements(outcome: &Outcome, pairs: &[(usize, String)]) {
    let told = told_statements(outcome);
    let mut compared = 0;
    for (index, request) in pairs {
        let [foreign, absent] = [told[*index], told[*index + 1]];
        // A list of what the caller may see is no refusal.
        if foreign.0 >= 400 {
            assert_eq!(foreign, absent, "{request}");
            compared += usize::from(foreign.1 > 3);
        }
    }
    assert!(compared > 50, "only {compared} refusals looked for their objects");
}

/// The time of the lists told how many restores others had ordered, for how many approvals they had
/// asked, and how many of their nodes were connected.
#[test]
fn lists_ask_nothing_about_what_others_do() {
    let (mut service, _) = with_two_persons();
    tell_requests(&mut service);
    let (lab, law) = (service.tenant("LAB"), service.tenant("LAW"));
    let to = format!("--to={}", service.scratch.join("restored").display());
    let restore = |node: &str| {
        json!({
            "nodes": [node],
            "definition": {
                "action": { "work": "restore", "objects": ["/etc"], "options": [to] },
                "timing": { "starts": { "once": 0 }, "window_minutes": 60, "spread_percent": 0 },
                "zone": "UTC", "priority": 5, "retries": 0, "retry_pause_minutes": 1,
            },
        })
    };
    for (caller, node, domain) in [(&lab, "lab-1", "LAB"), (&law, "law-1", "LAW")] {
        caller.post("/v1/nodes", &json!({ "name": node, "domain": domain })).expect(201);
        caller.post("/v1/runs", &restore(node)).expect(201);
        caller.delete(&format!("/v1/nodes/{node}")).expect(202);
    }
    for number in 2..=4 {
        let new = json!({ "name": format!("law-{number}"), "domain": "LAW" });
        law.post("/v1/nodes", &new).expect(201);
    }
    let look = || {
        let lists =
            [("/v1/restores", 1), ("/v1/events", 1), ("/v1/approvals", 1), ("/v1/sessions", 0)];
        for (path, count) in lists {
            let list = lab.get(path).expect(200).json();
            assert_eq!(list["items"].as_array().unwrap().len(), count, "{path}: {list}");
        }
    };
    look();
    service.stranger.get("/v1/openapi.json").expect(200);
    look();
    for number in 2..=4 {
        law.post("/v1/runs", &restore("law-1")).expect(201);
        law.delete(&format!("/v1/nodes/law-{number}")).expect(202);
    }
    let token = law.post("/v1/nodes/law-1/rekey", &json!({})).expect(201).json()["token"].clone();
    let node = Node::enrol_with(&service.server, "law-1", token.as_str().unwrap());
    let agent = node.spawn_agent();
    until("the agent is connected", || {
        let sessions = law.get("/v1/sessions").expect(200).json();
        sessions["items"].as_array().unwrap().first().cloned()
    });
    look();
    drop(agent.kill9());
    let told = told_statements(&service.server.terminate().expect(&[0]));
    let [before, after] = [&told[..4], &told[told.len() - 4..]];
    assert_eq!(before, after, "the lists take more after others have done something");
}

#[test]
fn strangers_get_one_answer_for_everything() {
    let (service, _) = with_two_persons();
    let (_, objects) = other_tenant(&service);
    let document = service.stranger.get("/v1/openapi.json").expect(200).json();
    for request in requests(&document, &objects) {
        let answer = request.send(&service.stranger, &objects, true);
        let (status, text) = objects.bare(&request, &answer);
        assert_eq!(status, 401, "{request:?}: {text}");
        assert!(text.contains("sign in, or give a key"), "{request:?}: {text}");
    }
}

#[test]
fn nobody_acts_for_people_of_others() {
    let (service, _) = with_two_persons();
    other_tenant(&service);
    service.tenant("LAW");
    let key = service.key("admin-of-LAW", "impersonator", &[]);
    let ask = |login: &str| {
        let caller = key.with_headers(&[&format!("X-Holdfast-For: {login}")]);
        let answer = caller.get("/v1/account");
        (answer.status, String::from_utf8(answer.body).unwrap().replace(login, "OBJECT"))
    };
    let absent = ask("admin-of-NOTHING");
    assert_eq!(absent.0, 404, "{}", absent.1);
    assert_eq!(ask("admin-of-LABORATORY"), absent);
    assert_eq!(ask("root"), absent);
}

/// A node can follow the schedules that its people may see, and is shown no others.
#[test]
fn schedules_of_others_are_no_choice_for_an_own_node() {
    let service = Provider::new();
    let (lab, law) = (service.tenant("LAB"), service.tenant("LAW"));
    lab.post("/v1/nodes", &json!({ "name": "lab-1", "domain": "LAB" })).expect(201);
    law.post("/v1/nodes", &json!({ "name": "law-1", "domain": "LAW" })).expect(201);
    let timing = ["--action", "incremental", "--time", "22:00"];
    service
        .server
        .admin(&[&["schedule", "define", "law-nightly"], &timing[..]].concat());
    let followers = json!({ "add": [{ "domain": "LAW" }] });
    service
        .root
        .patch("/v1/schedules/law-nightly/followers", &followers)
        .expect(200);
    let choices = |caller: &Caller, node: &str| {
        fields(&caller.get(&format!("/v1/nodes/{node}/schedules")).expect(200).json(), "name")
    };
    assert_eq!(choices(&law, "law-1"), ["law-nightly"]);
    assert_eq!(choices(&lab, "lab-1"), [""; 0]);
    assert_eq!(choices(&service.root, "lab-1"), ["law-nightly"]);
}

/// A node shows what its option set says, so nobody gives a node an option set of others, whose
/// name one can guess.
#[test]
fn an_option_set_of_others_is_given_to_no_own_node() {
    let service = Provider::new();
    let lab = service.tenant("LAB");
    service.tenant("LAW");
    for (node, domain) in [("lab-1", "LAB"), ("lab-2", "LAB"), ("law-1", "LAW")] {
        let node = json!({ "name": node, "domain": domain });
        service.root.post("/v1/nodes", &node).expect(201);
    }
    let set = json!({ "name": "law-set", "statements": ["exclude /law/secret"] });
    service.root.post("/v1/option-sets", &set).expect(201);
    let take = |set: &str| json!({ "option_set": set });
    service.root.patch("/v1/nodes/law-1", &take("law-set")).expect(200);
    let refused = |set: &str| {
        let key = json!({ "name": "many", "domain": "LAB", "nodes_max": 1, "option_set": set });
        let words = ["node", "set", "lab-1", "--optionset", set];
        let elsewhere = crate::tenant_keys::run(&service, "admin-of-LAB", &words);
        let answers = [
            lab.patch("/v1/nodes/lab-1", &take(set)).expect(404).body,
            lab.post("/v1/enrolment-keys", &key).expect(404).body,
            elsewhere.says("no option set").stderr.into_bytes(),
        ];
        answers.map(|text| String::from_utf8_lossy(&text).replace(set, "SET"))
    };
    assert_eq!(refused("law-set"), refused("no-set"));
    // An administrator passes on what a node of the domain has.
    service.root.patch("/v1/nodes/lab-1", &take("law-set")).expect(200);
    lab.patch("/v1/nodes/lab-2", &take("law-set")).expect(200);
    lab.patch("/v1/nodes/lab-2", &take("")).expect(200);
}

#[test]
fn nobody_acts_for_the_owner_of_a_node_of_another_domain() {
    let service = Provider::new();
    let (_law, lab) = (service.tenant("LAW"), service.tenant("LAB"));
    service.person("eve", &["owner@LAB"]);
    let acting = service.key("admin-of-LAB", "impersonator", &[]);
    let acting = acting.with_headers(&["X-Holdfast-For: eve"]);
    let new = json!({ "name": "lab-1", "domain": "LAB", "owner": "eve" });
    lab.post("/v1/nodes", &new).expect(201);
    acting.get("/v1/nodes/lab-1").expect(200);
    let new = json!({ "name": "law-1", "domain": "LAW", "owner": "eve" });
    service.root.post("/v1/nodes", &new).expect(201);
    acting.get("/v1/nodes/law-1").expect(404);
    acting.get("/v1/nodes").expect(404);
    service.root.patch("/v1/nodes/law-1", &json!({ "owner": null })).expect(200);
    acting.get("/v1/nodes/lab-1").expect(200);
}

/// A customer may get nodes of another domain later. The administrator of the first domain knows
/// the secret of a key of the customer, and comes no further by it.
#[test]
fn a_key_that_an_administrator_made_reaches_no_other_domain() {
    let service = Provider::new();
    let (_law, lab) = (service.tenant("LAW"), service.tenant("LAB"));
    service.person("eve", &["owner@LAB"]);
    let made = lab
        .post("/v1/keys", &json!({ "user": "eve", "kind": "full" }))
        .expect(201)
        .json();
    let known = service.stranger.with_key(made["token"].as_str().unwrap());
    let more = known.post("/v1/keys", &json!({ "kind": "full" })).expect(201).json();
    let more = service.stranger.with_key(more["token"].as_str().unwrap());
    let own = service.root.post("/v1/keys", &json!({ "user": "eve", "kind": "full" }));
    let own = service.stranger.with_key(own.expect(201).json()["token"].as_str().unwrap());
    let new = json!({ "name": "lab-1", "domain": "LAB", "owner": "eve" });
    lab.post("/v1/nodes", &new).expect(201);
    known.get("/v1/nodes/lab-1").expect(200);
    let new = json!({ "name": "law-1", "domain": "LAW", "owner": "eve" });
    service.root.post("/v1/nodes", &new).expect(201);
    for key in [&known, &more] {
        key.get("/v1/nodes/law-1").expect(401);
    }
    own.get("/v1/nodes/law-1").expect(200);
    let listed = own.get("/v1/keys").expect(200).json();
    let listed = listed["items"].as_array().unwrap();
    let valid = listed.iter().filter(|key| key["is_valid"] == true).count();
    assert_eq!((listed.len() - valid, listed.iter().any(|key| key["kind"] != "full")), (2, false));
    service.root.patch("/v1/nodes/law-1", &json!({ "owner": null })).expect(200);
    known.get("/v1/nodes/lab-1").expect(200);
}

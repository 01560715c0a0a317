//! The REST API: people, keys and roles; nodes; downloads; repeated requests and changes that meet.

use std::ffi::OsString;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use e2e::harness::api::{self, Caller};
use e2e::harness::{Node, Outcome, Server, binary, start};
use e2e::scratch::Scratch;
use serde_json::{Value, json};

use crate::scene::{manifest, plant_files};

pub(crate) const PASSWORD: &str = "correct horse battery";

/// A server with a REST API, and its system administrator.
pub(crate) struct Provider {
    pub(crate) server: Server,
    pub(crate) stranger: Caller,
    pub(crate) root: Caller,
    pub(crate) scratch: Scratch,
}

impl Provider {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let (server, stranger) = api::start(&scratch.join("server"));
        let mut service = Self { server, root: stranger.clone(), stranger, scratch };
        service.root = service.person("root", &["system"]);
        service
    }

    /// Registers a person with these roles, and returns the person with a key.
    #[track_caller]
    pub(crate) fn person(&self, login: &str, roles: &[&str]) -> Caller {
        register_person(&self.server, &self.scratch, login, roles);
        self.key(login, "full", &[])
    }

    /// Makes a key for a person.
    #[track_caller]
    pub(crate) fn key(&self, login: &str, kind: &str, options: &[&str]) -> Caller {
        let arguments = [&["key", "add", "--user", login, "--kind", kind], options].concat();
        let made = self.server.admin(&arguments);
        self.stranger.with_key(made["token"].as_str().unwrap())
    }

    /// Makes a domain, and a person who administers it.
    #[track_caller]
    pub(crate) fn tenant(&self, domain: &str) -> Caller {
        self.root.post("/v1/domains", &json!({ "name": domain })).expect(201);
        let login = format!("admin-of-{domain}");
        self.person(&login, &[&format!("tenant@{domain}")])
    }
}

/// Returns the value of a field of each item of a list.
#[track_caller]
pub(crate) fn fields(list: &Value, field: &str) -> Vec<String> {
    let items = list["items"].as_array().expect("a list");
    items
        .iter()
        .map(|item| item[field].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_node_is_registered_used_and_removed_by_requests() {
    let service = Provider::new();
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 60, 5_000, 7);
    let new = json!({ "name": "web-1", "hostname": "web-1.example.org", "owner": "root" });
    let added = service.root.post("/v1/nodes", &new).expect(201).json();
    assert_eq!(added["node"]["is_activated"], false);
    let node = Node::enrol_with(&service.server, "web-1", added["token"].as_str().unwrap());
    node.backup(&tree, &[]).expect(&[0]);
    let described = service.root.get("/v1/nodes/web-1").expect(200).json();
    assert_eq!(described["is_activated"], true);
    assert_eq!(described["owner"], "root");
    assert_eq!(described["hostname"], "web-1.example.org");
    assert!(described["filespaces"][0]["active_objects"].as_u64().unwrap() > 60);
    check_contact(&service);
    check_downloads(&service, &tree);
    let change = json!({ "locked_by_service": true, "add_labels": ["web"] });
    let locked = service.root.patch("/v1/nodes/web-1", &change).expect(200).json();
    assert_eq!((&locked["locked"], &locked["labels"]), (&true.into(), &json!(["web"])));
    node.backup(&tree, &[]).expect(&[12]);
    let refused = service.root.delete("/v1/nodes/web-1").expect(409).json();
    assert_eq!(refused["code"], "confirmation-needed", "{refused}");
    service.root.delete("/v1/nodes/web-1?with_data=true").expect(204);
    service.root.get("/v1/nodes/web-1").expect(404);
    let log = service.root.get("/v1/log?node=web-1").expect(200).json();
    let kinds = fields(&log, "what");
    for kind in ["node added", "node locked", "node removed", "file downloaded"] {
        assert!(kinds.iter().any(|one| one == kind), "{kind}: {kinds:?}");
    }
    let actors = fields(&log, "actor");
    assert!(actors.iter().any(|actor| actor.starts_with("root (key hf-")), "{actors:?}");
}

/// Checks that the last contact of the node is told, and how the node sends its data.
fn check_contact(service: &Provider) {
    let read = || service.root.get("/v1/nodes/web-1").expect(200).json();
    let node = read();
    let address: IpAddr = node["last_address"].as_str().unwrap().parse().unwrap();
    assert!(address.is_loopback(), "{node}");
    assert_eq!(node["last_host"], sys::net::host_name(), "{node}");
    assert!(node["last_contact"].as_str().unwrap() > node["registered"].as_str().unwrap());
    let servers = service.root.get("/v1/domains/STANDARD").expect(200).json()["servers"].clone();
    assert_eq!((servers.as_array().unwrap().len(), &servers), (1, &node["servers"]));
    assert_eq!(
        (&node["compression"], &node["deduplication"], &node["encryption"]),
        (&json!("standard"), &json!("yes"), &json!(false))
    );
    let set = json!({ "name": "SEALED", "statements": ["include.encrypt /srv/.../*"],
        "options": [{ "name": "compression", "value": "9", "force": true }] });
    service.root.post("/v1/option-sets", &set).expect(201);
    service
        .root
        .patch("/v1/nodes/web-1", &json!({ "option_set": "SEALED" }))
        .expect(200);
    let sealed = read();
    assert_eq!((&sealed["compression"], &sealed["encryption"]), (&json!("9"), &json!(true)));
    service
        .root
        .patch("/v1/nodes/web-1", &json!({ "option_set": null }))
        .expect(200);
}

/// Downloads a file and the whole tree, and compares them with the originals.
fn check_downloads(service: &Provider, tree: &Path) {
    let spaces = service.root.get("/v1/nodes/web-1/filespaces").expect(200).json();
    let space = spaces["items"][0]["name"].as_str().unwrap().to_owned();
    let inside = |path: &Path| {
        let path = path.to_str().unwrap();
        match space.as_str() {
            "/" => path.to_owned(),
            space => path.strip_prefix(space).unwrap().to_owned(),
        }
    };
    let folder = tree.join("folder-00");
    let query = format!("filespace={space}&path={}", inside(&folder));
    let listed = service
        .root
        .get(&format!("/v1/nodes/web-1/versions?{query}"))
        .expect(200)
        .json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 50);
    let file = folder.join("file-0007");
    let query = format!("filespace={space}&path={}", inside(&file));
    let got = service.root.get(&format!("/v1/nodes/web-1/content?{query}")).expect(200);
    assert!(got.body == fs::read(&file).unwrap(), "the file differs");
    // The command line writes the same bytes.
    let mut command = Command::new(binary());
    let path = format!("/v1/nodes/web-1/content?{query}");
    command.args([
        "admin",
        "--server",
        service.server.dir().to_str().unwrap(),
        "api",
        "GET",
        &path,
    ]);
    let written = command.output().unwrap();
    assert!(written.status.success() && written.stdout == got.body, "{written:?}");
    let query = format!("filespace={space}&path={}", inside(tree));
    let archive = service.root.get(&format!("/v1/nodes/web-1/tree?{query}")).expect(200);
    let (out, packed) = (service.scratch.folder("out"), service.scratch.join("tree.tar"));
    fs::write(&packed, &archive.body).unwrap();
    let mut tar = Command::new("tar");
    let unpacked = tar.arg("--extract").arg("--file").arg(&packed).arg("--directory").arg(&out);
    assert!(unpacked.status().unwrap().success());
    for index in [0, 7, 59] {
        let name = crate::scene::file_name(index);
        assert!(fs::read(out.join(&name)).unwrap() == fs::read(tree.join(&name)).unwrap());
    }
    assert_eq!(manifest(&out).len(), manifest(tree).len());
    let query = format!("filespace={space}&pattern=/.../file-000*");
    let found = service.root.get(&format!("/v1/nodes/web-1/search?{query}")).expect(200).json();
    assert_eq!(found["items"].as_array().unwrap().len(), 10);
}

#[test]
fn who_shows_nothing_or_something_wrong_gets_in_nowhere() {
    let service = Provider::new();
    let codes = |answer: api::Answer| (answer.status, answer.json()["code"].clone());
    let refused = (401, json!("unauthenticated"));
    assert_eq!(codes(service.stranger.get("/v1/nodes")), refused);
    assert_eq!(codes(service.stranger.with_key("hf-x:y").get("/v1/nodes")), refused);
    let wrong = service.stranger.with_password("root", "wrong horse battery");
    assert_eq!(codes(wrong.get("/v1/nodes")), refused);
    let nobody = service.stranger.with_password("nobody", PASSWORD);
    assert_eq!(codes(nobody.get("/v1/nodes")), refused);
    let right = service.stranger.with_password("root", PASSWORD);
    right.get("/v1/nodes").expect(200);
    let change = right.post("/v1/domains", &json!({ "name": "LAB" })).expect(401);
    assert_eq!(change.json()["code"], "unauthenticated", "a password is for reading");
    assert_eq!(codes(service.root.get("/v1/nothing")), (404, json!("not-found")));
    assert_eq!(codes(service.root.delete("/v1/log")), (405, json!("method-not-allowed")));
    let bad = service.root.post("/v1/domains", &json!({ "name": "A", "colour": "red" }));
    assert_eq!(codes(bad), (400, json!("invalid")));
    service.stranger.get("/healthz").expect(200);
    service.stranger.get("/readyz").expect(200);
    service.stranger.get("/v1/openapi.json").expect(200);
    let metrics = service.root.get("/metrics").expect(200);
    let text = String::from_utf8(metrics.body).unwrap();
    assert!(text.contains("\nholdfast_nodes 0\n"), "{text}");
}

#[test]
fn guesses_are_slowed_for_the_guesser_only() {
    let service = Provider::new();
    let wrong = service.stranger.with_password("root", "wrong horse battery");
    let statuses: Vec<u16> = (0..8).map(|_| wrong.get("/v1/account").status).collect();
    assert!(statuses.starts_with(&[401; 5]) && statuses.contains(&429), "{statuses:?}");
    // The key of the same person works: only guesses of passwords from here wait.
    let last = wrong.get("/v1/account");
    assert!(last.status == 401 || last.header("retry-after").is_some());
    assert_eq!(service.server.admin(&["user", "show", "root"])["login"], "root");
}

#[test]
fn keys_allow_what_their_kind_says() {
    let service = Provider::new();
    service.person("anna", &["tenant@STANDARD"]);
    let reader = service.key("anna", "readonly", &[]);
    reader.get("/v1/nodes").expect(200);
    reader.post("/v1/nodes", &json!({ "name": "a" })).expect(403);
    let enroller = service.key("anna", "enroller", &["--count", "2"]);
    enroller.get("/v1/nodes").expect(403);
    for name in ["a", "b"] {
        let added = enroller.post("/v1/nodes", &json!({ "name": name })).expect(201).json();
        assert_eq!(added["node"]["owner"], "anna");
    }
    enroller.post("/v1/nodes", &json!({ "name": "c" })).expect(403);
    enroller.delete("/v1/nodes/a").expect(404);
    let actor = service.key("root", "impersonator", &[]);
    actor.get("/v1/account").expect(400);
    let as_anna = actor.with_headers(&["X-Holdfast-For: anna"]);
    assert_eq!(as_anna.get("/v1/account").expect(200).json()["login"], "anna");
    as_anna.get("/v1/log").expect(403);
    actor.with_headers(&["X-Holdfast-For: nobody"]).get("/v1/account").expect(404);
    let other = service.key("anna", "full", &[]);
    let keys = other.get("/v1/keys").expect(200).json();
    let items = keys["items"].as_array().unwrap();
    assert!(items.len() >= 3);
    // The order of keys is that of their ids, which are chance.
    let reader = items.iter().find(|key| key["kind"] == "readonly").unwrap();
    let id = reader["id"].as_str().unwrap().to_owned();
    other.delete(&format!("/v1/keys/{id}")).expect(204);
    other.delete("/v1/keys/hf-unknown").expect(404);
}

#[test]
fn a_tenant_sees_nothing_of_another() {
    let service = Provider::new();
    let (lab, law) = (service.tenant("LAB"), service.tenant("LAW"));
    let new = json!({ "name": "lab-1", "domain": "LAB" });
    lab.post("/v1/nodes", &new).expect(201);
    law.post("/v1/nodes", &json!({ "name": "law-1", "domain": "LAW" })).expect(201);
    let list = |caller: &Caller, path: &str, field: &str| {
        fields(&caller.get(path).expect(200).json(), field)
    };
    assert_eq!(list(&lab, "/v1/nodes", "name"), ["lab-1"]);
    assert_eq!(list(&law, "/v1/nodes", "name"), ["law-1"]);
    assert_eq!(list(&law, "/v1/domains", "name"), ["LAW"]);
    assert_eq!(list(&law, "/v1/users", "login"), ["admin-of-LAW"]);
    assert_eq!(list(&service.root, "/v1/nodes", "name"), ["lab-1", "law-1"]);
    // The answer for an object of another tenant is the answer for one that does not exist.
    let paths = [
        ("GET", "/v1/nodes/NAME"),
        ("PATCH", "/v1/nodes/NAME"),
        ("DELETE", "/v1/nodes/NAME"),
        ("POST", "/v1/nodes/NAME/rekey"),
        ("GET", "/v1/nodes/NAME/filespaces"),
        ("GET", "/v1/nodes/NAME/versions?filespace=/"),
        ("GET", "/v1/nodes/NAME/content?filespace=/&path=/etc/passwd"),
        ("GET", "/v1/nodes/NAME/tree?filespace=/"),
        ("GET", "/v1/nodes/NAME/backups"),
        ("GET", "/v1/nodes/NAME/occupancy"),
        ("DELETE", "/v1/sessions/NAME"),
    ];
    for (method, path) in paths {
        let body = matches!(method, "PATCH" | "POST").then(|| json!({}));
        let ask = |name: &str| {
            let answer = law.send(method, &path.replace("NAME", name), body.as_ref());
            let text = String::from_utf8(answer.body).unwrap().replace(name, "NAME");
            (answer.status, text)
        };
        let (foreign, absent) = (ask("lab-1"), ask("no-1"));
        assert_eq!(foreign, absent, "{method} {path}");
        assert_eq!(foreign.0, 404, "{method} {path}: {}", foreign.1);
    }
    law.post("/v1/nodes", &json!({ "name": "x", "domain": "LAB" })).expect(404);
    law.get("/v1/domains/LAB").expect(404);
    law.get("/v1/domains/LAB/policy").expect(404);
    law.get("/v1/users/admin-of-LAB").expect(404);
    law.get("/v1/keys?user=admin-of-LAB").expect(404);
    let role = json!([{ "role": "system" }]);
    law.patch("/v1/users/admin-of-LAW", &json!({ "roles": role })).expect(403);
    law.post("/v1/users", &json!({ "login": "eve", "roles": role })).expect(403);
    law.post("/v1/domains", &json!({ "name": "NEW" })).expect(403);
}

/// Returns the roles that may do what needs a right in an area, by the table in the reference.
pub(crate) fn allowed(table: &str, area: &str, right: &str) -> Vec<String> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let head = table.lines().find(|line| line.starts_with("| area")).expect("a head");
    let row = table.lines().find(|line| line.starts_with(&format!("| {area} |")));
    let Some(row) = row else { return cells(head)[1..].to_vec() };
    let (head, row) = (cells(head), cells(row));
    let pairs = head.into_iter().zip(row).skip(1);
    pairs.filter(|(_, cell)| cell.contains(right)).map(|(role, _)| role).collect()
}

/// Returns the table of roles in the reference.
pub(crate) fn role_table() -> String {
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/roles.md");
    fs::read_to_string(reference).expect("the table is in the reference")
}

#[test]
fn each_operation_is_allowed_to_the_roles_of_the_table() {
    let service = Provider::new();
    service.root.post("/v1/domains", &json!({ "name": "LAB" })).expect(201);
    let table = role_table();
    let document = service.stranger.get("/v1/openapi.json").expect(200).json();
    let roles = ["system", "policy", "storage", "operator", "auditor", "tenant", "owner"];
    let callers = roles.map(|role| {
        let held = match role {
            "tenant" | "owner" => format!("{role}@LAB"),
            _ => role.to_owned(),
        };
        (role, service.person(&format!("person-{role}"), &[&held]))
    });
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            // These would end the callers, or wait for an event.
            if id.starts_with("sign-in")
                || operation["x-area"].as_str().unwrap().starts_with("Open")
            {
                continue;
            }
            let area = operation["x-area"].as_str().unwrap();
            let allowed = allowed(&table, area, operation["x-right"].as_str().unwrap());
            let asked = path
                .replace("{event}", "999999")
                .replace("{alert}", "999999")
                .replace("{approval}", "999999")
                .replace("{baseline}", "999999")
                .replace("{task}", "999999")
                .replace("{wait}", "999999")
                .replace('{', "no-")
                .replace('}', "");
            let body = operation.get("requestBody").map(|_| json!({}));
            for (role, caller) in &callers {
                let answer = caller.send(&method.to_uppercase(), &asked, body.as_ref());
                let is_refused = answer.status == 403;
                // Each person may own nodes.
                let is_allowed = allowed.iter().any(|one| one == role || one == "owner");
                let text = String::from_utf8_lossy(&answer.body);
                assert_eq!(!is_refused, is_allowed, "{role}: {id}: {}: {text}", answer.status);
                assert!(answer.status < 500, "{role}: {id}: {text}");
            }
        }
    }
}

#[test]
fn a_change_meets_what_its_caller_has_read() {
    let service = Provider::new();
    service.root.post("/v1/nodes", &json!({ "name": "a" })).expect(201);
    let read = service.root.get("/v1/nodes/a").expect(200);
    let tag = read.header("etag").unwrap().to_owned();
    let known = service.root.with_headers(&[&format!("If-None-Match: {tag}")]);
    assert!(known.get("/v1/nodes/a").expect(304).body.is_empty());
    let careful = service.root.with_headers(&[&format!("If-Match: {tag}")]);
    let change = json!({ "description": "first" });
    careful.patch("/v1/nodes/a", &change).expect(200);
    let late = careful.patch("/v1/nodes/a", &json!({ "description": "second" })).expect(412);
    assert_eq!(late.json()["code"], "changed");
    let after = service.root.get("/v1/nodes/a").expect(200).json();
    assert_eq!(after["description"], "first");
}

#[test]
fn a_repeated_request_makes_nothing_twice() {
    let service = Provider::new();
    let keyed = service.root.with_headers(&["Idempotency-Key: 7f3a"]);
    let first = keyed.post("/v1/nodes", &json!({ "name": "a" })).expect(201);
    let again = keyed.post("/v1/nodes", &json!({ "name": "a" })).expect(201);
    assert_eq!(first.body, again.body, "the same token");
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    keyed.post("/v1/nodes", &json!({ "name": "b" })).expect(400);
    service.root.post("/v1/nodes", &json!({ "name": "a" })).expect(409);
    // A request that failed can be sent again.
    let other = service.root.with_headers(&["Idempotency-Key: other"]);
    other.post("/v1/nodes", &json!({ "name": "a" })).expect(409);
    service.root.delete("/v1/nodes/a").expect(204);
    other.post("/v1/nodes", &json!({ "name": "a" })).expect(201);
}

#[test]
fn lists_come_in_pages() {
    let service = Provider::new();
    let names: Vec<String> = (0..7).map(|number| format!("node-{number}")).collect();
    for name in &names {
        service.root.post("/v1/nodes", &json!({ "name": name })).expect(201);
    }
    let (mut read, mut path) = (Vec::new(), "/v1/nodes?limit=3".to_owned());
    loop {
        let page = service.root.get(&path).expect(200).json();
        read.extend(fields(&page, "name"));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/nodes?limit=3&cursor={next}");
    }
    assert_eq!(read, names);
    service.root.get("/v1/nodes?limit=0").expect(400);
    service.root.get("/v1/nodes?cursor=***").expect(400);
    let found = service.root.get("/v1/nodes?search=NODE-3").expect(200).json();
    assert_eq!(fields(&found, "name"), ["node-3"]);
}

#[test]
fn administration_from_elsewhere_needs_a_key_and_a_role() {
    let service = Provider::new();
    let ca = service.server.dir().join("ca.pem");
    let run = |login: &str, words: &[&str]| {
        let key = service.scratch.join(&format!("key of {login}"));
        if fs::metadata(&key).is_err() {
            let made = service.server.admin(&["key", "add", "--user", login]);
            fs::write(&key, format!("{}\n", made["token"].as_str().unwrap())).unwrap();
        }
        let (url, ca, key) = (service.stranger.url(), ca.to_str().unwrap(), key.to_str().unwrap());
        let fixed = ["admin", "--server", &url, "--ca", ca, "--key-file", key, "--json"];
        holdfast(&[&fixed, words].concat())
    };
    service.person("auditor", &["auditor"]);
    service.tenant("LAB");
    run("root", &["node", "add", "web-1"]).expect(&[0]);
    let listed = run("auditor", &["node", "list"]).expect(&[0]).json_lines();
    assert_eq!(listed[0]["node"], "web-1");
    run("auditor", &["node", "lock", "web-1"])
        .expect(&[12])
        .says("your roles do not allow");
    let users = run("auditor", &["user", "list"]).expect(&[0]).json_lines();
    assert_eq!(users.len(), 3);
    let events = service.server.admin(&["log", "--kind", "node added"]);
    assert!(events["actor"].as_str().unwrap().starts_with("root (key hf-"), "{events}");
    let url = service.stranger.url();
    // A key that registers nodes does nothing else, neither here.
    let enroller = service
        .server
        .admin(&["key", "add", "--user", "root", "--kind", "enroller", "--count", "1"]);
    let key = service.scratch.join("key of an enroller");
    fs::write(&key, enroller["token"].as_str().unwrap()).unwrap();
    let (ca_file, key) = (ca.to_str().unwrap(), key.to_str().unwrap());
    for order in [&["node", "remove", "web-1"][..], &["node", "add", "web-1", "--again"]] {
        let fixed = ["admin", "--server", &url, "--ca", ca_file, "--key-file", key];
        holdfast(&[&fixed, order].concat())
            .expect(&[12])
            .says("registers nodes by POST");
    }
    let without = ["admin", "--server", &url, "--ca", ca.to_str().unwrap(), "node", "list"];
    holdfast(&without).expect(&[12]).says("--key-file");
    let untrusted = ["admin", "--server", &url, "--key-file", "/dev/null", "node", "list"];
    holdfast(&untrusted).expect(&[12]);
}

/// Runs a command without a home of its own.
pub(crate) fn holdfast(words: &[&str]) -> Outcome {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    start(&binary(), &words, Path::new("/nonexistent"), None).wait()
}

#[test]
fn a_customer_reaches_own_nodes_only() {
    let service = Provider::new();
    let lab = service.tenant("LAB");
    lab.post("/v1/nodes", &json!({ "name": "lab-1", "domain": "LAB" })).expect(201);
    let role = json!([{ "role": "owner", "domain": "LAB" }]);
    lab.post("/v1/users", &json!({ "login": "eve", "roles": role })).expect(201);
    let eve = service.key("eve", "full", &[]);
    eve.get("/v1/nodes/lab-1").expect(404);
    eve.get("/v1/nodes/lab-1/tree?filespace=/").expect(404);
    eve.patch("/v1/nodes/lab-1", &json!({ "locked_by_owner": true })).expect(404);
    eve.post("/v1/nodes/lab-1/rekey", &json!({})).expect(404);
    eve.post("/v1/nodes", &json!({ "name": "eve-1", "domain": "LAB" })).expect(201);
    eve.get("/v1/nodes/eve-1").expect(200);
    eve.patch("/v1/nodes/eve-1", &json!({ "locked_by_owner": true })).expect(200);
    eve.patch("/v1/nodes/eve-1", &json!({ "locked_by_service": true })).expect(403);
    assert_eq!(fields(&eve.get("/v1/nodes").expect(200).json(), "name"), ["eve-1"]);
}

#[test]
fn an_administrator_of_a_domain_acts_for_own_customers_only() {
    let service = Provider::new();
    let (lab, law) = (service.tenant("LAB"), service.tenant("LAW"));
    let customer = |of: &Caller, login: &str, domain: &str| {
        let roles = json!([{ "role": "owner", "domain": domain }]);
        of.post("/v1/users", &json!({ "login": login, "roles": roles })).expect(201);
    };
    customer(&lab, "eve", "LAB");
    customer(&law, "bob", "LAW");
    let made = lab.post("/v1/keys", &json!({ "kind": "impersonator" })).expect(201).json();
    let acting = service.stranger.with_key(made["token"].as_str().unwrap());
    let as_person = |login: &str| acting.with_headers(&[&format!("X-Holdfast-For: {login}")]);
    assert_eq!(as_person("eve").get("/v1/account").expect(200).json()["login"], "eve");
    for login in ["bob", "root", "admin-of-LAW", "nobody"] {
        as_person(login).get("/v1/account").expect(404);
    }
    service.server.admin(&["user", "lock", "admin-of-LAB"]);
    as_person("eve").get("/v1/account").expect(401);
}

#[test]
fn a_wrong_second_factor_is_slowed() {
    let service = Provider::new();
    let file = service.scratch.join("password of anna");
    fs::write(&file, PASSWORD).unwrap();
    service.person("anna", &["auditor"]);
    let sign_in = |code: &str| {
        let body = json!({ "login": "anna", "password": PASSWORD, "code": code });
        service.stranger.post("/v1/sign-in", &body)
    };
    // Without a second factor, a code does not matter.
    let signed_in = sign_in("000000").expect(200);
    let cookie = signed_in.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let guard = signed_in.json()["guard"].as_str().unwrap().to_owned();
    let page = service.stranger.with_headers(&[&format!("Cookie: {cookie}")]);
    page.get("/v1/account").expect(200);
    page.post("/v1/account/second-factor", &json!({})).expect(403);
    let page = page.with_headers(&[&format!("X-Holdfast-Guard: {guard}")]);
    let (_, code) = take_second_factor(&page);
    page.get("/v1/account").expect(401);
    assert_eq!(sign_in(&code).expect(401).json()["code"], "second-factor-needed", "was used");
    let statuses: Vec<u16> = (0..7).map(|_| sign_in("000000").status).collect();
    assert!(statuses.starts_with(&[401; 3]) && statuses.contains(&429), "{statuses:?}");
    service.server.admin(&["user", "set", "anna", "--no-second-factor"]);
    sign_in("000000").expect(200);
}

#[test]
fn guesses_of_a_second_factor_elsewhere_do_not_lock_the_owner_out() {
    let service = Provider::new();
    let anna = service.person("anna", &["auditor"]);
    let (secret, _) = take_second_factor(&anna);
    let sign_in = |from: &Caller, code: &str| {
        from.post("/v1/sign-in", &json!({ "login": "anna", "password": PASSWORD, "code": code }))
    };
    sign_in(&service.stranger, &current_code(&secret, 1)).expect(200);
    // Somebody has the password, and guesses codes.
    let guesser = service.stranger.with_options(&["--interface", "127.0.0.2"]);
    let statuses: Vec<u16> = (0..9).map(|_| sign_in(&guesser, "000000").status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    let looked_at = sign_in(&service.stranger, "000000").expect(401).json();
    assert_eq!(looked_at["code"], "second-factor-needed");
}

/// Registers a person with these roles, and with [`PASSWORD`].
#[track_caller]
pub(crate) fn register_person(server: &Server, scratch: &Scratch, login: &str, roles: &[&str]) {
    let file = scratch.join(&format!("password of {login}"));
    fs::write(&file, PASSWORD).unwrap();
    let file = file.to_str().unwrap();
    let mut arguments = vec!["user", "add", login, "--password-file", file];
    roles.iter().for_each(|role| arguments.extend(["--role", role]));
    server.admin(&arguments);
}

/// Sets a second factor up for the person who calls. Returns its secret, and the code that is used
/// up by this.
#[track_caller]
pub(crate) fn take_second_factor(person: &Caller) -> (String, String) {
    let path = "/v1/account/second-factor";
    let begun = person.send("POST", path, None).expect(200).json();
    let secret = begun["secret"].as_str().unwrap().to_owned();
    let code = current_code(&secret, 0);
    let confirm = json!({ "secret": secret, "code": code, "password": PASSWORD });
    person.send("PUT", path, Some(&confirm)).expect(204);
    (secret, code)
}

/// Returns the code of a second factor, so many steps of time from now.
pub(crate) fn current_code(secret: &str, steps: u64) -> String {
    let secret = data_encoding::BASE32_NOPAD.decode(secret.as_bytes()).unwrap();
    let codes = totp_rs::Builder::new().with_secret(secret).build().unwrap();
    let now = u64::try_from(sys::clock::system().secs()).unwrap();
    codes.generate(now + 30 * steps).to_string()
}

#[test]
fn the_last_person_who_may_do_everything_keeps_the_role() {
    let service = Provider::new();
    let own = "/v1/users/root";
    let roles = |names: &[&str]| {
        let roles: Vec<Value> = names.iter().map(|name| json!({ "role": name })).collect();
        json!({ "roles": roles })
    };
    for body in [roles(&[]), roles(&["auditor"]), json!({ "roles": null })] {
        let refused = service.root.patch(own, &body).expect(409).json();
        assert!(refused["detail"].as_str().unwrap().contains("the last person"), "{refused}");
    }
    service.root.patch(own, &roles(&["system", "auditor"])).expect(200);
    service.person("second", &["system"]);
    let lock = |locked: bool| json!({ "locked": locked });
    service.root.patch("/v1/users/second", &lock(true)).expect(200);
    // A person who is locked takes no one's place.
    service.root.patch(own, &roles(&[])).expect(409);
    service.root.patch("/v1/users/second", &lock(false)).expect(200);
    service.root.patch(own, &roles(&[])).expect(200);
    let removed = service.server.try_admin(&["user", "remove", "second"]);
    removed.expect(&[0]).says("nobody has the role system any more");
    let removed = service.server.try_admin(&["user", "remove", "root"]).expect(&[0]);
    assert!(!removed.stderr.contains("nobody"), "{removed}");
}

#[test]
fn a_wrong_parameter_is_named_with_what_it_should_be() {
    let service = Provider::new();
    for (path, words) in [
        ("/v1/nodes?limit=many", "'limit' must be a whole number"),
        ("/v1/nodes?descending=maybe", "'descending' must be true or false"),
        ("/v1/nodes?sort=colour", "'sort' is wrong: unknown variant `colour`"),
        ("/v1/nodes?colour=red", "unknown parameter `colour`"),
        ("/v1/events?from=yesterday", "'from' is wrong: a time has the form of RFC 3339"),
        ("/v1/events/first", "'event' must be a whole number"),
        ("/v1/nodes/%ff", "'node' is wrong: it is not UTF-8"),
    ] {
        let refused = service.root.get(path).expect(400).json();
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(words) && !detail.contains("deserialize"), "{path}: {detail}");
    }
    let refused = service.server.try_admin(&["user", "add", "anna", "--mail", "not a mail"]);
    refused.expect(&[12]).says("'not a mail' is not an address for mail");
    holdfast(&["admin", "--server", "http://localhost:1580", "node", "list"])
        .expect(&[12])
        .says("by HTTPS only");
}

#[test]
fn the_last_contact_of_a_node_is_known_after_the_server_was_started_again() {
    let mut service = Provider::new();
    let node = crate::at_work::enrol(&service, "a");
    node.run(&["list"]).expect(&[0]);
    let contact = |service: &Provider| {
        let node = service.root.get("/v1/nodes/a").expect(200).json();
        [&node["last_contact"], &node["last_address"], &node["last_host"]].map(Value::clone)
    };
    let before = contact(&service);
    assert!(before.iter().all(Value::is_string), "{before:?}");
    let shown = service.server.admin(&["node", "show", "a"]);
    assert!(shown["last_contact"].is_string(), "{shown}");
    assert_eq!([&shown["last_address"], &shown["last_host"]], [&before[1], &before[2]]);
    service.server.terminate().expect(&[0]);
    service.server.restart();
    assert_eq!(contact(&service), before);
}

//! The REST API on what is going on and what was: sessions, tasks of the server, nights, series,
//! settings, differences, sorted lists.

use e2e::harness::Node;
use e2e::harness::api::Caller;
use serde_json::{Value, json};

use crate::api::{Provider, fields};
use crate::scene::plant_files;

/// Calls `look` until it returns something.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1800 {
        if let Some(found) = look() {
            return found;
        }
        sys::clock::sleep(std::time::Duration::from_millis(100));
    }
    panic!("{what}: it did not happen within three minutes");
}

/// Registers a node by a request, and makes this machine the node.
#[track_caller]
pub(crate) fn enrol(service: &Provider, name: &str) -> Node {
    enrol_by(service, &service.root, &json!({ "name": name }))
}

/// Registers a node of a domain by a request of `caller`, and makes this machine the node.
#[track_caller]
pub(crate) fn enrol_in(service: &Provider, caller: &Caller, name: &str, domain: &str) -> Node {
    enrol_by(service, caller, &json!({ "name": name, "domain": domain }))
}

#[track_caller]
fn enrol_by(service: &Provider, caller: &Caller, new: &Value) -> Node {
    let added = caller.post("/v1/nodes", new).expect(201).json();
    let (name, token) = (new["name"].as_str().unwrap(), added["token"].as_str().unwrap());
    Node::enrol_with(&service.server, name, token)
}

#[test]
fn a_session_shows_what_its_node_does() {
    let service = Provider::new();
    let node = enrol(&service, "web-1");
    let tree = service.scratch.folder("tree");
    // The objects of a directory come after the data of its last file.
    for folder in 0..8_u64 {
        let top = service.scratch.folder(&format!("tree/{folder}"));
        plant_files(&top, 5, 200_000, folder);
    }
    let slow = ["--limit-rate-send", "500K", "--txngroupmax", "5"];
    let backup = node.spawn_backup(&tree, &slow);
    let activity = until("the backup is seen", || {
        let sessions = service.root.get("/v1/sessions").expect(200).json();
        let own = sessions["items"].as_array().unwrap().first()?.clone();
        assert_eq!(own["node"], "web-1");
        let activity = own["activities"].as_array().unwrap().first()?.clone();
        let has_begun =
            activity["bytes"].as_u64() > Some(0) && activity["objects"].as_u64() > Some(0);
        has_begun.then_some(activity)
    });
    assert_eq!(activity["kind"], "backup");
    assert!(activity["bytes_per_sec"].as_u64().unwrap() > 0, "{activity}");
    let metrics = String::from_utf8(service.root.get("/metrics").expect(200).body).unwrap();
    for (kind, count) in [("backup", 1), ("restore", 0), ("recall", 0)] {
        let line = format!("holdfast_sessions{{kind=\"{kind}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    drop(backup.kill9());
    until("the backup is gone", || {
        let sessions = service.root.get("/v1/sessions").expect(200).json();
        let items = sessions["items"].as_array().unwrap().clone();
        items.iter().all(|one| one["activities"] == json!([])).then_some(())
    });
}

/// Follows an event to its end, and returns its states.
#[track_caller]
pub(crate) fn follow(caller: &Caller, number: u64) -> Vec<Value> {
    let stream = caller.get(&format!("/v1/events/{number}/stream")).expect(200);
    let text = String::from_utf8(stream.body).unwrap();
    let states = text.lines().filter_map(|line| line.strip_prefix("data: "));
    states.map(|json| serde_json::from_str(json).unwrap()).collect()
}

#[test]
fn a_task_of_the_server_is_started_watched_and_cancelled() {
    let service = Provider::new();
    let start = |caller: &Caller, body: Value| caller.post("/v1/tasks", &body);
    for (task, number) in
        [("expire", "expired"), ("copy-catalog", "bytes_new"), ("audit", "quanta")]
    {
        let made = start(&service.root, json!({ "task": task })).expect(201).json();
        assert_eq!((&made["work"], &made["state"]), (&json!(task), &json!("pending")));
        let states = follow(&service.root, made["number"].as_u64().unwrap());
        let last = states.last().unwrap();
        assert_eq!(last["state"], "completed", "{states:?}");
        assert!(last["report"][number].is_number(), "{last}");
    }
    start(&service.root, json!({ "task": "drain" })).expect(400);
    start(&service.root, json!({ "task": "drain", "pool": "NONE" })).expect(404);
    start(&service.root, json!({ "task": "nap" })).expect(400);
    let auditor = service.person("auditor", &["auditor"]);
    start(&auditor, json!({ "task": "expire" })).expect(403);
    let tenant = service.tenant("LAB");
    start(&tenant, json!({ "task": "expire" })).expect(403);
    let listed = auditor.get("/v1/events?place=server&state=completed,failed").expect(200).json();
    assert_eq!(fields(&listed, "work"), ["audit", "copy-catalog", "expire"]);
    assert_eq!(listed["items"][0]["report"], Value::Null);
    let listed = auditor.get("/v1/events?place=server&reports=true").expect(200).json();
    assert!(listed["items"][0]["report"].is_object(), "{listed}");
    tenant.get("/v1/events?place=server").expect(403);
    assert_eq!(service.root.get("/v1/events?place=node").expect(200).json()["items"], json!([]));
    // A task that has not begun is cancelled before it does anything.
    let made = start(&service.root, json!({ "task": "reclaim" })).expect(201).json();
    let number = made["number"].as_u64().unwrap();
    let wish = json!({ "wish": "cancel" });
    tenant.post(&format!("/v1/events/{number}/wish"), &wish).expect(404);
    service.root.post(&format!("/v1/events/{number}/wish"), &wish).expect(200);
    let last = follow(&service.root, number).pop().unwrap();
    assert_eq!(last["state"], "failed");
    assert!(last["reason"].as_str().unwrap().contains("cancelled"), "{last}");
    let log = service.root.get("/v1/log?kind=task%20started").expect(200).json();
    assert_eq!(log["items"].as_array().unwrap().len(), 4);
}

#[test]
fn a_task_that_the_server_began_is_described_and_followed() {
    let service = Provider::new();
    let begun = until("the catalogue is copied", || {
        let runs = service.root.get("/v1/tasks").expect(200).json();
        let runs = runs["items"].as_array().unwrap().clone();
        runs.into_iter().find(|one| one["ended"].is_string())
    });
    assert_eq!((&begun["task"], &begun["code"]), (&json!("copy the catalogue"), &json!(0)));
    let path = format!("/v1/tasks/{}", begun["number"]);
    let (auditor, tenant) = (service.person("auditor", &["auditor"]), service.tenant("LAB"));
    assert_eq!(auditor.get(&path).expect(200).json(), begun);
    assert_eq!(begun["is_cancelled"], false);
    let stream = auditor.get(&format!("{path}/stream")).expect(200);
    let text = String::from_utf8(stream.body).unwrap();
    let told: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(told.len(), 1, "it is over: {text}");
    assert_eq!(serde_json::from_str::<Value>(told[0]).unwrap(), begun);
    let over = service.root.delete(&path).expect(409).json();
    assert!(over["detail"].as_str().unwrap().contains("has ended"), "{over}");
    service.root.delete("/v1/tasks/987654").expect(404);
    let number = begun["number"].to_string();
    let listed = service.server.try_admin(&["tasks"]).expect(&[0]).json_lines();
    assert!(listed.iter().any(|run| run["number"] == begun["number"]), "{listed:?}");
    let cancel = ["tasks", "--cancel", &number];
    service.server.try_admin(&cancel).expect(&[12]).says("has ended");
    auditor.delete(&path).expect(403);
    for caller in [&tenant, &service.person("owner", &["owner@LAB"])] {
        caller.get(&path).expect(403);
        caller.get(&format!("{path}/stream")).expect(403);
        caller.delete(&path).expect(403);
    }
}

#[test]
fn a_node_shows_its_night_its_days_and_its_changes() {
    let service = Provider::new();
    let node = enrol(&service, "web-1");
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 20, 5_000, 7);
    node.backup(&tree, &[]).expect(&[0]);
    let between = sys::clock::now();
    let folder = tree.join("folder-00");
    std::fs::write(folder.join("file-0001"), b"changed").unwrap();
    std::fs::remove_file(folder.join("file-0002")).unwrap();
    std::fs::write(folder.join("new"), b"new").unwrap();
    node.backup(&tree, &[]).expect(&[0]);
    let get = |path: &str| service.root.get(path).expect(200).json();

    let nights = get("/v1/nights");
    assert_eq!(fields(&nights, "node"), ["web-1"]);
    let hours = nights["items"][0]["hours"].as_array().unwrap();
    let backups: u64 = hours.iter().map(|hour| hour["backups"].as_u64().unwrap()).sum();
    assert!(backups == 2 && hours.iter().all(|hour| hour["state"] == "good"), "{nights}");
    assert_eq!(get("/v1/nights?domain=LAB")["items"], json!([]));
    service
        .root
        .get("/v1/nights?from=2026-01-01T00:00:00Z&to=2025-01-01T00:00:00Z")
        .expect(400);

    let series = get("/v1/nodes/web-1/series?days=2&zone=Europe/Berlin");
    let days = series["days"].as_array().unwrap();
    let sum = |field: &str| days.iter().map(|day| day[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("backups"), 2);
    assert!(sum("backed_up") > 20 && sum("expired") == 1 && sum("bytes_sent") > 0, "{series}");
    service.root.get("/v1/nodes/web-1/series?days=0").expect(400);
    service.root.get("/v1/nodes/web-1/series?zone=Mars/Olympus").expect(400);

    let time = jiff::Timestamp::from_microsecond(between.0).unwrap();
    let space = get("/v1/nodes/web-1/filespaces")["items"][0]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let inside = match space.as_str() {
        "/" => tree.to_str().unwrap().to_owned(),
        space => tree.to_str().unwrap().strip_prefix(space).unwrap().to_owned(),
    };
    let compare = |path: &str, more: &str| {
        get(&format!("/v1/nodes/web-1/differences?filespace={space}&path={path}&from={time}{more}"))
    };
    let changed = compare(&format!("{inside}/folder-00"), "");
    let shown: Vec<_> = changed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            let name = item["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            (name, item["change"].as_str().unwrap().to_owned())
        })
        .collect();
    let expected = [("file-0001", "changed"), ("file-0002", "removed"), ("new", "added")];
    let expected = expected.map(|(name, change)| (name.to_owned(), change.to_owned()));
    assert_eq!(shown, expected);
    assert_eq!(changed["items"][0]["after"]["size"], 7);
    assert_eq!(changed["items"][0]["before"]["size"], 5_000);
    let (mut deep, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = compare(&inside, &format!("&deep=true&limit=1{cursor}"));
        deep.extend(fields(&page, "change"));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    // The folder itself has another time of change.
    assert_eq!(deep, ["changed", "changed", "removed", "added"]);
    assert_eq!(get("/v1/nodes/web-1/baselines")["items"], json!([]));
    service.root.get("/v1/nodes/web-1/baselines/7").expect(404);
}

#[test]
fn the_settings_of_a_node_name_their_sources() {
    let service = Provider::new();
    service.root.post("/v1/nodes", &json!({ "name": "web-1" })).expect(201);
    service
        .server
        .admin(&["optionset", "define", "linux", "--option", "compression=9", "--force"]);
    service
        .root
        .patch("/v1/nodes/web-1", &json!({ "option_set": "linux" }))
        .expect(200);
    let schedule = ["schedule", "define", "nightly", "--action", "incremental", "--time", "22:00"];
    service
        .server
        .admin(&[&schedule[..], &["--option=--compression=none"]].concat());
    service.server.admin(&["schedule", "associate", "nightly", "--node", "web-1"]);
    let settings = service.root.get("/v1/nodes/web-1/settings").expect(200).json();
    assert_eq!(
        (&settings["option_set"], &settings["option_set_version"]),
        (&json!("linux"), &json!(1))
    );
    let items = settings["items"].as_array().unwrap();
    let of = |name: &str| items.iter().find(|one| one["name"] == name).unwrap();
    let compression = of("compression");
    assert_eq!((&compression["value"], &compression["source"]), (&json!("9"), &json!("forced")));
    assert_eq!(compression["schedules"], json!([{ "schedule": "nightly", "value": "none" }]));
    assert_eq!(of("agent-mode")["source"], "default");
}

#[test]
fn lists_of_nodes_are_sorted_and_paged() {
    let service = Provider::new();
    for (name, host) in [("a", "zeta"), ("b", "Alpha"), ("c", "mid"), ("d", "alpha")] {
        let application = if name < "c" { "Database" } else { "mail" };
        let body = json!({ "name": name, "hostname": host, "application": application });
        service.root.post("/v1/nodes", &body).expect(201);
    }
    service.root.patch("/v1/nodes/d", &json!({ "platform": "Linux" })).expect(200);
    let read = |query: &str| {
        let (mut names, mut path) = (Vec::new(), format!("/v1/nodes?limit=1&{query}"));
        loop {
            let page = service.root.get(&path).expect(200).json();
            names.extend(fields(&page, "name"));
            let Some(next) = page["next"].as_str() else { return names.concat() };
            path = format!("/v1/nodes?limit=1&{query}&cursor={next}");
        }
    };
    assert_eq!(read("sort=hostname"), "bdca");
    assert_eq!(read("sort=hostname&descending=true"), "acdb");
    assert_eq!(read("descending=true"), "dcba");
    assert_eq!(read("sort=registered"), "abcd");
    assert_eq!(read("sort=last-backup&hostname=ALPHA"), "bd");
    assert_eq!(read("application=database"), "ab");
    assert_eq!(read("platform=linux"), "d");
    service.root.get("/v1/nodes?sort=colour").expect(400);
    service.root.get("/v1/nodes?sort=hostname&cursor=AAAA").expect(400);
}

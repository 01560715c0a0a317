//! Numbers that count over all domains: those that a tenant gets tell nothing of other domains.

use std::collections::BTreeSet;
use std::fs;

use client::Client;
use data_encoding::BASE64URL_NOPAD;
use e2e::harness::Node;
use e2e::harness::api::Caller;
use e2e::nasty::Random;
use serde_json::{Value, json};

use crate::api::{Provider, fields};
use crate::approvals::with_two_persons;
use crate::at_work::{enrol, enrol_in};
use crate::damage::{find_stored, flip};
use crate::tenant_keys;

/// A number that the small services here never reach by counting. Of 2^52 covers, hardly any is
/// below.
const COUNTED_MAX: u64 = 1_000_000;

fn new_node(name: &str, domain: &str) -> Value {
    json!({ "name": name, "domain": domain })
}

/// Starts work at a node. No machine is the node, so its event waits. Returns the name of the
/// schedule of the work.
#[track_caller]
pub(crate) fn start(caller: &Caller, node: &str) -> String {
    let definition = json!({
        "action": { "work": "incremental", "options": [] },
        "timing": {
            "starts": { "calendar": { "times": "22:00" } },
            "window_minutes": 60,
            "spread_percent": 25,
        },
        "zone": "UTC", "priority": 5, "retries": 2, "retry_pause_minutes": 20,
    });
    let run = json!({ "nodes": [node], "definition": definition });
    let made = caller.post("/v1/runs", &run).expect(201).json();
    made["schedule"].as_str().unwrap().to_owned()
}

/// Returns the numbers of the objects of a list.
#[track_caller]
fn numbers(caller: &Caller, path: &str) -> Vec<u64> {
    let list = caller.get(path).expect(200).json();
    let items = list["items"].as_array().unwrap();
    items.iter().map(|one| one["number"].as_u64().unwrap()).collect()
}

/// Looks through a list one by one, and returns the numbers of its objects and those in its
/// cursors.
#[track_caller]
fn leaf(caller: &Caller, path: &str) -> (Vec<u64>, Vec<u64>) {
    let (mut found, mut places, mut cursor) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = caller.get(&format!("{path}?limit=1{cursor}")).expect(200).json();
        found.extend(page["items"][0]["number"].as_u64());
        let Some(next) = page["next"].as_str() else { return (found, places) };
        let place = String::from_utf8(BASE64URL_NOPAD.decode(next.as_bytes()).unwrap()).unwrap();
        places.push(place.parse().unwrap());
        cursor = format!("&cursor={next}");
    }
}

/// Fails if one of the numbers may have come from counting.
#[track_caller]
fn check_covered(numbers: &[u64]) {
    assert!(numbers.iter().all(|number| *number > COUNTED_MAX), "they count: {numbers:?}");
}

#[test]
fn events_of_others_leave_no_trace_in_numbers_and_cursors() {
    let service = Provider::new();
    let (lab, law) = (service.tenant("LAB"), service.tenant("LAW"));
    lab.post("/v1/nodes", &new_node("lab-1", "LAB")).expect(201);
    law.post("/v1/nodes", &new_node("law-1", "LAW")).expect(201);
    let first = start(&lab, "lab-1");
    for _ in 0..3 {
        start(&law, "law-1");
    }
    let last = start(&lab, "lab-1");
    // The names are drawn by chance, and all are equally long.
    assert!(first != last && [&first, &last].iter().all(|name| name.len() == 9));
    let all = numbers(&service.root, "/v1/events");
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|number| *number <= COUNTED_MAX), "{all:?}");
    let own = numbers(&lab, "/v1/events");
    assert_eq!(own.len(), 2);
    let (found, places) = leaf(&lab, "/v1/events");
    assert_eq!((&found, places.len()), (&own, 1));
    check_covered(&[&own[..], &places].concat());
    check_covered(&numbers(&law, "/v1/events"));
    let night = lab.get("/v1/nights").expect(200).json();
    let hours = night["items"][0]["hours"].as_array().unwrap();
    let of_night = hours.iter().flat_map(|hour| hour["events"].as_array().unwrap());
    let of_night: BTreeSet<_> = of_night.map(|number| number.as_u64().unwrap()).collect();
    assert_eq!(of_night, BTreeSet::from_iter(own.iter().copied()));
    let path = |number: &u64| format!("/v1/events/{number}");
    for number in &own {
        let log = lab.get(&format!("{}/log", path(number))).expect(200).json();
        assert_eq!(log["event"]["number"], *number);
        law.get(&path(number)).expect(404);
        // An address that a tenant passes on leads the people of the service to the same event.
        let event = service.root.get(&path(number)).expect(200).json();
        assert!(event["node"] == "lab-1" && all.contains(&event["number"].as_u64().unwrap()));
    }
    for number in &all {
        lab.get(&path(number)).expect(404);
        service.root.get(&path(number)).expect(200);
    }
    let wish = json!({ "wish": "pause" });
    let paused = lab.post(&format!("{}/wish", path(&own[0])), &wish).expect(200).json();
    assert_eq!((&paused["number"], &paused["schedule"]), (&json!(own[0]), &json!(last)));
    check_command_line(&service, &own, &all);
}

/// The command line gets the same numbers as requests do.
fn check_command_line(service: &Provider, own: &[u64], all: &[u64]) {
    let lab = |words: &[&str]| tenant_keys::run(service, "admin-of-LAB", words);
    let listed = lab(&["event", "list"]).expect(&[0]).json_lines();
    let listed: Vec<_> = listed.iter().map(|one| one["event"].as_u64().unwrap()).collect();
    assert_eq!(listed, own);
    let show = |number: u64| lab(&["event", "show", &number.to_string()]);
    assert_eq!(show(own[1]).expect(&[0]).json()["event"], own[1]);
    show(all[0]).expect(&[12]).says("there is no event");
    lab(&["event", "cancel", &own[1].to_string()]).expect(&[0]);
}

#[test]
fn requests_of_others_leave_no_trace_in_numbers_cursors_and_texts() {
    let (service, _) = with_two_persons();
    let (lab, law) = (service.tenant("LAB"), service.tenant("LAW"));
    for (caller, names, domain) in
        [(&lab, ["lab-1", "lab-2"], "LAB"), (&law, ["law-1", "law-2"], "LAW")]
    {
        for name in names {
            caller.post("/v1/nodes", &new_node(name, domain)).expect(201);
        }
    }
    let text = |caller: &Caller, node: &str, status: u16| {
        let asked = caller.delete(&format!("/v1/nodes/{node}")).expect(status).json();
        asked["detail"].as_str().unwrap().to_owned()
    };
    let asked = text(&lab, "lab-1", 202);
    text(&law, "law-1", 202);
    text(&law, "law-2", 202);
    text(&lab, "lab-2", 202);
    let (own, places) = leaf(&lab, "/v1/approvals");
    assert_eq!((own.len(), places.len()), (2, 1));
    check_covered(&[&own[..], &places].concat());
    let named = format!("as number {}", own[1]);
    assert!(asked.contains(&named), "{asked}");
    let again = text(&lab, "lab-1", 409);
    assert!(again.contains(&named), "{again}");
    let all = numbers(&service.root, "/v1/approvals");
    assert_eq!(all.len(), 4);
    let path = |number: u64| format!("/v1/approvals/{number}");
    for number in all {
        lab.delete(&path(number)).expect(404);
    }
    law.delete(&path(own[0])).expect(404);
    let withdrawn = lab.delete(&path(own[0])).expect(200).json();
    assert_eq!((&withdrawn["number"], &withdrawn["state"]), (&json!(own[0]), &json!("withdrawn")));
    let number = own[1].to_string();
    let words = ["approval", "withdraw", &number];
    let withdrawn = tenant_keys::run(&service, "admin-of-LAB", &words).expect(&[0]).json();
    assert_eq!(withdrawn["number"], own[1]);
}

#[test]
fn baselines_of_others_leave_no_trace_in_numbers() {
    let service = Provider::new();
    let lab = service.tenant("LAB");
    let node = enrol_in(&service, &lab, "lab-1", "LAB");
    let client = Client::open(node.home()).unwrap();
    for _ in 0..2 {
        client.keep_baseline(b"{\"host\":\"lab-1\"}").unwrap();
    }
    let list = "/v1/nodes/lab-1/baselines";
    let (own, places) = leaf(&lab, list);
    assert_eq!((own.len(), places.len()), (2, 1));
    check_covered(&[&own[..], &places].concat());
    // They are no covers: everybody gets the same numbers.
    assert_eq!(numbers(&service.root, list), own);
    for number in own {
        for caller in [&lab, &service.root] {
            let kept = caller.get(&format!("{list}/{number}")).expect(200).json();
            let host = &kept["document"]["host"];
            assert_eq!((&kept["number"], host), (&json!(number), &json!("lab-1")));
        }
    }
    lab.get(&format!("{list}/1")).expect(404);
}

/// Nodes give the numbers of their archives and deletions in commands and scripts, and see them in
/// answers, so what was counted over all nodes would tell each how many the others make.
#[test]
fn archives_and_deletions_of_others_leave_no_trace_in_numbers() {
    let service = Provider::new();
    let (lab, law) = (service.tenant("LAB"), service.tenant("LAW"));
    let own = enrol_in(&service, &lab, "lab-1", "LAB");
    let other = enrol_in(&service, &law, "law-1", "LAW");
    let tree = service.scratch.folder("tree");
    for name in ["file", "other"] {
        fs::write(tree.join(name), b"kept").unwrap();
    }
    let (tree, file) = (tree.to_str().unwrap(), tree.join("file"));
    let path = file.to_str().unwrap();
    let number = |node: &Node, words: &[&str], key: &str| {
        node.run(&[words, &["--json"]].concat()).expect(&[0]).json()[key]
            .as_u64()
            .unwrap()
    };
    let archive = |node: &Node| number(node, &["archive", tree], "archive");
    let delete = |node: &Node, archive: u64| {
        number(node, &["delete", path, "--archive", &archive.to_string()], "deletion")
    };
    let archives = [archive(&own), archive(&other), archive(&own)];
    let deletions = [delete(&own, archives[0]), delete(&other, archives[1])];
    check_covered(&[&archives[..], &deletions].concat());
    assert!(archives[0] < archives[2], "the numbers of a node rise");
    // The numbers of the node are those of the API, for the tenant and for those who see all.
    let list = "/v1/nodes/lab-1/archives";
    assert!(numbers(&lab, list).contains(&archives[2]));
    assert_eq!(numbers(&service.root, list), numbers(&lab, list));
    own.run(&["undelete", &deletions[0].to_string(), "--json"]).expect(&[0]);
    own.run(&["undelete", &deletions[1].to_string(), "--json"]).expect(&[12]);
    let (to, first) = (service.scratch.folder("to"), archives[0].to_string());
    own.run(&["retrieve", path, "--archive", &first, "--to", to.to_str().unwrap()])
        .expect(&[0]);
    assert_eq!(fs::read(to.join("file")).unwrap(), b"kept");
}

#[test]
fn the_reason_of_a_damage_has_no_number_of_a_pack() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut service = Provider::new();
    let tree = service.scratch.folder("tree");
    let content = Random::new(1, b"damage").bytes(900_000);
    fs::write(tree.join("a"), &content).unwrap();
    let node = enrol(&service, "web-1");
    node.backup(&tree, &[]).expect(&[0]);
    service.server.terminate().expect(&[0]);
    let (pack, offset) = find_stored(service.server.dir(), &content);
    flip(&pack, offset, 16);
    service.server.restart();
    let restore = node.restore(&tree, &service.scratch.folder("out"), &[]).expect(&[4]);
    let (_, reason) = restore.failures().remove(0);
    let spaces = service.root.get("/v1/nodes/web-1/filespaces").expect(200).json();
    let space = spaces["items"][0]["name"].as_str().unwrap();
    let path = tree.join("a");
    let path = path.to_str().unwrap().strip_prefix(space.trim_end_matches('/')).unwrap();
    let download = format!("/v1/nodes/web-1/content?filespace={space}&path={path}");
    let refused = service.root.get(&download).expect(500).json();
    assert_eq!(refused["code"], "damaged", "{refused}");
    for text in [reason.as_str(), refused["detail"].as_str().unwrap()] {
        assert!(text.contains("is damaged") && !text.contains("pack"), "{text}");
    }
}

#[test]
fn the_usage_of_a_class_that_is_gone_has_no_number_of_it() {
    let service = Provider::new();
    let tree = service.scratch.folder("tree");
    fs::write(tree.join("a"), b"a").unwrap();
    let node = enrol(&service, "web-1");
    let policy = "/v1/domains/STANDARD/policy";
    let edit = |edit: Value| {
        service.root.patch(&format!("{policy}/draft"), &edit).expect(200);
        let confirmed = json!({ "confirm": true });
        service.root.post(&format!("{policy}/activation"), &confirmed).expect(200);
    };
    for class in ["LONG", "LONGER"] {
        edit(json!({ "put_class": { "name": class } }));
        let set = json!({ "name": class, "statements": [format!("include /.../a {class}")] });
        service.root.post("/v1/option-sets", &set).expect(201);
        service
            .root
            .patch("/v1/nodes/web-1", &json!({ "option_set": class }))
            .expect(200);
        node.backup(&tree, &[]).expect(&[0]);
        fs::write(tree.join("a"), b"another one").unwrap();
    }
    node.backup(&tree, &[]).expect(&[0]);
    let classes = || {
        let usage = service.root.get("/v1/nodes/web-1/occupancy").expect(200).json();
        fields(&usage, "class")
    };
    assert!(classes().contains(&"LONGER".to_owned()), "{:?}", classes());
    for class in ["LONG", "LONGER"] {
        edit(json!({ "remove_class": class }));
    }
    assert_eq!(classes(), ["STANDARD", "(removed)"]);
}

#[test]
fn a_page_of_backups_stays_where_it_is_and_its_cursor_counts_nothing() {
    let service = Provider::new();
    let lab = service.tenant("LAB");
    let tree = service.scratch.folder("tree");
    let node = enrol_in(&service, &lab, "lab-1", "LAB");
    (0..2).for_each(|_| drop(node.backup(&tree, &[]).expect(&[0])));
    let page = |cursor: &str| {
        let path = format!("/v1/nodes/lab-1/backups?limit=1{cursor}");
        lab.get(&path).expect(200).json()
    };
    let newest = page("");
    let next = newest["next"].as_str().unwrap();
    node.backup(&tree, &[]).expect(&[0]);
    let oldest = page(&format!("&cursor={next}"));
    assert_ne!(oldest["items"], newest["items"], "a backup meanwhile moves no page");
    assert!(oldest["next"].is_null(), "{oldest}");
    let place = String::from_utf8(BASE64URL_NOPAD.decode(next.as_bytes()).unwrap()).unwrap();
    assert!(place.parse::<u64>().unwrap() > COUNTED_MAX, "{place}");
}

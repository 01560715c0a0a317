//! Libraries, volumes and copy pools by requests: what an administrator of storage does from a
//! program.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::api::{Provider, fields};
use crate::approvals::with_two_persons;
use crate::at_work::{enrol, follow};
use crate::scene::plant_files;

/// Adds a library in a folder. Returns its path.
fn library(service: &Provider) -> &'static str {
    let folder = service.scratch.folder("tapes");
    let new = json!({ "name": "TL", "folder": folder, "capacity_bytes": 64 << 20 });
    let made = service.root.post("/v1/libraries", &new).expect(201).json();
    assert_eq!((&made["name"], &made["capacity_bytes"]), (&json!("TL"), &json!(64 << 20)));
    "/v1/libraries/TL"
}

/// Starts a task, and waits until it has ended. Returns its event.
#[track_caller]
fn done(service: &Provider, task: &Value) -> Value {
    let event = service.root.post("/v1/tasks", task).expect(201).json();
    let last = follow(&service.root, event["number"].as_u64().unwrap()).pop().unwrap();
    assert_eq!((&last["state"], &last["code"]), (&json!("completed"), &json!(0)), "{last}");
    last
}

#[test]
fn volumes_are_labelled_filled_emptied_and_removed_by_requests() {
    let service = Provider::new();
    let one = library(&service);
    let settings = json!({ "settings": { "retain_secs": 60, "writers_max": 1 } });
    let changed = service.root.patch(one, &settings).expect(200).json();
    assert_eq!(changed["settings"]["retain_secs"], 60);
    assert_eq!(service.root.get(one).expect(200).json()["elements"], json!([]));
    service.root.get("/v1/libraries/NONE").expect(404);
    service.root.post("/v1/libraries", &json!({ "name": "X" })).expect(400);
    let volumes = format!("{one}/volumes");
    for name in ["A00001", "A00002"] {
        let made = service.root.post(&volumes, &json!({ "name": name })).expect(201).json();
        assert_eq!((&made["state"], &made["access"]), (&json!("scratch"), &json!("read-write")));
    }
    let first = format!("{volumes}/A00001");
    service.root.patch(&first, &json!({ "access": "read-only" })).expect(204);
    assert_eq!(service.root.get(&first).expect(200).json()["access"], "read-only");
    service.root.patch(&first, &json!({ "access": "read-write" })).expect(204);

    let pool = json!({ "name": "TAPE", "url": "tape:TL", "is_copy": true });
    service.root.post("/v1/pools", &pool).expect(201);
    let node = enrol(&service, "a");
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 30, 20_000, 7);
    node.backup(&tree, &[]).expect(&[0]);
    let copied = done(&service, &json!({ "task": "copy-pools", "pool": "TAPE" }));
    assert!(copied["report"]["bytes_done"].as_u64().unwrap() > 100_000, "{copied}");
    let filled = service.root.get("/v1/volumes?pool=TAPE").expect(200).json();
    let names = fields(&filled, "name");
    let [name] = &names[..] else { panic!("one volume is enough: {filled}") };
    let filled = format!("{volumes}/{name}");
    assert!(service.root.get(&filled).expect(200).json()["live_bytes"].as_u64().unwrap() > 0);
    service.root.delete(&filled).expect(409);
    let audited = json!({ "task": "audit-volumes", "volumes": [name], "library": "TL" });
    assert_eq!(done(&service, &audited)["report"]["failures"], 0);
    let reclaim = json!({ "task": "reclaim-volumes", "volumes": [name], "library": "TL" });
    let refused = service.root.post("/v1/tasks", &reclaim).expect(201).json();
    let refused = follow(&service.root, refused["number"].as_u64().unwrap()).pop().unwrap();
    assert_eq!(refused["state"], "failed", "nothing on the volume is dead: {refused}");
    assert!(refused["reason"].as_str().unwrap().contains(name.as_str()), "{refused}");
    done(&service, &json!({ "task": "move-volumes", "volumes": [name] }));
    let emptied = service.root.get(&filled).expect(200).json();
    assert_eq!(emptied["live_bytes"], 0, "{emptied}");
    done(&service, &json!({ "task": "reclaim-volumes", "pool": "TAPE" }));
    done(&service, &reclaim);
    done(&service, &json!({ "task": "repair" }));
    service.root.delete(&filled).expect(204);
    service.root.get(&filled).expect(404);
    for wrong in
        [json!({ "task": "move-volumes" }), json!({ "task": "copy-pools", "volumes": [name] })]
    {
        service.root.post("/v1/tasks", &wrong).expect(400);
    }
    let unknown = json!({ "task": "audit-volumes", "volumes": ["NONE01"] });
    service.root.post("/v1/tasks", &unknown).expect(404);
    service.root.delete(one).expect(409);
    let log = service.root.get("/v1/log?kind=by%20request").expect(200).json();
    let kinds = fields(&log, "what");
    for kind in ["library added", "library changed", "volume labelled", "volume removed"] {
        assert!(kinds.contains(&format!("{kind} by request")), "{kind}: {kinds:?}");
    }
}

#[test]
fn a_label_over_data_waits_for_a_second_person() {
    let (service, second) = with_two_persons();
    let one = library(&service);
    let volumes = format!("{one}/volumes");
    service.root.post(&volumes, &json!({ "name": "A00001" })).expect(201);
    // The server forgets the volume, and its file in the folder goes with it. A file with the label
    // of another server takes its place.
    let (kept, file) = (service.scratch.join("kept"), service.scratch.join("tapes/A00001.volume"));
    fs::copy(&file, &kept).unwrap();
    service.root.delete(&format!("{volumes}/A00001")).expect(204);
    fs::copy(&kept, &file).unwrap();
    service.root.post(&volumes, &json!({ "name": "A00001" })).expect(409);
    let over = json!({ "name": "A00001", "overwrite": true });
    let asked = service.root.post(&volumes, &over).expect(202).json();
    assert_eq!(asked["code"], "approval-needed");
    service.root.get(&format!("{volumes}/A00001")).expect(404);
    let waiting = second.get("/v1/approvals").expect(200).json();
    let summary = waiting["items"][0]["summary"].as_str().unwrap();
    assert!(summary.contains("volume A00001 of library TL"), "{summary}");
    let number = waiting["items"][0]["number"].as_u64().unwrap();
    let decision = format!("/v1/approvals/{number}/decision");
    let tenant = service.tenant("LAB");
    tenant.post(&decision, &json!({ "decision": "approve" })).expect(404);
    let done = second.post(&decision, &json!({ "decision": "approve" })).expect(200).json();
    assert_eq!(done["state"], "done", "{done}");
    let labelled = service.root.get(&format!("{volumes}/A00001")).expect(200).json();
    assert_eq!(labelled["state"], "scratch");
}

#[test]
fn archives_and_copies_of_the_catalogue_are_listed() {
    let service = Provider::new();
    let node = enrol(&service, "a");
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 5, 1_000, 7);
    fs::write(tree.join("kept.txt"), b"kept for the year").unwrap();
    let words = ["archive", tree.to_str().unwrap(), "--description", "the year"];
    node.run(&words).expect(&[0]);
    let archives = service.root.get("/v1/nodes/a/archives").expect(200).json();
    assert_eq!(fields(&archives, "description"), ["the year"]);
    let archive = &archives["items"][0];
    assert_eq!((&archive["is_complete"], &archive["is_held"]), (&true.into(), &false.into()));
    let space = archive["filespaces"][0].as_str().unwrap();
    assert!(tree.starts_with(space), "{archive}");
    files_of_an_archive_are_seen_and_downloaded(&service, archive, &tree);
    done(&service, &json!({ "task": "copy-catalog" }));
    let copies = service.root.get("/v1/catalog-copies").expect(200).json();
    assert_eq!(copies["items"][0]["is_doubtful"], false, "{copies}");
    assert!(copies["items"][0]["bytes"].as_u64().unwrap() > 0);
}

/// Looks into the archive of the `tree`, which has the file "kept.txt".
#[track_caller]
fn files_of_an_archive_are_seen_and_downloaded(service: &Provider, archive: &Value, tree: &Path) {
    let (space, number) = (archive["filespaces"][0].as_str().unwrap(), &archive["number"]);
    let path = format!("/{}", tree.strip_prefix(space).unwrap().display());
    let place = |operation: &str, number: &Value, more: &str| {
        format!("/v1/nodes/a/{operation}?filespace={space}&archive={number}{more}")
    };
    let ask = |operation: &str, more: &str| service.root.get(&place(operation, number, more));
    let listed = ask("versions", &format!("&path={path}")).expect(200).json();
    let kept = format!("{path}/kept.txt");
    assert!(fields(&listed, "path").contains(&kept), "{listed}");
    let found = ask("search", "&pattern=/.../kept.txt").expect(200).json();
    assert_eq!(fields(&found, "path"), std::slice::from_ref(&kept));
    assert_eq!(ask("content", &format!("&path={kept}")).expect(200).body, b"kept for the year");
    for operation in ["tree", "zip"] {
        let got = ask(operation, &format!("&path={path}")).expect(200).body;
        let name = got.windows(8).any(|bytes| bytes == b"kept.txt");
        assert!(name, "the {operation} lacks the file");
    }
    // A download is a restore in the report of the month.
    let report = service.root.get("/v1/domains/STANDARD/report?format=csv").expect(200).body;
    let report = String::from_utf8(report).unwrap();
    let rows: Vec<Vec<&str>> = report.lines().map(|line| line.split(',').collect()).collect();
    let column = rows[0].iter().position(|name| *name == "restores").unwrap();
    assert_eq!(rows[1][column], "3", "{report}");
    // The node has made no backup, and no other archive.
    service.root.get(&format!("/v1/nodes/a/versions?filespace={space}")).expect(404);
    let absent = service.root.get(&place("versions", &json!(1), "")).expect(404).json();
    assert!(absent["detail"].as_str().unwrap().contains("no archive 1 "), "{absent}");
    let stored = service.root.get("/v1/nodes/a/occupancy").expect(200).json();
    let stored = &stored["items"][0];
    assert_eq!(
        (&stored["kind"], &stored["filespace"], &stored["archive"]),
        (&json!("archive"), &json!(space), number)
    );
}

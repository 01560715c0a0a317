//! Streams whose callers lose the right to them while they are under way.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use e2e::harness::api::Caller;
use e2e::nasty::Random;
use serde_json::json;

use crate::api::{Provider, fields};
use crate::at_work::{enrol, until};
use crate::numbers;

/// Size in bytes of a file whose download takes a minute.
const LARGE_BYTES: usize = 60_000_000;

/// Begins to read a stream into `file`, and waits until its first bytes have come.
#[track_caller]
fn begin(caller: &Caller, path: &str, file: &Path) -> Child {
    let mut curl = caller.curl();
    curl.args(["--no-buffer", "--max-time", "300", "--limit-rate", "1M", "--output"])
        .arg(file);
    let curl = curl.arg(format!("{}{path}", caller.url())).stderr(Stdio::null()).spawn();
    let curl = curl.unwrap_or_else(|error| panic!("cannot run curl: {error}"));
    until("the stream has begun", || {
        fs::metadata(file).is_ok_and(|file| file.len() > 0).then_some(())
    });
    curl
}

/// Waits until the server cuts the stream, long before it would end by itself.
#[track_caller]
fn check_cut(mut curl: Child) {
    let status = until("the stream is cut", || curl.try_wait().unwrap());
    assert!(!status.success(), "{status}");
}

#[test]
fn a_stream_ends_for_a_locked_person_and_for_a_revoked_key() {
    let service = Provider::new();
    service.root.post("/v1/nodes", &json!({ "name": "web-1" })).expect(201);
    numbers::start(&service.root, "web-1");
    let events = service.root.get("/v1/events?node=web-1").expect(200).json();
    let path = format!("/v1/events/{}/stream", events["items"][0]["number"]);
    let (anna, bert) =
        (service.person("anna", &["operator"]), service.person("bert", &["auditor"]));
    let made = service.server.admin(&["key", "add", "--user", "root", "--kind", "readonly"]);
    let token = made["token"].as_str().unwrap();
    let key = service.stranger.with_key(token);
    let file = |name: &str| service.scratch.join(name);
    let mut kept = begin(&service.root, &path, &file("kept"));
    let locked = begin(&anna, &path, &file("locked"));
    let moved = begin(&bert, &path, &file("moved"));
    let revoked = begin(&key, &path, &file("revoked"));
    service.root.patch("/v1/users/anna", &json!({ "locked": true })).expect(200);
    service.root.patch("/v1/users/bert", &json!({ "roles": [] })).expect(200);
    let (id, _) = token.split_once(':').unwrap();
    service.root.delete(&format!("/v1/keys/{id}")).expect(204);
    for curl in [locked, moved, revoked] {
        check_cut(curl);
    }
    assert!(kept.try_wait().unwrap().is_none(), "others read on");
    kept.kill().unwrap();
    kept.wait().unwrap();
}

/// Backs up a large file as node web-1, and returns the path of its download.
#[track_caller]
fn large_file(service: &Provider) -> String {
    let node = enrol(service, "web-1");
    let tree = service.scratch.folder("tree");
    let large = tree.join("large");
    fs::write(&large, Random::new(3, b"download").bytes(LARGE_BYTES)).unwrap();
    node.backup(&tree, &[]).expect(&[0]);
    let spaces = service.root.get("/v1/nodes/web-1/filespaces").expect(200).json();
    let space = fields(&spaces, "name").remove(0);
    let inside = large.strip_prefix(&space).unwrap().to_str().unwrap();
    format!("/v1/nodes/web-1/content?filespace={space}&path=/{inside}")
}

#[test]
fn a_download_is_cut_for_a_locked_person() {
    let service = Provider::new();
    let path = large_file(&service);
    let anna = service.person("anna", &["system"]);
    let file = service.scratch.join("part");
    let curl = begin(&anna, &path, &file);
    service.root.patch("/v1/users/anna", &json!({ "locked": true })).expect(200);
    check_cut(curl);
    assert!(fs::metadata(&file).unwrap().len() < LARGE_BYTES as u64);
}

#[test]
fn a_download_is_cut_for_who_no_longer_owns_the_node() {
    let service = Provider::new();
    let path = large_file(&service);
    let anna = service.person("anna", &[]);
    service.person("bert", &[]);
    service.root.patch("/v1/nodes/web-1", &json!({ "owner": "anna" })).expect(200);
    let (kept, part) = (service.scratch.join("kept"), service.scratch.join("part"));
    let mut kept = begin(&service.root, &path, &kept);
    let curl = begin(&anna, &path, &part);
    // The new name is no reason to cut: the node is the same.
    let handed_over = json!({ "owner": "bert", "name": "web-9" });
    service.root.patch("/v1/nodes/web-1", &handed_over).expect(200);
    check_cut(curl);
    assert!(fs::metadata(&part).unwrap().len() < LARGE_BYTES as u64);
    assert!(kept.try_wait().unwrap().is_none(), "others read on");
    kept.kill().unwrap();
    kept.wait().unwrap();
}

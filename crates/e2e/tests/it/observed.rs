//! Messages as JSON, and traces that a real receiver gets.

use std::ffi::OsString;
use std::fs;

use e2e::harness::{Keeper, Node, Server, binary, start};
use e2e::scratch::Scratch;
use serde_json::Value;

use crate::scene::plant_files;

#[test]
fn messages_of_the_server_are_one_document_a_line() {
    let scratch = Scratch::new();
    let mut server = Server::start(&scratch.join("server"));
    server.set_options(&["--log-format", "json"]);
    server.restart();
    let node = Node::enrol(&server, "web-1");
    let tree = scratch.folder("tree");
    plant_files(&tree, 10, 2_000, 7);
    node.backup(&tree, &[]).expect(&[0]);
    let outcome = server.terminate().expect(&[0]);
    let lines: Vec<Value> = outcome
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert!(!lines.is_empty(), "a server says what it does");
    for line in &lines {
        assert!(line["timestamp"].as_str().is_some(), "{line}");
        assert!(line["message"].as_str().is_some(), "{line}");
        assert!(["INFO", "WARN", "ERROR"].contains(&line["level"].as_str().unwrap()), "{line}");
    }
}

#[test]
fn a_collector_gets_spans_of_the_work_and_none_without_the_option() {
    let scratch = Scratch::new();
    let Some(collector) = Keeper::webhook(&scratch.join("collector"), &[]) else { return };
    let url = format!("http://127.0.0.1:{}", collector.port());
    let mut server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-1");
    let tree = scratch.folder("tree");
    plant_files(&tree, 10, 2_000, 7);
    node.backup(&tree, &[]).expect(&[0]);
    assert!(collector.kept().is_empty(), "nobody has asked for traces");
    server.set_options(&["--traces", &url]);
    server.restart();
    // Without a change there may be no transaction.
    fs::write(tree.join("new"), "new").unwrap();
    node.backup(&tree, &["--traces", &url]).expect(&[0]);
    // The server ends its spans after the client has its answer.
    for name in ["transaction", "commit"] {
        collector.wait_for(|one| one["body"].as_str().is_some_and(|body| body.contains(name)));
    }
    server.terminate().expect(&[0]);
    let kept = collector.kept();
    assert!(kept.iter().all(|one| one["path"] == "/v1/traces"), "{kept:#?}");
    let kind = |one: &Value| one["headers"]["content-type"].clone();
    assert!(kept.iter().all(|one| kind(one) == "application/x-protobuf"), "{kept:#?}");
    let spans: String = kept.iter().map(|one| one["body"].as_str().unwrap()).collect();
    for name in ["service.name", "holdfast", "backup", "transaction", "commit", "command"] {
        assert!(spans.contains(name), "{name} is not in {spans:?}");
    }
    assert!(spans.contains("web-1"), "a span names its node");
}

#[test]
fn a_collector_that_is_away_stops_nothing() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-1");
    let tree = scratch.folder("tree");
    plant_files(&tree, 10, 2_000, 7);
    let url = format!("http://127.0.0.1:{}", Server::free_port());
    node.backup(&tree, &["--traces", &url]).expect(&[0]);
    let wrong = ["status", "--traces", "localhost:4318"].map(OsString::from);
    let refused = start(&binary(), &wrong, &scratch.folder("home"), None).wait();
    refused.expect(&[12]).says("traces cannot be sent to localhost:4318");
}

//! Messages as JSON, and traces that a real receiver gets.

use std::ffi::OsString;
use std::fs;

use e2e::harness::{Keeper, Node, Outcome, Server, binary, start};
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
    let lines = check_documents(&server.terminate().expect(&[0]));
    assert!(!lines.is_empty(), "a server says what it does");
}

/// Checks that each line of standard error is a message as JSON, and returns the messages.
#[track_caller]
fn check_documents(outcome: &Outcome) -> Vec<Value> {
    let lines: Vec<Value> = outcome
        .messages()
        .into_iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for line in &lines {
        assert!(line["timestamp"].as_str().is_some(), "{line}");
        assert!(line["message"].as_str().is_some(), "{line}");
        let level = line["level"].as_str().unwrap();
        assert!(["DEBUG", "INFO", "WARN", "ERROR"].contains(&level), "{line}");
    }
    lines
}

/// Regression: the error that ended a server, and the lines about objects, were text.
#[test]
fn objects_and_the_last_error_are_documents_too() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "web-1");
    let tree = scratch.folder("tree");
    fs::write(tree.join("file"), "content").unwrap();
    let as_json = ["--verbose", "--log-format", "json"];
    let lines = check_documents(&node.backup(&tree, &as_json).expect(&[0]));
    let path = tree.join("file").display().to_string();
    let is_told = |line: &Value| line["message"] == "back up" && line["path"] == path;
    assert!(lines.iter().any(is_told), "{lines:#?}");
    let nowhere = scratch.join("nowhere").into_os_string();
    let words = ["server", "run", "--log-format", "json"].map(OsString::from);
    let words: Vec<OsString> = words.into_iter().chain([nowhere]).collect();
    let refused = start(&binary(), &words, &scratch.folder("home"), None).wait();
    let lines = check_documents(&refused.expect(&[12]));
    let [line] = &lines[..] else { panic!("one error: {lines:#?}") };
    assert_eq!(line["level"], "ERROR");
    assert!(line["message"].as_str().unwrap().contains("cannot be read"), "{line}");
}

/// Regression: the message had the end of an event in the form of a debugger, `Ended(12)`.
#[test]
fn the_end_of_an_event_is_a_word_and_a_code() {
    let scratch = Scratch::new();
    let mut server = Server::start(&scratch.join("server"));
    server.set_options(&["--log-format", "json"]);
    server.restart();
    let node = Node::enrol(&server, "web-1");
    let agent = node.spawn_agent();
    let run = ["run", "--json", "web-1", "--", "command", "exit 3"];
    let ended = server.spawn_admin(&run).wait();
    drop(agent);
    let lines = check_documents(&server.terminate().expect(&[0]));
    let reported = lines.iter().filter(|line| line["message"] == "event reported");
    let told: Vec<_> = reported.map(|line| (&line["phase"], &line["code"])).collect();
    let is_end = |(phase, code): &(&Value, &Value)| **phase == "ended" && **code == 12;
    assert!(told.iter().any(is_end), "{lines:#?}, {ended}");
    let has_code = |(phase, code): &(&Value, &Value)| (**phase == "ended") != code.is_null();
    assert!(told.iter().all(has_code), "{told:?}");
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

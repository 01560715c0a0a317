//! Baselines that the server keeps of its nodes. The client's library is under test here, not a
//! command.

use client::{Client, ErrorKind};
use e2e::broken_node::{Intruder, field};
use e2e::harness::Node;
use model::ServerTime;

use crate::scene::Scene;
use crate::versions::{call_of, imitation, transcript};

const KEEP: &str = "/holdfast.v1.Node/KeepBaseline";

/// Number of baselines that a server keeps of a node.
const KEPT: usize = 100;

fn connect(node: &Node) -> Client {
    Client::open(node.home()).unwrap()
}

/// Returns the documents that the server keeps, as text.
fn documents(client: &Client) -> Vec<String> {
    let kept = client.baselines().unwrap();
    assert!(kept.is_sorted_by_key(|one| one.made), "the newest is the last");
    kept.into_iter().map(|one| String::from_utf8(one.document).unwrap()).collect()
}

#[test]
fn a_node_sees_its_own_baselines_only() {
    let mut scene = Scene::new();
    let bert = Node::enrol(&scene.server, "bert");
    let [of_anna, of_bert] = [&scene.node, &bert].map(connect);
    assert_eq!(documents(&of_anna), [""; 0]);
    for document in ["first", "second"] {
        of_anna.keep_baseline(document.as_bytes()).unwrap();
    }
    of_bert.keep_baseline(b"of bert").unwrap();
    scene.server.terminate().expect(&[0]);
    scene.server.restart();
    let [of_anna, of_bert] = [&scene.node, &bert].map(connect);
    assert_eq!(documents(&of_anna), ["first", "second"]);
    assert_eq!(documents(&of_bert), ["of bert"]);
    let made = of_anna.baselines().unwrap()[0].made;
    assert!(made > ServerTime::from_secs(1_700_000_000), "{made:?}");
    // A node of the same name that comes later begins anew.
    scene.server.admin(&["node", "remove", "bert", "--confirm"]);
    let again = Node::enrol(&scene.server, "bert");
    assert_eq!(documents(&connect(&again)), [""; 0]);
}

#[test]
fn the_newest_hundred_are_kept_and_come_in_portions() {
    let scene = Scene::new();
    let client = connect(&scene.node);
    for number in 0..=KEPT {
        client.keep_baseline(number.to_string().as_bytes()).unwrap();
    }
    let expected = (1..=KEPT).map(|number| number.to_string());
    assert!(documents(&client).into_iter().eq(expected));
}

#[test]
fn a_baseline_that_is_too_large_is_refused() {
    let scene = Scene::new();
    let client = connect(&scene.node);
    // Compression makes the longest document that a client sends much shorter.
    let long = vec![b'x'; wire::BASELINE_DOCUMENT_BYTES_MAX];
    client.keep_baseline(&long).unwrap();
    let error = client.keep_baseline(&vec![b'x'; long.len() + 1]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage, "{error}");
    assert!(error.message.contains("measure fewer paths"), "{error}");
    // Such a message is not from a client of Holdfast.
    let intruder = Intruder::of(&scene.server, &scene.node);
    for bytes in [0, wire::BASELINE_BYTES_MAX + 1] {
        let status = intruder.call(KEEP, &[field(1, &vec![7; bytes])]);
        assert!(status.starts_with("3 ") && status.contains("a baseline has from 1"), "{status}");
    }
    let status = intruder.call(KEEP, &[field(1, &vec![7; 30 << 20])]);
    assert!(status.starts_with("11 ") && status.contains("too large"), "{status}");
    let status = intruder.call(KEEP, &[field(1, &vec![7; wire::BASELINE_BYTES_MAX])]);
    assert_eq!(status.trim(), "0", "the longest is kept");
    let kept = client.baselines().unwrap();
    assert_eq!(kept.len(), 2);
    assert!(kept[0].document == long && kept[1].document.len() == wire::BASELINE_BYTES_MAX);
}

#[test]
fn a_server_that_is_too_old_to_keep_baselines_is_named() {
    let mut entries = transcript(1, "list");
    let hello = call_of(&entries, "Hello");
    entries.retain(|entry| entry.call == hello);
    let (_scratch, node) = imitation(&entries);
    let client = connect(&node);
    let errors = [client.keep_baseline(b"{}").unwrap_err(), client.baselines().unwrap_err()];
    for error in errors {
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
        assert!(error.message.contains("too old to keep baselines"), "{error}");
        assert!(error.message.contains("upgrade the server"), "{error}");
    }
}

//! Certificates are renewed automatically, and the previous certificate stays valid for some days.
//! A new token and a revocation end all certificates that a node has had.

use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::clock;
use e2e::harness::{
    Node, Outcome, Proxy, Server, binary, enrol, start, start_enrolment, start_with_home,
};
use e2e::scratch::Scratch;

use crate::scene::Scene;

/// Number of bytes before the end of an enrolment at which its answer is not complete.
const WITHIN_ANSWER: u64 = 400;

#[test]
fn certificate_that_is_near_its_end_is_renewed() {
    let scratch = Scratch::new();
    let dir = scratch.join("server");
    let mut server = Server::start(&dir);
    let anna = Node::enrol(&server, "anna");
    let identity = anna.home().join("node.pem");
    let fresh = fs::read(&identity).unwrap();
    anna.run(&["status"]).expect(&[0]);
    assert_eq!(fs::read(&identity).unwrap(), fresh, "a fresh certificate should be kept");

    server.terminate();
    let config = fs::read_to_string(dir.join("server.toml")).unwrap();
    let short = config.replace("certificate_days = 90", "certificate_days = 1");
    assert_ne!(config, short, "the configuration should contain the lifetime");
    fs::write(dir.join("server.toml"), short).unwrap();
    server.restart();

    let bert = Node::enrol(&server, "bert");
    let identity = bert.home().join("node.pem");
    let first = fs::read(&identity).unwrap();
    bert.run(&["status"]).expect(&[0]);
    let second = fs::read(&identity).unwrap();
    assert_ne!(second, first, "a certificate for one day should be renewed");
    bert.run(&["status"]).expect(&[0]);

    fs::write(&identity, &first).unwrap();
    bert.run(&["status"]).expect(&[0]);
}

/// Runs `status` with the home `home`.
fn status(home: &Path) -> Outcome {
    let arguments = ["status".into(), "--home".into(), home.into()];
    start(&binary(), &arguments, home, None).wait()
}

/// Makes another token of the node `anna`.
fn token_again(scene: &Scene) -> String {
    let answer = scene.server.admin(&["node", "add", "anna", "--again"]);
    answer["token"].as_str().expect("a token").to_owned()
}

#[test]
fn a_new_token_ends_the_certificates_that_were_issued_before() {
    let scene = Scene::with_files(5, 100);
    scene.backup();
    let token = token_again(&scene);
    scene.backup().counts(&[("backed_up", 0)]);
    let again = scene.scratch.join("again");
    enrol(&again, &scene.server.address(), &token).expect(&[0]);
    status(&again).expect(&[0]);
    scene.node.run(&["status"]).expect(&[12]).says("enrol again with a new token");
}

#[test]
fn a_revoked_node_enters_only_with_a_new_token() {
    let scene = Scene::with_files(5, 100);
    scene.backup();
    let (address, other) = (scene.server.address(), scene.scratch.join("other"));
    let unused = token_again(&scene);
    let revoked = scene.server.admin(&["node", "revoke", "anna"]);
    assert_eq!(revoked["certificates"], 1, "{revoked}");
    scene.node.run(&["status"]).expect(&[12]).says("enrol again with a new token");
    enrol(&other, &address, &unused).expect(&[12]).says("replaced");
    let events = scene.server.admin(&["log"]).to_string();
    assert!(events.contains("node revoked"), "{events}");

    enrol(&other, &address, &token_again(&scene)).expect(&[0]);
    let by_token = ["log", "--kind", "node enrolled", "--node", "anna", "--limit", "1"];
    let enrolled = scene.server.admin(&by_token);
    assert_eq!(enrolled["actor"], "node anna");
    assert_eq!(enrolled["details"], "anna by token from 127.0.0.1");
    status(&other).expect(&[0]);
    scene
        .server
        .try_admin(&["node", "revoke", "nobody"])
        .expect(&[12])
        .says("nobody");
}

/// The token was used up, and the node had no certificate.
#[test]
fn an_enrolment_whose_answer_is_lost_gets_its_certificate() {
    let scene = Scene::new();
    let proxy = Proxy::start(scene.server.port());
    let address = format!("127.0.0.1:{}", proxy.port());
    let home = scene.scratch.join("first");
    enrol(&home, &address, &scene.server.token("first")).expect(&[0]);
    let whole = proxy.weather().answered_bytes();
    proxy.weather().go_down_behind(whole - WITHIN_ANSWER);
    let home = scene.scratch.join("second");
    let enrolling = start_enrolment(&home, &address, &scene.server.token("second"), &[]);
    let is_lost = (0..6000).any(|_| {
        clock::pause(Duration::from_millis(20));
        proxy.weather().is_down()
    });
    assert!(is_lost, "the enrolment ended before its answer was lost");
    proxy.weather().go_down_behind(u64::MAX);
    proxy.weather().be_down(false);
    enrolling.wait().expect(&[0]);
    start_with_home(&home, &["status"]).wait().expect(&[0]);
}

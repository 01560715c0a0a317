//! Enrolment by a password: the administrator gives it to a node, and it works once, at a server
//! whose CA the machine knows.

use std::fs;
use std::path::PathBuf;

use e2e::harness::{Outcome, Server, start_with_home};
use e2e::scratch::Scratch;
use serde_json::Value;

const PASSWORD: &str = "correct horse";

/// A server with the node anna, which has a password and is not enrolled yet.
struct Scene {
    scratch: Scratch,
    server: Server,
    registration: Value,
}

impl Scene {
    fn new() -> Self {
        let scratch = Scratch::new();
        let server = Server::start(&scratch.join("server"));
        let registration = server.admin(&["node", "add", "anna", "--password", PASSWORD]);
        Self { scratch, server, registration }
    }

    fn home(&self) -> PathBuf {
        self.scratch.join("anna")
    }

    /// Enrols as `name`, with further options.
    fn enrol(&self, name: &str, password: &str, options: &[&str]) -> Outcome {
        let address = self.server.address();
        let fixed = ["enroll", &address, "--name", name, "--password", password];
        start_with_home(&self.home(), &[&fixed, options].concat()).wait()
    }

    fn is_enrolled(&self) -> bool {
        self.home().join("client.toml").try_exists().unwrap()
    }

    fn authority(&self) -> String {
        self.server.dir().join("ca.pem").to_str().expect("a path in UTF-8").to_owned()
    }
}

#[test]
fn without_a_known_ca_nothing_is_sent() {
    let scene = Scene::new();
    let refused = scene.enrol("anna", PASSWORD, &[]).expect(&[12]).says("is not known here");
    assert!(refused.stderr.contains("nothing was sent"), "{refused}");
    let other = Server::start(&scene.scratch.join("other"));
    let wrong = other.dir().join("ca.pem");
    scene
        .enrol("anna", PASSWORD, &["--ca-file", wrong.to_str().unwrap()])
        .expect(&[12])
        .says("is not the one that is given");
    assert!(!scene.is_enrolled());
    // The password is still good.
    scene
        .enrol("ANNA", PASSWORD, &["--ca-file", &scene.authority()])
        .expect(&[0])
        .says("node anna");
}

#[test]
fn a_password_works_once_and_for_its_node_only() {
    let scene = Scene::new();
    let fingerprint = scene.registration["authority"].as_str().expect("a fingerprint").to_owned();
    let options = ["--ca-fingerprint", fingerprint.as_str()];
    let wrong = scene.enrol("anna", "wrong horse", &options).expect(&[12]);
    assert!(wrong.stderr.contains("the server refuses the password"), "{wrong}");
    assert!(!wrong.stderr.contains("token"), "{wrong}");
    scene.enrol("bert", PASSWORD, &options).expect(&[12]);
    assert!(!scene.is_enrolled());
    scene.enrol("anna", PASSWORD, &options).expect(&[0]);
    let home = scene.home();
    fs::remove_file(home.join("client.toml")).expect("the node was enrolled");
    scene.enrol("anna", PASSWORD, &options).expect(&[12]).says("used");
    // A password that was used cannot be given again, and another one can.
    let again = |password| {
        scene
            .server
            .try_admin(&["node", "add", "anna", "--again", "--password", password])
    };
    again(PASSWORD).expect(&[12]).says("has had this password before");
    again("battery staple").expect(&[0]);
    scene.enrol("anna", "battery staple", &options).expect(&[0]);
}

#[test]
fn an_unused_password_is_given_again_and_that_of_another_node_is_not() {
    let scene = Scene::new();
    let add = |words: &[&str]| {
        let fixed = ["node", "add", "anna", "--password", PASSWORD];
        scene.server.try_admin(&[&fixed, words].concat())
    };
    add(&["--again"]).expect(&[0]);
    scene.server.admin(&["node", "rename", "anna", "bert"]);
    for words in [&[][..], &["--again"]] {
        add(words).expect(&[12]).says("has had this password before");
    }
    let nodes = scene.server.try_admin(&["node", "list"]).expect(&[0]).json_lines();
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    // The name at which the password was given is a part of it.
    scene.enrol("bert", PASSWORD, &["--ca-file", &scene.authority()]).expect(&[12]);
    scene
        .enrol("anna", PASSWORD, &["--ca-file", &scene.authority()])
        .expect(&[0])
        .says("node bert");
}

#[test]
fn a_short_password_is_refused() {
    let scene = Scene::new();
    let short = ["node", "add", "bert", "--password", "seven77"];
    scene.server.try_admin(&short).expect(&[12]).says("8 to 512 bytes");
    let nodes = scene.server.try_admin(&["node", "list"]).expect(&[0]);
    assert_eq!(nodes.json_lines().len(), 1, "{nodes}");
}

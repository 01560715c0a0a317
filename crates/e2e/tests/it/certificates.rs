//! Certificates are renewed automatically, and the previous certificate stays valid until its end.

use std::fs;

use e2e::harness::{Node, Server};
use e2e::scratch::Scratch;

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

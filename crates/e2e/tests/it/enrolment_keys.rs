//! Enrolment keys: many machines become nodes by one secret.

use std::path::PathBuf;
use std::time::Duration;

use e2e::clock;
use e2e::harness::{Outcome, Process, Server, start_enrolment};
use e2e::scratch::Scratch;
use serde_json::Value;

/// Makes a key, and returns its text.
#[track_caller]
fn key(server: &Server, name: &str, words: &[&str]) -> String {
    let key = server.admin(&[&["enrolment-key", "add", name], words].concat());
    key["token"].as_str().expect("a key has a text").to_owned()
}

/// Machines that become nodes, each with a home of its own.
struct Machines<'a> {
    server: &'a Server,
    scratch: Scratch,
}

impl<'a> Machines<'a> {
    fn of(server: &'a Server) -> Self {
        Self { server, scratch: Scratch::new() }
    }

    fn home(&self, machine: &str) -> PathBuf {
        self.scratch.join(machine)
    }

    /// Starts the enrolment of a machine under its name.
    fn start(&self, key: &str, machine: &str) -> Process {
        let home = self.home(machine);
        start_enrolment(&home, &self.server.address(), key, &["--name", machine])
    }

    fn enrol(&self, key: &str, machine: &str) -> Outcome {
        self.start(key, machine).wait()
    }
}

fn shown(server: &Server, key: &str) -> Value {
    server.admin(&["enrolment-key", "show", key])
}

fn node_names(server: &Server) -> Vec<String> {
    let nodes = server.try_admin(&["node", "list"]).expect(&[0]).json_lines();
    let name = |node: &Value| node["node"].as_str().expect("a name").to_owned();
    nodes.iter().map(name).collect()
}

#[test]
fn a_key_enrols_as_many_nodes_as_it_may_and_no_more() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let machines = Machines::of(&server);
    let key = key(&server, "fleet", &["--count", "10"]);
    assert!(key.starts_with("hfk1."), "{key}");
    for number in 0..10 {
        machines.enrol(&key, &format!("web-{number}")).expect(&[0]);
    }
    machines
        .enrol(&key, "web-10")
        .expect(&[12])
        .says("has enrolled as many nodes as it may")
        .says("admin enrolment-key add");
    assert_eq!(node_names(&server).len(), 10);
    let fleet = shown(&server, "fleet");
    assert_eq!((&fleet["enrolled"], &fleet["state"]), (&10.into(), &"used up".into()), "{fleet}");
    assert_eq!(fleet.get("token"), None, "the text is shown once");
    let uses = server.try_admin(&["log", "--limit", "100"]).expect(&[0]).json_lines();
    let uses: Vec<&Value> =
        uses.iter().filter(|event| event["what"] == "node enrolled by key").collect();
    assert_eq!(uses.len(), 10);
    assert_eq!(uses[0]["actor"], "node web-9");
    assert_eq!(uses[0]["details"], "web-9 by key fleet from 127.0.0.1");
    let text = server.try_admin(&["log", "--limit", "100"]).expect(&[0]).stdout;
    assert!(!text.contains(&key[5..20]), "the secret is nowhere");
}

#[test]
fn of_twenty_at_once_ten_are_enrolled() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let machines = Machines::of(&server);
    let key = key(&server, "fleet", &["--count", "10"]);
    let all: Vec<Process> =
        (0..20).map(|number| machines.start(&key, &format!("web-{number}"))).collect();
    let enrolled = all.into_iter().map(Process::wait).filter(|outcome| outcome.code() == 0).count();
    assert_eq!(enrolled, 10);
    assert_eq!(node_names(&server).len(), 10);
    assert_eq!(shown(&server, "fleet")["enrolled"], 10);
}

#[test]
fn an_expired_or_revoked_key_enrols_nobody() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let machines = Machines::of(&server);
    let short = key(&server, "short", &["--count", "5", "--expires", "1s"]);
    clock::pause(Duration::from_millis(1100));
    machines
        .enrol(&short, "late")
        .expect(&[12])
        .says("the enrolment key has expired");
    assert_eq!(shown(&server, "short")["state"], "expired");
    let ended = key(&server, "ended", &["--count", "5"]);
    machines.enrol(&ended, "early").expect(&[0]);
    let revoked = server.admin(&["enrolment-key", "revoke", "ended"]);
    assert_eq!((&revoked["state"], &revoked["enrolled"]), (&"revoked".into(), &1.into()));
    let again = server.admin(&["enrolment-key", "revoke", "ended"]);
    assert_eq!(again["revoked"], revoked["revoked"]);
    let mut log = server.try_admin(&["log", "--limit", "1000"]).expect(&[0]).json_lines();
    log.retain(|event| event["what"] == "enrolment key revoked");
    assert_eq!(log.len(), 1, "a revocation counts once: {log:?}");
    machines
        .enrol(&ended, "late")
        .expect(&[12])
        .says("the enrolment key was revoked");
    assert_eq!(node_names(&server), ["early"]);
    let unknown = ended.replace("hfk1.", "hfk1.AAAA");
    machines
        .enrol(&unknown, "late")
        .expect(&[12])
        .says("this is not an enrolment token");
    server
        .try_admin(&["enrolment-key", "revoke", "none"])
        .expect(&[12])
        .says("there is no");
    server
        .try_admin(&["enrolment-key", "add", "ended", "--count", "5"])
        .expect(&[12])
        .says("exists already");
    let list = server.try_admin(&["enrolment-key", "list"]).expect(&[0]).json_lines();
    assert_eq!(list.len(), 2);
}

#[test]
fn guesses_of_keys_are_limited() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let machines = Machines::of(&server);
    let good = key(&server, "fleet", &["--count", "5"]);
    // Another server's key has another secret; the fingerprint stays, so that it arrives.
    let guess = |number: u8| {
        let bytes = data_encoding::BASE64URL_NOPAD.decode(&good.as_bytes()[5..]).expect("a key");
        let text =
            data_encoding::BASE64URL_NOPAD.encode(&[&[number; 16][..], &bytes[16..]].concat());
        machines.enrol(&format!("hfk1.{text}"), "thief")
    };
    for number in 0..5 {
        guess(number).expect(&[12]).says("this server did not issue the enrolment key");
    }
    guess(5).expect(&[11, 12]).says("too many enrolments");
    assert_eq!(node_names(&server), [""; 0]);
}

#[test]
fn new_nodes_get_what_the_key_names() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let machines = Machines::of(&server);
    server.admin(&["domain", "add", "LONG"]);
    let statements = scratch.join("linux.inclexcl");
    std::fs::write(&statements, "exclude /tmp/.../*\n").expect("is written");
    server.admin(&["optionset", "put", "LINUX", statements.to_str().expect("text")]);
    let marker = scratch.join("ran");
    let command = format!("echo $HOLDFAST_NODE >> {}", marker.display());
    let define = ["schedule", "define", "often", "--action", "command", "--object", &command];
    server.admin(&[&define[..], &["--every", "1m", "--window", "1m", "--spread", "0"]].concat());
    server.admin(&["schedule", "associate", "often", "--label", "web"]);
    let given = ["--label", "web", "--label", "prod", "--domain", "LONG", "--optionset", "LINUX"];
    let words = [&["--count", "5", "--names", "web-*"], &given[..]].concat();
    let key = key(&server, "fleet", &words);
    machines.enrol(&key, "db-1").expect(&[12]).says("names match 'web-*'");
    machines.enrol(&key, "web-1").expect(&[0]);
    let node = server.admin(&["node", "show", "web-1"]);
    assert_eq!(node["labels"], serde_json::json!(["prod", "web"]));
    assert_eq!((&node["domain"], &node["option_set"]), (&"LONG".into(), &"LINUX".into()));
    // The schedule of the label reaches the node.
    let agent = e2e::harness::start_with_home(&machines.home("web-1"), &["agent", "run"]);
    let end = clock::now() + Duration::from_secs(180);
    while std::fs::read_to_string(&marker).unwrap_or_default() != "web-1\n" {
        assert!(clock::now() < end, "the schedule does not reach the node");
        clock::pause(Duration::from_millis(200));
    }
    drop(agent.kill9());
}

/// The next machines could not be enrolled, and their users were told that something is not known.
#[test]
fn what_a_valid_key_gives_is_not_removed() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    server.admin(&["domain", "add", "LONG"]);
    let define = ["optionset", "define", "LINUX", "--option", "wait=2h"];
    server.try_admin(&define).expect(&[0]);
    key(&server, "fleet", &["--count", "5", "--domain", "LONG", "--optionset", "linux"]);
    let removals =
        [&["domain", "remove", "LONG"][..], &["optionset", "remove", "LINUX", "--confirm"]];
    for removal in removals {
        let refused = server.try_admin(removal).expect(&[12]);
        refused.says("stays: enrolment key fleet gives it to its nodes");
    }
    server.admin(&["enrolment-key", "revoke", "fleet"]);
    for removal in removals {
        server.try_admin(removal).expect(&[0]);
    }
    let unknown = ["enrolment-key", "add", "other", "--count", "5", "--optionset", "NONE"];
    server.try_admin(&unknown).expect(&[12]).says("there is no option set NONE");
}

#[test]
fn a_name_that_is_taken_is_refused_and_costs_no_use() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let machines = Machines::of(&server);
    let key = key(&server, "fleet", &["--count", "2"]);
    machines.enrol(&key, "web-1").expect(&[0]);
    let again = start_enrolment(&machines.home("x"), &server.address(), &key, &["--name", "web-1"]);
    again.wait().expect(&[12]).says("node web-1 exists already");
    assert_eq!(shown(&server, "fleet")["enrolled"], 1);
    machines.enrol(&key, "web 2").expect(&[12]).says("a node name must have");
    // Without a name the machine's own is taken.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux tells it");
    let home = machines.home("own");
    start_enrolment(&home, &server.address(), &key, &[])
        .wait()
        .expect(&[0])
        .says(host.trim());
    // The token of a node has the node's name already.
    let token = server.token("named");
    start_enrolment(&machines.home("y"), &server.address(), &token, &["--name", "other"])
        .wait()
        .expect(&[12])
        .says("--name is for enrolment keys");
}

//! Identities in use: what an administrator ends at once, and what is reported.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use e2e::harness::{Proxy, binary, start};
use e2e::nasty::Random;
use e2e::transcript::{Credential, HostileClient};

use crate::scene::Scene;

/// Maximum number of megabytes that a backup takes after its session has ended.
const FURTHER_MEGABYTES_MAX: u64 = 512;
/// Time limit until an event is in the audit trail.
const RECORDED_MAX: Duration = Duration::from_secs(120);

/// A backup whose session is open for as long as its standard input is.
struct OpenBackup {
    process: Child,
    input: ChildStdin,
}

impl OpenBackup {
    /// Starts the backup of a stream, and waits until it has taken some data.
    fn start(scene: &Scene) -> Self {
        let mut process = Command::new(binary())
            .args(["backup", "--json", "--stdin", "dump", "--home"])
            .arg(scene.node.home())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = process.stdin.take().unwrap();
        for number in 0..8 {
            input.write_all(&Random::new(number, b"open").bytes(1 << 20)).unwrap();
        }
        Self { process, input }
    }

    /// Writes until the backup ends. Returns its exit code and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let writes = |number| {
            let bytes = Random::new(number, b"open").bytes(1 << 20);
            self.input.write_all(&bytes).is_ok()
        };
        assert!(!(100..100 + FURTHER_MEGABYTES_MAX).all(writes), "the session goes on");
        drop(self.input);
        let output = self.process.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Checks that this command of the administrator ends a session that is open.
#[track_caller]
fn check_ended_by(command: &[&str], reason: &str) {
    let scene = Scene::with_files(5, 100);
    scene.backup();
    let open = OpenBackup::start(&scene);
    scene.server.admin(command);
    let (code, said) = open.end();
    assert_eq!(code, Some(12), "{said}");
    assert!(said.contains(reason), "{said}");
}

#[test]
fn a_lock_ends_a_session_that_is_open() {
    check_ended_by(&["node", "lock", "anna"], "locked");
}

#[test]
fn a_revocation_ends_a_session_that_is_open() {
    check_ended_by(&["node", "revoke", "anna"], "revoked");
}

#[test]
fn a_removal_ends_a_session_that_is_open() {
    check_ended_by(&["node", "remove", "anna", "--confirm"], "removed");
}

/// A new token ended the certificates before it, but not the connections that were open with them:
/// a thief's agent kept the place of the node's own.
#[test]
fn a_new_token_ends_a_connection_that_is_open() {
    let scene = Scene::new();
    let credential = Credential::Node(scene.node.home());
    let mut client = HostileClient::connect(credential, scene.server.port()).unwrap();
    let call = client.open("/holdfast.v1.Node/Pages", &[]);
    assert_eq!(client.head(call), None, "the call goes on");
    let again = scene.server.admin(&["node", "add", "anna", "--again"]);
    scene.node.enrol_at(&scene.server.address(), again["token"].as_str().unwrap());
    let end = client.first(call).expect_err("the connection is cut");
    assert!(end.starts_with("14 "), "{end}");
}

#[test]
fn a_node_in_two_places_at_once_is_reported() {
    let scene = Scene::with_files(5, 100);
    let open = OpenBackup::start(&scene);
    let proxy = Proxy::start(scene.server.port());
    proxy.weather().come_from(Ipv4Addr::new(127, 0, 0, 2));
    let copy = scene.scratch.folder("copy");
    for entry in std::fs::read_dir(scene.node.home()).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
    }
    let settings = std::fs::read_to_string(copy.join("client.toml")).unwrap();
    let elsewhere = format!("127.0.0.1:{}", proxy.port());
    let settings = settings.replace(&scene.server.address(), &elsewhere);
    std::fs::write(copy.join("client.toml"), settings).unwrap();
    let arguments = ["status".into(), "--home".into(), copy.clone().into()];
    start(&binary(), &arguments, &copy, None).wait().expect(&[0]);

    let is_reported = || {
        let events = scene.server.admin(&["log"]).to_string();
        events.contains("node connected from two addresses") && events.contains("127.0.0.2")
    };
    let began = e2e::clock::now();
    while !is_reported() {
        assert!(began.elapsed() < RECORDED_MAX, "two places are not reported");
        e2e::clock::pause(Duration::from_millis(50));
    }
    drop(open.input);
    assert!(open.process.wait_with_output().unwrap().status.success());
}

//! A machine that becomes a node at a terminal.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::harness::{Server, binary, start};
use e2e::scratch::Scratch;

use super::{Site, write_options};
use crate::scene::root_or_skip;

/// A person compares the fingerprint of the server's CA, which has a line of its own.
#[test]
fn a_person_who_knows_the_fingerprint_makes_the_machine_a_node() {
    if Command::new("script").arg("--version").output().is_err() {
        e2e::skip::say("script is not installed");
        return;
    }
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let (folder, home) = (scratch.folder("tsm"), scratch.folder("node"));
    let options = write_options(&folder, &home, server.port());
    server.admin(&["node", "add", "anna", "--password", "correct-horse-battery"]);
    let dsmc = |answers: &str| {
        let program = binary();
        let line =
            format!("{} dsm run dsmc -optfile={} q session", program.display(), options.display());
        let mut process = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("HOLDFAST_HOME", &home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        process.stdin.take().unwrap().write_all(answers.as_bytes()).unwrap();
        let done = process.wait_with_output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let is_fingerprint = |line: &str| {
        line.len() == 95 && line.split(':').all(|pair| u8::from_str_radix(pair, 16).is_ok())
    };
    let (code, said) = dsmc("correct-horse-battery\nno\n");
    assert!(code == Some(12) && said.contains("ANS1592E"), "{said}");
    let (code, said) = dsmc("correct-horse-battery\nyes\n");
    assert!(code == Some(0) && said.contains("Node Name: ANNA"), "{said}");
    assert!(said.lines().any(|line| is_fingerprint(line.trim_end())), "{said}");
}

#[test]
fn the_systems_store_of_certificates_proves_the_server() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let (folder, home) = (scratch.folder("tsm"), scratch.folder("node"));
    let options = write_options(&folder, &home, server.port());
    server.admin(&["node", "add", "anna", "--password", "correct-horse-battery"]);
    let dsmc = |store: &Path| {
        let done = Command::new(binary())
            .args(["dsm", "run", "dsmc"])
            .arg(format!("-optfile={}", options.display()))
            .args(["q", "session", "-password=correct-horse-battery"])
            .env("HOLDFAST_HOME", &home)
            .env("SSL_CERT_FILE", store)
            .env_remove("SSL_CERT_DIR")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = [done.stdout, done.stderr].concat();
        (done.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let (code, said) = dsmc(Path::new("/dev/null"));
    assert!(code == Some(12) && said.contains("ANS1592E"), "{said}");
    let (code, said) = dsmc(&server.dir().join("ca.pem"));
    assert!(code == Some(0) && said.contains("Node Name: ANNA"), "{said}");
}

/// The machine looked as if it was no node yet, and a password was asked for.
#[test]
fn a_user_who_may_not_read_the_folder_of_the_node_is_told_so() {
    if !root_or_skip("a_user_who_may_not_read_the_folder_of_the_node_is_told_so") {
        return;
    }
    let site = Site::new(0);
    let program = site.scene.scratch.join("holdfast");
    fs::copy(binary(), &program).unwrap();
    fs::set_permissions(site.scene.scratch.path(), Permissions::from_mode(0o755)).unwrap();
    let option = format!("-optfile={}", site.options.display());
    let words = ["dsm", "run", "dsmc", option.as_str(), "q", "session"].map(OsString::from);
    let refused = start(&program, &words, Path::new("/nonexistent"), Some(1234)).wait();
    let refused = refused.expect(&[12]).says("client.toml").says("run the command as root");
    assert!(!refused.stderr.contains("ANS2050E"), "{refused}");
}

/// A script that asked a server that was away waited for an hour.
#[test]
fn a_question_does_not_wait_for_a_server_that_is_away() {
    let mut site = Site::new(1);
    site.dsmc(&["query", "session"]).expect(&[0]);
    let system = site.options.with_file_name("dsm.sys");
    let text = fs::read_to_string(&system).unwrap();
    fs::write(&system, text.replace("COMMRESTARTDuration 0", "COMMRESTARTDuration 60")).unwrap();
    site.scene.server.kill9();
    let pattern = format!("{}/*", site.tree());
    for words in [
        &["query", "session"][..],
        &["query", "filespace"],
        &["query", "backup", &pattern],
        &["query", "access"],
        &["preview", "backup", &pattern],
    ] {
        site.dsmc(words).expect(&[12]).says("ANS1017E");
    }
}

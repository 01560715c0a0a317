//! Clients that are made from the document of the API: one that was generated, and one that sends
//! whatever the document allows, and more.
//!
//! The programs come from `.ci/api-tools`. Without them the tests are left out, with a line on
//! standard error.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::api::Provider;
use crate::at_work::enrol;
use crate::isolation::{tell_requests, told_requests};
use crate::scene::plant_files;

/// Returns the folder of the programs; `None` if they are not installed.
fn tools() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))?;
    let folder = cache.join("holdfast/api-tools/bin");
    let is_there = folder.join("schemathesis").is_file();
    if !is_there {
        eprintln!("left out: run '.ci/api-tools' to install the clients of the API");
    }
    is_there.then_some(folder)
}

#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let [text, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{text}\n{error}");
    output
}

/// Writes the document of the API of a server into a file.
#[track_caller]
fn document(service: &Provider) -> PathBuf {
    let served = service.stranger.get("/v1/openapi.json").expect(200);
    let path = service.scratch.join("openapi.json");
    fs::write(&path, served.body).unwrap();
    path
}

/// Returns the text of a new key of the system administrator.
#[track_caller]
fn token(service: &Provider) -> String {
    let made = service.root.post("/v1/keys", &json!({ "kind": "full" })).expect(201).json();
    made["token"].as_str().unwrap().to_owned()
}

/// Makes a node that has a backup.
#[track_caller]
fn back_up(service: &Provider, name: &str) {
    let node = enrol(service, name);
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 5, 1_000, 7);
    node.backup(&tree, &[]).expect(&[0]);
}

#[test]
fn a_generated_client_does_everything() {
    let Some(tools) = tools() else { return };
    let service = Provider::new();
    let (made, document) = (service.scratch.folder("made"), document(&service));
    back_up(&service, "web-1");
    let mut generate = Command::new(tools.join("openapi-python-client"));
    run(generate
        .args(["generate", "--meta", "none", "--overwrite", "--path"])
        .arg(&document)
        .arg("--output-path")
        .arg(made.join("client")));
    let flow = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/flow.py");
    let mut python = Command::new(tools.join("python"));
    let ca = service.server.dir().join("ca.pem");
    let output = run(python
        .env("PYTHONPATH", &made)
        .arg(flow)
        .args([service.stranger.url(), token(&service)])
        .args([&ca, &document])
        .arg("web-1"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("did everything"), "{text}");
}

/// Parts of the paths that are left out: a stream lasts for as long as its event does.
const LEFT_OUT: &str = "/stream$";
/// Operations that refuse and slow whoever guesses a password or a code.
const SLOWED: [&str; 6] = [
    "account.password",
    "account.remove-second-factor",
    "account.set-second-factor",
    "sign-in.begin",
    "sign-in.complete-oidc",
    "sign-in.give-code-oidc",
];
/// Rate of requests, below that at which the server fills up the allowance of a caller.
const RATE: &str = "38/s";

#[test]
fn whatever_is_sent_the_answers_are_those_of_the_document() {
    let Some(tools) = tools() else { return };
    let mut service = Provider::new();
    tell_requests(&mut service);
    back_up(&service, "web-1");
    let mut schemathesis = Command::new(tools.join("schemathesis"));
    let ca = service.server.dir().join("ca.pem");
    let checks = "not_a_server_error,response_schema_conformance,status_code_conformance,\
                  content_type_conformance";
    let path = document(&service);
    // The examples name folders of a server, which would be made on this machine, and an address.
    let text = fs::read_to_string(&path).unwrap();
    let folder = format!("{}/", service.scratch.path().display());
    let own = text.replace("/srv/", &folder).replace("//10.0.0.9/", "//127.0.0.1:1/");
    fs::write(&path, own).unwrap();
    // One worker: the parser of Python 3.11 keeps its depth in one place for all threads, so that
    // two workers end at random with "AST constructor recursion depth mismatch".
    run(schemathesis
        .current_dir(service.scratch.path())
        .arg("run")
        .arg(&path)
        .args(["--url", &service.stranger.url(), "--tls-verify"])
        .arg(ca)
        .args(["--header", &format!("Authorization: Token {}", token(&service))])
        .args(["--checks", checks, "--exclude-path-regex", LEFT_OUT])
        .args(["--phases", "examples,coverage,fuzzing", "--rate-limit", RATE])
        .args(["--max-examples", "5", "--seed", "7", "--request-timeout", "30"])
        .args(["--continue-on-failure", "--workers", "1"]));
    assert!(service.server.is_up(), "the server goes on");
    let document: Value = serde_json::from_str(&text).unwrap();
    check_each_was_asked(&document, &told_requests(&service.server.terminate().expect(&[0])));
}

/// Fails unless the server has worked for a request of each operation. It refuses requests with
/// invented keys, and slows them like any guess.
#[track_caller]
fn check_each_was_asked(document: &Value, told: &[Value]) {
    let mut statuses: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for line in told {
        let operation = line["operation"].as_str().unwrap();
        statuses.entry(operation).or_default().push(line["status"].as_u64().unwrap());
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for operation in methods.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            if path.ends_with("/stream") || SLOWED.contains(&id) {
                continue;
            }
            let all = statuses.get(id).map_or(&[][..], Vec::as_slice);
            assert!(all.iter().any(|status| ![401, 429].contains(status)), "{id}: {all:?}");
        }
    }
}

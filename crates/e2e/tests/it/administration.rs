//! Administration: finding the server, the audit trail of nodes, and messages for programs.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use e2e::clock;
use e2e::harness::{Outcome, Process, binary, is_root, start};
use serde_json::Value;

use crate::scene::{Scene, root_or_skip};

/// Runs an administrator's command without a server's folder. A home beside the server's folder
/// shares the folder of runtime files with the server.
fn admin_at(home: &Path, arguments: &[&str]) -> Outcome {
    let arguments = ["admin"].iter().chain(arguments).map(OsString::from);
    let process: Process = start(&binary(), &arguments.collect::<Vec<_>>(), home, None);
    process.wait()
}

#[test]
fn the_only_server_of_the_machine_is_found() {
    let mut scene = Scene::new();
    let dir = scene.server.dir().to_owned();
    let found = admin_at(&dir, &["node", "list"]).expect(&[0]);
    assert!(found.stdout.contains("anna"), "{found}");
    // A server that was killed leaves its announcement.
    scene.server.kill9();
    let none = admin_at(&dir, &["node", "list"]).expect(&[12]);
    none.says("no server was found").says("--server DIR");
    scene.server.restart();
    admin_at(&dir, &["node", "list"]).expect(&[0]);
    let elsewhere = admin_at(Path::new("/nonexistent"), &["node", "list"]).expect(&[12]);
    elsewhere.says("no server was found");
}

/// The message asked whether the server was running.
#[test]
fn a_user_without_rights_is_told_who_has_them() {
    if !root_or_skip("a_user_without_rights_is_told_who_has_them") {
        return;
    }
    let scene = Scene::new();
    let program = scene.scratch.join("holdfast");
    fs::copy(binary(), &program).unwrap();
    fs::set_permissions(scene.scratch.path(), Permissions::from_mode(0o755)).unwrap();
    let arguments = ["admin", "--server", scene.server.dir().to_str().unwrap(), "node", "list"];
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    let refused = start(&program, &arguments, Path::new("/nonexistent"), Some(1234)).wait();
    let refused = refused.expect(&[12]).says("needs root").says("id 0");
    assert!(!refused.stderr.contains("is the server running"), "{refused}");
}

//! Refused requests: one clear line names what is wrong, the exit code is right, and nothing is
//! lost.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use e2e::clock;
use e2e::harness::{Node, Outcome, Server, Tmpfs, enrol};
use e2e::manifest::assert_same;
use e2e::scratch::Scratch;

use crate::scene::{Scene, assert_failure_of, manifest, names, plant_files, root_or_skip};

/// Checks that the exit code says that nothing was done, and that one line, with at most one hint,
/// names `thing`.
#[track_caller]
fn assert_refused(outcome: Outcome, thing: &str) {
    let outcome = outcome.expect(&[12]).says(thing);
    let messages = outcome.messages();
    assert!(
        (1..=2).contains(&messages.len()),
        "the message should be one line and at most one hint: {outcome}"
    );
}

#[test]
fn unknown_option_is_named_with_the_help_as_the_hint() {
    let scene = Scene::new();
    let tree = scene.tree.to_str().unwrap();
    for arguments in [["backup", tree, "--no-such-option"], ["list", tree, "--no-such-option"]] {
        let outcome = scene.node.run(&arguments).expect(&[12]).says("--no-such-option");
        assert_eq!(outcome.messages().len(), 2, "{outcome}");
        assert!(outcome.messages()[1].starts_with("try 'holdfast"), "{outcome}");
    }
    let outcome = scene.node.run(&["no-such-command"]).expect(&[12]).says("no-such-command");
    assert_eq!(outcome.messages().len(), 2, "{outcome}");
}

#[test]
fn bad_values_are_named() {
    let scene = Scene::new();
    let tree = scene.tree.to_str().unwrap();
    scene
        .node
        .run(&["restore", tree, "--at", "the-day-before"])
        .expect(&[12])
        .says("the-day-before");
    scene
        .node
        .run(&["restore", tree, "--replace", "perhaps"])
        .expect(&[12])
        .says("perhaps");
}

#[test]
fn missing_path_is_named() {
    let scene = Scene::new();
    let missing = scene.tree.join("not-there");
    assert_refused(scene.node.run(&["backup", missing.to_str().unwrap()]), "not-there");
    assert_refused(scene.node.run(&["restore", missing.to_str().unwrap()]), "not-there");
}

#[test]
fn missing_path_does_not_stop_the_others() {
    let scene = Scene::with_files(10, 500);
    let (tree, missing) = (scene.tree.to_str().unwrap(), scene.tree.join("not-there"));
    let arguments = ["backup", missing.to_str().unwrap(), tree, "--json"];
    scene.node.run(&arguments).expect(&[4, 8, 12]).says("not-there");
    scene.backup();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

#[test]
fn unreachable_server_is_named() {
    let mut scene = Scene::with_files(10, 500);
    scene.server.terminate().expect(&[0]);
    let address = scene.server.address();
    let tree = scene.tree.to_str().unwrap();
    assert_refused(scene.node.run(&["backup", tree]), &address);
    assert_refused(scene.node.run(&["list", tree]), &address);
    scene.server.restart();
    scene.backup();
}

#[test]
fn home_without_enrolment_is_told_to_enrol() {
    let scene = Scene::new();
    let home = scene.scratch.folder("fresh-home");
    let arguments = ["backup", scene.tree.to_str().unwrap(), "--home", home.to_str().unwrap()];
    let arguments = arguments.map(Into::into);
    let program = e2e::harness::binary();
    let outcome = e2e::harness::start(&program, &arguments, &home, None).wait();
    assert_refused(outcome, "enroll");
}

#[test]
fn token_enrols_once() {
    let scene = Scene::new();
    let token = scene.server.token("bert");
    let (one, two) = (scene.scratch.join("home-1"), scene.scratch.join("home-2"));
    enrol(&one, &scene.server.address(), &token).expect(&[0]);
    assert_refused(enrol(&two, &scene.server.address(), &token), "token");
}

#[test]
fn expired_token_is_refused() {
    let scene = Scene::new();
    let answer = scene.server.admin(&["node", "add", "bert", "--expires", "1s"]);
    let token = answer["token"].as_str().unwrap();
    clock::pause(std::time::Duration::from_millis(2500));
    assert_refused(enrol(&scene.scratch.join("home"), &scene.server.address(), token), "token");
}

#[test]
fn forged_token_is_refused() {
    let scene = Scene::new();
    let token = scene.server.token("bert");
    let home = scene.scratch.join("home");
    // A change of one character must be noticed anywhere: in the fingerprint, the secret and the
    // encoding.
    for place in [0, token.len() / 4, token.len() / 2, token.len() - 2] {
        let mut forged = token.clone().into_bytes();
        forged[place] = if forged[place] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(forged).unwrap();
        enrol(&home, &scene.server.address(), &forged).expect(&[12]).says("token");
    }
    for forged in ["", "x", "A".repeat(10_000).as_str()] {
        enrol(&home, &scene.server.address(), forged).expect(&[12]);
    }
    enrol(&home, &scene.server.address(), &token).expect(&[0]);
}

#[test]
fn token_of_another_server_is_refused() {
    let (one, two) = (Scene::new(), Scene::new());
    let token = one.server.token("bert");
    let home = one.scratch.join("home");
    enrol(&home, &two.server.address(), &token).expect(&[12]);
    enrol(&home, &one.server.address(), &token).expect(&[0]);
}

#[test]
fn another_server_at_the_same_address_is_refused() {
    let mut scene = Scene::with_files(10, 500);
    scene.backup();
    scene.server.terminate().expect(&[0]);
    let impostor = Server::start_at(&scene.scratch.join("impostor"), scene.server.port());
    let tree = scene.tree.to_str().unwrap();
    scene.node.run(&["backup", tree]).expect(&[12]).says(&impostor.address());
    drop(impostor);
    scene.server.restart();
    scene.backup().counts(&[("backed_up", 0)]);
}

#[test]
fn removed_node_is_refused() {
    let scene = Scene::with_files(10, 500);
    let node = Node::enrol(&scene.server, "bert");
    scene.server.admin(&["node", "remove", "bert"]);
    let tree = scene.tree.to_str().unwrap();
    assert_refused(node.run(&["backup", tree]), "bert");
    assert_refused(node.run(&["list", tree]), "bert");
    scene.backup();
}

#[test]
fn locked_node_is_refused_until_it_is_unlocked() {
    let scene = Scene::with_files(10, 500);
    scene.backup();
    scene.server.admin(&["node", "lock", "anna"]);
    let tree = scene.tree.to_str().unwrap();
    assert_refused(scene.node.run(&["backup", tree]), "lock");
    assert_refused(scene.node.run(&["restore", tree, "--to", "/nonexistent"]), "lock");
    scene.server.admin(&["node", "unlock", "anna"]);
    scene.backup().counts(&[("backed_up", 0)]);
}

#[test]
fn node_name_is_given_once() {
    let scene = Scene::new();
    scene.server.try_admin(&["node", "add", "anna"]).expect(&[12]).says("anna");
    scene.server.try_admin(&["node", "lock", "nobody"]).expect(&[12]).says("nobody");
    scene.backup();
}

#[test]
fn second_server_on_the_same_folder_is_refused() {
    let scene = Scene::with_files(10, 500);
    let dir = scene.server.dir();
    let second = Server::try_start_at(dir, scene.server.port());
    let outcome = *second.expect_err("a second server would write over the first");
    assert_refused(outcome, dir.to_str().unwrap());
    scene.backup();
}

#[test]
fn killed_server_leaves_no_lock() {
    let mut scene = Scene::with_files(10, 500);
    scene.server.kill9();
    scene.server.restart();
    scene.backup();
}

#[test]
fn init_leaves_a_folder_with_something_in_it() {
    let scratch = Scratch::new();
    let dir = scratch.folder("full");
    fs::write(dir.join("letters"), b"mine").unwrap();
    let before = manifest(&dir);
    assert_refused(Server::init(&dir, Server::free_port()), dir.to_str().unwrap());
    assert_same(&before, &manifest(&dir));
}

#[test]
fn run_without_init_is_told_to_init() {
    let scratch = Scratch::new();
    let dir = scratch.folder("empty");
    let arguments = ["server".into(), "run".into(), dir.clone().into()];
    let program = e2e::harness::binary();
    let outcome = e2e::harness::start(&program, &arguments, &dir, None).wait();
    assert_refused(outcome, "init");
    assert!(names(&dir).is_empty(), "the command should make no file");
}

#[test]
fn read_only_target_is_named() {
    let scene = Scene::with_files(10, 500);
    scene.backup();
    let target = scene.scratch.join("read-only");
    let Some(_mount) = Tmpfs::mount(&target, "ro") else {
        e2e::skip::say("this machine cannot mount a tmpfs");
        return;
    };
    let tree = scene.tree.to_str().unwrap();
    let arguments = ["restore", tree, "--to", target.to_str().unwrap()];
    let outcome = scene.node.run(&arguments).expect(&[4, 12]).says(target.to_str().unwrap());
    let said = outcome.stderr.to_lowercase() + &outcome.stdout.to_lowercase();
    assert!(said.contains("read-only file system") || said.contains("erofs"), "{outcome}");
    assert!(
        outcome.messages().len() < 20,
        "the cause should not be repeated for each file: {outcome}"
    );
}

#[test]
fn verification_of_what_is_not_stored_is_no_success() {
    let scene = Scene::with_files(3, 10);
    scene.backup();
    let nowhere = scene.scratch.join("nowhere");
    scene
        .node
        .run(&["verify", nowhere.to_str().unwrap()])
        .expect(&[12])
        .says("nowhere");
}

#[test]
fn pseudo_file_systems_are_refused() {
    let scene = Scene::new();
    scene.node.run(&["backup", "/proc"]).expect(&[12]).says("pseudo file system");
}

/// Id of the user without any rights.
const NOBODY: u32 = 65534;

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn give_away(top: &Path) {
    chown(top, Some(NOBODY), Some(NOBODY)).unwrap();
    if top.is_dir() {
        for name in fs::read_dir(top).unwrap() {
            give_away(&name.unwrap().path());
        }
    }
}

#[test]
fn unreadable_objects_cost_only_themselves() {
    if !root_or_skip("a client of another user") {
        return;
    }
    let scene = Scene::with_files(120, 500);
    open_to_all(scene.scratch.path());
    give_away(&scene.tree);
    let node = Node::enrol_as(&scene.server, "nobody", Some(NOBODY));
    node.backup(&scene.tree, &[]).expect(&[0]);

    let (file, folder) = (scene.file(3), scene.tree.join("folder-01"));
    fs::write(&file, b"secret, and changed").unwrap();
    for (path, mode) in [(&file, 0o600), (&folder, 0o700)] {
        chown(path, Some(0), Some(0)).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::write(scene.file(4), b"changed and readable").unwrap();
    let second = node.backup(&scene.tree, &[]).expect(&[4]);
    assert_failure_of(&second, &file);
    assert_failure_of(&second, &folder);
    let second = second.counts(&[("expired", 0)]);
    assert_eq!(second.count("failed"), second.failures().len() as u64, "{second}");

    let out = scene.scratch.folder("out");
    give_away(&out);
    node.restore(&scene.tree, &out, &[]).expect(&[0, 4]);
    let restored = |name: &str| fs::read(out.join("tree").join(name)).unwrap();
    assert_eq!(restored("folder-00/file-0004"), b"changed and readable");
    assert_eq!(
        restored("folder-00/file-0003").len(),
        500,
        "the last readable version should be restored"
    );
    assert_eq!(restored("folder-01/file-0070"), fs::read(scene.file(70)).unwrap());
    assert_eq!(restored("folder-02/file-0110"), fs::read(scene.file(110)).unwrap());
}

#[test]
fn node_sees_nothing_of_another() {
    let scene = Scene::with_files(20, 500);
    scene.backup();
    let other = Node::enrol(&scene.server, "bert");
    let out = scene.scratch.folder("out");
    let restore = other.restore(&scene.tree, &out, &[]);
    assert_ne!(restore.code(), 0, "the other node has nothing to restore: {restore}");
    assert!(names(&out).is_empty(), "{:?}", names(&out));
    let tree = scene.tree.to_str().unwrap();
    for options in [&["list", tree, "--recursive", "--json"][..], &["list", "/", "--recursive"]] {
        let list = other.run(options);
        assert!(!list.stdout.contains("file-0001"), "{list}");
    }
    // Deduplication must not give access either, although both nodes have the same content.
    let copy = scene.scratch.folder("copy/tree");
    plant_files(&copy, 20, 500, 1);
    other.backup(&copy, &[]).expect(&[0]);
    assert!(!other.run(&["list", "/", "--recursive", "--inactive"]).stdout.contains(tree));
}

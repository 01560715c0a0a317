//! Bugs that are planted in a real server: a panic without a lock ends one session, a panic with a
//! lock ends the process, and nodes can work again after both.

use std::time::Duration;

use e2e::harness::{Node, Outcome};
use e2e::manifest::assert_same;

use crate::scene::{Scene, manifest};

/// Exit code of a process that a bug has ended.
const ENDED_BY_A_BUG: i32 = 70;

/// Time limit until a bug is in the audit trail.
const RECORDED_MAX: Duration = Duration::from_secs(120);

/// Makes a scene whose server panics once, at `point`.
fn with_bug(point: &str) -> Scene {
    let mut scene = Scene::with_files(40, 3000);
    scene.server.terminate().expect(&[0]);
    scene.server.set_environment(&[&format!("HOLDFAST_FAULTS={point}")]);
    scene.server.restart();
    scene
}

/// Checks that a bug at `point` ends only the session of the node that meets it. The server goes on
/// to serve another node and the next session of the same node, and the audit trail names the bug.
#[track_caller]
fn check_session(point: &str) {
    let scene = with_bug(point);
    let other = Node::enrol(&scene.server, "berta");
    let outcome = scene.node.backup(&scene.tree, &[]);
    assert!(scene.server.is_up(), "{point}: one session ended the server: {outcome}");
    other.backup(&scene.tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
    scene.backup();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("back", &[])));
    let is_recorded = || scene.server.admin(&["log"]).to_string().contains("bug of the server");
    let began = e2e::clock::now();
    while !is_recorded() {
        assert!(began.elapsed() < RECORDED_MAX, "the bug is not in the audit trail");
        e2e::clock::pause(Duration::from_millis(200));
    }
}

#[test]
fn a_bug_while_a_quantum_is_decoded_ends_one_session() {
    check_session("quantum");
}

#[test]
fn a_bug_while_a_change_is_decoded_ends_one_session() {
    check_session("change");
}

#[test]
fn a_bug_while_a_question_is_answered_ends_one_session() {
    check_session("answer");
}

/// Checks a command whose stream is cut short by a bug at `point`. The command must fail, because
/// it must not regard a part of the stream as the whole stream. The same command succeeds
/// afterwards.
#[track_caller]
fn check_stream(point: &str, command: impl Fn(&Scene) -> Outcome) {
    let mut scene = Scene::with_files(40, 3000);
    scene.backup();
    std::fs::write(scene.tree.join("new"), "new").expect("the tree can be changed");
    scene.server.terminate().expect(&[0]);
    scene.server.set_environment(&[&format!("HOLDFAST_FAULTS={point}")]);
    scene.server.restart();
    let outcome = command(&scene);
    assert_ne!(outcome.code(), 0, "{point}: {outcome}");
    outcome.says("the server failed at this request");
    assert!(scene.server.is_up(), "{point}: one stream ended the server");
    command(&scene).expect(&[0]);
}

#[test]
fn a_bug_in_the_middle_of_a_list_is_reported() {
    check_stream("list", |scene| scene.node.run(&["list", scene.tree.to_str().unwrap()]));
}

#[test]
fn a_bug_in_the_middle_of_the_digests_is_reported() {
    check_stream("digests", |scene| scene.node.backup(&scene.tree, &[]));
}

#[test]
fn a_bug_in_the_middle_of_the_pages_is_reported() {
    check_stream("page", |scene| scene.node.backup(&scene.tree, &[]));
}

#[test]
fn a_bug_while_a_message_of_a_backup_is_received_is_reported() {
    check_stream("message", |scene| scene.node.backup(&scene.tree, &["--full"]));
}

#[test]
fn a_bug_in_the_middle_of_a_restore_is_reported() {
    check_stream("restore", |scene| {
        scene.node.run(&["verify", "--data", scene.tree.to_str().unwrap()])
    });
}

/// Readers wait for a drive's thread. A panic of the thread ends the server; once a supervisor has
/// started it again, the readers are served.
#[test]
fn a_bug_of_a_drive_ends_the_server() {
    let mut scene = Scene::with_files(20, 100_000);
    scene.copy_no_catalog();
    scene.add_library("64M");
    scene.add_tape(&[]);
    scene.backup();
    scene.drain();
    scene.server.terminate().expect(&[0]);
    std::fs::remove_dir_all(scene.server.dir().join("stage")).unwrap();
    scene.server.set_environment(&["HOLDFAST_FAULTS=drive"]);
    scene.server.restart();
    assert_ne!(scene.node.verify().code(), 0, "its data is on a volume that nobody reads");
    let ended = scene.server.ends();
    assert_eq!(ended.code(), ENDED_BY_A_BUG, "{ended}");
    assert!(ended.stderr.contains("drive.rs"), "it hides where it was: {ended}");
    scene.server.set_environment(&[]);
    scene.server.restart();
    scene.node.verify().expect(&[0]);
}

/// The thread that panics holds the lock of the claims. The next thread that needs the lock ends
/// the server, which reports the place of the bug. A supervisor starts the server again, and the
/// node goes on.
#[test]
fn a_bug_while_a_lock_is_held_ends_the_server() {
    let mut scene = with_bug("claim");
    let first = scene.node.backup(&scene.tree, &[]);
    assert_ne!(first.code(), 0, "the first backup should meet the bug: {first}");
    // The next session takes the lock of the claims.
    let next = scene.node.backup(&scene.tree, &[]);
    assert_ne!(next.code(), 0, "the next backup should fail: {next}");
    let ended = scene.server.ends();
    assert_eq!(ended.code(), ENDED_BY_A_BUG, "{ended}");
    assert!(
        ended.stderr.contains("claims.rs"),
        "the server should print where the bug was: {ended}"
    );
    scene.server.set_environment(&[]);
    scene.server.restart();
    scene.backup();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("back", &[])));
}

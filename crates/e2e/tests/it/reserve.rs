//! The reserve of a full file system, and a server whose chunk index is lost.

use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::clock::pause;
use e2e::harness::{Node, Outcome, Process, Server, Tmpfs};
use e2e::manifest::assert_same;
use e2e::scratch::Scratch;

use crate::scene::{Scene, manifest, plant_files};

/// Options of a file system of which the server keeps a third free.
const SIZE: &str = "size=36m";
const RESERVE_PERCENT: u64 = 33;
const NODES: usize = 6;
/// Files of each node: more than the file system holds, even for a node whose data is alone on it.
/// A server whose pool is a bucket has nothing of the other nodes there once their packs are
/// uploaded.
const NODE_FILES: usize = 30;
const MEGABYTE: usize = 1 << 20;
/// Time limit until the server has rebuilt its index.
const REBUILT_MAX: Duration = Duration::from_secs(120);

/// Makes a scene whose server is on a small file system, with `files` of a megabyte each. `None`
/// where no file system can be mounted.
fn small_scene(files: usize) -> Option<(Scene, Tmpfs)> {
    let scratch = Scratch::new();
    let Some(mount) = Tmpfs::mount(&scratch.join("mount"), SIZE) else {
        e2e::skip::say("this machine cannot mount a tmpfs");
        return None;
    };
    let tree = scratch.folder("source/tree");
    plant_files(&tree, files, MEGABYTE, 1);
    let server = Server::start(&mount.path().join("server"));
    let node = Node::enrol(&server, "anna");
    let mut scene = Scene { server, node, scratch, tree };
    scene.configure("reserve_percent", RESERVE_PERCENT);
    scene.copy_no_catalog();
    Some((scene, mount))
}

/// Backs up more than fits from several nodes at once. Each node is told that the pool is full.
fn fill(scene: &Scene) -> Vec<Node> {
    let node = |index: usize| {
        let tree = scene.scratch.folder(&format!("large/{index}"));
        plant_files(&tree, NODE_FILES, MEGABYTE, 10 + index as u64);
        Node::enrol(&scene.server, &format!("node-{index}"))
    };
    let nodes: Vec<Node> = (0..NODES).map(node).collect();
    let begin = |(index, node): (usize, &Node)| {
        node.spawn_backup(&scene.scratch.join(&format!("large/{index}")), &[])
    };
    let running: Vec<Process> = nodes.iter().enumerate().map(begin).collect();
    for process in running {
        assert_full(process.wait());
    }
    nodes
}

#[track_caller]
fn assert_full(outcome: Outcome) {
    outcome.expect(&[12]).says("the pool in").says("is full");
}

#[test]
fn a_full_pool_refuses_every_node_and_deletion_makes_room() {
    let Some((mut scene, _mount)) = small_scene(8) else { return };
    scene.keep_only_active();
    scene.backup();
    // The restart seals the pack, so that it has no data of other nodes.
    scene.server.restart();
    let nodes = fill(&scene);
    let small = scene.scratch.folder("small");
    plant_files(&small, 3, MEGABYTE, 2);
    assert_full(nodes[0].backup(&small, &[]));

    // The stored data stays readable, also for a server that starts on a full disk.
    scene.server.restart();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("full", &[])));

    // One file stays, so that the pack has to be written again before it can be removed.
    (1..8).for_each(|index| fs::remove_file(scene.file(index)).unwrap());
    let removed = scene.node.backup(&scene.tree, &["--confirm"]);
    removed.expect(&[0]).counts(&[("expired", 7), ("failed", 0)]);
    scene.server.admin(&["expire"]);
    let reclaimed = scene.server.admin(&["reclaim"]);
    assert!(reclaimed["packs_rewritten"].as_u64() >= Some(1), "{reclaimed}");
    assert!(reclaimed["packs_removed"].as_u64() >= Some(1), "{reclaimed}");
    nodes[0].backup(&small, &[]).expect(&[0]).counts(&[("failed", 0)]);
    scene.server.restart();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("emptied", &[])));
    let out = scene.scratch.folder("small-out");
    nodes[0].restore(&small, &out, &[]).expect(&[0]);
    assert_same(&manifest(&small), &manifest(&out.join("small")));
}

/// Returns true once the audit trail has an event of this kind.
fn has_event(scene: &Scene, what: &str) -> bool {
    scene.server.admin(&["log"]).to_string().contains(what)
}

#[track_caller]
fn await_event(scene: &Scene, what: &str) {
    let began = e2e::clock::now();
    while !has_event(scene, what) {
        assert!(began.elapsed() < REBUILT_MAX, "the audit trail does not say: {what}");
        pause(Duration::from_millis(100));
    }
}

/// Returns the number of events of this kind.
fn count_events(scene: &Scene, what: &str) -> usize {
    let events = scene.server.admin(&["log"]);
    let events = events.as_array().expect("a list of events");
    events.iter().filter(|event| event["what"] == what).count()
}

#[test]
fn the_log_says_once_that_pools_are_full_and_once_that_they_have_room() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(8, MEGABYTE);
    scene.copy_no_catalog();
    scene.server.admin(&["pool", "set", "PRIMARY", "--capacity", "4M"]);
    assert_full(scene.node.backup(&scene.tree, &[]));
    await_event(&scene, "pools full");
    let servers = scene.server.try_admin(&["servers"]).expect(&[8]).json();
    assert_eq!(servers["refuses_data"], true, "{servers}");
    scene.server.try_admin(&["pool", "list"]).expect(&[8]);
    assert_full(scene.node.backup(&scene.tree, &[]));
    scene.server.admin(&["pool", "set", "PRIMARY", "--capacity", "0"]);
    await_event(&scene, "pools have room");
    assert_eq!(scene.server.admin(&["servers"])["refuses_data"], false);
    scene.server.try_admin(&["pool", "list"]).expect(&[0]);
    scene.backup();
    for what in ["pools full", "pools have room"] {
        assert_eq!(count_events(&scene, what), 1, "{what}");
    }
}

fn replace_by_file(folder: &Path) {
    fs::remove_dir_all(folder).unwrap();
    fs::write(folder, "not a folder").unwrap();
}

#[test]
fn a_server_without_its_index_restores_and_backs_up_and_rebuilds_it() {
    let mut scene = Scene::with_files(20, 100_000);
    scene.backup();
    scene.server.terminate().expect(&[0]);
    let index = scene.server.dir().join("index");
    replace_by_file(&index);
    scene.server.restart();
    await_event(&scene, "chunk index lost");
    let servers = scene.server.try_admin(&["servers"]).expect(&[8]).json();
    assert_eq!(servers["lacks_index"], true, "{servers}");
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("without", &[])));
    assert!(!scene.node.list(&scene.tree, &[]).is_empty());
    fs::write(scene.tree.join("new"), "new").unwrap();
    scene.backup();
    fs::remove_file(&index).unwrap();
    await_event(&scene, "chunk index rebuilt");
    let servers = scene.server.admin(&["servers"]);
    assert_eq!(servers["lacks_index"], false, "{servers}");
    // The rebuilt index knows all data: another node stores nothing anew.
    let before = scene.pool("PRIMARY")["bytes"].as_u64().unwrap();
    let other = Node::enrol(&scene.server, "berta");
    other.backup(&scene.tree, &[]).expect(&[0]);
    let after = scene.pool("PRIMARY")["bytes"].as_u64().unwrap();
    assert!(after < before + 100_000, "{before} bytes grew to {after}");
    scene.server.restart();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("with", &[])));
}

/// A write that fails leaves a pack without a footer. The audit said of it that it has no trailer.
#[test]
fn a_pack_of_which_a_write_failed_is_closed_and_not_damaged() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(20, 100_000);
    scene.backup();
    let mark = scene.primary().join("holdfast-pool");
    let aside = scene.scratch.join("mark");
    // Without its mark, the pool counts as not mounted, and its open pack as failed.
    fs::rename(&mark, &aside).unwrap();
    let away = scene.server.try_admin(&["audit"]).expect(&[8]).json();
    assert_eq!(away["pools_away"], serde_json::json!(["PRIMARY"]), "{away}");
    fs::rename(&aside, &mark).unwrap();
    let audit = scene.server.try_admin(&["audit", "--data"]).expect(&[0]).json();
    assert_eq!(audit["damages"], serde_json::json!([]), "{audit}");
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("closed", &[])));
    scene.server.restart();
    scene.server.try_admin(&["audit", "--data"]).expect(&[0]);
    scene.backup().counts(&[("backed_up", 0)]);
}

#[test]
fn an_error_of_a_disk_is_logged_counted_and_shown() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(20, 100_000);
    scene.copy_no_catalog();
    scene.backup();
    scene.server.restart();
    assert_eq!(scene.server.admin(&["servers"])["disk_errors"], 0);
    let pack = scene.primary().join("0000000/0000000001.pack");
    fs::remove_file(&pack).unwrap();
    fs::create_dir(&pack).unwrap();
    let out = scene.scratch.folder("unread");
    scene.node.restore(&scene.tree, &out, &[]).expect(&[4]);
    scene.server.try_admin(&["audit"]).expect(&[4]);
    scene.server.try_admin(&["reclaim"]).expect(&[8]).says("packs_unread");
    let servers = scene.server.try_admin(&["servers"]).expect(&[8]).json();
    assert!(servers["disk_errors"].as_u64() > Some(0), "{servers}");
    let last = servers["last_disk_error"].as_str().unwrap();
    assert!(last.contains("0000000001.pack"), "{servers}");
    assert!(scene.pool("PRIMARY")["disk_errors"].as_u64() > Some(0));
    await_event(&scene, "disk error");
    let log = scene.server.terminate().expect(&[0]).stderr;
    let line = log.lines().find(|line| line.contains("a disk error"));
    assert!(line.is_some_and(|line| line.contains("0000000001.pack")), "{log}");
}

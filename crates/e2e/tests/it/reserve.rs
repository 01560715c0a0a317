//! The reserve of a full file system.

use std::fs;

use e2e::harness::{Node, Outcome, Process, Server, Tmpfs};
use e2e::manifest::assert_same;
use e2e::scratch::Scratch;

use crate::scene::{Scene, manifest, plant_files};

/// Options of a file system of which the server keeps a third free.
const SIZE: &str = "size=36m";
const RESERVE_PERCENT: u64 = 33;
const NODES: usize = 6;
const MEGABYTE: usize = 1 << 20;

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
        plant_files(&tree, 18, MEGABYTE, 10 + index as u64);
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

    // What is there stays readable, also for a server that starts on a full disk.
    scene.server.restart();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("full", &[])));

    // One file stays, so that the pack has to be written again before it can be removed.
    (1..8).for_each(|index| fs::remove_file(scene.file(index)).unwrap());
    let removed = scene.node.backup(&scene.tree, &["--confirm-expire"]);
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

//! Trees that change during a backup, and several nodes at once.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use e2e::harness::Node;
use e2e::manifest::assert_same;
use e2e::nasty::Random;
use e2e::scratch::Scratch;

use crate::scene::{Scene, file_name, manifest, plant_files};

const FILES: u32 = 800;

/// Guard that sets the flag when it is dropped, so that a failing test does not wait for its thread
/// for ever.
struct StopGuard<'a>(&'a AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Appends to, cuts, removes, makes and renames files until `stop` is set. Returns the number of
/// changes.
fn mutate(tree: &Path, stop: &AtomicBool) -> usize {
    let mut random = Random::new(9, b"mutations");
    let mut changes = 0;
    while !stop.load(Ordering::Relaxed) {
        let path = tree.join(file_name(random.below(FILES) as usize));
        let bytes = 1 + random.below(5000) as usize;
        // An earlier change may have removed the object, so errors are ignored.
        let changed = match random.below(6) {
            0 | 1 => append(&path, &random.bytes(bytes)),
            2 => fs::File::options().write(true).open(&path).and_then(|file| file.set_len(7)),
            3 => fs::remove_file(&path),
            4 => fs::write(&path, random.bytes(bytes)),
            _ => fs::rename(&path, path.with_extension("renamed")),
        };
        changes += usize::from(changed.is_ok());
    }
    changes
}

fn append(path: &Path, content: &[u8]) -> std::io::Result<()> {
    fs::File::options().append(true).open(path)?.write_all(content)
}

#[test]
fn changing_files_cost_at_most_themselves() {
    let scene = Scene::with_files(FILES as usize, 4000);
    fs::write(scene.tree.join("large"), Random::new(3, b"large").bytes(8 << 20)).unwrap();
    for _ in 0..3 {
        let stop = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let mutation = scope.spawn(|| mutate(&scene.tree, &stop));
            let stopper = StopGuard(&stop);
            let outcome = scene.node.backup(&scene.tree, &["--confirm"]);
            drop(stopper);
            assert!(mutation.join().unwrap() > 10, "the tree should change during the run");
            outcome
        });
        let outcome = outcome.expect(&[0, 4]);
        assert_eq!(outcome.code() == 4, outcome.count("failed") > 0, "{outcome}");
    }
    scene
        .node
        .backup(&scene.tree, &["--confirm"])
        .expect(&[0])
        .counts(&[("failed", 0)]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

#[test]
fn file_that_always_grows_does_not_hold_up_the_run() {
    let scene = Scene::with_files(20, 1000);
    let log = scene.tree.join("log");
    fs::write(&log, Random::new(4, b"log").bytes(1 << 20)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                append(&log, b"one more line\n").unwrap();
            }
        });
        let stopper = StopGuard(&stop);
        let outcome = scene.node.backup(&scene.tree, &[]);
        drop(stopper);
        let outcome = outcome.expect(&[0, 4]);
        let failures = outcome.failures();
        assert!(failures.iter().all(|(path, _)| path.ends_with(b"/log")), "{outcome}");
    });
    scene.backup();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

#[test]
fn four_nodes_at_once_get_each_their_own_back() {
    let scene = Scene::new();
    let scratch = Scratch::new();
    let nodes: Vec<(Node, PathBuf)> = (0..4)
        .map(|index| {
            let tree = scratch.folder(&format!("source-{index}/tree"));
            plant_files(&tree, 300, 3000, index);
            // Half of the files are equal on all nodes, and are to be stored once.
            plant_files(&tree.join("shared"), 300, 3000, 1000);
            (Node::enrol(&scene.server, &format!("node-{index}")), tree)
        })
        .collect();
    std::thread::scope(|scope| {
        for (node, tree) in &nodes {
            scope.spawn(move || node.backup(tree, &[]).expect(&[0]).counts(&[("failed", 0)]));
        }
    });
    std::thread::scope(|scope| {
        for (node, tree) in &nodes {
            let out = scratch.folder(&format!("out-{}", node.name));
            scope.spawn(move || {
                node.restore(tree, &out, &[]).expect(&[0]);
                assert_same(&manifest(tree), &manifest(&out.join("tree")));
            });
        }
    });
}

#[test]
fn two_backups_of_one_node_at_once_lose_nothing() {
    let scene = Scene::with_files(400, 3000);
    let running = scene.node.spawn_backup(&scene.tree, &[]);
    // The second backup may be refused while the first is running, but must not harm it.
    scene.node.backup(&scene.tree, &[]).expect(&[0, 4, 8, 12]);
    running.wait().expect(&[0, 4, 8, 12]);
    scene.backup();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

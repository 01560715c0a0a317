//! Full file systems, at the server and at the node.

use std::ffi::OsString;
use std::fs;

use e2e::harness::{Node, Outcome, Server, Tmpfs, binary, start};
use e2e::manifest::assert_same;
use e2e::scratch::Scratch;

use crate::scene::{Scene, file_name, manifest, plant_files};

#[track_caller]
fn assert_names_no_space(outcome: &Outcome) {
    let said = outcome.stderr.to_lowercase() + &outcome.stdout.to_lowercase();
    let names_it = ["no space", "full", "enospc"].iter().any(|words| said.contains(words));
    assert!(names_it, "the output should say that there is no space: {outcome}");
}

#[test]
fn full_server_refuses_and_keeps_what_it_has() {
    let scratch = Scratch::new();
    let Some(mount) = Tmpfs::mount(&scratch.join("mount"), "size=24m") else {
        e2e::skip::say("this machine cannot mount a tmpfs");
        return;
    };
    let mut server = Server::start(&mount.path().join("server"));
    let node = Node::enrol(&server, "anna");
    let (small, large) = (scratch.folder("small"), scratch.folder("large"));
    plant_files(&small, 100, 10_000, 1);
    plant_files(&large, 40, 1 << 20, 2);
    node.backup(&small, &[]).expect(&[0]);

    let full = node.backup(&large, &[]).expect(&[4, 8, 12]);
    assert_names_no_space(&full);
    if !server.is_up() {
        server.kill9();
    }
    server.restart();
    let out = scratch.folder("out");
    node.restore(&small, &out, &[]).expect(&[0]);
    assert_same(&manifest(&small), &manifest(&out.join("small")));
    node.verify().expect(&[0]);

    // With room again, the next run completes the objects that could not be stored.
    mount.remount("size=120m");
    server.restart();
    node.backup(&large, &[]).expect(&[0]).counts(&[("failed", 0)]);
    node.restore(&large, &out, &[]).expect(&[0]);
    assert_same(&manifest(&large), &manifest(&out.join("large")));
}

/// The folder had keys and a part of the catalogue, and the next try called it not empty.
#[test]
fn a_server_that_cannot_be_made_leaves_its_folder_empty() {
    let scratch = Scratch::new();
    let Some(mount) = Tmpfs::mount(&scratch.join("mount"), "size=200k") else {
        e2e::skip::say("this machine cannot mount a tmpfs");
        return;
    };
    let folder = mount.path().join("server");
    let init = || {
        let words = ["server", "init", folder.to_str().unwrap(), "--listen", "127.0.0.1:0"];
        start(&binary(), &words.map(OsString::from), mount.path(), None).wait()
    };
    assert_names_no_space(&init().expect(&[12]));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    mount.remount("size=24m");
    init().expect(&[0]);
}

#[test]
fn full_target_leaves_no_wrong_file() {
    const FILES: usize = 12;
    let scene = Scene::with_files(FILES, 1 << 20);
    scene.backup();
    let Some(mount) = Tmpfs::mount(&scene.scratch.join("mount"), "size=6m") else {
        e2e::skip::say("this machine cannot mount a tmpfs");
        return;
    };
    let full = scene.node.restore(&scene.tree, mount.path(), &[]).expect(&[4, 12]);
    assert_names_no_space(&full);
    let restored = mount.path().join("tree");
    for index in 0..FILES {
        if let Ok(content) = fs::read(restored.join(file_name(index))) {
            let source = fs::read(scene.file(index)).unwrap();
            assert!(content == source, "{} is cut off: {full}", file_name(index));
        }
    }
    mount.remount("size=64m");
    scene
        .node
        .restore(&scene.tree, mount.path(), &[])
        .expect(&[0])
        .counts(&[("failed", 0)]);
    assert_same(&manifest(&scene.tree), &manifest(&restored));
}

//! Reclamation frees space, and removes nothing that is needed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use e2e::harness::{Node, Outcome};
use e2e::manifest::assert_same;
use e2e::nasty::Random;

use crate::scene::{Scene, file_name, manifest, plant_files, root_or_skip};

/// Returns the number of bytes in the files below `folder`.
fn pool_bytes(folder: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        bytes +=
            if kind.is_dir() { pool_bytes(&entry.path()) } else { entry.metadata().unwrap().len() };
    }
    bytes
}

#[test]
fn what_is_refused_and_what_is_gone_may_be_of_one_directory() {
    let mut scene = Scene::with_files(20, 100);
    scene.keep_only_active();
    let [again, gone] = ["again", "gone"].map(|name| scene.tree.join(name));
    let content = Random::new(8, b"reclaim").bytes(2_000_001);
    fs::write(&gone, b"gone").unwrap();
    fs::write(&again, &content).unwrap();
    scene.backup();
    fs::remove_file(&again).unwrap();
    scene.backup();
    scene.server.admin(&["expire"]);
    scene.server.restart();
    assert!(scene.server.admin(&["reclaim"])["packs_removed"].as_u64().unwrap() > 0);
    // The node holds grants for chunks that the server no longer has.
    fs::write(&again, &content).unwrap();
    fs::remove_file(&gone).unwrap();
    let done = scene.backup().json();
    let told = ["retries", "expired", "failed"].map(|name| done[name].as_u64().unwrap());
    assert_eq!(told, [1, 1, 0], "{done}");
    scene.backup().counts(&[("backed_up", 0), ("updated", 0)]);
    let restored = scene.restore("out", &[]);
    assert_same(&manifest(&scene.tree), &manifest(&restored));
}

#[test]
fn space_comes_back_once_nothing_needs_it() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(200, 40_000);
    scene.backup();
    // Only sealed packs are reclaimed. A restart seals them.
    scene.server.restart();
    let pool = scene.server.dir().join("pool");
    let before = pool_bytes(&pool);
    for index in 0..200 {
        if index % 4 > 0 {
            fs::remove_file(scene.file(index)).unwrap();
        }
    }
    scene.node.backup(&scene.tree, &["--confirm"]).expect(&[0]);
    let kept = scene.server.admin(&["reclaim"]);
    assert_eq!(kept["packs_removed"], 0, "inactive versions still need their data: {kept}");
    scene.keep_only_active();
    scene.server.admin(&["expire"]);
    let dry = scene.server.admin(&["reclaim", "--dry-run"]);
    assert!(dry["dead_bytes"].as_u64().unwrap() >= 150 * 40_000, "{dry}");
    assert_eq!(pool_bytes(&pool), before);
    let done = scene.server.admin(&["reclaim"]);
    assert_eq!((&done["packs_rewritten"], &done["packs_removed"]), (&1.into(), &1.into()));
    assert!(pool_bytes(&pool) < before / 3, "{} of {before}", pool_bytes(&pool));
    scene.node.verify().expect(&[0]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
    // The node's grants are for places that no longer exist. No object fails, because the server
    // finds the data.
    let again = scene.node.backup(&scene.tree, &["--full"]).expect(&[0]);
    again.counts(&[("failed", 0)]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("again", &[])));
    let events = scene.server.admin(&["log"]);
    assert_eq!(events[0]["what"], "space reclaimed");
}

/// Returns lines of a log, of which a high level of zstd makes less.
fn log_lines(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(seed, b"log");
    let mut lines = Vec::with_capacity(bytes + 100);
    while lines.len() < bytes {
        let (user, path, took) = (random.below(500), random.below(3000), random.below(100_000));
        let line = format!("GET /files/{path}/of/user-{user} took {took} us\n");
        lines.extend_from_slice(line.as_bytes());
    }
    lines
}

#[test]
fn what_is_written_again_may_be_compressed_harder() {
    let mut scene = Scene::with_files(8, 300_000);
    scene.keep_only_active();
    for number in 0..4 {
        fs::write(scene.tree.join(format!("log-{number}")), log_lines(number, 700_000)).unwrap();
    }
    scene.backup();
    // Only sealed packs are reclaimed. A restart seals them.
    scene.server.restart();
    (0..6).for_each(|index| fs::remove_file(scene.file(index)).unwrap());
    scene.node.backup(&scene.tree, &["--confirm"]).expect(&[0]);
    scene.server.admin(&["expire"]);
    for refused in ["0", "none", "-1", "20"] {
        scene.server.try_admin(&["reclaim", "--recompress", refused]).expect(&[12]);
    }
    let words = ["reclaim", "--dead-percent", "10", "--recompress", "19"];
    let done = scene.server.admin(&words);
    assert_eq!(
        (&done["packs_rewritten"], &done["packs_removed"]),
        (&1.into(), &1.into()),
        "{done}"
    );
    let effect = &done["recompression"];
    let [before, after] =
        ["bytes_before", "bytes_after"].map(|name| effect[name].as_u64().unwrap());
    assert_eq!(effect["effort"], "19", "{done}");
    assert!(0 < after && after < before, "{done}");
    scene.server.admin(&["audit", "--data"]);
    scene.node.verify().expect(&[0]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
    assert_eq!(scene.server.admin(&["reclaim"])["recompression"], serde_json::Value::Null);
}

#[test]
fn what_is_drained_to_volumes_may_be_compressed_harder() {
    let mut scene = Scene::with_files(2, 300_000);
    scene.copy_no_catalog();
    for number in 0..4 {
        fs::write(scene.tree.join(format!("log-{number}")), log_lines(number, 700_000)).unwrap();
    }
    scene.backup();
    // A backup that has ended may still have an open pack. A restart seals it.
    scene.server.restart();
    scene.add_library("20M");
    scene.add_tape(&[]);
    let drain = ["pool", "drain", "PRIMARY", "--all", "--recompress"];
    scene.server.try_admin(&[&drain[..], &["0"]].concat()).expect(&[12]);
    let done = scene.server.admin(&[&drain[..], &["19"]].concat());
    let effect = &done["recompression"];
    let [before, after] =
        ["bytes_before", "bytes_after"].map(|name| effect[name].as_u64().unwrap());
    assert!(0 < after && after < before, "{done}");
    assert_eq!((&done["packs_done"], &done["packs_unchanged"]), (&1.into(), &0.into()), "{done}");
    let volumes = scene.server.try_admin(&["volume", "list"]).expect(&[0]).json_lines();
    let written: u64 = volumes.iter().filter_map(|row| row["written_bytes"].as_u64()).sum();
    assert!(after < written && written < before, "{done}, {volumes:?}");
    scene.node.verify().expect(&[0]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
    let again = scene.node.backup(&scene.tree, &["--full"]).expect(&[0]);
    again.counts(&[("failed", 0)]);
}

/// Makes a file immutable, or ends that. Returns false if its file system knows no such flag.
fn set_immutable(path: &Path, is_immutable: bool) -> bool {
    let change = if is_immutable { "+i" } else { "-i" };
    let mut command = Command::new("chattr");
    command.arg(change).arg(path).output().is_ok_and(|done| done.status.success())
}

/// Regression: one pack that could not be removed ended each reclamation before the packs after it.
#[test]
fn a_pack_that_cannot_be_removed_stops_no_other() {
    if !e2e::harness::is_in_folders() || !root_or_skip("an immutable file") {
        return;
    }
    let mut scene = Scene::with_files(1, 100);
    scene.copy_no_catalog();
    scene.keep_only_active();
    for number in 0..3 {
        plant_files(&scene.tree.join(format!("set-{number}")), 4, 300_000, number);
        scene.backup();
        scene.server.restart();
    }
    let first = scene.server.dir().join("pool/0000000/0000000001.pack");
    assert!(first.is_file(), "the first pack");
    if !set_immutable(&first, true) {
        return eprintln!("left out: the file system of the tests has no immutable files");
    }
    for number in 0..3 {
        fs::remove_dir_all(scene.tree.join(format!("set-{number}"))).unwrap();
    }
    scene.node.backup(&scene.tree, &["--confirm"]).expect(&[0]);
    scene.server.admin(&["expire"]);
    let stuck = scene.server.try_admin(&["reclaim"]).expect(&[8]).json();
    assert_eq!((&stuck["packs_stuck"], &stuck["packs_removed"]), (&1.into(), &2.into()), "{stuck}");
    assert!(set_immutable(&first, false));
    let done = scene.server.admin(&["reclaim"]);
    assert_eq!((&done["packs_stuck"], &done["packs_removed"]), (&0.into(), &1.into()), "{done}");
    assert!(first.symlink_metadata().is_err());
}

#[test]
fn the_trash_is_not_reclaimed() {
    let mut scene = Scene::with_files(30, 40_000);
    let file = scene.file(3);
    let content = fs::read(&file).unwrap();
    scene.backup();
    scene.server.restart();
    scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    let words = ["delete", scene.tree.to_str().unwrap(), "--json"];
    let number = scene.node.run(&words).expect(&[0]).json()["deletion"].to_string();
    let kept = scene.server.admin(&["reclaim"]);
    assert_eq!(kept["packs_removed"], 0, "{kept}");
    scene.node.run(&["undelete", &number, "--json"]).expect(&[0]);
    let out = scene.scratch.folder("out");
    scene.node.restore(&file, &out, &["--inactive"]).expect(&[0]);
    assert!(fs::read(out.join(file.file_name().unwrap())).unwrap() == content);
    scene.node.run(&words).expect(&[0]);
    scene.server.travel("9d");
    scene.server.admin(&["expire"]);
    let done = scene.server.admin(&["reclaim"]);
    assert!(done["packs_removed"].as_u64().unwrap() >= 1, "{done}");
}

/// Checks the exit code of a command during which the server may have been killed.
fn allow_interruption(outcome: &Outcome) {
    assert!(matches!(outcome.code(), 0 | 4 | 8 | 12), "{outcome}");
}

#[test]
fn nothing_is_lost_while_everything_goes_on_and_the_server_is_killed() {
    let scene = Scene::with_files(120, 20_000);
    scene.backup();
    scene.keep_only_active();
    let Scene { mut server, node, scratch, tree } = scene;
    let second = Node::enrol(&server, "bert");
    let other = scratch.folder("source/other");
    plant_files(&other, 60, 20_000, 7);
    let mut random = Random::new(11, b"reclaim");
    for round in 0..4 {
        let stop = AtomicBool::new(false);
        let change_and_back_up = || {
            let mut random = Random::new(round, b"changes");
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..20 {
                    let file = tree.join(file_name(random.below(120) as usize));
                    fs::write(file, random.bytes(20_000)).unwrap();
                }
                allow_interruption(&node.backup(&tree, &[]));
            }
        };
        let back_up_and_restore = || {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                count += 1;
                allow_interruption(&second.backup(&other, &[]));
                let out = scratch.folder(&format!("r{round}-{count}"));
                let outcome = second.restore(&other, &out, &[]);
                allow_interruption(&outcome);
                if outcome.code() == 0 {
                    assert_same(&manifest(&other), &manifest(&out.join("other")));
                }
            }
        };
        std::thread::scope(|scope| {
            let changing = scope.spawn(change_and_back_up);
            let restoring = scope.spawn(back_up_and_restore);
            for _ in 0..6 {
                allow_interruption(&server.try_admin(&["expire"]));
                allow_interruption(&server.try_admin(&["reclaim", "--dead-percent", "20"]));
                if random.below(2) == 0 {
                    server.kill9();
                    server.restart();
                }
            }
            stop.store(true, Ordering::Relaxed);
            changing.join().unwrap();
            restoring.join().unwrap();
        });
        node.backup(&tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
        node.verify().expect(&[0]);
        second.verify().expect(&[0]);
        let out = scratch.folder(&format!("out{round}"));
        node.restore(&tree, &out, &[]).expect(&[0]).counts(&[("failed", 0)]);
        assert_same(&manifest(&tree), &manifest(&out.join("tree")));
    }
}

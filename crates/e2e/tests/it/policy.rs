//! Versions that policy keeps, the time for which it keeps them, and the ways in which an
//! administrator changes policy.

use std::fs;
use std::path::Path;

use e2e::harness::{Node, Outcome, Server};
use serde_json::Value;

use crate::scene::{Scene, plant_files};

/// Runs a `policy` command that edits the draft, and activates it.
#[track_caller]
fn set_policy(server: &Server, arguments: &[&str]) {
    server.admin(&[&["policy"], arguments].concat());
    server.admin(&["policy", "activate"]);
}

/// Runs expiration. The number of expired versions is not checked, because it depends on changes by
/// other programs in the directories above the tree.
#[track_caller]
fn expire(server: &Server) {
    server.admin(&["expire"])["expired"].as_u64().expect("a count");
}

/// The states of a file's versions, newest first, as in `AII`.
#[track_caller]
fn states(node: &Node, path: &Path) -> String {
    let rows = node.list(path, &["--inactive"]);
    rows.iter().map(|row| row["state"].as_str().expect("a state")).collect()
}

#[track_caller]
fn write_and_back_up(scene: &Scene, name: &str, content: &str) {
    fs::write(scene.tree.join(name), content).unwrap();
    scene.backup();
}

#[test]
fn a_file_goes_through_its_life_across_the_limits() {
    let mut scene = Scene::new();
    let file = scene.tree.join("file");
    let travel = |scene: &mut Scene, ahead: &str, expected: &str| {
        scene.server.travel(ahead);
        expire(&scene.server);
        assert_eq!(states(&scene.node, &file), expected, "{ahead}");
    };
    // The rules of a new server are in force: 30 days for extra versions, 60 for the last.
    write_and_back_up(&scene, "file", "one");
    write_and_back_up(&scene, "file", "second");
    assert_eq!(states(&scene.node, &file), "AI");
    travel(&mut scene, "29d", "AI");
    travel(&mut scene, "31d", "A");

    fs::remove_file(&file).unwrap();
    scene.backup();
    assert_eq!(states(&scene.node, &file), "I");
    // The last version of a deleted file is kept for longer. Once the file exists again, the
    // version counts as an extra version, and is too old to be kept.
    travel(&mut scene, "90d", "I");
    write_and_back_up(&scene, "file", "again");
    assert_eq!(states(&scene.node, &file), "AI");
    expire(&scene.server);
    assert_eq!(states(&scene.node, &file), "A");

    fs::remove_file(&file).unwrap();
    scene.backup();
    travel(&mut scene, "149d", "I");
    scene.server.travel("151d");
    expire(&scene.server);
    scene.node.run(&["list", file.to_str().unwrap(), "--inactive"]).expect(&[12]);
}

#[test]
fn versions_are_limited_by_number_too() {
    let scene = Scene::new();
    set_policy(&scene.server, &["class", "STANDARD", "--verexists", "3", "--verdeleted", "1"]);
    for content in ["1", "22", "333", "4444", "55555"] {
        write_and_back_up(&scene, "file", content);
    }
    let file = scene.tree.join("file");
    assert_eq!(states(&scene.node, &file), "AIIII");
    expire(&scene.server);
    assert_eq!(states(&scene.node, &file), "AII");
    fs::remove_file(&file).unwrap();
    scene.backup();
    expire(&scene.server);
    assert_eq!(states(&scene.node, &file), "I");
}

#[test]
fn a_draft_is_simulated_and_activated_only_on_purpose() {
    let scene = Scene::new();
    for round in 1..=5 {
        plant_files(&scene.tree, 30, 100 * round, round as u64);
        scene.backup();
    }
    let refused = scene.server.try_admin(&["policy", "simulate"]).expect(&[12]);
    refused.says("no draft");
    let edit = ["policy", "class", "STANDARD", "--verexists", "2"];
    let review = scene.server.admin(&edit);
    assert_eq!(review["differences"][0]["what"], "VEREXISTS");
    assert!(review["differences"][0]["from"].is_null(), "{review}");
    assert_eq!(review["differences"][0]["to"], 2);
    assert_eq!(review["differences"][0]["keeps_less"], true);
    // A draft changes nothing.
    assert_eq!(scene.server.admin(&["expire"])["expired"], 0);
    let predicted = scene.server.admin(&["policy", "simulate"]);
    // Directories above the tree may have changed as well.
    assert!(predicted["expired"].as_u64().unwrap() >= 90, "{predicted}");
    assert_eq!(predicted["expired_bytes"], 30 * (100 + 200 + 300));
    assert_eq!(predicted["nodes"], 1);
    // Three quarters of the inactive versions would expire, so the activation needs a confirmation.
    let refused = scene.server.try_admin(&["policy", "activate"]).expect(&[12]);
    refused.says("inactive versions").says("--confirm");
    scene.server.admin(&["policy", "activate", "--confirm"]);
    let counted = scene.server.admin(&["expire", "--dry-run"]);
    assert_eq!(counted["expired"], predicted["expired"]);
    let done = scene.server.admin(&["expire"]);
    assert_eq!(done["expired"], predicted["expired"]);
    assert_eq!(done["expired_bytes"], predicted["expired_bytes"]);
    assert_eq!(scene.server.admin(&["expire"])["expired"], 0);
    let events = scene.server.admin(&["log"]);
    let whats: Vec<&str> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["what"].as_str().unwrap())
        .collect();
    assert_eq!(whats, ["versions expired", "policy activated", "node enrolled", "node added"]);
    scene.node.verify().expect(&[0]);
}

#[test]
fn a_locked_class_cannot_be_shortened_by_anybody() {
    let scene = Scene::new();
    let lock = ["class", "STANDARD", "--retextra", "100", "--lock-until", "2099-01-01"];
    set_policy(&scene.server, &lock);
    scene.backup();
    let refuse = |arguments: &[&str], word: &str| {
        scene.server.admin(&[&["policy"], arguments].concat());
        let refused = scene.server.try_admin(&["policy", "activate", "--confirm"]).expect(&[12]);
        refused.says("locked until 2099-01-01").says(word);
        scene.server.admin(&["policy", "discard"]);
    };
    refuse(&["class", "STANDARD", "--retextra", "99"], "RETEXTRA");
    refuse(&["class", "STANDARD", "--verexists", "9"], "VEREXISTS");
    refuse(&["class", "STANDARD", "--no-backup"], "VEREXISTS");
    refuse(&["class", "STANDARD", "--lock-until", "2098-01-01"], "lock");
    set_policy(&scene.server, &["class", "STANDARD", "--retextra", "NOLIMIT"]);
    let remove = ["node", "remove", "anna", "--confirm"];
    scene.server.try_admin(&remove).expect(&[12]).says("locked until 2099-01-01");
    scene.server.admin(&["domain", "add", "OTHER"]);
    let moved = scene.server.try_admin(&["node", "set", "anna", "--domain", "OTHER"]);
    moved.expect(&[12]).says("locked until 2099-01-01");
}

#[test]
fn what_a_locked_class_holds_stays_whatever_it_is_bound_to_since() {
    let mut scene = Scene::with_files(3, 100);
    set_policy(
        &scene.server,
        &["class", "STANDARD", "--retextra", "100", "--lock-until", "2099-01-01"],
    );
    scene.backup();
    let none = ["--verexists", "1", "--verdeleted", "0", "--retextra", "0", "--retonly", "0"];
    set_policy(&scene.server, &[&["class", "SHORT"], &none[..]].concat());
    let list = scene.scratch.join("rules");
    fs::write(&list, "include /.../* SHORT\n").unwrap();
    let rules = ["--inclexcl", list.to_str().unwrap()];
    fs::write(scene.file(0), "changed").unwrap();
    scene.node.backup(&scene.tree, &rules).expect(&[0]);
    fs::remove_file(scene.file(1)).unwrap();
    fs::write(scene.file(0), "changed again").unwrap();
    scene
        .node
        .backup(&scene.tree, &[&rules[..], &["--confirm"]].concat())
        .expect(&[0]);
    scene.server.travel("40d");
    scene.server.admin(&["expire", "--all"]);
    let states = |index: usize| {
        let rows = scene.node.list(&scene.file(index), &["--inactive"]);
        rows.iter()
            .map(|row| row["state"].as_str().unwrap().to_owned())
            .collect::<String>()
    };
    // SHORT has dropped the middle state of the first file. The states of the locked class are
    // kept.
    assert_eq!([states(0), states(1), states(2)], ["AI", "I", "A"]);
    let class = &scene.node.list(&scene.file(2), &[])[0]["mgmt_class"];
    assert_eq!(class, "STANDARD", "the file should not be rebound while the class is locked");
    scene.server.travel("110d");
    scene.server.admin(&["expire", "--all"]);
    assert_eq!(scene.node.list(&scene.file(0), &["--inactive"]).len(), 1);
}

#[test]
fn nonsense_is_refused_and_named() {
    let scene = Scene::new();
    let refuse = |arguments: &[&str], words: &[&str]| {
        let mut refused = scene.server.try_admin(arguments).expect(&[12]);
        for word in words {
            refused = refused.says(word);
        }
    };
    refuse(&["policy", "class", "STANDARD", "--retextra", "30001"], &["--retextra", "30000"]);
    refuse(&["policy", "class", "STANDARD", "--mode", "often"], &["MODE", "modified, absolute"]);
    refuse(&["policy", "class", "A/B"], &["A/B"]);
    refuse(&["policy", "class", "STANDARD", "--lock-until", "2001-01-01"], &["future"]);
    refuse(&["policy", "default", "NONE"], &["NONE", "STANDARD"]);
    refuse(&["policy", "--domain", "NONE", "show"], &["NONE", "domain list"]);
    refuse(&["node", "set", "anna", "--domain", "NONE"], &["NONE"]);
    refuse(&["node", "set", "anna", "--optionset", "NONE"], &["option set"]);
    refuse(&["domain", "remove", "STANDARD"], &["STANDARD"]);
    refuse(&["expire", "--node", "nobody"], &["nobody"]);
    scene.server.admin(&["policy", "remove-class", "STANDARD"]);
    refuse(&["policy", "activate"], &["no class"]);
}

#[test]
fn files_follow_their_class_when_it_changes() {
    let scene = Scene::new();
    let edits: [&[&str]; 2] = [&["--verexists", "1"], &[]];
    set_policy(&scene.server, &[&["class", "SHORT"], edits[0]].concat());
    for content in ["1", "22", "333"] {
        fs::write(scene.tree.join("b"), content).unwrap();
        write_and_back_up(&scene, "a", content);
    }
    expire(&scene.server);
    assert_eq!(states(&scene.node, &scene.tree.join("a")), "AII");
    let list = scene.node.home().join("inclexcl");
    fs::write(&list, format!("include {}/a SHORT\n", scene.tree.display())).unwrap();
    scene
        .backup()
        .counts(&[("rebound", 1), ("backed_up", 0), ("bytes_processed", 0)]);
    let class = |name: &str| {
        let rows = scene.node.list(&scene.tree.join(name), &[]);
        rows[0]["mgmt_class"].as_str().unwrap().to_owned()
    };
    assert_eq!((class("a"), class("b")), ("SHORT".to_owned(), "STANDARD".to_owned()));
    expire(&scene.server);
    // Inactive versions follow the class of the active version.
    assert_eq!(states(&scene.node, &scene.tree.join("a")), "A");
    assert_eq!(states(&scene.node, &scene.tree.join("b")), "AII");
    scene.backup().counts(&[("rebound", 0)]);

    // When a class is removed, its files are bound to the default class, at once and permanently.
    set_policy(&scene.server, &["remove-class", "SHORT"]);
    let warned = scene.node.backup(&scene.tree, &[]).expect(&[8]);
    warned.counts(&[("rebound", 1)]).says("SHORT");
    assert_eq!(class("a"), "STANDARD");
}

#[test]
fn another_default_class_rebinds_what_no_statement_binds() {
    let scene = Scene::new();
    write_and_back_up(&scene, "a", "1");
    scene.server.admin(&["policy", "class", "LONG", "--retonly", "365"]);
    set_policy(&scene.server, &["default", "LONG"]);
    // The file is rebound. So are the directories, because LONG keeps the last version longest.
    let outcome = scene.backup();
    assert!(outcome.count("rebound") >= 2, "{outcome}");
    let rows = scene.node.list(&scene.tree.join("a"), &[]);
    assert_eq!(rows[0]["mgmt_class"], "LONG");
}

#[test]
fn an_absolute_class_sends_everything_each_time() {
    let scene = Scene::with_files(5, 100);
    scene.backup();
    scene.backup().counts(&[("backed_up", 0)]);
    set_policy(&scene.server, &["class", "STANDARD", "--mode", "absolute"]);
    for _ in 0..2 {
        let outcome = scene.backup();
        assert!(outcome.count("backed_up") >= 5, "{outcome}");
    }
    set_policy(&scene.server, &["class", "STANDARD", "--mode", "modified"]);
    scene.backup().counts(&[("backed_up", 0)]);
}

#[test]
fn a_class_without_backup_copy_group_is_not_backed_up() {
    let scene = Scene::new();
    scene.server.admin(&["policy", "class", "NONE", "--no-backup"]);
    scene.server.admin(&["policy", "activate"]);
    let list = scene.node.home().join("inclexcl");
    fs::write(&list, format!("include {}/a NONE\n", scene.tree.display())).unwrap();
    fs::write(scene.tree.join("a"), "a").unwrap();
    fs::write(scene.tree.join("b"), "b").unwrap();
    let outcome = scene.node.backup(&scene.tree, &[]).expect(&[4]);
    let outcome = outcome.counts(&[("failed", 1)]);
    assert!(outcome.failures()[0].1.contains("NONE"), "{outcome}");
    assert_eq!(scene.node.list(&scene.tree.join("b"), &[]).len(), 1);
}

fn backs_up_growing(scene: &Scene, serialization: &str) -> Outcome {
    set_policy(&scene.server, &["class", "STANDARD", "--serialization", serialization]);
    let log = scene.tree.join("log");
    // On a busy machine the file grows only now and then, but each reading takes longer than that.
    fs::write(&log, vec![7; 128 << 20]).unwrap();
    // The system holds up who writes while much waits for the disk.
    fs::File::open(&log).unwrap().sync_all().unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::io::Write as _;
            let mut file = fs::File::options().append(true).open(&log).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                file.write_all(b"one more line\n").unwrap();
            }
        });
        let outcome = scene.node.backup(&scene.tree, &[]);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        outcome
    })
}

#[test]
fn a_file_that_changes_is_taken_as_its_class_says() {
    let scene = Scene::new();
    let fixed = backs_up_growing(&scene, "static").expect(&[4]);
    fixed.counts(&[("failed", 1), ("retries", 0)]);
    let shared = backs_up_growing(&scene, "shrdynamic").expect(&[0]);
    shared.counts(&[("failed", 0), ("retries", 4)]);
    let dynamic = backs_up_growing(&scene, "dynamic").expect(&[0]);
    dynamic.counts(&[("failed", 0), ("retries", 0)]);
    // The backed-up content is a part of the file. The next backup stores the whole file.
    let taken = fs::metadata(scene.restore("torn", &[]).join("log")).unwrap().len();
    assert!(taken >= 128 << 20, "{taken}");
    scene.backup().counts(&[("backed_up", 1)]);
    let log = |folder: &Path| fs::read(folder.join("log")).unwrap();
    assert!(log(&scene.restore("whole", &[])) == log(&scene.tree));
}

#[test]
fn domains_have_rules_of_their_own() {
    let scene = Scene::new();
    scene.server.admin(&["domain", "add", "BRIEF"]);
    let edit = ["policy", "--domain", "BRIEF", "class", "STANDARD", "--verexists", "1"];
    scene.server.admin(&edit);
    scene.server.admin(&["policy", "--domain", "BRIEF", "activate"]);
    write_and_back_up(&scene, "a", "1");
    write_and_back_up(&scene, "a", "22");
    let file = scene.tree.join("a");
    expire(&scene.server);
    assert_eq!(states(&scene.node, &file), "AI");
    let node = scene.server.admin(&["node", "set", "anna", "--domain", "BRIEF"]);
    assert_eq!(node["domain"], "BRIEF");
    expire(&scene.server);
    assert_eq!(states(&scene.node, &file), "A");
    // The data need not be sent again under the other rules.
    scene.backup().counts(&[("bytes_processed", 0)]);
    scene
        .server
        .try_admin(&["domain", "remove", "BRIEF"])
        .expect(&[12])
        .says("1 node;");
    let domains: Value = scene.server.admin(&["domain", "list"]);
    assert_eq!(domains[0]["nodes"], 1);
}

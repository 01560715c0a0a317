//! Restore drills: a random sample is restored to nowhere, and the server keeps the date.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use e2e::clock;
use serde_json::Value;

use crate::damage::{find_stored, flip};
use crate::scene::{Scene, assert_failure_of};

const FILES: usize = 12;
/// Size of a file: more than the catalogue itself may hold. The content is random, so that it is
/// stored uncompressed.
const FILE_BYTES: usize = 900_000;
const PATIENCE: Duration = Duration::from_secs(180);

fn scene() -> Scene {
    let scene = Scene::with_files(FILES, FILE_BYTES);
    scene.backup();
    scene
}

/// Runs a drill that must be good.
fn drill(scene: &Scene, words: &[&str]) -> Value {
    scene.node.run(&[&["verify", "--json"], words].concat()).expect(&[0]).json()
}

fn node(scene: &Scene) -> Value {
    scene.server.admin(&["node", "show", "anna"])
}

#[test]
fn a_good_drill_is_shown_wherever_somebody_looks() {
    let scene = scene();
    assert_eq!(node(&scene)["last_proven_restorable"], Value::Null);
    scene.node.run(&["status"]).expect(&[0]).says("Last proven restorable: never");
    let report = drill(&scene, &["--sample", "5"]);
    let drill = &report["drill"];
    assert_eq!(
        (&drill["good"], &drill["objects"], &report["versions"]),
        (&true.into(), &5.into(), &5.into())
    );
    assert_eq!(drill["bytes"], 5 * FILE_BYTES, "{report}");
    assert_eq!(report["bytes_verified"], 5 * FILE_BYTES, "{report}");
    let shown = node(&scene)["last_proven_restorable"].clone();
    assert_eq!(shown["time"], drill["time"]);
    assert_eq!((&shown["objects"], &shown["bytes"]), (&drill["objects"], &drill["bytes"]));
    assert_eq!(scene.server.admin(&["node", "list"])["last_proven_restorable"], shown);
    let status = scene.node.run(&["status", "--json"]).expect(&[0]).json();
    assert_eq!(status["last_proven_restorable"], shown);
    for stats in [
        scene.node.run(&["stats", "--json"]).expect(&[0]),
        scene.server.try_admin(&["stats"]).expect(&[0]),
    ] {
        assert_eq!(stats.json_lines()[0]["last_proven_restorable"], shown);
    }
    let log = scene.server.admin(&["log", "--limit", "1"]);
    assert_eq!((&log["what"], &log["actor"]), (&"restore drill good".into(), &"node anna".into()));
}

#[test]
fn a_sample_is_repeated_by_its_seed_and_no_file_is_left_out() {
    let scene = scene();
    // Old versions belong to the sample too.
    fs::write(scene.file(0), b"another content").expect("is written");
    scene.backup();
    let all = drill(&scene, &["--sample", "100%"]);
    assert_eq!(all["drill"]["objects"], FILES + 1, "{all}");
    let bytes = |words: &[&str]| drill(&scene, words)["drill"]["bytes"].as_u64().expect("a number");
    let more = drill(&scene, &["--sample", "1000"]);
    assert_eq!(more["drill"]["objects"], FILES + 1, "a small node has all in its sample");
    let archived = scene.file(1);
    scene.node.run(&["archive", archived.to_str().expect("text")]).expect(&[0]);
    let all = drill(&scene, &["--sample", "100%"]);
    assert_eq!(all["drill"]["objects"], FILES + 2, "archives belong to it, too: {all}");
    let size = drill(&scene, &["--sample", "2M"]);
    let objects = size["drill"]["objects"].as_u64().expect("a number");
    assert!((3..=4).contains(&objects), "three files have 2.7 MB, and one is small: {size}");
    let once = drill(&scene, &["--sample", "3", "--seed", "7"]);
    assert_eq!(once["drill"]["seed"], 7);
    assert_eq!(once["drill"]["bytes"], bytes(&["--sample", "3", "--seed", "7"]));
    // Each of the files comes up sooner or later: with one file a drill, the small one too.
    let of_seed = |seed: u32| bytes(&["--sample", "1", "--seed", &seed.to_string()]);
    let mut sizes = BTreeSet::new();
    let is_all = (0..1000).any(|seed| {
        sizes.insert(of_seed(seed));
        sizes.len() == 2
    });
    assert!(is_all, "{sizes:?}");
    assert_eq!(sizes, BTreeSet::from([15, FILE_BYTES as u64]));
    for wrong in ["0", "101%", "x", "-1"] {
        scene
            .node
            .run(&["verify", &format!("--sample={wrong}")])
            .expect(&[12])
            .says("5%");
    }
    scene.node.run(&["verify", "--sample", "1", "/"]).expect(&[12]);
    scene.node.run(&["verify", "--seed", "1"]).expect(&[12]);
}

#[test]
fn a_node_without_files_has_nothing_to_prove() {
    let scene = Scene::new();
    let nothing = scene.node.run(&["verify", "--sample", "5"]).expect(&[12]);
    nothing.says("the sample has no file");
    assert_eq!(node(&scene)["last_proven_restorable"], Value::Null);
    assert_eq!(node(&scene)["last_failed_drill"], Value::Null);
}

#[test]
fn a_damaged_file_makes_a_scheduled_drill_fail_and_leaves_the_date() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = scene();
    let event = run_schedule(&scene, "first");
    assert_eq!((&event["state"], &event["code"]), (&"completed".into(), &0.into()), "{event}");
    let before = node(&scene);
    let proven = before["last_proven_restorable"].clone();
    assert_eq!(proven["objects"], FILES, "{before}");
    assert_eq!(before["last_failed_drill"], Value::Null);
    let path = scene.file(5);
    let content = fs::read(&path).expect("is read");
    scene.server.terminate().expect(&[0]);
    let (pack, offset) = find_stored(scene.server.dir(), &content);
    flip(&pack, offset, 16);
    scene.server.restart();
    let event = run_schedule(&scene, "second");
    assert_eq!((&event["state"], &event["code"]), (&"failed".into(), &12.into()), "{event}");
    let log = event["log"].as_str().expect("a log");
    assert!(log.contains(path.to_str().expect("text")), "{log}");
    let after = node(&scene);
    assert_eq!(after["last_proven_restorable"], proven, "the date stays");
    let failed = &after["last_failed_drill"];
    assert!(failed["damaged"].as_u64().is_some_and(|files| files >= 1), "{after}");
    let reason = failed["reason"].as_str().expect("a reason");
    assert!(reason.contains("could not be restored: ") && reason.contains("file"), "{reason}");
    let by_hand = scene.node.run(&["verify", "--sample", "100%", "--json"]).expect(&[4]);
    assert_failure_of(&by_hand, &path);
    scene.node.run(&["status"]).expect(&[0]).says("Failed drill: ");
}

/// Defines a schedule with a drill of all files, runs it at the node's agent, and returns the event
/// with its log.
fn run_schedule(scene: &Scene, name: &str) -> Value {
    let server = &scene.server;
    let define = ["schedule", "define", name, "--action", "drill", "--object", "100%"];
    server.admin(&[&define[..], &["--every", "1m", "--window", "1m", "--spread", "0"]].concat());
    server.admin(&["schedule", "associate", name, "--node", "anna"]);
    let agent = scene.node.spawn_agent();
    let end = clock::now() + PATIENCE;
    let ended = loop {
        let events = server.try_admin(&["event", "list", "--schedule", name]).expect(&[0]);
        let ended = events.json_lines().into_iter().find(|event| event["ended"] != Value::Null);
        if let Some(ended) = ended {
            break ended;
        }
        assert!(clock::now() < end, "the drill takes too long");
        clock::pause(Duration::from_millis(200));
    };
    server.admin(&["schedule", "delete", name]);
    drop(agent.kill9());
    server.admin(&["event", "show", &ended["event"].to_string()])
}

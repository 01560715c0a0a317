//! `holdfast baseline`: what it measures and predicts, and that it leaves everything as it was.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::clock::pause;
use e2e::harness::{Outcome, succeeds};
use e2e::manifest::{Manifest, diff};
use e2e::nasty::Random;
use rustix::process::Signal;
use serde_json::Value;

use crate::scene::{Scene, manifest};

/// Makes a tree of text and noise, small and large files.
fn plant(top: &Path) {
    for folder in 0..30 {
        let folder = top.join(format!("folder-{folder}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..40 {
            let text = format!("{} has line {file}\n", folder.display()).repeat(20 + 5 * file);
            fs::write(folder.join(format!("file-{file}")), text).unwrap();
        }
    }
    fs::write(top.join("noise"), Random::new(7, b"noise").bytes(6 << 20)).unwrap();
}

fn scene() -> Scene {
    let scene = Scene::new();
    plant(&scene.tree);
    scene
}

fn measure(scene: &Scene, options: &[&str]) -> Outcome {
    let words = [&["baseline", scene.tree.to_str().unwrap(), "--quick"], options].concat();
    scene.node.run(&words)
}

/// The tree with the times of its directories, which a measurement must not change.
fn state(scene: &Scene) -> Manifest {
    manifest(&scene.tree)
}

fn number(document: &Value, path: &str) -> f64 {
    let value = document.pointer(path).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("{path} is missing in {document}"))
}

/// One measurement, because it takes most of a minute: what is in it, what it leaves, and what the
/// next backups say of it.
#[test]
fn a_host_is_measured_and_its_backups_are_compared_with_their_predictions() {
    let scene = scene();
    let before = state(&scene);
    let page = scene.scratch.join("page.html");
    let report = measure(&scene, &["--json", "--html", page.to_str().unwrap()])
        .expect(&[0])
        .json();
    assert_eq!(diff(&before, &state(&scene)), Vec::<String>::new());
    for rate in ["aes_gcm", "digest", "cut", "decompress"] {
        assert!(number(&report, &format!("/processor/{rate}/all")) > 1e6, "{rate}");
    }
    let network = &report["network"];
    assert_eq!(network["server_is_here"], true, "{network}");
    assert_eq!(network["measured"]["transfers"].as_array().unwrap().len(), 8, "{network}");
    assert!(network["measured"]["plain_refused"].is_null(), "{network}");
    let place = &report["places"][0];
    assert_eq!(place["tree"]["objects"], 1231);
    assert_eq!(place["tree"]["files"]["files"], 1201);
    assert!((number(place, "/sample/ratio_large/value") - 1.0).abs() < 0.01);
    assert!(number(place, "/sample/ratio_small/value") < 0.2);
    assert!(place["walks"].as_array().unwrap().iter().all(|walk| walk["objects"] == 1231));
    let works: Vec<_> = place["predictions"].as_array().unwrap().iter().collect();
    assert_eq!(works.len(), 5);
    for one in works {
        let at = |bound| number(one, &format!("/secs/{bound}"));
        assert!(at("least") > 0.0 && at("least") <= at("likely") && at("likely") <= at("most"));
    }
    if succeeds(Command::new("fio").arg("--version")) {
        let reads = place["disk"]["random_reads"].as_array().unwrap();
        assert_eq!(reads.len(), 8);
        assert!(reads.iter().all(|row| row["iops"].as_f64().unwrap() > 0.0), "{reads:?}");
    } else {
        e2e::skip::say("fio is not installed");
        assert!(report["remarks"].to_string().contains("install the package fio"));
    }
    let page = fs::read_to_string(page).unwrap();
    for words in ["<svg", "Predictions for", "objects per second", "threads", "</html>"] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("<script") && !page.contains("src="), "the page needs nothing else");
    let first = scene.backup();
    assert!(first.stderr.contains("Predicted: "), "{}", first.stderr);
    // The shell completes the name of a directory with a slash.
    scene.node.backup(&scene.tree.join(""), &[]).expect(&[0]);
    // A limit that somebody gives once says nothing about the host.
    let limited = scene.node.backup(&scene.tree, &["--limit-rate", "100M"]).expect(&[0]);
    assert!(!limited.stderr.contains("Predicted"), "{}", limited.stderr);
    let out = scene.scratch.folder("out");
    let restored = scene.node.restore(&scene.tree, &out, &[]).expect(&[0]);
    assert!(restored.stderr.contains("Predicted: "), "{}", restored.stderr);
    // Objects that exist are not restored, so this says nothing about restores.
    let again = scene.node.restore(&scene.tree, &out, &[]).expect(&[0]);
    assert!(!again.stderr.contains("Predicted"), "{}", again.stderr);
    let status = scene.node.run(&["status", "--json"]).expect(&[0]).json();
    let compared = status["predictions"].as_array().unwrap();
    let works: Vec<_> = compared.iter().map(|one| one["work"].as_str().unwrap()).collect();
    assert_eq!(works, ["first", "unchanged", "restore"], "{status}");
    for one in compared {
        assert!(one["predicted_secs"].as_f64().unwrap() > 0.0 && one["elapsed_secs"].is_number());
    }
    scene
        .node
        .run(&["status"])
        .expect(&[0])
        .says("First backup")
        .says("Predicted, s");
    let trend = scene.node.run(&["baseline", "--compare", "--json"]).expect(&[0]).json();
    assert_eq!(trend["columns"].as_array().unwrap().len(), 1, "{trend}");
    scene.node.run(&["baseline", "--compare"]).expect(&[0]).says("BLAKE3");
    // A backup of something else has no prediction.
    let other = scene.scratch.folder("source/other");
    let other = scene.node.backup(&other, &[]).expect(&[0]);
    assert!(!other.stderr.contains("Predicted"), "{}", other.stderr);
}

#[test]
fn whoever_interrupts_it_finds_nothing_left() {
    let scene = scene();
    let before = state(&scene);
    let words = ["baseline", scene.tree.to_str().unwrap()];
    for after in [500, 3_000] {
        let running = scene.node.spawn(&words);
        running.await_handler(Signal::INT);
        pause(Duration::from_millis(after));
        running.signal(Signal::INT);
        let ended = running.wait().expect(&[12]);
        assert!(ended.stderr.contains("nothing is left behind"), "{}", ended.stderr);
        assert_eq!(diff(&before, &state(&scene)), Vec::<String>::new());
    }
}

#[test]
fn what_cannot_be_measured_is_said() {
    let mut scene = scene();
    scene
        .node
        .run(&["baseline", "/does/not/exist", "--quick"])
        .expect(&[12])
        .says("/does/not/exist");
    let file = scene.tree.join("noise");
    scene
        .node
        .run(&["baseline", file.to_str().unwrap()])
        .expect(&[12])
        .says("name a directory");
    let words = ["baseline", scene.tree.to_str().unwrap(), "--quick", "--html"];
    for page in ["/does/not/exist/page.html", "/tmp"] {
        let refused = scene.node.run(&[&words[..], &[page]].concat()).expect(&[12]);
        assert!(refused.says(page).stdout.is_empty(), "nothing was measured");
    }
    // Without the server everything else is measured.
    scene.server.kill9();
    let report = measure(&scene, &["--json"]).expect(&[0]).json();
    assert!(report["network"]["measured"].is_null());
    assert!(
        report["remarks"].to_string().contains("network is not in the predictions"),
        "{report}"
    );
    assert!(number(&report, "/places/0/predictions/0/secs/likely") > 0.0);
}

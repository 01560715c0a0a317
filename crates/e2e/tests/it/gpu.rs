//! Compression and checks by a GPU: the same data comes back, with a GPU and without one.

mod imitation;

use std::fs;
use std::path::Path;

use e2e::harness::Outcome;
use e2e::manifest::assert_same;
use e2e::nasty::Random;
use serde_json::{Value, json};

use crate::scene::{Scene, manifest};

/// Size of the data, in bytes: several batches of a GPU.
const BYTES: usize = 80 << 20;

fn plant(tree: &Path) {
    let mut random = Random::new(11, b"gpu");
    fs::write(tree.join("text"), random.text(BYTES)).unwrap();
    fs::write(tree.join("noise"), random.bytes(5 << 20)).unwrap();
    for file in 0..300 {
        fs::write(tree.join(format!("small-{file}")), random.text(file * 10)).unwrap();
    }
}

/// Returns true if the program finds no GPU that works; then the test is about that.
fn is_without_gpu(messages: &Outcome) -> bool {
    messages.stderr.contains("no GPU")
}

/// Puts `line` before all else in the configuration of the node.
fn configure(scene: &Scene, line: &str) {
    let path = scene.node.home().join("client.toml");
    let own = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{line}\n{own}")).unwrap();
}

fn compressors(report: &Outcome) -> Vec<Value> {
    let compressors = report.json()["compressors"].as_array().unwrap().clone();
    compressors.iter().map(|one| one["name"].clone()).collect()
}

#[test]
fn a_backup_by_the_gpu_has_the_same_data_and_says_who_compressed() {
    let scene = Scene::new();
    plant(&scene.tree);
    let report = scene.node.backup(&scene.tree, &["--compression", "gpu"]).expect(&[0]);
    if is_without_gpu(&report) {
        assert_eq!(report.messages().len(), 1, "one line says what is missing: {report}");
        assert_eq!(compressors(&report), [json!("threads")], "{report}");
    } else {
        assert!(compressors(&report).contains(&json!("gpu")), "{report}");
    }
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
    scene.node.run(&["verify", "--data"]).expect(&[0]);
    scene
        .node
        .backup(&scene.tree, &["--compression", "gpu"])
        .expect(&[0])
        .counts(&[("backed_up", 0)]);
}

#[test]
fn who_does_not_ask_for_a_gpu_hears_nothing_of_one() {
    for how in ["auto", "standard", "threads"] {
        let scene = Scene::new();
        plant(&scene.tree);
        configure(&scene, "nvcomp = \"/nowhere/libnvcomp.so.6\"");
        let report = scene.node.backup(&scene.tree, &["--compression", how]).expect(&[0]);
        assert!(report.messages().is_empty(), "{how}: {report}");
        assert_eq!(compressors(&report), [json!("threads")], "{how}: {report}");
    }
}

/// A user who asks for a GPU hears that there is none, even if nothing else is written.
#[test]
fn a_library_that_is_missing_costs_one_line_and_nothing_else() {
    let scene = Scene::new();
    plant(&scene.tree);
    configure(&scene, "nvcomp = \"/nowhere/libnvcomp.so.6\"");
    for (seed, options) in
        [(1, &["--compression", "gpu"][..]), (2, &["--compression", "gpu", "--quiet"][..])]
    {
        fs::write(scene.tree.join("new"), Random::new(seed, b"new").text(5 << 20)).unwrap();
        let report = scene.node.backup(&scene.tree, options).expect(&[0]);
        let lines = report.messages();
        assert!(lines.len() == 1 && lines[0].contains("no GPU compresses; threads do"), "{report}");
    }
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

/// Returns the outcome of an audit of all data, without its time.
fn audit(scene: &Scene) -> Value {
    let mut outcome = scene.server.admin(&["audit", "--data"]);
    outcome["elapsed_secs"] = Value::Null;
    outcome
}

/// Lets the server use a GPU from its next start on. Puts `line` before all else in its
/// configuration.
fn allow_gpu(scene: &Scene, line: &str) {
    let config = scene.server.dir().join("server.toml");
    let own = fs::read_to_string(&config).unwrap();
    assert!(own.contains("gpu = false"), "{own}");
    fs::write(&config, format!("{line}\n{}", own.replace("gpu = false", "gpu = true"))).unwrap();
}

#[test]
fn an_audit_with_a_gpu_finds_what_an_audit_without_one_finds() {
    let mut scene = Scene::new();
    plant(&scene.tree);
    scene.backup();
    let before = audit(&scene);
    allow_gpu(&scene, "");
    scene.server.restart();
    assert_eq!(audit(&scene), before);
}

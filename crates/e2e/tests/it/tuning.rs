//! Tuning changes the amount and the order of sending, never the restored content.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use e2e::harness::{Outcome, binary};
use e2e::manifest::{assert_same, diff};

use crate::scene::{Scene, manifest};

const PARTS: u32 = 64;
const PART_BYTES: u64 = 1 << 20;
const SLOW_BYTES_PER_SEC: u64 = 4 << 20;

/// Makes a tree with text, which compresses well, and with two equal files.
fn plant(top: &Path) {
    for folder in 0..40 {
        let folder = top.join(format!("folder-{folder}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..20 {
            let text = format!("{} has line {file}\n", folder.display()).repeat(200);
            fs::write(folder.join(format!("file-{file}")), text).unwrap();
        }
    }
    let large = "a large file that is there twice\n".repeat(40_000);
    fs::write(top.join("one"), &large).unwrap();
    fs::write(top.join("two"), &large).unwrap();
}

/// Backs up a new tree with `options`, and with `config` after the node's own configuration. Then
/// restores the tree.
#[track_caller]
fn round_trip(options: &[&str], config: &str) -> Outcome {
    let scene = Scene::new();
    plant(&scene.tree);
    let path = scene.node.home().join("client.toml");
    let own = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{own}{config}")).unwrap();
    let outcome = scene.node.backup(&scene.tree, options).expect(&[0]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
    // With any tuning, unchanged objects are not sent.
    scene.node.backup(&scene.tree, options).expect(&[0]).counts(&[("backed_up", 0)]);
    outcome
}

fn sent(outcome: &Outcome) -> u64 {
    outcome.json()["bytes_transferred"].as_u64().unwrap()
}

#[test]
fn compression_decides_how_much_is_sent() {
    let [none, fast, standard, hard] =
        ["none", "-5", "standard", "9"].map(|how| sent(&round_trip(&["--compression", how], "")));
    assert!(none > fast && fast > standard && standard > hard, "{none} {fast} {standard} {hard}");
    round_trip(&["--compression", "auto"], "");
}

/// Returns the number of bytes that a first backup of parts of a program sends.
fn sent_of_program(how: &str, link_bytes_per_sec: u64, options: &[&str]) -> u64 {
    let scene = Scene::new();
    let program = File::open(binary()).unwrap();
    for part in 0..PARTS {
        let mut file = File::create(scene.tree.join(format!("part-{part}"))).unwrap();
        io::copy(&mut (&program).take(PART_BYTES), &mut file).unwrap();
    }
    let proxy = scene.enrol_behind_proxy();
    proxy.weather().carry(link_bytes_per_sec);
    let options = [&["--compression", how], options].concat();
    let outcome = scene.node.backup(&scene.tree, &options).expect(&[0]);
    proxy.weather().carry(0);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
    sent(&outcome)
}

/// A slow link seems fast until all buffers on the way are full. The client must not compress less
/// because of that.
#[test]
fn a_slow_link_makes_nothing_lighter() {
    let standard = sent_of_program("standard", 0, &[]);
    let auto = sent_of_program("auto", SLOW_BYTES_PER_SEC, &[]);
    assert!(auto < standard + standard / 20, "bytes sent: auto {auto}, standard {standard}");
    // A limit is a slow link. A machine under load takes a while to notice.
    let limited = sent_of_program("auto", 0, &["--limit-rate-send", "4M"]);
    assert!(limited < standard + standard / 5, "bytes sent: {limited}, standard {standard}");
}

#[test]
fn without_deduplication_the_client_sends_everything() {
    let with = sent(&round_trip(&["--compression", "none"], ""));
    let options = ["--compression", "none", "--deduplication", "no"];
    let without = sent(&round_trip(&options, ""));
    assert!(
        without > with + (1 << 20),
        "bytes sent: {without} without deduplication, {with} with it"
    );
}

#[test]
fn transactions_close_by_bytes_and_objects() {
    round_trip(&["--txngroupmax", "1", "--txnbytelimit", "1M"], "");
    round_trip(&["--txngroupmax", "7", "--resourceutilization", "5"], "");
    // This is what sites of TSM have set.
    round_trip(&["--txnbytelimit", "10G"], "");
}

#[test]
fn the_folder_of_the_node_holds_defaults() {
    let none = sent(&round_trip(&["--compression", "none"], ""));
    let section = "\n[tuning]\ncompression = \"none\"\nresource_utilization = 1\n\
                   transaction_objects = 100\ntransaction_bytes = \"64M\"\n\
                   socket_buffer_bytes = \"64K\"\n";
    let by_section = sent(&round_trip(&[], section));
    assert!(
        by_section.abs_diff(none) < none / 20,
        "bytes sent: {by_section} by the section, {none} by the option"
    );
    assert!(sent(&round_trip(&["--compression", "standard"], section)) < none / 4);
}

#[test]
fn a_wrong_setting_is_named() {
    let scene = Scene::new();
    let path = scene.node.home().join("client.toml");
    let own = fs::read_to_string(&path).unwrap();
    for section in ["compresion = \"auto\"", "compression = \"hard\""] {
        fs::write(&path, format!("{own}\n[tuning]\n{section}\n")).unwrap();
        let refused = scene.node.backup(&scene.tree, &[]).expect(&[12]);
        assert!(refused.stderr.contains("client.toml"), "{refused}");
        assert!(refused.stderr.contains("compres"), "{refused}");
    }
}

#[test]
fn the_cache_lies_where_it_is_told_to() {
    let scene = Scene::with_files(50, 5000);
    let cache = scene.scratch.folder("cache");
    let path = scene.node.home().join("client.toml");
    let own = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("dedup_cache_folder = \"{}\"\n{own}", cache.display())).unwrap();
    scene.backup();
    let files: Vec<_> = fs::read_dir(&cache).unwrap().map(|file| file.unwrap()).collect();
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].metadata().unwrap().len(), 1 << 20);
}

/// The file needs more than 70 transactions, because its content does not compress. The server
/// remembers 64.
#[test]
fn a_file_may_span_more_transactions_than_the_server_remembers() {
    for deduplication in ["yes", "no"] {
        let scene = Scene::with_files(1, 70 << 20);
        let options = ["--txnbytelimit", "1M", "--deduplication", deduplication];
        let outcome = scene.node.backup(&scene.tree, &options).expect(&[0]);
        outcome.counts(&[("failed", 0), ("retries", 0)]);
        // The file system may give so large a file another block for its list of extents.
        let lines = diff(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
        assert_eq!(lines, [""; 0]);
    }
}
